/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of keys and connections, for watchers (watch.h) and statistics by prefix (prefix_stats.h).
 *
 * Each worker has a mask of the kinds that have receivers, so an event without one costs a branch.
 * The mask is the worker's own copy; cache_tick() renews it after cache->event_mask_version has
 * changed.
 */
#ifndef CACHE_EVENT_LOG_H
#define CACHE_EVENT_LOG_H

#include "base/base.h"
#include "cache/cache_worker.h"

/* Bits of cache_worker.event_mask. Watchers select the first five. */
enum cache_log_kind {
    CACHE_LOG_FETCHERS = 1 << 0,
    CACHE_LOG_MUTATIONS = 1 << 1,
    CACHE_LOG_EVICTIONS = 1 << 2,
    CACHE_LOG_CONNEVENTS = 1 << 3,
    CACHE_LOG_DELETIONS = 1 << 4,
    CACHE_LOG_PREFIXES = 1 << 5,
    CACHE_FAST_PATH_OFF = 1 << 6 /* settings.fast_path_off: any bit turns the fast path off */
};

/* The result of a lookup, or the properties of an item. */
struct cache_lookup {
    enum kv_found found;
    uint32_t flags;     /* of a hit */
    uint32_t value_len; /* with the CRLF */
};

/* A store that was tried. */
struct cache_store_event {
    const char *command; /* "set", "add": as log lines name it */
    enum cache_outcome outcome;
    uint32_t exptime;                /* on the engine's clock */
    const struct cache_lookup *item; /* the item to be stored; null: none was made */
};

enum cache_close_reason {
    CACHE_CLOSE_ERROR = 0,
    CACHE_CLOSE_NORMAL,
    CACHE_CLOSE_IDLE,
    CACHE_CLOSE_SHUTDOWN
};

/* ---- logging ----------------------------------------------------------------------------- */

void cache_log_lookup_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_lookup *lookup);
void cache_log_fetch_slow(struct cache_worker *worker, const struct kv_key *key, bool hit);
void cache_log_set_slow(struct cache_worker *worker, const struct kv_key *key);
void cache_log_store_slow(struct cache_worker *worker, const struct kv_key *key,
                          const struct cache_store_event *storing);
void cache_log_delete_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_lookup *lookup, const char *command);

/* A key was looked up, by any command. */
static inline void cache_log_lookup(struct cache_worker *worker, const struct kv_key *key,
                                    const struct cache_lookup *lookup)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_FETCHERS))
        cache_log_lookup_slow(worker, key, lookup);
}

/* The item that a decision has seen; old null: none. */
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

/* The same for a lookup with a view, which is valid if the key was found. */
static inline void cache_log_view(struct cache_worker *worker, const struct kv_key *key,
                                  enum kv_found found, const struct kv_view *view)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_FETCHERS)) {
        struct cache_lookup lookup = cache_lookup_of(found == KV_HIT ? view : NULL);

        lookup.found = found;
        cache_log_lookup_slow(worker, key, &lookup);
    }
}

/* A client has requested a value; by prefix. */
static inline void cache_log_fetch(struct cache_worker *worker, const struct kv_key *key, bool hit)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_PREFIXES))
        cache_log_fetch_slow(worker, key, hit);
}

/* A client has sent a store; by prefix. */
static inline void cache_log_set(struct cache_worker *worker, const struct kv_key *key)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_PREFIXES))
        cache_log_set_slow(worker, key);
}

/* A store has ended. */
static inline void cache_log_store(struct cache_worker *worker, const struct kv_key *key,
                                   const struct cache_store_event *storing)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_MUTATIONS))
        cache_log_store_slow(worker, key, storing);
}

/* A client has sent a deletion; lookup is the item that was there. */
static inline void cache_log_delete(struct cache_worker *worker, const struct kv_key *key,
                                    const struct cache_lookup *lookup, const char *command)
{
    if (U_UNLIKELY(worker->event_mask & (CACHE_LOG_DELETIONS | CACHE_LOG_PREFIXES)))
        cache_log_delete_slow(worker, key, lookup, command);
}

/* A session of the worker was opened, or is about to close. */
void cache_log_opened_slow(const struct cache_session *session);
void cache_log_closed_slow(const struct cache_session *session);

static inline void cache_log_opened(const struct cache_worker *worker,
                                    const struct cache_session *session)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_CONNEVENTS))
        cache_log_opened_slow(session);
}

static inline void cache_log_closed(const struct cache_worker *worker,
                                    const struct cache_session *session)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_CONNEVENTS))
        cache_log_closed_slow(session);
}

/* ---- the mask ---------------------------------------------------------------------------- */

/*
 * Watchers or settings have changed: renews this mask, and those of other workers in their next
 * loop.
 */
void cache_log_mask_changed(struct cache_worker *worker);

/* Renews the worker's mask. */
void cache_log_mask_update(struct cache_worker *worker);

/* Once per loop. */
static inline void cache_log_tick(struct cache_worker *worker)
{
    unsigned turn = atomic_load_explicit(&worker->cache->event_mask_version, memory_order_relaxed);

    if (U_UNLIKELY(turn != worker->event_mask_version))
        cache_log_mask_update(worker);
}

#endif
