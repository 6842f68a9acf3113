/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of kvbench: a mode, then options. */
#ifndef KVBENCH_OPTIONS_H
#define KVBENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cmdline.h"
#include "kvbench/table.h"
#include "load/workload.h"

#define OPTIONS_LIST_MAX 16
#define OPTIONS_THREADS_MAX 256
#define OPTIONS_ROUNDS_MAX 101

enum options_mode {
    OPTIONS_SPEED = 0,
    OPTIONS_GROWTH,
    OPTIONS_MEMORY,
    OPTIONS_RATIO,
    OPTIONS_TRACE,
    OPTIONS_LIST
};

/* A size that is given in bytes, as a share of the footprint, or as a number of objects. */
enum options_size_kind { OPTIONS_BYTES = 0, OPTIONS_SHARE, OPTIONS_OBJECTS };

struct options_size {
    enum options_size_kind kind;
    double amount;
};

struct options {
    enum options_mode mode;
    const char *workload_text;
    struct load_workload workload;
    const char *trace_path; /* read instead of the workload, or null */
    const char *out_path;
    const char *name; /* of the rows */
    const struct table_ops *tables[OPTIONS_LIST_MAX];
    unsigned table_count;
    unsigned threads[OPTIONS_LIST_MAX];
    unsigned threads_count;
    unsigned groups[OPTIONS_LIST_MAX];
    unsigned group_count;
    enum kv_policy_kind policies[OPTIONS_LIST_MAX];
    unsigned policy_count;
    struct options_size sizes[OPTIONS_LIST_MAX];
    unsigned size_count;
    uint32_t rounds;
    double seconds;             /* of one measurement */
    uint64_t items;             /* growth: final number */
    uint64_t touch_ahead_bytes; /* growth: as in struct kv_config */
    uint64_t requests;          /* ratio, trace */
    uint64_t warm;              /* requests that are not counted, if given */
    bool warm_given;
    const char *memcached;
    bool latency;
    bool json;
    const char *json_path;
    char error[CMDLINE_ERROR_MAX];
};

/* Reads the command line; CMDLINE_BAD leaves a message in options->error. */
enum cmdline_outcome options_parse(int argc, char **argv, struct options *options);

void options_print_help(FILE *to);

/* The longest value that the workload can ask for. */
uint32_t options_value_bytes_max(const struct options *options);

#endif
