/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of `stats`.
 */
#ifndef CACHE_STATS_H
#define CACHE_STATS_H

#include "cache/session.h"

/* A reply to `stats` that is being written. */
struct cache_stats_out {
    struct cache_session *session; /* that asked */
    const struct mc_request *request;
    struct cache_sink *sink;
    bool failed; /* the transport had no memory: nothing more is written */
};

/*
 * Writes one line, or one packet of the binary protocol; out is a struct cache_stats_out. What is
 * too long is cut.
 */
void cache_stats_text(void *out, const char *name, const char *value);

void cache_stats_number(struct cache_stats_out *out, const char *name, uint64_t value);

/* Sums of the counters since the last reset, and the engine's figures. */
struct cache_stats_sums {
    uint64_t counters[CACHE_COUNTER_COUNT];
    struct kv_stats kv;
    uint64_t session_structs;
};

void cache_stats_sum(struct cache *cache, struct cache_stats_sums *sums);

void cache_stats_general(struct cache_stats_out *out);
void cache_stats_settings(struct cache_stats_out *out);
void cache_stats_items(struct cache_stats_out *out);
void cache_stats_slabs(struct cache_stats_out *out);
void cache_stats_conns(struct cache_stats_out *out);

#endif
