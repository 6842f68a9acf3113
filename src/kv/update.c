/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes: kv_update() calls a decision function on the result of a lookup and carries the decision
 * out by compare-and-swap if the key has not changed since the lookup; else it repeats both.
 *
 *   no old item            insert                           kv_index_insert() checks the key again
 *   replace, delete        seal the old item, swap its word
 *   touch                  swap the old item's status
 *   renew, touch if sealed seal the old item, swap its word for that of a changed copy
 *
 * Sealing sets KV_MARK_SEALED by a compare-and-swap from the status that the decision saw. It fails
 * if the item was touched since; once it has succeeded the item is not touched any more. So the
 * decision stays valid until the word is swapped, and a copy has the final values. Sealing does not
 * exclude other workers from swapping the word: a worker that meets a sealed item swaps as well,
 * and the first swap wins. So no worker waits for the one that sealed.
 *
 * A slot's word identifies the item: its memory cannot have been reused, because this worker has
 * not been quiescent, and kv_item_mark_seen() keeps it from reusing the memory itself. Only the
 * worker whose swap removed an item accounts for it.
 *
 * Pairs: the swap of a status (acq_rel) reads what the last one wrote, so changes of an item are in
 * one order, with sealing as the last before DEAD. Sealing precedes the swap of the word (release),
 * so a worker that finds the successor (acquire) finds the old item sealed. Of the swap of a touch
 * and a sweep's of the same status (sweep.c) the later one sees what preceded the other.
 *
 * Liveness: a decision is repeated only if another worker changed the key, or if the decision's own
 * allocation made the eviction move or remove the old item.
 */
#include "kv/engine.h"

#define CAS_RANGE 1024

struct update {
    struct kv_worker *worker;
    const struct kv_key *key;
    struct kv_change *change;
    struct kv_find
        found; /* item null: key not found. An invalid item is found, but `old` is null */
    const struct kv_view *old;
    enum kv_found validity;
    uint64_t flushes; /* before the lookup */
};

/* ---- preparing --------------------------------------------------------------------------- */

/*
 * A cas number that no item has had, larger than `above`. Workers reserve ranges in order, so a new
 * range is above all numbers used so far.
 */
static uint64_t cas_give(struct kv_worker *worker, uint64_t above)
{
    if (worker->cas_next == worker->cas_end || worker->cas_next <= above) {
        worker->cas_next = kv_u64_fetch_add_relaxed(&worker->kv->cas_next, CAS_RANGE);
        worker->cas_end = worker->cas_next + CAS_RANGE;
    }
    return worker->cas_next++;
}

/* The cas of the new item. */
static uint64_t cas_of_new(struct update *update)
{
    const struct kv_change *change = update->change;
    if (change->cas != 0 || change->cas_given)
        return change->cas;
    return cas_give(update->worker, update->found.item ? kv_item_cas(update->found.item) : 0);
}

static void lookup(struct update *update, struct kv_view *view)
{
    struct kv_worker *worker = update->worker;
    update->old = U_NULL;
    update->validity = KV_MISS;
    update->flushes = kv_generation_number(kv_u64_load_acquire(&worker->kv->generation));
    worker->viewed_version = worker->view_version; /* the slot is viewed even if it is empty */
    if (!kv_index_find(&worker->kv->index, update->key, &update->found)) {
        update->found.item = U_NULL;
    } else {
        kv_found_mark_seen(worker, &update->found);
        update->validity = kv_status_validity(worker, update->found.item, update->found.status);
        if (update->validity == KV_HIT) {
            kv_view_fill_found(view, &update->found);
            update->old = view;
        } else {
            update->change->gone = update->validity;
        }
    }
    update->change->exptime = update->old ? update->old->exptime : 0;
    update->change->state = update->old ? update->old->state : 0;
}

/* The status of the new item. */
static uint64_t status_of_new(const struct update *update, uint64_t status, uint32_t exptime)
{
    uint8_t kind = kv_status_marks(status) & (KV_MARK_FLAGS | KV_MARK_LARGE);
    uint8_t state = update->change->state & KV_MARK_STATE;
    return kv_status_with_exptime(kv_status_with_marks(status, kind | state), exptime);
}

