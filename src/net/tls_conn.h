/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS between a transport and its sessions: one implementation for the own stack and for kernel
 * sockets. A connection with TLS has a struct net_tls_conn; the transport gives it ciphertext where
 * it gives other connections' sessions their input.
 *
 *   input    ciphertext -> a record's plaintext -> session. What a stopped session leaves of a
 *            record is kept here. So that the transport offers input again when the session
 *            continues, net_tls_input() does not consume the last byte of the record; that byte is
 *            skipped when it is offered again.
 *   output   session -> records in the transport's queue, where they are encrypted in place. If
 *            OpenSSL encrypts, references come, or plaintext waits already: session -> plaintext
 *            queue (struct net_sendq) -> records -> the transport's queue, as long as that has
 *            room. While plaintext waits, the connection's state is BLOCKED, so the transport
 *            resumes it when its queue has drained.
 *
 * Handshakes are made by the worker, or by threads beside it (tls_offload.h).
 *
 * Bounds: a worker makes NET_TLS_HANDSHAKES_PER_TURN steps of handshakes in a turn of its loop, and
 * handshakes beyond wait in their order, or, if they are many, the newest is served first; a
 * handshake ends after NET_TLS_HANDSHAKE_US.
 */
#ifndef NET_TLS_CONN_H
#define NET_TLS_CONN_H

#include "base/list.h"
#include "net/conn.h"
#include "net/sock_sendq.h"
#include "net/tls_steps.h"
#include "tls/tls.h"

#define NET_TLS_HANDSHAKES_PER_TURN 4
#define NET_TLS_HANDSHAKE_US 10000000

/* Plaintext of a batch that is opened ahead. */
#define NET_TLS_OPENED_BYTES (128 * 1024)

enum net_tls_counter {
    NET_TLS_CONNECTIONS = 0,    /* connections opened */
    NET_TLS_HANDSHAKES,         /* handshakes completed */
    NET_TLS_RESUMED,            /* handshakes that resumed an earlier session */
    NET_TLS_OWN_RECORDS,        /* handshakes after which tls/record.h protects the records */
    NET_TLS_HANDSHAKE_WAITS,    /* steps of handshakes that waited for a later turn */
    NET_TLS_HANDSHAKES_NEWEST,  /* steps made before those of handshakes that wait longer */
    NET_TLS_STEPS,              /* steps made by the threads of -o handshake_threads */
    NET_TLS_STEPS_REFUSED,      /* connections closed as too many steps waited for a thread */
    NET_TLS_STEPS_LATE,         /* results of steps whose connection had ended */
    NET_TLS_HANDSHAKE_TIMEOUTS, /* connections closed after NET_TLS_HANDSHAKE_US */
    NET_TLS_TICKET_KEYS,        /* keys of tickets made after the first one */
    NET_TLS_RECORDS_IN,         /* records received with application data */
    NET_TLS_RECORDS_OUT,        /* records sent with application data */
    NET_TLS_INPUT_KEPT,         /* records of which a stopped session left plaintext */
    NET_TLS_NO_MEMORY,          /* connections that were closed for lack of memory */
    NET_TLS_TAKEN_OVER,         /* connections continued from an earlier process */
    NET_TLS_TAKEOVER_CLOSED,    /* connections that could not move to, or from, another process */
    NET_TLS_COUNTERS
};

/* What the TLS connections of a worker share. */
struct net_tls {
    struct tls_context *server;
    struct tls_key_cache *keys;
    struct net_conns *conns;
    struct net_sendq_pool pool;
    struct net_sendq no_output; /* of all connections without a queue of their own: empty */
    struct u_list handshakes;   /* net_tls_handshake.link: the one begun first is the first */
    struct u_list waiting; /* net_tls_handshake.waiting_link: handshakes that wait for their turn */
    unsigned waiting_count;      /* connections in `waiting` */
    unsigned steps_left;         /* steps of handshakes that this turn may still make */
    struct net_tls_steps *steps; /* threads that make the steps; null: this worker does */
    struct net_tls_results results;
    struct u_list steps_out; /* net_tls_step.own_link: steps whose result has not come */
    struct net_counter counters[NET_TLS_COUNTERS];
    struct net_tls *stats_next;           /* list of those that `stats tls` adds up */
    uint32_t opened_bytes;                /* bytes in use of `opened` */
    uint8_t plain[TLS_PLAIN_ROOM];        /* plaintext of the record just read */
    uint8_t gather[TLS_RECORD_MAX];       /* plaintext that lies in several pieces */
    uint8_t opened[NET_TLS_OPENED_BYTES]; /* plaintext of the batch, see net_tls_open_ahead() */
};

