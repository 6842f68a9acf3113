/* SPDX-License-Identifier: BSD-3-Clause */
/* What the modes of kvbench share: each runs, prints its table and adds its rows. */
#ifndef KVBENCH_BENCH_H
#define KVBENCH_BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "kvbench/options.h"
#include "kvbench/report.h"

/* Each returns false after it has said on standard error what went wrong. */
bool speed_run(const struct options *options, struct report *report, FILE *out);
bool growth_run(const struct options *options, struct report *report, FILE *out);
bool memory_run(const struct options *options, struct report *report, FILE *out);
bool ratio_run(const struct options *options, struct report *report, FILE *out);
bool trace_run(const struct options *options, FILE *out);

/* Says on standard error what went wrong; returns false. */
__attribute__((format(printf, 1, 2))) bool bench_fail(const char *format, ...);

/* Whether there are so many bytes of free memory; says so if not. */
bool bench_memory_there(double bytes, const char *for_what);

/* Puts the keys from 0 to count - 1 into a table. False with a message. */
bool bench_fill(const struct table_ops *ops, void *table, const struct options *options,
                uint64_t count);

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
