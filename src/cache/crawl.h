/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lru_crawler crawl: a walk through the whole table that takes back what is expired or flushed. The
 * worker that was asked does it, a part in each of its loops. There is one at a time.
 */
#ifndef CACHE_CRAWL_H
#define CACHE_CRAWL_H

#include "cache/worker.h"

/* Starts a walk over the items of these classes (bits, of the engine). False if one is going on. */
bool cache_crawl_start(struct cache_worker *worker, uint64_t classes);

/* Once per loop: goes on with the worker's walk. */
void cache_crawl_tick(struct cache_worker *worker);

/* The worker leaves: its walk ends. */
void cache_crawl_leave(struct cache_worker *worker);

#endif
