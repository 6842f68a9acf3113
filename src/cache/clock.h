/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock that items expire by, and memcached's rules for expiry times.
 *
 * The clock counts whole seconds and starts at 2, as memcached's does, so that 1 is always a time
 * that is over and 0 can mean "never".
 */
#ifndef CACHE_CLOCK_H
#define CACHE_CLOCK_H

#include <stdint.h>

#include "cache/worker.h"

#define CACHE_CLOCK_START_S 2
#define CACHE_CLOCK_OVER_S 1

/* Expiry times up to 30 days are relative; larger ones are Unix time. */
#define CACHE_RELATIVE_MAX_S (60 * 60 * 24 * 30)

/*
 * Brings the worker's clock to a monotonic time, less what debugtime has made of it. Returns true
 * if the second has changed.
 */
bool cache_clock_set(struct cache_worker *worker, uint64_t now_us);

/*
 * The time on our clock that a client's exptime means: 0 never, negative already over, then
 * relative or absolute. In the binary protocol it has no sign, so that it is never negative.
 */
uint32_t cache_clock_expiry(const struct cache_worker *worker, int64_t exptime);

/*
 * The same for an item that is stored now. In the second in which a delayed flush takes effect
 * whatever is stored is flushed too, so it expires at once.
 */
uint32_t cache_clock_expiry_of_new(const struct cache_worker *worker, int64_t exptime);

/* A time on our clock as Unix time. */
uint64_t cache_clock_unix_of(const struct cache *cache, uint32_t time_s);

/* Seconds since a time on the engine's clock; another worker's clock may be a second ahead. */
static inline uint32_t cache_clock_since(const struct cache_worker *worker, uint32_t then_s)
{
    return worker->now_s > then_s ? worker->now_s - then_s : 0;
}

/* The present as Unix time. */
uint64_t cache_clock_unix_s(const struct cache_worker *worker);

/*
 * debugtime: stops the clock of all workers, lets it go on from where it would be, or moves it by
 * so many seconds. The worker's own clock follows at once, the others' in their next loop.
 */
void cache_clock_pause(struct cache_worker *worker);
void cache_clock_go_on(struct cache_worker *worker);
void cache_clock_move(struct cache_worker *worker, int32_t seconds);

#endif
