/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the header and lines of CSV traces. Private to trace.c. */
#ifndef LOAD_TRACE_CSV_H
#define LOAD_TRACE_CSV_H

#include <stdbool.h>

#include "load/workload.h"

#define TRACE_CSV_COLUMNS_MAX 32

enum trace_csv_column {
    TRACE_CSV_SKIPPED = 0,
    TRACE_CSV_TIME,
    TRACE_CSV_ID,
    TRACE_CSV_SIZE,
    TRACE_CSV_OP,
    TRACE_CSV_TTL,
    TRACE_CSV_KEY_SIZE,
    TRACE_CSV_VALUE_SIZE
};

struct trace_csv {
    enum trace_csv_column columns[TRACE_CSV_COLUMNS_MAX];
    unsigned count;
    unsigned needed; /* columns that a line must have */
};

/* Whether the line is a header: one of its fields is a known column name. */
bool trace_csv_is_header(const char *line);

/*
 * Reads the order of columns from a header. Returns false with a message if there is no id column,
 * or too many columns.
 */
bool trace_csv_header(struct trace_csv *csv, const char *line, char error[LOAD_ERROR_MAX]);

/* The default order: time,id,size[,op[,ttl[,key_size]]]. */
void trace_csv_default(struct trace_csv *csv);

/* Parses a line. Returns false with a message on failure. */
bool trace_csv_line(const struct trace_csv *csv, const char *line, struct load_request *request,
                    char error[LOAD_ERROR_MAX]);

/* The name of an operation in a CSV file. */
const char *trace_csv_op_name(enum load_op op);

#endif
