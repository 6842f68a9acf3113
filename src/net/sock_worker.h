/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of a sock worker: its loop (sock_worker.c), accepting (sock_accept.c), connections
 * (sock_conn.c) and statistics (net_stats.c).
 *
 * struct net_sock_io waits, reads and writes: with epoll and a system call each (sock_epoll.c), or
 * with io_uring (sock_uring.c).
 */
#ifndef NET_SOCK_WORKER_H
#define NET_SOCK_WORKER_H

#include <sys/epoll.h>

#include "net/conn.h"
#include "net/sock_sendq.h"

struct net_sock_udp;

/* The buffer of a read; input that a stopped session has not consumed is kept. */
#define NET_SOCK_READ_BYTES (64 * 1024)

/* A session stops when this is queued on its connection and is resumed at half of it. */
#define NET_SOCK_SEND_HIGH_BYTES (256 * 1024)

/* Bytes that may be queued between two turns of a connection (-R) before they are written. */
#define NET_SOCK_TURN_BYTES (16 * 1024)

enum net_sock_counter {
    NET_SOCK_LOOPS = 0,
    NET_SOCK_READS,
    NET_SOCK_WRITES,
    NET_SOCK_ACCEPTED,
    NET_SOCK_REJECTED,      /* connections over conn_max */
    NET_SOCK_BLOCKED,       /* times a session stopped because its client does not read */
    NET_SOCK_ABORTED,       /* no memory for a reply, or an error of the socket */
    NET_SOCK_ACCEPT_PAUSES, /* times the kernel had no file descriptor or memory to accept with */
    NET_SOCK_IDLE_CLOSED,   /* connections closed because of settings.idle_timeout_s */
    NET_SOCK_REST_CLOSED,   /* connections closed because they were not at rest in time */
    NET_SOCK_TAKEN_OVER,    /* connections taken over from an earlier process */
    NET_SOCK_UDP_REQUESTS,  /* datagrams that were served */
    NET_SOCK_UDP_MALFORMED, /* dropped */
    NET_SOCK_UDP_TOO_LARGE, /* whose reply would have been too large */
    NET_SOCK_UDP_LIMITED,   /* not replied to: their source was sent too much already */
    NET_SOCK_UDP_SENT,      /* datagrams */
    NET_SOCK_UDP_UNSENT,    /* datagrams that the kernel did not take */
    NET_SOCK_COUNTERS
};

/* The object of a kernel event: first member of every struct that is registered. */
enum net_sock_kind { NET_SOCK_WAKE, NET_SOCK_LISTENER, NET_SOCK_UDP, NET_SOCK_CONN };

struct net_sock_source {
    enum net_sock_kind kind;
    int fd;
};

struct net_sock_listener {
    struct net_sock_source source;
    enum net_endpoint_kind kind;
    bool shared; /* the socket is also the endpoint's, which other processes may have, too */
    struct cache_peer peer;        /* only its local side is set */
    struct cache_session *session; /* of a datagram socket while the loop runs, else null */
};

/*
 * A connection. Input that its session has not consumed is kept while the session is blocked or
 * waits for its next turn.
 */
struct net_sock_conn {
    struct net_sock_source source;
    uint32_t interest; /* EPOLLIN, EPOLLOUT: what it waits for */
    struct net_conn conn;
    enum cache_session_state state; /* of the session, after its last call */
    struct net_sendq out;
    struct u_list ready_link; /* on net_sock_worker.ready, or on no list */
    uint8_t *kept;            /* input that the session has not consumed, or null */
    uint32_t kept_at;
    uint32_t kept_len;
    bool eof;     /* the peer sends no more */
    bool blocked; /* as last counted */
};

static inline struct net_sock_conn *net_sock_conn_of(struct net_conn *conn)
{
    return U_CONTAINER_OF(conn, struct net_sock_conn, conn);
}

/* Whether connections are accepted, or why not. */
enum net_sock_accept { NET_SOCK_ACCEPTING = 0, NET_SOCK_ACCEPT_PAUSED, NET_SOCK_ACCEPT_FULL };

