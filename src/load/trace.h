/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace files: recorded requests, in open formats of cache research.
 *
 * oracleGeneral: libCacheSim's binary format. 24 bytes per request, little-endian and packed: u32
 * time in seconds, u64 id, u32 size, i64 index of the next request for the same id (or -1). Without
 * operations (all are reads) and time to live; one size for key and value together.
 *
 * csv: one request per line: time,id,size and optionally op,ttl,key_size. A header line can give
 * another order; unknown columns are skipped. A non-numeric id is hashed. Lines that start with #
 * are comments.
 *
 * Damaged files are refused with a message that names the place.
 */
#ifndef LOAD_TRACE_H
#define LOAD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/workload.h"

enum load_trace_format { LOAD_TRACE_ORACLE = 0, LOAD_TRACE_CSV };

/* Assumed key size where the file has none. */
#define LOAD_TRACE_KEY_BYTES 16

/* The format by file name: .csv and .txt are csv, others oracleGeneral. */
enum load_trace_format load_trace_format_of(const char *path);

/* ---- reading ----------------------------------------------------------------------------- */

struct load_trace;

/* Opens a file. Returns null with a message if it cannot be read or its beginning is damaged. */
struct load_trace *load_trace_open(const char *path, enum load_trace_format format,
                                   char error[LOAD_ERROR_MAX]);

/* Reads the next request. Returns 1, 0 at the end, or -1 with a message if the file is damaged. */
int load_trace_next(struct load_trace *trace, struct load_request *request,
                    char error[LOAD_ERROR_MAX]);

/* Goes back to the beginning. */
void load_trace_rewind(struct load_trace *trace);

void load_trace_close(struct load_trace *trace);

/* ---- writing ----------------------------------------------------------------------------- */

struct load_trace_writer;

/* Creates or replaces a file. Returns null with a message on failure. */
struct load_trace_writer *load_trace_create(const char *path, enum load_trace_format format,
                                            char error[LOAD_ERROR_MAX]);

/* Appends a request. Returns false if memory or disk is full; load_trace_finish() reports which. */
bool load_trace_put(struct load_trace_writer *writer, const struct load_request *request);

/*
 * Completes and closes the file. For oracleGeneral, where each request contains the index of the
 * next one for its key, this needs 56 bytes of memory per request. Returns false with a message,
 * and removes the file, on failure.
 */
bool load_trace_finish(struct load_trace_writer *writer, char error[LOAD_ERROR_MAX]);

#endif
