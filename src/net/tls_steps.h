/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of TLS handshakes on threads beside the workers. A step is one call of
 * tls_session_handshake() with a copy of the input that has come:
 *
 *   worker -> queue     net_tls_steps_submit(), at most NET_TLS_STEPS_MAX of all workers
 *   thread              takes a step, makes it, collects what it emits
 *   thread -> worker    a list of results for each worker (struct net_tls_results), which wakes it
 *
 * Ownership: from submit on, the session and the step belong to the queue and its threads, and to
 * the worker again when net_tls_results_take() or net_tls_steps_cancel() has returned the step, or
 * net_tls_results_close() has returned. The worker knows nothing of the session meanwhile.
 *
 * Invariants and orderings:
 *   - The lock guards the queue, net_tls_step.queued and net_tls_results.running. It is held for a
 *     few instructions, never during a step.
 *   - Results are pushed by compare-and-swap with release; the worker takes all of them by an
 *     exchange with acquire, so it sees what the thread has written. A push to an empty list wakes
 *     the worker, which looks at the list after each wake and before each sleep.
 *   - A thread touches a step's results only while it counts as `running` there, so they may be
 *     freed when net_tls_results_close() has seen 0.
 */
#ifndef NET_TLS_STEPS_H
#define NET_TLS_STEPS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "net/net.h"
#include "tls/tls.h"

/* Steps that wait; with more the one that has waited longest is refused. */
#define NET_TLS_STEPS_MAX 4096

/*
 * If more handshakes than this wait, the newest is served first: in order, all would be served
 * after their clients have given up and connected again. Also without threads, in each worker.
 */
#define NET_TLS_WAITING_IN_ORDER 32

/* Input of a step; further input comes with the next one. */
#define NET_TLS_STEP_INPUT_MAX (TLS_RECORD_MAX + TLS_RECORD_OVERHEAD)

/* What a step may emit, and the names of a certificate. */
#define NET_TLS_STEP_BYTES_MAX (256 * 1024)

/* Memory that grows as bytes are appended. */
struct net_tls_bytes {
    uint8_t *at;
    uint32_t len;
    uint32_t capacity;
};

/* The results of one worker. */
struct net_tls_results {
    _Atomic(struct net_tls_step *) pushed; /* the newest first */
    struct net_tls_step *taken;            /* the worker's: the oldest first */
    void (*wake)(void *ctx);               /* ends a sleep of the worker; any thread calls it */
    void *wake_ctx;
    unsigned running; /* its steps that threads have not pushed yet */
};

struct net_tls_step {
    struct u_list link;        /* in net_tls_steps.queue */
    struct u_list own_link;    /* the worker's */
    struct net_tls_step *next; /* in net_tls_results */
    void *owner;               /* the worker's; null: the connection has ended */
    struct tls_session *session;
    struct net_tls_results *results;
    bool queued;
    bool newest;            /* was made before steps that had waited longer */
    bool refused;           /* was not made: too many steps waited */
    enum tls_result result; /* of tls_session_handshake(), and the input that it took */
    uint32_t used;
    struct net_tls_bytes emitted;
    struct net_tls_bytes names; /* of the peer's certificate, each behind its length */
    uint32_t input_len;
    uint8_t input[];
};

/* Before the first step of a worker; close waits for those that threads are making. */
void net_tls_results_init(struct net_tls_results *results, void (*wake)(void *ctx), void *ctx);
void net_tls_results_close(struct net_tls_steps *steps, struct net_tls_results *results);

/*
 * Makes a step of a session's handshake, with a copy of at most NET_TLS_STEP_INPUT_MAX bytes of
 * input. with_names: collects the names of the peer's certificate. Null: no memory.
 */
struct net_tls_step *net_tls_step_new(struct tls_session *session, const uint8_t *data,
                                      uint32_t len, bool with_names);

/* Frees the step; its session stays. */
void net_tls_step_free(struct net_tls_step *step);

/*
 * Queues a step, whose result comes to `results`. If the queue is full, the step that has waited
 * longest is refused, which is a result for its worker.
 */
void net_tls_steps_submit(struct net_tls_steps *steps, struct net_tls_results *results,
                          struct net_tls_step *step);

/*
 * The worker needs the result no more. True: the step was not begun, and is the worker's again;
 * false: its result comes.
 */
bool net_tls_steps_cancel(struct net_tls_steps *steps, struct net_tls_step *step);

/* The oldest result, or null. */
struct net_tls_step *net_tls_results_take(struct net_tls_results *results);

/* Whether there is one. Only for the worker. */
static inline bool net_tls_results_wait(const struct net_tls_results *results)
{
    return results->taken || atomic_load_explicit(&results->pushed, memory_order_relaxed) != NULL;
}

/* Gives the names that were collected to take(). */
void net_tls_step_give_names(const struct net_tls_step *step, tls_name *take, void *ctx);

#endif