/* What a connection needs until its handshake is done. */
struct net_tls_handshake {
    struct net_tls_conn *conn;
    struct u_list link;         /* in net_tls.handshakes */
    struct u_list waiting_link; /* in net_tls.waiting, or in none */
    struct net_tls_step *step;  /* in net_tls.steps_out, or null */
    uint64_t deadline_us;       /* 0: not set yet */
};

/* Plaintext of which a session has consumed the bytes before `at`. */
struct net_tls_kept {
    uint32_t at;
    uint32_t len;
    uint8_t bytes[];
};

/* TLS of a connection. What few connections need at a time is allocated on demand. */
struct net_tls_conn {
    struct net_tls *tls;
    struct net_conn *conn;
    struct tls_session *session;
    struct net_tls_handshake *handshake; /* null: it is done */
    struct net_sendq *out;               /* plaintext that is not in a record yet */
    struct net_tls_kept *kept;           /* plaintext that the session left, or null */
    uint32_t skip;                       /* bytes of the next input that have been read before */
    bool granted : 1;                    /* the next step of the handshake is counted already */
    bool opened : 1;  /* the next input is the plaintext that net_tls_open_ahead() has returned */
    bool stalled : 1; /* input waits until the transport's queue has drained */
    bool yielded : 1; /* input waits for the connection's next turn */
    bool eof : 1;     /* the peer has sent close_notify */
    bool ended : 1;   /* an alert, or close_notify, is our last output */
};

/*
 * Makes the TLS of a worker, which net_tls_close() frees after the last connection has ended.
 * `server` outlives it. `steps`: their threads make its handshakes, and call wake() with a result,
 * until it is closed; null: it makes them itself. Returns null if there is no memory.
 */
struct net_tls *net_tls_open(struct net_conns *conns, struct tls_context *server,
                             struct net_tls_steps *steps, void (*wake)(void *ctx), void *wake_ctx);
void net_tls_close(struct net_tls *tls);

/* Begins TLS on a connection whose session is open. Returns 0, or -1 if there is no memory. */
int net_tls_conn_begin(struct net_conns *conns, struct net_conn *conn, enum cache_tls mode);

/* The tls_emit of all sessions, with their struct net_tls_conn: to the transport's queue. */
bool net_tls_emit(void *ctx, const uint8_t *data, uint32_t len);

/* Frees the TLS of a connection. */
void net_tls_conn_end(struct net_conn *conn);

/* net_conn_input() and net_conn_resume() of a connection with TLS. */
uint32_t net_tls_input(struct net_conn *conn, const uint8_t *data, uint32_t len);
void net_tls_resume(struct net_conn *conn);

/*
 * The transport is about to end the connection in order: queues close_notify. Returns whether it
 * has queued anything.
 */
bool net_tls_finish(struct net_conn *conn);

/*
 * A batch of inputs may be opened before the sessions execute it (stage A of stack_conn.c):
 * prefetch for all of them, then open each. For an input that is one record of data open_ahead
 * returns its plaintext and sets *plain_len; it replaces the input, and the connection's next call
 * is net_tls_answer_fast() or net_conn_input() with it. For others it returns null, without effect.
 */
void net_tls_prefetch(const struct net_conn *conn);
const uint8_t *net_tls_open_ahead(struct net_conn *conn, const uint8_t *data, uint32_t len,
                                  uint32_t *plain_len);

/*
 * Answers such an input for which cache_session_prefetch_opened() has returned true, if that is
 * possible: see cache_session_try_fast(). Returns the length of the reply, or 0.
 */
uint32_t net_tls_answer_fast(struct net_conn *conn, const uint8_t *data, uint32_t len);

/*
 * The session cannot take its input now. If that was opened, keeps it, and returns how many of its
 * bytes count as consumed.
 */
uint32_t net_tls_set_aside(struct net_conn *conn, const uint8_t *data, uint32_t len);

/* Before each batch: the plaintext of the last one is not used any more. */
static inline void net_tls_begin_batch(struct net_tls *tls)
{
    tls->opened_bytes = 0;
}

/* Whether the connection's input is plaintext. */
static inline bool net_tls_has_opened(const struct net_conn *conn)
{
    return conn->tls->opened;
}

/* Once per turn, after its events: lets handshakes that wait for their turn continue. */
void net_tls_continue(struct net_tls *tls);

/*
 * Once per turn, at its end: continues handshakes whose results have come, ends those that take too
 * long, and permits new steps.
 */
void net_tls_tick(struct net_tls *tls, uint64_t now_us);

/* Whether handshakes wait for the next turn, so that the worker must not sleep. */
static inline bool net_tls_is_busy(const struct net_tls *tls)
{
    return !u_list_is_empty(&tls->waiting) || net_tls_results_wait(&tls->results);
}

static inline void net_tls_count(struct net_tls *tls, enum net_tls_counter counter, uint64_t n)
{
    net_counter_add(&tls->counters[counter], n);
}

#endif
