/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection does for its session, whatever carries its bytes: the sink of its replies, the
 * calls of the session, idle timeouts and log lines. Two transports use it: stack_conn.c (the own
 * TCP/IP stack) and sock_conn.c (kernel sockets).
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/list.h"
#include "net/worker.h"

struct net_conns;

/* First member of a transport's connection. */
struct net_conn {
    struct cache_session *session; /* null once there is nothing more to reply */
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
    struct cache_worker *cache_worker; /* null unless the loop runs */
    struct u_list open;                /* the longest idle first */
    uint32_t idle_timeout_s;           /* 0: none */
    uint64_t idle_check_us;            /* when to look at `open` again */
};

/* How often connections are looked at for being idle, if they have a timeout. */
#define NET_IDLE_CHECK_US 250000

void net_conns_init(struct net_conns *conns, const struct net_transport *transport,
                    struct cache *cache, uint32_t idle_timeout_s);

/* Opens the connection's session. Returns false if there are too many, or no memory. */
bool net_conn_open_session(struct net_conns *conns, struct net_conn *conn,
                           const struct cache_peer *peer);

/* Closes the session, if there is one. */
void net_conn_close_session(struct net_conn *conn);

/*
 * The text that a refused peer is sent before the close; logs the refusal. peer: null if it is not
 * known.
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

/* After input: the connection is the last to be checked for being idle. */
static inline void net_conn_touch(struct net_conns *conns, struct net_conn *conn)
{
    if (!conn->timed || cache_session_idle_s(conn->session) > 0)
        return;
    u_list_remove(&conn->link);
    u_list_push_back(&conns->open, &conn->link);
}

/*
 * Resumes sessions that have output without input (cache_resumable_next()) in turns: not all in one
 * loop, since hundreds of dumps would delay all requests.
 */
#define NET_PENDING_BATCH 32
void net_conns_flush_pending(struct net_conns *conns);

/* Closes connections that have been idle for too long: a bounded number of them. */
void net_conns_check_idle(struct net_conns *conns, uint64_t now_us, struct net_counter *closed);

/* The same if it is time for it. `closed` counts the connections. */
static inline void net_conns_close_idle(struct net_conns *conns, uint64_t now_us,
                                        struct net_counter *closed)
{
    if (conns->idle_timeout_s > 0 && now_us >= conns->idle_check_us)
        net_conns_check_idle(conns, now_us, closed);
}

#endif
