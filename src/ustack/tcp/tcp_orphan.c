/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed connections that have not ended; see tcp_orphan.h. */
#include "ustack/tcp/tcp_orphan.h"

enum {
    ORPHAN_CLOCK_SHIFT = 20, /* ticks of about a second; an orphan lives for fewer than 2^16 */
    ORPHAN_TICKS_MIN = 2,    /* the current tick and the one before: at least a second */
    ORPHAN_ROOM_SHARE = 8    /* of conn_max: places kept free while there are orphans */
};

static u_u16 orphan_clock(const struct us_stack *stack)
{
    return (u_u16)(stack->now_us >> ORPHAN_CLOCK_SHIFT);
}

static u_u16 orphan_age(const struct us_stack *stack, const struct us_conn *conn)
{
    return (u_u16)(orphan_clock(stack) - conn->timeouts.closed_at);
}

static struct us_conn *orphan_oldest(const struct us_stack *stack)
{
    return U_CONTAINER_OF(stack->orphans.next, struct us_conn, memory_link);
}

static void orphan_drop_oldest(struct us_stack *stack)
{
    us_count(stack, US_C_ORPHANS_DROPPED);
    us_conn_reset(stack, orphan_oldest(stack), US_CLOSE_TIMEOUT);
}

void us_orphan_add(struct us_stack *stack, struct us_conn *conn)
{
    U_ASSERT(!conn->timeouts.is_orphan);
    if (!(conn->flags & US_CF_PASSIVE))
        return;
    us_tcp_listener_uncount(stack, conn);
    conn->listener = 0;
    conn->flags &= (u_u8)~US_CF_WANT_SENDABLE; /* nothing can be sent any more */
    u_list_remove(&conn->memory_link);
    u_list_push_back(&stack->orphans, &conn->memory_link);
    stack->orphan_count++;
    conn->timeouts.is_orphan = 1;
    conn->timeouts.closed_at = orphan_clock(stack);
    if (stack->orphan_count > stack->config.orphans_max &&
        orphan_age(stack, orphan_oldest(stack)) >= ORPHAN_TICKS_MIN)
        orphan_drop_oldest(stack);
}

void us_orphan_remove(struct us_stack *stack, struct us_conn *conn)
{
    if (!conn->timeouts.is_orphan)
        return;
    conn->timeouts.is_orphan = 0;
    u_list_remove(&conn->memory_link);
    stack->orphan_count--;
}

void us_orphan_make_room(struct us_stack *stack)
{
    if (stack->orphan_count > 0 &&
        us_pool_free(&stack->conn_pool) <= stack->config.conn_max / ORPHAN_ROOM_SHARE)
        orphan_drop_oldest(stack);
}

u_u64 us_orphan_closed_us(const struct us_stack *stack, const struct us_conn *conn)
{
    if (!conn->timeouts.is_orphan)
        return 0;
    return ((stack->now_us >> ORPHAN_CLOCK_SHIFT) - orphan_age(stack, conn)) << ORPHAN_CLOCK_SHIFT;
}