/* Sets generation, state, cas and access of an item just before it is published. */
static void item_finish(struct update *update, struct kv_item *item, uint64_t generation,
                        uint64_t cas)
{
    struct kv_worker *worker = update->worker;
    uint64_t status = kv_item_status(item);
    status = status_of_new(update, status, kv_status_exptime(status));
    kv_item_status_set(item, kv_status_with_generation(status, (uint8_t)generation));
    kv_item_cas_set(item, cas);
    uint32_t bits = kv_item_access(item) & KV_ACCESS_FREQ;
    bits |= (update->change->state & KV_FETCHED) ? KV_ACCESS_FETCHED : 0;
    kv_item_access_store(item, kv_access_make(worker->now_s, bits));
}

/*
 * Seals an item, so that nothing about it changes in place any more. False if something has changed
 * since it was found.
 */
static inline bool seal(const struct kv_find *found)
{
    const uint64_t sealed = found->status | KV_STATUS_SEALED;
    uint64_t status = found->status;
    return (status & KV_STATUS_SEALED) != 0 || kv_item_status_cas(found->item, &status, sealed) ||
           status == sealed;
}

/* Seals the item that was found and puts `item` into its slot. False if the key was changed. */
static inline bool exchange(struct kv_worker *worker, const struct kv_key *key,
                            const struct kv_find *old, const struct kv_item *item)
{
    return seal(old) && kv_index_exchange_at(worker, old, key->hash, item);
}

/* ---- the verdicts ------------------------------------------------------------------------ */

static enum kv_removal end_of_old(const struct update *update)
{
    switch (update->validity) {
    case KV_MISS_EXPIRED:
        return KV_REMOVAL_EXPIRED;
    case KV_MISS_FLUSHED:
        return KV_REMOVAL_FLUSHED;
    default:
        return KV_REMOVAL_REPLACED;
    }
}

/* Each returns false if the key was not as seen. */

/* Publishes an item; on failure it still belongs to the caller. */
static bool publish(struct update *update, struct kv_item *item, uint64_t generation)
{
    struct kv_worker *worker = update->worker;
    uint64_t cas = cas_of_new(update);
    bool done;

    item_finish(update, item, generation, cas);
    kv_item_each_record(worker, item, kv_record_charge);
    if (update->found.item)
        done = exchange(worker, update->key, &update->found, item);
    else
        done = kv_index_insert(worker, update->key, item);
    if (!done) {
        kv_item_each_record(worker, item, kv_record_uncharge);
        return false;
    }
    update->change->cas = cas;
    kv_account_linked(worker, item);
    if (update->found.item)
        kv_account_unlinked(worker, update->found.item, end_of_old(update));
    return true;
}

/*
 * A copy of an item's record, without the words that change; a large item's copy has the same
 * extents. Null without memory.
 */
static struct kv_item *copy_new(struct kv_worker *worker, const struct kv_item *from,
                                uint32_t exptime)
{
    uint32_t bytes = kv_record_bytes(from);
    unsigned log = kv_log_for(worker, kv_evict_pool(worker, from), exptime);
    kv_log_refresh(worker, log);
    void *room = kv_log_append(worker, log, KV_LOG_NEW, bytes);
    if (!room)
        room = kv_log_append(worker, log, KV_LOG_MOVED, bytes);
    struct kv_item *copy = (struct kv_item *)room;
    if (copy)
        kv_record_copy_fixed(copy, from, bytes);
    return copy;
}

/* No memory for the copy to be published: as if it had been published and evicted. */
static bool replace_by_nothing(struct update *update)
{
    struct kv_worker *worker = update->worker;
    if (update->found.item) {
        if (!kv_index_unlink(worker, update->key->hash, update->found.word))
            return false;
        kv_account_unlinked(worker, update->found.item, end_of_old(update));
    }
    update->change->cas = cas_of_new(update);
    kv_item_drop(worker, update->change->item);
    return true;
}

/* A decision about an old item must not be published after a flush, which removed that item. */
static bool is_flushed_since(const struct update *update, uint64_t generation)
{
    return update->old && kv_generation_number(generation) != update->flushes;
}

/* Publishes a copy of an item whose segment's generation has become too old (generation.h). */
static bool replace_by_copy(struct update *update)
{
    struct kv_worker *worker = update->worker;
    struct kv_item *item = update->change->item;
    uint64_t status = kv_item_status(item);
    struct kv_item *copy = copy_new(worker, item, kv_status_exptime(status));
    if (!copy)
        return replace_by_nothing(update);
    kv_item_status_set(copy, status);
    kv_item_access_store(copy, kv_item_access(item));
    kv_item_note_exptime(worker, copy, kv_status_exptime(status));
    uint64_t generation = kv_u64_load_acquire(&worker->kv->generation);
    bool done = kv_generation_may_publish(worker->kv, copy, generation) &&
                !is_flushed_since(update, generation) && publish(update, copy, generation);
    struct kv_item *left = done ? item : copy;
    kv_log_drop(worker, left, kv_record_bytes(left));
    return done;
}

