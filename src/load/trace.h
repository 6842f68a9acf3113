/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace files: streams of requests that were recorded, in the open formats of cache research.
 *
 * oracleGeneral  libCacheSim's binary form: per request 24 bytes, little-endian and packed: u32
 *                time in seconds, u64 id, u32 size, i64 index of the next request for the same id
 *                (or -1). Knows no operations (all are reads), no time to live, and one size for
 *                key and value together.
 * csv            one request a line: time,id,size and, if there are, op,ttl,key_size. A first line
 *                with names of columns gives another order; columns that nobody knows are skipped.
 *                An id that is no number is hashed to one. Lines that begin with # are comments.
 *
 * A damaged file is refused with a message that names the place.
 */
#ifndef LOAD_TRACE_H
#define LOAD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/workload.h"

enum load_trace_format { LOAD_TRACE_ORACLE = 0, LOAD_TRACE_CSV };

/* Bytes of a size that are taken for the key where the file doesn't say. */
#define LOAD_TRACE_KEY_BYTES 16

/* The format that a file's name stands for: csv or txt; anything else is oracleGeneral. */
enum load_trace_format load_trace_format_of(const char *path);

/* ---- reading ----------------------------------------------------------------------------- */

struct load_trace;

/* Opens a file. Null with a message if that is impossible or its beginning is damaged. */
struct load_trace *load_trace_open(const char *path, enum load_trace_format format,
                                   char error[LOAD_ERROR_MAX]);

/* 1: *request is the next one. 0: the end. -1: damaged; the message says where. */
int load_trace_next(struct load_trace *trace, struct load_request *request,
                    char error[LOAD_ERROR_MAX]);

/* Goes back to the beginning. */
void load_trace_rewind(struct load_trace *trace);

void load_trace_close(struct load_trace *trace);

/* ---- writing ----------------------------------------------------------------------------- */

struct load_trace_writer;

/* Makes or replaces a file. Null with a message if that is impossible. */
struct load_trace_writer *load_trace_create(const char *path, enum load_trace_format format,
                                            char error[LOAD_ERROR_MAX]);

/* False if memory or the disk is full; load_trace_finish() says which. */
bool load_trace_put(struct load_trace_writer *writer, const struct load_request *request);

/*
 * Completes the file and closes it. Needs 56 bytes of memory per request for oracleGeneral, where
 * each request tells when the same key is wanted next. False with a message, and no file is left.
 */
bool load_trace_finish(struct load_trace_writer *writer, char error[LOAD_ERROR_MAX]);

#endif
