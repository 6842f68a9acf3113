/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of events; see event.h. */
#include "ustack/core/event.h"

#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_rxq.h"

void us_event_queue_init(struct us_event_queue *events)
{
    u_list_init(&events->conns);
    events->others = 0;
    events->released = (struct us_ref *)U_NULL;
    events->released_last = (struct us_ref *)U_NULL;
    events->retired = (struct us_chunk *)U_NULL;
    events->slice_free = US_SLICE_NONE;
    events->slice_touched = 0;
    events->slices_used = 0;
    events->dgram_head = 0;
    events->dgram_tail = 0;
}

void us_event_raise(struct us_stack *stack, struct us_conn *conn, unsigned flags)
{
    conn->ev_flags = (u_u8)(conn->ev_flags | flags);
    us_event_queue_conn(stack, conn);
}

void us_event_append_slice(struct us_event_queue *events, struct us_conn *conn, const u_u8 *data,
                           u_u32 len)
{
    u_u16 index = events->slice_free;

    if (index != US_SLICE_NONE) {
        events->slice_free = events->slices[index].next;
    } else {
        U_ASSERT(events->slice_touched < US_SLICES_MAX);
        index = events->slice_touched++;
    }
    events->slices[index].data = data;
    events->slices[index].len = (u_u16)len;
    events->slices[index].next = US_SLICE_NONE;
    if (conn->slice_next == US_SLICE_NONE)
        conn->slice_next = index;
    else
        events->slices[conn->slice_last].next = index;
    conn->slice_last = index;
}

struct us_datagram_event *us_event_add_datagram(struct us_event_queue *events)
{
    U_ASSERT(us_event_room(events));
    events->slices_used++;
    events->others++;
    return &events->datagrams[events->dgram_tail++ % US_SLICES_MAX];
}

/* Replaces the connection's first slice by the next one. */
static void slice_drop(struct us_stack *stack, struct us_conn *conn)
{
    struct us_event_queue *events = &stack->events;
    u_u16 index = conn->slice_next;

    events->slices_used--;
    conn->slice_len = 0;
    if (index == US_SLICE_NONE)
        return;
    conn->slice_data = events->slices[index].data;
    conn->slice_len = events->slices[index].len;
    conn->slice_next = events->slices[index].next;
    events->slices[index].next = events->slice_free;
    events->slice_free = index;
}

void us_event_drop_slices(struct us_stack *stack, struct us_conn *conn)
{
    while (conn->slice_len != 0)
        slice_drop(stack, conn);
}

void us_event_release(struct us_stack *stack, struct us_ref *ref)
{
    struct us_event_queue *events = &stack->events;

    ref->chunk.next = (struct us_chunk *)U_NULL;
    if (events->released == U_NULL)
        events->released = ref;
    else
        events->released_last->chunk.next = &ref->chunk;
    events->released_last = ref;
    events->others++;
}

void us_event_retire_blocks(struct us_stack *stack)
{
    while (stack->events.retired != U_NULL) {
        struct us_chunk *chunk = stack->events.retired;
        stack->events.retired = chunk->next;
        us_block_put(stack, chunk);
    }
}

void us_event_keep_slices(struct us_stack *stack, struct us_conn *conn)
{
    while (conn->slice_len != 0) {
        if (!us_rxq_keep(stack, &conn->rxq, US_RXQ_HELD, conn->slice_data, conn->slice_len)) {
            us_conn_out_of_memory(stack, conn);
            return;
        }
        slice_drop(stack, conn);
    }
}

U_INLINE void event_fill(struct us_event *event, enum us_event_type type, struct us_conn *conn)
{
    void *user = conn->user;

    event->type = type;
    event->reason = US_CLOSE_NONE;
    event->conn = conn;
    event->user = user;
    event->cookie = U_NULL;
    event->data = (const u_u8 *)U_NULL;
    event->len = 0;
    event->datagram = (const struct us_datagram *)U_NULL;
}

/* Reports the connection's first slice. */
U_INLINE void event_slice(struct us_conn *conn, struct us_event *event)
{
    event_fill(event, US_EV_DATA, conn);
    event->data = conn->slice_data;
    event->len = conn->slice_len;
    conn->rcv_queued -= event->len;
}

/* The slice was reported. */
U_INLINE void event_slice_consumed(struct us_stack *stack, struct us_conn *conn)
{
    if (U_UNLIKELY(!us_tcp_window_above_half(stack, conn)))
        us_tcp_recv_consumed(stack, conn);
}

/* The event of the next bytes of the stream; returns 0 if none are pending. */
static int event_data(struct us_stack *stack, struct us_conn *conn, struct us_event *event)
{
    struct us_chunk *chunk;

    if (conn->rx_flags & US_RX_HELD) {
        us_event_keep_slices(stack, conn);
        return 0;
    }
    if (conn->slice_len != 0) {
        event_slice(conn, event);
        slice_drop(stack, conn);
        event_slice_consumed(stack, conn);
        return 1;
    }
    chunk = us_rxq_take(&conn->rxq);
    if (chunk == U_NULL)
        return 0;
    event_fill(event, US_EV_DATA, conn);
    event->data = chunk->data;
    event->len = chunk->len;
    chunk->next = stack->events.retired;
    stack->events.retired = chunk;
    conn->rcv_queued -= event->len;
    us_tcp_recv_consumed(stack, conn);
    return 1;
}

