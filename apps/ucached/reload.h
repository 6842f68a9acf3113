/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that SIGHUP reads again: users (-Y, -S), rights (-o acl_file), the servers of a pool
 * (-o cluster_file), certificates (-Z).
 */
#ifndef UCACHED_RELOAD_H
#define UCACHED_RELOAD_H

#include "cache/cache.h"

/* Reads all but certificates at the start. Returns 0, or -1 after a message. */
int reload_first(struct cache *cache);

/* Whether there is a file to read again; certificates only with `has_tls`. */
bool reload_has_files(const struct cache *cache, bool has_tls);

/*
 * Reads all files again. `now_us`: the monotonic clock in microseconds, for the statistics of
 * certificates. Logs each file that was read; a file that is refused has no effect.
 */
void reload_all(struct cache *cache, bool has_tls, uint64_t now_us);

#endif
