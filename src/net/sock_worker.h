/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a sock worker, shared by its loop (sock_worker.c), what accepts for it
 * (sock_accept.c), its connections (sock_conn.c) and its statistics (net_stats.c).
 *
 * How the kernel is asked to wait, read and write is behind struct net_sock_io: by epoll and a
 * system call for each (sock_epoll.c), or by io_uring (uring.c).
 */
#ifndef NET_SOCK_WORKER_H
#define NET_SOCK_WORKER_H

#include <sys/epoll.h>

#include "base/list.h"
#include "net/sock_out.h"
#include "net/worker.h"

struct net_sock_udp;

/* One read takes at most this; what a blocked session has not consumed of it is kept. */
#define NET_SOCK_READ_BYTES (64 * 1024)

/* A session stops when so much is queued on its connection and goes on at half of it. */
#define NET_SOCK_SEND_HIGH_BYTES (256 * 1024)

/* Between two turns of one connection (-R) so much may be queued before it is written. */
#define NET_SOCK_TURN_BYTES (16 * 1024)

/* How often connections are looked at for being idle, if they have a timeout. */
#define NET_SOCK_IDLE_CHECK_US 250000

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
    NET_SOCK_UDP_REQUESTS,  /* datagrams that were served */
    NET_SOCK_UDP_MALFORMED, /* dropped */
    NET_SOCK_UDP_TOO_LARGE, /* whose reply would have been too large */
    NET_SOCK_UDP_SENT,      /* datagrams */
    NET_SOCK_UDP_UNSENT,    /* datagrams that the kernel did not take */
    NET_SOCK_COUNTERS
};

/* What an event of the kernel is about: first member of whatever is registered with it. */
enum net_sock_kind { NET_SOCK_WAKE, NET_SOCK_LISTENER, NET_SOCK_UDP, NET_SOCK_CONN };

struct net_sock_source {
    enum net_sock_kind kind;
    int fd;
};

struct net_sock_listener {
    struct net_sock_source source;
    enum net_endpoint_kind kind;
    struct cache_peer peer;        /* of which only the local side is known */
    struct cache_session *session; /* of a datagram socket while the loop runs, else null */
};

/*
 * What a connection's input waits for. What the session has not consumed is kept while it is
 * blocked or another connection has its turn.
 */
struct net_sock_conn {
    struct net_sock_source source;
    uint32_t interest; /* EPOLLIN, EPOLLOUT: what it waits for */
    struct cache_session *session;
    enum cache_session_state state; /* of the session, after its last call */
    struct net_out out;
    struct u_list link;       /* on net_sock_worker.conns or timed_conns */
    struct u_list ready_link; /* on net_sock_worker.ready, or on no list */
    uint8_t *kept;            /* input that the session has not consumed, or null */
    uint32_t kept_at;
    uint32_t kept_len;
    bool timed;   /* may be closed for being idle */
    bool eof;     /* the peer sends no more */
    bool blocked; /* as last counted */
    bool failed;  /* a reply that had begun could not be queued */
};

/* Why no connection is accepted, if so. */
enum net_sock_accept { NET_SOCK_ACCEPTING = 0, NET_SOCK_ACCEPT_PAUSED, NET_SOCK_ACCEPT_FULL };

/* A connection that was accepted just when the last place was taken by another worker. */
struct net_sock_waiting {
    const struct net_sock_listener *listener; /* null: there is none */
    int fd;
    struct sockaddr_storage peer;
};

struct net_sock_worker;

/* A way to the kernel. Functions that can fail return 0 or a negative errno value. */
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

    /* Begins to report what arrives (interest is EPOLLIN); changes what is waited for. */
    int (*conn_begin)(struct net_sock_worker *worker, struct net_sock_conn *conn);
    int (*conn_want)(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest);

    /* Writes what is queued, or begins to: then NET_OUT_LEFT, and it comes back when done. */
    enum net_out_result (*conn_flush)(struct net_sock_worker *worker, struct net_sock_conn *conn);

    /* Nothing is to be reported any more. Calls net_sock_conn_free(), now or when that is so. */
    void (*conn_end)(struct net_sock_worker *worker, struct net_sock_conn *conn);
};

extern const struct net_sock_io net_sock_epoll;
extern const struct net_sock_io net_sock_uring;

struct net_sock_worker {
    struct net_worker worker;
    struct cache *cache;
    struct cache_worker *cache_worker; /* null unless the loop runs */
    const struct net_sock_io *io;
    void *io_state;              /* null unless the loop runs */
    struct net_sock_source wake; /* an eventfd */
    struct net_sock_listener listeners[NET_ENDPOINT_MAX];
    unsigned listener_count;
    bool accept_waits; /* settings.accept_waits */
    uint32_t idle_timeout_s;
    atomic_bool stopping;

