/* SPDX-License-Identifier: BSD-3-Clause */
/* The writers' side of the hash table; index.h has the algorithm and its invariants. */
#include "kv/index.h"

#include "kv/engine.h"
#include "kv/poison.h"

void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *heads, unsigned power,
                   uint32_t pool_segments_max)
{
    index->base = base;
    index->buckets = heads;
    index->power = power;
    kv_u32_store_relaxed(&index->pool_lock.held, 0);
    index->pool_free = 0;
    index->pool_next = 0;
    index->pool_end = 0;
    kv_u32_store_relaxed(&index->pool_segments, 0);
    kv_u32_store_relaxed(&index->pool_segments_max, pool_segments_max);
}

/* ---- overflow buckets -------------------------------------------------------------------- */

static uint32_t pool_take_locked(struct kv_index *index)
{
    uint32_t link = index->pool_free;
    if (link != 0) {
        struct kv_bucket *bucket = kv_bucket_at(index, link);
        index->pool_free =
            (uint32_t)(kv_u64_load_relaxed(&bucket->control) >> KV_CONTROL_LINK_SHIFT);
    } else if (index->pool_next < index->pool_end) {
        link = index->pool_next++;
    }
    return link;
}

/* Turns one more segment into overflow buckets. */
static bool pool_grow_locked(struct kv *kv)
{
    struct kv_index *index = &kv->index;
    uint32_t taken = kv_u32_load_relaxed(&index->pool_segments);
    if (taken >= kv_u32_load_relaxed(&index->pool_segments_max))
        return false;
    uint32_t segment = kv_segment_take(&kv->segments, kv_floor_segments(kv), KV_SEGMENT_INDEX);
    if (segment == KV_SEGMENT_NONE)
        return false;
    uint8_t *from = kv_segment_base(&kv->segments, segment);
    kv_unpoison(from, kv_segments_bytes(&kv->segments));
    kv_u32_store_relaxed(&index->pool_segments, taken + 1);
    index->pool_next = (uint32_t)((uint64_t)(from - index->base) / sizeof(struct kv_bucket));
    index->pool_end =
        index->pool_next + kv_segments_bytes(&kv->segments) / (uint32_t)sizeof(struct kv_bucket);
    return true;
}

uint32_t kv_index_pool_take(struct kv_worker *worker)
{
    struct kv_index *index = &worker->kv->index;
    kv_lock_take(&index->pool_lock);
    uint32_t link = pool_take_locked(index);
    if (link == 0 && pool_grow_locked(worker->kv))
        link = pool_take_locked(index);
    kv_lock_drop(&index->pool_lock);
    if (link != 0)
        u_zero(kv_bucket_at(index, link), sizeof(struct kv_bucket));
    return link;
}

void kv_index_pool_give(struct kv_index *index, uint32_t link)
{
    struct kv_bucket *bucket = kv_bucket_at(index, link);
    kv_lock_take(&index->pool_lock);
    kv_u64_store_relaxed(&bucket->control, (uint64_t)index->pool_free << KV_CONTROL_LINK_SHIFT);
    index->pool_free = link;
    kv_lock_drop(&index->pool_lock);
}

/* ---- control ----------------------------------------------------------------------------- */

/* The number + 1 of the slot whose insert was committed last; 0: none. */
static unsigned pend_of(uint64_t control)
{
    return (unsigned)(control >> KV_CONTROL_PEND_SHIFT & KV_CONTROL_PEND_MASK);
}

static uint64_t version_of(uint64_t control)
{
    return control >> KV_CONTROL_VERSION_SHIFT & KV_CONTROL_VERSION_MASK;
}

/* The next version, with another pend. */
static uint64_t control_next(uint64_t control, unsigned pend)
{
    uint64_t version = (version_of(control) + 1) & KV_CONTROL_VERSION_MASK;
    uint64_t rest = control & ~(KV_CONTROL_PEND_MASK << KV_CONTROL_PEND_SHIFT |
                                KV_CONTROL_VERSION_MASK << KV_CONTROL_VERSION_SHIFT);
    return rest | version << KV_CONTROL_VERSION_SHIFT | (uint64_t)pend << KV_CONTROL_PEND_SHIFT;
}

/* What a slot holds after a deletion: not what it held before the last insert (invariant 5). */
static uint64_t word_empty(const struct kv_bucket *head)
{
    return version_of(kv_u64_load_acquire(&head->control));
}

