/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes and classes as memcached has them by default: from 96 bytes on, each class a quarter larger
 * than the one before, rounded up to 8 bytes; the last one holds chunks of half a mebibyte.
 */
#include "cache/sizes.h"

#include "base/base.h"

#define ITEM_HEADER_BYTES (48 + 1) /* and the key's end */
#define ITEM_CAS_BYTES 8
#define ITEM_FLAGS_BYTES 4

static const uint32_t class_bytes[CACHE_CLASS_MAX] = {
    96,    120,    152,    192,    240,    304,    384,    480,    600,    752,
    944,   1184,   1480,   1856,   2320,   2904,   3632,   4544,   5680,   7104,
    8880,  11104,  13880,  17352,  21696,  27120,  33904,  42384,  52984,  66232,
    82792, 103496, 129376, 161720, 202152, 252696, 315872, 394840, 524288,
};

uint64_t cache_item_size(const struct cache *cache, uint32_t key_len, uint32_t flags,
                         uint64_t value_len)
{
    uint64_t bytes = ITEM_HEADER_BYTES + (cache->settings.cas_disabled ? 0 : ITEM_CAS_BYTES);

    return bytes + key_len + (flags != 0 ? ITEM_FLAGS_BYTES : 0) + value_len;
}

unsigned cache_class_of(uint64_t item_size)
{
    unsigned i = 0;

    while (i < CACHE_CLASS_MAX - 1 && item_size > class_bytes[i])
        i++;
    return i + 1;
}

uint32_t cache_class_bytes(unsigned class_id)
{
    U_ASSERT(class_id >= 1 && class_id <= CACHE_CLASS_MAX);
    return class_bytes[class_id - 1];
}

struct mc_item_facts cache_item_facts(const struct cache_worker *worker, const struct kv_view *view)
{
    uint64_t size = cache_item_size(worker->cache, view->key_len, view->flags, view->value_len);
    struct mc_item_facts facts = {
        .key = view->key,
        .key_len = view->key_len,
        .key_is_binary = (view->state & KV_KEY_BINARY) != 0,
        .expires = view->exptime != 0,
        .fetched = (view->state & KV_FETCHED) != 0,
        .exptime = view->exptime > worker->now_s ? view->exptime - worker->now_s : 0,
        .access = worker->now_s > view->last_access ? worker->now_s - view->last_access : 0,
        .cas = worker->cache->settings.cas_disabled ? 0 : view->cas,
        .class_id = cache_class_of(size),
        .size = (uint32_t)size,
        .flags = view->flags,
    };

    return facts;
}
