/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics by prefix: how often keys that begin alike were fetched, found, stored and deleted
 * (`stats detail`, -D). The prefix is what stands before the first delimiter; keys without one are
 * not counted.
 *
 * One table for all workers under one lock, which is taken only while detail is on.
 */
#ifndef CACHE_PREFIX_H
#define CACHE_PREFIX_H

#include "cache/text.h"
#include "cache/worker.h"

/* Prefixes that are told apart; what comes later is not counted. */
#define CACHE_PREFIXES_MAX 65536

enum cache_prefix_event {
    CACHE_PREFIX_GET = 0,
    CACHE_PREFIX_HIT,
    CACHE_PREFIX_SET,
    CACHE_PREFIX_DEL,
    CACHE_PREFIX_EVENTS
};

struct cache_prefixes;

/* Null if there is no memory. */
struct cache_prefixes *cache_prefixes_new(void);
void cache_prefixes_free(struct cache_prefixes *prefixes);

/*
 * Counts what has happened to a key: once for each event whose bit is set. There is no effect if
 * memory is short.
 */
void cache_prefix_count(struct cache *cache, const uint8_t *key, uint32_t key_len, unsigned events);

/* Adds "PREFIX <prefix> get <n> hit <n> set <n> del <n>\r\n" for each. */
void cache_prefix_dump(struct cache *cache, struct cache_text *text);

/* Forgets all. */
void cache_prefix_reset(struct cache *cache);

/* Switches the counting on or off for all workers; what has been counted stays. */
void cache_prefix_switch(struct cache_worker *worker, bool on);

#endif
