/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of a csv trace: which column is what, and one line into a request. Private to trace.c. */
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

/* Whether the line holds names of columns: its fields have letters and one is the id's name. */
bool trace_csv_is_header(const char *line);

/* Takes the order of columns from a header. False with a message if there is no id or too many. */
bool trace_csv_header(struct trace_csv *csv, const char *line, char error[LOAD_ERROR_MAX]);

/* time,id,size[,op[,ttl[,key_size]]] */
void trace_csv_default(struct trace_csv *csv);

/* One line into a request. False with a message. */
bool trace_csv_line(const struct trace_csv *csv, const char *line, struct load_request *request,
                    char error[LOAD_ERROR_MAX]);

/* The word for an operation in a csv file. */
const char *trace_csv_op_name(enum load_op op);

#endif
