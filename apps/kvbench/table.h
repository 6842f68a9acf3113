/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the measured tables: the engine and tables of other libraries. All store copies
 * of keys and values, use the same hash function, and copy the value out on a GET, as a server
 * does.
 *
 * A table is created once; each thread joins it, runs bursts of requests, and leaves.
 */
#ifndef KVBENCH_TABLE_H
#define KVBENCH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kv/hash.h"
#include "kv/kv.h"

#define TABLE_BURST 64 /* requests between two quiescent states */

/* One request. Arrays have a stride, as key lengths differ. */
struct table_request {
    uint32_t value_bytes;
    uint8_t op; /* enum load_op: GET, SET or DELETE */
    uint8_t key_bytes;
    uint8_t key[];
};

struct table_requests {
    const uint8_t *at;
    size_t stride;
    unsigned count;
    unsigned group; /* requests that are hashed and prefetched together; 1: no prefetch */
};

struct table_config {
    uint64_t memory_bytes; /* the engine's limit; other tables have none */
    uint32_t value_bytes_max;
    unsigned threads_max;
    uint64_t items; /* expected number, for tables with an initial size; 0: let them grow */
    enum kv_policy_kind policy; /* the engine's eviction */
    uint64_t touch_ahead_bytes; /* bytes that the engine's thread prefaults */
};

struct table_tally {
    uint64_t hits;
    uint64_t misses;
    uint64_t failures; /* refused SETs */
};

struct table_ops {
    const char *name;
    const char *about;
    const char *absent; /* why this build lacks it; null: available */
    bool staged;        /* uses requests.group */

    /* Null with *error set to a phrase. */
    void *(*create)(const struct table_config *config, const char **error);
    void (*destroy)(void *table);

    /* For the calling thread. Null if there is no memory. */
    void *(*join)(void *table);
    void (*leave)(void *worker);

    /* Executes at most TABLE_BURST requests in order, then is quiescent. */
    void (*run)(void *worker, const struct table_requests *requests, struct table_tally *tally);
};

extern const struct table_ops table_engine, table_mutex, table_rculf;

/* All tables, the engine first; ends with null. */
extern const struct table_ops *const tables[];

/* The engine of a table of table_engine. */
struct kv *table_engine_kv(void *table);

static inline const struct table_request *table_request_at(const struct table_requests *requests,
                                                           unsigned i)
{
    return (const struct table_request *)(const void *)(requests->at + i * requests->stride);
}

/* The hash of the other tables: the engine's function with a fixed secret. */
extern struct kv_hash table_hash_secret;

/* Call before the first hash; may be repeated. */
void table_hash_init(void);

static inline uint64_t table_hash(const uint8_t *key, uint32_t bytes)
{
    return kv_hash_of(&table_hash_secret, key, bytes);
}

#endif
