/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of objects of one size, carved out of the caller's memory.
 *
 * Objects that were never used lie untouched behind a high-water mark; objects given back form a
 * last-in-first-out list through their first word, so that what is taken next is warm in the cache
 * and the pages behind the mark stay untouched for as long as possible.
 */
#ifndef USTACK_POOL_H
#define USTACK_POOL_H

#include "base/base.h"

struct us_pool {
    void *free_list;  /* given back; the first word of each points to the next */
    u_u8 *base;       /* object 0 */
    u_u32 item_bytes; /* a multiple of the size of a pointer */
    u_u32 items;      /* capacity */
    u_u32 touched;    /* objects 0..touched-1 have been in use at some time */
    u_u32 used;       /* taken and not given back */
};

/* Makes a pool of `items` objects in zero-filled memory of items * item_bytes bytes. */
void us_pool_init(struct us_pool *pool, void *memory, u_u32 item_bytes, u_u32 items);

/* The first word of an object that lies in the free list. */
struct us_pool_link {
    void *next;
};

/* Takes an object that was never used; null if there is none. */
void *us_pool_get_fresh(struct us_pool *pool);

/* Takes an object, or null if all are taken. Its contents are not defined. */
U_INLINE void *us_pool_get(struct us_pool *pool)
{
    void *item = pool->free_list;

    if (U_UNLIKELY(item == U_NULL))
        return us_pool_get_fresh(pool);
    pool->free_list = ((struct us_pool_link *)item)->next;
    pool->used++;
    return item;
}

/* Gives an object of this pool back. */
U_INLINE void us_pool_put(struct us_pool *pool, void *item)
{
    U_ASSERT(pool->used > 0);
    ((struct us_pool_link *)item)->next = pool->free_list;
    pool->free_list = item;
    pool->used--;
}

/* How many objects could be taken now. */
U_INLINE u_u32 us_pool_free(const struct us_pool *pool)
{
    return pool->items - pool->used;
}

/* Whether the free list is as long as the counts say and stays within the pool. Slow. */
int us_pool_is_sound(const struct us_pool *pool);

#endif
