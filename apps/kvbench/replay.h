/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of requests through a cache with a limit of memory: how many GETs miss. */
#ifndef KVBENCH_REPLAY_H
#define KVBENCH_REPLAY_H

#include "kvbench/source.h"

struct replay_result {
    uint64_t gets;
    uint64_t misses;
    double items;       /* that are there at the end */
    double taken_bytes; /* by what the cache itself says */
};

/*
 * Through the real engine: a GET that misses is followed by a SET; the clock is the stream's. The
 * first `warm` requests are not counted. False with a message.
 */
bool replay_engine(struct source *source, const struct source_facts *facts, uint64_t memory_bytes,
                   enum kv_policy_kind policy, uint64_t warm, struct replay_result *result);

/* Through memcached with the same limit; its clock is the real one, so nothing may expire. */
bool replay_memcached(struct source *source, const struct source_facts *facts,
                      uint64_t memory_bytes, uint64_t warm, struct replay_result *result);

/* The limit at which the engine holds `objects` items of the source's mean size. */
bool replay_bytes_for(struct source *source, const struct source_facts *facts, uint64_t objects,
                      uint64_t *memory_bytes);

#endif
