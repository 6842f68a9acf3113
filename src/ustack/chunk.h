/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of byte streams: blocks of the buffer pool with bytes in them, and references to bytes of
 * the application. Send queues and receive queues are lists of them in sequence order.
 */
#ifndef USTACK_CHUNK_H
#define USTACK_CHUNK_H

#include "base/base.h"

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

/* Bytes of the application that are in a send queue, later in the list of what was released. */
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

/* Where the next byte is to be appended to a block. */
U_INLINE u_u8 *us_chunk_tail(struct us_chunk *chunk)
{
    return ((struct us_block *)chunk)->bytes + (US_BLOCK_ROOM - chunk->room);
}

/* The first byte of a block's data, to be changed. */
U_INLINE u_u8 *us_chunk_first(struct us_chunk *chunk)
{
    return us_chunk_tail(chunk) - chunk->len;
}

/* Makes a block an empty one for data from `seq` on. */
U_INLINE void us_block_reset(struct us_block *block, u_u32 seq)
{
    block->chunk.data = block->bytes;
    block->chunk.seq = seq;
    block->chunk.len = 0;
    block->chunk.room = US_BLOCK_ROOM;
}

/* Takes an empty block for data from `seq` on; null, and counted, if the pool is empty. */
struct us_chunk *us_block_get(struct us_stack *stack, u_u32 seq);

/* Tells the connection that has waited for memory longest. There is one. */
void us_memory_wake(struct us_stack *stack);

/* Copies as much as fits behind the bytes of a block; returns how much. */
u_u32 us_chunk_append(struct us_chunk *chunk, const u_u8 *data, u_u32 len);

#endif
