/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing sessions, and their state as the transport sees it. */
#include "cache/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/acl.h"
#include "cache/clock.h"
#include "cache/event_log.h"
#include "cache/linebuf.h"
#include "cache/task.h"

/* ---- opening and closing ----------------------------------------------------------------- */

/* Adds a slab of free sessions. The caller holds session_lock. */
static bool pool_grow(struct cache_worker *worker)
{
    struct cache_session_slab *slab = calloc(1, sizeof(*slab));

    if (slab == NULL) {
        cache_count(worker, CACHE_MALLOC_FAILS, 1);
        return false;
    }
    slab->next = worker->slabs;
    worker->slabs = slab;
    for (uint32_t i = CACHE_SESSIONS_PER_SLAB; i-- > 0;) {
        struct cache_session *session = &slab->sessions[i];

        session->worker = worker;
        session->id = CACHE_LISTENERS_MAX + worker->index +
                      (worker->session_count + i) * worker->cache->settings.threads;
        session->u.next_free = worker->free_sessions;
        worker->free_sessions = session;
    }
    worker->session_count += CACHE_SESSIONS_PER_SLAB;
    return true;
}

void cache_session_pool_free(struct cache_worker *worker)
{
    while (worker->slabs != NULL) {
        struct cache_session_slab *slab = worker->slabs;

        worker->slabs = slab->next;
        free(slab);
    }
    worker->free_sessions = NULL;
}

static struct cache_session *pool_take(struct cache_worker *worker, const struct cache_peer *peer)
{
    struct cache_session *session = NULL;

    pthread_mutex_lock(&worker->session_lock);
    if (worker->free_sessions != NULL || pool_grow(worker)) {
        session = worker->free_sessions;
        worker->free_sessions = session->u.next_free;
        session->open = true;
        session->peer = *peer;
    }
    pthread_mutex_unlock(&worker->session_lock);
    return session;
}

static void connection_leave(struct cache_worker *worker)
{
    atomic_fetch_sub_explicit(&worker->cache->connections, 1, memory_order_relaxed);
}

/* Counts a connection. False if settings.connections_max are open. */
static bool connection_admit(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    unsigned open_before = atomic_fetch_add_explicit(&cache->connections, 1, memory_order_relaxed);

    if (open_before < cache->settings.connections_max)
        return true;
    connection_leave(worker);
    cache_count(worker, CACHE_REJECTED_CONNECTIONS, 1);
    return false;
}

/* The state before the first byte. */
static void session_begin(struct cache_session *session)
{
    session->line = NULL;
    session->state.stop = CACHE_STOP_NONE;
    session->state.encrypted = session->peer.tls != CACHE_TLS_OFF;
    session->hint.key.bytes = NULL;
    session->state.protocol = CACHE_PROTOCOL_UNKNOWN;
    session->close_reason = CACHE_CLOSE_NORMAL;
    session->sasl = 0;
    u_list_init(&session->resumable_link);
    cache_session_set_phase(session, CACHE_PHASE_LINE);
}

/* Frees the resources of an unfinished request. */
static void session_drop(struct cache_session *session)
{
    struct cache_worker *worker = session->worker;

    if (cache_session_phase(session) == CACHE_PHASE_TASK)
        cache_task_drop(session);
    cache_session_set_resumable(session, false);
    if (cache_session_phase(session) == CACHE_PHASE_VALUE)
        cache_store_drop(worker, &session->u.upload);
    cache_linebuf_drop(worker, &session->line);
    cache_acl_end(session);
}

bool cache_is_full(const struct cache *cache)
{
    return atomic_load_explicit(&cache->connections, memory_order_relaxed) >=
           cache->settings.connections_max;
}

struct cache_session *cache_session_open(struct cache_worker *worker, const struct cache_peer *peer)
{
    bool counted = !cache_peer_is(peer, "udp");
    struct cache_session *session;

    if (counted && !connection_admit(worker))
        return NULL;
    session = pool_take(worker, peer);
    if (session == NULL) {
        if (counted)
            connection_leave(worker);
        return NULL;
    }
    if (counted)
        cache_count(worker, CACHE_TOTAL_CONNECTIONS, 1);
    session->counted = counted;
    session->owner = NULL;
    session->access = NULL;
    session_begin(session);
    atomic_store_explicit(&session->last_request_s, worker->now_s, memory_order_relaxed);
    if (counted)
        cache_log_connection(session, false);
    return session;
}