static bool apply_replace(struct update *update)
{
    const struct kv *kv = update->worker->kv;
    struct kv_item *item = update->change->item;
    uint64_t generation = kv_u64_load_acquire(&kv->generation);
    if (U_UNLIKELY(is_flushed_since(update, generation)))
        return false;
    if (U_LIKELY(kv_generation_may_publish(kv, item, generation)))
        return publish(update, item, generation);
    return replace_by_copy(update);
}

static bool apply_delete(struct update *update)
{
    struct kv_worker *worker = update->worker;
    if (!seal(&update->found) || !kv_index_unlink(worker, update->key->hash, update->found.word))
        return false;
    kv_account_unlinked(worker, update->found.item, KV_REMOVAL_DELETED);
    return true;
}

/* The access word after a touch. */
static uint32_t access_of_touched(const struct update *update)
{
    uint32_t was = kv_item_access(update->found.item);
    if (update->change->unseen)
        return was;
    if (update->change->state & KV_FETCHED)
        return kv_access_fetched(update->worker, was);
    return was & ~(uint32_t)KV_ACCESS_FETCHED;
}

/* Replaces the old item by a changed copy. Without memory for it the item is evicted. */
static bool apply_copy(struct update *update, uint64_t cas)
{
    struct kv_worker *worker = update->worker;
    const struct kv_change *change = update->change;
    struct kv_item *copy = copy_new(worker, update->found.item, change->exptime);
    if (!copy) {
        if (!kv_index_unlink(worker, update->key->hash, update->found.word))
            return false;
        kv_account_unlinked(worker, update->found.item, KV_REMOVAL_EVICTED);
        return true;
    }
    kv_item_status_set(copy, status_of_new(update, update->found.status, change->exptime));
    kv_item_cas_set(copy, cas);
    kv_item_access_store(copy, access_of_touched(update));
    kv_item_note_exptime(worker, copy, change->exptime);
    kv_record_charge(worker, copy);
    if (kv_generation_may_move(worker->kv, update->found.item, copy) &&
        exchange(worker, update->key, &update->found, copy)) {
        kv_record_discharge(worker, update->found.item);
        return true;
    }
    kv_record_uncharge(worker, copy);
    kv_log_drop(worker, copy, kv_record_bytes(copy));
    return false;
}

static bool apply_touch(struct update *update)
{
    struct kv_item *item = update->found.item;
    const struct kv_change *change = update->change;
    uint64_t status = update->found.status;
    if (status & KV_STATUS_SEALED)
        return apply_copy(update, kv_item_cas(item));

    unsigned kind = kv_status_marks(status) & ~(unsigned)KV_MARK_STATE;
    uint8_t marks = (uint8_t)(kind | (change->state & KV_MARK_STATE));
    uint64_t wanted = kv_status_with_exptime(kv_status_with_marks(status, marks), change->exptime);
    if (!kv_item_status_cas(item, &status, wanted))
        return false;
    /* Only now: a sweep that met the old time before has reset the bounds by now (sweep.c). */
    kv_item_note_exptime(update->worker, item, change->exptime);
    kv_item_access_set(item, kv_item_access(item), access_of_touched(update));
    return true;
}

static bool apply_renew(struct update *update)
{
    uint64_t cas = cas_of_new(update);
    if (!apply_copy(update, cas))
        return false;
    update->change->cas = cas;
    return true;
}

/* Changes nothing, but removes an expired or flushed item, as kv_get() does. */
static bool apply_keep(struct update *update)
{
    if (update->found.item && !update->old)
        kv_remove_invalid(update->worker, update->found.item, update->key->hash, update->found.word,
                          update->validity);
    return true;
}

static bool apply_verdict(struct update *update, enum kv_verdict verdict)
{
    switch (verdict) {
    case KV_KEEP:
        return apply_keep(update);
    case KV_REPLACE:
        return apply_replace(update);
    case KV_DELETE:
        return apply_delete(update);
    case KV_TOUCH:
        return apply_touch(update);
    case KV_RENEW:
        return apply_renew(update);
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
        lookup(&update, &view);
        change->cas = cas;
        enum kv_verdict verdict = decide(ctx, update.old, change);
        if (!update.old && verdict != KV_REPLACE)
            verdict = KV_KEEP;
        U_ASSERT(verdict != KV_REPLACE || kv_item_key_len(change->item) == key->len);
        if (apply_verdict(&update, verdict))
            return verdict;
        kv_count(worker, KV_COUNT_RETRIES, 1);
    }
}

