/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of the hash table; index.h has the algorithm and its invariants. */
#include "kv/index.h"

#include "kv/engine.h"

/*
 * With 5 items per chain, 13 of 100 chains need a second bucket of 7 slots. A small table gets as
 * many overflow buckets as heads, since it may get many items between two housekeeping steps.
 */
#define OVERFLOW_SHARE 3
#define OVERFLOW_OF 16
#define SMALL_POWER 12

uint32_t kv_overflow_count(unsigned power)
{
    uint64_t heads = UINT64_C(1) << power;
    uint64_t count = power <= SMALL_POWER ? heads : heads * OVERFLOW_SHARE / OVERFLOW_OF;
    return (uint32_t)u_min64(count, KV_LINKS_MAX);
}

uint64_t kv_table_bytes(unsigned power)
{
    return ((UINT64_C(1) << power) + kv_overflow_count(power)) * sizeof(struct kv_bucket);
}

void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *buckets,
                   struct kv_bucket *overflow, unsigned power, unsigned power_max)
{
    u_zero(index, sizeof(*index));
    index->base = base;
    index->buckets = buckets;
    index->overflow = overflow;
    index->power_max = power_max;
    index->bytes_wanted = kv_table_bytes(power);
    kv_u64_store_relaxed(&index->bytes, index->bytes_wanted);
    kv_u32_store_relaxed(&index->overflows[power & 1].next, 1);
    kv_u32_store_relaxed(&index->overflows[power & 1].end, kv_overflow_count(power));
    kv_u64_store_release(&index->shape, power);
}

void kv_index_save(const struct kv_index *index, struct kv_saved_index *saved)
{
    enum kv_grow_phase phase = (enum kv_grow_phase)kv_u32_load_relaxed(&index->phase);
    saved->shape = kv_u64_load_relaxed(&index->shape);
    saved->moving = kv_u32_load_relaxed(&index->moving);
    saved->power_open = index->power_open;
    for (int i = 0; i < 2; i++) {
        saved->overflows[i].stack = kv_u64_load_relaxed(&index->overflows[i].stack);
        saved->overflows[i].next = kv_u32_load_relaxed(&index->overflows[i].next);
        saved->overflows[i].end = kv_u32_load_relaxed(&index->overflows[i].end);
    }
    saved->bytes = kv_u64_load_relaxed(&index->bytes);
    saved->bytes_wanted = index->bytes_wanted;
    saved->growths = kv_u32_load_relaxed(&index->growths);
    saved->extends = index->extends;
    /* The thread has ended: its job begins again. */
    saved->phase = phase == KV_GROW_PREFAULT ? KV_GROW_WAIT_MEMORY : phase;
    saved->grow_at = phase == KV_GROW_PREFAULT ? 0 : index->grow_at;
}

void kv_index_restore(struct kv_index *index, const struct kv_saved_index *saved)
{
    kv_u64_store_relaxed(&index->shape, saved->shape);
    kv_u32_store_relaxed(&index->moving, saved->moving);
    index->power_open = saved->power_open;
    for (int i = 0; i < 2; i++) {
        kv_u64_store_relaxed(&index->overflows[i].stack, saved->overflows[i].stack);
        kv_u32_store_relaxed(&index->overflows[i].next, saved->overflows[i].next);
        kv_u32_store_relaxed(&index->overflows[i].end, saved->overflows[i].end);
    }
    kv_u64_store_relaxed(&index->bytes, saved->bytes);
    index->bytes_wanted = saved->bytes_wanted;
    kv_u32_store_relaxed(&index->growths, saved->growths);
    index->extends = saved->extends;
    kv_u32_store_relaxed(&index->phase, saved->phase);
    index->grow_at = saved->grow_at;
    index->retired = 0; /* no reader is left */
}

/* ---- control ----------------------------------------------------------------------------- */

/* The word of a slot after a deletion: not the one before the last insert (invariant 5). */
static uint64_t word_empty(const struct kv_bucket *head)
{
    return KV_WORD_VACANT | kv_control_version(kv_u64_load_acquire(&head->control));
}

/* The slot of that number in the chain; null if the chain is shorter. */
static kv_atomic_u64 *chain_slot(const struct kv_index *index, struct kv_bucket *head,
                                 unsigned number)
{
    struct kv_bucket *bucket = head;
    for (; number >= KV_BUCKET_SLOTS && bucket; number -= KV_BUCKET_SLOTS)
        bucket = kv_bucket_next(index, head, bucket);
    return bucket ? &bucket->slot[number] : U_NULL;
}