/* A connection that was accepted although another worker has just opened the last session. */
struct net_sock_waiting {
    const struct net_sock_listener *listener; /* null: there is none */
    int fd;
    struct sockaddr_storage peer;
};

struct net_sock_worker;

/* An interface of the kernel. Functions that can fail return 0 or a negative errno value. */
struct net_sock_io {
    size_t conn_bytes; /* of a connection: a struct that begins with struct net_sock_conn */
    int accept_flags;  /* of accept4() */

    /* In the thread of the loop, before and after it: sets worker->io_state. */
    int (*begin)(struct net_sock_worker *worker);
    void (*end)(struct net_sock_worker *worker);

    /* Waits for events; returns how many there are. dispatch acts on them. */
    int (*wait)(struct net_sock_worker *worker, int timeout_ms);
    void (*dispatch)(struct net_sock_worker *worker, int events);

    /* Whether new connections are to be reported. */
    void (*accept_want)(struct net_sock_worker *worker, bool on);

    /* Starts to report input (interest is EPOLLIN); changes the events to report. */
    int (*conn_begin)(struct net_sock_worker *worker, struct net_sock_conn *conn);
    int (*conn_want)(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest);

    /* Writes the send queue, or starts to: then NET_SENDQ_PENDING, and an event follows. */
    enum net_sendq_result (*conn_flush)(struct net_sock_worker *worker, struct net_sock_conn *conn);

    /*
     * At rest: stops a read of a connection that does not want input; whether no request of the
     * connection, or of the listeners, is under way any more. May be null: there are none.
     */
    bool (*conn_rest)(struct net_sock_worker *worker, struct net_sock_conn *conn);
    bool (*listeners_rest)(const struct net_sock_worker *worker);

    /* Stops all reports. Calls net_sock_conn_free(), possibly later. */
    void (*conn_end)(struct net_sock_worker *worker, struct net_sock_conn *conn);
};

extern const struct net_sock_io net_sock_epoll;
extern const struct net_sock_io net_sock_uring;

struct net_sock_worker {
    struct net_worker worker;
    struct net_conns conns;
    const struct net_sock_io *io;
    void *io_state;              /* null unless the loop runs */
    struct net_sock_source wake; /* an eventfd */
    struct net_sock_listener listeners[NET_ENDPOINT_MAX];
    unsigned listener_count;
    bool accept_waits; /* settings.accept_waits */
    atomic_bool stopping;
    bool resting;    /* it is being paused: see sock_pause.c */
    unsigned number; /* these three as in struct net_sock_config */
    unsigned workers;
    struct net_handover *handover;
    struct u_list ready; /* have kept input and no turn since */
    struct net_sendq_pool out_pool;
    enum net_sock_accept accept;
    uint64_t accept_stopped_us;
    uint64_t accept_retry_us;
    struct net_sock_waiting waiting;
    struct net_sock_udp *udp; /* null: no datagram sockets */
    uint64_t now_us;
    uint64_t woken_ticks; /* when the last wait ended: input was there */
    bool sends_queued;    /* the next wait() sends replies */
    bool crowded;         /* other connections wait for their turn in this loop */

    struct net_counter counters[NET_SOCK_COUNTERS];
    struct net_sock_worker *stats_next; /* all workers that `stats sock` sums */
    uint8_t read_buffer[NET_SOCK_READ_BYTES];
};

/* One turn of the loop. Returns 0 or a negative errno value. */
int net_sock_turn(struct net_sock_worker *worker, int timeout_ms);

/* ---- sock_pause.c ------------------------------------------------------------------------ */

/* Comes to rest, waits until the worker is resumed, and continues. 0 or a negative errno value. */
int net_sock_pause(struct net_sock_worker *worker);

/* net_worker_hand_over(). */
void net_sock_hand_over(struct net_worker *base, bool first, struct net_handover *handover);

/* Takes over this worker's share of the connections of the handover. */
void net_sock_take_over(struct net_sock_worker *worker);

static inline void net_sock_count(struct net_sock_worker *worker, enum net_sock_counter counter,
                                  uint64_t n)
{
    net_counter_add(&worker->counters[counter], n);
}

