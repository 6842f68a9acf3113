/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: each worker has its own counters, which are summed on request. */
#include "kv/engine.h"

uint64_t kv_counter_sum(const struct kv *kv, enum kv_counter counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        sum += kv_u64_load_relaxed(&kv->workers[i].counters[counter]);
    return sum;
}

uint64_t kv_class_counter_sum(const struct kv *kv, unsigned class, enum kv_class_counter counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        sum += kv_u64_load_relaxed(&kv->workers[i].classes[class].counters[counter]);
    return sum;
}

static unsigned class_count(const struct kv *kv)
{
    return u_max32(kv->config.sizes.class_count, 1);
}

/* A sum read while workers count may miss increments that a later sum has: never below 0. */
static uint64_t difference(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}

/* The value of a gauge, from a sum that may miss an addition that goes with a subtraction. */
static uint64_t gauge(uint64_t sum)
{
    return (int64_t)sum > 0 ? sum : 0;
}

static uint64_t since_reset(const struct kv *kv, enum kv_counter counter)
{
    uint64_t base = kv_u64_load_relaxed(&kv->stats_base[counter]);
    return difference(kv_counter_sum(kv, counter), base);
}

static uint64_t class_since_reset(const struct kv *kv, unsigned class,
                                  enum kv_class_counter counter)
{
    uint64_t base = kv_u64_load_relaxed(&kv->class_base[class].counters[counter]);
    return difference(kv_class_counter_sum(kv, class, counter), base);
}

/* Idle time of the latest of the workers' last evictions. */
static uint32_t evicted_idle_s(const struct kv *kv, unsigned class)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < kv->config.worker_max; i++) {
        uint64_t own = kv_u64_load_relaxed(&kv->workers[i].classes[class].last_evicted);
        last = own > last ? own : last;
    }
    return (uint32_t)last;
}

void kv_class_stats(const struct kv *kv, unsigned class, struct kv_class_stats *stats)
{
    U_ASSERT(class < class_count(kv));
    stats->items = gauge(kv_class_counter_sum(kv, class, KV_CLASS_ITEMS));
    stats->bytes = gauge(kv_class_counter_sum(kv, class, KV_CLASS_SIZES));
    stats->items_total = kv_class_counter_sum(kv, class, KV_CLASS_PUBLISHED);
    stats->evicted = class_since_reset(kv, class, KV_CLASS_EVICTED);
    stats->evicted_nonzero = class_since_reset(kv, class, KV_CLASS_EVICTED_NONZERO);
    stats->evicted_unfetched = class_since_reset(kv, class, KV_CLASS_EVICTED_UNFETCHED);
    stats->evicted_active = class_since_reset(kv, class, KV_CLASS_EVICTED_ACTIVE);
    stats->expired_reclaimed = class_since_reset(kv, class, KV_CLASS_EXPIRED);
    stats->expired_unfetched = class_since_reset(kv, class, KV_CLASS_EXPIRED_UNFETCHED);
    stats->crawl_checked = class_since_reset(kv, class, KV_CLASS_CRAWL_CHECKED);
    stats->crawl_reclaimed = class_since_reset(kv, class, KV_CLASS_CRAWLED);
    stats->no_memory = class_since_reset(kv, class, KV_CLASS_NO_MEMORY);
    stats->evicted_idle_s = evicted_idle_s(kv, class);
}

uint64_t kv_bucket_items(const struct kv *kv, uint32_t bucket)
{
    uint64_t sum = 0;
    U_ASSERT(bucket < kv->config.sizes.bucket_count);
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        if (kv->workers[i].buckets)
            sum += kv_u64_load_relaxed(&kv->workers[i].buckets[bucket]);
    return gauge(sum);
}

static void add_classes(const struct kv *kv, struct kv_stats *stats)
{
    struct kv_class_stats class;
    for (unsigned i = 0; i < class_count(kv); i++) {
        kv_class_stats(kv, i, &class);
        stats->items += class.items;
        stats->item_sizes += class.bytes;
        stats->items_total += class_since_reset(kv, i, KV_CLASS_PUBLISHED);
        stats->evictions += class.evicted;
        stats->evicted_unfetched += class.evicted_unfetched;
        stats->evicted_active += class.evicted_active;
        stats->expired_reclaimed += class.expired_reclaimed;
        stats->expired_unfetched += class.expired_unfetched;
        stats->crawl_checked += class.crawl_checked;
        stats->crawl_reclaimed += class.crawl_reclaimed;
        stats->no_memory += class.no_memory;
    }
}

void kv_stats(const struct kv *kv, struct kv_stats *stats)
{
    const struct kv_segments *segments = &kv->segments;
    uint64_t segment_bytes = kv_segments_bytes(segments);
    uint32_t used = (uint32_t)difference(kv_u32_load_relaxed(&segments->in_service),
                                         kv_segment_list_count(&segments->free));

    u_zero(stats, sizeof(*stats));
    add_classes(kv, stats);
    stats->memory_limit_bytes = kv_u64_load_relaxed(&kv->memory_limit_bytes);
    stats->memory_used_bytes = kv_fixed_bytes(kv) + used * segment_bytes;
    stats->index_bytes = kv_u64_load_relaxed(&kv->index.bytes);
    stats->item_bytes = gauge(kv_counter_sum(kv, KV_COUNT_BYTES));
    stats->update_retries = since_reset(kv, KV_COUNT_RETRIES);
    stats->pinned = gauge(kv_counter_sum(kv, KV_COUNT_PINS));
    stats->hash_power = kv_index_power(&kv->index);
    stats->growing = kv_grow_is_active(&kv->index);
    stats->growths = kv_u32_load_relaxed(&kv->index.growths);
    stats->epoch_lag = kv_epoch_lag(&kv->epoch);
    stats->flushes_behind = kv_flushes_behind(kv);
    stats->touch_thread = kv->prefault.runs;
    stats->touched_bytes = kv_u32_load_relaxed(&segments->touched_free) * segment_bytes;
    stats->touched_ahead = kv_u32_load_relaxed(&segments->touched_ahead);
    stats->touched_late = kv_u32_load_relaxed(&segments->touched_late);
}

static void class_reset(struct kv *kv, unsigned class)
{
    for (int i = KV_CLASS_PUBLISHED; i < KV_CLASS_COUNTERS; i++) {
        enum kv_class_counter counter = (enum kv_class_counter)i;
        kv_u64_store_relaxed(&kv->class_base[class].counters[i],
                             kv_class_counter_sum(kv, class, counter));
    }
}

void kv_stats_reset(struct kv *kv)
{
    for (int i = KV_COUNT_RETRIES; i < KV_COUNTERS; i++)
        kv_u64_store_relaxed(&kv->stats_base[i], kv_counter_sum(kv, (enum kv_counter)i));
    for (unsigned i = 0; i < class_count(kv); i++)
        class_reset(kv, i);
}
