/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an application reaches the TCP/IP stack of its worker: in the same thread each call is the
 * stack's own; with --threading=split and merge (worker->split is set) it goes through the rings of
 * split.h, and a struct us_conn pointer is only the name of a connection's struct net_split_link,
 * which must not be passed to the stack.
 *
 * `worker` is the application side of the worker in all calls. Connections given as `us` have not
 * reported US_EV_CLOSED.
 */
#ifndef NET_PORT_H
#define NET_PORT_H

#include "net/split.h"
#include "net/stack_worker.h"

/* Takes the next event, see us_next_event(). `user` is the value of net_port_set_user(). */
static inline bool net_port_next_event(struct net_stack_worker *worker, struct us_event *ev)
{
    if (U_UNLIKELY(worker->split != NULL))
        return net_split_next_event(worker, ev);
    return us_next_event(worker->stack, ev) != 0;
}

/*
 * Frees the memory that the events taken so far point to, and passes what was queued to the stack's
 * thread. Called after each batch of events and once per turn.
 */
static inline void net_port_flush(struct net_stack_worker *worker)
{
    if (U_UNLIKELY(worker->split != NULL))
        net_split_flush(worker);
}

static inline void net_port_set_user(struct net_stack_worker *worker, struct us_conn *us,
                                     void *user)
{
    if (worker->split)
        net_split_link_of(us)->user = user;
    else
        us_conn_set_user(us, user);
}

static inline void *net_port_user(const struct net_stack_worker *worker, struct us_conn *us)
{
    return worker->split ? net_split_link_of(us)->user : us_conn_user(us);
}

/* Fills *info. With two threads only addresses and ports are set. */
static inline void net_port_info(const struct net_stack_worker *worker, struct us_conn *us,
                                 struct us_conn_info *info)
{
    if (worker->split)
        *info = net_split_link_of(us)->info;
    else
        us_conn_get_info(worker->stack, us, info);
}

/* Bytes in use of worker->buffer_bytes. */
static inline uint64_t net_port_buffer_used(const struct net_stack_worker *worker)
{
    if (U_UNLIKELY(worker->split != NULL))
        return atomic_load_explicit(&worker->split->buffer_used, memory_order_relaxed);
    return us_counter(worker->stack, worker->buffer_used_index);
}

/*
 * Bytes that net_port_recv_keep() may keep beyond the minimum of a connection. With two threads
 * kept input is not in the stack's pool; its bound is what connections share there.
 */
static inline uint64_t net_port_keep_free(const struct net_stack_worker *worker)
{
    if (worker->split)
        return net_stack_pool_free(worker->split->stack, worker->split->kept_bytes);
    return net_stack_pool_free(worker, net_port_buffer_used(worker));
}

/* Whether the ring to the stack is so full that all connections have to stop sending. */
static inline bool net_port_is_congested(const struct net_stack_worker *worker)
{
    return worker->split && net_split_is_congested(worker->split);
}

/*
 * Bytes queued and not acknowledged. With two threads this is an upper bound, which is corrected
 * when half of the bytes are acknowledged; `watch` requests the correction.
 */
static inline uint32_t net_port_queued(const struct net_stack_worker *worker, struct us_conn *us,
                                       bool watch)
{
    if (U_UNLIKELY(worker->split != NULL))
        return net_split_queued(worker->split, net_split_link_of(us), watch);
    return us_send_queued(us);
}

/* As us_reserve(): room for at least `want` bytes, or null. net_port_commit() follows. */
static inline uint8_t *net_port_reserve(struct net_stack_worker *worker, struct us_conn *us,
                                        uint32_t want, u_u32 *room)
{
    if (worker->split)
        return net_split_reserve(worker->split, net_split_link_of(us), want, room);
    return us_reserve(worker->stack, us, want, 0, room);
}

static inline void net_port_commit(struct net_stack_worker *worker, struct us_conn *us,
                                   uint32_t used)
{
    if (worker->split)
        net_split_commit(worker->split, net_split_link_of(us), used);
    else
        us_commit(worker->stack, us, used);
}

/* Queues a copy of a beginning of data. Returns its length; 0: there is no room. */
static inline uint32_t net_port_send(struct net_stack_worker *worker, struct us_conn *us,
                                     const void *data, uint32_t len)
{
    long sent;

    if (worker->split)
        return net_split_send(worker->split, net_split_link_of(us), data, len);
    sent = us_send(worker->stack, us, data, len);
    return sent > 0 ? (uint32_t)sent : 0;
}

/*
 * Queues bytes that stay where they are until RELEASED comes with this cookie. Where the stack has
 * no room for one more reference they are copied. Returns 1 if RELEASED will come, 0 if they were
 * copied, -1 if nothing was queued.
 */
static inline int net_port_send_ref(struct net_stack_worker *worker, struct us_conn *us,
                                    const void *data, uint32_t len, void *cookie)
{
    struct us_stack *stack = worker->stack;

    if (worker->split)
        return net_split_send_ref(worker->split, net_split_link_of(us), data, len, cookie);
    if (us_send_ref(stack, us, data, len, cookie) == US_OK)
        return 1;
    return us_send_room(stack, us) >= len && us_send(stack, us, data, len) == (long)len ? 0 : -1;
}

/*
 * Returns the cookie of a RELEASED event to the application, once no unsent frame shows its bytes.
 */
static inline void net_port_release(struct net_stack_worker *worker, void *cookie)
{
    if (worker->split)
        worker->app->release(worker, cookie); /* the stack side has waited for the frames */
    else
        net_stack_release(worker, cookie);
}

/* Gives back the end of a DATA event; see us_recv_keep(). Returns US_OK or US_ERR_NO_MEMORY. */
static inline int net_port_recv_keep(struct net_stack_worker *worker, struct us_conn *us,
                                     const uint8_t *data, uint32_t len)
{
    if (worker->split)
        return net_split_recv_keep(worker->split, net_split_link_of(us), data, len);
    return us_recv_keep(worker->stack, us, data, len);
}

static inline void net_port_recv_resume(struct net_stack_worker *worker, struct us_conn *us)
{
    if (worker->split)
        net_split_recv_resume(worker->split, net_split_link_of(us));
    else
        us_recv_resume(worker->stack, us);
}

static inline void net_port_close(struct net_stack_worker *worker, struct us_conn *us)
{
    if (worker->split)
        net_split_post(worker->split, net_split_link_of(us), NET_SPLIT_PENDING_CLOSE);
    else
        us_close(worker->stack, us);
}

static inline void net_port_abort(struct net_stack_worker *worker, struct us_conn *us)
{
    if (worker->split)
        net_split_post(worker->split, net_split_link_of(us), NET_SPLIT_PENDING_ABORT);
    else
        us_abort(worker->stack, us);
}

/* Queues a datagram in answer to `request`; what the stack does not take is lost, and counted. */
static inline void net_port_send_datagram(struct net_stack_worker *worker,
                                          const struct us_datagram *request, const void *data,
                                          uint32_t len)
{
    if (!worker->split)
        net_stack_send_datagram(worker, request, data, len);
    else if (!net_split_send_datagram(worker->split, request, data, len))
        net_stack_count(worker, NET_STACK_UDP_UNSENT, 1);
}

#endif
