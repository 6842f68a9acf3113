/* SPDX-License-Identifier: BSD-3-Clause */
/* lru_crawler crawl. */
#include "cache/op.h"

/* The part of one loop. */
static const struct kv_quantum part = {.chains = 1024, .items = 256};

bool cache_crawl_start(struct cache_worker *worker, uint64_t classes)
{
    struct cache *cache = worker->cache;

    if (atomic_exchange_explicit(&cache->crawling, true, memory_order_acquire))
        return false;
    worker->crawl = (struct cache_crawl){.running = true, .classes = classes};
    cache_count(worker, CACHE_CRAWLER_STARTS, 1);
    return true;
}

static void crawl_end(struct cache_worker *worker)
{
    worker->crawl.running = false;
    atomic_store_explicit(&worker->cache->crawling, false, memory_order_release);
}

void cache_crawl_tick(struct cache_worker *worker)
{
    struct cache_crawl *crawl = &worker->crawl;

    if (crawl->running && !kv_crawl(worker->kv_worker, &crawl->cursor, &part, crawl->classes))
        crawl_end(worker);
}

void cache_crawl_leave(struct cache_worker *worker)
{
    if (worker->crawl.running)
        crawl_end(worker);
}
