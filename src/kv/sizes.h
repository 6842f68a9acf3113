/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes and size classes of items, for statistics only; all items share the segments.
 *
 * The size of an item is a fixed part, the key, 4 bytes for client flags other than 0, and the
 * value. A table with an entry per 8 bytes maps small sizes to classes, so bounds are multiples of
 * 8.
 */
#ifndef KV_SIZES_H
#define KV_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#define KV_CLASSES_MAX 64
#define KV_SIZES_STEP 8
#define KV_SIZES_TABLE 1024 /* entries: sizes up to 8 KiB */

struct kv_sizes {
    uint32_t fixed_bytes;
    unsigned class_count;                     /* 0: counts as 1 */
    uint32_t class_bytes_max[KV_CLASSES_MAX]; /* ascending; the last class has all larger items */
    uint32_t bucket_bytes;                    /* width of size buckets; 0: none */
    uint32_t bucket_count;                    /* the last one has all larger items */
    uint8_t table[KV_SIZES_TABLE];            /* class by size, rounded up, in steps */
};

/* Fills the table in. False if the bounds are invalid. */
bool kv_sizes_init(struct kv_sizes *sizes);

/* kv_sizes_class() for a size beyond the table. */
unsigned kv_sizes_class_large(const struct kv_sizes *sizes, uint64_t size_bytes);

/* The size of an item. */
static inline uint64_t kv_sizes_of(const struct kv_sizes *sizes, uint32_t key_len, uint32_t flags,
                                   uint64_t value_len)
{
    return (uint64_t)sizes->fixed_bytes + key_len + (flags != 0 ? sizeof(flags) : 0) + value_len;
}

/* Its class: 0 to class_count - 1. */
static inline unsigned kv_sizes_class(const struct kv_sizes *sizes, uint64_t size_bytes)
{
    uint64_t entry = (size_bytes + KV_SIZES_STEP - 1) / KV_SIZES_STEP;

    return entry < KV_SIZES_TABLE ? sizes->table[entry] : kv_sizes_class_large(sizes, size_bytes);
}

#endif
