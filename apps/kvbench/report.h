/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results as rows of a JSON list: suite, case, value, unit, number of measurements of which the
 * value is the median, and compared values.
 */
#ifndef KVBENCH_REPORT_H
#define KVBENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#define REPORT_ROWS_MAX 512
#define REPORT_NAME_MAX 64
#define REPORT_COMPARED_MAX 12

struct report_compared {
    char name[REPORT_NAME_MAX];
    double value;
    bool inverse; /* smaller is better: the ratio is compared / value */
};

struct report_row {
    char name[REPORT_NAME_MAX];
    double value;
    const char *unit;
    unsigned median_of;
    unsigned compared_count;
    struct report_compared compared[REPORT_COMPARED_MAX];
};

struct report {
    unsigned count;
    unsigned left_out; /* rows beyond REPORT_ROWS_MAX */
    struct report_row rows[REPORT_ROWS_MAX];
};

/* Adds a row; the name is formatted. Never null: beyond the bound the last row is used again. */
__attribute__((format(printf, 5, 6))) struct report_row *report_add(struct report *report,
                                                                    double value, const char *unit,
                                                                    unsigned median_of,
                                                                    const char *name, ...);

/* Adds a compared value to a row. less: smaller values are better. */
void report_compare(struct report_row *row, const char *name, double value, bool less);

/* Writes all rows as a JSON list. False if that failed. */
bool report_json(const struct report *report, FILE *to);

/* The median of n > 0 values; sorts them. */
double report_median(double *values, unsigned n);

/* Replaces the progress line, if standard error is a terminal; null removes it. */
__attribute__((format(printf, 1, 2))) void report_progress(const char *format, ...);

#endif