uint64_t kv_slot_resolve(const struct kv_index *index, struct kv_bucket *head, kv_atomic_u64 *slot,
                         unsigned number, uint64_t word)
{
    while (word & KV_WORD_PEND) {
        uint64_t control = kv_u64_load_acquire(&head->control);
        uint64_t again = kv_u64_load_acquire(slot);
        bool is_named =
            kv_control_pend(control) == number + 1 && chain_slot(index, head, number) == slot;
        if (again != word || kv_u64_load_acquire(&head->control) != control) {
            word = again; /* no snapshot */
            continue;
        }
        if (!is_named)
            return 0;
        if (word & KV_WORD_FROZEN)
            break;
        if (kv_u64_cas_acq_rel(slot, &word, word & ~KV_WORD_PEND))
            break;
    }
    return (word & KV_WORD_LIVE) ? word & ~(KV_WORD_PEND | KV_WORD_FROZEN) : 0;
}

/* ---- copying ----------------------------------------------------------------------------- */

void kv_index_copy(const struct kv_index *index, uint64_t *position, struct kv_words *words)
{
    struct kv_bucket *head = kv_position_chain(index, *position);
    unsigned slots = 0;
    words->count = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, head, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, slots++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            if (word & KV_WORD_LIVE)
                word = kv_slot_resolve(index, head, &bucket->slot[i], slots, word);
            if (word & KV_WORD_LIVE)
                words->at[words->count++] = word;
        }
    }
    unsigned shift = 63 - kv_chain_power(index, head);
    *position = ((*position >> shift) + 1) << shift;
}

/* ---- swapping words ---------------------------------------------------------------------- */

/* The chain in which a key may be changed; moves chains that are FROZEN. */
static struct kv_bucket *chain_for_change(struct kv_worker *worker, uint64_t hash)
{
    for (;;) {
        struct kv_bucket *head = kv_index_chain(&worker->kv->index, hash);
        if (U_LIKELY((kv_u64_load_acquire(&head->control) & KV_CONTROL_FROZEN) == 0))
            return head;
        kv_chain_move(worker, head);
    }
}

enum swap { SWAP_DONE, SWAP_GONE, SWAP_FROZEN };

static enum swap slot_swap(const struct kv_index *index, struct kv_bucket *head,
                           kv_atomic_u64 *slot, unsigned number, uint64_t word, uint64_t by)
{
    uint64_t now = kv_u64_load_acquire(slot);
    while ((now & ~(KV_WORD_PEND | KV_WORD_FROZEN)) == word) {
        if (now & KV_WORD_FROZEN)
            return SWAP_FROZEN;
        if (now & KV_WORD_PEND) {
            if (kv_slot_resolve(index, head, slot, number, now) != word)
                return SWAP_GONE;
            now = kv_u64_load_acquire(slot);
        } else if (kv_u64_cas_acq_rel(slot, &now, by != 0 ? by : word_empty(head))) {
            return SWAP_DONE;
        }
    }
    return SWAP_GONE;
}

static enum swap chain_swap(struct kv_worker *worker, struct kv_bucket *head, uint64_t word,
                            uint64_t by)
{
    const struct kv_index *index = &worker->kv->index;
    unsigned number = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, head, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, number++) {
            enum swap swap = slot_swap(index, head, &bucket->slot[i], number, word, by);
            if (swap == SWAP_DONE && by == 0 && U_UNLIKELY(bucket != head))
                kv_overflow_cut(worker, head);
            if (swap != SWAP_GONE)
                return swap;
        }
    }
    return SWAP_GONE;
}

/* Called by the worker whose swap removed the item. */
static void mark_dead(struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    if (U_LIKELY((status & KV_STATUS_SEALED) != 0))
        kv_item_status_set(item,
                           status | KV_STATUS_DEAD); /* a sealed status is only changed here */
    else
        kv_item_mark(item, KV_MARK_DEAD);
}

/* Replaces `word` by `by` (0: an empty word), marks the item DEAD. True if this call did it. */
static bool swap_out(struct kv_worker *worker, uint64_t hash, uint64_t word, uint64_t by)
{
    enum swap swap;
    do
        swap = chain_swap(worker, chain_for_change(worker, hash), word, by);
    while (swap == SWAP_FROZEN);
    if (swap == SWAP_DONE)
        mark_dead(kv_word_item(&worker->kv->index, word));
    return swap == SWAP_DONE;
}

bool kv_index_exchange_at(struct kv_worker *worker, const struct kv_find *found, uint64_t hash,
                          const struct kv_item *item)
{
    uint64_t now = found->word;
    uint64_t by = kv_word_of(&worker->kv->index, hash, item);
    if (U_UNLIKELY(!kv_u64_cas_acq_rel(found->slot, &now, by)))
        return kv_index_exchange(worker, hash, found->word, item);
    mark_dead(found->item);
    return true;
}

bool kv_index_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                       const struct kv_item *item)
{
    return swap_out(worker, hash, word, kv_word_of(&worker->kv->index, hash, item));
}

