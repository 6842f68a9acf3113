/* SPDX-License-Identifier: BSD-3-Clause */
/* Line buffers and the worker's list of free ones. */
#include "cache/linebuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "mcproto/mcproto.h"

/* Fits every storage command with the longest key. */
#define LINE_BYTES_SMALL 512

/* No line is longer: mc_parse() refuses it one byte beyond its limit. */
#define LINE_BYTES_MAX (MC_KEYS_LINE_MAX + 1)

/* Free small buffers that a worker keeps. */
#define LINE_POOL_MAX 256

static uint64_t lines_bytes_max(const struct cache_worker *worker)
{
    const struct cache_settings *settings = &worker->cache->settings;

    if (settings->read_buf_mem_limit_bytes == 0)
        return CACHE_LINEBUF_BYTES_MAX;
    return settings->read_buf_mem_limit_bytes / settings->threads;
}

static void line_free(struct cache_worker *worker, struct cache_linebuf *line)
{
    worker->line_bytes -= line->capacity;
    free(line);
}

static struct cache_linebuf *line_new(struct cache_worker *worker, uint32_t capacity)
{
    struct cache_linebuf *line = worker->free_linebufs;

    if (capacity <= LINE_BYTES_SMALL && line != NULL) {
        worker->free_linebufs = line->next;
        worker->free_linebuf_count--;
        line->len = 0;
        return line;
    }
    capacity = u_max32(capacity, LINE_BYTES_SMALL);
    if (worker->line_bytes + capacity > lines_bytes_max(worker)) {
        cache_count(worker, CACHE_READ_BUF_OOM, 1);
        return NULL;
    }
    line = malloc(sizeof(*line) + capacity);
    if (line == NULL) {
        cache_count(worker, CACHE_MALLOC_FAILS, 1);
        return NULL;
    }
    worker->line_bytes += capacity;
    line->capacity = capacity;
    line->len = 0;
    return line;
}

/* Makes room for len bytes in all and keeps the contents. */
static int line_grow(struct cache_worker *worker, struct cache_linebuf **line, uint32_t len)
{
    struct cache_linebuf *grown;
    uint32_t capacity = LINE_BYTES_SMALL;

    if (*line != NULL && len <= (*line)->capacity)
        return 0;
    while (capacity < len)
        capacity *= 2;
    grown = line_new(worker, capacity);
    if (grown == NULL)
        return -1;
    if (*line != NULL) {
        memcpy(grown->bytes, (*line)->bytes, (*line)->len);
        grown->len = (*line)->len;
    }
    cache_linebuf_drop(worker, line);
    *line = grown;
    return 0;
}

int cache_linebuf_append(struct cache_worker *worker, struct cache_linebuf **line,
                         const uint8_t *bytes, uint32_t len)
{
    uint32_t old_len = *line != NULL ? (*line)->len : 0;

    U_ASSERT(old_len <= LINE_BYTES_MAX && len <= LINE_BYTES_MAX - old_len);
    if (line_grow(worker, line, old_len + len) != 0)
        return -1;
    memcpy((*line)->bytes + old_len, bytes, len);
    (*line)->len = old_len + len;
    return 0;
}

void cache_linebuf_drop(struct cache_worker *worker, struct cache_linebuf **line)
{
    struct cache_linebuf *dropped = *line;

    *line = NULL;
    if (dropped == NULL)
        return;
    if (dropped->capacity != LINE_BYTES_SMALL || worker->free_linebuf_count == LINE_POOL_MAX) {
        line_free(worker, dropped);
        return;
    }
    dropped->next = worker->free_linebufs;
    worker->free_linebufs = dropped;
    worker->free_linebuf_count++;
}

void cache_linebuf_pool_free(struct cache_worker *worker)
{
    while (worker->free_linebufs != NULL) {
        struct cache_linebuf *line = worker->free_linebufs;

        worker->free_linebufs = line->next;
        line_free(worker, line);
    }
    worker->free_linebuf_count = 0;
}
