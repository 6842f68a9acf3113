/* SPDX-License-Identifier: BSD-3-Clause */
/* The time series of a measurement; see series.h. */
#include "series.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "mcproto/mcproto.h"

#define CAPACITY_MIN 64u

void series_open(struct series *series, FILE *log, bool progress)
{
    *series = (struct series){.log = log, .progress = progress};
}

void series_begin(struct series *series, double epoch_s)
{
    if (!series->log)
        return;
    fprintf(series->log, "#[Histogram log format version 1.3]\n");
    fprintf(series->log, "#[StartTime: %.3f (seconds since epoch)]\n", epoch_s);
    fprintf(series->log, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
                         "\"Interval_Compressed_Histogram\"\n");
}

/* Writes a line of HdrHistogram's log. Returns 0, or -1. */
static int write_log(FILE *log, const struct series_point *point,
                     const struct load_histogram *latency)
{
    uint8_t *binary = malloc(LOAD_HISTOGRAM_ENCODED_MAX);
    uint8_t *base64 = malloc(MC_BASE64_BYTES(LOAD_HISTOGRAM_ENCODED_MAX));
    int rc = -1;

    if (binary && base64) {
        size_t len = load_histogram_encode(latency, binary);
        u_u32 chars = mc_base64_encode(base64, binary, (u_u32)len);

        /* The format has the largest value in milliseconds; the histogram is in nanoseconds. */
        fprintf(log, "%.3f,%.3f,%.6f,%.*s\n", point->from_s, point->seconds,
                (double)latency->max / 1e6, (int)chars, (const char *)base64);
        rc = ferror(log) ? -1 : 0;
    }
    free(binary);
    free(base64);
    return rc;
}

static void keep(struct series *series, const struct series_point *point)
{
    unsigned capacity = series->capacity ? 2 * series->capacity : CAPACITY_MIN;
    struct series_point *more = series->points;

    if (series->count == SERIES_POINTS_MAX) {
        series->left_out++;
        return;
    }
    if (series->count == series->capacity) {
        more = realloc(series->points, capacity * sizeof(*more));
        if (!more) {
            series->left_out++;
            return;
        }
        series->capacity = capacity;
        series->points = more;
    }
    more[series->count++] = *point;
}

static void show(const struct series_point *point)
{
    fprintf(stderr, "%s%6.0f s %12.0f requests/s  p50 %.1f us  p99 %.1f us%s",
            isatty(STDERR_FILENO) ? "\r" : "", point->from_s + point->seconds,
            (double)point->requests / point->seconds, (double)point->p50_ns / 1e3,
            (double)point->p99_ns / 1e3, isatty(STDERR_FILENO) ? "    " : "\n");
    fflush(stderr);
}

void series_add(struct series *series, double from_s, double seconds,
                const struct load_histogram *latency)
{
    struct series_point point = {.from_s = from_s,
                                 .seconds = seconds,
                                 .requests = latency->total,
                                 .mean_ns = load_histogram_mean(latency),
                                 .p50_ns = load_histogram_percentile(latency, 50),
                                 .p99_ns = load_histogram_percentile(latency, 99),
                                 .max_ns = latency->max};

    if (seconds <= 0)
        return;
    keep(series, &point);
    if (series->log && write_log(series->log, &point, latency) < 0)
        series->log_failed = true;
    if (series->progress)
        show(&point);
}

void series_json(FILE *to, const struct series *series)
{
    fprintf(to, "[");
    for (unsigned i = 0; i < series->count; i++) {
        const struct series_point *p = &series->points[i];

        fprintf(to,
                "%s\n    {\"from_seconds\": %.3f, \"seconds\": %.3f, \"requests\": %llu, "
                "\"mean_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f}",
                i > 0 ? "," : "", p->from_s, p->seconds, (unsigned long long)p->requests,
                p->mean_ns / 1e3, (double)p->p50_ns / 1e3, (double)p->p99_ns / 1e3,
                (double)p->max_ns / 1e3);
    }
    fprintf(to, "]");
}

int series_close(struct series *series)
{
    bool failed = series->log_failed;

    free(series->points);
    series->points = NULL;
    if (series->log && fclose(series->log) != 0)
        failed = true;
    series->log = NULL;
    return failed ? -1 : 0;
}
