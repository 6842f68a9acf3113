/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sizes of memcached's slab classes.
 *
 * The first one has memcached's item header and -n bytes; each further one is -f times as large,
 * rounded up to 8 bytes, up to the largest chunk, which is the last class. Larger items take
 * several of the largest chunks and belong to the last class too.
 */
#include "cache/slab_class.h"
#include "cache/clock.h"

#include "base/base.h"
#include "cache/op.h"

/* memcached's item header, the end of the key, the cas. */
#define ITEM_HEADER_BYTES 48
#define ITEM_KEY_END_BYTES 1
#define ITEM_CAS_BYTES 8

#define CHUNK_ALIGN_BYTES 8
#define SIZES_BUCKET_BYTES 32

static uint32_t aligned(uint32_t bytes)
{
    return (bytes + CHUNK_ALIGN_BYTES - 1) / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
}

/* The settings, with memcached's defaults for those that are 0. */
static struct cache_settings_compat knobs(const struct cache_settings *settings)
{
    struct cache_settings_compat compat = settings->compat;

    if (!(compat.growth_factor > 1.0))
        compat.growth_factor = 1.25;
    if (compat.chunk_bytes == 0)
        compat.chunk_bytes = 48;
    if (compat.slab_chunk_bytes_max == 0)
        compat.slab_chunk_bytes_max = CACHE_SLAB_PAGE_BYTES / 2;
    return compat;
}

void cache_slab_classes(const struct cache_settings *settings, struct kv_sizes *sizes)
{
    const struct cache_settings_compat compat = knobs(settings);
    uint32_t last = aligned(compat.slab_chunk_bytes_max);
    double largest = (double)compat.slab_chunk_bytes_max / compat.growth_factor;
    uint32_t bytes = ITEM_HEADER_BYTES + compat.chunk_bytes;
    unsigned count = 0;

    while (count < CACHE_SLAB_CLASSES_MAX - 1 && bytes < largest && aligned(bytes) < last) {
        sizes->class_bytes_max[count] = aligned(bytes);
        bytes = (uint32_t)((double)sizes->class_bytes_max[count] * compat.growth_factor);
        bytes = u_max32(bytes, sizes->class_bytes_max[count] + 1); /* a factor close to 1 */
        count++;
    }
    sizes->class_bytes_max[count++] = last;
    sizes->class_count = count;
    sizes->fixed_bytes = ITEM_HEADER_BYTES + ITEM_KEY_END_BYTES;
    if (!settings->cas_disabled)
        sizes->fixed_bytes += ITEM_CAS_BYTES;
    if (settings->track_sizes) {
        sizes->bucket_bytes = SIZES_BUCKET_BYTES;
        sizes->bucket_count = settings->item_bytes_max / SIZES_BUCKET_BYTES + 1;
    }
}

struct mc_item_info cache_item_info(const struct cache_worker *worker, const struct kv_view *view)
{
    const struct cache *cache = worker->cache;
    struct mc_item_info facts = {
        .key = view->key,
        .key_len = view->key_len,
        .key_is_binary = (view->state & KV_KEY_BINARY) != 0,
        .expires = view->exptime != 0,
        .fetched = (view->state & KV_FETCHED) != 0,
        .exptime = view->exptime > worker->now_s ? view->exptime - worker->now_s : 0,
        .access = cache_clock_since(worker, view->last_access),
        .cas = cache_cas_shown(worker, view->cas),
        .class_id = cache_slab_class(cache, view->key_len, view->flags, view->value_len),
        .size = (uint32_t)kv_sizes_of(&cache->sizes, view->key_len, view->flags, view->value_len),
        .flags = view->flags,
    };

    return facts;
}
