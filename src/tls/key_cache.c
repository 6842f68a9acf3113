/* SPDX-License-Identifier: BSD-3-Clause */
/* Expanded keys; see key_cache.h. */
#include "tls/key_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Entries are allocated in blocks, as they are needed. */
#define BLOCK_ENTRIES 64
#define BLOCKS (TLS_CACHED_KEYS_MAX / BLOCK_ENTRIES)

/* Of an expanded key: what a short record needs. */
#define PREFETCH_BYTES 384

/* Entries that are considered for another key before one is taken that was used. */
#define CONSIDERED_MAX 16

#define NO_ENTRY UINT32_MAX

struct entry {
    const struct tls_cached_key *owner; /* null: free */
    uint32_t next_free;                 /* if it is free */
    bool used;                          /* since the hand has passed */
};

struct block {
    struct entry entries[BLOCK_ENTRIES];
    uint8_t *expanded;
};

struct tls_key_cache {
    const struct tls_aead *aead;
    uint32_t count; /* entries that are allocated */
    uint32_t first_free;
    uint32_t hand; /* the next entry to be considered for another key */
    struct block *blocks[BLOCKS];
};

static struct entry *entry_at(const struct tls_key_cache *cache, uint32_t at)
{
    return &cache->blocks[at / BLOCK_ENTRIES]->entries[at % BLOCK_ENTRIES];
}

static uint8_t *expanded_at(const struct tls_key_cache *cache, uint32_t at)
{
    return cache->blocks[at / BLOCK_ENTRIES]->expanded +
           (size_t)(at % BLOCK_ENTRIES) * cache->aead->expanded_bytes;
}

/* The entry of a key, or null. */
static struct entry *find(const struct tls_key_cache *cache, const struct tls_cached_key *name)
{
    struct entry *entry;

    if (name->entry >= cache->count)
        return NULL;
    entry = entry_at(cache, name->entry);
    return entry->owner == name ? entry : NULL;
}

static void set_free(struct tls_key_cache *cache, uint32_t at)
{
    struct entry *entry = entry_at(cache, at);

    entry->owner = NULL;
    entry->next_free = cache->first_free;
    cache->first_free = at;
}

static void grow(struct tls_key_cache *cache)
{
    size_t bytes = (size_t)BLOCK_ENTRIES * cache->aead->expanded_bytes;
    struct block *block = calloc(1, sizeof(*block));
    uint32_t n;

    if (block)
        block->expanded = aligned_alloc(TLS_AEAD_ALIGN, bytes);
    if (!block || !block->expanded) {
        free(block);
        return;
    }
    memset(block->expanded, 0, bytes);
    cache->blocks[cache->count / BLOCK_ENTRIES] = block;
    cache->count += BLOCK_ENTRIES;
    for (n = 1; n <= BLOCK_ENTRIES; n++)
        set_free(cache, cache->count - n);
}

/* An entry that was not used lately (CLOCK), or any. */
static uint32_t take_used(struct tls_key_cache *cache)
{
    struct entry *entry;
    uint32_t at;
    unsigned n = 0;

    do {
        at = cache->hand;
        cache->hand = at + 1 == cache->count ? 0 : at + 1;
        entry = entry_at(cache, at);
        if (!entry->used)
            break;
        entry->used = false;
    } while (++n < CONSIDERED_MAX);
    return at;
}

/* An entry for another key; NO_ENTRY: no memory. */
static uint32_t take(struct tls_key_cache *cache)
{
    uint32_t at;

    if (cache->first_free == NO_ENTRY && cache->count < TLS_CACHED_KEYS_MAX)
        grow(cache);
    at = cache->first_free;
    if (at != NO_ENTRY)
        cache->first_free = entry_at(cache, at)->next_free;
    else if (cache->count > 0)
        at = take_used(cache);
    return at;
}

void *tls_key_cache_get(struct tls_key_cache *cache, struct tls_cached_key *name,
                        const uint8_t *key, uint32_t key_len)
{
    struct entry *entry = find(cache, name);
    uint32_t at;

    if (U_UNLIKELY(!entry)) {
        at = take(cache);
        if (at == NO_ENTRY)
            return NULL;
        if (!cache->aead->expand(expanded_at(cache, at), key, key_len)) {
            set_free(cache, at);
            return NULL;
        }
        entry = entry_at(cache, at);
        entry->owner = name;
        name->entry = at;
    }
    entry->used = true;
    return expanded_at(cache, name->entry);
}

void tls_key_cache_prefetch(const struct tls_key_cache *cache, const struct tls_cached_key *name)
{
    const uint8_t *expanded;
    uint32_t at;

    if (name->entry >= cache->count)
        return;
    expanded = expanded_at(cache, name->entry);
    for (at = 0; at < PREFETCH_BYTES && at < cache->aead->expanded_bytes; at += U_CACHE_LINE_BYTES)
        U_PREFETCH(expanded + at);
}

void tls_key_cache_drop(struct tls_key_cache *cache, const struct tls_cached_key *name)
{
    if (!find(cache, name))
        return;
    cache->aead->clear(expanded_at(cache, name->entry));
    set_free(cache, name->entry);
}

const struct tls_aead *tls_key_cache_aead(const struct tls_key_cache *cache)
{
    return cache->aead;
}

struct tls_key_cache *tls_key_cache_new(const struct tls_aead *aead)
{
    struct tls_key_cache *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return NULL;
    cache->aead = aead;
    cache->first_free = NO_ENTRY;
    return cache;
}

struct tls_key_cache *tls_key_cache_open(void)
{
    return tls_key_cache_new(tls_aead_best());
}

void tls_key_cache_close(struct tls_key_cache *cache)
{
    uint32_t at;

    if (!cache)
        return;
    for (at = 0; at < cache->count; at++)
        cache->aead->clear(expanded_at(cache, at));
    for (at = 0; at < cache->count; at += BLOCK_ENTRIES) {
        free(cache->blocks[at / BLOCK_ENTRIES]->expanded);
        free(cache->blocks[at / BLOCK_ENTRIES]);
    }
    free(cache);
}
