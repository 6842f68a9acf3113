/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes: a decision is made on what a lookup has found, then carried out by compare-and-swap, if
 * the key still is as the decision has seen it; else it is made again.
 *
 *   nothing there           insert                           kv_index_insert(): still not there
 *   replace, delete         seal the old item, swap its word
 *   touch                   swap the old item's status
 *   renew, touch if sealed  seal the old item, swap its word for that of a changed copy
 *
 * To seal is to set KV_MARK_SEALED by a compare-and-swap from the very status that the decision has
 * seen. So it fails if somebody has touched the item since, and once it has succeeded nobody
 * touches it any more: the decision stays right until the word is swapped, and a copy has the final
 * values. Sealing excludes nobody else from swapping the word: whoever meets a sealed item does
 * what it came for on a copy or by a swap of its own, and the first swap wins. So nobody waits for
 * the worker that has sealed an item, wherever it may have stopped.
 *
 * The word of a slot is the item: it can't have been reused for another one meanwhile, because this
 * worker has not been quiescent, and kv_item_mark_seen() keeps it from reusing the memory itself.
 * Only the worker whose swap has taken an item out accounts for its end.
 *
 * Pairs: the swap of a status (acq_rel) reads what the last one wrote, so changes of an item are in
 * one order, with sealing as the last but for DEAD. The seal comes before the swap of the word
 * (release), so who finds the successor (acquire) finds the old item sealed.
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
    struct kv_find found; /* item null: nothing. It may be invalid, then `old` is null */
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
    return cas_give(update->worker, update->found.item ? kv_item_cas(update->found.item) : 0);
}

static void look(struct update *update, struct kv_view *view)
{
    struct kv_worker *worker = update->worker;
    update->old = U_NULL;
    update->validity = KV_MISS;
    worker->view_turn = worker->turn; /* the place is looked at, also if nothing is there */
    if (!kv_find_to_store(worker, update->key, &update->found)) {
        update->found.item = U_NULL;
    } else {
        kv_found_mark_seen(worker, &update->found);
        update->validity = kv_status_validity(worker, update->found.status);
        if (update->validity == KV_HIT) {
            kv_view_fill_found(view, &update->found);
            update->old = view;
        }
    }
    update->change->exptime = update->old ? update->old->exptime : 0;
    update->change->state = update->old ? update->old->state : 0;
}

/* The status of a successor. */
static uint64_t status_of_new(const struct update *update, uint64_t status, uint32_t exptime)
{
    uint8_t kind = kv_status_marks(status) & (KV_MARK_FLAGS | KV_MARK_LARGE);
    uint8_t state = update->change->state & KV_MARK_STATE;
    return kv_status_with_exptime(kv_status_with_marks(status, kind | state), exptime);
}

/* The new item gets what only publication can tell, while it is still this worker's alone. */
static void item_finish(struct update *update, uint64_t cas)
{
    struct kv_worker *worker = update->worker;
    struct kv_item *item = update->change->item;
    uint8_t generation = (uint8_t)kv_u32_load_relaxed(&worker->kv->generation);
    uint64_t status = kv_item_status(item);
    status = status_of_new(update, status, kv_status_exptime(status));
    kv_item_status_set(item, kv_status_with_generation(status, generation));
    kv_item_cas_set(item, cas);
    uint32_t bits = kv_item_access(item) & KV_ACCESS_FREQ;
    bits |= (update->change->state & KV_FETCHED) ? KV_ACCESS_FETCHED : 0;
    kv_item_access_store(item, kv_access_make(worker->now_s, bits));
}

/*
 * Takes care that nothing about the old item changes in place any more. False if something has
 * since the decision has seen it.
 */
static bool seal(const struct update *update)
{
    const uint64_t sealed = update->found.status | KV_STATUS_SEALED;
    uint64_t status = update->found.status;
    return (status & KV_STATUS_SEALED) != 0 ||
           kv_item_status_cas(update->found.item, &status, sealed) || status == sealed;
}

/* Puts an item in the place of the old one, which is sealed. False if the key was changed. */
static bool exchange(const struct update *update, const struct kv_item *item)
{
    return kv_index_exchange_at(update->worker, &update->found, update->key->hash, item);
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
    struct kv_item *item = update->change->item;
    uint64_t cas = cas_of_new(update);
    bool done;

    item_finish(update, cas);
    kv_item_charge(worker, item);
    if (update->found.item)
        done = seal(update) && exchange(update, item);
    else
        done = kv_index_insert(worker, update->key, item);
    if (!done) {
        kv_item_uncharge(worker, item);
        return false;
    }
    update->change->cas = cas;
    kv_linked(worker, item);
    if (update->found.item)
        kv_unlinked(worker, update->found.item, end_of_old(update));
    return true;
}

