/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests drawn beforehand, so that only the table is timed: an array of struct table_request with
 * the keys in it, which the processor reads ahead as it goes through.
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

/* How many draws a workload wants: enough to go over all keys some times, within bounds. */
unsigned draws_wanted(const struct load_workload *workload);

/* Draws `count` requests; other operations than GET, SET and DELETE become GETs. False: no memory.
 */
bool draws_make(struct draws *draws, struct load_workload *workload, unsigned count);

/* SETs of the keys from `first` on. */
bool draws_fill(struct draws *draws, const struct load_workload *workload, uint64_t first,
                unsigned count);

void draws_free(struct draws *draws);

/* `count` of them, from a place that is a multiple of TABLE_BURST on. */
struct table_requests draws_part(const struct draws *draws, unsigned from, unsigned count,
                                 unsigned group);

#endif
