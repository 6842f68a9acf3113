/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of `stats`. Each is filled line by line into a text, in the form of whichever protocol
 * has asked, and sent when it is complete.
 */
#ifndef CACHE_STATS_H
#define CACHE_STATS_H

#include "cache/session.h"
#include "cache/text.h"

/* A list that is being filled. */
struct cache_stats_out {
    struct cache_session *session;  /* that asked */
    const struct mc_binary *binary; /* its request, or null: text */
    struct cache_text text;
};

/* Adds one line; out is a struct cache_stats_out (a cache_stats_emit). An overlong line is cut. */
void cache_stats_text(void *out, const char *name, const char *value);

void cache_stats_number(struct cache_stats_out *out, const char *name, uint64_t value);

/* Sums of the counters since the last reset, and the engine's figures. */
struct cache_stats_sums {
    struct cache_sums cache;
    struct kv_stats kv;
    uint64_t session_structs;
    unsigned watchers;
};

void cache_stats_sum(struct cache *cache, struct cache_stats_sums *sums);

/* ---- the lists (stats_*.c) --------------------------------------------------------------- */

void cache_stats_general(struct cache_stats_out *out);
void cache_stats_settings(struct cache_stats_out *out);
void cache_stats_items(struct cache_stats_out *out);
void cache_stats_slabs(struct cache_stats_out *out);
void cache_stats_sizes(struct cache_stats_out *out);
void cache_stats_conns(struct cache_stats_out *out);

/* `stats kv`: the engine; memcached has no such list. */
void cache_stats_kv(struct cache_stats_out *out);

#endif
