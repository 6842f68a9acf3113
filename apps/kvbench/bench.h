/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modes of kvbench, each of which prints a table and adds rows, and functions that they share.
 */
#ifndef KVBENCH_BENCH_H
#define KVBENCH_BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "kvbench/options.h"
#include "kvbench/report.h"

/* Each returns false after an error message on standard error. */
bool speed_run(const struct options *options, struct report *report, FILE *out);
bool growth_run(const struct options *options, struct report *report, FILE *out);
bool memory_run(const struct options *options, struct report *report, FILE *out);
bool ratio_run(const struct options *options, struct report *report, FILE *out);
bool trace_run(const struct options *options, FILE *out);

/* Prints an error message on standard error; returns false. */
__attribute__((format(printf, 1, 2))) bool bench_fail(const char *format, ...);

/* Whether so many bytes of memory are free; prints a message if not. */
bool bench_memory_suffices(double bytes, const char *for_what);

/* Stores the keys 0 to count - 1 in a table. False with a message. */
bool bench_fill(const struct table_ops *ops, void *table, const struct options *options,
                uint64_t count);

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
