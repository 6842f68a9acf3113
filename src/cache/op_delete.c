/* SPDX-License-Identifier: BSD-3-Clause */
/* delete, and its variants in the meta protocol: emptying an item, marking it stale. */
#include <string.h>

#include "cache/op.h"

struct delete_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    const struct cache_deletion *deletion;
    struct kv_item *empty; /* made by the last call */
    struct cache_lookup lookup;
    enum cache_outcome outcome;
};

struct kv_item *cache_item_new_empty(struct cache_worker *worker, const struct kv_key *key,
                                     uint32_t flags, uint32_t exptime)
{
    enum kv_error error;
    uint32_t room;
    struct kv_item *item =
        kv_item_new(worker->kv_worker, key, CACHE_CRLF_BYTES, flags, exptime, &error);

    if (item != NULL)
        memcpy(kv_item_room(item, 0, &room), "\r\n", CACHE_CRLF_BYTES);
    return item;
}

static enum kv_verdict decide_empty(struct delete_decision *decision, const struct kv_view *old,
                                    struct kv_change *change)
{
    const struct cache_deletion *deletion = decision->deletion;

    decision->empty =
        cache_item_new_empty(decision->worker, decision->key, deletion->flags, deletion->exptime);
    if (decision->empty == NULL) {
        decision->outcome = CACHE_NO_MEMORY;
        return KV_KEEP;
    }
    change->item = decision->empty;
    change->state = deletion->invalidate ? KV_STALE : 0;
    change->cas_given = deletion->has_new_cas || !deletion->invalidate;
    change->cas = deletion->has_new_cas ? deletion->new_cas : old->cas;
    if (!change->cas_given)
        change->cas = 0;
    return KV_REPLACE;
}

static enum kv_verdict decide_invalidate(const struct cache_deletion *deletion,
                                         const struct kv_view *old, struct kv_change *change)
{
    if (deletion->touch)
        change->exptime = deletion->exptime;
    change->state = (old->state | KV_STALE) & ~(uint32_t)KV_WON;
    change->unseen = true;
    change->cas_given = deletion->has_new_cas;
    change->cas = deletion->new_cas;
    return KV_RENEW;
}

static enum kv_verdict decide_delete(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct delete_decision *decision = ctx;
    const struct cache_deletion *deletion = decision->deletion;

    cache_item_drop(decision->worker, &decision->empty);
    decision->lookup = cache_lookup_of(old);
    decision->outcome = CACHE_NOT_FOUND;
    if (old == NULL)
        return KV_KEEP;
    decision->outcome = CACHE_EXISTS;
    if (deletion->compare && deletion->cas != cache_cas_shown(decision->worker, old->cas))
        return KV_KEEP;
    decision->outcome = CACHE_OK;
    if (deletion->empty)
        return decide_empty(decision, old, change);
    if (deletion->invalidate)
        return decide_invalidate(deletion, old, change);
    return KV_DELETE;
}

static enum cache_outcome key_delete(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_deletion *deletion,
                                     struct cache_lookup *lookup)
{
    struct delete_decision decision = {.worker = worker, .key = key, .deletion = deletion};
    struct kv_change change = {0};

    if (deletion->empty)
        kv_release_views(worker->kv_worker);
    kv_update(worker->kv_worker, key, decide_delete, &decision, &change);
    cache_gone_count(worker, change.gone);
    cache_log_lookup(worker, key, &decision.lookup);
    *lookup = decision.lookup;
    return decision.outcome;
}

/* Logs a requested deletion with its outcome. */
static void log_deletion(struct cache_worker *worker, const struct kv_key *key,
                         const struct cache_deletion *deletion, const struct cache_lookup *old,
                         enum cache_outcome outcome)
{
    struct cache_lookup gone = *old;

    if (outcome != CACHE_OK || deletion->invalidate || deletion->empty)
        gone.found = KV_MISS; /* not deleted */
    cache_log_delete(worker, key, &gone, deletion->meta ? "md" : "delete");
}

enum cache_outcome cache_delete(struct cache_worker *worker, const struct kv_key *key,
                                const struct cache_deletion *deletion)
{
    struct cache_lookup old;
    enum cache_outcome outcome = key_delete(worker, key, deletion, &old);

    if (outcome == CACHE_OK && !deletion->invalidate) {
        cache_count(worker, CACHE_DELETE_HITS, 1);
        cache_count_class(worker, CACHE_CLASS_DELETE_HITS, key->len, old.flags, old.value_len);
    } else if (outcome == CACHE_NOT_FOUND) {
        cache_count(worker, CACHE_DELETE_MISSES, 1);
    }
    log_deletion(worker, key, deletion, &old, outcome);
    return outcome;
}

void cache_key_remove(struct cache_worker *worker, const struct kv_key *key)
{
    const struct cache_deletion deletion = {0};
    struct cache_lookup old;

    key_delete(worker, key, &deletion, &old);
}
