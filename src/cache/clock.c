/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock and expiry times.
 */
#include "cache/clock.h"

#define SECOND_US 1000000u

/* Unix time at which our clock would have shown 0. */
static uint64_t clock_zero_unix_s(const struct cache *cache)
{
    if (cache->start_unix_s < CACHE_CLOCK_START_S)
        return 0;
    return cache->start_unix_s - CACHE_CLOCK_START_S;
}

bool cache_clock_set(struct cache_worker *worker, uint64_t now_us)
{
    uint64_t elapsed_s;

    if (now_us < worker->next_second_us)
        return false;
    elapsed_s = (now_us - worker->cache->start_us) / SECOND_US;
    worker->now_s = (uint32_t)elapsed_s + CACHE_CLOCK_START_S;
    worker->next_second_us = worker->cache->start_us + (elapsed_s + 1) * SECOND_US;
    return true;
}

uint32_t cache_clock_expiry(const struct cache_worker *worker, int64_t exptime)
{
    uint64_t zero_unix_s;

    if (exptime == 0)
        return 0;
    if (exptime < 0)
        return CACHE_CLOCK_OVER_S;
    if (exptime <= CACHE_RELATIVE_MAX_S)
        return worker->now_s + (uint32_t)exptime;
    zero_unix_s = clock_zero_unix_s(worker->cache);
    if ((uint64_t)exptime <= zero_unix_s)
        return CACHE_CLOCK_OVER_S;
    return (uint32_t)((uint64_t)exptime - zero_unix_s);
}

uint32_t cache_clock_expiry_of_new(const struct cache_worker *worker, int64_t exptime)
{
    if (worker->now_s == worker->flush_second_s)
        return CACHE_CLOCK_OVER_S;
    return cache_clock_expiry(worker, exptime);
}

uint64_t cache_clock_unix_s(const struct cache_worker *worker)
{
    return worker->cache->start_unix_s + (worker->now_s - CACHE_CLOCK_START_S);
}
