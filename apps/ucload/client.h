/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread of load: its connections, over kernel sockets or over a stack of its own, and the loop
 * that keeps them busy, as fast as they answer (closed loop) or at given times (open loop).
 *
 * The thread of a client lives for one phase; the connections stay open between phases.
 */
#ifndef UCLOAD_CLIENT_H
#define UCLOAD_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "base/list.h"
#include "common/host.h"
#include "load/arrivals.h"
#include "session.h"
#include "source.h"

#define CLIENT_ERROR_MAX 400

/* Longest sleep: signs to stop and timeouts are looked at so often. */
#define CLIENT_SLEEP_US_MAX 50000

/* Requests that are chosen at a time. */
#define CLIENT_DRAWN_MAX 32

/* Servers that connections are dealt to in turn. */
#define CLIENT_SERVERS_MAX 8

struct server {
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

/* The same for all threads, and not changed while they run. */
struct plan {
    struct keyspace keys;
    struct forms forms;
    struct mix mix;
    struct load_popularity popularity;
    struct replay replay;
    bool replaying, replay_again;
    unsigned threads;
    bool fill; /* keys that a get does not find are stored */
    bool verify;
    bool poll; /* never sleeps */
    uint32_t depth;
    uint64_t timeout_ns;
    uint64_t seed;
    enum load_arrivals_kind arrivals;
    uint64_t reconnect; /* a connection is closed and opened again after so many requests; 0: not */
    struct server servers[CLIENT_SERVERS_MAX];
    unsigned server_count;
    char server_text[200];
    struct link_options link;
};

/* What all threads of a run know of each other. */
struct gang {
    atomic_bool stop;   /* no more requests are begun */
    atomic_bool broken; /* one has failed: nobody waits for anything any more */
    atomic_uint busy;   /* those that have not done what their phase says */
};

enum phase_kind {
    PHASE_CONNECT, /* all connections are opened */
    PHASE_STORE,   /* each key is stored */
    PHASE_ASK,     /* the first thread asks the server for its statistics */
    PHASE_LOAD
};

/* What is to be done in a phase, by one thread. */
struct phase {
    enum phase_kind kind;
    uint64_t from, to;     /* storing: ids */
    uint64_t start_ns;     /* on CLOCK_MONOTONIC */
    uint64_t record_ns;    /* how long after the start replies begin to count */
    uint64_t duration_ns;  /* no request is begun later; 0: no such bound */
    uint64_t requests_max; /* 0: no such bound */
    double per_second;     /* open loop; 0: closed */
    uint64_t seed;
};

struct client;

struct conn {
    struct session session; /* first */
    struct client *client;
    struct u_list ready_link; /* open loop: free for a request */
    bool is_ready;
    bool is_open;
    uint64_t allowance; /* requests that may be begun before it is closed; 0 while it is not open */
    const struct server *server;
    struct us_conn *us;
    int fd;
    bool wants_write;
    uint8_t *unsent; /* what the kernel did not take; memory only for those that need it */
    uint32_t unsent_at, unsent_len;
};

/* A transport. Functions return 0, or -1 after client_fail(). */
struct client_ops {
    /* Prepares everything but the connections. */
    int (*open)(struct client *client, struct nic *nic);

    /* Opens all connections, and the idle ones. In the thread that uses them. */
    int (*connect)(struct client *client);

    /* Closes a connection without anything in flight, and opens it again: client_opened(). */
    int (*reopen)(struct client *client, struct conn *conn);

    /*
     * Waits for replies, at most wait_us, sets talk.now_ns, and hands what came to
     * client_replied().
     */
    int (*turn)(struct client *client, uint64_t wait_us);

    /* Writes as much as is to be written on a connection: client_next() gives more. */
    int (*pump)(struct client *client, struct conn *conn);

    /* What was written in this turn goes out. */
    int (*flush)(struct client *client);

