/* SPDX-License-Identifier: BSD-3-Clause */
/* The most requested keys, by sampling; see hot_keys.h. */
#include "cache/hot_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/exec_stats.h"

struct cache_hot_keys *cache_hot_new(void)
{
    struct cache_hot_keys *hot = calloc(1, sizeof(*hot));

    if (hot != NULL)
        pthread_mutex_init(&hot->lock, NULL);
    return hot;
}

void cache_hot_free(struct cache_hot_keys *hot)
{
    pthread_mutex_destroy(&hot->lock);
    free(hot);
}

/* ---- sampling ---------------------------------------------------------------------------- */

/* The entry of the key, a free one, or the one with the smallest count. */
static struct cache_hot_key *find(struct cache_hot_keys *hot, const uint8_t *key, uint32_t len)
{
    struct cache_hot_key *smallest = hot->keys;

    for (unsigned i = 0; i < hot->count; i++) {
        struct cache_hot_key *own = &hot->keys[i];

        if (own->len == len && memcmp(own->key, key, len) == 0)
            return own;
        if (own->samples < smallest->samples)
            smallest = own;
    }
    return hot->count < CACHE_HOT_KEYS_MAX ? &hot->keys[hot->count] : smallest;
}

void cache_hot_add(struct cache_hot_keys *hot, const uint8_t *key, uint32_t len)
{
    struct cache_hot_key *entry = find(hot, key, len);
    bool is_new = entry == &hot->keys[hot->count];

    if (is_new) {
        hot->count++;
        entry->samples = 0;
    }
    if (is_new || entry->len != len || memcmp(entry->key, key, len) != 0) {
        entry->error = entry->samples;
        entry->len = (uint8_t)len;
        memcpy(entry->key, key, len);
    }
    entry->samples++;
}

void cache_hot_next(struct cache_worker *worker)
{
    worker->hot_is_due = true;
    worker->hot_left = 1 + (int64_t)u_prng_below(&worker->hot_prng, 2 * CACHE_HOT_SAMPLE);
}

void cache_hot_sample(struct cache_session *session, const uint8_t *data, uint32_t len)
{
    struct cache_hot_keys *hot = session->worker->hot;
    struct mc_request request;

    session->worker->hot_is_due = false;
    if (session->line != NULL || cache_session_phase(session) != CACHE_PHASE_LINE ||
        (session->state.protocol != CACHE_PROTOCOL_TEXT &&
         session->state.protocol != CACHE_PROTOCOL_BINARY) ||
        cache_session_parse(session, data, len, &request) != MC_REQUEST || request.key_len == 0 ||
        request.key_len > KV_KEY_MAX || pthread_mutex_trylock(&hot->lock) != 0)
        return;
    cache_hot_add(hot, request.key, request.key_len);
    pthread_mutex_unlock(&hot->lock);
}

/* ---- the list ---------------------------------------------------------------------------- */

void cache_hot_reset(struct cache *cache)
{
    for (unsigned i = 0; i < cache->settings.threads; i++) {
        if (cache->workers[i] == NULL)
            continue;
        pthread_mutex_lock(&cache->workers[i]->hot->lock);
        cache->workers[i]->hot->count = 0;
        pthread_mutex_unlock(&cache->workers[i]->hot->lock);
    }
}

static int by_key(const void *a, const void *b)
{
    const struct cache_hot_key *left = a, *right = b;
    int order = memcmp(left->key, right->key, u_min32(left->len, right->len));

    return order != 0 ? order : left->len - right->len;
}

static int by_samples(const void *a, const void *b)
{
    const struct cache_hot_key *left = a, *right = b;

    if (left->samples != right->samples)
        return left->samples < right->samples ? 1 : -1;
    return by_key(a, b);
}

/* Copies the tables of all workers; returns how many entries there are. */
static unsigned copy_all(struct cache *cache, struct cache_hot_key *to)
{
    unsigned count = 0;

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < cache->settings.threads; i++) {
        struct cache_hot_keys *hot;

        if (cache->workers[i] == NULL)
            continue;
        hot = cache->workers[i]->hot;
        pthread_mutex_lock(&hot->lock);
        memcpy(to + count, hot->keys, hot->count * sizeof(to[0]));
        count += hot->count;
        pthread_mutex_unlock(&hot->lock);
    }
    pthread_mutex_unlock(&cache->lock);
    return count;
}

/* Adds up the entries of the same key; returns how many keys there are. */
static unsigned merge(struct cache_hot_key *keys, unsigned count)
{
    unsigned merged = 0;

    qsort(keys, count, sizeof(keys[0]), by_key);
    for (unsigned i = 0; i < count; i++) {
        if (merged > 0 && by_key(&keys[merged - 1], &keys[i]) == 0) {
            keys[merged - 1].samples += keys[i].samples;
            keys[merged - 1].error += keys[i].error;
        } else {
            keys[merged++] = keys[i];
        }
    }
    return merged;
}

/* What is no letter, digit or one of -._:/~ becomes %XX, as in a metadump. */
static void key_text(const struct cache_hot_key *key, char text[3 * KV_KEY_MAX + 1])
{
    static const char digits[] = "0123456789ABCDEF";
    char *at = text;

    for (unsigned i = 0; i < key->len; i++) {
        uint8_t byte = key->key[i];

        if ((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
            (byte >= 'A' && byte <= 'Z') || (byte != 0 && strchr("-._:/~", byte) != NULL)) {
            *at++ = (char)byte;
        } else {
            *at++ = '%';
            *at++ = digits[byte >> 4];
            *at++ = digits[byte & 15];
        }
    }
    *at = '\0';
}

static void key_lines(struct cache_stats_out *out, unsigned rank, const struct cache_hot_key *key)
{
    char text[3 * KV_KEY_MAX + 1];
    char name[32];

    key_text(key, text);
    snprintf(name, sizeof(name), "%u:key", rank);
    cache_stats_text(out, name, text);
    snprintf(name, sizeof(name), "%u:requests", rank);
    cache_stats_number(out, name, key->samples * CACHE_HOT_SAMPLE);
    snprintf(name, sizeof(name), "%u:error", rank);
    cache_stats_number(out, name, key->error * CACHE_HOT_SAMPLE);
}

void cache_stats_hotkeys(struct cache_stats_out *out)
{
    struct cache *cache = out->cache;
    struct cache_hot_key *keys;
    unsigned count;

    if (cache->settings.dump_disabled)
        return;
    keys = malloc((size_t)cache->settings.threads * CACHE_HOT_KEYS_MAX * sizeof(keys[0]));
    if (keys == NULL) {
        out->text.failed = true;
        return;
    }
    count = merge(keys, copy_all(cache, keys));
    qsort(keys, count, sizeof(keys[0]), by_samples);
    for (unsigned i = 0; i < count && i < CACHE_HOT_SHOWN_MAX; i++)
        key_lines(out, i + 1, &keys[i]);
    free(keys);
}
