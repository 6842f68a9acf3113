/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lru_crawler crawl: a walk through the whole table that reclaims expired and flushed items. The
 * worker of the command makes a part of it in each loop. One crawl runs at a time.
 */
#ifndef CACHE_CRAWL_H
#define CACHE_CRAWL_H

#include "cache/cache_worker.h"

/* Starts a crawl of these classes (bits, of the engine). False if one is running. */
bool cache_crawl_start(struct cache_worker *worker, uint64_t classes);

/* Once per loop: continues the worker's crawl. */
void cache_crawl_tick(struct cache_worker *worker);

/* The worker leaves: its crawl ends. */
void cache_crawl_leave(struct cache_worker *worker);

#endif
