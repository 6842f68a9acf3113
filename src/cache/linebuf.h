/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Line buffers: the beginning of a request line that is incomplete, the request of an upload, or
 * the keys of an interrupted reply.
 *
 * Few sessions have one. Short buffers come from a list of the worker; a longer line is allocated,
 * doubling each time. Clients can make lines of get long, so all line buffers of a worker together
 * are bounded by its share of -o read_buf_mem_limit, or by CACHE_LINEBUF_BYTES_MAX; a line that
 * would exceed the bound is refused and counted (read_buf_oom).
 */
#ifndef CACHE_LINEBUF_H
#define CACHE_LINEBUF_H

#include "cache/cache_worker.h"

#define CACHE_LINEBUF_BYTES_MAX ((uint64_t)256 << 20)

struct cache_linebuf {
    struct cache_linebuf *next; /* in the worker's list of free ones */
    uint32_t capacity;
    uint32_t len;
    uint8_t bytes[];
};

/*
 * Appends bytes to *line, which it allocates if it is null. Returns 0, or -1 if there is no memory
 * and *line is unchanged.
 */
int cache_linebuf_append(struct cache_worker *worker, struct cache_linebuf **line,
                         const uint8_t *bytes, uint32_t len);

/* Frees *line, if there is one, and sets it to null. */
void cache_linebuf_drop(struct cache_worker *worker, struct cache_linebuf **line);

/* Frees the worker's list. */
void cache_linebuf_pool_free(struct cache_worker *worker);

#endif
