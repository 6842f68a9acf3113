/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache and its workers: create, join, tick, leave; the sums of the counters. */
#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/acl.h"
#include "cache/clock.h"
#include "cache/cluster.h"
#include "cache/event_log.h"
#include "cache/hot_keys.h"
#include "cache/latency.h"
#include "cache/linebuf.h"
#include "cache/op.h"
#include "cache/prefix_stats.h"
#include "cache/session.h"
#include "cache/slab_class.h"
#include "cache/upload.h"
#include "cache/watch.h"

/* The address space reserved for a later cache_memlimit, as a multiple of -m and at least. */
#define MEMORY_GROWTH_MAX 16
#define MEMORY_BYTES_MAX_LEAST (UINT64_C(1) << 30)

static uint64_t memory_bytes_max(const struct cache_settings *settings)
{
    return u_max64(settings->memory_bytes * MEMORY_GROWTH_MAX, MEMORY_BYTES_MAX_LEAST);
}

/* Frees a cache that may be incomplete. */
static void parts_free(struct cache *cache)
{
    if (cache->kv != NULL)
        kv_destroy(cache->kv);
    if (cache->prefixes != NULL)
        cache_prefixes_free(cache->prefixes);
    free(cache);
}

/* The engine's configuration. `file` is set if it has one, and has to outlive it. */
static struct kv_config engine_config(const struct cache_config *config, struct kv_file *file)
{
    const struct cache_settings *settings = &config->settings;
    struct kv_config kv_config = {
        .memory_bytes = settings->memory_bytes,
        .memory_bytes_max = memory_bytes_max(settings),
        .value_bytes_max = settings->item_bytes_max,
        .worker_max = settings->threads,
        .evict = settings->evict,
        .policy = settings->evict_policy,
        .huge_pages = config->huge_pages,
        .dump_items = config->dump_items,
        .numa_nodes = config->numa_nodes,
        .touch_ahead_bytes = config->touch_ahead_bytes,
    };

    /* Without cas, items have none: one that was restored with cas on would be 0. */
    *file = (struct kv_file){.fd = config->memory_fd, .tag = settings->cas_disabled};
    if (settings->memory_file != NULL)
        kv_config.file = file;
    memcpy(kv_config.secret, config->secret, sizeof(kv_config.secret));
    cache_slab_classes(settings, &kv_config.sizes);
    return kv_config;
}

/* Creates the engine and the cache's own tables. Returns null, or an error message. */
static const char *parts_create(struct cache *cache, const struct cache_config *config)
{
    struct kv_file file;
    struct kv_config kv_config = engine_config(config, &file);
    const char *error = NULL;
    bool valid;

    valid = kv_sizes_init(&kv_config.sizes);
    U_ASSERT(valid);
    cache->sizes = kv_config.sizes;
    cache->prefixes = cache_prefixes_new();
    if (cache->prefixes == NULL)
        return "out of memory for the cache's own tables: give it a machine with more";
    cache->kv = kv_create(&kv_config, &error);
    return error;
}

/* The time that the cache was stopped counts, unless the system's clock has gone back. */
static void clock_start(struct cache *cache)
{
    const struct kv_restored *restored = kv_restored(cache->kv);
    uint64_t start_s = CACHE_CLOCK_START_S;

    if (restored->restored) {
        start_s = restored->saved.now_s;
        if (cache->start_unix_s > restored->saved.unix_s)
            start_s += cache->start_unix_s - restored->saved.unix_s;
        atomic_init(&cache->flush_due_s, restored->saved.note);
    }
    cache->clock_start_s = (uint32_t)u_min64(start_s, CACHE_CLOCK_START_MAX_S);
}

struct cache *cache_create(const struct cache_config *config, const char **error)
{
    const struct cache_settings *settings = &config->settings;
    struct cache *cache;

    if (settings->threads == 0) {
        *error = "no threads: give at least one";
        return NULL;
    }
    cache = calloc(1, sizeof(*cache) + settings->threads * sizeof(struct cache_worker *));
    if (cache == NULL) {
        *error = "out of memory for the cache's own tables: give it a machine with more";
        return NULL;
    }
    cache->settings = *settings;
    if (cache->settings.prefix_delimiter == '\0')
        cache->settings.prefix_delimiter = ':';
    *error = parts_create(cache, config);
    if (*error != NULL) {
        parts_free(cache);
        return NULL;
    }
    cache->start_us = config->start_us;
    cache->start_unix_s = config->start_unix_s;
    cache->start_unix_us = config->start_unix_us;
    clock_start(cache);
    cache->shutdown = config->shutdown;
    cache->shutdown_ctx = config->shutdown_ctx;
    cache->refresh_certs = config->refresh_certs;
    cache->refresh_certs_ctx = config->refresh_certs_ctx;
    atomic_init(&cache->certs_read_us, config->start_us);
    cache->log = config->log;
    cache->log_refusal = config->log_refusal;
    atomic_init(&cache->verbosity, settings->verbosity);
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->auth_lock, NULL);
    pthread_mutex_init(&cache->cluster_lock, NULL);
    (void)gethostname(cache->sasl_host, sizeof(cache->sasl_host) - 1);
    return cache;
}

