/* SPDX-License-Identifier: BSD-3-Clause */
/* Making events and counting prefixes, for the kinds that have receivers. */
#include "cache/event_log.h"
#include "cache/acl.h"
#include "cache/clock.h"

#include <string.h>

#include "cache/op.h"
#include "cache/session.h"
#include "cache/slab_class.h"
#include "cache/watch.h"
#include "cache/wire_log.h"

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

void cache_log_store_slow(struct cache_worker *worker, const struct kv_key *key,
                          const char *command, enum cache_outcome outcome, uint32_t exptime,
                          const struct cache_lookup *item)
{
    struct cache_event event;

    event_init(worker, CACHE_EVENT_STORE, key->bytes, key->len, &event);
    if (item != NULL)
        event_item(worker, item->flags, item->value_len, &event);
    event.status = (uint8_t)outcome;
    event.command = command;
    if (exptime != 0)
        event.ttl_s = (int64_t)exptime - worker->now_s;
    cache_watch_publish(worker, CACHE_LOG_MUTATIONS, &event);
}

void cache_log_delete(struct cache_worker *worker, const struct kv_key *key,
                      const struct cache_lookup *lookup, const char *command)
{
    struct cache_event event;

    cache_log_prefix(worker, key, CACHE_PREFIX_DEL);
    if (lookup->found != KV_HIT || (worker->event_mask & CACHE_LOG_DELETIONS) == 0)
        return;
    event_init(worker, CACHE_EVENT_DELETION, key->bytes, key->len, &event);
    event_item(worker, lookup->flags, lookup->value_len, &event);
    event.command = command;
    cache_watch_publish(worker, CACHE_LOG_DELETIONS, &event);
}

void cache_log_connection(const struct cache_session *session, bool closes)
{
    struct cache_event event;

    if ((session->worker->event_mask & CACHE_LOG_CONNEVENTS) == 0)
        return;
    memset(&event, 0, sizeof(event));
    event.kind = closes ? CACHE_EVENT_CONN_CLOSE : CACHE_EVENT_CONN_NEW;
    event.status = closes ? session->close_reason : 0;
    event.conn = session->id;
    event.what.peer = session->peer;
    cache_watch_publish(session->worker, CACHE_LOG_CONNEVENTS, &event);
}

/* The reason stands where events about keys have the key. */
void cache_log_tls_error(const struct cache_session *session, const char *reason)
{
    struct cache_event event;

    if ((session->worker->event_mask & CACHE_LOG_CONNEVENTS) == 0)
        return;
    memset(&event, 0, sizeof(event));
    event.kind = CACHE_EVENT_TLS_ERROR;
    event.conn = session->id;
    event.key_len = (uint8_t)strnlen(reason, sizeof(event.what.key));
    memcpy(event.what.key, reason, event.key_len);
    cache_watch_publish(session->worker, CACHE_LOG_CONNEVENTS, &event);
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
    cache_acl_adopt(worker);
    if (cache->settings.sasl || worker->acl != NULL)
        worker->event_mask |= CACHE_CHECK_REQUESTS;
    if (cache->log != NULL && cache_verbosity(cache) >= CACHE_WIRE_LOG_VERBOSITY)
        worker->event_mask |= CACHE_LOG_WIRE;
    kv_on_evicted(worker->kv_worker,
                  worker->event_mask & CACHE_LOG_EVICTIONS ? note_eviction : NULL, worker);
}

void cache_log_mask_changed(struct cache_worker *worker)
{
    atomic_fetch_add_explicit(&worker->cache->event_mask_version, 1, memory_order_release);
    cache_log_mask_update(worker);
}
