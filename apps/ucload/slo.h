/* SPDX-License-Identifier: BSD-3-Clause */
/* A latency goal, and the search for the highest rate that meets it. */
#ifndef UCLOAD_SLO_H
#define UCLOAD_SLO_H

#include <stdbool.h>

#include "load/histogram.h"

/* Maximum number of rates that a search tries. */
#define SLO_TRIES_MAX 24

struct slo {
    double percent; /* percentile; 0: the mean */
    uint64_t limit_ns;
    char text[32]; /* as given on the command line */
};

/* Parses "p99<200us", "p99.9<1ms", "mean<1ms", "max<10ms". Returns 0 or -1. */
int slo_parse(struct slo *slo, const char *text);

/* The value that the goal limits, in nanoseconds. */
uint64_t slo_value(const struct slo *slo, const struct load_histogram *latency);

/*
 * The search doubles the rate until the goal is missed, then bisects. Call slo_next() for a rate
 * and slo_learn() with the result until slo_next() returns 0.
 */
struct slo_search {
    double kept;   /* highest rate that met the goal; 0: none yet */
    double missed; /* lowest rate that missed it; 0: none yet */
    double start;
    unsigned tries;
};

void slo_start(struct slo_search *search, double first_rate);

/* The next rate to try, or 0 at the end of the search. */
double slo_next(const struct slo_search *search);

void slo_learn(struct slo_search *search, double rate, bool kept);

#endif
