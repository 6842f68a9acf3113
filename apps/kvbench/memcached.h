/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached for comparison: a server with one thread and a given -m on a private socket, to which
 * requests are sent in batches.
 */
#ifndef KVBENCH_MEMCACHED_H
#define KVBENCH_MEMCACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "load/workload.h"

struct memcached;

/* Starts a server. Null with a message in `error`. */
struct memcached *memcached_start(const char *program, uint64_t memory_bytes,
                                  uint32_t value_bytes_max, char error[LOAD_ERROR_MAX]);

/* Ends the server and removes its socket. */
void memcached_stop(struct memcached *memcached);

/*
 * Adds a request to the batch; a GET that misses is followed by a SET. The batch is sent when it is
 * full or before a key that is in it already, so requests of one key keep their order. False with a
 * message if the server is gone or replies unexpectedly.
 */
bool memcached_request(struct memcached *memcached, const struct load_request *request,
                       char error[LOAD_ERROR_MAX]);

/* Sends the batch and waits for all replies. */
bool memcached_flush(struct memcached *memcached, char error[LOAD_ERROR_MAX]);

/* Replies so far; call memcached_flush() before. */
uint64_t memcached_hits(const struct memcached *memcached);
uint64_t memcached_misses(const struct memcached *memcached);

/* A number of `stats`, or `stats SECTION`; -1 if unknown. Call memcached_flush() before. */
double memcached_stat(struct memcached *memcached, const char *section, const char *name);

#endif
