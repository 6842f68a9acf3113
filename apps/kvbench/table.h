/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What kvbench measures: the engine, and the tables of others that it is put beside. All of them
 * hold copies of keys and values, hash with the same function, and copy the value out on a GET, as
 * a server does.
 *
 * A table is made once; each thread joins it, runs bursts of requests, and leaves.
 */
#ifndef KVBENCH_TABLE_H
#define KVBENCH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "kv/hash.h"
#include "kv/kv.h"

#define TABLE_BURST 64 /* requests between two announcements that no item is looked at */

/* One request; an array of them has a stride, as keys are of the length they have. */
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
    unsigned group; /* requests that are hashed and prefetched together; 1: each by itself */
};

struct table_config {
    uint64_t memory_bytes; /* the engine's bound; others take what they take */
    uint32_t value_bytes_max;
    unsigned threads_max;
    uint64_t items; /* expected, for tables that can be given their size; 0: they are to grow */
    enum kv_policy_kind policy; /* the engine's eviction */
    uint64_t touch_ahead_bytes; /* that a thread of the engine touches before they are needed */
};

struct table_tally {
    uint64_t hits;
    uint64_t misses;
    uint64_t failures; /* SETs that were refused */
};

struct table_ops {
    const char *name;
    const char *about;
    const char *absent; /* why this build is without it; null: it is there */
    bool staged;        /* does something with requests.group */

    /* Null with *error set to a phrase. */
    void *(*create)(const struct table_config *config, const char **error);
    void (*destroy)(void *table);

    /* For the calling thread. Null if there is no memory. */
    void *(*join)(void *table);
    void (*leave)(void *worker);

    /* Carries requests out in order, at most TABLE_BURST; then holds nothing any more. */
    void (*run)(void *worker, const struct table_requests *requests, struct table_tally *tally);
};

extern const struct table_ops table_engine, table_mutex, table_rculf, table_ck;

/* The above, the engine first; null ends it. */
extern const struct table_ops *const tables[];

/* What is behind table_engine, for what only the engine has. */
struct kv *table_engine_kv(void *table);

static inline const struct table_request *table_request_at(const struct table_requests *requests,
                                                           unsigned i)
{
    return (const struct table_request *)(const void *)(requests->at + i * requests->stride);
}

/* The hash of the tables beside the engine: the engine's function under a fixed secret. */
extern struct kv_hash table_hash_secret;

/* Before the first hash; may be called again. */
void table_hash_init(void);

static inline uint64_t table_hash(const uint8_t *key, uint32_t bytes)
{
    return kv_hash_of(&table_hash_secret, key, bytes);
}

#endif
