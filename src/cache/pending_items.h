/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The items in pending replies, those to the current input. memcached references an item until the
 * reply with it is sent, and changes no number in place that is referenced; a client that sends
 * "get n, decr n, get n" in one input sees this by the padding of the number with spaces.
 *
 * The table is small and direct-mapped: a collision costs only that padding.
 */
#ifndef CACHE_PENDING_ITEMS_H
#define CACHE_PENDING_ITEMS_H

#include "cache/cache_worker.h"

static inline struct cache_pending_item *cache_pending_slot(struct cache_worker *worker,
                                                            const struct kv_item *item)
{
    /* Items begin at multiples of 4 and are longer than 8 bytes. */
    return &worker->pending[(uintptr_t)item / 8 % CACHE_PENDING_MAX];
}

/* A reply contains an item. */
static inline void cache_pending_add(struct cache_worker *worker, const struct kv_item *item)
{
    struct cache_pending_item *place = cache_pending_slot(worker, item);

    place->item = item;
    place->input = worker->input;
}

/* The earlier replies count as sent: a new input, mn, noop, a binary error. */
static inline void cache_pending_clear(struct cache_worker *worker)
{
    worker->input++;
}

static inline bool cache_is_pending(struct cache_worker *worker, const struct kv_item *item)
{
    const struct cache_pending_item *place = cache_pending_slot(worker, item);

    return place->item == item && place->input == worker->input;
}

#endif
