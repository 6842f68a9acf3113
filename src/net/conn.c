/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection does for its session over any transport; see conn.h. */
#include "net/conn.h"

#include <arpa/inet.h>
#include <string.h>

#include "mcproto/mcproto.h"
#include "net/log.h"
#include "net/tls_handover.h"

/* Connections per check that are looked at for being idle. */
#define IDLE_BATCH 64

/* ---- the sink ---------------------------------------------------------------------------- */

struct conn_sink {
    struct cache_sink sink; /* first: the session sees only this */
    struct net_conns *conns;
    struct net_conn *conn;
    uint8_t *start; /* of the reserved room, if sink.at is not null */
};

static inline void sink_commit(struct conn_sink *s)
{
    if (!s->sink.at)
        return;
    s->conns->transport->commit(s->conns, s->conn, (uint32_t)(s->sink.at - s->start));
    s->sink.at = NULL;
    s->sink.end = NULL;
}

static int sink_more(struct cache_sink *sink, uint32_t need)
{
    struct conn_sink *s = (struct conn_sink *)sink;
    const struct net_transport *transport = s->conns->transport;
    uint32_t room = 0;

    if (U_UNLIKELY(sink->at != NULL)) {
        sink_commit(s);
        sink->full = transport->is_full(s->conns, s->conn);
    }
    s->start = transport->reserve(s->conns, s->conn, need, &room);
    if (!s->start) {
        s->conn->failed = true;
        return -1;
    }
    U_ASSERT(room >= need);
    sink->at = s->start;
    sink->end = s->start + room;
    return 0;
}

static int sink_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct conn_sink *s = (struct conn_sink *)sink;
    int queued;

    sink_commit(s);
    queued = s->conns->transport->send_ref(s->conns, s->conn, data, len, cookie);
    if (queued < 0) {
        s->conn->failed = true;
        return -1;
    }
    if (queued == 0)
        cache_release(s->conns->cache_worker, cookie);
    sink->full = s->conns->transport->is_full(s->conns, s->conn);
    return 0;
}

static const struct cache_sink_ops sink_ops = {.more = sink_more, .ref = sink_ref};

static inline struct conn_sink sink_make(struct net_conns *conns, struct net_conn *conn)
{
    struct conn_sink s = {
        .sink = {.full = conns->transport->is_full(conns, conn), .ops = &sink_ops},
        .conns = conns,
        .conn = conn};

    return s;
}

uint32_t net_conn_input(struct net_conns *conns, struct net_conn *conn, const uint8_t *data,
                        uint32_t len)
{
    struct conn_sink s;
    uint32_t used;

    U_ASSERT(conn->session && len > 0);
    if (U_UNLIKELY(conn->tls != NULL))
        return net_tls_input(conn, data, len);
    s = sink_make(conns, conn);
    used = cache_session_input(conn->session, data, len, &s.sink);
    sink_commit(&s);
    return used;
}

void net_conn_resume(struct net_conns *conns, struct net_conn *conn)
{
    struct conn_sink s;

    U_ASSERT(conn->session);
    if (U_UNLIKELY(conn->tls != NULL)) {
        net_tls_resume(conn);
        return;
    }
    s = sink_make(conns, conn);
    cache_session_resume(conn->session, &s.sink);
    sink_commit(&s);
}

/* ---- opening ----------------------------------------------------------------------------- */

void net_conns_init(struct net_conns *conns, const struct net_transport *transport,
                    struct cache *cache, uint32_t idle_timeout_s)
{
    conns->transport = transport;
    conns->cache = cache;
    conns->idle_timeout_s = idle_timeout_s;
    u_list_init(&conns->open);
}

void net_conns_free(struct net_conns *conns)
{
    net_tls_close(conns->tls);
    conns->tls = NULL;
}

