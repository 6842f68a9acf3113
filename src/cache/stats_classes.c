/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats items, slabs and sizes, by memcached's slab classes.
 *
 * The engine has no classes and no pages. Items, bytes, hits and evictions are counted by class;
 * the number of pages is the minimum that memcached would need for the items. A class is listed
 * from its first item on, as memcached lists one that has pages.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec_stats.h"
#include "cache/slab_class.h"

/* The part of the table that `age` is estimated from. */
#define AGE_CHAINS_MAX 65536
#define AGE_ITEMS_MAX 16384

/* "items:<class>:<name>" or "<class>:<name>". */
static void class_line(struct cache_stats_out *out, const char *prefix, unsigned id,
                       const char *name, uint64_t value)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%u:%s", prefix, id, name);
    cache_stats_number(out, full, value);
}

/* ---- items ------------------------------------------------------------------------------- */

struct ages {
    const struct cache_worker *worker;
    uint32_t oldest_s[KV_CLASSES_MAX];
};

/* A kv_visit. */
static void age_note(void *ctx, const struct kv_view *view)
{
    struct ages *ages = ctx;
    const struct cache *cache = ages->worker->cache;
    unsigned id = cache_slab_class(cache, view->key_len, view->flags, view->value_len);
    uint32_t age_s = cache_clock_since(ages->worker, view->last_access);

    ages->oldest_s[id - 1] = u_max32(ages->oldest_s[id - 1], age_s);
}

/*
 * The longest time since the last access in each class. The engine keeps no order of access, so
 * this scans a bounded part of the items: all of them while they are few.
 */
static void ages_find(struct cache_worker *worker, struct ages *ages)
{
    static const struct kv_quantum bound = {AGE_CHAINS_MAX, AGE_ITEMS_MAX};
    struct kv_cursor cursor = {0};

    *ages = (struct ages){.worker = worker};
    kv_scan(worker->kv_worker, &cursor, &bound, age_note, ages);
}

static void items_lines(struct cache_stats_out *out, unsigned id, const struct kv_class_stats *kv,
                        const struct cache_sums *sums, uint32_t age_s)
{
    bool segmented = out->cache->settings.compat.lru_maintainer;
    const struct {
        const char *name;
        uint64_t value;
        bool segmented; /* shown only with lru_maintainer */
    } lines[] = {
        {"number", kv->items, false},
        {"number_hot", 0, true},
        {"number_warm", 0, true},
        {"number_cold", kv->items, true},
        {"age_hot", 0, true},
        {"age_warm", 0, true},
        {"age", age_s, false},
        {"mem_requested", kv->bytes, false},
        {"evicted", kv->evicted, false},
        {"evicted_nonzero", kv->evicted_nonzero, false},
        {"evicted_time", kv->evicted_idle_s, false},
        {"outofmemory", kv->no_memory, false},
        {"tailrepairs", 0, false},
        {"reclaimed", kv->expired_reclaimed, false},
        {"expired_unfetched", kv->expired_unfetched, false},
        {"evicted_unfetched", kv->evicted_unfetched, false},
        {"evicted_active", kv->evicted_active, true},
        {"crawler_reclaimed", kv->crawl_reclaimed, false},
        {"crawler_items_checked", kv->crawl_checked, false},
        {"lrutail_reflocked", 0, false},
        {"moves_to_cold", 0, true},
        {"moves_to_warm", 0, true},
        {"moves_within_lru", 0, true},
        {"direct_reclaims", 0, true},
        {"hits_to_hot", 0, true},
        {"hits_to_warm", 0, true},
        {"hits_to_cold", sums->classes[id - 1][CACHE_CLASS_GET_HITS], true},
        {"hits_to_temp", 0, true},
    };

    for (unsigned i = 0; i < U_ARRAY_LEN(lines); i++)
        if (segmented || !lines[i].segmented)
            class_line(out, "items:", id, lines[i].name, lines[i].value);
}

void cache_stats_items(struct cache_stats_out *out)
{
    struct cache_worker *worker = out->session->worker;
    struct cache_stats_snapshot snapshot;
    struct ages ages;

    cache_stats_snapshot(worker->cache, &snapshot);
    ages_find(worker, &ages);
    for (unsigned id = 1; id <= worker->cache->sizes.class_count; id++) {
        struct kv_class_stats kv;

        kv_class_stats(worker->kv, id - 1, &kv);
        if (kv.items_total > 0 || kv.no_memory > 0)
            items_lines(out, id, &kv, &snapshot.sums, ages.oldest_s[id - 1]);
    }
}

/* ---- slabs ------------------------------------------------------------------------------- */

static void slabs_lines(struct cache_stats_out *out, unsigned id, uint64_t items,
                        const uint64_t counters[CACHE_CLASS_COUNTER_COUNT])
{
    uint64_t chunk_bytes = out->cache->sizes.class_bytes_max[id - 1];
    uint64_t per_page = CACHE_SLAB_PAGE_BYTES / chunk_bytes;
    uint64_t pages = items > per_page ? (items + per_page - 1) / per_page : 1;
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"chunk_size", chunk_bytes},
        {"chunks_per_page", per_page},
        {"total_pages", pages},
        {"total_chunks", pages * per_page},
        {"used_chunks", items},
        {"free_chunks", pages * per_page - items},
        {"free_chunks_end", 0},
        {"get_hits", counters[CACHE_CLASS_GET_HITS]},
        {"cmd_set", counters[CACHE_CLASS_CMD_SET]},
        {"delete_hits", counters[CACHE_CLASS_DELETE_HITS]},
        {"incr_hits", counters[CACHE_CLASS_INCR_HITS]},
        {"decr_hits", counters[CACHE_CLASS_DECR_HITS]},
        {"cas_hits", counters[CACHE_CLASS_CAS_HITS]},
        {"cas_badval", counters[CACHE_CLASS_CAS_BADVAL]},
        {"touch_hits", counters[CACHE_CLASS_TOUCH_HITS]},
    };

    for (unsigned i = 0; i < U_ARRAY_LEN(lines); i++)
        class_line(out, "", id, lines[i].name, lines[i].value);
}

void cache_stats_slabs(struct cache_stats_out *out)
{
    const struct cache_worker *worker = out->session->worker;
    struct cache_stats_snapshot snapshot;
    unsigned active = 0;

    cache_stats_snapshot(worker->cache, &snapshot);
    for (unsigned id = 1; id <= worker->cache->sizes.class_count; id++) {
        struct kv_class_stats kv;

        kv_class_stats(worker->kv, id - 1, &kv);
        if (kv.items_total == 0)
            continue;
        slabs_lines(out, id, kv.items, snapshot.sums.classes[id - 1]);
        active++;
    }
    cache_stats_number(out, "active_slabs", active);
    cache_stats_number(out, "total_malloced",
                       active > 0 ? snapshot.kv.memory_used_bytes - snapshot.kv.index_bytes : 0);
}

/* ---- sizes ------------------------------------------------------------------------------- */

void cache_stats_sizes(struct cache_stats_out *out)
{
    const struct cache *cache = out->cache;

    if (cache->sizes.bucket_count == 0)
        cache_stats_text(out, "sizes_status", "disabled");
    for (uint32_t bucket = 0; bucket < cache->sizes.bucket_count; bucket++) {
        uint64_t items = kv_bucket_items(cache->kv, bucket);
        char name[MC_NUMBER_MAX + 1];

        if (items == 0)
            continue;
        snprintf(name, sizeof(name), "%" PRIu64, (uint64_t)bucket * cache->sizes.bucket_bytes);
        cache_stats_number(out, name, items);
    }
}
