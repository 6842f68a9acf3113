/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency histograms by command, measured by the server.
 *
 * A worker's transport reads the clock once before it takes input and once after the replies have
 * left, and cache_latency_record() counts all requests in between with this time: one addition to
 * a slot for each command. While requests are executed, only `pending` is written. The histograms
 * belong to one worker each, with relaxed loads and stores; any thread may read them.
 *
 * The slots are logarithmic: nanoseconds below 2^(CACHE_LATENCY_SUB_BITS + 1) have one each, every
 * further power of two has 2^CACHE_LATENCY_SUB_BITS, so that a slot is at most 3.2 % wide.
 */
#ifndef CACHE_LATENCY_H
#define CACHE_LATENCY_H

#include "cache/cache_worker.h"

/* The class of a command: its value up to `mn`, 0 for all others. */
static inline unsigned cache_latency_class(enum mc_command command)
{
    return command <= MC_CMD_MN ? (unsigned)command : 0;
}

/* A request has been executed whose reply is sent in this turn. */
static inline void cache_latency_add(struct cache_worker *worker, unsigned class)
{
    worker->latency_pending[class]++;
    worker->latency_classes |= 1u << class;
}

/* Whether any has since the last cache_latency_record(). */
static inline bool cache_latency_is_pending(const struct cache_worker *worker)
{
    return worker->latency_classes != 0;
}

/*
 * All requests that are pending, of which there is one, took this time from input to replies,
 * less than 2^CACHE_LATENCY_MAX_BITS. Called by the transport when replies have left.
 */
void cache_latency_record(struct cache_worker *worker, uint64_t ns);

/* The slot of a time below 2^CACHE_LATENCY_MAX_BITS, and the first nanosecond of a slot. */
static inline unsigned cache_latency_slot(uint64_t ns)
{
    const uint64_t low = (UINT64_C(2) << CACHE_LATENCY_SUB_BITS) - 1;
    unsigned shift = (unsigned)(64 - __builtin_clzll(ns | low)) - (CACHE_LATENCY_SUB_BITS + 1);

    return (shift << CACHE_LATENCY_SUB_BITS) + (unsigned)(ns >> shift);
}

uint64_t cache_latency_slot_ns(unsigned slot);

/* Adds the histograms of a worker that leaves to those of the cache, under cache->lock. */
void cache_latency_leave(struct cache_worker *worker);

/* `stats reset`, under cache->lock. */
void cache_latency_reset(struct cache *cache);

#endif
