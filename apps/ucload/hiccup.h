/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the machine does to a measurement: how often, and for how long, a thread that wants to run
 * on a core cannot, because the host has stopped the machine or somebody else runs.
 *
 * On each core that is watched a thread sleeps for two milliseconds at a time. When it wakes more
 * than one too late, that was a hiccup: what is measured meanwhile has waited as well.
 */
#ifndef UCLOAD_HICCUP_H
#define UCLOAD_HICCUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cores.h"

#define HICCUP_CORES_MAX 16

/* Of all cores that were watched. */
struct hiccups {
    uint64_t count;
    uint64_t longest_ns;
    uint64_t worst_ns; /* all of that core which had most */
};

struct hiccup_core {
    struct hiccup_watch *watch;
    pthread_t thread;
    unsigned core;
    uint64_t count, longest_ns, total_ns;
};

struct hiccup_watch {
    pthread_mutex_t lock; /* of what follows, and of what the cores have counted */
    uint64_t from_ns;     /* what begins before does not count */
    struct hiccup_core cores[HICCUP_CORES_MAX];
    unsigned count; /* cores that are watched */
    atomic_bool stop;
};

/*
 * Starts to watch these cores, at most HICCUP_CORES_MAX of them. Returns 0, or a negative errno
 * value if one of them cannot be. Close it anyway.
 */
int hiccup_open(struct hiccup_watch *watch, const struct cores *cores);

void hiccup_close(struct hiccup_watch *watch);

/* Forgets what was, and counts what begins at from_ns of CLOCK_MONOTONIC or later. */
void hiccup_start(struct hiccup_watch *watch, uint64_t from_ns);

/* What has been since then. */
struct hiccups hiccup_read(struct hiccup_watch *watch);

/* Counts one if a thread woke so much too late; what hiccup_open()'s threads call. */
void hiccup_woke(struct hiccup_core *core, uint64_t due_ns, uint64_t now_ns);

#endif
