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
#include "cache/prefix_stats.h"

/* Bits of cache_worker.event_mask. Watchers select the first five. */
enum cache_log_kind {
    CACHE_LOG_FETCHERS = 1 << 0,
    CACHE_LOG_MUTATIONS = 1 << 1,
    CACHE_LOG_EVICTIONS = 1 << 2,
    CACHE_LOG_CONNEVENTS = 1 << 3,
    CACHE_LOG_DELETIONS = 1 << 4,
    CACHE_LOG_PREFIXES = 1 << 5,
    CACHE_FAST_PATH_OFF = 1 << 6, /* settings.fast_path_off: any bit turns the fast path off */
    CACHE_LOG_WIRE = 1 << 7,      /* commands and replies (wire_log.h) */
    CACHE_CHECK_REQUESTS = 1 << 8 /* requests need permission: -S, -o acl_file */
};

/* The result of a lookup, or the properties of an item. */
struct cache_lookup {
    enum kv_found found;
    uint32_t flags;     /* of a hit */
    uint32_t value_len; /* with the CRLF */
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
void cache_log_store_slow(struct cache_worker *worker, const struct kv_key *key,
                          const char *command, enum cache_outcome outcome, uint32_t exptime,
                          const struct cache_lookup *item);

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

    if (old != NULL)
        lookup = (struct cache_lookup){KV_HIT, old->flags, old->value_len};
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

/* A client has requested a value or sent a store: counts these events by prefix. */
static inline void cache_log_prefix(struct cache_worker *worker, const struct kv_key *key,
                                    unsigned events)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_PREFIXES))
        cache_prefix_count(worker->cache, key->bytes, key->len, events);
}

static inline void cache_log_fetch(struct cache_worker *worker, const struct kv_key *key, bool hit)
{
    cache_log_prefix(worker, key, hit ? CACHE_PREFIX_GET | CACHE_PREFIX_HIT : CACHE_PREFIX_GET);
}

/*
 * A store has ended: its command as log lines name it, its exptime on the engine's clock, the item
 * to be stored; null: none was made.
 */
static inline void cache_log_store(struct cache_worker *worker, const struct kv_key *key,
                                   const char *command, enum cache_outcome outcome,
                                   uint32_t exptime, const struct cache_lookup *item)
{
    if (U_UNLIKELY(worker->event_mask & CACHE_LOG_MUTATIONS))
        cache_log_store_slow(worker, key, command, outcome, exptime, item);
}

/* A client has sent a deletion; lookup is the item that was there. */
void cache_log_delete(struct cache_worker *worker, const struct kv_key *key,
                      const struct cache_lookup *lookup, const char *command);

/* A session was opened, or is about to close. */
void cache_log_connection(const struct cache_session *session, bool closes);

/* TLS has failed on the connection of the session. */
void cache_log_tls_error(const struct cache_session *session, const char *reason);

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
    unsigned version =
        atomic_load_explicit(&worker->cache->event_mask_version, memory_order_relaxed);

    if (U_UNLIKELY(version != worker->event_mask_version))
        cache_log_mask_update(worker);
}

#endif
