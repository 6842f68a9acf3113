/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watchers: connections that are told, line by line, what happens in all workers (`watch`).
 *
 * A watcher has one ring for each worker (watch_ring.h), so no event needs a lock. The workers
 * learn of it in their next loop, when they take a reference each; its memory goes when the last
 * one has learnt of its end. Its own worker writes the lines, in the order of the events' ids, as
 * fast as the client reads. What the client is too slow for is dropped and told as "skipped=<n>".
 */
#ifndef CACHE_WATCH_H
#define CACHE_WATCH_H

#include "cache/note.h"
#include "cache/session.h"
#include "cache/watch_ring.h"

/* How often a watcher's worker looks for events of other workers. */
#define CACHE_WATCH_POLL_US 2000

/* watch [kinds] */
int cache_exec_watch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink);

/* Gives an event of these kinds (CACHE_NOTE_ bits) to who wants it; fills in its id and time. */
void cache_watch_tell(struct cache_worker *worker, unsigned kind, struct cache_event *event);

/* Brings the worker's references up to date; returns the kinds that somebody watches. */
unsigned cache_watch_adopt(struct cache_worker *worker);

/* The worker leaves: it has no references any more. */
void cache_watch_leave(struct cache_worker *worker);

/* Watchers that there are. The caller holds cache->lock. */
unsigned cache_watcher_count(const struct cache *cache);

/* A line of a stream, at most CACHE_WATCH_LINE_MAX bytes; returns its length. */
#define CACHE_WATCH_LINE_MAX 1024
uint32_t cache_watch_line(uint8_t *out, const struct cache_event *event);

#endif