    struct u_list conns;
    struct u_list timed_conns; /* the same for those with an idle timeout, longest unheard first */
    struct u_list ready;       /* have kept input and no turn since */
    struct net_out_pool out_pool;
    enum net_sock_accept accept;
    uint64_t accept_stopped_us;
    uint64_t accept_retry_us;
    struct net_sock_waiting waiting;
    struct net_sock_udp *udp; /* null: no datagram sockets */
    uint64_t idle_check_us;   /* when to look at timed_conns again */
    uint64_t now_us;
    bool crowded; /* other connections wait for their turn in this loop */

    struct net_counter counters[NET_SOCK_COUNTERS];
    struct net_sock_worker *stats_next; /* all workers that `stats sock` sums */
    uint8_t read_buffer[NET_SOCK_READ_BYTES];
};

static inline void net_sock_count(struct net_sock_worker *worker, enum net_sock_counter counter,
                                  uint64_t n)
{
    net_counter_add(&worker->counters[counter], n);
}

/* ---- sock_accept.c ----------------------------------------------------------------------- */

/* Opens a socket of the worker's own for an address, or a share of a unix socket. 0 or -1. */
int net_sock_listener_open(struct net_sock_worker *worker, const struct net_endpoint *endpoint,
                           int backlog);

/*
 * A connection was accepted already: takes it over, or refuses it. fd: a socket, or the negative
 * errno value of an attempt that failed.
 */
void net_sock_accepted(struct net_sock_worker *worker, const struct net_sock_listener *listener,
                       int fd);

/* A listening socket has become readable. */
void net_sock_accept(struct net_sock_worker *worker, const struct net_sock_listener *listener);

/* Once per loop: goes on accepting if the reason to stop is over. */
void net_sock_accept_resume(struct net_sock_worker *worker);

/* Closes the listening sockets and what waits for a place. */
void net_sock_accept_close(struct net_sock_worker *worker);

/* ---- sock_listen.c ----------------------------------------------------------------------- */

/* Takes address and port out of a socket address; leaves them if it has none. */
void net_read_address(const struct sockaddr *from, uint8_t addr[16], uint16_t *port);

/* ---- sock_udp.c -------------------------------------------------------------------------- */

/* Prepares a datagram socket, and the worker for datagrams. Returns 0 or -1. */
int net_sock_udp_open(struct net_sock_worker *worker, int fd);

/* Begins and ends the sessions of datagram sockets. begin returns 0 or a negative errno value. */
int net_sock_udp_begin(struct net_sock_worker *worker);
void net_sock_udp_end(struct net_sock_worker *worker);

/* Serves the datagrams that have come, a bounded number. */
void net_sock_udp_event(struct net_sock_worker *worker, const struct net_sock_listener *listener);

void net_sock_udp_close(struct net_sock_worker *worker);

/* ---- sock_conn.c ------------------------------------------------------------------------- */

/*
 * Takes over a socket that was accepted. Returns false if there is no place for it; the socket is
 * then still the caller's.
 */
bool net_sock_conn_open(struct net_sock_worker *worker, int fd,
                        const struct net_sock_listener *listener, const struct sockaddr *peer);

/* Tells the peer that there are too many connections, and closes the socket. */
void net_sock_conn_refuse(struct net_sock_worker *worker, int fd);

/*
 * Gives what was received to the session, or keeps it until the session goes on. Returns 1 if more
 * may be read now, 0 if not, -1 if there is no memory. net_sock_conn_proceed() has to follow, or
 * net_sock_conn_abort().
 */
int net_sock_conn_input(struct net_sock_worker *worker, struct net_sock_conn *conn,
                        const uint8_t *data, uint32_t len);

/* After any input or output: writes, then waits for more, or this is the end. */
void net_sock_conn_proceed(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* Ends a connection that is broken. */
void net_sock_conn_abort(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* The last step of net_sock_io.conn_end: drops its replies, closes the socket. */
void net_sock_conn_free(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* One more turn for each connection that had not finished its last one. */
void net_sock_conns_ready(struct net_sock_worker *worker);

/* Lets the sessions go on that have something to write of themselves (cache_eager_next()). */
void net_sock_conns_eager(struct net_sock_worker *worker);

/* Closes connections that have been idle for too long: a bounded number of them. */
void net_sock_conns_idle(struct net_sock_worker *worker);

/* Closes the socket at once and frees the connection. */
void net_sock_conn_close(struct net_sock_worker *worker, struct net_sock_conn *conn);

/* Closes all connections. */
void net_sock_conns_close(struct net_sock_worker *worker);

#endif
