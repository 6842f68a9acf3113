/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes trace files. An oracleGeneral record contains the index of the next request for its id, so
 * all records are kept in memory and linked backwards at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "load/random.h"
#include "load/trace.h"
#include "load/trace_csv.h"
#include "load/trace_record.h"

struct load_trace_writer {
    FILE *file;
    char *path;
    enum load_trace_format format;
    int failed; /* an errno */
    struct trace_record *records;
    size_t count, room;
};

struct load_trace_writer *load_trace_create(const char *path, enum load_trace_format format,
                                            char error[LOAD_ERROR_MAX])
{
    struct load_trace_writer *writer = calloc(1, sizeof(*writer));

    if (writer)
        writer->path = strdup(path);
    if (writer && writer->path)
        writer->file = fopen(path, "wb");
    if (!writer || !writer->file) {
        snprintf(error, LOAD_ERROR_MAX, "%.80s: %s", path, strerror(errno));
        if (writer)
            free(writer->path);
        free(writer);
        return NULL;
    }
    writer->format = format;
    if (format == LOAD_TRACE_CSV)
        fputs("time,id,size,op,ttl,key_size\n", writer->file);
    return writer;
}

static bool keep(struct load_trace_writer *writer, const struct load_request *request)
{
    if (writer->count == writer->room) {
        size_t room = writer->room > 0 ? 2 * writer->room : 4096;
        struct trace_record *records = realloc(writer->records, room * sizeof(*records));
        if (!records) {
            writer->failed = ENOMEM;
            return false;
        }
        writer->records = records;
        writer->room = room;
    }
    writer->records[writer->count++] =
        (struct trace_record){.time_s = request->time_s,
                              .id = request->id,
                              .size_bytes = request->key_bytes + request->value_bytes,
                              .next = TRACE_NEVER};
    return true;
}

bool load_trace_put(struct load_trace_writer *writer, const struct load_request *request)
{
    if (writer->failed != 0)
        return false;
    if (writer->format == LOAD_TRACE_ORACLE)
        return keep(writer, request);
    if (fprintf(writer->file, "%u,%llu,%llu,%s,%u,%u\n", request->time_s,
                (unsigned long long)request->id,
                (unsigned long long)request->key_bytes + request->value_bytes,
                trace_csv_op_name(request->op), request->ttl_s, request->key_bytes) < 0)
        writer->failed = errno;
    return writer->failed == 0;
}

/*
 * The slot of an id, or the free slot for it, in a hash table of record indices plus one (open
 * addressing).
 */
static size_t place_of(const struct load_trace_writer *writer, const size_t *table, size_t mask,
                       uint64_t id)
{
    size_t at = (size_t)load_random_hash(id, 0) & mask;

    while (table[at] != 0 && writer->records[table[at] - 1].id != id)
        at = (at + 1) & mask;
    return at;
}

/* Sets `next` of all records. */
static bool link_records(struct load_trace_writer *writer)
{
    size_t slots = 16;
    size_t *table;

    while (slots < 2 * writer->count)
        slots *= 2;
    table = calloc(slots, sizeof(*table));
    if (!table) {
        writer->failed = ENOMEM;
        return false;
    }
    for (size_t i = writer->count; i-- > 0;) {
        size_t at = place_of(writer, table, slots - 1, writer->records[i].id);
        if (table[at] != 0)
            writer->records[i].next = (int64_t)table[at] - 1;
        table[at] = i + 1;
    }
    free(table);
    return true;
}

static void records_write(struct load_trace_writer *writer)
{
    if (!link_records(writer))
        return;
    for (size_t i = 0; i < writer->count; i++) {
        uint8_t bytes[TRACE_RECORD_BYTES];
        trace_record_put(bytes, &writer->records[i]);
        if (fwrite(bytes, sizeof(bytes), 1, writer->file) != 1) {
            writer->failed = errno;
            return;
        }
    }
}

bool load_trace_finish(struct load_trace_writer *writer, char error[LOAD_ERROR_MAX])
{
    bool good;

    if (writer->failed == 0 && writer->format == LOAD_TRACE_ORACLE)
        records_write(writer);
    if (fclose(writer->file) != 0 && writer->failed == 0)
        writer->failed = errno;
    good = writer->failed == 0;
    if (!good) {
        snprintf(error, LOAD_ERROR_MAX, "%.80s: %s", writer->path, strerror(writer->failed));
        (void)unlink(writer->path);
    }
    free(writer->records);
    free(writer->path);
    free(writer);
    return good;
}
