/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load thread: its connections, through kernel sockets or the own TCP/IP stack, and the loop that
 * keeps them busy, as fast as replies arrive (closed loop) or at scheduled times (open loop).
 *
 * The thread of a client runs for one phase; connections stay open between phases.
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
#include "login.h"
#include "pipeline.h"
#include "request_source.h"
#include "tls/tls.h"

#define CLIENT_ERROR_MAX 400

/* Longest sleep, so that stop requests and timeouts are noticed. */
#define CLIENT_SLEEP_US_MAX 50000

/* Requests drawn at a time. */
#define CLIENT_DRAWN_MAX 32

/* Requests written, and replies read, at a time. */
#define CLIENT_BUFFER_BYTES 65536

/* Bytes that a transport does not accept: those of a buffer, with TLS in records. */
#define CLIENT_RECORDS_BYTES ((CLIENT_BUFFER_BYTES / TLS_RECORD_MAX + 1) * 256)
#define CLIENT_UNSENT_BYTES (CLIENT_BUFFER_BYTES + CLIENT_RECORDS_BYTES + 4096)

/* Maximum number of servers; connections are distributed round-robin, keys by ketama. */
#define CLIENT_SERVERS_MAX LOAD_KETAMA_SERVERS_MAX

struct server {
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

/* Shared by all threads; constant while they run. */
struct plan {
    struct keyspace keys;
    struct templates templates;
    struct mix mix;
    struct load_popularity popularity;
    struct loaded_trace replay;
    bool replaying, replay_again;
    unsigned threads;
    bool fill; /* store keys that a get misses */
    bool verify;
    bool poll; /* busy-poll, never sleep */
    bool udp;
    uint32_t depth;
    uint64_t timeout_ns;
    uint64_t seed;
    enum load_arrivals_kind arrivals;
    uint64_t reconnect; /* requests per connection before it is reopened; 0: unlimited */
    struct server servers[CLIENT_SERVERS_MAX];
    unsigned server_count;
    struct routing routing; /* of several servers */
    char server_text[1000];
    struct tls_context *tls; /* null: no TLS */
    bool tls_resume;         /* a reopened connection resumes its session */
    struct login login;
    struct link_options link;
};

/* Shared state of all threads of a run. */
struct thread_group {
    atomic_bool stop;   /* start no more requests */
    atomic_bool broken; /* a thread has failed: end without waiting */
    atomic_uint busy;   /* threads that have not completed the phase */
    atomic_uint tick;   /* intervals of the time series that have ended */
};

enum phase_kind {
    PHASE_CONNECT, /* open all connections */
    PHASE_STORE,   /* store every key */
    PHASE_STATS,   /* the first thread requests the server's statistics */
    PHASE_LOAD
};

/* The work of one thread in a phase. */
struct phase {
    enum phase_kind kind;
    uint64_t from, to;     /* PHASE_STORE: range of ids */
    uint64_t start_ns;     /* on CLOCK_MONOTONIC */
    uint64_t record_ns;    /* warm-up: requests before start_ns + record_ns are not counted */
    uint64_t duration_ns;  /* no request starts later than this after start_ns; 0: unlimited */
    uint64_t requests_max; /* 0: unlimited */
    double per_second;     /* open loop: rate; 0: closed loop */
    uint64_t seed;
};

struct client;

struct conn {
    struct pipeline pipeline; /* first */
    struct client *client;
    struct u_list ready_link; /* open loop: in client.ready while a request may start */
    bool is_ready;
    bool is_open;
    uint64_t allowance; /* requests before it is reopened; 0 while it is not open */
    const struct server *server;
    unsigned server_index;
    struct us_conn *us;
    struct tls_session *tls; /* null: no TLS, or not connected yet */
    int fd;
    bool is_connected;
    bool is_logging_in;
    uint32_t login_len; /* bytes of the reply to the login */
    uint8_t login_reply[LOGIN_REPLY_MAX];
    bool wants_write;
    uint8_t *unsent; /* bytes that the transport did not accept; allocated on demand */
    uint32_t unsent_at, unsent_len;
    uint16_t udp_request;      /* UDP: id of the request in flight */
    uint16_t udp_next;         /* number of the datagram of its reply that is next */
    uint64_t udp_sent_ns;      /* when it was sent */
    struct u_list udp_waiting; /* in client.udp_waiting while a reply is awaited */
};

/* A transport. The functions return 0, or -1 after client_fail(). */
struct client_ops {
    /* Prepares everything except the connections. */
    int (*open)(struct client *client, struct nic *nic);

    /* Opens all connections, idle ones included. Called in the client's thread. */
    int (*connect)(struct client *client);

    /* Closes a connection with no request in flight and reopens it; then calls client_opened(). */
    int (*reopen)(struct client *client, struct conn *conn);

    /*
     * Waits for replies, at most wait_us, sets ctx.now_ns, and passes received bytes to
     * client_received().
     */
    int (*turn)(struct client *client, uint64_t wait_us);

    /* Writes requests on a connection; client_next() starts more. */
    int (*pump)(struct client *client, struct conn *conn);

