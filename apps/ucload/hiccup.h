/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hiccup detection: how often and how long a runnable thread does not run on a core, because the
 * hypervisor has stopped the machine or another process runs.
 *
 * A thread per watched core sleeps for two milliseconds at a time. Waking more than one millisecond
 * late is a hiccup, which also delays the measured requests.
 */
#ifndef UCLOAD_HICCUP_H
#define UCLOAD_HICCUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cores.h"

#define HICCUP_CORES_MAX 16

/* The result for all watched cores. */
struct hiccups {
    uint64_t count;
    uint64_t longest_ns;
    uint64_t worst_ns; /* sum of the core with the largest sum */
};

struct hiccup_core {
    struct hiccup_watch *watch;
    pthread_t thread;
    unsigned core;
    uint64_t count, longest_ns, total_ns;
};

struct hiccup_watch {
    pthread_mutex_t lock; /* protects the following fields and the cores' counters */
    uint64_t from_ns;     /* earlier hiccups are not counted */
    struct hiccup_core cores[HICCUP_CORES_MAX];
    unsigned count; /* watched cores */
    atomic_bool stop;
};

/*
 * Starts to watch these cores, at most HICCUP_CORES_MAX. Returns 0, or a negative errno value if a
 * core cannot be watched. hiccup_close() is required in both cases.
 */
int hiccup_open(struct hiccup_watch *watch, const struct cores *cores);

void hiccup_close(struct hiccup_watch *watch);

/* Resets the counters and counts hiccups that start at from_ns of CLOCK_MONOTONIC or later. */
void hiccup_start(struct hiccup_watch *watch, uint64_t from_ns);

/* The hiccups since then. */
struct hiccups hiccup_read(struct hiccup_watch *watch);

/* Counts a hiccup if a thread woke late. Called by the watching threads. */
void hiccup_woke(struct hiccup_core *core, uint64_t due_ns, uint64_t now_ns);

#endif
