/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection does for its session, whatever carries its bytes: the sink of its replies, the
 * calls of the session, idle timeouts and log lines. Two transports use it: stack_conn.c (the own
 * TCP/IP stack) and sock_conn.c (kernel sockets). Connections with TLS (tls_conn.h) differ here
 * only: a transport does not see whether what it carries is encrypted.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/list.h"
#include "cache/latency.h"
#include "net/worker.h"

struct net_conns;

struct net_handover_record;
struct net_tls;
struct net_tls_conn;

/* First member of a transport's connection. */
struct net_conn {
    struct cache_session *session; /* null once there is nothing more to reply */
    struct net_tls_conn *tls;      /* null: not encrypted */
    struct u_list link;            /* on net_conns.open, by the transport */
    bool timed;                    /* settings.idle_timeout_s holds for it */
    bool failed;                   /* a reply that had begun could not be queued */
};

/* How a transport queues replies, and what the core calls. */
struct net_transport {
    /* Room for at least `need` bytes at the end of the queue, or null; commit ends it. */
    uint8_t *(*reserve)(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                        uint32_t *room);
    void (*commit)(struct net_conns *conns, struct net_conn *conn, uint32_t used);

    /*
     * Queues bytes that stay valid until cache_release(cookie). Returns 1, 0 if they were copied
     * (the cookie is the caller's again), or -1 if there is no memory.
     */
    int (*send_ref)(struct net_conns *conns, struct net_conn *conn, const void *data, uint32_t len,
                    void *cookie);

    /* Whether so much is queued that the session has to stop before its next reply. */
    bool (*is_full)(struct net_conns *conns, struct net_conn *conn);

    /* The session has output although no input came: net_conn_resume() is due. */
    void (*resume)(struct net_conns *conns, struct net_conn *conn);

    /* The session was closed for being idle, and conn->session is null. */
    void (*close_idle)(struct net_conns *conns, struct net_conn *conn);
};

/* The connections of a worker. */
struct net_conns {
    const struct net_transport *transport;
    struct cache *cache;
    struct cache_worker *cache_worker;       /* null unless the loop runs */
    struct net_tls *tls;                     /* null: no connection has TLS */
    const struct net_handover_record *taken; /* of the connection that is taken over now, or null */
    uint32_t left_out;       /* connections that could not move, in the present pause */
    struct u_list open;      /* the longest idle first */
    uint32_t idle_timeout_s; /* 0: none */
    uint64_t idle_check_us;  /* when to look at `open` again */
};

/* net_conn_state() of a connection with TLS. */
enum cache_session_state net_tls_state(const struct net_conn *conn);

/* How often connections are looked at for being idle, if they have a timeout. */
#define NET_IDLE_CHECK_US 250000

/* Whether the step of its handshake that a connection with TLS waits for is on another thread. */
bool net_tls_awaits_step(const struct net_conn *conn);

void net_conns_init(struct net_conns *conns, const struct net_transport *transport,
                    struct cache *cache, uint32_t idle_timeout_s);

/* Frees what the connections share. All of them have ended. */
void net_conns_free(struct net_conns *conns);

/*
 * Opens the connection's session, and TLS if peer->tls says so: for a connection that is taken over
 * that of its record. Returns false if there are too many, or no memory, or the record does not
 * fit.
 */
bool net_conn_open_session(struct net_conns *conns, struct net_conn *conn,
                           const struct cache_peer *peer);

/* Closes the session and TLS, as far as they are open. */
void net_conn_close_session(struct net_conn *conn);

/*
 * The connection ends in order when its queue is empty: with TLS a last message is queued, once.
 * Returns whether something was queued.
 */
bool net_conn_finish(struct net_conn *conn);

/*
 * The text that a refused peer is sent before the close, of length 0 if there is none, since a peer
 * with TLS could not read it; logs the refusal.
 */
const char *net_conn_refuse(const struct net_conns *conns, const struct cache_peer *peer,
                            u_u32 *len);

/*
 * Calls of the session (cache_session_input() and resume()): replies are queued, and conn->failed
 * says whether one could not be. input returns how many bytes were used.
 */
uint32_t net_conn_input(struct net_conns *conns, struct net_conn *conn, const uint8_t *data,
                        uint32_t len);
void net_conn_resume(struct net_conns *conns, struct net_conn *conn);

/* What the session, or the encryption of its replies, waits for: see cache_session_state(). */
static inline enum cache_session_state net_conn_state(const struct net_conn *conn)
{
    if (U_UNLIKELY(conn->tls != NULL))
        return net_tls_state(conn);
    return cache_session_state(conn->session);
}

/*
 * Whether a blocked connection need not be resumed: the transport's resume() is called when the
 * thread that makes its handshake has a result.
 */
static inline bool net_conn_awaits_step(const struct net_conn *conn)
{
    return U_UNLIKELY(conn->tls != NULL) && net_tls_awaits_step(conn);
}

/* After input: the connection is the last to be checked for being idle. */
static inline void net_conn_touch(struct net_conns *conns, struct net_conn *conn)
{
    if (!conn->timed || cache_session_idle_s(conn->session) > 0)
        return;
    u_list_remove(&conn->link);
    u_list_push_back(&conns->open, &conn->link);
}

U_STATIC_ASSERT(NET_TICKS_BITS_MAX <= CACHE_LATENCY_MAX_BITS, every_interval_has_a_slot);

/*
 * Replies have left: counts the latency of their requests, whose input came so many ticks ago. One
 * comparison if there was no request.
 */
static inline void net_conns_replied(const struct net_conns *conns, uint64_t ticks)
{
    if (cache_latency_is_pending(conns->cache_worker))
        cache_latency_record(conns->cache_worker, net_ticks_ns(ticks));
}

/*
 * Resumes sessions that have output without input (cache_resumable_next()) in turns: not all in one
 * loop, since hundreds of dumps would delay all requests. Also resumes handshakes of TLS that have
 * waited for this turn.
 */
#define NET_PENDING_BATCH 32
void net_conns_flush_pending(struct net_conns *conns);

/* Whether there is work for the next turn, so that the worker must not sleep. */
bool net_conns_are_busy(const struct net_conns *conns);

/* Closes connections that have been idle for too long: a bounded number of them. */
void net_conns_check_idle(struct net_conns *conns, uint64_t now_us, struct net_counter *closed);

/* What is due in each turn of TLS. */
void net_conns_tick_tls(struct net_conns *conns, uint64_t now_us);

/* Once per turn: what is due by the time. `closed` counts connections closed for being idle. */
static inline void net_conns_tick(struct net_conns *conns, uint64_t now_us,
                                  struct net_counter *closed)
{
    if (U_UNLIKELY(conns->tls != NULL))
        net_conns_tick_tls(conns, now_us);
    if (conns->idle_timeout_s > 0 && now_us >= conns->idle_check_us)
        net_conns_check_idle(conns, now_us, closed);
}

#endif
