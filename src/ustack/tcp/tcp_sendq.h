/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue: the bytes from snd_una to snd_end, as blocks of copied bytes and references to
 * memory of the application, in order. A segment can be built from any offset, so a retransmission
 * is built from the queue. Memory is used only while bytes are unacknowledged.
 */
#ifndef USTACK_TCP_TCP_SENDQ_H
#define USTACK_TCP_TCP_SENDQ_H

#include "ustack/tcp/tcp.h"

/* With fewer free blocks in the pool no block is parked. */
enum { US_SENDQ_PARK_FREE_MIN = 128 };

/* The class of the next block of the queue. A reference counts as a block: one may follow it. */
U_INLINE enum us_block_use us_sendq_block_use(const struct us_sendq *queue)
{
    return queue->copied + queue->refs * US_BLOCK_ROOM < US_SENDQ_MIN_BYTES ? US_BLOCK_MINIMUM
                                                                            : US_BLOCK_SHARED;
}

/* Appends a copy of as many bytes as the pool allows; returns how many. */
u_u32 us_sendq_append(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                      const u_u8 *data, u_u32 len);

/* The block to write `want` contiguous bytes into, at end_seq; null if the pool is empty. */
struct us_chunk *us_sendq_reserve(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                                  u_u32 want);

/* Appends the first `used` bytes written to the block of us_sendq_reserve(). */
void us_sendq_commit(struct us_stack *stack, struct us_sendq *queue, u_u32 used);

/* Appends a reference. */
void us_sendq_append_ref(struct us_sendq *queue, struct us_ref *ref);

/* Drops all bytes before `ack`: blocks are given back, references are released. */
void us_sendq_drop(struct us_stack *stack, struct us_sendq *queue, u_u32 ack);

/*
 * us_sendq_drop() for an acknowledgment of all bytes by a segment that brings a request: keeps the
 * block, empty, for the response, unless blocks are scarce. us_sendq_unpark_block() has to follow.
 * The queue holds no references.
 */
U_INLINE void us_sendq_park_block(struct us_stack *stack, struct us_sendq *queue, u_u32 ack)
{
    struct us_chunk *chunk = queue->head;

    if (U_UNLIKELY(chunk != queue->tail ||
                   us_pool_free(&stack->block_pool) < US_SENDQ_PARK_FREE_MIN)) {
        us_sendq_drop(stack, queue, ack);
        return;
    }
    us_block_reset((struct us_block *)chunk, ack);
    queue->copied = 0;
}

/* Frees the parked block if it is still empty. */
void us_sendq_unpark_block(struct us_stack *stack, struct us_sendq *queue);

/* Drops everything. */
void us_sendq_clear(struct us_stack *stack, struct us_sendq *queue);

/*
 * Copies `len` bytes from `seq` on to `to`; returns `sum`, with them added if with_sum. The queue
 * holds these bytes.
 */
u_u32 us_sendq_copy(struct us_sendq *queue, u_u32 seq, u_u8 *to, u_u32 len, u_u32 sum,
                    int with_sum);

/*
 * How many of `want` bytes from `seq` on fit into one frame: references as segments of their own,
 * at most `segs`; all else copied into `room` bytes. The queue holds the `want` bytes. For a
 * smaller `want` the result is the same, or all of it.
 */
u_u32 us_sendq_fit(const struct us_sendq *queue, u_u32 seq, u_u32 want, u_u32 room, u_u32 segs);

/* State of us_sendq_gather(). */
struct us_gather {
    struct us_pkt *pkt;  /* the frame; segments are linked to it */
    struct us_pkt *segs; /* structs for them */
    u_u8 *to;            /* where the next copied bytes are written */
    u_u32 outside;       /* bytes that are not in the first segment */
};

/* Fills the frame as us_sendq_fit() has computed; sum and with_sum as for us_sendq_copy(). */
u_u32 us_sendq_gather(struct us_sendq *queue, u_u32 seq, u_u32 len, struct us_gather *gather,
                      u_u32 sum, int with_sum);

#endif
