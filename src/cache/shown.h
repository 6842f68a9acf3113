/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which items the replies to the current input show. memcached holds on to an item until the reply
 * with it has been sent, and does not change a number in place that it holds: what a client gets by
 * one send of "get n, decr n, get n" tells whether the number was filled up with spaces.
 *
 * A small table is enough, since a request for a number that pushes another one out of it is rare
 * and costs no more than those spaces.
 */
#ifndef CACHE_SHOWN_H
#define CACHE_SHOWN_H

#include "cache/worker.h"

static inline struct cache_shown *cache_shown_place(struct cache_worker *worker,
                                                    const struct kv_item *item)
{
    /* Items begin at multiples of 8. */
    return &worker->shown[(uintptr_t)item / 8 % CACHE_SHOWN_MAX];
}

/* A reply shows an item. */
static inline void cache_shown_note(struct cache_worker *worker, const struct kv_item *item)
{
    struct cache_shown *place = cache_shown_place(worker, item);

    place->item = item;
    place->input = worker->input;
}

/* Replies so far have been sent, or are to be thought so: mn and noop ask for that. */
static inline void cache_shown_end(struct cache_worker *worker)
{
    worker->input++;
}

static inline bool cache_is_shown(struct cache_worker *worker, const struct kv_item *item)
{
    const struct cache_shown *place = cache_shown_place(worker, item);

    return place->item == item && place->input == worker->input;
}

#endif
