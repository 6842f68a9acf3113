/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes: a decision is made without a lock, then carried out under the lock of the key's chain,
 * if the key still is as the decision has seen it; else it is made again.
 *
 * "As seen" means: the key's slot holds the same word (the same item at the same place) and nobody
 * has touched its expiry, state or cas; or there still is no item. The word can't have been reused
 * for another item meanwhile: this worker has not been quiescent, and kv_item_mark_seen() keeps it
 * from reusing the memory itself.
 *
 * Liveness: a decision is repeated only if another worker changed the key, or if the decision
 * itself, by allocating, made the eviction move or remove the old item.
 */
#include "kv/engine.h"

#define CAS_RANGE 1024

struct update {
    struct kv_worker *worker;
    const struct kv_key *key;
    struct kv_change *change;
    struct kv_slot slot;  /* as found without the lock */
    struct kv_item *item; /* in slot; may be invalid, then `old` is null */
    const struct kv_view *old;
    enum kv_found validity;
};

/* ---- preparing --------------------------------------------------------------------------- */

/*
 * A number that no item has had. Ranges are handed out in order, so a new range is above all
 * numbers given so far, and an item can be given a larger one than the item it replaces.
 */
static uint64_t cas_give(struct kv_worker *worker, uint64_t above)
{
    if (worker->cas_next == worker->cas_end || worker->cas_next <= above) {
        worker->cas_next = kv_u64_fetch_add_relaxed(&worker->kv->cas_next, CAS_RANGE);
        worker->cas_end = worker->cas_next + CAS_RANGE;
    }
    return worker->cas_next++;
}

/* The cas of what replaces the old item. */
static uint64_t cas_of_new(struct update *update)
{
    const struct kv_change *change = update->change;
    if (change->cas != 0 || change->cas_given)
        return change->cas;
    return cas_give(update->worker, update->item ? kv_u64_load_relaxed(&update->item->cas) : 0);
}

static void look(struct update *update, struct kv_view *view)
{
    struct kv_worker *worker = update->worker;
    update->old = U_NULL;
    update->validity = KV_MISS;
    update->item = kv_index_find(&worker->kv->index, update->key, &update->slot);
    if (update->item) {
        kv_item_mark_seen(worker, update->item);
        update->validity = kv_item_validity(worker, update->item);
        if (update->validity == KV_HIT) {
            kv_view_fill(view, update->item);
            update->old = view;
        }
    }
    update->change->exptime = update->old ? update->old->exptime : 0;
    update->change->state = update->old ? update->old->state : 0;
}

/* The new item gets what only publication can tell, while it is still this worker's alone. */
static void item_finish(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_item *item = update->change->item;
    uint32_t state = update->change->state;
    uint64_t status = kv_item_status(item);
    uint8_t kind = kv_status_marks(status) & (KV_MARK_FLAGS | KV_MARK_LARGE);
    status = kv_status_with_marks(status, (uint8_t)(kind | (state & KV_MARK_STATE)));
    kv_item_status_set(item, status);
    uint32_t access = kv_access_make(worker->now_s, (state & KV_FETCHED) ? KV_ACCESS_FETCHED : 0);
    kv_u32_store_relaxed(&item->access, access);
}

/* ---- carrying out (under the lock) ------------------------------------------------------- */

static bool is_as_seen(const struct update *update)
{
    struct kv_slot now;
    const struct kv_view *old = update->old;
    const struct kv_item *item = kv_index_find(&update->worker->kv->index, update->key, &now);
    if (now.word != update->slot.word)
        return false;
    return !old ||
           (kv_item_exptime(item) == old->exptime && kv_u64_load_relaxed(&item->cas) == old->cas &&
            ((kv_item_state(item) ^ old->state) & KV_MARK_STATE) == 0);
}

/* The entry of a full chain that is worth least. There is one: the chain is full. */
static struct kv_slot worst_of_chain(const struct update *update, struct kv_bucket *head)
{
    const struct kv_index *index = &update->worker->kv->index;
    struct kv_slot worst = {U_NULL, 0};
    uint64_t worst_rank = UINT64_MAX;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            const struct kv_item *item = kv_word_item(index, word);
            uint32_t access = kv_item_access(item);
            uint64_t rank = kv_access_seconds(access);
            if (access & KV_ACCESS_RECENT)
                rank |= UINT64_C(1) << 32;
            if (kv_item_validity(update->worker, item) == KV_HIT)
                rank |= UINT64_C(1) << 33;
            if (rank < worst_rank) {
                worst_rank = rank;
                worst.at = &bucket->slot[i];
                worst.word = word;
            }
        }
    }
    return worst;
}

/*
 * Publishes a new item in the slot of the old one, or in a free slot. `*evicted` is what had to
 * make way in a chain that was full, or null.
 */
static void publish(const struct update *update, struct kv_bucket *head, struct kv_item **evicted)
{
    struct kv_worker *worker = update->worker;
    const struct kv_index *index = &worker->kv->index;
    struct kv_item *item = update->change->item;
    /* Under the lock: the purge passes this chain either before us, then we see the new number. */
    uint8_t generation = (uint8_t)kv_u32_load_relaxed(&worker->kv->generation);
    kv_item_status_set(item, kv_status_with_generation(kv_item_status(item), generation));

    struct kv_slot to = update->slot;
    *evicted = U_NULL;
    if (update->item) {
        kv_item_mark(update->item, KV_MARK_DEAD);
    } else {
        to.at = kv_chain_empty_slot(index, head, &worker->spare_bucket);
        if (U_UNLIKELY(!to.at)) {
            to = worst_of_chain(update, head);
            *evicted = kv_word_item(index, to.word);
            kv_item_mark(*evicted, KV_MARK_DEAD);
        }
    }
    kv_u64_store_release(to.at, kv_word_of(index, update->key->hash, item));
}

