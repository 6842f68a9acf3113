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
    struct sockaddr_storage server;
    socklen_t server_len;
    char server_text[80];
    struct link_options link;
};

/* What is to be done in a phase, by one thread. */
struct phase {
    bool storing;
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
    struct us_conn *us;
    int fd;
    bool wants_write;
    uint8_t *unsent; /* what the kernel did not take; memory only for those that need it */
    uint32_t unsent_at, unsent_len;
};

/* A transport. Functions return 0, or -1 after client_fail(). */
struct client_ops {
    /* Opens all connections. */
    int (*open)(struct client *client, struct nic *nic);

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
    struct talk talk;
    struct source source;
    struct phase phase;
    struct load_arrivals arrivals;
    struct u_list ready;
    uint64_t ids[SESSION_MULTI_MAX];
    uint64_t begun;    /* requests, in this phase */
    uint64_t answered; /* talk.answered when it began */
    uint64_t heard_ns; /* when the last reply came, or the first request after silence began */
    uint64_t end_ns;   /* when the phase was over */
    bool giving;       /* requests may be begun */
    const atomic_bool *stop;
    atomic_uint_fast64_t shown; /* requests answered, for others to look at */
    bool failed;
    char error[CLIENT_ERROR_MAX];

    int epoll_fd; /* kernel sockets */
    uint8_t *buffer;
    struct host host; /* own stack */
    unsigned open_count;
    uint64_t active_ns;
};

static inline uint64_t client_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Prepares a thread with `count` connections and opens them; nic is its queue, or null for kernel
 * sockets, and the client's from then on. Returns 0, or -1 with client->error set; close it anyway.
 */
int client_open(struct client *client, const struct plan *plan, unsigned count, struct nic *nic);

void client_close(struct client *client);

/*
 * Does what client->phase says; all else is in talk and end_ns then. Returns 0, or -1 with
 * client->error set.
 */
int client_run(struct client *client);

/* ---- for the transports ------------------------------------------------------------------ */

/* Remembers the first failure. Returns -1. */
__attribute__((format(printf, 2, 3))) int client_fail(struct client *client, const char *format,
                                                      ...);

/* Begins the next request on this connection if there is to be one. Returns whether. */
bool client_next(struct client *client, struct conn *conn);

/* Bytes have come on a connection. */
int client_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/* All that had come on a connection was handed over: it may be given more to do. */
int client_settle(struct client *client, struct conn *conn);

#endif
