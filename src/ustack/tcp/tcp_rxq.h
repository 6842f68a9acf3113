/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive queue of a connection: two lists of blocks.
 *
 * `head` lists bytes before rcv_nxt that the application has not got, in order: first those it gave
 * back (us_recv_keep()), then slices that had arrived by then, then later data. `ooo` lists out-of-
 * order bytes, with neighbouring pieces merged. It has at most us_rxq_ooo_blocks_max() blocks, so
 * that tiny segments far apart use little memory, while segments of 536 bytes are stored as far as
 * the window reaches. Its bytes may be dropped at any time (reneging, RFC 2018 section 8).
 */
#ifndef USTACK_TCP_TCP_RXQ_H
#define USTACK_TCP_TCP_RXQ_H

#include "ustack/tcp/tcp.h"

enum { US_RXQ_OOO_BLOCKS_MIN = 16 };

/* The blocks that so many out-of-order bytes of one connection may take. */
U_INLINE u_u32 us_rxq_ooo_blocks_max(u_u32 bytes)
{
    return US_RXQ_OOO_BLOCKS_MIN + bytes / (US_BLOCK_ROOM / 4);
}

/* Where us_rxq_keep() inserts: behind the bytes given back, or behind the slices after those. */
enum us_rxq_position { US_RXQ_KEPT, US_RXQ_HELD };

/*
 * Inserts a copy of bytes before later data. Returns 0 if the pool is empty: bytes are missing
 * then, and the connection must be reset.
 */
int us_rxq_keep(struct us_stack *stack, struct us_rxq *queue, enum us_rxq_position place,
                const u_u8 *data, u_u32 len);

/*
 * Appends in-order bytes that begin at `seq`, within block_max blocks. Returns how many were taken.
 */
u_u32 us_rxq_append(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                    u_u32 len, u_u32 block_max);

/*
 * Stores out-of-order bytes, all behind rcv_nxt, within block_max blocks and the bound above; bytes
 * stored already stay. Returns 1 if all are stored now, 0 if some were dropped.
 */
int us_rxq_store(struct us_stack *stack, struct us_rxq *queue, u_u32 seq, const u_u8 *data,
                 u_u32 len, u_u32 block_max);

/*
 * In-order data reaches rcv_nxt: moves bytes that are contiguous now to the in-order list. Returns
 * the new rcv_nxt.
 */
u_u32 us_rxq_advance(struct us_stack *stack, struct us_rxq *queue, u_u32 rcv_nxt);

/* Takes the first in-order block, which the caller frees. Null if there is none. */
struct us_chunk *us_rxq_take(struct us_rxq *queue);

/* Frees the out-of-order blocks. */
void us_rxq_clear_ooo(struct us_stack *stack, struct us_rxq *queue);

/* Frees all blocks. */
void us_rxq_clear(struct us_stack *stack, struct us_rxq *queue);

/* The bytes start..end are duplicates: the next us_rxq_sack() reports them (D-SACK, RFC 2883). */
void us_rxq_note_duplicate(struct us_rxq *queue, u_u32 start, u_u32 end);

/* The D-SACK of the last us_rxq_sack() was sent. */
void us_rxq_forget_duplicate(struct us_rxq *queue);

U_INLINE int us_rxq_has_sack(const struct us_rxq *queue)
{
    return queue->ooo != U_NULL || queue->dup_start != queue->dup_end;
}

/*
 * Fills in at most `max` SACK blocks and returns how many: first the D-SACK (RFC 2883 section 4),
 * then stored ranges, most recent first (RFC 2018 section 4).
 */
unsigned us_rxq_sack(const struct us_rxq *queue, struct us_tcp_sack *blocks, unsigned max);

#endif
