/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expanded keys of a thread's connections. A connection keeps its keys as they were derived; what
 * the AEAD makes of them is ten times as large and is made again when it is needed and not here.
 */
#ifndef TLS_KEY_CACHE_H
#define TLS_KEY_CACHE_H

#include "tls/aead.h"
#include "tls/tls.h"

/* Of a key: one for each direction of a connection. */
#define TLS_CACHED_KEYS_MAX 4096

/* Names a key: its entry in the cache, if that entry's owner is this. Zero at the start. */
struct tls_cached_key {
    uint32_t entry;
};

/* The expanded key, or null if there is no memory. Valid until the next call. */
void *tls_key_cache_get(struct tls_key_cache *cache, struct tls_cached_key *name,
                        const uint8_t *key, uint32_t key_len);

/* Prefetches the expanded key, if it is there. */
void tls_key_cache_prefetch(const struct tls_key_cache *cache, const struct tls_cached_key *name);

/* The key is not used any more: zeroes the expanded one. */
void tls_key_cache_drop(struct tls_key_cache *cache, const struct tls_cached_key *name);

const struct tls_aead *tls_key_cache_aead(const struct tls_key_cache *cache);

/* A cache for this AEAD; tls_key_cache_open() of tls.h chooses one. Null: no memory. */
struct tls_key_cache *tls_key_cache_new(const struct tls_aead *aead);

#endif
