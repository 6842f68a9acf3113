/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port of a worker's sessions, where the TCP/IP stack is in the same thread: each call is the
 * stack's own.
 *
 * stack_conn.c does all that it wants of a connection through these functions, so that the same
 * file serves sessions that have the stack on another thread (port_rings.h, chosen when
 * split_conn.c compiles it). Which of the two is no question of the running program.
 */
#ifndef NET_PORT_DIRECT_H
#define NET_PORT_DIRECT_H

#include "net/stack_worker.h"

/* The next event, see us_next_event(). `user` is what net_port_set_user() has set. */
static inline bool net_port_event(struct net_stack_worker *worker, struct us_event *ev)
{
    return us_next_event(worker->stack, ev) != 0;
}

/* All events that were taken have been dealt with: what they point to is not needed any more. */
static inline void net_port_events_done(struct net_stack_worker *worker)
{
}

static inline void net_port_set_user(struct us_conn *us, void *user)
{
    us_conn_set_user(us, user);
}

static inline void *net_port_user(const struct us_conn *us)
{
    return us_conn_user(us);
}

static inline void net_port_info(struct net_stack_worker *worker, const struct us_conn *us,
                                 struct us_conn_info *info)
{
    us_conn_info(worker->stack, us, info);
}

/* Bytes in use of worker->buffer_bytes. */
static inline uint64_t net_port_buffer_used(const struct net_stack_worker *worker)
{
    return us_counter(worker->stack, worker->buffer_used_index);
}

/* Whether all sessions have to stop for a moment, however little is queued for their clients. */
static inline bool net_port_is_congested(const struct net_stack_worker *worker)
{
    return false;
}

/* See us_send_queued(). */
static inline uint32_t net_port_queued(const struct us_conn *us)
{
    return us_send_queued(us);
}

/* The same, asked by one who waits for it to become less. */
static inline uint32_t net_port_queued_watched(struct net_stack_worker *worker, struct us_conn *us)
{
    return us_send_queued(us);
}

static inline uint8_t *net_port_reserve(struct net_stack_worker *worker, struct us_conn *us,
                                        uint32_t want, u_u32 *room)
{
    return us_reserve(worker->stack, us, want, room);
}

/* The same, but null unless nothing is queued. */
static inline uint8_t *net_port_reserve_first(struct net_stack_worker *worker, struct us_conn *us,
                                              uint32_t want, u_u32 *room)
{
    return us_reserve_first(worker->stack, us, want, room);
}

static inline void net_port_commit(struct net_stack_worker *worker, struct us_conn *us,
                                   uint32_t used)
{
    us_commit(worker->stack, us, used);
}

/* Queues all of a short text, or as much as there is room for. */
static inline void net_port_send(struct net_stack_worker *worker, struct us_conn *us,
                                 const void *data, uint32_t len)
{
    us_send(worker->stack, us, data, len);
}

/*
 * Queues bytes that stay where they are until RELEASED comes. Where the stack has no room for one
 * more reference they are copied. Returns 1 if RELEASED will come, 0 if they were copied, else -1.
 */
static inline int net_port_send_ref(struct net_stack_worker *worker, struct us_conn *us,
                                    const void *data, uint32_t len, void *cookie)
{
    struct us_stack *stack = worker->stack;

    if (us_send_ref(stack, us, data, len, cookie) == US_OK)
        return 1;
    return us_send_room(stack, us) >= len && us_send(stack, us, data, len) == (long)len ? 0 : -1;
}

/* The cookie of a RELEASED event goes back to the cache. */
static inline void net_port_release(struct net_stack_worker *worker, void *cookie)
{
    net_stack_release(worker, cookie);
}

static inline int net_port_recv_keep(struct net_stack_worker *worker, struct us_conn *us,
                                     const uint8_t *data, uint32_t len)
{
    return us_recv_keep(worker->stack, us, data, len);
}

static inline void net_port_recv_resume(struct net_stack_worker *worker, struct us_conn *us)
{
    us_recv_resume(worker->stack, us);
}

static inline void net_port_close(struct net_stack_worker *worker, struct us_conn *us)
{
    us_close(worker->stack, us);
}

static inline void net_port_abort(struct net_stack_worker *worker, struct us_conn *us)
{
    us_abort(worker->stack, us);
}

#endif
