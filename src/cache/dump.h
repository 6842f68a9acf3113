/* SPDX-License-Identifier: BSD-3-Clause */
/* Dumps of what the cache holds: lru_crawler metadump and mgdump, stats cachedump. */
#ifndef CACHE_DUMP_H
#define CACHE_DUMP_H

#include "cache/session.h"

enum cache_dump_kind { CACHE_DUMP_METADUMP = 0, CACHE_DUMP_MGDUMP, CACHE_DUMP_CACHEDUMP };

/*
 * Reads the classes of a dump: "all", "hash", or ids separated by commas. Bit n of *classes is the
 * engine's class n. False if an id is out of range.
 */
bool cache_dump_classes(const uint8_t *word, uint32_t len, uint64_t *classes);

/* Sends a metadump or mgdump as the session's task. */
int cache_dump_start(struct cache_session *session, enum cache_dump_kind kind, uint64_t classes,
                     struct cache_sink *sink);

/*
 * stats cachedump: items of memcached's class `class_id`, at most `limit` (0: no limit) and 2 MiB.
 */
int cache_dump_class(struct cache_session *session, uint32_t class_id, uint32_t limit,
                     struct cache_sink *sink);

#endif
