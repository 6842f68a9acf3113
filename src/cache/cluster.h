/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Auto-discovery: each server of a pool sends the list of all its servers to clients that request
 * it, in the wire format of Amazon ElastiCache.
 *
 * The list is that of the file of -o cluster_file. Its first word is the version, a number that
 * grows with each change; then follow the servers, "name|address|port", separated by blanks or line
 * ends; the address may be empty. A line that starts with '#' is a comment.
 */
#ifndef CACHE_CLUSTER_H
#define CACHE_CLUSTER_H

#include "cache/session.h"

#define CACHE_CLUSTER_NODES_MAX 256
#define CACHE_CLUSTER_TEXT_MAX (32 * 1024)

/* Clients that do not know the command `config` get this key instead. */
#define CACHE_CLUSTER_KEY "AmazonElastiCache:cluster"

/* Whether a get of this key that misses is answered by cache_cluster_value(). */
static inline bool cache_cluster_has_key(const struct cache_worker *worker,
                                         const struct kv_key *key)
{
    return key->len == sizeof(CACHE_CLUSTER_KEY) - 1 &&
           worker->cache->settings.cluster_file != NULL &&
           memcmp(key->bytes, CACHE_CLUSTER_KEY, sizeof(CACHE_CLUSTER_KEY) - 1) == 0;
}

/*
 * Writes the list as the value of CACHE_CLUSTER_KEY, with the version as its cas. There is a list:
 * settings.cluster_file is not null. Returns 0, or -1 if the transport has no memory.
 */
int cache_cluster_value(struct cache_worker *worker, struct cache_sink *sink, bool with_cas);

/* The command `config`; without a list it answers as a memcached, which does not have it. */
int cache_cluster_config(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink);

/* Frees the list, if there is one. */
void cache_cluster_free(struct cache *cache);

#endif
