/* SPDX-License-Identifier: BSD-3-Clause */
/* All threads of load: their start, the phases they go through together, their end. */
#ifndef UCLOAD_RUN_H
#define UCLOAD_RUN_H

#include <pthread.h>
#include <semaphore.h>

#include "client.h"
#include "hiccup.h"
#include "options.h"

#define RUN_THREADS_MAX 64

struct run_thread {
    struct client client;
    pthread_t id;
    struct run *run;
};

/* What a phase came to. */
struct result {
    struct tally tally;
    double seconds;                /* from when replies count to the last of them */
    double offered;                /* requests per second in an open loop, else 0 */
    struct load_histogram latency; /* nanoseconds */
    struct hiccups hiccups;        /* of the machine, meanwhile */
};

struct run {
    struct plan plan;
    struct run_thread *threads;
    unsigned thread_count;
    struct gang gang;
    struct hiccup_watch watch;
    sem_t ended;
    bool progress;
    bool misused;                       /* the error is one of the command line */
    char error[CLIENT_ERROR_MAX + 100]; /* of the thread that failed first */
};

/* Prepares everything and connects, all threads at once. Returns 0, or -1 with run->error set;
 * close it anyway. */
int run_open(struct run *run, const struct options *options);

void run_close(struct run *run);

/* Stores the value of every key, and counters if the mix has incr. The same results. */
int run_store(struct run *run, struct result *result);

/*
 * What the server has counted of its busy loops since it started, by `stats ustack`. Returns 0, or
 * -1 with run->error set.
 */
int run_ask(struct run *run, uint64_t *cycles);

/* Requests answered since the start, of all phases. */
uint64_t run_answered(const struct run *run);

/* Time-stamp counter ticks of busy turns since the start; 0 with kernel sockets. */
uint64_t run_cycles(const struct run *run);

/*
 * One measurement; `rate` is per second, 0 for a closed loop. Returns 0, or -1 with run->error set;
 * *result has what came until then.
 */
int run_measure(struct run *run, const struct options *options, double rate, uint64_t salt,
                struct result *result);

#endif
