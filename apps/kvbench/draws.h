/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pre-generated requests, so that only the table is timed: an array of struct table_request with
 * the keys inside, which the hardware prefetcher can follow.
 */
#ifndef KVBENCH_DRAWS_H
#define KVBENCH_DRAWS_H

#include <stdbool.h>

#include "kvbench/table.h"
#include "load/workload.h"

struct draws {
    uint8_t *at;
    size_t stride;
    unsigned count; /* a multiple of TABLE_BURST */
    size_t room;    /* bytes at `at` */
};

/* Number of requests for a workload: four per key, within bounds. */
unsigned draws_wanted(const struct load_workload *workload);

/* Generates `count` requests; operations other than SET and DELETE become GET. False: no memory. */
bool draws_make(struct draws *draws, struct load_workload *workload, unsigned count);

/* Generates SETs of `count` keys from `first` on. */
bool draws_fill(struct draws *draws, const struct load_workload *workload, uint64_t first,
                unsigned count);

void draws_free(struct draws *draws);

/* `count` requests from index `from` on. */
struct table_requests draws_part(const struct draws *draws, unsigned from, unsigned count,
                                 unsigned group);

#endif