static bool carry_delete(struct update *update)
{
    struct kv_worker *worker = update->worker;
    if (!seal(update) || !kv_index_unlink(worker, update->key->hash, update->found.word))
        return false;
    kv_unlinked(worker, update->found.item, KV_END_DELETED);
    return true;
}

/* What a touch makes of the access word. */
static uint32_t access_of_touched(const struct update *update)
{
    uint32_t was = kv_item_access(update->found.item);
    if (update->change->unseen)
        return was;
    if (update->change->state & KV_FETCHED)
        return kv_access_fetched(update->worker, was);
    return was & ~(uint32_t)KV_ACCESS_FETCHED;
}

/*
 * Room for a copy of the old item's record; a large item's copy has the same extents. Null if no
 * memory is to be had.
 */
static struct kv_item *copy_new(struct update *update)
{
    struct kv_worker *worker = update->worker;
    uint32_t bytes = kv_record_bytes(update->found.item);
    unsigned log =
        kv_log_of(worker, kv_evict_pool(worker, update->found.item), update->change->exptime);
    void *room = kv_log_append(worker, log, KV_FOR_NEW, bytes);
    if (!room)
        room = kv_log_append(worker, log, KV_FOR_MOVED, bytes);
    struct kv_item *copy = (struct kv_item *)room;
    if (copy)
        kv_record_copy_fixed(copy, update->found.item, bytes);
    return copy;
}

/*
 * Puts a copy of the old item, changed as decided, in its place. Where there is no memory for it at
 * all the item has to go, as if it had been evicted.
 */
static bool carry_copy(struct update *update, uint64_t cas)
{
    struct kv_worker *worker = update->worker;
    const struct kv_change *change = update->change;
    struct kv_item *copy = copy_new(update);
    if (!copy) {
        if (!kv_index_unlink(worker, update->key->hash, update->found.word))
            return false;
        kv_unlinked(worker, update->found.item, KV_END_EVICTED);
        return true;
    }
    kv_item_status_set(copy, status_of_new(update, update->found.status, change->exptime));
    kv_item_cas_set(copy, cas);
    kv_item_access_store(copy, access_of_touched(update));
    kv_item_note_exptime(worker, copy, change->exptime);
    kv_record_charge(worker, copy);
    if (seal(update) && exchange(update, copy)) {
        kv_record_discharge(worker, update->found.item);
        return true;
    }
    kv_record_uncharge(worker, copy);
    kv_log_drop(worker, copy, kv_record_bytes(copy));
    return false;
}

static bool carry_touch(struct update *update)
{
    struct kv_item *item = update->found.item;
    const struct kv_change *change = update->change;
    uint64_t status = update->found.status;
    if (status & KV_STATUS_SEALED)
        return carry_copy(update, kv_item_cas(item));

    unsigned kind = kv_status_marks(status) & ~(unsigned)KV_MARK_STATE;
    uint8_t marks = (uint8_t)(kind | (change->state & KV_MARK_STATE));
    uint64_t wanted = kv_status_with_exptime(kv_status_with_marks(status, marks), change->exptime);
    /* Before the item says so: the bounds may be too wide, but never too narrow. */
    kv_item_note_exptime(update->worker, item, change->exptime);
    if (!kv_item_status_cas(item, &status, wanted))
        return false;
    kv_item_access_set(item, kv_item_access(item), access_of_touched(update));
    return true;
}

static bool carry_renew(struct update *update)
{
    uint64_t cas = cas_of_new(update);
    if (!carry_copy(update, cas))
        return false;
    update->change->cas = cas;
    return true;
}

