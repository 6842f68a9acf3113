/* SPDX-License-Identifier: BSD-3-Clause */
/* The time series of a measurement: throughput and latencies of each second. */
#ifndef UCLOAD_SERIES_H
#define UCLOAD_SERIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "load/histogram.h"

/* Intervals that are kept, those of a day; later ones are only written to the log. */
#define SERIES_POINTS_MAX 86400

struct series_point {
    double from_s, seconds; /* since the end of the warm-up */
    uint64_t requests;
    double mean_ns;
    uint64_t p50_ns, p99_ns, max_ns;
};

struct series {
    struct series_point *points;
    unsigned count, capacity;
    uint64_t left_out; /* intervals beyond SERIES_POINTS_MAX, or without memory */
    FILE *log;         /* HdrHistogram's, or null */
    bool log_failed;
    bool progress; /* print a line on stderr for each interval */
};

/* Begins a series; log is a file to be written, or null. series_close() is required. */
void series_open(struct series *series, FILE *log, bool progress);

/* Writes the heads of the log for a measurement that starts at this time. */
void series_begin(struct series *series, double epoch_s);

/* Adds an interval that starts from_s after the begin. */
void series_add(struct series *series, double from_s, double seconds,
                const struct load_histogram *latency);

/* Prints the intervals as a JSON array. */
void series_json(FILE *to, const struct series *series);

/* Closes the log. Returns 0, or -1 with errno set if it could not be written. */
int series_close(struct series *series);

#endif