/* From this verbosity on; limit null: every time. */
static void log_peer(const struct net_conns *conns, const struct cache_peer *peer,
                     unsigned verbosity, const char *what, struct net_log_limit *limit)
{
    char text[INET6_ADDRSTRLEN] = "unix socket";

    if (cache_verbosity(conns->cache) < verbosity)
        return;
    if (strcmp(peer->transport, "unix") != 0)
        inet_ntop(strcmp(peer->transport, "tcp6") == 0 ? AF_INET6 : AF_INET, peer->addr, text,
                  sizeof(text));
    if (limit)
        net_log_limited(limit, "ucached: %s port %u: %s", text, peer->port, what);
    else
        net_log("ucached: %s port %u: %s", text, peer->port, what);
}

/* Begins a handshake, or continues what another process has handed over. Returns 0 or -1. */
static int begin_tls(struct net_conns *conns, struct net_conn *conn, enum cache_tls mode)
{
    if (conns->taken && conns->taken->tls_bytes > 0)
        return net_tls_take_over(conns, conn, conns->taken);
    return net_tls_conn_begin(conns, conn, mode);
}

bool net_conn_open_session(struct net_conns *conns, struct net_conn *conn,
                           const struct cache_peer *peer)
{
    U_ASSERT(!conn->session);
    conn->session = cache_session_open(conns->cache_worker, peer);
    if (!conn->session)
        return false;
    if (U_UNLIKELY(peer->tls != CACHE_TLS_OFF) && begin_tls(conns, conn, peer->tls) < 0) {
        net_conn_close_session(conn);
        return false;
    }
    cache_session_set_owner(conn->session, conn);
    log_peer(conns, peer, 2, "connected", NULL);
    return true;
}

bool net_conn_finish(struct net_conn *conn)
{
    return conn->tls && net_tls_finish(conn);
}

void net_conn_close_session(struct net_conn *conn)
{
    if (U_UNLIKELY(conn->tls != NULL))
        net_tls_conn_end(conn);
    if (conn->session)
        cache_session_close(conn->session);
    conn->session = NULL;
}

const char *net_conn_refuse(const struct net_conns *conns, const struct cache_peer *peer,
                            u_u32 *len)
{
    static struct net_log_limit limit = NET_LOG_LIMIT;

    log_peer(conns, peer, 1, "refused, too many connections", &limit);
    *len = 0;
    if (peer->tls != CACHE_TLS_OFF)
        return "";
    return mc_status_text(MC_STATUS_TOO_MANY_CONNECTIONS, len);
}

/* ---- pending output and idle timeouts ---------------------------------------------------- */

void net_conns_flush_pending(struct net_conns *conns)
{
    uint32_t n = u_min32(cache_resumable_count(conns->cache_worker), NET_PENDING_BATCH);
    const struct cache_session *session;

    if (U_UNLIKELY(conns->tls != NULL))
        net_tls_continue(conns->tls);
    for (; n > 0 && (session = cache_resumable_next(conns->cache_worker)) != NULL; n--)
        conns->transport->resume(conns, cache_session_owner(session));
}

bool net_conns_are_busy(const struct net_conns *conns)
{
    return conns->tls && net_tls_is_busy(conns->tls);
}

void net_conns_tick_tls(struct net_conns *conns, uint64_t now_us)
{
    net_tls_tick(conns->tls, now_us);
}

void net_conns_check_idle(struct net_conns *conns, uint64_t now_us, struct net_counter *closed)
{
    struct net_conn *conn;
    uint32_t idle_s = 0;
    unsigned n;

    for (n = 0; n < IDLE_BATCH && !u_list_is_empty(&conns->open); n++) {
        conn = U_CONTAINER_OF(conns->open.next, struct net_conn, link);
        idle_s = conn->session && conn->timed ? cache_session_idle_s(conn->session) : 0;
        if (idle_s > 0 && idle_s <= conns->idle_timeout_s)
            break; /* those behind it were active later */
        u_list_remove(&conn->link);
        u_list_push_back(&conns->open, &conn->link);
        if (idle_s == 0)
            continue;
        net_counter_add(closed, 1);
        cache_session_close_idle(conn->session);
        conn->session = NULL;
        conns->transport->close_idle(conns, conn);
    }
    /* If the batch ended with an idle one there may be more: in the next turn. */
    if (n < IDLE_BATCH || idle_s == 0)
        conns->idle_check_us = now_us + NET_IDLE_CHECK_US;
}