uint64_t kv_slot_settle(struct kv_bucket *head, kv_atomic_u64 *slot, unsigned number, uint64_t word)
{
    while (word & KV_WORD_PEND) {
        uint64_t control = kv_u64_load_acquire(&head->control);
        uint64_t again = kv_u64_load_acquire(slot);
        if (again != word || kv_u64_load_acquire(&head->control) != control) {
            word = again; /* no snapshot */
            continue;
        }
        if (pend_of(control) != number + 1)
            return 0;
        if (kv_u64_cas_acq_rel(slot, &word, word & ~KV_WORD_PEND))
            return word & ~KV_WORD_PEND;
    }
    return (word & KV_WORD_LIVE) ? word : 0;
}

/* ---- copying ----------------------------------------------------------------------------- */

void kv_index_copy(const struct kv_index *index, uint64_t *position, struct kv_words *words)
{
    uint64_t number = kv_index_number(index, *position);
    struct kv_bucket *head = &index->buckets[number];
    unsigned slots = 0;
    words->count = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, slots++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            if (word & KV_WORD_PEND)
                word = kv_slot_settle(head, &bucket->slot[i], slots, word);
            if (word & KV_WORD_LIVE)
                words->at[words->count++] = word;
        }
    }
    *position = (number + 1) << (63 - index->power);
}

/* ---- swapping words ---------------------------------------------------------------------- */

/* Replaces `word` by `by` in the chain; by an empty word if that is 0. */
static bool chain_swap(const struct kv_index *index, struct kv_bucket *head, uint64_t word,
                       uint64_t by)
{
    unsigned number = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, number++) {
            kv_atomic_u64 *slot = &bucket->slot[i];
            uint64_t now = kv_u64_load_acquire(slot);
            while ((now & ~KV_WORD_PEND) == word) {
                if (now & KV_WORD_PEND)
                    now = kv_slot_settle(head, slot, number, now);
                else if (kv_u64_cas_acq_rel(slot, &now, by != 0 ? by : word_empty(head)))
                    return true;
            }
        }
    }
    return false;
}

bool kv_index_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                       const struct kv_item *item)
{
    const struct kv_index *index = &worker->kv->index;
    if (!chain_swap(index, kv_index_chain(index, hash), word, kv_word_of(index, hash, item)))
        return false;
    kv_item_mark(kv_word_item(index, word), KV_MARK_DEAD);
    return true;
}

bool kv_index_unlink(struct kv_worker *worker, uint64_t hash, uint64_t word)
{
    const struct kv_index *index = &worker->kv->index;
    if (!chain_swap(index, kv_index_chain(index, hash), word, 0))
        return false;
    kv_item_mark(kv_word_item(index, word), KV_MARK_DEAD);
    return true;
}

bool kv_index_has(const struct kv_index *index, uint64_t hash, uint64_t word)
{
    struct kv_words words;
    uint64_t position = hash >> 1;
    kv_index_copy(index, &position, &words);
    for (unsigned i = 0; i < words.count; i++)
        if (words.at[i] == word)
            return true;
    return false;
}

/* ---- inserting --------------------------------------------------------------------------- */

/* A chain as an insert has seen it, and the slot that it may claim. */
struct chain_look {
    struct kv_bucket *head;
    uint64_t control;
    struct kv_bucket *last;
    unsigned buckets;
    bool found;        /* the key is there */
    bool pend_blocks;  /* an empty slot is named by control's pend */
    kv_atomic_u64 *at; /* an empty slot that is not; or null */
    unsigned number;
    uint64_t empty; /* the word in it */
};

/*
 * Step a. False if the chain has changed. PEND in the slot that pend names means that the insert is
 * committed only if control has still been the same when the slot was loaded.
 */
static bool pend_clear(const struct kv_index *index, struct kv_bucket *head, uint64_t control)
{
    unsigned pend = pend_of(control);
    if (pend == 0)
        return true;
    struct kv_bucket *bucket = head;
    for (pend--; pend >= KV_BUCKET_SLOTS; pend -= KV_BUCKET_SLOTS)
        bucket = kv_bucket_next(index, bucket);
    kv_atomic_u64 *slot = &bucket->slot[pend];
    uint64_t word = kv_u64_load_acquire(slot);
    if ((word & KV_WORD_PEND) == 0)
        return true;
    return kv_u64_load_acquire(&head->control) == control &&
           kv_u64_cas_acq_rel(slot, &word, word & ~KV_WORD_PEND);
}

