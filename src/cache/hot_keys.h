/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The most requested keys, by sampling: each worker looks at about one of CACHE_HOT_SAMPLE requests
 * and counts its key in a table of CACHE_HOT_KEYS_MAX entries by Space-Saving: a new key in a full
 * table takes over the entry with the smallest count, and its count as the possible error. A key
 * with more than 1 / CACHE_HOT_KEYS_MAX of the samples is always in the table.
 *
 * cache_latency_record() counts the requests of a turn and marks a sample as due; the next turn
 * takes it, of a random event of the burst or of the next input. So a request pays nothing, and an
 * input one comparison.
 */
#ifndef CACHE_HOT_KEYS_H
#define CACHE_HOT_KEYS_H

#include "cache/session.h"

#define CACHE_HOT_SAMPLE 1024
#define CACHE_HOT_KEYS_MAX 64
#define CACHE_HOT_SHOWN_MAX 32

struct cache_hot_key {
    uint64_t samples;
    uint64_t error; /* of these, at most so many were of other keys */
    uint8_t len;
    uint8_t key[KV_KEY_MAX];
};

struct cache_hot_keys {
    pthread_mutex_t lock; /* the worker only tries it: a sample that finds it held is skipped */
    unsigned count;
    struct cache_hot_key keys[CACHE_HOT_KEYS_MAX];
};

/* A sample is due; the next one follows after CACHE_HOT_SAMPLE requests on average. */
void cache_hot_next(struct cache_worker *worker);

/* Counts the key of the request at the start of an input, if it is complete and has one. */
void cache_hot_sample(struct cache_session *session, const uint8_t *data, uint32_t len);

/* Counts a key. */
void cache_hot_add(struct cache_hot_keys *hot, const uint8_t *key, uint32_t len);

/* Allocates the table of a worker; null: no memory. */
struct cache_hot_keys *cache_hot_new(void);
void cache_hot_free(struct cache_hot_keys *hot);

/* `stats reset`, under cache->lock. */
void cache_hot_reset(struct cache *cache);

#endif
