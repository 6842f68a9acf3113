/* SPDX-License-Identifier: BSD-3-Clause */
/* The result of a phase, and results of several load generators added up. */
#ifndef UCLOAD_RESULT_H
#define UCLOAD_RESULT_H

#include "hiccup.h"
#include "pipeline.h"

#define RESULT_EXAMPLE_MAX 512

struct result {
    struct tally tally;
    double seconds;                /* from the end of the warm-up to the last reply */
    double offered;                /* requests per second of an open loop; closed loop: 0 */
    double cpu_s;                  /* CPU time of the process; CPU time of all agents */
    struct load_histogram latency; /* nanoseconds, of all operations */
    struct load_histogram by_op[OP_COUNT];
    struct hiccups hiccups;           /* during the measurement */
    char example[RESULT_EXAMPLE_MAX]; /* the first wrong or refused reply, or empty */
};

void result_clear(struct result *result);

/*
 * Adds what another load generator has measured at the same time: counts, rates and histograms
 * without `latency`, which result_complete() makes; the longest of times.
 */
void result_add(struct result *to, const struct result *from);

/* Adds up the histograms of the operations. */
void result_complete(struct result *result);

#endif
