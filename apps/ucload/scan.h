/* SPDX-License-Identifier: BSD-3-Clause */
/* --scan: latencies at rates from low to beyond the highest, as a table and as a drawing (SVG). */
#ifndef UCLOAD_SCAN_H
#define UCLOAD_SCAN_H

#include <stdio.h>

#include "run.h"

#define SCAN_POINTS 14

/* The rates are multiples of a twelfth of what a closed loop reaches: two are beyond that. */
#define SCAN_STEPS_TO_PEAK 12

enum scan_line { SCAN_P50 = 0, SCAN_P99, SCAN_P999, SCAN_LINES };

/* The result at one rate of requests. */
struct scan_point {
    double offered; /* requests per second */
    double reached;
    uint64_t latency_ns[SCAN_LINES];
};

struct scan {
    struct scan_point points[SCAN_POINTS];
    unsigned count; /* less than SCAN_POINTS if it was interrupted, or a rate had no answers */
};

/* Adds a measured point, unless no request was answered; there is room. */
void scan_add(struct scan *scan, const struct result *result);

void scan_print(FILE *to, const struct scan *scan);

/* The array of the points, without what stands around it. */
void scan_json(FILE *to, const struct scan *scan);

/* Draws the curves and closes the file. Returns 0, or -1 with errno set. */
int scan_svg(FILE *to, const struct scan *scan, const char *title);

#endif
