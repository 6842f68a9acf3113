/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache and its workers: made, joined, told the time, left.
 */
#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/line.h"
#include "cache/op.h"
#include "cache/session.h"

struct cache *cache_create(const struct cache_config *config, const char **error)
{
    const struct cache_settings *settings = &config->settings;
    struct kv_config kv_config = {
        .memory_bytes = settings->memory_bytes,
        .value_bytes_max = settings->item_bytes_max,
        .worker_max = settings->threads,
        .evict = settings->evict,
    };
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
    memcpy(kv_config.secret, config->secret, sizeof(kv_config.secret));
    cache->kv = kv_create(&kv_config, error);
    if (cache->kv == NULL) {
        free(cache);
        return NULL;
    }
    cache->settings = *settings;
    cache->start_us = config->start_us;
    cache->start_unix_s = config->start_unix_s;
    atomic_init(&cache->verbosity, settings->verbosity);
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->auth_lock, NULL);
    return cache;
}

void cache_destroy(struct cache *cache)
{
    for (unsigned i = 0; i < cache->settings.threads; i++)
        U_ASSERT(cache->workers[i] == NULL);
    kv_destroy(cache->kv);
    pthread_mutex_destroy(&cache->lock);
    pthread_mutex_destroy(&cache->auth_lock);
    free(cache);
}

unsigned cache_verbosity(const struct cache *cache)
{
    return atomic_load_explicit(&cache->verbosity, memory_order_relaxed);
}

/* ---- workers ----------------------------------------------------------------------------- */

static void worker_init(struct cache_worker *worker, struct cache *cache, unsigned index)
{
    memset(worker, 0, sizeof(*worker));
    worker->cache = cache;
    worker->kv = cache->kv;
    worker->index = index;
    worker->requests_per_event = cache->settings.requests_per_event;
    if (worker->requests_per_event == 0)
        worker->requests_per_event = UINT32_MAX;
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

struct cache_worker *cache_join(struct cache *cache)
{
    struct cache_worker *worker =
        aligned_alloc(_Alignof(struct cache_worker), sizeof(struct cache_worker));
    bool registered;

    if (worker == NULL)
        return NULL;
    pthread_mutex_lock(&cache->lock);
    registered = worker_register(cache, worker);
    pthread_mutex_unlock(&cache->lock);
    if (!registered) {
        free(worker);
        return NULL;
    }
    cache_tick(worker, cache->start_us);
    return worker;
}

void cache_leave(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < CACHE_COUNTER_COUNT; i++)
        cache->left[i] += atomic_load_explicit(&worker->counters[i], memory_order_relaxed);
    cache->workers[worker->index] = NULL;
    pthread_mutex_unlock(&cache->lock);
    kv_leave(worker->kv_worker);
    cache_session_pool_free(worker);
    cache_line_pool_free(worker);
    pthread_mutex_destroy(&worker->session_lock);
    free(worker);
}

void cache_tick(struct cache_worker *worker, uint64_t now_us)
{
    worker->loop++;
    if (cache_clock_set(worker, now_us))
        kv_tick(worker->kv_worker, worker->now_s);
    cache_flush_tick(worker);
    kv_quiesce(worker->kv_worker);
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

static void counters_total(const struct cache *cache, uint64_t sums[CACHE_COUNTER_COUNT])
{
    memcpy(sums, cache->left, sizeof(cache->left));
    for (unsigned w = 0; w < cache->settings.threads; w++) {
        const struct cache_worker *worker = cache->workers[w];

        for (unsigned i = 0; worker != NULL && i < CACHE_COUNTER_COUNT; i++)
            sums[i] += atomic_load_explicit(&worker->counters[i], memory_order_relaxed);
    }
}

void cache_counters_sum(const struct cache *cache, uint64_t sums[CACHE_COUNTER_COUNT])
{
    counters_total(cache, sums);
    for (unsigned i = 0; i < CACHE_COUNTER_COUNT; i++)
        sums[i] -= cache->base[i];
}

void cache_counters_reset(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    counters_total(cache, cache->base);
    pthread_mutex_unlock(&cache->lock);
    kv_stats_reset(cache->kv);
}
