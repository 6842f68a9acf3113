/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics by prefix: how often keys of a prefix were fetched, found, stored and deleted
 * (`stats detail`, -D). The prefix ends at the first delimiter; keys without one are not counted.
 *
 * One table for all workers under one lock, which is taken only while detail is on.
 */
#ifndef CACHE_PREFIX_STATS_H
#define CACHE_PREFIX_STATS_H

#include "cache/cache_worker.h"

/* The number of prefixes; further ones are not counted. */
#define CACHE_PREFIXES_MAX 65536

/* Events, as bits of a set. */
enum cache_prefix_event {
    CACHE_PREFIX_GET = 1 << 0,
    CACHE_PREFIX_HIT = 1 << 1,
    CACHE_PREFIX_SET = 1 << 2,
    CACHE_PREFIX_DEL = 1 << 3
};

struct cache_prefixes;
struct cache_textbuf;

/* Null if there is no memory. */
struct cache_prefixes *cache_prefixes_new(void);
void cache_prefixes_free(struct cache_prefixes *prefixes);

/* Counts each event of a key. No effect if there is no memory. */
void cache_prefix_count(struct cache *cache, const uint8_t *key, uint32_t key_len, unsigned events);

/*
 * Adds "PREFIX <prefix> get <n> hit <n> set <n> del <n>\r\n" for each of the next few, from *at on,
 * which is 0 at first. True if there are more. The lock is held for one part at a time.
 */
#define CACHE_PREFIX_PART 32
bool cache_prefix_dump(struct cache *cache, struct cache_textbuf *text, uint32_t *at);

/* Sends all of them and END, in steps. Returns 0, or -1 if the connection has to close. */
int cache_prefix_dump_start(struct cache_session *session, struct cache_sink *sink);

/* Removes all prefixes. */
void cache_prefix_reset(struct cache *cache);

/* Switches counting on or off for all workers; the counts stay. */
void cache_prefix_switch(struct cache_worker *worker, bool on);

#endif
