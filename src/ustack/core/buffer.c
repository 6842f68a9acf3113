/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffer pool; see buffer.h. */
#include "ustack/core/buffer.h"

#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_rxq.h"

/* Connections that one memory_prune() examines. */
enum { PRUNE_CONNS_MAX = 16 };

void us_memory_init(struct us_stack *stack)
{
    u_u32 items = stack->block_pool.items;
    u_u32 conns_max = (items / 2) / US_CONN_MIN_BLOCKS;
    u_u32 reserve = items / 2;

    if (stack->config.conn_max <= conns_max)
        reserve = u_min32(reserve,
                          stack->config.conn_max * US_CONN_MIN_BLOCKS + stack->config.datagram_max);
    stack->block_floor[US_BLOCK_MINIMUM] = 0;
    stack->block_floor[US_BLOCK_SHARED] = reserve;
    stack->block_floor[US_BLOCK_OUT_OF_ORDER] = reserve + (items - reserve) / 4;
    stack->prune_floor = reserve + (items - reserve) / 8;
}

unsigned long us_buffer_reserve(const struct us_stack *stack)
{
    return (unsigned long)stack->block_floor[US_BLOCK_SHARED] * US_BLOCK_BYTES;
}

int us_block_is_available(const struct us_stack *stack, enum us_block_use use)
{
    return us_pool_free(&stack->block_pool) > stack->block_floor[use];
}

/* Drops the out-of-order data of the next connection that has any; its peer retransmits it. */
static void memory_prune(struct us_stack *stack)
{
    unsigned n;

    for (n = 0; n < PRUNE_CONNS_MAX; n++) {
        struct us_conn *conn;

        if (stack->prune_next >= stack->conn_pool.touched)
            stack->prune_next = 0;
        if (stack->conn_pool.touched == 0)
            return;
        conn = (struct us_conn *)(void *)(stack->conn_pool.base + (unsigned long)stack->prune_next *
                                                                      stack->conn_pool.item_bytes);
        stack->prune_next++;
        if (conn->rxq.ooo == U_NULL)
            continue;
        us_count(stack, US_C_TCP_OOO_PRUNED);
        us_rxq_clear_ooo(stack, &conn->rxq);
        return;
    }
}

/* us_block_get() while few blocks are free. */
static U_NOINLINE struct us_block *block_get_low(struct us_stack *stack, enum us_block_use use)
{
    if (use != US_BLOCK_OUT_OF_ORDER && us_pool_free(&stack->block_pool) <= stack->prune_floor)
        memory_prune(stack);
    if (us_block_is_available(stack, use))
        return (struct us_block *)us_pool_get(&stack->block_pool);
    if (use == US_BLOCK_MINIMUM)
        us_count(stack, US_C_POOL_EMPTY_BUFFERS);
    else
        us_count(stack, US_C_POOL_LOW_BUFFERS);
    return (struct us_block *)U_NULL;
}

struct us_chunk *us_block_get(struct us_stack *stack, u_u32 seq, enum us_block_use use)
{
    struct us_block *block;

    if (U_LIKELY(us_pool_free(&stack->block_pool) > stack->block_floor[US_BLOCK_OUT_OF_ORDER]))
        block = (struct us_block *)us_pool_get(&stack->block_pool);
    else
        block = block_get_low(stack, use);
    if (U_UNLIKELY(block == U_NULL))
        return (struct us_chunk *)U_NULL;
    us_block_reset(block, seq);
    block->chunk.next = (struct us_chunk *)U_NULL;
    block->chunk.is_ref = 0;
    return &block->chunk;
}

void us_memory_wake(struct us_stack *stack)
{
    struct u_list *waiter = (struct u_list *)U_NULL;
    unsigned use;

    for (use = 0; waiter == U_NULL && use < US_MEMORY_LISTS; use++) {
        if (us_block_is_available(stack, (enum us_block_use)use))
            waiter = u_list_pop_front(&stack->memory_lists[use]);
    }
    if (waiter != U_NULL)
        us_conn_raise_sendable(stack, U_CONTAINER_OF(waiter, struct us_conn, memory_link));
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
