/* SPDX-License-Identifier: BSD-3-Clause */
/* All load threads: start, common phases, end. */
#ifndef UCLOAD_RUN_H
#define UCLOAD_RUN_H

#include <pthread.h>
#include <semaphore.h>

#include "client.h"
#include "coordinator.h"
#include "hiccup.h"
#include "options.h"
#include "result.h"
#include "series.h"

#define RUN_THREADS_MAX 64

struct run_thread {
    struct client client;
    pthread_t id;
    struct run *run;
};

struct run {
    struct plan plan;
    struct run_thread *threads;
    unsigned thread_count;
    struct thread_group group;
    struct hiccup_watch watch;
    sem_t ended;
    bool progress;
    bool misused; /* the error is a wrong option */
    bool is_open; /* all connections were opened */
    /* Called about once per second of a phase; false ends the run. Null: nothing to look at. */
    bool (*look)(struct run *run, void *arg);
    void *look_arg;
    struct coordinator agents;         /* --agents: */
    bool distributed;                  /* they do the work, and there are no threads here */
    char error[COORDINATOR_ERROR_MAX]; /* of the first thread that failed */
};

/*
 * Prepares everything and opens all connections. Returns 0, or -1 with run->error set; run_close()
 * is required in both cases.
 */
int run_open(struct run *run, const struct options *options);

void run_close(struct run *run);

/*
 * Stores the value of every key, and counters if the mix has incr or decr: part `part` of `parts`
 * of them. Returns as run_open().
 */
int run_store(struct run *run, unsigned part, unsigned parts, struct result *result);

/* Reads the server's `cycles_busy` from `stats ustack`. Returns 0, or -1 with run->error set. */
int run_server_cycles(struct run *run, uint64_t *cycles);

/* Requests of this phase that were answered; callable while it runs. */
uint64_t run_shown(const struct run *run);

/* Requests answered since the start, in all phases. */
uint64_t run_answered(const struct run *run);

/* Time stamp counter ticks of busy turns since the start; 0 with kernel sockets. */
uint64_t run_cycles(const struct run *run);

/*
 * Runs one measurement; `rate` is in requests per second, 0 for a closed loop. `salt` selects the
 * random sequence; series, if not null, gets an interval of each second. Returns 0, or -1 with
 * run->error set and the partial result in *result.
 */
int run_measure(struct run *run, const struct options *options, double rate, uint64_t salt,
                struct series *series, struct result *result);

#endif
