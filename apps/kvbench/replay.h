/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays a stream of requests through a cache with a memory limit and counts misses. */
#ifndef KVBENCH_REPLAY_H
#define KVBENCH_REPLAY_H

#include "kvbench/source.h"

struct replay_result {
    uint64_t gets;
    uint64_t misses;
    double items;       /* in the cache at the end */
    double taken_bytes; /* as reported by the cache */
};

/*
 * Replays through the engine: a GET that misses is followed by a SET; time is the stream's. The
 * first `warm` requests are not counted. False with a message.
 */
bool replay_engine(struct source *source, const struct source_facts *facts, uint64_t memory_bytes,
                   enum kv_policy_kind policy, uint64_t warm, struct replay_result *result);

/* Replays through memcached with the same limit, in real time: for streams without expiry. */
bool replay_memcached(struct source *source, const struct source_facts *facts,
                      uint64_t memory_bytes, uint64_t warm, struct replay_result *result);

/* The limit at which the engine holds `objects` items of the source's mean size. */
bool replay_bytes_for(struct source *source, const struct source_facts *facts, uint64_t objects,
                      uint64_t *memory_bytes);

#endif