/* ---- the verdicts ------------------------------------------------------------------------ */

static enum kv_end end_of_old(const struct update *update)
{
    switch (update->validity) {
    case KV_MISS_EXPIRED:
        return KV_END_EXPIRED;
    case KV_MISS_FLUSHED:
        return KV_END_FLUSHED;
    default:
        return KV_END_REPLACED;
    }
}

/* Each returns false if the key was not as seen. */

static bool carry_replace(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_bucket *head = kv_index_chain(&worker->kv->index, update->key->hash);
    struct kv_item *item = update->change->item;
    struct kv_item *evicted = U_NULL;

    item_finish(update);
    uint64_t cas = cas_of_new(update);
    kv_u64_store_relaxed(&item->cas, cas);
    if (!update->item && worker->spare_bucket == 0)
        worker->spare_bucket = kv_index_pool_take(worker);
    kv_item_charge(worker, item);

    kv_chain_lock(head);
    bool as_seen = is_as_seen(update);
    if (as_seen)
        publish(update, head, &evicted);
    kv_chain_unlock(head);

    if (!as_seen) {
        kv_item_uncharge(worker, item);
        return false;
    }
    update->change->cas = cas;
    kv_linked(worker, item);
    if (update->item)
        kv_unlinked(worker, update->item, end_of_old(update));
    if (evicted)
        kv_unlinked(worker, evicted, KV_END_EVICTED);
    return true;
}

static bool carry_delete(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_bucket *head = kv_index_chain(&worker->kv->index, update->key->hash);
    kv_chain_lock(head);
    bool as_seen = is_as_seen(update);
    if (as_seen) {
        kv_item_mark(update->item, KV_MARK_DEAD);
        kv_u64_store_relaxed(update->slot.at, 0);
    }
    kv_chain_unlock(head);
    if (as_seen)
        kv_unlinked(worker, update->item, KV_END_DELETED);
    return as_seen;
}

static void touch_item(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_item *item = update->item;
    const struct kv_change *change = update->change;
    uint64_t status = kv_item_status(item);
    uint64_t wanted;
    do {
        unsigned kind = kv_status_marks(status) & ~(unsigned)KV_MARK_STATE;
        wanted = kv_status_with_exptime(status, change->exptime);
        wanted = kv_status_with_marks(wanted, (uint8_t)(kind | (change->state & KV_MARK_STATE)));
    } while (!kv_item_status_cas(item, &status, wanted));
    kv_item_note_exptime(worker, item, change->exptime);
    if (change->unseen)
        return;
    uint32_t was = kv_item_access(item);
    uint32_t access = kv_access_make(kv_access_seconds(was), 0);
    if (change->state & KV_FETCHED)
        access = kv_access_make(worker->now_s, KV_ACCESS_FETCHED | KV_ACCESS_RECENT);
    kv_item_access_set(item, was, access);
}

static bool carry_touch(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_bucket *head = kv_index_chain(&worker->kv->index, update->key->hash);
    kv_chain_lock(head);
    bool as_seen = is_as_seen(update);
    if (as_seen)
        touch_item(update);
    kv_chain_unlock(head);
    return as_seen;
}

static bool carry_renew(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_bucket *head = kv_index_chain(&worker->kv->index, update->key->hash);
    uint64_t cas = cas_of_new(update);
    kv_chain_lock(head);
    bool as_seen = is_as_seen(update);
    if (as_seen) {
        touch_item(update);
        kv_u64_store_relaxed(&update->item->cas, cas);
        update->change->cas = cas;
    }
    kv_chain_unlock(head);
    return as_seen;
}

/* Nothing is to be changed; but an item that is over is taken away, as kv_get() does. */
static bool carry_keep(struct update *update)
{
    if (update->item && !update->old)
        kv_remove_invalid(update->worker, update->item, update->key->hash, update->slot.word,
                          update->validity);
    return true;
}

static bool carry_out(struct update *update, enum kv_verdict verdict)
{
    switch (verdict) {
    case KV_KEEP:
        return carry_keep(update);
    case KV_REPLACE:
        return carry_replace(update);
    case KV_DELETE:
        return carry_delete(update);
    case KV_TOUCH:
        return carry_touch(update);
    case KV_RENEW:
        return carry_renew(update);
    }
    U_ASSERT(!"a verdict");
    return true;
}

enum kv_verdict kv_update(struct kv_worker *worker, const struct kv_key *key, kv_decide *decide,
                          void *ctx, struct kv_change *change)
{
    struct update update = {.worker = worker, .key = key, .change = change};
    struct kv_view view;
    uint64_t cas = change->cas;
    for (;;) {
        look(&update, &view);
        change->cas = cas;
        enum kv_verdict verdict = decide(ctx, update.old, change);
        if (!update.old && verdict != KV_REPLACE)
            verdict = KV_KEEP;
        if (carry_out(&update, verdict))
            return verdict;
        kv_count(worker, KV_COUNT_RETRIES, 1);
    }
}
