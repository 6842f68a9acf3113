/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached as a cache to compare with: started here with one thread and a given -m on a socket of
 * its own, and asked in batches, so that a replay takes seconds.
 */
#ifndef KVBENCH_MEMCACHED_H
#define KVBENCH_MEMCACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "load/workload.h"

struct memcached;

/* Starts a program. Null with a message. */
struct memcached *memcached_start(const char *program, uint64_t memory_bytes,
                                  uint32_t value_bytes_max, char error[LOAD_ERROR_MAX]);

/* Ends it and takes its socket away. */
void memcached_stop(struct memcached *memcached);

/*
 * Asks for one more request: a GET that misses is followed by a SET, as a cache's user does. The
 * answer comes later; a batch ends before a key that is in it already, so the order of what happens
 * to a key is kept. False with a message if the server is gone or answers something odd.
 */
bool memcached_ask(struct memcached *memcached, const struct load_request *request,
                   char error[LOAD_ERROR_MAX]);

/* Waits for all answers. */
bool memcached_settle(struct memcached *memcached, char error[LOAD_ERROR_MAX]);

/* Answers so far; to be read after memcached_settle(). */
uint64_t memcached_hits(const struct memcached *memcached);
uint64_t memcached_misses(const struct memcached *memcached);

/*
 * A number of `stats` or, with a section, of `stats SECTION`; -1 if there is none of that name.
 * After memcached_settle().
 */
double memcached_stat(struct memcached *memcached, const char *section, const char *name);

#endif
