/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delete.
 */
#include "cache/op.h"

struct delete_decision {
    const uint64_t *cas;
    enum cache_outcome outcome;
};

static enum kv_verdict decide_delete(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct delete_decision *deletion = ctx;

    deletion->outcome = CACHE_NOT_FOUND;
    if (old == NULL)
        return KV_KEEP;
    deletion->outcome = CACHE_EXISTS;
    if (deletion->cas != NULL && *deletion->cas != old->cas)
        return KV_KEEP;
    deletion->outcome = CACHE_OK;
    return KV_DELETE;
}

static enum cache_outcome key_delete(struct cache_worker *worker, const struct kv_key *key,
                                     const uint64_t *cas)
{
    struct delete_decision deletion = {.cas = cas};
    struct kv_change change = {0};

    kv_update(worker->kv_worker, key, decide_delete, &deletion, &change);
    return deletion.outcome;
}

enum cache_outcome cache_delete(struct cache_worker *worker, const struct kv_key *key,
                                const uint64_t *cas)
{
    enum cache_outcome outcome = key_delete(worker, key, cas);

    if (outcome == CACHE_OK)
        cache_count(worker, CACHE_DELETE_HITS, 1);
    else if (outcome == CACHE_NOT_FOUND)
        cache_count(worker, CACHE_DELETE_MISSES, 1);
    return outcome;
}

void cache_key_remove(struct cache_worker *worker, const struct kv_key *key)
{
    key_delete(worker, key, NULL);
}
