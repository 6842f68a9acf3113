/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows, JSON, medians, progress. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvbench/report.h"

struct report_row *report_add(struct report *report, double value, const char *unit,
                              unsigned median_of, const char *name, ...)
{
    struct report_row *row;
    va_list args;

    if (report->count == REPORT_ROWS_MAX)
        report->left_out++;
    else
        report->count++;
    row = &report->rows[report->count - 1];
    memset(row, 0, sizeof(*row));
    row->value = value;
    row->unit = unit;
    row->median_of = median_of;
    va_start(args, name);
    vsnprintf(row->name, sizeof(row->name), name, args);
    va_end(args);
    return row;
}

void report_compare(struct report_row *row, const char *name, double value, bool less)
{
    struct report_compared *compared;

    if (row->compared_count == REPORT_COMPARED_MAX)
        return;
    compared = &row->compared[row->compared_count++];
    snprintf(compared->name, sizeof(compared->name), "%s", name);
    compared->value = value;
    compared->inverse = less;
}

/* JSON has no words for what is not a number. */
static void json_number(FILE *to, double value)
{
    if (isfinite(value))
        fprintf(to, "%.6g", value);
    else
        fputs("null", to);
}

static void json_compared(const struct report_row *row, FILE *to, bool ratios)
{
    for (unsigned i = 0; i < row->compared_count; i++) {
        const struct report_compared *compared = &row->compared[i];
        double value = compared->value;
        if (ratios)
            value = compared->inverse ? compared->value / row->value : row->value / compared->value;
        fprintf(to, "%s\"%s\": ", i > 0 ? ", " : "", compared->name);
        json_number(to, value);
    }
}

bool report_json(const struct report *report, FILE *to)
{
    fputs("[", to);
    for (unsigned i = 0; i < report->count; i++) {
        const struct report_row *row = &report->rows[i];
        fprintf(to, "%s\n{\"suite\": \"engine\", \"case\": \"%s\", \"value\": ", i > 0 ? "," : "",
                row->name);
        json_number(to, row->value);
        fprintf(to, ", \"unit\": \"%s\", \"median_of\": %u, \"compared_to\": {", row->unit,
                row->median_of);
        json_compared(row, to, false);
        fputs("}, \"ratio\": {", to);
        json_compared(row, to, true);
        fputs("}}", to);
    }
    fputs("\n]\n", to);
    return fflush(to) == 0 && !ferror(to);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double report_median(double *values, unsigned n)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void report_progress(const char *format, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    if (format) {
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
    }
    fflush(stderr);
}
