/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue: the bytes from snd_una to snd_end, as blocks with copies of them and references
 * to the application's memory, in order. A frame can be built from any offset, so a retransmission
 * is built anew. Memory is taken only while bytes are unacknowledged.
 */
#ifndef USTACK_TCP_SENDQ_H
#define USTACK_TCP_SENDQ_H

#include "ustack/tcp.h"

/* With fewer free blocks than that none waits empty for what is sent next. */
enum { US_SENDQ_REST_MIN = 128 };

/* Copies as much as the pool allows behind the queue; returns how much. */
u_u32 us_sendq_append(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                      const u_u8 *data, u_u32 len);

/* The block to write `want` bytes into, in one piece, at end_seq; null if the pool is empty. */
struct us_chunk *us_sendq_reserve(struct us_stack *stack, struct us_sendq *queue, u_u32 end_seq,
                                  u_u32 want);

/* The first `used` bytes of what us_sendq_reserve() gave were written. */
void us_sendq_commit(struct us_stack *stack, struct us_sendq *queue, u_u32 used);

/* Appends a reference. */
void us_sendq_append_ref(struct us_sendq *queue, struct us_ref *ref);

/* Drops all bytes before `ack`: blocks are given back, references are released. */
void us_sendq_drop(struct us_stack *stack, struct us_sendq *queue, u_u32 ack);

/*
 * The same where all that the queue holds, nothing behind it included, lies in one block and is
 * acknowledged by the segment that brings a request: the block waits for the response, unless
 * blocks are scarce. us_sendq_unrest() has to follow. There are no references.
 */
U_INLINE void us_sendq_rest(struct us_stack *stack, struct us_sendq *queue, u_u32 ack)
{
    struct us_chunk *chunk = queue->head;

    if (U_UNLIKELY(chunk != queue->tail || us_pool_free(&stack->block_pool) < US_SENDQ_REST_MIN)) {
        us_sendq_drop(stack, queue, ack);
        return;
    }
    us_block_reset((struct us_block *)chunk, ack);
    queue->copied = 0;
}

/* A block that has waited and is still empty is given back. */
void us_sendq_unrest(struct us_stack *stack, struct us_sendq *queue);

/* Drops everything. */
void us_sendq_clear(struct us_stack *stack, struct us_sendq *queue);

/*
 * Copies `len` bytes from `seq` on to `to`; returns `sum` with them added if `with_sum`. The queue
 * holds these bytes.
 */
u_u32 us_sendq_copy(struct us_sendq *queue, u_u32 seq, u_u8 *to, u_u32 len, u_u32 sum,
                    int with_sum);

/*
 * How many of `want` bytes from `seq` on go into one frame: references as segments of their own, of
 * which there may be `segs`, all else copied, for which there are `room` bytes. The queue holds the
 * `want` bytes. For a smaller `want` the answer is the same, or all of it.
 */
u_u32 us_sendq_reach(const struct us_sendq *queue, u_u32 seq, u_u32 want, u_u32 room, u_u32 segs);

/* Where us_sendq_gather() puts things, and what it has come to. */
struct us_gather {
    struct us_pkt *pkt;  /* the frame; segments are linked to it */
    struct us_pkt *segs; /* structs for them */
    u_u8 *to;            /* where copied bytes go */
    u_u32 outside;       /* bytes that are not in the first segment */
};

/* Does what us_sendq_reach() has found possible; the rest is like us_sendq_copy(). */
u_u32 us_sendq_gather(struct us_sendq *queue, u_u32 seq, u_u32 len, struct us_gather *gather,
                      u_u32 sum, int with_sum);

#endif
