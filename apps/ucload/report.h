/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the result of a measurement: as text and as JSON. */
#ifndef UCLOAD_REPORT_H
#define UCLOAD_REPORT_H

#include "run.h"
#include "scan.h"

/* Further data of the report. */
struct report {
    const struct options *options;
    const struct run *run;
    const struct result *result;
    bool searched;   /* --slo was given: */
    double slo_rate; /* highest rate that met the goal; 0: none */
    unsigned slo_tries;
    double server_cycles; /* per request, warm-up included; 0: not requested */
    double own_cycles;    /* of all threads here; 0: kernel sockets, or unknown */
    time_t start;
    struct scan scan;     /* --scan was given */
    struct series series; /* of one measurement; of --slo and --scan only the result */
};

void report_text(FILE *to, const struct report *report);
void report_json(FILE *to, const struct report *report);

/*
 * Whether an open loop has sent less than it was to: 9 of 10 requests, or fewer, were answered in
 * its time.
 */
bool report_is_behind(const struct result *result);

#endif
