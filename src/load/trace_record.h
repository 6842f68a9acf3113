/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of an oracleGeneral file; private to the trace reader and writer. */
#ifndef LOAD_TRACE_RECORD_H
#define LOAD_TRACE_RECORD_H

#include <stdint.h>

#define TRACE_RECORD_BYTES 24
#define TRACE_NEVER (-1) /* no later request for the id; some writers use INT64_MAX */

struct trace_record {
    uint32_t time_s;
    uint64_t id;
    uint32_t size_bytes;
    int64_t next;
};

static inline uint64_t trace_get_le(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static inline void trace_put_le(uint8_t *at, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        at[i] = (uint8_t)value;
}

static inline struct trace_record trace_record_get(const uint8_t *at)
{
    return (struct trace_record){.time_s = (uint32_t)trace_get_le(at, 4),
                                 .id = trace_get_le(at + 4, 8),
                                 .size_bytes = (uint32_t)trace_get_le(at + 12, 4),
                                 .next = (int64_t)trace_get_le(at + 16, 8)};
}

static inline void trace_record_put(uint8_t *at, const struct trace_record *record)
{
    trace_put_le(at, 4, record->time_s);
    trace_put_le(at + 4, 8, record->id);
    trace_put_le(at + 12, 4, record->size_bytes);
    trace_put_le(at + 16, 8, (uint64_t)record->next);
}

#endif