void cache_placement(const struct cache *cache, struct kv_placement *placement)
{
    kv_placement(cache->kv, placement);
}

const struct kv_restored *cache_restored(const struct cache *cache)
{
    return kv_restored(cache->kv);
}

const char *cache_save(struct cache *cache, uint64_t now_us, uint64_t unix_s)
{
    const struct kv_moment moment = {
        .unix_s = unix_s,
        .now_s = cache_clock_at(cache, now_us),
        .note = atomic_load_explicit(&cache->flush_due_s, memory_order_relaxed),
    };

    return kv_save(cache->kv, &moment);
}

void cache_save_undo(struct cache *cache)
{
    kv_save_undo(cache->kv);
}

const char *cache_examine_memory(const struct cache_config *config)
{
    struct kv_file file;
    struct kv_config kv_config = engine_config(config, &file);

    return kv_file_examine(&kv_config);
}

void cache_destroy(struct cache *cache)
{
    for (unsigned i = 0; i < cache->settings.threads; i++)
        U_ASSERT(cache->workers[i] == NULL);
    pthread_mutex_destroy(&cache->lock);
    cache_acl_drop(cache, cache->acl);
    pthread_mutex_destroy(&cache->auth_lock);
    pthread_mutex_destroy(&cache->cluster_lock);
    cache_cluster_free(cache);
    free(cache->auth);
    parts_free(cache);
}

unsigned cache_verbosity(const struct cache *cache)
{
    return atomic_load_explicit(&cache->verbosity, memory_order_relaxed);
}

int cache_refresh_certs(struct cache *cache, uint64_t now_us, char error[CACHE_ERROR_MAX])
{
    U_ASSERT(cache->refresh_certs != NULL);
    if (cache->refresh_certs(cache->refresh_certs_ctx, error) < 0)
        return -1;
    atomic_store_explicit(&cache->certs_read_us, now_us, memory_order_relaxed);
    return 0;
}

/* ---- workers ----------------------------------------------------------------------------- */

static void worker_init(struct cache_worker *worker, struct cache *cache, unsigned index)
{
    worker->cache = cache;
    worker->kv = cache->kv;
    worker->index = index;
    u_prng_seed(&worker->hot_prng, index);
    worker->long_value_loop = worker->loop - CACHE_LONG_VALUE_LOOPS;
    worker->requests_per_event = cache->settings.requests_per_event;
    if (worker->requests_per_event == 0)
        worker->requests_per_event = UINT32_MAX;
    u_list_init(&worker->eager);
    u_list_init(&worker->uploads);
    pthread_mutex_init(&worker->session_lock, NULL);
}

static bool worker_register(struct cache *cache, struct cache_worker *worker)
{
    for (unsigned i = 0; i < cache->settings.threads; i++) {
        if (cache->workers[i] == NULL) {
            worker_init(worker, cache, i);
            worker->kv_worker = kv_join(cache->kv);
            if (worker->kv_worker == NULL) {
                pthread_mutex_destroy(&worker->session_lock);
                return false;
            }
            cache->workers[i] = worker;
            return true;
        }
    }
    return false;
}

static void worker_free(struct cache_worker *worker)
{
    if (worker->hot != NULL)
        cache_hot_free(worker->hot);
    free(worker->latency);
    free(worker);
}

/* Zeroed; the pages of histograms that stay empty are never touched. Null: no memory. */
static struct cache_worker *worker_new(void)
{
    struct cache_worker *worker =
        aligned_alloc(_Alignof(struct cache_worker), sizeof(struct cache_worker));

    if (worker == NULL)
        return NULL;
    memset(worker, 0, sizeof(*worker));
    worker->latency = calloc(CACHE_LATENCY_CLASSES, sizeof(worker->latency[0]));
    worker->hot = cache_hot_new();
    if (worker->latency != NULL && worker->hot != NULL)
        return worker;
    worker_free(worker);
    return NULL;
}
struct cache_worker *cache_join(struct cache *cache)
{
    struct cache_worker *worker = worker_new();
    bool registered;

    if (worker == NULL)
        return NULL;
    pthread_mutex_lock(&cache->lock);
    registered = worker_register(cache, worker);
    pthread_mutex_unlock(&cache->lock);
    if (!registered) {
        worker_free(worker);
        return NULL;
    }
    cache_tick(worker, cache->start_us);
    cache_log_mask_update(worker);
    return worker;
}

static void sums_add(struct cache_sums *sums, const struct cache_worker *worker)
{
    const struct kv_sizes *sizes = &worker->cache->sizes;

    for (unsigned i = 0; i < CACHE_COUNTER_COUNT; i++)
        sums->counters[i] += atomic_load_explicit(&worker->counters[i], memory_order_relaxed);
    for (unsigned class = 0; class < sizes->class_count; class ++)
        for (unsigned i = 0; i < CACHE_CLASS_COUNTER_COUNT; i++)
            sums->classes[class][i] +=
                atomic_load_explicit(&worker->classes[class][i], memory_order_relaxed);
    for (uint32_t bytes = 0; bytes < U_ARRAY_LEN(worker->inline_len_hits); bytes++) {
        unsigned class = kv_sizes_class(sizes, kv_sizes_of(sizes, bytes, 0, 0));

        sums->classes[class][CACHE_CLASS_GET_HITS] +=
            atomic_load_explicit(&worker->inline_len_hits[bytes], memory_order_relaxed);
    }
}

