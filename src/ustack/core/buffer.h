/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of byte streams. A chunk is either a block of the buffer pool or a reference to bytes of
 * the application; send and receive queues are lists of chunks in sequence order.
 */
#ifndef USTACK_CORE_BUFFER_H
#define USTACK_CORE_BUFFER_H

#include "base/base.h"
#include "ustack/ustack.h"

struct us_conn;
struct us_stack;

enum { US_BLOCK_BYTES = 2048 };

struct us_chunk {
    struct us_chunk *next;
    const u_u8 *data; /* first byte */
    u_u32 seq;        /* its sequence number */
    u_u32 len;        /* bytes used */
    u_u32 room;       /* bytes that can be appended; 0 for a reference */
    u_u32 is_ref;     /* a struct us_ref, otherwise a struct us_block */
};

struct us_block {
    struct us_chunk chunk;
    u_u8 bytes[US_BLOCK_BYTES - sizeof(struct us_chunk)];
};

enum { US_BLOCK_ROOM = US_BLOCK_BYTES - sizeof(struct us_chunk) };

/* Bytes of the application: in a send queue, then in us_event_queue.released. */
struct us_ref {
    struct us_chunk chunk;
    struct us_conn *conn;
    void *cookie;
};

/* The sequence number after the last byte. */
U_INLINE u_u32 us_chunk_end(const struct us_chunk *chunk)
{
    return chunk->seq + chunk->len;
}

/* Where the next byte of a block is appended. */
U_INLINE u_u8 *us_chunk_tail(struct us_chunk *chunk)
{
    return ((struct us_block *)chunk)->bytes + (US_BLOCK_ROOM - chunk->room);
}

/* The first byte of a block's data, writable. */
U_INLINE u_u8 *us_chunk_first(struct us_chunk *chunk)
{
    return us_chunk_tail(chunk) - chunk->len;
}

/* Empties a block, for data from `seq` on. */
U_INLINE void us_block_reset(struct us_block *block, u_u32 seq)
{
    block->chunk.data = block->bytes;
    block->chunk.seq = seq;
    block->chunk.len = 0;
    block->chunk.room = US_BLOCK_ROOM;
}

/*
 * Purpose of a block. A reserve of the pool guarantees a minimum to every connection, like the
 * first values of Linux' tcp_wmem and tcp_rmem.
 */
enum us_block_use {
    US_BLOCK_MINIMUM,      /* within the minimum of a connection: any free block */
    US_BLOCK_SHARED,       /* beyond the minimum: leaves the reserve */
    US_BLOCK_OUT_OF_ORDER, /* can be dropped: also leaves the last quarter of the shared blocks */
    US_BLOCK_USES
};

/* The minimum: bytes of the send queue, and blocks of the receive queue. */
enum { US_SENDQ_MIN_BYTES = US_SEND_MIN_BYTES, US_RXQ_MIN_BLOCKS = 8 };

/*
 * Blocks of the minimum. In the send queue each but the last is at least half full (us_reserve());
 * the SACK scoreboard takes one.
 */
enum { US_CONN_MIN_BLOCKS = US_SENDQ_MIN_BYTES / (US_BLOCK_ROOM / 2) + 1 + US_RXQ_MIN_BLOCKS + 1 };

U_STATIC_ASSERT(US_CONN_MIN_BLOCKS *US_BLOCK_BYTES <= US_CONN_BUFFER_MIN, minimum_is_as_promised);

/*
 * For us_create(): sets the reserve, US_CONN_MIN_BLOCKS for each of conn_max connections and a
 * block for each of datagram_max datagrams, but at most half of the pool.
 */
void us_memory_init(struct us_stack *stack);

/* Whether us_block_get() would succeed. */
int us_block_is_available(const struct us_stack *stack, enum us_block_use use);

/*
 * Takes an empty block for data from `seq` on. Returns null, and counts it, if no block is free for
 * this use. While few blocks are free, out-of-order data of some connection is dropped first (RFC
 * 2018 section 8).
 */
struct us_chunk *us_block_get(struct us_stack *stack, u_u32 seq, enum us_block_use use);

/* Raises SENDABLE on the connection that has waited longest for a block that is free now. */
void us_memory_wake(struct us_stack *stack);

/* Appends as many bytes to a block as fit; returns their number. */
u_u32 us_chunk_append(struct us_chunk *chunk, const u_u8 *data, u_u32 len);

#endif
