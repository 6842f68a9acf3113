/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to keys and connections, for those who watch (watch.h) and for the statistics by
 * prefix (prefix.h).
 *
 * Each worker has a word that says who wants to know what, `noting`: the only cost of a request as
 * long as nobody does is one branch on it. The word is the worker's own; it is brought up to date
 * in cache_tick() after something has changed (cache->noting_turn).
 */
#ifndef CACHE_NOTE_H
#define CACHE_NOTE_H

#include "base/base.h"
#include "cache/worker.h"

/* Bits of cache_worker.noting. The first ones are what watchers ask for. */
enum cache_noting {
    CACHE_NOTE_FETCHERS = 1 << 0,
    CACHE_NOTE_MUTATIONS = 1 << 1,
    CACHE_NOTE_EVICTIONS = 1 << 2,
    CACHE_NOTE_CONNEVENTS = 1 << 3,
    CACHE_NOTE_DELETIONS = 1 << 4,
    CACHE_NOTE_PREFIXES = 1 << 5
};

/* What a lookup has come to, or what is known of an item. */
struct cache_lookup {
    enum kv_found found;
    uint32_t flags;     /* of a hit */
    uint32_t value_len; /* with the CRLF */
};

enum cache_stored_as {
    CACHE_AS_NOT_STORED = 0,
    CACHE_AS_STORED,
    CACHE_AS_EXISTS,
    CACHE_AS_NOT_FOUND,
    CACHE_AS_TOO_LARGE,
    CACHE_AS_NO_MEMORY
};

/* A store that was tried. */
struct cache_storing {
    const char *command; /* "set", "add": as log lines name it */
    enum cache_stored_as as;
    uint32_t exptime;                /* on the engine's clock */
    const struct cache_lookup *item; /* what was to be stored; null: there was no item */
};

enum cache_close_reason {
    CACHE_CLOSE_ERROR = 0,
    CACHE_CLOSE_NORMAL,
    CACHE_CLOSE_IDLE,
    CACHE_CLOSE_SHUTDOWN
};

/* ---- for those who do it ----------------------------------------------------------------- */

void cache_note_lookup_slow(struct cache_worker *worker, const struct kv_key *key,
                            const struct cache_lookup *lookup);
void cache_note_fetch_slow(struct cache_worker *worker, const struct kv_key *key, bool hit);
void cache_note_set_slow(struct cache_worker *worker, const struct kv_key *key);
void cache_note_store_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_storing *storing);
void cache_note_delete_slow(struct cache_worker *worker, const struct kv_key *key,
                            const struct cache_lookup *lookup, const char *command);

/* A key was looked up, for whatever purpose. */
static inline void cache_note_lookup(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_lookup *lookup)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_FETCHERS))
        cache_note_lookup_slow(worker, key, lookup);
}

/* What a decision has seen of a key; old null: nothing. */
static inline struct cache_lookup cache_lookup_of(const struct kv_view *old)
{
    struct cache_lookup lookup = {.found = KV_MISS};

    if (old != NULL) {
        lookup.found = KV_HIT;
        lookup.flags = old->flags;
        lookup.value_len = old->value_len;
    }
    return lookup;
}

/* The same for a lookup with a view, which is good if the key was found. */
static inline void cache_note_view(struct cache_worker *worker, const struct kv_key *key,
                                   enum kv_found found, const struct kv_view *view)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_FETCHERS)) {
        struct cache_lookup lookup = cache_lookup_of(found == KV_HIT ? view : NULL);

        lookup.found = found;
        cache_note_lookup_slow(worker, key, &lookup);
    }
}

/* A client has asked for a value; by prefix. */
static inline void cache_note_fetch(struct cache_worker *worker, const struct kv_key *key, bool hit)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_PREFIXES))
        cache_note_fetch_slow(worker, key, hit);
}

/* A client has asked to store; by prefix. */
static inline void cache_note_set(struct cache_worker *worker, const struct kv_key *key)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_PREFIXES))
        cache_note_set_slow(worker, key);
}

/* A store was tried: what has become of it. */
static inline void cache_note_store(struct cache_worker *worker, const struct kv_key *key,
                                    const struct cache_storing *storing)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_MUTATIONS))
        cache_note_store_slow(worker, key, storing);
}

/* A client has asked for a deletion; lookup says what there was. */
static inline void cache_note_delete(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_lookup *lookup, const char *command)
{
    if (U_UNLIKELY(worker->noting & (CACHE_NOTE_DELETIONS | CACHE_NOTE_PREFIXES)))
        cache_note_delete_slow(worker, key, lookup, command);
}

/* A session of the worker has been opened, or is about to be closed. */
void cache_note_opened_slow(const struct cache_session *session);
void cache_note_closed_slow(const struct cache_session *session);

static inline void cache_note_opened(const struct cache_worker *worker,
                                     const struct cache_session *session)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_CONNEVENTS))
        cache_note_opened_slow(session);
}

static inline void cache_note_closed(const struct cache_worker *worker,
                                     const struct cache_session *session)
{
    if (U_UNLIKELY(worker->noting & CACHE_NOTE_CONNEVENTS))
        cache_note_closed_slow(session);
}

/* ---- who wants to know ------------------------------------------------------------------- */

/* Something has changed: the worker takes notice at once, the others in their next loop. */
void cache_note_change(struct cache_worker *worker);

/* Brings the worker's word up to date. */
void cache_note_update(struct cache_worker *worker);

/* Once per loop. */
static inline void cache_note_tick(struct cache_worker *worker)
{
    unsigned turn = atomic_load_explicit(&worker->cache->noting_turn, memory_order_relaxed);

    if (U_UNLIKELY(turn != worker->noting_turn))
        cache_note_update(worker);
}

#endif