static void look_at_slot(const struct kv_index *index, const struct kv_key *key,
                         struct chain_look *look, kv_atomic_u64 *slot, unsigned number)
{
    uint64_t word = kv_u64_load_acquire(slot);
    if ((word & KV_WORD_LIVE) == 0) {
        if (pend_of(look->control) == number + 1) {
            look->pend_blocks = true;
        } else if (!look->at) {
            look->at = slot;
            look->number = number;
            look->empty = word;
        }
        return;
    }
    /* With PEND it is not committed: pend names another slot, or the last step will fail. */
    if (kv_word_has_tag(word, key->hash) && (word & KV_WORD_PEND) == 0 &&
        kv_item_has_key(kv_word_item(index, word), key))
        look->found = true;
}

/* Steps a to c. False if the chain has changed. */
static bool chain_look(const struct kv_index *index, const struct kv_key *key,
                       struct chain_look *look)
{
    struct kv_bucket *head = kv_index_chain(index, key->hash);
    *look = (struct chain_look){.head = head, .control = kv_u64_load_acquire(&head->control)};
    if (!pend_clear(index, head, look->control))
        return false;
    unsigned number = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, number++)
            look_at_slot(index, key, look, &bucket->slot[i], number);
        look->last = bucket;
        look->buckets++;
    }
    return kv_u64_load_acquire(&head->control) == look->control;
}

/* Steps d to f. False if another worker was faster. */
static bool chain_commit(const struct chain_look *look, uint64_t word)
{
    uint64_t claim = look->empty;
    if (!kv_u64_cas_acq_rel(look->at, &claim, word | KV_WORD_PEND))
        return false;
    claim = word | KV_WORD_PEND;
    uint64_t control = look->control;
    if (!kv_u64_cas_acq_rel(&look->head->control, &control,
                            control_next(control, look->number + 1))) {
        bool taken_back = kv_u64_cas_acq_rel(look->at, &claim, look->empty);
        U_ASSERT(taken_back);
        return false;
    }
    kv_u64_cas_acq_rel(look->at, &claim, word); /* fails if somebody has done it */
    return true;
}

/* Appends the worker's spare bucket to the chain. False if it has none or the chain is at its
 * bound. */
static bool chain_append(struct kv_worker *worker, const struct chain_look *look)
{
    if (look->buckets >= KV_CHAIN_BUCKETS_MAX)
        return false;
    if (worker->spare_bucket == 0)
        worker->spare_bucket = kv_index_pool_take(worker);
    if (worker->spare_bucket == 0)
        return false;
    uint64_t control = kv_u64_load_acquire(&look->last->control);
    uint64_t link = (uint64_t)worker->spare_bucket << KV_CONTROL_LINK_SHIFT;
    if (control >> KV_CONTROL_LINK_SHIFT == 0 &&
        kv_u64_cas_acq_rel(&look->last->control, &control, control | link))
        worker->spare_bucket = 0;
    return true; /* there is another bucket now, whoever appended it */
}

/* What an item is worth when its chain is full: less is worse. */
static uint64_t item_worth(const struct kv_worker *worker, const struct kv_item *item)
{
    uint32_t access = kv_item_access(item);
    uint64_t worth = kv_access_seconds(access);
    if (kv_access_freq(access) != 0)
        worth |= UINT64_C(1) << 32;
    if (kv_item_validity(worker, item) == KV_HIT)
        worth |= UINT64_C(1) << 33;
    return worth;
}

/* Makes room in a chain that has none. */
static void chain_evict(struct kv_worker *worker, uint64_t hash)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t position = hash >> 1;
    struct kv_words words;
    kv_index_copy(index, &position, &words);
    uint64_t worst = 0;
    uint64_t worst_worth = UINT64_MAX;
    for (unsigned i = 0; i < words.count; i++) {
        uint64_t worth = item_worth(worker, kv_word_item(index, words.at[i]));
        if (worth < worst_worth) {
            worst = words.at[i];
            worst_worth = worth;
        }
    }
    if (worst != 0 && kv_index_unlink(worker, hash, worst))
        kv_unlinked(worker, kv_word_item(index, worst), KV_END_EVICTED);
}

static void make_room(struct kv_worker *worker, uint64_t hash, const struct chain_look *look)
{
    uint64_t control = look->control;
    if (look->pend_blocks)
        kv_u64_cas_acq_rel(&look->head->control, &control, control_next(control, 0));
    else if (!chain_append(worker, look))
        chain_evict(worker, hash);
}

bool kv_index_insert(struct kv_worker *worker, const struct kv_key *key, const struct kv_item *item)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t word = kv_word_of(index, key->hash, item);
    struct chain_look look;
    for (;;) {
        if (!chain_look(index, key, &look))
            continue;
        if (look.found)
            return false;
        if (!look.at)
            make_room(worker, key->hash, &look);
        else if (chain_commit(&look, word))
            return true;
    }
}
