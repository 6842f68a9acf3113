/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a sock worker, shared by its loop (sock_worker.c), its connections (sock_conn.c)
 * and its statistics (net_stats.c).
 */
#ifndef NET_SOCK_WORKER_H
#define NET_SOCK_WORKER_H

#include "base/list.h"
#include "net/sock_out.h"
#include "net/worker.h"

/* One read takes at most this; what a blocked session has not consumed of it is kept. */
#define NET_SOCK_READ_BYTES (64 * 1024)

/* A session stops when so much is queued on its connection and goes on at half of it. */
#define NET_SOCK_SEND_HIGH_BYTES (256 * 1024)

enum net_sock_counter {
    NET_SOCK_LOOPS = 0,
    NET_SOCK_READS,
    NET_SOCK_WRITES,
    NET_SOCK_ACCEPTED,
    NET_SOCK_REJECTED,      /* connections over conn_max */
    NET_SOCK_BLOCKED,       /* times a session stopped because its client does not read */
    NET_SOCK_ABORTED,       /* no memory for a reply, or an error of the socket */
    NET_SOCK_ACCEPT_PAUSES, /* times the kernel had no file descriptor or memory to accept with */
    NET_SOCK_COUNTERS
};

/* What an event of the kernel is about: first member of whatever is registered with it. */
enum net_sock_kind { NET_SOCK_WAKE, NET_SOCK_LISTENER, NET_SOCK_CONN };

struct net_sock_source {
    enum net_sock_kind kind;
    int fd;
};

struct net_sock_conn {
    struct net_sock_source source;
    uint32_t interest; /* EPOLL* bits registered */
    struct cache_session *session;
    struct net_out out;
    struct u_list link; /* on net_sock_worker.conns */
    uint8_t *kept;      /* input that a blocked session has not consumed, or null */
    uint32_t kept_at;
    uint32_t kept_len;
    bool eof;     /* the peer sends no more */
    bool blocked; /* as last counted */
    bool failed;  /* a reply that had begun could not be queued */
};

struct net_sock_worker {
    struct net_worker worker;
    struct cache *cache;
    struct cache_worker *cache_worker; /* null unless the loop runs */
    int epoll_fd;
    struct net_sock_source wake; /* an eventfd */
    struct net_sock_source listeners[NET_ENDPOINT_MAX];
    unsigned listener_count;
    atomic_bool stopping;

    struct u_list conns;
    struct net_out_pool out_pool;
    bool accept_paused;
    uint64_t accept_resume_us;
    uint64_t now_us;

    struct net_counter counters[NET_SOCK_COUNTERS];
    struct net_sock_worker *stats_next; /* all workers that `stats sock` sums */
    uint8_t read_buffer[NET_SOCK_READ_BYTES];
};

static inline void net_sock_count(struct net_sock_worker *worker, enum net_sock_counter counter,
                                  uint64_t n)
{
    net_counter_add(&worker->counters[counter], n);
}

/* ---- sock_conn.c ------------------------------------------------------------------------- */

/* Takes over a socket that was accepted: a session, or the message that there are too many. */
void net_sock_conn_open(struct net_sock_worker *worker, int fd, const struct sockaddr *peer);

/* Acts on EPOLL* bits. Afterwards the connection may be gone. */
void net_sock_conn_event(struct net_sock_worker *worker, struct net_sock_conn *conn,
                         uint32_t events);

/* Closes the socket at once and frees the connection. */
void net_sock_conn_close(struct net_sock_worker *worker, struct net_sock_conn *conn);

#endif
