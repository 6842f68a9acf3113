/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock and expiry times. */
#include "cache/clock.h"

#define SECOND_US 1000000u

/* The Unix time at which this clock is 0. */
static uint64_t clock_zero_unix_s(const struct cache *cache)
{
    if (cache->start_unix_s < cache->clock_start_s)
        return 0;
    return cache->start_unix_s - cache->clock_start_s;
}

/* The clock elapsed_s after the start, as changed by debugtime. */
static uint32_t clock_at(const struct cache *cache, uint64_t elapsed_s)
{
    uint32_t stopped_s = atomic_load_explicit(&cache->clock_stopped_s, memory_order_relaxed);
    int64_t moved_s = atomic_load_explicit(&cache->clock_moved_s, memory_order_relaxed);
    int64_t shown_s = (int64_t)elapsed_s + cache->clock_start_s + moved_s;

    if (stopped_s != 0)
        return stopped_s;
    if (shown_s < cache->clock_start_s)
        return cache->clock_start_s;
    return shown_s < UINT32_MAX ? (uint32_t)shown_s : UINT32_MAX;
}

uint32_t cache_clock_at(const struct cache *cache, uint64_t now_us)
{
    return clock_at(cache, (now_us - cache->start_us) / SECOND_US);
}

bool cache_clock_set(struct cache_worker *worker, uint64_t now_us)
{
    const struct cache *cache = worker->cache;
    unsigned version = atomic_load_explicit(&cache->clock_version, memory_order_acquire);
    uint64_t elapsed_s;

    worker->now_us = now_us;
    if (now_us < worker->next_second_us && version == worker->clock_version)
        return false;
    elapsed_s = (now_us - cache->start_us) / SECOND_US;
    worker->clock_version = version;
    worker->now_s = clock_at(cache, elapsed_s);
    worker->next_second_us = cache->start_us + (elapsed_s + 1) * SECOND_US;
    return true;
}

/* ---- debugtime --------------------------------------------------------------------------- */

static void clock_changed(struct cache_worker *worker)
{
    atomic_fetch_add_explicit(&worker->cache->clock_version, 1, memory_order_release);
    if (cache_clock_set(worker, worker->now_us))
        kv_tick(worker->kv_worker, worker->now_s);
}

void cache_clock_pause(struct cache_worker *worker)
{
    atomic_store_explicit(&worker->cache->clock_stopped_s, worker->now_s, memory_order_relaxed);
    clock_changed(worker);
}

void cache_clock_resume(struct cache_worker *worker)
{
    atomic_store_explicit(&worker->cache->clock_stopped_s, 0, memory_order_relaxed);
    clock_changed(worker);
}

void cache_clock_move(struct cache_worker *worker, int32_t seconds)
{
    struct cache *cache = worker->cache;
    uint32_t stopped_s = atomic_load_explicit(&cache->clock_stopped_s, memory_order_relaxed);

    atomic_fetch_add_explicit(&cache->clock_moved_s, seconds, memory_order_relaxed);
    if (stopped_s != 0) {
        int64_t moved_s = (int64_t)stopped_s + seconds;

        stopped_s = moved_s > cache->clock_start_s ? (uint32_t)moved_s : cache->clock_start_s;
        atomic_store_explicit(&cache->clock_stopped_s, stopped_s, memory_order_relaxed);
    }
    clock_changed(worker);
}

/* ---- expiry ------------------------------------------------------------------------------ */

uint32_t cache_clock_expiry(const struct cache_worker *worker, int64_t exptime)
{
    uint64_t zero_unix_s;

    if (exptime == 0)
        return 0;
    if (exptime < 0)
        return CACHE_CLOCK_PAST_S;
    if (exptime <= CACHE_RELATIVE_MAX_S)
        return worker->now_s + (uint32_t)exptime;
    zero_unix_s = clock_zero_unix_s(worker->cache);
    if ((uint64_t)exptime <= zero_unix_s)
        return CACHE_CLOCK_PAST_S;
    return (uint32_t)((uint64_t)exptime - zero_unix_s);
}

uint32_t cache_clock_expiry_of_new(const struct cache_worker *worker, int64_t exptime)
{
    if (worker->now_s == worker->flush_second_s)
        return CACHE_CLOCK_PAST_S;
    return cache_clock_expiry(worker, exptime);
}

uint64_t cache_clock_unix_of(const struct cache *cache, uint32_t time_s)
{
    return clock_zero_unix_s(cache) + time_s;
}

uint64_t cache_clock_unix_s(const struct cache_worker *worker)
{
    return worker->cache->start_unix_s + (worker->now_s - worker->cache->clock_start_s);
}
