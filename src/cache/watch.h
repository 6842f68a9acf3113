/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watchers: connections that receive a line for each event of all workers (`watch`).
 *
 * A watcher has one ring for each worker (watch_ring.h), so no event takes a lock. The workers take
 * a reference each in their next loop, and drop it in the loop after its end; the last one frees
 * it. The watcher's own worker writes the lines, in the order of the events' ids, as fast as the
 * client reads. Events that do not fit a ring are dropped and reported as "skipped=<n>".
 */
#ifndef CACHE_WATCH_H
#define CACHE_WATCH_H

#include "cache/event_log.h"
#include "cache/session.h"
#include "cache/watch_ring.h"

/* How often a watcher's worker looks for events of other workers. */
#define CACHE_WATCH_POLL_US 2000

/* Adds an event of this kind (CACHE_LOG_ bit) to the rings of its watchers; sets id and time. */
void cache_watch_publish(struct cache_worker *worker, unsigned kind, struct cache_event *event);

/* Renews the worker's references; returns the kinds that have watchers. */
unsigned cache_watch_update_refs(struct cache_worker *worker);

/* The worker leaves: drops its references. */
void cache_watch_leave(struct cache_worker *worker);

/* The number of watchers. The caller holds cache->lock. */
unsigned cache_watcher_count(const struct cache *cache);

/* Writes the line of an event, at most CACHE_WATCH_LINE_MAX bytes; returns its length. */
#define CACHE_WATCH_LINE_MAX 1024
uint32_t cache_watch_line(uint8_t *out, const struct cache_event *event);

#endif