bool kv_index_unlink(struct kv_worker *worker, uint64_t hash, uint64_t word)
{
    return swap_out(worker, hash, word, 0);
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

/* A chain as seen by steps a to c of an insert, and the slot that it may claim. */
struct chain_look {
    struct kv_bucket *head;
    uint64_t control;
    struct kv_bucket *last;
    unsigned buckets;
    bool found;        /* the key is there */
    bool pend_blocks;  /* control's pend names an empty slot */
    kv_atomic_u64 *at; /* an empty slot that pend does not name; or null */
    unsigned number;
    uint64_t empty; /* the word in it */
};

/*
 * Step a. False if the chain has changed. PEND in the slot that pend names is a committed insert
 * only if control was unchanged when the slot was loaded.
 */
static bool pend_clear(const struct kv_index *index, struct kv_bucket *head, uint64_t control)
{
    unsigned pend = kv_control_pend(control);
    if (pend == 0)
        return true;
    kv_atomic_u64 *slot = chain_slot(index, head, pend - 1);
    if (!slot)
        return false;
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
        if (kv_control_pend(look->control) == number + 1) {
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
static bool chain_look(struct kv_worker *worker, const struct kv_key *key, struct chain_look *look)
{
    const struct kv_index *index = &worker->kv->index;
    struct kv_bucket *head = chain_for_change(worker, key->hash);
    *look = (struct chain_look){.head = head, .control = kv_u64_load_acquire(&head->control)};
    if ((look->control & KV_CONTROL_FROZEN) || !pend_clear(index, head, look->control))
        return false;
    unsigned number = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, head, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++, number++)
            look_at_slot(index, key, look, &bucket->slot[i], number);
        if (bucket != head && !kv_overflow_keep(bucket))
            return false;
        look->last = bucket;
        look->buckets++;
    }
    return kv_u64_load_acquire(&head->control) == look->control;
}

/* Steps d to f. False if the slot or the chain has changed. */
static bool chain_commit(const struct chain_look *look, uint64_t word)
{
    uint64_t claim = look->empty;
    if (!kv_u64_cas_acq_rel(look->at, &claim, word | KV_WORD_PEND))
        return false;
    claim = word | KV_WORD_PEND;
    uint64_t control = look->control;
    if (!kv_u64_cas_acq_rel(&look->head->control, &control,
                            kv_control_next(control, look->number + 1))) {
        /* A frozen claim stays: without a commit it is not moved. */
        bool taken_back = kv_u64_cas_acq_rel(look->at, &claim, look->empty);
        U_ASSERT(taken_back || (claim & KV_WORD_FROZEN));
        return false;
    }
    kv_u64_cas_acq_rel(look->at, &claim, word); /* fails if another worker did it */
    return true;
}

/* Appends a bucket to the chain. False if none is free or the chain is at its bound. */
static bool chain_append(struct kv_worker *worker, const struct chain_look *look)
{
    unsigned power = kv_chain_power(&worker->kv->index, look->head);
    uint32_t spare = 0;
    if (look->buckets < KV_CHAIN_BUCKETS_MAX)
        spare = kv_overflow_take(worker, power);
    if (spare == 0)
        return false;
    uint64_t control = kv_u64_load_acquire(&look->last->control);
    uint64_t link = (uint64_t)spare << KV_CONTROL_LINK_SHIFT;
    if ((control & KV_CONTROL_FROZEN) != 0 || control >> KV_CONTROL_LINK_SHIFT != 0 ||
        !kv_u64_cas_acq_rel(&look->last->control, &control, control | link))
        kv_overflow_give(worker, power, spare);
    return true; /* appended, or the chain has changed */
}

/* Value of an item when its chain is full; the lowest is evicted. */
static uint64_t item_worth(const struct kv_worker *worker, const struct kv_item *item)
{
    uint32_t access = kv_item_access(item);
    uint64_t worth = kv_access_seconds(access);
    worth |= (uint64_t)kv_access_freq(access) << 32;
    if (kv_item_validity(worker, item) == KV_HIT)
        worth |= UINT64_C(1) << 40;
    return worth;
}

/* Evicts the least valuable item of a full chain. */
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
        kv_account_unlinked(worker, kv_word_item(index, worst), KV_REMOVAL_EVICTED);
}

/* Whether the chain's table is being moved. */
static bool is_moving(const struct kv_index *index, const struct kv_bucket *head)
{
    return kv_u32_load_acquire(&index->moving) == kv_chain_power(index, head) + 1;
}

static void make_room(struct kv_worker *worker, uint64_t hash, const struct chain_look *look)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t control = look->control;
    if (look->pend_blocks)
        kv_u64_cas_acq_rel(&look->head->control, &control, kv_control_next(control, 0));
    else if (chain_append(worker, look))
        return;
    else if (is_moving(index, look->head))
        kv_chain_move(worker, look->head); /* the new chains have room */
    else
        chain_evict(worker, hash);
}

bool kv_index_insert(struct kv_worker *worker, const struct kv_key *key, const struct kv_item *item)
{
    uint64_t word = kv_word_of(&worker->kv->index, key->hash, item);
    struct chain_look look;
    for (;;) {
        if (!chain_look(worker, key, &look))
            continue;
        if (look.found)
            return false;
        if (!look.at)
            make_room(worker, key->hash, &look);
        else if (chain_commit(&look, word))
            break;
    }
    worker->inserted++;
    return true;
}