void cache_session_close(struct cache_session *session)
{
    struct cache_worker *worker = session->worker;

    U_ASSERT(session->open);
    session_drop(session);
    if (session->counted) {
        cache_log_connection(session, true);
        connection_leave(worker);
    }
    pthread_mutex_lock(&worker->session_lock);
    session->open = false;
    session->u.next_free = worker->free_sessions;
    worker->free_sessions = session;
    pthread_mutex_unlock(&worker->session_lock);
}

void cache_session_restart(struct cache_session *session)
{
    session_drop(session);
    session_begin(session);
}

void cache_session_close_idle(struct cache_session *session)
{
    session->close_reason = CACHE_CLOSE_IDLE;
    cache_count(session->worker, CACHE_IDLE_KICKS, 1);
    cache_session_close(session);
}

void cache_session_tls_failed(struct cache_session *session, bool in_handshake, const char *reason)
{
    session->close_reason = CACHE_CLOSE_ERROR;
    cache_count(session->worker, in_handshake ? CACHE_SSL_HANDSHAKE_ERRORS : CACHE_SSL_PROTO_ERRORS,
                1);
    cache_log_tls_error(session, reason);
}

void cache_count_tls_handshake(struct cache_worker *worker, bool resumed)
{
    if (!resumed)
        cache_count(worker, CACHE_SSL_NEW_SESSIONS, 1);
}

void cache_session_set_owner(struct cache_session *session, void *owner)
{
    session->owner = owner;
}

void *cache_session_owner(const struct cache_session *session)
{
    return session->owner;
}

uint32_t cache_session_idle_s(const struct cache_session *session)
{
    uint32_t last_s = atomic_load_explicit(&session->last_request_s, memory_order_relaxed);

    if (cache_session_state(session) != CACHE_SESSION_OPEN ||
        cache_session_phase(session) != CACHE_PHASE_LINE)
        return 0;
    return session->worker->now_s - last_s;
}

const struct cache_peer *cache_session_peer(const struct cache_session *session)
{
    return &session->peer;
}

enum cache_rest cache_session_rest(const struct cache_session *session,
                                   struct cache_session_saved *saved)
{
    uint32_t last_s = atomic_load_explicit(&session->last_request_s, memory_order_relaxed);

    switch (cache_session_phase(session)) {
    case CACHE_PHASE_LINE:
        if (session->sasl != 0 || session->access != NULL)
            return CACHE_REST_ENDS; /* an identity does not move: the client authenticates again */
        saved->protocol = session->state.protocol;
        saved->idle_s = cache_clock_since(session->worker, last_s);
        saved->line = session->line != NULL ? session->line->bytes : NULL;
        saved->line_bytes = session->line != NULL ? session->line->len : 0;
        return CACHE_REST_MOVES;
    case CACHE_PHASE_TASK:
        return session->u.task->ops->listens ? CACHE_REST_ENDS : CACHE_REST_BUSY;
    default:
        return CACHE_REST_BUSY;
    }
}

bool cache_session_continue(struct cache_session *session, const struct cache_session_saved *saved)
{
    uint32_t idle_s = u_min32(saved->idle_s, session->worker->now_s);

    if (saved->protocol > CACHE_PROTOCOL_AUTH)
        return false;
    session->state.protocol = saved->protocol;
    atomic_store_explicit(&session->last_request_s, session->worker->now_s - idle_s,
                          memory_order_relaxed);
    return true;
}

enum cache_session_state cache_session_state(const struct cache_session *session)
{
    if (U_LIKELY(cache_session_is_waiting(session)))
        return CACHE_SESSION_OPEN;
    switch (cache_session_phase(session)) {
    case CACHE_PHASE_CLOSING:
        return CACHE_SESSION_CLOSING;
    case CACHE_PHASE_REPLYING:
        return CACHE_SESSION_BLOCKED;
    case CACHE_PHASE_TASK:
        return session->u.task->ops->listens ? CACHE_SESSION_OPEN : CACHE_SESSION_BLOCKED;
    default:
        if (session->state.stop == CACHE_STOP_FULL)
            return CACHE_SESSION_BLOCKED;
        return session->state.stop == CACHE_STOP_TURN ? CACHE_SESSION_YIELDED : CACHE_SESSION_OPEN;
    }
}