void cache_leave(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;

    U_ASSERT(worker->resumable_count == 0 && u_list_is_empty(&worker->uploads));
    cache_crawl_leave(worker);
    cache_watch_leave(worker);
    pthread_mutex_lock(&cache->lock);
    sums_add(&cache->left, worker);
    cache_latency_leave(worker);
    cache->workers[worker->index] = NULL;
    pthread_mutex_unlock(&cache->lock);
    kv_leave(worker->kv_worker);
    cache_acl_drop(cache, worker->acl);
    cache_session_pool_free(worker);
    cache_linebuf_pool_free(worker);
    pthread_mutex_destroy(&worker->session_lock);
    worker_free(worker);
}

void cache_suspend(struct cache_worker *worker)
{
    U_ASSERT(u_list_is_empty(&worker->uploads));
    cache_crawl_leave(worker);
    kv_leave(worker->kv_worker);
    worker->kv_worker = NULL;
}

bool cache_continue(struct cache_worker *worker)
{
    worker->kv_worker = kv_join(worker->kv);
    if (worker->kv_worker == NULL)
        return false;
    kv_tick(worker->kv_worker, worker->now_s);
    cache_log_mask_update(worker);
    return true;
}

void cache_tick(struct cache_worker *worker, uint64_t now_us)
{
    worker->loop++;
    if (cache_clock_set(worker, now_us))
        kv_tick(worker->kv_worker, worker->now_s);
    cache_log_tick(worker);
    cache_flush_tick(worker);
    cache_crawl_tick(worker);
    cache_upload_tick(worker);
    kv_quiesce(worker->kv_worker);
}

/* While the memory limit changes, each loop does a part of the work. */
#define SLEEP_RESIZING_US 1000

/* How late an upload without progress is noticed. */
#define SLEEP_UPLOADS_US 1000000

uint32_t cache_sleep_us_max(const struct cache_worker *worker)
{
    if (worker->crawl.running || worker->resumable_count > worker->watching)
        return 0;
    if (kv_is_resizing(worker->kv))
        return SLEEP_RESIZING_US;
    if (worker->watching > 0)
        return CACHE_WATCH_POLL_US;
    return u_list_is_empty(&worker->uploads) ? UINT32_MAX : SLEEP_UPLOADS_US;
}

void cache_offline(struct cache_worker *worker)
{
    kv_offline(worker->kv_worker);
}

void cache_online(struct cache_worker *worker)
{
    kv_online(worker->kv_worker);
}

void cache_release(struct cache_worker *worker, void *cookie)
{
    kv_unpin(worker->kv_worker, cookie);
}

void cache_accept_stopped(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;

    if (atomic_fetch_add_explicit(&cache->accept_stopped, 1, memory_order_relaxed) == 0)
        cache_count(worker, CACHE_LISTEN_DISABLED_NUM, 1);
}

void cache_accept_resumed(struct cache_worker *worker, uint64_t stopped_us)
{
    struct cache *cache = worker->cache;

    if (atomic_fetch_sub_explicit(&cache->accept_stopped, 1, memory_order_relaxed) == 1)
        cache_count(worker, CACHE_LISTEN_DISABLED_US, stopped_us);
}

/* ---- counters ---------------------------------------------------------------------------- */

static void counters_total(const struct cache *cache, struct cache_sums *sums)
{
    *sums = cache->left;
    for (unsigned w = 0; w < cache->settings.threads; w++)
        if (cache->workers[w] != NULL)
            sums_add(sums, cache->workers[w]);
    for (unsigned class = 0; class < KV_CLASSES_MAX; class ++)
        sums->counters[CACHE_GET_HITS] += sums->classes[class][CACHE_CLASS_GET_HITS];
    sums->counters[CACHE_CMD_GET] =
        sums->counters[CACHE_GET_HITS] + sums->counters[CACHE_GET_MISSES];
}

void cache_counters_sum(const struct cache *cache, struct cache_sums *sums)
{
    counters_total(cache, sums);
    for (unsigned i = 0; i < CACHE_COUNTER_COUNT; i++)
        sums->counters[i] -= cache->base.counters[i];
    for (unsigned class = 0; class < KV_CLASSES_MAX; class ++)
        for (unsigned i = 0; i < CACHE_CLASS_COUNTER_COUNT; i++)
            sums->classes[class][i] -= cache->base.classes[class][i];
}

void cache_counters_reset(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    counters_total(cache, &cache->base);
    cache_latency_reset(cache);
    cache_hot_reset(cache);
    pthread_mutex_unlock(&cache->lock);
    kv_stats_reset(cache->kv);
    cache_prefix_reset(cache);
}
