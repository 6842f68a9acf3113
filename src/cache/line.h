/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Line buffers: the beginning of a request line that has not arrived completely, the key of an
 * upload, or the keys that an interrupted reply still has to answer.
 *
 * Most sessions have none at any moment. The common short ones come from a list of the worker; a
 * longer line takes memory of its own, twice as much each time.
 *
 * Only lines of get grow that much, and a client decides about them: so all line buffers of a
 * worker together are bounded, by its share of -o read_buf_mem_limit or by CACHE_LINES_BYTES_MAX.
 * What would exceed that is refused and counted (read_buf_oom).
 */
#ifndef CACHE_LINE_H
#define CACHE_LINE_H

#include "cache/worker.h"

#define CACHE_LINES_BYTES_MAX ((uint64_t)256 << 20)

struct cache_line {
    struct cache_line *next; /* in the worker's list of free ones */
    uint32_t capacity;
    uint32_t len;
    uint8_t bytes[];
};

/*
 * Appends bytes to *line, which is made if it is null. Returns 0, or -1 if there is no memory,
 * *line then being as it was.
 */
int cache_line_append(struct cache_worker *worker, struct cache_line **line, const uint8_t *bytes,
                      uint32_t len);

/* Makes *line hold exactly these bytes, which may be a part of what it holds now. As above. */
int cache_line_set(struct cache_worker *worker, struct cache_line **line, const uint8_t *bytes,
                   uint32_t len);

/* Gives *line back, if there is one, and sets it to null. */
void cache_line_drop(struct cache_worker *worker, struct cache_line **line);

/* Frees the worker's list. */
void cache_line_pool_free(struct cache_worker *worker);

#endif
