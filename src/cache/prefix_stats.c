/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics by prefix: an open hash table that grows to twice the number of prefixes. */
#include "cache/prefix_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/event_log.h"
#include "cache/sink_reply.h"
#include "cache/task.h"
#include "cache/textbuf.h"

#define SLOTS_FIRST 64
#define PREFIX_EVENTS 4 /* by the number of the bit of enum cache_prefix_event */

struct prefix {
    uint64_t hash;
    uint64_t events[PREFIX_EVENTS];
    uint32_t len;
    uint8_t bytes[];
};

struct cache_prefixes {
    pthread_mutex_t lock;
    struct prefix **slots; /* slot_count, a power of two, or null before the first prefix */
    struct prefix **order; /* half as many places: in the order in which they came */
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
    free(prefixes->order);
}

void cache_prefixes_free(struct cache_prefixes *prefixes)
{
    clear(prefixes);
    pthread_mutex_destroy(&prefixes->lock);
    free(prefixes);
}

/* ---- the table (under the lock) ---------------------------------------------------------- */

/* The slot of the prefix, or the empty one where it belongs; at least half are empty. */
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

/* Keeps at least half of the slots empty. False if there is no memory. */
static bool make_room(struct cache_prefixes *prefixes)
{
    struct cache_prefixes grown = *prefixes;

    if (prefixes->count < prefixes->slot_count / 2)
        return true;
    grown.slot_count = prefixes->slot_count > 0 ? prefixes->slot_count * 2 : SLOTS_FIRST;
    grown.order = realloc(prefixes->order, grown.slot_count / 2 * sizeof(struct prefix *));
    if (grown.order == NULL)
        return false;
    prefixes->order = grown.order;
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

/* Returns the entry of a prefix, which it creates; null if there is no memory. */
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
        prefixes->order[prefixes->count++] = made;
        *slot = made;
    }
    return *slot;
}

/* ---- the interface ----------------------------------------------------------------------- */

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
    for (unsigned i = 0; prefix != NULL && i < PREFIX_EVENTS; i++)
        prefix->events[i] += events >> i & 1;
    pthread_mutex_unlock(&prefixes->lock);
}

#define COUNTS_BYTES (4 * (MC_NUMBER_MAX + 5) + 3)

U_STATIC_ASSERT(CACHE_PREFIX_PART *(7 + KV_KEY_MAX + COUNTS_BYTES) <= CACHE_LIST_PART_BYTES_MAX,
                a_part_of_the_dump_is_a_part_of_a_list);

static void prefix_write(struct cache_textbuf *text, const struct prefix *prefix)
{
    char counts[COUNTS_BYTES];
    int n = snprintf(counts, sizeof(counts),
                     " get %" PRIu64 " hit %" PRIu64 " set %" PRIu64 " del %" PRIu64 "\r\n",
                     prefix->events[0], prefix->events[1], prefix->events[2], prefix->events[3]);

    cache_textbuf_add(text, "PREFIX ", 7);
    cache_textbuf_add(text, prefix->bytes, prefix->len);
    cache_textbuf_add(text, counts, (size_t)n);
}

bool cache_prefix_dump(struct cache *cache, struct cache_textbuf *text, uint32_t *at)
{
    struct cache_prefixes *prefixes = cache->prefixes;
    uint32_t end;
    bool more;

    pthread_mutex_lock(&prefixes->lock);
    end = u_min32(*at + CACHE_PREFIX_PART, prefixes->count);
    for (; *at < end; ++*at)
        prefix_write(text, prefixes->order[*at]);
    more = *at < prefixes->count;
    pthread_mutex_unlock(&prefixes->lock);
    return more;
}

void cache_prefix_reset(struct cache *cache)
{
    struct cache_prefixes *prefixes = cache->prefixes;
    struct cache_prefixes old;

    pthread_mutex_lock(&prefixes->lock);
    old = *prefixes;
    prefixes->slots = NULL;
    prefixes->order = NULL;
    prefixes->slot_count = 0;
    prefixes->count = 0;
    pthread_mutex_unlock(&prefixes->lock);
    clear(&old); /* outside of the lock */
}

void cache_prefix_switch(struct cache_worker *worker, bool on)
{
    struct cache *cache = worker->cache;

    pthread_mutex_lock(&cache->lock);
    cache->settings.detail_enabled = on;
    pthread_mutex_unlock(&cache->lock);
    cache_log_mask_changed(worker);
}

static bool prefix_part(struct cache_session *session, struct cache_textbuf *text,
                        struct cache_list_at *at)
{
    return cache_prefix_dump(session->worker->cache, text, &at->item);
}

int cache_prefix_dump_start(struct cache_session *session, struct cache_sink *sink)
{
    return cache_list_send(session, prefix_part, sink);
}
