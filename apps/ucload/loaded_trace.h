/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace file (load/trace.h) loaded into memory before the measurement. Keys are numbered in the
 * order of first occurrence and have the sizes of this occurrence.
 */
#ifndef UCLOAD_LOADED_TRACE_H
#define UCLOAD_LOADED_TRACE_H

#include <stdint.h>

#include "load/random.h"

struct loaded_request {
    uint32_t id;
    uint32_t op; /* enum op */
};

struct loaded_trace {
    struct loaded_request *requests;
    uint64_t count;
    uint32_t keys;
    uint8_t *key_bytes;    /* by id; 1..250 */
    uint32_t *value_bytes; /* by id */
};

/*
 * Loads a trace; larger values are limited to value_bytes_max. Returns 0, or -1 with a message.
 * loaded_trace_close() is required in both cases, and allowed on all zeros.
 */
int loaded_trace_open(struct loaded_trace *replay, const char *path, uint32_t value_bytes_max,
                      char error[LOAD_ERROR_MAX]);

void loaded_trace_close(struct loaded_trace *replay);

#endif
