/* SPDX-License-Identifier: BSD-3-Clause */
/* Making events and counting prefixes, for the kinds that have receivers. */
#include "cache/event_log.h"
#include "cache/clock.h"

#include <string.h>

#include "cache/op.h"
#include "cache/prefix_stats.h"
#include "cache/session.h"
#include "cache/slab_class.h"
#include "cache/watch.h"

/* An event about a key, caused by the worker's current session. */
static void event_init(const struct cache_worker *worker, enum cache_event_kind kind,
                       const uint8_t *key, uint32_t key_len, struct cache_event *event)
{
    memset(event, 0, offsetof(struct cache_event, what));
    event->kind = (uint8_t)kind;
    event->command = NULL;
    event->conn = worker->current != NULL ? worker->current->id : 0;
    event->key_len = (uint8_t)key_len;
    memcpy(event->what.key, key, key_len);
}

/* Adds the properties of an item. value_len counts the CRLF. */
static void event_item(const struct cache_worker *worker, uint32_t flags, uint32_t value_len,
                       struct cache_event *event)
{
    event->class_id = (uint8_t)cache_slab_class(worker->cache, event->key_len, flags, value_len);
    event->value_bytes = value_len - CACHE_CRLF_BYTES;
}

void cache_log_lookup_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_lookup *lookup)
{
    struct cache_event event;

    event_init(worker, CACHE_EVENT_GET, key->bytes, key->len, &event);
    event.status = (uint8_t)lookup->found;
    if (lookup->found == KV_HIT)
        event_item(worker, lookup->flags, lookup->value_len, &event);
    cache_watch_publish(worker, CACHE_LOG_FETCHERS, &event);
}

void cache_log_fetch_slow(struct cache_worker *worker, const struct kv_key *key, bool hit)
{
    unsigned events = 1u << CACHE_PREFIX_GET | (hit ? 1u << CACHE_PREFIX_HIT : 0);

    cache_prefix_count(worker->cache, key->bytes, key->len, events);
}

void cache_log_set_slow(struct cache_worker *worker, const struct kv_key *key)
{
    cache_prefix_count(worker->cache, key->bytes, key->len, 1u << CACHE_PREFIX_SET);
}

void cache_log_store_slow(struct cache_worker *worker, const struct kv_key *key,
                          const struct cache_store_event *storing)
{
    struct cache_event event;

    event_init(worker, CACHE_EVENT_STORE, key->bytes, key->len, &event);
    if (storing->item != NULL)
        event_item(worker, storing->item->flags, storing->item->value_len, &event);
    event.status = (uint8_t)storing->outcome;
    event.command = storing->command;
    if (storing->exptime != 0)
        event.ttl_s = (int64_t)storing->exptime - worker->now_s;
    cache_watch_publish(worker, CACHE_LOG_MUTATIONS, &event);
}

void cache_log_delete_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_lookup *lookup, const char *command)
{
    struct cache_event event;

    if (worker->event_mask & CACHE_LOG_PREFIXES)
        cache_prefix_count(worker->cache, key->bytes, key->len, 1u << CACHE_PREFIX_DEL);
    if (lookup->found != KV_HIT || (worker->event_mask & CACHE_LOG_DELETIONS) == 0)
        return;
    event_init(worker, CACHE_EVENT_DELETION, key->bytes, key->len, &event);
    event_item(worker, lookup->flags, lookup->value_len, &event);
    event.command = command;
    cache_watch_publish(worker, CACHE_LOG_DELETIONS, &event);
}

static void publish_connection(const struct cache_session *session, enum cache_event_kind kind,
                               uint8_t status)
{
    struct cache_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint8_t)kind;
    event.status = status;
    event.conn = session->id;
    event.what.peer = session->peer;
    cache_watch_publish(session->worker, CACHE_LOG_CONNEVENTS, &event);
}

void cache_log_opened_slow(const struct cache_session *session)
{
    publish_connection(session, CACHE_EVENT_CONN_NEW, 0);
}

void cache_log_closed_slow(const struct cache_session *session)
{
    publish_connection(session, CACHE_EVENT_CONN_CLOSE, session->close_reason);
}

/* The engine has evicted an item for this worker (kv_evicted). */
static void note_eviction(void *ctx, const struct kv_view *view)
{
    struct cache_worker *worker = ctx;
    struct cache_event event;

    event_init(worker, CACHE_EVENT_EVICTION, view->key, view->key_len, &event);
    event_item(worker, view->flags, view->value_len, &event);
    event.status = (view->state & KV_FETCHED) != 0;
    event.ttl_s = view->exptime != 0 ? (int64_t)view->exptime - worker->now_s : -1;
    event.idle_s = cache_clock_since(worker, view->last_access);
    cache_watch_publish(worker, CACHE_LOG_EVICTIONS, &event);
}

/* ---- the mask ---------------------------------------------------------------------------- */

void cache_log_mask_update(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    bool detail;

    worker->event_mask_version =
        atomic_load_explicit(&cache->event_mask_version, memory_order_acquire);
    worker->event_mask = cache_watch_update_refs(worker);
    pthread_mutex_lock(&cache->lock);
    detail = cache->settings.detail_enabled;
    pthread_mutex_unlock(&cache->lock);
    if (detail)
        worker->event_mask |= CACHE_LOG_PREFIXES;
    if (cache->settings.fast_path_off)
        worker->event_mask |= CACHE_FAST_PATH_OFF;
    kv_on_evicted(worker->kv_worker,
                  worker->event_mask & CACHE_LOG_EVICTIONS ? note_eviction : NULL, worker);
}

void cache_log_mask_changed(struct cache_worker *worker)
{
    atomic_fetch_add_explicit(&worker->cache->event_mask_version, 1, memory_order_release);
    cache_log_mask_update(worker);
}