    void (*close)(struct client *client);
};

extern const struct client_ops client_sock_ops, client_stack_ops;

struct client {
    const struct client_ops *ops;
    const struct plan *plan;
    unsigned number;
    struct conn *conns;
    unsigned count;
    unsigned idle_count; /* connections that are opened and stay silent */
    struct talk talk;
    struct source source;
    struct phase phase;
    struct load_arrivals arrivals;
    struct u_list ready;
    uint32_t drawn_at, drawn_count; /* requests that were chosen and are to be begun */
    uint32_t drawn_keys;            /* of each; if it is not 1, there is one request */
    uint32_t draw_max;              /* how many to choose at a time in this phase */
    enum op drawn_ops[CLIENT_DRAWN_MAX];
    uint64_t ids[SESSION_MULTI_MAX];
    uint64_t begun;    /* requests, in this phase */
    uint64_t answered; /* talk.answered when it began */
    uint64_t heard;    /* bytes of replies at the end of the last turn */
    uint64_t heard_ns; /* the last turn that brought some, or had nothing to wait for before */
    bool was_quiet;    /* nothing was in flight when the last turn ended */
    uint64_t end_ns;   /* when the phase was over */
    bool giving;       /* requests may be begun */
    bool closed;       /* closed loop */
    struct gang *gang;
    atomic_uint_fast64_t shown; /* requests answered, for others to look at */
    bool failed;
    char error[CLIENT_ERROR_MAX];

    int epoll_fd; /* kernel sockets */
    uint8_t *buffer;
    int *idle_fds;
    unsigned from_count; /* connections begun: it decides what address the next comes from */
    struct host host;    /* own stack */
    unsigned open_count;
    uint32_t port_next;
    struct conn idle;      /* stands for all idle ones */
    struct u_list reopens; /* that wait for room in the stack; by ready_link */
    uint64_t active_ns;
};

static inline uint64_t client_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Prepares a thread with `count` connections, which PHASE_CONNECT opens; nic is its queue, or null
 * for kernel sockets, and the client's from then on. client->number, gang and idle_count are set
 * before. Returns 0, or -1 with client->error set; close it anyway.
 */
int client_open(struct client *client, const struct plan *plan, unsigned count, struct nic *nic);

void client_close(struct client *client);

/*
 * Does what client->phase says; all else is in talk and end_ns then. gang->busy counts this thread
 * until it has done so; frames for other threads of the gang are still looked after then, until all
 * have. Returns 0, or -1 with client->error set.
 */
int client_run(struct client *client);

/* ---- for the transports ------------------------------------------------------------------ */

/* Remembers the first failure. Returns -1. */
__attribute__((format(printf, 2, 3))) int client_fail(struct client *client, const char *format,
                                                      ...);

/* A connection is there: it may be given requests. */
int client_opened(struct client *client, struct conn *conn);

/* Chooses requests when none is left. Returns false if there is to be none any more. */
bool client_draw(struct client *client);

/* Whether a request may be begun on this connection. */
static inline bool client_is_free(const struct conn *conn)
{
    return session_is_free(&conn->session) && conn->allowance > 0;
}

/* Whether a request was chosen that is to be begun; chooses some if none is left. */
static inline bool client_has_drawn(struct client *client)
{
    return client->drawn_at < client->drawn_count || client_draw(client);
}

/* The request that was chosen for this connection: which of those that were drawn. */
static inline uint32_t client_take(struct client *client, struct conn *conn)
{
    client->begun++;
    conn->allowance--;
    return client->drawn_at++;
}

/* Begins a request on a free connection, unless there is to be none any more. */
static inline bool client_begin(struct client *client, struct conn *conn, uint64_t at_ns)
{
    uint32_t at;

    if (!client_has_drawn(client))
        return false;
    at = client_take(client, conn);
    session_begin(&conn->session, client->drawn_ops[at], client->ids + at, client->drawn_keys,
                  at_ns);
    return true;
}

/* Closed loop: begins the next request on this connection if there is to be one. Returns whether.
 */
static inline bool client_next(struct client *client, struct conn *conn)
{
    return client_is_free(conn) && client->closed &&
           client_begin(client, conn, client->talk.now_ns);
}

/* Bytes have come on a connection. */
int client_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/* All that had come on a connection was handed over: it may be given more to do. */
int client_settle(struct client *client, struct conn *conn);

#endif