/* Replies have left: counts the latency of their requests since the end of the last wait. */
static inline void net_sock_replied(const struct net_sock_worker *worker)
{
    net_conns_replied(&worker->conns, net_ticks() - worker->woken_ticks);
}

/* ---- sock_accept.c ----------------------------------------------------------------------- */

/*
 * Opens the worker's socket for the address of this number, or a duplicate of a shared one, or its
 * share of those taken over. 0 or -1.
 */
int net_sock_listener_open(struct net_sock_worker *worker, unsigned number,
                           const struct net_sock_config *config);

/*
 * A connection was accepted already: takes it over, or refuses it. fd: a socket, or the negative
 * errno value of an attempt that failed.
 */
void net_sock_accepted(struct net_sock_worker *worker, const struct net_sock_listener *listener,
                       int fd);

/* A listening socket has become readable. */
void net_sock_accept(struct net_sock_worker *worker, const struct net_sock_listener *listener);

/* Once per loop: resumes accepting if the reason to stop has passed. */
void net_sock_accept_resume(struct net_sock_worker *worker);

/* Stops accepting until release. */
void net_sock_accept_hold(struct net_sock_worker *worker);
void net_sock_accept_release(struct net_sock_worker *worker);

/*
 * Makes the listening sockets block, or not: those that another process has handed over are as it
 * needed them. Returns 0 or a negative errno value.
 */
int net_sock_accept_block(const struct net_sock_worker *worker, bool block);

/* Closes the listening sockets and the connection that waits for a session. */
void net_sock_accept_close(struct net_sock_worker *worker);

/* ---- sock_endpoints.c -------------------------------------------------------------------- */

/* Takes address and port out of a socket address; leaves them if it has none. */
void net_read_address(const struct sockaddr *from, uint8_t addr[16], uint16_t *port);

/* ---- sock_udp.c -------------------------------------------------------------------------- */

/* Prepares a datagram socket, and the worker for datagrams. Returns 0 or -1. */
int net_sock_udp_open(struct net_sock_worker *worker, int fd, struct net_udp_limit *limit);

/* Begins and ends the sessions of datagram sockets. begin returns 0 or a negative errno value. */
int net_sock_udp_begin(struct net_sock_worker *worker);
void net_sock_udp_end(struct net_sock_worker *worker);

/* Serves the datagrams that have come, a bounded number. */
void net_sock_udp_event(struct net_sock_worker *worker, const struct net_sock_listener *listener);

void net_sock_udp_close(struct net_sock_worker *worker);

/* ---- sock_conn.c ------------------------------------------------------------------------- */

/*
 * Takes over an accepted socket. Returns false if no session is free; the socket is then still the
 * caller's.
 */
bool net_sock_conn_open(struct net_sock_worker *worker, int fd,
                        const struct net_sock_listener *listener, const struct sockaddr *peer);

/* The peer of an accepted socket. */
void net_sock_peer(int fd, const struct net_sock_listener *listener, const struct sockaddr *from,
                   struct cache_peer *peer);

/* Sends the peer the error that there are too many connections, and closes the socket. */
void net_sock_conn_refuse(struct net_sock_worker *worker, int fd,
                          const struct net_sock_listener *listener, const struct sockaddr *peer);

/*
 * Gives input to the session, or keeps it until the session is resumed. Returns 1 if more may be
 * read now, 0 if not, -1 if there is no memory. net_sock_conn_update() or net_sock_conn_abort()
 * has to follow.
 */
int net_sock_conn_input(struct net_sock_worker *worker, struct net_sock_conn *conn,
                        const uint8_t *data, uint32_t len);

/* After any input or output: writes, then waits for events or closes the connection. */
void net_sock_conn_update(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* Closes a broken connection; counted. */
void net_sock_conn_abort(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* The last step of net_sock_io.conn_end: drops the send queue, closes the socket. */
void net_sock_conn_free(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* One more turn for each connection that had not finished its last one. */
void net_sock_conns_run_ready(struct net_sock_worker *worker);

/* Queues the replies of connections in their net_sendq. */
extern const struct net_transport net_sock_transport;

/* Closes the session and frees the connection. */
void net_sock_conn_close(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* Closes all connections. */
void net_sock_conns_close(struct net_sock_worker *worker);

#endif
