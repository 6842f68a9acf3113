/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: each worker counts for itself, whoever asks adds up. */
#include "kv/engine.h"

uint64_t kv_counter_sum(const struct kv *kv, enum kv_counter counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        sum += kv_u64_load_relaxed(&kv->workers[i].counters[counter]);
    return sum;
}

/* While others count, what was taken may be seen before what it was taken from: never below 0. */
static uint64_t difference(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}

static uint64_t gauge(const struct kv *kv, enum kv_counter up, enum kv_counter down)
{
    uint64_t less = kv_counter_sum(kv, down);
    return difference(kv_counter_sum(kv, up), less);
}

static uint64_t since_reset(const struct kv *kv, enum kv_counter counter)
{
    uint64_t base = kv_u64_load_relaxed(&kv->stats_base[counter]);
    return difference(kv_counter_sum(kv, counter), base);
}

void kv_stats(const struct kv *kv, struct kv_stats *stats)
{
    const struct kv_segments *segments = &kv->segments;
    uint64_t segment_bytes = kv_segments_bytes(segments);
    uint64_t heads_bytes = (kv->index.mask + 1) * sizeof(struct kv_bucket);
    uint32_t used = segments->count - kv_segment_list_count(&segments->free);

    stats->memory_limit_bytes = kv->config.memory_bytes;
    stats->memory_used_bytes = kv->fixed_bytes + used * segment_bytes;
    stats->index_bytes =
        heads_bytes + kv_u32_load_relaxed(&kv->index.pool_segments) * segment_bytes;
    stats->item_bytes = gauge(kv, KV_COUNT_BYTES_LINKED, KV_COUNT_BYTES_UNLINKED);
    stats->items = gauge(kv, KV_COUNT_ITEMS_LINKED, KV_COUNT_ITEMS_UNLINKED);
    stats->items_total = since_reset(kv, KV_COUNT_PUBLISHED);
    stats->evictions = since_reset(kv, KV_COUNT_EVICTIONS);
    stats->evicted_unfetched = since_reset(kv, KV_COUNT_EVICTED_UNFETCHED);
    stats->expired_reclaimed = since_reset(kv, KV_COUNT_EXPIRED);
    stats->expired_unfetched = since_reset(kv, KV_COUNT_EXPIRED_UNFETCHED);
    stats->no_memory = since_reset(kv, KV_COUNT_NO_MEMORY);
    stats->update_retries = since_reset(kv, KV_COUNT_RETRIES);
    stats->pinned = gauge(kv, KV_COUNT_PINS, KV_COUNT_UNPINS);
    stats->hash_power = kv->index.power;
}

void kv_stats_reset(struct kv *kv)
{
    for (int i = KV_COUNT_PUBLISHED; i < KV_COUNTERS; i++)
        kv_u64_store_relaxed(&kv->stats_base[i], kv_counter_sum(kv, (enum kv_counter)i));
}
