/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of the requests of a replay: a workload or a trace file. */
#ifndef KVBENCH_SOURCE_H
#define KVBENCH_SOURCE_H

#include <stdbool.h>

#include "kvbench/options.h"
#include "load/trace.h"

struct source {
    const struct options *options;
    struct load_workload workload;
    struct load_trace *trace; /* null: the workload */
    uint64_t drawn;
    char error[LOAD_ERROR_MAX];
};

/* False with a message on standard error. */
bool source_open(struct source *source, const struct options *options);
void source_close(struct source *source);

/* Restarts at the first request. */
void source_rewind(struct source *source);

/* 1: *request is the next one. 0: the end. -1: the trace is damaged: source->error. */
int source_next(struct source *source, struct load_request *request);

/* Properties of a source: from one pass over a trace, or from the workload. */
struct source_facts {
    uint64_t requests;
    uint64_t objects;       /* different keys */
    double footprint_bytes; /* of the keys and values of all of them */
    uint32_t value_bytes_max;
    bool expires; /* some items have a time to live */
};

bool source_look(struct source *source, struct source_facts *facts);

#endif
