/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads trace files; lines of CSV are parsed in trace_csv.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/trace.h"
#include "load/trace_csv.h"
#include "load/trace_record.h"

#define LINE_MAX_BYTES 4096

struct load_trace {
    FILE *file;
    enum load_trace_format format;
    uint64_t place; /* number of requests read, or of lines */
    struct trace_csv csv;
    long data_from; /* after the header of a CSV file */
    uint64_t data_place;
};

enum load_trace_format load_trace_format_of(const char *path)
{
    size_t len = strlen(path);

    if (len >= 4 && (strcmp(path + len - 4, ".csv") == 0 || strcmp(path + len - 4, ".txt") == 0))
        return LOAD_TRACE_CSV;
    return LOAD_TRACE_ORACLE;
}

/* Checks the size and refuses compressed files. */
static bool oracle_begins(struct load_trace *trace, char *error)
{
    uint8_t magic[4] = {0};
    size_t got = fread(magic, 1, sizeof(magic), trace->file);
    long bytes;

    if (got == 4 && trace_get_le(magic, 4) == 0xfd2fb528) {
        snprintf(error, LOAD_ERROR_MAX, "it is compressed: unpack it with zstd -d first");
        return false;
    }
    if (fseek(trace->file, 0, SEEK_END) != 0 || (bytes = ftell(trace->file)) < 0) {
        snprintf(error, LOAD_ERROR_MAX, "it is no file that one can go back in");
        return false;
    }
    if (bytes == 0 || bytes % TRACE_RECORD_BYTES != 0) {
        snprintf(error, LOAD_ERROR_MAX,
                 "its %ld bytes are not a whole number of requests of %d bytes: it is cut off or "
                 "not oracleGeneral",
                 bytes, TRACE_RECORD_BYTES);
        return false;
    }
    rewind(trace->file);
    return true;
}

/*
 * Reads the next line that is no comment, without line end. Returns 1, 0 at the end, or -1 with a
 * message.
 */
static int line_next(struct load_trace *trace, char line[LINE_MAX_BYTES], char *error)
{
    while (fgets(line, LINE_MAX_BYTES, trace->file)) {
        size_t len = strcspn(line, "\r\n");
        trace->place++;
        if (line[len] == '\0' && !feof(trace->file)) {
            snprintf(error, LOAD_ERROR_MAX, "line %llu is longer than %d bytes or has a zero in it",
                     (unsigned long long)trace->place, LINE_MAX_BYTES - 2);
            return -1;
        }
        line[len] = '\0';
        if (len > 0 && line[0] != '#')
            return 1;
    }
    if (ferror(trace->file)) {
        snprintf(error, LOAD_ERROR_MAX, "%s", strerror(errno));
        return -1;
    }
    return 0;
}

/* Reads the optional header and positions the file at the first request. */
static bool csv_begins(struct load_trace *trace, char *error)
{
    char line[LINE_MAX_BYTES];
    long before = 0;
    int got = line_next(trace, line, error);

    if (got == 0)
        snprintf(error, LOAD_ERROR_MAX, "there is no request in it");
    if (got <= 0)
        return false;
    if (trace_csv_is_header(line)) {
        before = ftell(trace->file);
        trace->data_place = trace->place;
        if (before < 0 || !trace_csv_header(&trace->csv, line, error))
            return false;
    } else {
        trace_csv_default(&trace->csv);
    }
    trace->data_from = before;
    load_trace_rewind(trace);
    return true;
}

struct load_trace *load_trace_open(const char *path, enum load_trace_format format,
                                   char error[LOAD_ERROR_MAX])
{
    struct load_trace *trace = calloc(1, sizeof(*trace));
    char why[LOAD_ERROR_MAX];
    bool good;

    if (!trace) {
        snprintf(error, LOAD_ERROR_MAX, "no memory");
        return NULL;
    }
    trace->format = format;
    trace->file = fopen(path, "rb");
    if (!trace->file) {
        snprintf(error, LOAD_ERROR_MAX, "%.80s: %s", path, strerror(errno));
        free(trace);
        return NULL;
    }
    good = format == LOAD_TRACE_ORACLE ? oracle_begins(trace, why) : csv_begins(trace, why);
    if (!good) {
        snprintf(error, LOAD_ERROR_MAX, "%.60s: %.130s", path, why);
        load_trace_close(trace);
        return NULL;
    }
    return trace;
}

/* Reads a record. An index of the next request that is not greater than its own is an error. */
static int oracle_next(struct load_trace *trace, struct load_request *request, char *error)
{
    uint8_t bytes[TRACE_RECORD_BYTES];
    struct trace_record record;

    if (fread(bytes, sizeof(bytes), 1, trace->file) != 1)
        return 0;
    record = trace_record_get(bytes);
    if (record.next < TRACE_NEVER || (record.next >= 0 && (uint64_t)record.next <= trace->place)) {
        snprintf(error, LOAD_ERROR_MAX,
                 "request %llu is damaged: the next one for its id would be number %lld",
                 (unsigned long long)trace->place, (long long)record.next);
        return -1;
    }
    trace->place++;
    memset(request, 0, sizeof(*request));
    request->id = record.id;
    request->time_s = record.time_s;
    request->key_bytes = LOAD_TRACE_KEY_BYTES;
    request->value_bytes =
        record.size_bytes > LOAD_TRACE_KEY_BYTES ? record.size_bytes - LOAD_TRACE_KEY_BYTES : 0;
    request->op = LOAD_GET;
    return 1;
}

int load_trace_next(struct load_trace *trace, struct load_request *request,
                    char error[LOAD_ERROR_MAX])
{
    char line[LINE_MAX_BYTES], why[LOAD_ERROR_MAX];
    int got;

    if (trace->format == LOAD_TRACE_ORACLE)
        return oracle_next(trace, request, error);
    got = line_next(trace, line, error);
    if (got <= 0)
        return got;
    if (!trace_csv_line(&trace->csv, line, request, why)) {
        snprintf(error, LOAD_ERROR_MAX, "line %llu: %.150s", (unsigned long long)trace->place, why);
        return -1;
    }
    return 1;
}

void load_trace_rewind(struct load_trace *trace)
{
    trace->place = trace->data_place;
    clearerr(trace->file);
    (void)fseek(trace->file, trace->data_from, SEEK_SET);
}

void load_trace_close(struct load_trace *trace)
{
    fclose(trace->file);
    free(trace);
}
