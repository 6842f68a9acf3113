/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of events for the application.
 *
 * Connections with pending events form a list in order of arrival. The pending events of a
 * connection are bits (ev_flags), slices of received packets (the first in the connection, others
 * in a fixed array) and its receive queue; us_next_event() makes events of them in the order of the
 * protocol. Only slices are bounded: us_input() stops when all are used. A connection's events are
 * taken together, while its memory is cached. Datagrams have a ring; each counts as a slice.
 *
 * A block that an event points to is freed by the next us_input().
 */
#ifndef USTACK_CORE_EVENT_H
#define USTACK_CORE_EVENT_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/ustack.h"

struct us_chunk;
struct us_conn;
struct us_ref;
struct us_stack;

enum { US_SLICES_MAX = 512, US_SLICE_NONE = 0xffff };

/* Bits of us_conn.ev_flags. */
enum {
    US_EVF_ACCEPTED = 1 << 0,
    US_EVF_CONNECTED = 1 << 1,
    US_EVF_PEER_CLOSED = 1 << 2,
    US_EVF_SENDABLE = 1 << 3,
    US_EVF_CLOSED = 1 << 4,
    US_EVF_CWND = 1 << 6,
    US_EVF_VISIBLE =
        1 << 5 /* an event has given, or will give, the connection to the application */
};

/* In-order bytes of a packet, pending; behind us_conn.slice_data. */
struct us_slice {
    const u_u8 *data;
    u_u16 len;
    u_u16 next; /* index of the next one of the connection, or of the free list */
};

/* A datagram whose event is pending, or was taken and points here. */
struct us_datagram_event {
    struct us_datagram info;
    void *user;
    const u_u8 *data;
    u_u32 len;
};

struct us_event_queue {
    struct u_list conns;     /* with pending events */
    u_u32 others;            /* pending events of references and datagrams; these come first */
    struct us_ref *released; /* references with a pending RELEASED, oldest first */
    struct us_ref *released_last;
    struct us_chunk *retired; /* blocks that taken events point to */
    u_u16 slice_free;         /* list of free slices below slice_touched */
    u_u16 slice_touched;
    u_u16 slices_used; /* slices and datagrams */
    u_u32 dgram_head;  /* datagrams taken, in total */
    u_u32 dgram_tail;  /* datagrams added, in total */
    struct us_slice slices[US_SLICES_MAX];
    struct us_datagram_event datagrams[US_SLICES_MAX]; /* a ring */
};

void us_event_queue_init(struct us_event_queue *events);

/* Sets bits of ev_flags and queues the connection. */
void us_event_raise(struct us_stack *stack, struct us_conn *conn, unsigned flags);

/* Adds a slice behind the other slices of the connection. */
void us_event_append_slice(struct us_event_queue *events, struct us_conn *conn, const u_u8 *data,
                           u_u32 len);

/* Adds a datagram, which the caller fills in. us_event_room() is not 0. */
struct us_datagram_event *us_event_add_datagram(struct us_event_queue *events);

/*
 * Moves the slices of a connection whose data is held (us_recv_keep()) into its receive queue,
 * behind the kept bytes. Aborts the connection if the buffers are exhausted.
 */
void us_event_keep_slices(struct us_stack *stack, struct us_conn *conn);

/* Drops the pending slices of a connection. */
void us_event_drop_slices(struct us_stack *stack, struct us_conn *conn);

/* Adds a RELEASED event for a reference. */
void us_event_release(struct us_stack *stack, struct us_ref *ref);

/* Frees the blocks that taken events point to. */
void us_event_retire_blocks(struct us_stack *stack);

/* Number of packets whose events still fit. */
U_INLINE u_u32 us_event_room(const struct us_event_queue *events)
{
    return (u_u32)US_SLICES_MAX - events->slices_used;
}

#endif
