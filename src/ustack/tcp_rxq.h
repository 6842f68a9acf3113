/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive queue of a connection: two lists of blocks.
 *
 * `head` lists bytes before rcv_nxt that were not handed to the application, in order: first what
 * it kept (us_recv_keep()), then what slices held when the connection was already held, then what
 * arrived later. `ooo` lists bytes behind a gap. Neighbouring pieces are merged, so an attack with
 * single bytes holds no more blocks than the window has room for.
 */
#ifndef USTACK_TCP_RXQ_H
#define USTACK_TCP_RXQ_H

#include "ustack/tcp.h"

/* Where in the queue bytes that precede what is queued belong. */
enum us_rxq_place { US_RXQ_KEPT, US_RXQ_HELD };

/*
 * Copies bytes in front of what arrived later. Returns 0 if the pool is empty: bytes are missing
 * then, so the connection can't go on.
 */
int us_rxq_keep(struct us_stack *stack, struct us_rxq *queue, enum us_rxq_place place,
                const u_u8 *data, u_u32 len);

/*
 * Appends in-order bytes that begin at `seq`, within block_max blocks. Returns how many were taken.
 */
u_u32 us_rxq_append(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                    u_u32 len, u_u32 block_max);

/*
 * Stores out-of-order bytes, all behind rcv_nxt, within block_max blocks; what is stored already
 * stays as it is. Returns 1 if all of it is there now, 0 if some had to be dropped.
 */
int us_rxq_store(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                 u_u32 len, u_u32 block_max);

/*
 * In-order data reaches up to rcv_nxt: moves what is no longer behind a gap to the in-order list.
 * Returns the new rcv_nxt.
 */
u_u32 us_rxq_advance(struct us_stack *stack, struct us_rxq *queue, u_u32 rcv_nxt);

/* Takes the first in-order block; the caller gives it back. Null if there is none. */
struct us_chunk *us_rxq_take(struct us_rxq *queue);

/* Gives the blocks behind gaps back. */
void us_rxq_clear_ooo(struct us_stack *stack, struct us_rxq *queue);

/* Gives all blocks back. */
void us_rxq_clear(struct us_stack *stack, struct us_rxq *queue);

/* The bytes start..end have come for a second time: the next us_rxq_sack() tells (RFC 2883). */
void us_rxq_note_duplicate(struct us_rxq *queue, u_u32 start, u_u32 end);

/* What the last us_rxq_sack() told of duplicates was sent. */
void us_rxq_forget_duplicate(struct us_rxq *queue);

U_INLINE int us_rxq_has_sack(const struct us_rxq *queue)
{
    return queue->ooo != U_NULL || queue->dup_start != queue->dup_end;
}

/*
 * Fills in at most `max` SACK blocks and returns how many: first duplicates (RFC 2883 section 4),
 * then what is stored, most recent first (RFC 2018 section 4).
 */
unsigned us_rxq_sack(const struct us_rxq *queue, struct us_tcp_sack *blocks, unsigned max);

#endif
