/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's slab classes, as its -f, -n and -I define them. The engine has none; statistics,
 * dumps and log lines name the class that memcached would use, because tools read it.
 */
#ifndef CACHE_SLAB_CLASS_H
#define CACHE_SLAB_CLASS_H

#include "cache/cache_worker.h"
#include "mcproto/mcproto.h"

/* Classes are numbered from 1, and memcached has fewer than this. */
#define CACHE_SLAB_CLASSES_MAX 63

#define CACHE_SLAB_PAGE_BYTES (1024 * 1024)

/* Sets the size classes of the engine: class n of memcached is class n - 1 of the engine. */
void cache_slab_classes(const struct cache_settings *settings, struct kv_sizes *sizes);

/* The class of an item. */
static inline unsigned cache_slab_class(const struct cache *cache, uint32_t key_len, uint32_t flags,
                                        uint32_t value_len)
{
    uint64_t bytes = kv_sizes_of(&cache->sizes, key_len, flags, value_len);

    return kv_sizes_class(&cache->sizes, bytes) + 1;
}

/* Whether memcached stores the item in several chunks, since it is larger than those of a class. */
static inline bool cache_slab_is_chunked(const struct cache *cache, uint32_t key_len,
                                         uint32_t flags, uint64_t value_len)
{
    const struct kv_sizes *sizes = &cache->sizes;

    return kv_sizes_of(sizes, key_len, flags, value_len) >
           sizes->class_bytes_max[sizes->class_count - 1];
}

/* The facts that `me` shows of an item, with times as seconds from now. */
struct mc_item_info cache_item_info(const struct cache_worker *worker, const struct kv_view *view);

#endif
