/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens, told to those who want to know.
 */
#include "cache/note.h"
#include "cache/clock.h"

#include <string.h>

#include "cache/op.h"
#include "cache/prefix.h"
#include "cache/session.h"
#include "cache/slab_class.h"
#include "cache/watch.h"

/* An event about a key. The worker's present session is the one that has caused it. */
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

/* Adds what is told of an item. value_len counts the CRLF. */
static void event_item(const struct cache_worker *worker, uint32_t flags, uint32_t value_len,
                       struct cache_event *event)
{
    event->class_id = (uint8_t)cache_slab_class(worker->cache, event->key_len, flags, value_len);
    event->value_bytes = value_len - CACHE_CRLF_BYTES;
}

void cache_note_lookup_slow(struct cache_worker *worker, const struct kv_key *key,
                            const struct cache_lookup *lookup)
{
    struct cache_event event;

    event_init(worker, CACHE_EVENT_GET, key->bytes, key->len, &event);
    event.status = (uint8_t)lookup->found;
    if (lookup->found == KV_HIT)
        event_item(worker, lookup->flags, lookup->value_len, &event);
    cache_watch_tell(worker, CACHE_NOTE_FETCHERS, &event);
}

void cache_note_fetch_slow(struct cache_worker *worker, const struct kv_key *key, bool hit)
{
    unsigned events = 1u << CACHE_PREFIX_GET | (hit ? 1u << CACHE_PREFIX_HIT : 0);

    cache_prefix_count(worker->cache, key->bytes, key->len, events);
}

void cache_note_set_slow(struct cache_worker *worker, const struct kv_key *key)
{
    cache_prefix_count(worker->cache, key->bytes, key->len, 1u << CACHE_PREFIX_SET);
}

void cache_note_store_slow(struct cache_worker *worker, const struct kv_key *key,
                           const struct cache_storing *storing)
{
    struct cache_event event;

    event_init(worker, CACHE_EVENT_STORE, key->bytes, key->len, &event);
    if (storing->item != NULL)
        event_item(worker, storing->item->flags, storing->item->value_len, &event);
    event.status = (uint8_t)storing->as;
    event.command = storing->command;
    if (storing->exptime != 0)
        event.ttl_s = (int64_t)storing->exptime - worker->now_s;
    cache_watch_tell(worker, CACHE_NOTE_MUTATIONS, &event);
}

void cache_note_delete_slow(struct cache_worker *worker, const struct kv_key *key,
                            const struct cache_lookup *lookup, const char *command)
{
    struct cache_event event;

    if (worker->noting & CACHE_NOTE_PREFIXES)
        cache_prefix_count(worker->cache, key->bytes, key->len, 1u << CACHE_PREFIX_DEL);
    if (lookup->found != KV_HIT || (worker->noting & CACHE_NOTE_DELETIONS) == 0)
        return;
    event_init(worker, CACHE_EVENT_DELETION, key->bytes, key->len, &event);
    event_item(worker, lookup->flags, lookup->value_len, &event);
    event.command = command;
    cache_watch_tell(worker, CACHE_NOTE_DELETIONS, &event);
}

static void connection_tell(const struct cache_session *session, enum cache_event_kind kind,
                            uint8_t status)
{
    struct cache_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint8_t)kind;
    event.status = status;
    event.conn = session->id;
    event.what.peer = session->peer;
    cache_watch_tell(session->worker, CACHE_NOTE_CONNEVENTS, &event);
}

void cache_note_opened_slow(const struct cache_session *session)
{
    connection_tell(session, CACHE_EVENT_CONN_NEW, 0);
}

void cache_note_closed_slow(const struct cache_session *session)
{
    connection_tell(session, CACHE_EVENT_CONN_CLOSE, session->close_reason);
}

/* The engine has evicted something for this worker (kv_evicted). */
static void note_eviction(void *ctx, const struct kv_view *view)
{
    struct cache_worker *worker = ctx;
    struct cache_event event;

    event_init(worker, CACHE_EVENT_EVICTION, view->key, view->key_len, &event);
    event_item(worker, view->flags, view->value_len, &event);
    event.status = (view->state & KV_FETCHED) != 0;
    event.ttl_s = view->exptime != 0 ? (int64_t)view->exptime - worker->now_s : -1;
    event.idle_s = cache_clock_since(worker, view->last_access);
    cache_watch_tell(worker, CACHE_NOTE_EVICTIONS, &event);
}

/* ---- who wants to know ------------------------------------------------------------------- */

void cache_note_update(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    bool detail;

    worker->noting_turn = atomic_load_explicit(&cache->noting_turn, memory_order_acquire);
    worker->noting = cache_watch_adopt(worker);
    pthread_mutex_lock(&cache->lock);
    detail = cache->settings.detail_enabled;
    pthread_mutex_unlock(&cache->lock);
    if (detail)
        worker->noting |= CACHE_NOTE_PREFIXES;
    kv_evicted_tell(worker->kv_worker, worker->noting & CACHE_NOTE_EVICTIONS ? note_eviction : NULL,
                    worker);
}

void cache_note_change(struct cache_worker *worker)
{
    atomic_fetch_add_explicit(&worker->cache->noting_turn, 1, memory_order_release);
    cache_note_update(worker);
}
