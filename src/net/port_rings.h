/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port of sessions that have the TCP/IP stack on another thread: what port_direct.h asks of
 * the stack is here written into a pipe, or known from what has come by the other one (split.h).
 *
 * A struct us_conn pointer is only a name on this side: it is the connection's struct net_link,
 * and the stack's own connection is never touched.
 */
#ifndef NET_PORT_RINGS_H
#define NET_PORT_RINGS_H

#include "net/split.h"

/* ---- split_sessions.c -------------------------------------------------------------------- */

/* Each does what its namesake of port_direct.h says. */
bool net_split_next_event(struct net_stack_worker *worker, struct us_event *ev);
void net_split_events_done(struct net_stack_worker *worker);
bool net_split_is_congested(struct net_split *split);
uint8_t *net_split_reserve(struct net_split *split, struct net_link *link, uint32_t want,
                           u_u32 *room);
void net_split_commit(struct net_split *split, struct net_link *link, uint32_t used);
int net_split_send_ref(struct net_split *split, struct net_link *link, const void *data,
                       uint32_t len, void *cookie);
int net_split_recv_keep(struct net_split *split, struct net_link *link, const uint8_t *data,
                        uint32_t len);
void net_split_recv_resume(struct net_split *split, struct net_link *link);

/* Remembers what is to be said of a link; see enum net_split_todo. */
void net_split_say(struct net_split *split, struct net_link *link, uint32_t todo);

/* ---- split_conn.c ------------------------------------------------------------------------ */

/* As net_stack_events() and so on. */
unsigned net_split_events(struct net_stack_worker *worker);
void net_split_unblock(struct net_stack_worker *worker);
void net_split_eager(struct net_stack_worker *worker);
void net_split_seat(struct net_stack_worker *worker);
void net_split_idle(struct net_stack_worker *worker);
void net_split_conn_finish(struct net_stack_worker *worker, struct net_stack_conn *conn);
void net_split_conn_abort(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* ---- the port ---------------------------------------------------------------------------- */

static inline struct net_link *net_link_of(struct us_conn *us)
{
    return (struct net_link *)us;
}

static inline bool net_port_event(struct net_stack_worker *worker, struct us_event *ev)
{
    return net_split_next_event(worker, ev);
}

static inline void net_port_events_done(struct net_stack_worker *worker)
{
    net_split_events_done(worker);
}

static inline void net_port_set_user(struct us_conn *us, void *user)
{
    net_link_of(us)->user = user;
}

static inline void *net_port_user(struct us_conn *us)
{
    return net_link_of(us)->user;
}

/* Addresses and ports, which do not change. */
static inline void net_port_info(struct net_stack_worker *worker, struct us_conn *us,
                                 struct us_conn_info *info)
{
    *info = net_link_of(us)->info;
}

static inline uint64_t net_port_buffer_used(const struct net_stack_worker *worker)
{
    const struct net_split *split = worker->split;

    return atomic_load_explicit(&split->buffer_used, memory_order_relaxed) + split->kept_bytes;
}

static inline bool net_port_is_congested(const struct net_stack_worker *worker)
{
    return net_split_is_congested(worker->split);
}

/* At least what is queued: acknowledgments are told of late. */
static inline uint32_t net_port_queued(struct us_conn *us)
{
    return net_link_of(us)->queued;
}

static inline uint32_t net_port_queued_watched(struct net_stack_worker *worker, struct us_conn *us)
{
    struct net_link *link = net_link_of(us);

    if (link->queued > 0 && !link->watching)
        net_split_say(worker->split, link, NET_SPLIT_TODO_WATCH);
    return link->queued;
}

static inline uint8_t *net_port_reserve(struct net_stack_worker *worker, struct us_conn *us,
                                        uint32_t want, u_u32 *room)
{
    return net_split_reserve(worker->split, net_link_of(us), want, room);
}

static inline uint8_t *net_port_reserve_first(struct net_stack_worker *worker, struct us_conn *us,
                                              uint32_t want, u_u32 *room)
{
    return net_port_queued(us) > 0 ? NULL : net_port_reserve(worker, us, want, room);
}

static inline void net_port_commit(struct net_stack_worker *worker, struct us_conn *us,
                                   uint32_t used)
{
    net_split_commit(worker->split, net_link_of(us), used);
}

static inline void net_port_send(struct net_stack_worker *worker, struct us_conn *us,
                                 const void *data, uint32_t len)
{
    u_u32 room;
    uint8_t *to = net_port_reserve(worker, us, len, &room);

    if (!to)
        return;
    memcpy(to, data, len);
    net_port_commit(worker, us, len);
}

static inline int net_port_send_ref(struct net_stack_worker *worker, struct us_conn *us,
                                    const void *data, uint32_t len, void *cookie)
{
    return net_split_send_ref(worker->split, net_link_of(us), data, len, cookie);
}

/* Frames that may still show the bytes are the stack half's concern: it says RELEASED after them.
 */
static inline void net_port_release(struct net_stack_worker *worker, void *cookie)
{
    if (cookie)
        cache_release(worker->cache_worker, cookie);
}

static inline int net_port_recv_keep(struct net_stack_worker *worker, struct us_conn *us,
                                     const uint8_t *data, uint32_t len)
{
    return net_split_recv_keep(worker->split, net_link_of(us), data, len);
}

static inline void net_port_recv_resume(struct net_stack_worker *worker, struct us_conn *us)
{
    net_split_recv_resume(worker->split, net_link_of(us));
}

static inline void net_port_close(struct net_stack_worker *worker, struct us_conn *us)
{
    net_split_say(worker->split, net_link_of(us), NET_SPLIT_TODO_CLOSE);
}

static inline void net_port_abort(struct net_stack_worker *worker, struct us_conn *us)
{
    net_split_say(worker->split, net_link_of(us), NET_SPLIT_TODO_ABORT);
}

#endif