/* ---- short values ------------------------------------------------------------------------ */

/* The record of a short item that is not published yet, with its cas and access word. */
static void short_fill(struct kv_item *item, const struct kv_key *key, const struct kv_short *value,
                       uint64_t status)
{
    uint8_t *at = (uint8_t *)item + KV_HEADER_BYTES;
    kv_item_status_set(item, status);
    u_copy_short(at, key->bytes, key->len);
    u_copy_short(at + key->len, value->value, value->value_len);
}

/* Accounts for an item that has replaced another one of the same key; neither has client flags. */
static void account_replaced(struct kv_worker *worker, const struct kv_find *old, uint32_t bytes,
                             uint32_t key_len, uint32_t value_len)
{
    const struct kv_sizes *sizes = &worker->kv->config.sizes;
    uint32_t old_len = kv_status_inline_len(old->status);
    uint32_t old_bytes = kv_record_round(KV_HEADER_BYTES + key_len + old_len);
    uint64_t size = kv_sizes_of(sizes, key_len, 0, value_len);
    uint64_t old_size = size - value_len + old_len;
    unsigned class = kv_sizes_class(sizes, size);
    unsigned old_class = old_len == value_len ? class : kv_sizes_class(sizes, old_size);
    kv_count_live(worker, class, 1, bytes, size);
    kv_class_count(worker, class, KV_CLASS_PUBLISHED, 1);
    kv_count_live(worker, old_class, UINT64_MAX, old_bytes, old_size);
    kv_log_subtract(worker, kv_segment_of(&worker->kv->segments, old->item), old_bytes);
}

/*
 * Checks first for everything that this function cannot do by itself: room in the open segment, no
 * eviction or growth due, no counts by size. Nothing is allocated between finding the old item and
 * the exchange, so the old item's memory cannot be reused in between.
 */
uint64_t kv_replace_short(struct kv_worker *worker, const struct kv_key *key,
                          const struct kv_short *value, uint32_t exptime)
{
    const struct kv *kv = worker->kv;
    uint32_t bytes = KV_HEADER_BYTES + key->len + value->value_len;
    uint64_t generation = kv_u64_load_acquire(&kv->generation);
    struct kv_find old;
    U_ASSERT(value->value_len <= KV_SHORT_MAX);
    if (U_UNLIKELY(!kv_find_short(worker, key, &old) || !kv->config.evict || worker->buckets ||
                   value->value_len > kv_u64_load_relaxed(&kv->value_bytes_max) ||
                   bytes + 7 > kv->small_bytes_max || !kv_evict_is_ahead(kv) ||
                   kv_generation_is_wide(generation)))
        return 0;
    struct kv_pool_entry start = kv_evict_place_again(worker, old.item);
    unsigned log = kv_log_for(worker, start.pool, exptime);
    bytes = kv_record_round(bytes);
    if (U_UNLIKELY(bytes > kv_log_free_bytes(worker, log)))
        return 0;
    struct kv_item *item = (struct kv_item *)kv_log_take(worker, log, bytes);
    uint64_t cas = cas_give(worker, kv_item_cas(old.item));
    uint64_t status = kv_status_make(exptime, key->len, 0, value->value_len);
    short_fill(item, key, value, kv_status_with_generation(status, (uint8_t)generation));
    kv_item_cas_set(item, cas);
    kv_item_access_store(item, kv_access_make(worker->now_s, start.freq << KV_ACCESS_FREQ_SHIFT));
    kv_segment_note_exptime(&worker->kv->segments, worker->log[log], exptime);
    worker->pending_usage[log] += bytes - KV_SEGMENT_HOLD; /* as kv_record_charge() does */
    if (U_UNLIKELY(!exchange(worker, key, &old, item))) {
        worker->pending_usage[log] -= bytes - KV_SEGMENT_HOLD;
        kv_log_drop(worker, item, bytes);
        kv_count(worker, KV_COUNT_RETRIES, 1);
        return 0;
    }
    account_replaced(worker, &old, bytes, key->len, value->value_len);
    return cas;
}
