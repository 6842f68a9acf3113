/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events on their way to the application.
 *
 * Connections with something to tell form a list in order of arrival. What each has to tell is a
 * set of bits in the connection, slices of received packets (the first in the connection, more in a
 * fixed array: us_input() stops when there are as many) and the connection's receive queue;
 * us_next_event() turns that into events in the order of the protocol. So nothing but slices can
 * run out, and a connection's events come together, while its memory is warm. Datagrams have no
 * connection: they wait in a ring of their own, and each counts as a slice.
 *
 * Blocks whose bytes an event points to are kept until the next us_input() after that.
 */
#ifndef USTACK_EVENT_H
#define USTACK_EVENT_H

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
    US_EVF_VISIBLE = 1 << 5 /* the application knows of the connection, or will */
};

/* In-order bytes of a packet that were not handed to the application yet, behind others. */
struct us_slice {
    const u_u8 *data;
    u_u16 len;
    u_u16 next; /* index of the next one of the connection, or of the free list */
};

/* A datagram that was not handed to the application yet, or whose event points here. */
struct us_datagram_event {
    struct us_datagram info;
    void *user;
    const u_u8 *data;
    u_u32 len;
};

struct us_event_queue {
    struct u_list conns; /* with something to tell */
    u_u32 others;        /* references and datagrams that are to be told of: before connections */
    struct us_ref *released; /* references whose release is to be told, oldest first */
    struct us_ref *released_last;
    struct us_chunk *retired; /* blocks that events already taken point to */
    u_u16 slice_free;         /* list of free slices below slice_touched */
    u_u16 slice_touched;
    u_u16 slices_used; /* slices and datagrams */
    u_u32 dgram_head;  /* counts the datagrams taken */
    u_u32 dgram_tail;  /* counts those added */
    struct us_slice slices[US_SLICES_MAX];
    struct us_datagram_event datagrams[US_SLICES_MAX]; /* a ring */
};

void us_event_queue_init(struct us_event_queue *events);

/* Sets bits of the connection's ev_flags and queues it. */
void us_event_raise(struct us_stack *stack, struct us_conn *conn, unsigned flags);

/* Adds a slice behind those that the connection has. */
void us_event_append_slice(struct us_event_queue *events, struct us_conn *conn, const u_u8 *data,
                           u_u32 len);

/* Adds a datagram, which the caller fills in. There is room for it, as for a slice. */
struct us_datagram_event *us_event_add_datagram(struct us_event_queue *events);

/*
 * Moves the slices of a connection that the application holds back into its receive queue, behind
 * what was kept. If memory runs out the connection is aborted.
 */
void us_event_keep_slices(struct us_stack *stack, struct us_conn *conn);

/* Forgets the slices that a connection has not told of. */
void us_event_drop_slices(struct us_stack *stack, struct us_conn *conn);

/* A reference's bytes are no longer needed: RELEASED will be told. */
void us_event_release(struct us_stack *stack, struct us_ref *ref);

/* Gives back the blocks that taken events pointed to. */
void us_event_retire_blocks(struct us_stack *stack);

/* For how many more packets there is room for their events. */
U_INLINE u_u32 us_event_room(const struct us_event_queue *events)
{
    return (u_u32)US_SLICES_MAX - events->slices_used;
}

#endif