/* Nothing is to be changed; but an item that is over is taken away, as kv_get() does. */
static bool carry_keep(struct update *update)
{
    if (update->found.item && !update->old)
        kv_remove_invalid(update->worker, update->found.item, update->key->hash, update->found.word,
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

/* ---- the usual store --------------------------------------------------------------------- */

/* Whether a short item of this key, without flags and marks, is where its prefetch has seen it. */
static bool find_short(const struct kv_worker *worker, const struct kv_key *key,
                       struct kv_find *find)
{
    if (!kv_place_holds(key))
        return false;
    find->slot = (kv_atomic_u64 *)(uintptr_t)key->place;
    find->word = key->word;
    find->item = kv_word_item(&worker->kv->index, key->word);
    find->status = kv_item_status(find->item);
    find->key = (const uint8_t *)find->item + KV_ITEM_NEAR_BYTES;
    return kv_status_is_plain(worker, find->status, key->len) &&
           kv_status_near_len(find->status) != KV_NEAR_LEN_NONE &&
           u_equal_short(find->key, key->bytes, key->len);
}

/* All of an item that nobody else knows yet. */
static void short_fill(const struct kv_worker *worker, struct kv_item *item,
                       const struct kv_key *key, const struct kv_short *value, uint64_t status)
{
    uint8_t generation = (uint8_t)kv_u32_load_relaxed(&worker->kv->generation);
    uint8_t *at = (uint8_t *)item + KV_ITEM_NEAR_BYTES;
    kv_item_status_set(item, kv_status_with_generation(status, generation));
    u_copy_short(at, key->bytes, key->len);
    u_copy_short(at + key->len, value->value, value->value_len);
}

/* kv_linked() of the new one, and kv_unlinked() of the old one, of which the key has one length. */
static void short_account(struct kv_worker *worker, const struct kv_find *old, uint32_t bytes,
                          uint32_t key_len, uint32_t value_len)
{
    const struct kv_sizes *sizes = &worker->kv->config.sizes;
    uint32_t old_len = kv_status_near_len(old->status);
    uint32_t old_bytes = kv_record_round(KV_ITEM_NEAR_BYTES + key_len + old_len);
    uint64_t size = kv_sizes_of(sizes, key_len, 0, value_len);
    uint64_t old_size = size - value_len + old_len;
    unsigned class = kv_sizes_class(sizes, size);
    unsigned old_class = old_len == value_len ? class : kv_sizes_class(sizes, old_size);
    kv_count(worker, KV_COUNT_BYTES_LINKED, bytes);
    kv_class_count(worker, class, KV_CLASS_LINKED, 1);
    kv_class_count(worker, class, KV_CLASS_PUBLISHED, 1);
    kv_class_count(worker, class, KV_CLASS_SIZES_LINKED, size);
    kv_count(worker, KV_COUNT_BYTES_UNLINKED, old_bytes);
    kv_class_count(worker, old_class, KV_CLASS_UNLINKED, 1);
    kv_class_count(worker, old_class, KV_CLASS_SIZES_UNLINKED, old_size);
    kv_log_subtract(worker, kv_segment_of(&worker->kv->segments, old->item), old_bytes);
}

/* Seals and exchanges as carry_replace() does; the item is the last of its log. */
static bool short_exchange(struct kv_worker *worker, const struct kv_find *old, uint64_t hash,
                           struct kv_item *item, uint32_t bytes)
{
    uint64_t *usage = &worker->untold[worker->log_last];
    uint64_t status = old->status;
    *usage += bytes - KV_SEGMENT_HOLD;
    if (kv_item_status_cas(old->item, &status, status | KV_STATUS_SEALED) &&
        kv_index_exchange_at(worker, old, hash, item))
        return true;
    *usage -= bytes - KV_SEGMENT_HOLD;
    kv_log_drop(worker, item, bytes);
    kv_count(worker, KV_COUNT_RETRIES, 1);
    return false;
}

/*
 * What may not go on without others is asked for before anything is done: there is room in the open
 * segment, nothing has to be evicted or grown, nobody counts by size. Nothing is allocated between
 * the look at the old item and the exchange, so it can't be reused meanwhile.
 */
uint64_t kv_replace_short(struct kv_worker *worker, const struct kv_key *key,
                          const struct kv_short *value, uint32_t exptime)
{
    const struct kv *kv = worker->kv;
    uint32_t bytes = KV_ITEM_NEAR_BYTES + key->len + value->value_len;
    struct kv_find old;
    U_ASSERT(value->value_len <= KV_SHORT_MAX);
    if (U_UNLIKELY(!find_short(worker, key, &old) || !kv->config.evict || worker->buckets ||
                   value->value_len > kv_u64_load_relaxed(&kv->value_bytes_max) ||
                   bytes + 7 > kv->small_bytes_max || !kv_evict_is_paid(kv)))
        return 0;
    struct kv_start start = kv_evict_start_over(worker, old.item);
    unsigned log = kv_log_of(worker, start.pool, exptime);
    bytes = kv_record_round(bytes);
    if (U_UNLIKELY(bytes > kv_log_room(worker, log)))
        return 0;
    struct kv_item *item = (struct kv_item *)kv_log_next(worker, log, bytes);
    uint64_t cas = cas_give(worker, kv_item_cas(old.item));
    short_fill(worker, item, key, value, kv_status_make(exptime, key->len, 0, value->value_len));
    kv_item_cas_set(item, cas);
    kv_item_access_store(item, kv_access_make(worker->now_s, start.freq << KV_ACCESS_FREQ_SHIFT));
    kv_segment_note_exptime(&worker->kv->segments, worker->log[log], exptime);
    if (U_UNLIKELY(!short_exchange(worker, &old, key->hash, item, bytes)))
        return 0;
    short_account(worker, &old, bytes, key->len, value->value_len);
    return cas;
}
