/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of size classes. */
#include "kv/sizes.h"

static bool bounds_are_valid(const struct kv_sizes *sizes)
{
    for (unsigned i = 0; i < sizes->class_count; i++) {
        if (sizes->class_bytes_max[i] % KV_SIZES_STEP != 0)
            return false;
        if (i > 0 && sizes->class_bytes_max[i] <= sizes->class_bytes_max[i - 1])
            return false;
    }
    return sizes->class_count <= KV_CLASSES_MAX &&
           (sizes->bucket_bytes == 0) == (sizes->bucket_count == 0);
}

bool kv_sizes_init(struct kv_sizes *sizes)
{
    if (!bounds_are_valid(sizes))
        return false;
    unsigned class = 0;
    for (uint32_t entry = 0; entry < KV_SIZES_TABLE; entry++) {
        while (class + 1 < sizes->class_count &&
               entry * KV_SIZES_STEP > sizes->class_bytes_max[class])
            class ++;
        sizes->table[entry] = (uint8_t) class;
    }
    return true;
}

unsigned kv_sizes_class_large(const struct kv_sizes *sizes, uint64_t size_bytes)
{
    unsigned class = sizes->table[KV_SIZES_TABLE - 1];
    while (class + 1 < sizes->class_count && size_bytes > sizes->class_bytes_max[class])
        class ++;
    return class;
}
