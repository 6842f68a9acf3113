/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock that items expire by, and memcached's rules for expiry times.
 *
 * The clock counts whole seconds and starts at 2, as memcached's does, so that 1 is always past and
 * 0 can mean "never". With restored items it continues from where it was saved.
 */
#ifndef CACHE_CLOCK_H
#define CACHE_CLOCK_H

#include <stdint.h>

#include "cache/cache_worker.h"

#define CACHE_CLOCK_START_S 2
#define CACHE_CLOCK_PAST_S 1
#define CACHE_CLOCK_START_MAX_S (UINT32_C(1) << 31) /* of a clock that continues */

/* Expiry times up to 30 days are relative; larger ones are Unix time. */
#define CACHE_RELATIVE_MAX_S (60 * 60 * 24 * 30)

/* The clock at a monotonic time, as changed by debugtime. */
uint32_t cache_clock_at(const struct cache *cache, uint64_t now_us);

/*
 * Sets the worker's clock to a monotonic time, as changed by debugtime. Returns whether the second
 * has changed.
 */
bool cache_clock_set(struct cache_worker *worker, uint64_t now_us);

/*
 * The time on this clock of a client's exptime: 0 never, negative past, else relative or absolute.
 * That of a binary request is unsigned, so never negative.
 */
uint32_t cache_clock_expiry(const struct cache_worker *worker, int64_t exptime);

/*
 * The same for an item that is stored now. In the second in which a delayed flush takes effect new
 * items are flushed too: the result is past.
 */
uint32_t cache_clock_expiry_of_new(const struct cache_worker *worker, int64_t exptime);

/* A time on this clock as Unix time. */
uint64_t cache_clock_unix_of(const struct cache *cache, uint32_t time_s);

/* Seconds since a time on the engine's clock; another worker's clock may be a second ahead. */
static inline uint32_t cache_clock_since(const struct cache_worker *worker, uint32_t then_s)
{
    return worker->now_s > then_s ? worker->now_s - then_s : 0;
}

/* Seconds since the start, plus CACHE_CLOCK_START_S: what memcached shows as its uptime. */
static inline uint32_t cache_clock_uptime(const struct cache_worker *worker)
{
    return worker->now_s - worker->cache->clock_start_s + CACHE_CLOCK_START_S;
}

/* The present as Unix time. */
uint64_t cache_clock_unix_s(const struct cache_worker *worker);

/*
 * debugtime: stops the clock of all workers, lets it run again as if it had not stopped, or moves
 * it by `seconds`. Other workers follow in their next loop.
 */
void cache_clock_pause(struct cache_worker *worker);
void cache_clock_resume(struct cache_worker *worker);
void cache_clock_move(struct cache_worker *worker, int32_t seconds);

#endif
