/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a test of workers. */
#ifndef CACHE_END_H
#define CACHE_END_H

#include "cache/cache_worker.h"
#include "kv/kv.h"

/* Frees a cache whose workers have left, and with them all sessions and references to items. */
static inline void cache_end(struct cache *cache)
{
    struct kv_stats stats;

    kv_stats(cache->kv, &stats);
    assert_int_equal(stats.pinned, 0);
    assert_int_equal(atomic_load(&cache->connections), 0);
    cache_destroy(cache);
}

#endif
