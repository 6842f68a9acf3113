/* SPDX-License-Identifier: BSD-3-Clause */
/* A latency goal, and the search for the highest rate that keeps it. */
#ifndef UCLOAD_SLO_H
#define UCLOAD_SLO_H

#include <stdbool.h>

#include "load/histogram.h"

/* Rates that a search tries at most. */
#define SLO_TRIES_MAX 24

struct slo {
    double percent; /* of replies that have to be faster; 0: their mean */
    uint64_t limit_ns;
    char text[32]; /* as it was given */
};

/* Reads "p99<200us", "p99.9<1ms", "mean<1ms", "max<10ms". Returns 0, or -1. */
int slo_parse(struct slo *slo, const char *text);

/* What the goal is about, in nanoseconds. */
uint64_t slo_value(const struct slo *slo, const struct load_histogram *latency);

/*
 * The search: doubles the rate until the goal is missed, then halves the interval that is left.
 * Call slo_next() for a rate to try and slo_learn() with the outcome until slo_next() returns 0.
 */
struct slo_search {
    double kept;   /* the highest rate that kept the goal; 0: none yet */
    double missed; /* the lowest that did not; 0: none yet */
    double start;
    unsigned tries;
};

void slo_start(struct slo_search *search, double first_rate);

/* The rate to try, or 0: the search is over. */
double slo_next(const struct slo_search *search);

void slo_learn(struct slo_search *search, double rate, bool kept);

#endif
