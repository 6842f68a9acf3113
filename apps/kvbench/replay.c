/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays of requests through the engine or memcached. */
#include <math.h>
#include <string.h>

#include "kvbench/bench.h"
#include "kvbench/decide.h"
#include "kvbench/memcached.h"
#include "kvbench/replay.h"
#include "load/key.h"

#define REQUESTS_PER_LOOP 16
#define PROGRESS_EVERY (1u << 20)

struct cache {
    struct kv *kv;
    struct kv_worker *worker;
    uint64_t refused;
};

static bool cache_open(struct cache *cache, const struct source_facts *facts, uint64_t memory_bytes,
                       enum kv_policy_kind policy)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .value_bytes_max = facts->value_bytes_max,
                               .worker_max = 1,
                               .evict = true,
                               .policy = policy,
                               .secret = "kvbench's secret"};
    const char *error;

    *cache = (struct cache){0};
    cache->kv = kv_create(&config, &error);
    if (!cache->kv)
        return bench_fail("engine with %.1f MiB: %s", (double)memory_bytes / 0x1p20, error);
    cache->worker = kv_join(cache->kv);
    return true;
}

static void cache_close(struct cache *cache)
{
    kv_leave(cache->worker);
    kv_destroy(cache->kv);
}

static void cache_set(struct cache *cache, const struct kv_key *key,
                      const struct load_request *request, uint32_t now_s)
{
    struct kv_change change = {0};
    enum kv_error error;
    uint32_t exptime = request->ttl_s > 0 ? now_s + request->ttl_s : 0;

    kv_release_views(cache->worker);
    change.item = kv_item_new(cache->worker, key, request->value_bytes, 0, exptime, &error);
    if (change.item)
        kv_update(cache->worker, key, always_replace, NULL, &change);
    else
        cache->refused++;
}

/* Executes a request; true if it was a GET that missed. Values are not written. */
static bool cache_request(struct cache *cache, const struct load_request *request, uint32_t now_s)
{
    char text[LOAD_KEY_MAX];
    uint32_t len = load_key_write(text, request->id, request->key_bytes);
    struct kv_key key = kv_key(cache->kv, text, len);
    struct kv_change change = {0};
    struct kv_view view;

    switch (request->op) {
    case LOAD_SET:
        cache_set(cache, &key, request, now_s);
        return false;
    case LOAD_DELETE:
        kv_update(cache->worker, &key, delete_if_found, NULL, &change);
        return false;
    default:
        if (kv_get(cache->worker, &key, &view) == KV_HIT)
            return false;
        cache_set(cache, &key, request, now_s);
        return true;
    }
}

static bool is_get(const struct load_request *request)
{
    return request->op != LOAD_SET && request->op != LOAD_DELETE;
}

bool replay_engine(struct source *source, const struct source_facts *facts, uint64_t memory_bytes,
                   enum kv_policy_kind policy, uint64_t warm, struct replay_result *result)
{
    struct load_request request;
    struct kv_stats stats;
    struct cache cache;
    uint64_t i = 0;
    int got;

    *result = (struct replay_result){0};
    if (!cache_open(&cache, facts, memory_bytes, policy))
        return false;
    source_rewind(source);
    for (; (got = source_next(source, &request)) > 0; i++) {
        uint32_t now_s = request.time_s + 1;
        bool missed;
        if (i % REQUESTS_PER_LOOP == 0) {
            kv_tick(cache.worker, now_s);
            kv_quiesce(cache.worker);
        }
        missed = cache_request(&cache, &request, now_s);
        if (i >= warm) {
            result->gets += is_get(&request);
            result->misses += missed;
        }
        if (i % PROGRESS_EVERY == 0)
            report_progress("%s at %.1f MiB: %.0f %%", kv_policy_name(policy),
                            (double)memory_bytes / 0x1p20,
                            100.0 * (double)i / (double)facts->requests);
    }
    report_progress(NULL);
    kv_stats(cache.kv, &stats);
    result->items = (double)stats.items;
    result->taken_bytes = (double)stats.memory_used_bytes;
    cache_close(&cache);
    if (got < 0)
        return bench_fail("%s", source->error);
    if (cache.refused > 0)
        fprintf(stderr, "kvbench: note: %llu SETs were refused\n",
                (unsigned long long)cache.refused);
    return true;
}

