/* SPDX-License-Identifier: BSD-3-Clause */
/* What a measurement came to: for people, as JSON, and as a log of HdrHistogram. */
#ifndef UCLOAD_REPORT_H
#define UCLOAD_REPORT_H

#include "run.h"

/* What is reported beside the result itself. */
struct report {
    const struct options *options;
    const struct run *run;
    const struct result *result;
    bool searched;   /* --slo: */
    double slo_rate; /* the highest rate that kept the goal; 0: none did */
    unsigned slo_tries;
    double cpu_s;         /* of this process, during the measurement */
    double server_cycles; /* per request, warm-up included; 0: not asked for */
    double own_cycles;    /* the same of all threads here; 0: kernel sockets, or none is counted */
};

void report_text(FILE *to, const struct report *report);
void report_json(FILE *to, const struct report *report);

/* Writes the histogram to a file. Returns 0, or -1 with errno set. */
int report_hdr(const char *path, const struct result *result);

#endif
