/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of the buffer pool; see chunk.h. */
#include "ustack/chunk.h"

#include "ustack/stack.h"
#include "ustack/tcp.h"

struct us_chunk *us_block_get(struct us_stack *stack, u_u32 seq)
{
    struct us_block *block = (struct us_block *)us_pool_get(&stack->block_pool);

    if (U_UNLIKELY(block == U_NULL)) {
        us_count(stack, US_C_POOL_EMPTY_BUFFERS);
        return (struct us_chunk *)U_NULL;
    }
    us_block_reset(block, seq);
    block->chunk.next = (struct us_chunk *)U_NULL;
    block->chunk.is_ref = 0;
    return &block->chunk;
}

void us_memory_wake(struct us_stack *stack)
{
    struct u_list *waiter = u_list_pop_front(&stack->memory_list);

    us_conn_check_sendable(stack, U_CONTAINER_OF(waiter, struct us_conn, memory_link));
}

u_u32 us_chunk_append(struct us_chunk *chunk, const u_u8 *data, u_u32 len)
{
    u_u32 n = u_min32(len, chunk->room);

    if (n == 0)
        return 0;
    u_copy(us_chunk_tail(chunk), data, n);
    chunk->len += n;
    chunk->room -= n;
    return n;
}
