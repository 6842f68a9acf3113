/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush_all.
 *
 * A delayed flush takes effect one second before its time, and flushes all items that are stored in
 * that second: memcached compares whole seconds with <=. One delayed flush can be pending; a later
 * flush_all replaces it.
 */
#include "cache/op.h"

/* Flushes now; flush_second_s is the second whose remainder is flushed too, or 0. */
static void flush_now(struct cache_worker *worker, uint32_t flush_second_s)
{
    atomic_store_explicit(&worker->cache->flush_second_s, flush_second_s, memory_order_relaxed);
    worker->flush_second_s = flush_second_s;
    kv_flush(worker->kv_worker);
}

void cache_flush_tick(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    unsigned due_s = atomic_load_explicit(&cache->flush_due_s, memory_order_relaxed);

    worker->flush_second_s = atomic_load_explicit(&cache->flush_second_s, memory_order_relaxed);
    if (due_s == 0 || due_s > worker->now_s)
        return;
    /* Only one worker carries it out. */
    if (atomic_compare_exchange_strong_explicit(&cache->flush_due_s, &due_s, 0,
                                                memory_order_relaxed, memory_order_relaxed))
        flush_now(worker, due_s);
}

static void flush_plan(struct cache_worker *worker, uint32_t when_s)
{
    struct cache *cache = worker->cache;
    uint32_t due_s;

    atomic_store_explicit(&cache->flush_due_s, 0, memory_order_relaxed);
    if (when_s == 0) {
        flush_now(worker, 0);
        return;
    }
    due_s = when_s - 1;
    if (due_s > worker->now_s) {
        atomic_store_explicit(&cache->flush_second_s, 0, memory_order_relaxed);
        worker->flush_second_s = 0;
        atomic_store_explicit(&cache->flush_due_s, due_s, memory_order_relaxed);
    } else if (due_s > 0) {
        flush_now(worker, due_s);
    }
    /* due_s == 0: an absolute time before our start, to which memcached answers OK, no more. */
}

bool cache_flush(struct cache_worker *worker, uint32_t when_s)
{
    cache_count(worker, CACHE_CMD_FLUSH, 1);
    if (worker->cache->settings.flush_disabled)
        return false;
    flush_plan(worker, when_s);
    return true;
}