/* CLOSED. Frees the connection unless a RST is still to be sent. */
static void event_closed(struct us_stack *stack, struct us_conn *conn, struct us_event *event)
{
    event_fill(event, US_EV_CLOSED, conn);
    event->reason = (enum us_close_reason)conn->close_reason;
    conn->ev_flags = 0;
    u_list_remove(&conn->ev_link);
    us_conn_free_if_done(stack, conn);
}

/* The next event of a connection; returns 0 if none is pending. */
static int event_of_conn(struct us_stack *stack, struct us_conn *conn, struct us_event *event)
{
    if (conn->ev_flags & (US_EVF_ACCEPTED | US_EVF_CONNECTED)) {
        event_fill(event, conn->ev_flags & US_EVF_ACCEPTED ? US_EV_ACCEPTED : US_EV_CONNECTED,
                   conn);
        conn->ev_flags = (u_u8)(conn->ev_flags & ~(US_EVF_ACCEPTED | US_EVF_CONNECTED));
        return 1;
    }
    if (event_data(stack, conn, event))
        return 1;
    if ((conn->ev_flags & US_EVF_PEER_CLOSED) && !(conn->rx_flags & US_RX_HELD)) {
        event_fill(event, US_EV_PEER_CLOSED, conn);
        conn->ev_flags = (u_u8)(conn->ev_flags & ~US_EVF_PEER_CLOSED);
        return 1;
    }
    if (conn->ev_flags & US_EVF_SENDABLE) {
        event_fill(event, US_EV_SENDABLE, conn);
        conn->ev_flags = (u_u8)(conn->ev_flags & ~US_EVF_SENDABLE);
        return 1;
    }
    if (conn->ev_flags & US_EVF_CWND) {
        event_fill(event, US_EV_CWND, conn);
        conn->ev_flags = (u_u8)(conn->ev_flags & ~US_EVF_CWND);
        return 1;
    }
    if ((conn->ev_flags & US_EVF_CLOSED) && !(conn->rx_flags & US_RX_HELD)) {
        event_closed(stack, conn, event);
        return 1;
    }
    return 0;
}

/*
 * Whether the only pending event of a connection is one slice. On the fast path no data is held and
 * the receive queue is empty.
 */
U_INLINE int event_is_one_slice(const struct us_conn *conn)
{
    return conn->fast_path != US_FAST_NONE && conn->ev_flags == US_EVF_VISIBLE &&
           conn->slice_len != 0 && conn->slice_next == US_SLICE_NONE;
}

/* RELEASED precedes all other events, so that it precedes CLOSED of its connection. */
static void event_released(struct us_stack *stack, struct us_event *event)
{
    struct us_ref *ref = stack->events.released;

    event_fill(event, US_EV_RELEASED, ref->conn);
    event->cookie = ref->cookie;
    stack->events.released = (struct us_ref *)ref->chunk.next;
    stack->events.others--;
    us_pool_put(&stack->ref_pool, ref);
    us_memory_freed(stack);
}

static void event_datagram(struct us_event_queue *events, struct us_event *event)
{
    const struct us_datagram_event *from = &events->datagrams[events->dgram_head++ % US_SLICES_MAX];

    events->slices_used--;
    events->others--;
    event->type = US_EV_DATAGRAM;
    event->reason = US_CLOSE_NONE;
    event->conn = (struct us_conn *)U_NULL;
    event->user = from->user;
    event->cookie = U_NULL;
    event->data = from->data;
    event->len = from->len;
    event->datagram = &from->info;
}

/* us_next_event() for all kinds of events. */
static U_NOINLINE int next_event_any(struct us_stack *stack, struct us_event *event)
{
    struct us_event_queue *events = &stack->events;

    if (events->released != U_NULL) {
        event_released(stack, event);
        return 1;
    }
    if (events->dgram_head != events->dgram_tail) {
        event_datagram(events, event);
        return 1;
    }
    while (!u_list_is_empty(&events->conns)) {
        struct us_conn *conn = U_CONTAINER_OF(events->conns.next, struct us_conn, ev_link);
        if (event_of_conn(stack, conn, event))
            return 1;
        u_list_remove(&conn->ev_link);
    }
    event->type = US_EV_NONE;
    return 0;
}

int us_next_event(struct us_stack *stack, struct us_event *event)
{
    struct us_event_queue *events = &stack->events;

    if (U_LIKELY(events->others == 0)) {
        struct us_conn *conn = U_CONTAINER_OF(events->conns.next, struct us_conn, ev_link);
        if (u_list_is_empty(&events->conns)) {
            event->type = US_EV_NONE;
            return 0;
        }
        if (U_LIKELY(event_is_one_slice(conn))) {
            u_list_pop_front(&events->conns);
            event_slice(conn, event);
            conn->slice_len = 0;
            events->slices_used--;
            event_slice_consumed(stack, conn);
            return 1;
        }
    }
    return next_event_any(stack, event);
}