bool replay_memcached(struct source *source, const struct source_facts *facts,
                      uint64_t memory_bytes, uint64_t warm, struct replay_result *result)
{
    char error[LOAD_ERROR_MAX];
    struct load_request request;
    struct memcached *memcached =
        memcached_start(source->options->memcached, memory_bytes, facts->value_bytes_max, error);
    uint64_t warm_hits = 0, warm_misses = 0;
    bool good = memcached != NULL;
    int got = 0;

    *result = (struct replay_result){0};
    source_rewind(source);
    for (uint64_t i = 0; good && (got = source_next(source, &request)) > 0; i++) {
        if (i == warm) {
            good = memcached_flush(memcached, error);
            warm_hits = memcached_hits(memcached);
            warm_misses = memcached_misses(memcached);
        }
        good = good && memcached_request(memcached, &request, error);
        if (i % PROGRESS_EVERY == 0)
            report_progress("memcached at %.1f MiB: %.0f %%", (double)memory_bytes / 0x1p20,
                            100.0 * (double)i / (double)facts->requests);
    }
    good = good && memcached_flush(memcached, error);
    report_progress(NULL);
    if (good) {
        result->misses = memcached_misses(memcached) - warm_misses;
        result->gets = memcached_hits(memcached) - warm_hits + result->misses;
        result->items = memcached_stat(memcached, NULL, "curr_items");
        result->taken_bytes = memcached_stat(memcached, "slabs", "total_malloced");
    }
    if (memcached)
        memcached_stop(memcached);
    return good ? got == 0 || bench_fail("%s", source->error) : bench_fail("%s", error);
}

/* Items that fit into a limit, of keys that are requested once. */
static bool items_at(struct source *source, const struct source_facts *facts, uint64_t objects,
                     uint64_t memory_bytes, double *items)
{
    double bytes = facts->footprint_bytes / (double)facts->objects;
    struct load_request request = {.key_bytes = 20, .value_bytes = 0};
    struct kv_stats stats;
    struct cache cache;

    if (bytes > request.key_bytes)
        request.value_bytes = (uint32_t)(bytes - request.key_bytes + 0.5);
    if (!cache_open(&cache, facts, memory_bytes, source->options->policies[0]))
        return false;
    kv_tick(cache.worker, 1);
    for (uint64_t i = 0; i < 3 * objects + 1000; i++) {
        request.id = i;
        (void)cache_request(&cache, &request, 1);
        if (i % REQUESTS_PER_LOOP == 0)
            kv_quiesce(cache.worker);
    }
    kv_stats(cache.kv, &stats);
    *items = (double)stats.items;
    cache_close(&cache);
    return true;
}

bool replay_bytes_for(struct source *source, const struct source_facts *facts, uint64_t objects,
                      uint64_t *memory_bytes)
{
    double bytes = (double)objects * (facts->footprint_bytes / (double)facts->objects + 64) + 1e6;

    for (unsigned try = 0; try < 12; try++) {
        double items;
        *memory_bytes = (uint64_t)(bytes < 0x1p20 ? 0x1p20 : bytes);
        report_progress("searching the limit for %llu items", (unsigned long long)objects);
        if (!items_at(source, facts, objects, *memory_bytes, &items))
            return false;
        if (fabs(items / (double)objects - 1) < 0.003 ||
            (bytes <= 0x1p20 && items > (double)objects))
            break;
        bytes = (double)*memory_bytes * (double)objects / (items > 1 ? items : 1);
    }
    report_progress(NULL);
    return true;
}
