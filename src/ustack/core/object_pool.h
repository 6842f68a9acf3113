/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of objects of one size in memory of the caller.
 *
 * Free objects form a last-in-first-out list through their first word, so that the next object
 * taken is likely in the cache. Objects behind a high-water mark were never taken; their pages stay
 * untouched until the list is empty.
 */
#ifndef USTACK_CORE_OBJECT_POOL_H
#define USTACK_CORE_OBJECT_POOL_H

#include "base/base.h"

struct us_pool {
    void *free_list;  /* free objects; the first word of each points to the next */
    u_u8 *base;       /* object 0 */
    u_u32 item_bytes; /* a multiple of the size of a pointer */
    u_u32 items;      /* capacity */
    u_u32 touched;    /* objects 0..touched-1 were taken at some time */
    u_u32 used;       /* objects taken */
};

/* Makes a pool of `items` objects in zero-filled memory of items * item_bytes bytes. */
void us_pool_init(struct us_pool *pool, void *memory, u_u32 item_bytes, u_u32 items);

/* The first word of a free object. */
struct us_pool_link {
    void *next;
};

/* us_pool_get() while the free list is empty. */
void *us_pool_get_fresh(struct us_pool *pool);

/* Takes an object with undefined contents, or returns null if all are taken. */
U_INLINE void *us_pool_get(struct us_pool *pool)
{
    void *item = pool->free_list;

    if (U_UNLIKELY(item == U_NULL))
        return us_pool_get_fresh(pool);
    pool->free_list = ((struct us_pool_link *)item)->next;
    pool->used++;
    return item;
}

/* Frees an object of this pool. */
U_INLINE void us_pool_put(struct us_pool *pool, void *item)
{
    U_ASSERT(pool->used > 0);
    ((struct us_pool_link *)item)->next = pool->free_list;
    pool->free_list = item;
    pool->used--;
}

/* Number of objects that can be taken. */
U_INLINE u_u32 us_pool_free(const struct us_pool *pool)
{
    return pool->items - pool->used;
}

/* For us_check(): whether the free list agrees with the counts and stays within the pool. */
int us_pool_is_sound(const struct us_pool *pool);

#endif
