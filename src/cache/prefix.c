/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics by prefix: an open hash table that grows to twice the number of prefixes.
 */
#include "cache/prefix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/note.h"

#define SLOTS_FIRST 64

struct prefix {
    uint64_t hash;
    uint64_t events[CACHE_PREFIX_EVENTS];
    uint32_t len;
    uint8_t bytes[];
};

struct cache_prefixes {
    pthread_mutex_t lock;
    struct prefix **slots; /* slot_count, a power of two, or null before the first prefix */
    uint32_t slot_count;
    uint32_t count;
};

struct cache_prefixes *cache_prefixes_new(void)
{
    struct cache_prefixes *prefixes = calloc(1, sizeof(*prefixes));

    if (prefixes != NULL)
        pthread_mutex_init(&prefixes->lock, NULL);
    return prefixes;
}

static void clear(struct cache_prefixes *prefixes)
{
    for (uint32_t i = 0; i < prefixes->slot_count; i++)
        free(prefixes->slots[i]);
    free(prefixes->slots);
    prefixes->slots = NULL;
    prefixes->slot_count = 0;
    prefixes->count = 0;
}

void cache_prefixes_free(struct cache_prefixes *prefixes)
{
    clear(prefixes);
    pthread_mutex_destroy(&prefixes->lock);
    free(prefixes);
}

/* ---- the table (under the lock) ---------------------------------------------------------- */

/* The slot that the prefix is in, or the empty one that it would be in. There are empty ones. */
static struct prefix **slot_of(const struct cache_prefixes *prefixes, const struct kv_key *key)
{
    uint32_t mask = prefixes->slot_count - 1;
    uint32_t at = (uint32_t)key->hash & mask;

    for (;; at = (at + 1) & mask) {
        struct prefix *prefix = prefixes->slots[at];

        if (prefix == NULL || (prefix->hash == key->hash && prefix->len == key->len &&
                               memcmp(prefix->bytes, key->bytes, key->len) == 0))
            return &prefixes->slots[at];
    }
}

/* Keeps at least half of the slots empty. False if there is no memory for that. */
static bool make_room(struct cache_prefixes *prefixes)
{
    struct cache_prefixes grown = *prefixes;

    if (prefixes->count < prefixes->slot_count / 2)
        return true;
    grown.slot_count = prefixes->slot_count > 0 ? prefixes->slot_count * 2 : SLOTS_FIRST;
    grown.slots = calloc(grown.slot_count, sizeof(struct prefix *));
    if (grown.slots == NULL)
        return false;
    for (uint32_t i = 0; i < prefixes->slot_count; i++) {
        struct prefix *prefix = prefixes->slots[i];

        if (prefix != NULL) {
            struct kv_key key = {.bytes = prefix->bytes, .len = prefix->len, .hash = prefix->hash};

            *slot_of(&grown, &key) = prefix;
        }
    }
    free(prefixes->slots);
    prefixes->slots = grown.slots;
    prefixes->slot_count = grown.slot_count;
    return true;
}

/* The entry of a prefix, which is made if need be; null if it can't be. */
static struct prefix *prefix_get(struct cache_prefixes *prefixes, const struct kv_key *key)
{
    struct prefix **slot;

    if (!make_room(prefixes))
        return NULL;
    slot = slot_of(prefixes, key);
    if (*slot == NULL && prefixes->count < CACHE_PREFIXES_MAX) {
        struct prefix *made = calloc(1, sizeof(*made) + key->len);

        if (made == NULL)
            return NULL;
        made->hash = key->hash;
        made->len = key->len;
        memcpy(made->bytes, key->bytes, key->len);
        prefixes->count++;
        *slot = made;
    }
    return *slot;
}

/* ---- what leaves the file ---------------------------------------------------------------- */

void cache_prefix_count(struct cache *cache, const uint8_t *key, uint32_t key_len, unsigned events)
{
    struct cache_prefixes *prefixes = cache->prefixes;
    const uint8_t *end = memchr(key, cache->settings.prefix_delimiter, key_len);
    struct prefix *prefix;
    struct kv_key name;

    if (end == NULL || end == key)
        return;
    name = kv_key(cache->kv, key, (uint32_t)(end - key));
    pthread_mutex_lock(&prefixes->lock);
    prefix = prefix_get(prefixes, &name);
    for (unsigned i = 0; prefix != NULL && i < CACHE_PREFIX_EVENTS; i++)
        prefix->events[i] += events >> i & 1;
    pthread_mutex_unlock(&prefixes->lock);
}

static void prefix_write(struct cache_text *text, const struct prefix *prefix)
{
    char counts[4 * (MC_NUMBER_MAX + 5) + 3];
    int n = snprintf(counts, sizeof(counts),
                     " get %" PRIu64 " hit %" PRIu64 " set %" PRIu64 " del %" PRIu64 "\r\n",
                     prefix->events[CACHE_PREFIX_GET], prefix->events[CACHE_PREFIX_HIT],
                     prefix->events[CACHE_PREFIX_SET], prefix->events[CACHE_PREFIX_DEL]);

    cache_text_add(text, "PREFIX ", 7);
    cache_text_add(text, prefix->bytes, prefix->len);
    cache_text_add(text, counts, (size_t)n);
}

void cache_prefix_dump(struct cache *cache, struct cache_text *text)
{
    struct cache_prefixes *prefixes = cache->prefixes;

    pthread_mutex_lock(&prefixes->lock);
    for (uint32_t i = 0; i < prefixes->slot_count; i++)
        if (prefixes->slots[i] != NULL)
            prefix_write(text, prefixes->slots[i]);
    pthread_mutex_unlock(&prefixes->lock);
}

void cache_prefix_reset(struct cache *cache)
{
    pthread_mutex_lock(&cache->prefixes->lock);
    clear(cache->prefixes);
    pthread_mutex_unlock(&cache->prefixes->lock);
}

void cache_prefix_switch(struct cache_worker *worker, bool on)
{
    struct cache *cache = worker->cache;

    pthread_mutex_lock(&cache->lock);
    cache->settings.detail_enabled = on;
    pthread_mutex_unlock(&cache->lock);
    cache_note_change(worker);
}
