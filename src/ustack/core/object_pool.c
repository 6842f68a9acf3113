/* SPDX-License-Identifier: BSD-3-Clause */
/* Object pools; see object_pool.h. */
#include "ustack/core/object_pool.h"

void us_pool_init(struct us_pool *pool, void *memory, u_u32 item_bytes, u_u32 items)
{
    U_ASSERT(item_bytes >= sizeof(struct us_pool_link) && item_bytes % sizeof(void *) == 0);
    pool->free_list = U_NULL;
    pool->base = (u_u8 *)memory;
    pool->item_bytes = item_bytes;
    pool->items = items;
    pool->touched = 0;
    pool->used = 0;
}

void *us_pool_get_fresh(struct us_pool *pool)
{
    void *item;

    if (pool->touched == pool->items)
        return U_NULL;
    item = pool->base + (unsigned long)pool->touched * pool->item_bytes;
    pool->touched++;
    pool->used++;
    return item;
}

int us_pool_is_sound(const struct us_pool *pool)
{
    const u_u8 *end = pool->base + (unsigned long)pool->touched * pool->item_bytes;
    const void *item = pool->free_list;
    u_u32 listed = 0;

    if (pool->touched > pool->items || pool->used > pool->touched)
        return 0;
    while (item != U_NULL && listed <= pool->touched) {
        const u_u8 *byte = (const u_u8 *)item;
        if (byte < pool->base || byte >= end)
            return 0;
        if ((unsigned long)(byte - pool->base) % pool->item_bytes != 0)
            return 0;
        item = ((const struct us_pool_link *)item)->next;
        listed++;
    }
    return listed == pool->touched - pool->used;
}