    /* Sends bytes behind those that wait already; for TLS. */
    int (*put)(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

    /* Sends what was written in this turn. */
    int (*flush)(struct client *client);

    void (*close)(struct client *client);
};

extern const struct client_ops client_sock_ops, client_stack_ops, client_udp_ops;

struct client {
    const struct client_ops *ops;
    const struct plan *plan;
    unsigned number;
    struct conn *conns;
    unsigned count;
    unsigned idle_count; /* connections that stay idle */
    struct thread_ctx ctx;
    struct source source;
    struct phase phase;
    struct load_arrivals arrivals;
    struct u_list ready;
    uint32_t drawn_at, drawn_count; /* drawn requests: the next one to start, and their number */
    uint32_t drawn_keys;            /* keys per request; if it is not 1, there is one request */
    uint32_t draw_max;              /* requests to draw at a time in this phase */
    enum op drawn_ops[CLIENT_DRAWN_MAX];
    uint64_t drawn_unique; /* OP_CAS: of the value that was read */
    uint64_t ids[PIPELINE_MULTI_MAX];
    uint64_t begun;       /* requests started in this phase */
    uint64_t answered;    /* ctx.answered at the start of the phase */
    uint64_t received;    /* bytes received up to the last turn */
    uint64_t received_ns; /* time of the last turn that received bytes, or was idle before */
    bool was_idle;        /* no request was in flight at the end of the last turn */
    uint64_t end_ns;      /* end of the phase */
    bool issuing;         /* requests may be started */
    bool closed;          /* the loop is closed: a reply starts the next request */
    struct thread_group *group;
    atomic_uint_fast64_t shown; /* requests answered, for the progress line */

    /*
     * Double buffer of histograms, one for each enum op. The thread of the client fills
     * sets[ticked & 1], which is ctx.latency. The main thread reads and clears the other set.
     */
    struct load_histogram *sets[2];
    atomic_uint ticked; /* value of group->tick at the last swap */
    atomic_bool done;   /* the thread fills no histogram until the next phase */
    bool failed;
    char error[CLIENT_ERROR_MAX];
    struct tls_key_cache *keys; /* with TLS */

    int epoll_fd; /* kernel sockets: */
    uint8_t *buffer;
    uint8_t *requests;             /* with TLS, as `buffer` may hold what is being read */
    uint8_t plain[TLS_PLAIN_ROOM]; /* of a record with replies */
    int *idle_fds;
    struct u_list udp_waiting; /* UDP: connections with a request in flight, oldest first */
    unsigned from_count;       /* connections opened so far, which selects the source address */
    struct host host;          /* own stack: */
    unsigned open_count;
    uint32_t port_next;
    struct conn idle;      /* represents all idle connections */
    struct u_list reopens; /* waiting for a free connection of the stack */
    uint64_t active_ns;
};

static inline uint64_t client_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Prepares a client with `count` connections, which PHASE_CONNECT opens. nic is its queue, or null
 * for kernel sockets; the client owns it. client->number, group and idle_count are set by the
 * caller. Returns 0, or -1 with client->error set; client_close() is required in both cases.
 */
int client_open(struct client *client, const struct plan *plan, unsigned count, struct nic *nic);

void client_close(struct client *client);

/*
 * Runs client->phase; the results are in ctx and end_ns. Decrements group->busy when done, and
 * continues to serve the device for other threads until all are done. Returns 0, or -1 with
 * client->error set.
 */
int client_run(struct client *client);

/* ---- for the transports ------------------------------------------------------------------ */

/* Stores the first error message. Returns -1. */
__attribute__((format(printf, 2, 3))) int client_fail(struct client *client, const char *format,
                                                      ...);

/* Stores bytes that the transport did not accept, behind earlier ones. */
int client_keep_unsent(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/*
 * Called when a connection is established. With --auth it sends the login and is called again after
 * the reply.
 */
int client_opened(struct client *client, struct conn *conn);

/*
 * Draws requests for a connection. Returns false if there are none: with several servers for its
 * server, otherwise no more are to be started.
 */
bool client_draw(struct client *client, const struct conn *conn);

/* Whether a request may start on this connection. */
static inline bool client_is_free(const struct conn *conn)
{
    return pipeline_is_free(&conn->pipeline) && conn->allowance > 0;
}

/* Whether there is a request to start; draws more if none is left. */
static inline bool client_has_drawn(struct client *client, const struct conn *conn)
{
    return client->drawn_at < client->drawn_count || client_draw(client, conn);
}

/* Takes the next drawn request for this connection. Returns its index. */
static inline uint32_t client_take(struct client *client, struct conn *conn)
{
    client->begun++;
    conn->allowance--;
    return client->drawn_at++;
}

/* Starts a request on a free connection. Returns false if no more are to be started. */
static inline bool client_begin(struct client *client, struct conn *conn, uint64_t at_ns)
{
    uint32_t at;

    if (!client_has_drawn(client, conn))
        return false;
    at = client_take(client, conn);
    if (U_UNLIKELY(client->drawn_ops[at] == OP_CAS))
        conn->pipeline.unique = client->drawn_unique;
    pipeline_begin(&conn->pipeline, client->drawn_ops[at], client->ids + at, client->drawn_keys,
                   at_ns);
    return true;
}

/* Closed loop: starts the next request on a connection. Returns whether it did. */
static inline bool client_next(struct client *client, struct conn *conn)
{
    return client_is_free(conn) && client->closed && client_begin(client, conn, client->ctx.now_ns);
}

/* Processes received bytes of an open connection. Returns 0, or -1 after client_fail(). */
static inline int client_replied(struct client *client, struct conn *conn, const uint8_t *data,
                                 uint32_t len)
{
    if (pipeline_receive(&conn->pipeline, data, len) == 0)
        return 0;
    return client_fail(client, "%s", client->ctx.error);
}

/* Processes received bytes of any connection: the reply to the login, then replies to requests. */
int client_received(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/*
 * Called after all received bytes of a connection were processed: starts requests, or reopens it.
 */
int client_settle(struct client *client, struct conn *conn);

#endif
