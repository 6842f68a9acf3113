/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth of the index, without blocking: no worker waits for another one, not even for the
 * one that has begun to move a chain.
 *
 * A table with twice as many chains is set up beside the present one; then chain after chain moves
 * to the two chains of the new table that its keys belong to, its children:
 *
 *   1 freeze   Set FROZEN in the chain's control: no insert is committed, no bucket appended any
 *              more. Then in all its slots, one after the other; an item can still be exchanged or
 *              deleted until its slot is frozen. What is frozen never changes again, so all workers
 *              that look at the chain after this step see the same.
 *   2 divide   The committed words, in the order of their slots, go to one child or the other by
 *   the
 *              next bit of their keys' hashes.
 *   3 fill     Fill each child's first bucket by compare-and-swap from 0, which none of its slots
 *              holds ever again: an empty one gets VACANT. What does not fit goes into overflow
 *              buckets that no other worker knows yet. Then the child's control: 0 -> READY with
 *              the link to them. The winner of that swap has made the child; the others free their
 *              own overflow buckets.
 *   4 MOVED    Set MOVED in the old chain's control. Only now can a worker reach the children.
 *
 * Any number of workers can move the same chain at the same time: they compute the same words for
 * the same slots, and a swap that comes late finds no 0. A reader that finds a chain not MOVED
 * reads it, frozen or not: its content was right at that moment. A writer that meets FROZEN moves
 * the chain and continues in the child. Housekeeping moves a few chains per loop, with prefetches.
 *
 * kv_index.shape holds the position from which on chains are still searched in the old table. When
 * none are left the new table replaces the old one, whose memory goes back to the segments after a
 * grace period, so a late helper's swaps never hit reused memory.
 *
 * Invariants
 *   - A key is in at most one chain that is not MOVED, once there.
 *   - The children of a chain that is MOVED are READY.
 *   - Chains below shape's position are MOVED.
 *   - An insert that is not committed when its chain freezes is never committed there, as control
 *     cannot change any more. Its worker finds its claim frozen, leaves it, and inserts again.
 *   - The new table has as many overflow buckets as the old one; children need no more of them than
 *     their parent had. If there are none nevertheless (keys chosen with knowledge of the secret),
 *     the worker that made the child evicts what does not fit.
 *
 * Which store pairs with which load
 *   FROZEN in control (acq_rel) before FROZEN in slots: a worker that meets the latter (acquire)
 *     sees the former; so a commit that has seen a frozen slot fails.
 *   READY (release) -> MOVED (acq_rel) -> kv_position_chain() (acquire): the words in the children.
 *   shape (release) -> its readers (acquire): the same, for chains that they do not load any more.
 *   moving (release) -> move_some() (acquire): the new table's pages and overflow buckets.
 *   prefault.h changes no byte of a new table, so it needs no ordering with its users.
 *
 * The phases of a growth advance under a lock that workers only try to take; chains are moved
 * without it.
 */
#include <sched.h>

#include "kv/engine.h"

#define GROW_ITEMS 19 /* per GROW_CHAINS: 4.75 of 7 slots */
#define GROW_CHAINS 4
#define INDEX_BYTES_EACH 16 /* of index memory per item, roughly */
#define FULL_ITEMS 8 /* per chain, projected for a memory full of items of the present mean size */
#define CROWDED_ITEMS 10   /* per chain: grow even if items have to be evicted for it */
#define TABLE_SHARE 4      /* heads take at most a quarter of the memory */
#define LOOK_EVERY_SHIFT 6 /* check the load after inserts of 1/64 of the chains */
#define LOOK_EVERY_MIN 16
#define EXTEND_SHARE 32 /* overflow buckets are added by one part in so many of the heads */
#define PAGE_BYTES UINT64_C(4096)
#define TOUCH_PAGES 16
#define TOUCH_INSERTS 128 /* so many inserts fault TOUCH_PAGES more pages in */
#define RELEASE_BYTES (64 * PAGE_BYTES)
#define MOVE_CHAINS 16
#define MOVE_SPREAD 4
#define OPEN_SHARE 16    /* the thread may take as long as inserts of 1/16 of the chains */
#define LOOP_INSERTS 256 /* after so many in one loop a worker takes up to STEPS_MAX steps */
#define STEPS_MAX 4

/* ---- moving a chain ---------------------------------------------------------------------- */

struct children {
    unsigned count[2];
    uint64_t words[2][KV_CHAIN_SLOTS_MAX];
};

/* Sets the bit if it is not set, and returns the word with it. */
static uint64_t freeze(kv_atomic_u64 *at, uint64_t bit)
{
    uint64_t now = kv_u64_load_acquire(at);
    return (now & bit) ? now : kv_u64_fetch_or_acq_rel(at, bit) | bit;
}

/* Freezes the chain and returns its committed words. */
static void chain_freeze(const struct kv_index *index, struct kv_bucket *head,
                         struct kv_words *words)
{
    unsigned pend = kv_control_pend(freeze(&head->control, KV_CONTROL_FROZEN));
    unsigned number = 0;
    words->count = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, head, bucket)) {
        freeze(&bucket->control, KV_CONTROL_FROZEN);
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = freeze(&bucket->slot[i], KV_WORD_FROZEN);
            number++;
            if ((word & KV_WORD_LIVE) == 0 || ((word & KV_WORD_PEND) && pend != number))
                continue;
            words->at[words->count++] = word & ~(KV_WORD_PEND | KV_WORD_FROZEN);
        }
    }
}

static void divide(const struct kv *kv, const struct kv_words *words, unsigned power,
                   struct children *children)
{
    children->count[0] = children->count[1] = 0;
    for (unsigned i = 0; i < words->count; i++)
        U_PREFETCH(kv_word_item(&kv->index, words->at[i]));
    for (unsigned i = 0; i < words->count; i++) {
        const struct kv_item *item = kv_word_item(&kv->index, words->at[i]);
        uint64_t hash = kv_hash_of(&kv->hash, kv_item_key(item), kv_item_key_len(item));
        unsigned child = hash >> (63 - power) & 1;
        children->words[child][children->count[child]++] = words->at[i];
    }
}

/* Overflow buckets that are filled but not linked yet. */
struct tail {
    unsigned count;
    uint32_t link[KV_CHAIN_BUCKETS_MAX];
};

/* Puts words into overflow buckets; returns how many fit. */
static unsigned tail_fill(struct kv_worker *worker, unsigned power, struct tail *tail,
                          const uint64_t *words, unsigned count)
{
    const struct kv_index *index = &worker->kv->index;
    unsigned done = 0;
    tail->count = 0;
    while (done < count) {
        uint32_t link = kv_overflow_take(worker, power);
        if (link == 0)
            break;
        struct kv_bucket *bucket = kv_overflow_at(index, power, link);
        for (unsigned i = 0; i < KV_BUCKET_SLOTS && done < count; i++)
            kv_u64_store_relaxed(&bucket->slot[i], words[done++]);
        if (tail->count > 0) {
            bucket = kv_overflow_at(index, power, tail->link[tail->count - 1]);
            kv_u64_store_relaxed(&bucket->control, (uint64_t)link << KV_CONTROL_LINK_SHIFT);
        }
        tail->link[tail->count++] = link;
    }
    return done;
}

static void tail_give_back(struct kv_worker *worker, unsigned power, const struct tail *tail)
{
    for (unsigned i = 0; i < tail->count; i++) {
        struct kv_bucket *bucket = kv_overflow_at(&worker->kv->index, power, tail->link[i]);
        kv_u64_store_relaxed(&bucket->control, 0);
        for (unsigned slot = 0; slot < KV_BUCKET_SLOTS; slot++)
            kv_u64_store_relaxed(&bucket->slot[slot], 0);
        kv_overflow_give(worker, power, tail->link[i]);
    }
}

static void evict_words(struct kv_worker *worker, const uint64_t *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct kv_item *item = kv_word_item(&worker->kv->index, words[i]);
        kv_item_mark(item, KV_MARK_DEAD);
        kv_account_unlinked(worker, item, KV_REMOVAL_EVICTED);
    }
}

static void child_fill(struct kv_worker *worker, unsigned power, struct kv_bucket *child,
                       const uint64_t *words, unsigned count)
{
    if (kv_u64_load_acquire(&child->control) & KV_CONTROL_READY)
        return;
    struct tail tail = {0};
    unsigned done = count;
    if (U_UNLIKELY(count > KV_BUCKET_SLOTS))
        done = KV_BUCKET_SLOTS +
               tail_fill(worker, power, &tail, words + KV_BUCKET_SLOTS, count - KV_BUCKET_SLOTS);
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        uint64_t fresh = 0;
        kv_u64_cas_acq_rel(&child->slot[i], &fresh, i < count ? words[i] : KV_WORD_VACANT);
    }
    uint64_t fresh = 0;
    uint64_t link = tail.count > 0 ? tail.link[0] : 0;
    if (kv_u64_cas_acq_rel(&child->control, &fresh,
                           KV_CONTROL_READY | link << KV_CONTROL_LINK_SHIFT))
        evict_words(worker, words + done, count - done);
    else
        tail_give_back(worker, power, &tail);
}

void kv_chain_move(struct kv_worker *worker, struct kv_bucket *head)
{
    const struct kv_index *index = &worker->kv->index;
    if (kv_u64_load_acquire(&head->control) & KV_CONTROL_MOVED)
        return;
    unsigned power = kv_chain_power(index, head);
    struct kv_bucket *child = &index->buckets[2 * (head - index->buckets)];
    struct kv_words words;
    struct children children;
    chain_freeze(index, head, &words);
    divide(worker->kv, &words, power, &children);
    for (unsigned i = 0; i < 2; i++)
        child_fill(worker, power + 1, &child[i], children.words[i], children.count[i]);
    kv_u64_fetch_or_acq_rel(&head->control, KV_CONTROL_MOVED);
}

/* ---- moving all of them ------------------------------------------------------------------ */

static void prefetch_chains(const struct kv_index *index, const struct kv_bucket *heads,
                            uint64_t count)
{
    for (uint64_t n = 0; n < count; n++)
        U_PREFETCH(&heads[n]);
    for (uint64_t n = 0; n < count; n++)
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_relaxed(&heads[n].slot[i]);
            if ((word & (KV_WORD_LIVE | KV_WORD_FROZEN)) == KV_WORD_LIVE)
                U_PREFETCH(kv_word_item(index, word));
        }
}

static bool is_moved(const struct kv_bucket *head)
{
    return (kv_u64_load_acquire(&head->control) & KV_CONTROL_MOVED) != 0;
}

/* Moves some of the next chains; concurrent workers start at different ones. */
static void move_some(struct kv_worker *worker)
{
    struct kv_index *index = &worker->kv->index;
    uint64_t shape = kv_u64_load_acquire(&index->shape);
    unsigned power = (unsigned)(shape & KV_SHAPE_POWER_MASK);
    if (kv_u32_load_acquire(&index->moving) != power + 1)
        return;
    uint64_t chains = UINT64_C(1) << power;
    struct kv_bucket *heads = &index->buckets[chains];
    uint64_t position = shape >> KV_SHAPE_MOVED_SHIFT << KV_SHAPE_POSITION_SHIFT;
    uint64_t first = position >> (63 - power);
    uint64_t start = first + worker->move_count++ % MOVE_SPREAD * MOVE_CHAINS;
    if (start >= chains)
        start = first;
    uint64_t count = u_min64(MOVE_CHAINS, chains - start);
    prefetch_chains(index, &heads[start], count);
    for (uint64_t n = start; n < start + count; n++)
        kv_chain_move(worker, &heads[n]);

    uint64_t next = first;
    uint64_t end = u_min64(first + 2 * MOVE_SPREAD * MOVE_CHAINS, chains);
    while (next < end && is_moved(&heads[next]))
        next++;
    uint64_t moved = next << (63 - power) >> KV_SHAPE_POSITION_SHIFT;
    uint64_t wanted = next == chains ? power + 1 : moved << KV_SHAPE_MOVED_SHIFT | power;
    if (next != first)
        kv_u64_cas_acq_rel(&index->shape, &shape, wanted); /* fails if another worker did it */
}

/* ---- the steps of a growth (under the lock) ---------------------------------------------- */

static void phase_set(struct kv_index *index, enum kv_grow_phase phase)
{
    index->grow_at = 0;
    kv_u32_store_relaxed(&index->phase, phase);
}

static uint64_t bytes_of(const struct kv_index *index)
{
    return kv_u64_load_relaxed(&index->bytes);
}

/*
 * Overflow buckets added at a time; the table is extended when fewer than twice as many are left.
 */
static uint32_t extension_step(unsigned power)
{
    const uint32_t page = PAGE_BYTES / sizeof(struct kv_bucket);
    return u_max32(page, (uint32_t)((UINT64_C(1) << power) / EXTEND_SHARE));
}

/* Overflow buckets that the table may get now. */
static uint32_t extension(const struct kv_index *index)
{
    unsigned power = kv_index_power(index);
    uint64_t most = u_min64(UINT64_C(1) << power, KV_LINKS_MAX);
    uint64_t room = most - kv_u32_load_relaxed(&index->overflows[power & 1].end);
    return (uint32_t)u_min64(room, extension_step(power));
}

/* Starts to withdraw segments of so many bytes; `crowded`: even if items must be evicted. */
static bool request_memory(struct kv *kv, uint64_t bytes, bool crowded, bool extends)
{
    struct kv_index *index = &kv->index;
    if (!kv_budget_allows(kv, bytes, crowded && kv->config.evict))
        return false;
    index->extends = extends;
    kv_budget_set(kv, bytes_of(index) + bytes);
    phase_set(index, KV_GROW_WAIT_MEMORY);
    return true;
}

/*
 * Whether chains are long now and would be too long with the memory full. A full cache may have
 * longer chains, since the memory of heads would cost items.
 */
static bool is_too_small(const struct kv *kv, const struct kv_stats *stats, uint64_t chains)
{
    if (stats->items * GROW_CHAINS <= chains * GROW_ITEMS)
        return false;
    uint64_t each = stats->item_bytes / stats->items + INDEX_BYTES_EACH;
    return kv_memory_bound(kv) / each > chains * FULL_ITEMS;
}

static void consider(struct kv *kv)
{
    const struct kv_index *index = &kv->index;
    unsigned power = kv_index_power(index);
    uint64_t chains = UINT64_C(1) << power;
    uint64_t heads_max = kv_memory_bound(kv) / TABLE_SHARE;
    struct kv_stats stats;
    if (index->refused)
        return;
    kv_stats(kv, &stats);
    if (is_too_small(kv, &stats, chains) && power < index->power_max &&
        2 * chains * sizeof(struct kv_bucket) <= heads_max &&
        request_memory(kv, kv_table_bytes(power + 1), stats.items > chains * CROWDED_ITEMS, false))
        return;
    const struct kv_overflow *overflow = &index->overflows[power & 1];
    uint32_t end = kv_u32_load_relaxed(&overflow->end);
    if (extension(index) > 0 && (uint32_t)kv_u64_load_relaxed(&overflow->stack) == 0 &&
        kv_u32_load_relaxed(&overflow->next) + 2 * extension_step(power) > end)
        request_memory(kv, extension(index) * sizeof(struct kv_bucket), true, true);
}

static void give_up(struct kv *kv)
{
    kv_budget_set(kv, bytes_of(&kv->index));
    phase_set(&kv->index, KV_GROW_NONE);
}

/*
 * The memory that has to be made accessible: more overflow buckets, or a larger table. 0 if it is
 * accessible since the start.
 */
static unsigned parts_of(const struct kv_index *index,
                         struct kv_prefault_range parts[KV_PREFAULT_RANGES])
{
    unsigned power = kv_index_power(index) + !index->extends;
    if (power <= index->power_open)
        return 0;
    if (index->extends) {
        uint32_t end = kv_u32_load_relaxed(&index->overflows[power & 1].end);
        parts[0].from = (uint8_t *)kv_overflow_at(index, power, end);
        parts[0].bytes = (uint64_t)extension(index) * sizeof(struct kv_bucket);
        return 1;
    }
    parts[0].from = (uint8_t *)kv_table_chain(index, power, 0);
    parts[0].bytes = sizeof(struct kv_bucket) << power;
    parts[1].from = (uint8_t *)kv_overflow_at(index, power, 0);
    parts[1].bytes = kv_table_bytes(power) - parts[0].bytes;
    return 2;
}

static void refused(struct kv *kv)
{
    kv->index.refused = true;
    give_up(kv);
}

/* Puts the new overflow buckets into use. */
static void extend(struct kv_index *index)
{
    struct kv_overflow *overflow = &index->overflows[kv_index_power(index) & 1];
    uint32_t count = extension(index);
    kv_u64_store_relaxed(&index->bytes, index->bytes_wanted);
    kv_u32_store_release(&overflow->end, kv_u32_load_relaxed(&overflow->end) + count);
    phase_set(index, KV_GROW_NONE);
}

/* Starts to move chains to the larger table. */
static void begin_to_move(struct kv_index *index)
{
    unsigned power = kv_index_power(index) + 1;
    struct kv_overflow *overflow = &index->overflows[power & 1];
    kv_u64_store_relaxed(&overflow->stack, 0);
    kv_u32_store_relaxed(&overflow->next, 1);
    kv_u32_store_release(&overflow->end, kv_overflow_count(power));
    phase_set(index, KV_GROW_MOVE);
    kv_u32_store_release(&index->moving, power);
}

/* Makes the memory accessible without the thread. */
static void open_here(struct kv *kv)
{
    struct kv_index *index = &kv->index;
    struct kv_prefault_range parts[KV_PREFAULT_RANGES];
    unsigned count = parts_of(index, parts);
    for (unsigned i = 0; i < count; i++)
        if (!kv_memory_open(&kv->memory, parts[i].from, parts[i].bytes)) {
            refused(kv);
            return;
        }
    if (index->extends) {
        extend(index);
        return;
    }
    kv_u64_store_relaxed(&index->bytes, index->bytes_wanted);
    phase_set(index, KV_GROW_FAULT_PAGES);
}

/* Makes the memory accessible by the thread if there is one. */
static void open_begin(struct kv *kv)
{
    struct kv_prefault_range parts[KV_PREFAULT_RANGES];
    unsigned count = parts_of(&kv->index, parts);
    if (count > 0 && kv_prefault_request(&kv->prefault, parts, count))
        phase_set(&kv->index, KV_GROW_PREFAULT);
    else
        open_here(kv);
}

/* Cancels the request if the thread takes too long, as it may not get a core. */
static void wait_for_thread(struct kv *kv, uint64_t inserted)
{
    struct kv_index *index = &kv->index;
    uint64_t inserts_max = (UINT64_C(1) << kv_index_power(index)) / OPEN_SHARE;
    enum kv_prefault_result touched = kv_prefault_poll(&kv->prefault);
    index->grow_at += inserted;
    if (touched == KV_PREFAULT_REFUSED) {
        refused(kv);
    } else if (touched == KV_PREFAULT_PENDING) {
        if (index->grow_at >= inserts_max && kv_prefault_cancel(&kv->prefault))
            open_here(kv);
    } else if (index->extends) {
        extend(index);
    } else {
        kv_u64_store_relaxed(&index->bytes, index->bytes_wanted);
        begin_to_move(index);
    }
}

static void wait_for_memory(struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    bool arrived =
        kv_u32_load_relaxed(&segments->in_service) <= kv_u32_load_relaxed(&segments->wanted);
    if (!arrived && !kv->config.evict &&
        kv_segment_list_count(&segments->free) <= kv_floor_segments(kv))
        give_up(kv); /* items have taken the memory meanwhile */
    else if (arrived)
        open_begin(kv);
}

/* Faults pages in here rather than in a request. */
static void touch_some(struct kv_index *index, unsigned pages)
{
    unsigned power = kv_index_power(index) + 1;
    uint64_t heads_bytes = sizeof(struct kv_bucket) << power;
    uint64_t bytes = kv_table_bytes(power);
    for (unsigned i = 0; i < pages && index->grow_at < bytes; i++) {
        uint64_t at = index->grow_at;
        struct kv_bucket *heads = kv_table_chain(index, power, 0);
        struct kv_bucket *bucket =
            at < heads_bytes
                ? heads + at / sizeof(*heads)
                : kv_overflow_at(index, power, (uint32_t)((at - heads_bytes) / sizeof(*heads)));
        kv_u64_store_relaxed(&bucket->control, 0);
        index->grow_at += PAGE_BYTES;
    }
    if (index->grow_at >= bytes)
        begin_to_move(index);
}

static void retire_if_moved(struct kv *kv)
{
    struct kv_index *index = &kv->index;
    if (kv_u32_load_relaxed(&index->moving) != kv_index_power(index))
        return;
    kv_u32_store_relaxed(&index->moving, 0);
    index->retired = kv_epoch_retire(&kv->epoch);
    phase_set(index, KV_GROW_WAIT_READERS);
}

static void release_some(struct kv *kv)
{
    struct kv_index *index = &kv->index;
    unsigned power = kv_index_power(index) - 1;
    uint64_t heads_bytes = sizeof(struct kv_bucket) << power;
    uint64_t tail_bytes =
        kv_u32_load_relaxed(&index->overflows[power & 1].end) * sizeof(struct kv_bucket);
    uint64_t at = index->grow_at;
    uint8_t *from = (uint8_t *)kv_table_chain(index, power, 0) + at;
    uint64_t left = heads_bytes - at;
    if (at >= heads_bytes) {
        from = (uint8_t *)kv_overflow_at(index, power, 0) + (at - heads_bytes);
        left = heads_bytes + tail_bytes - at;
    }
    uint64_t bytes = u_min64(left, RELEASE_BYTES);
    (void)kv_memory_close(&kv->memory, from, bytes);
    index->grow_at += bytes;
    if (index->grow_at < heads_bytes + tail_bytes)
        return;
    kv_u64_store_relaxed(&index->bytes, bytes_of(index) - heads_bytes - tail_bytes);
    kv_u32_store_relaxed(&index->growths, kv_u32_load_relaxed(&index->growths) + 1);
    give_up(kv); /* returns the old table's memory to the segments */
}

static uint64_t look_every(const struct kv_index *index)
{
    uint64_t often = UINT64_C(1) << kv_index_power(index) >> LOOK_EVERY_SHIFT;
    return often > LOOK_EVERY_MIN ? often : LOOK_EVERY_MIN;
}

/* One step; `inserted`: this worker's inserts since its last step. */
static void step(struct kv *kv, enum kv_grow_phase phase, uint64_t inserted)
{
    switch (phase) {
    case KV_GROW_NONE:
        consider(kv);
        break;
    case KV_GROW_WAIT_MEMORY:
        wait_for_memory(kv);
        break;
    case KV_GROW_PREFAULT:
        wait_for_thread(kv, inserted);
        break;
    case KV_GROW_FAULT_PAGES:
        touch_some(&kv->index, TOUCH_PAGES * kv_steps_due(inserted, TOUCH_INSERTS));
        break;
    case KV_GROW_MOVE:
        retire_if_moved(kv);
        break;
    case KV_GROW_WAIT_READERS:
        if (kv_epoch_oldest(&kv->epoch, U_NULL) >= kv->index.retired)
            phase_set(&kv->index, KV_GROW_RELEASE);
        break;
    case KV_GROW_RELEASE:
        release_some(kv);
        break;
    }
}

void kv_grow_step(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    struct kv_index *index = &kv->index;
    enum kv_grow_phase phase = (enum kv_grow_phase)kv_u32_load_relaxed(&index->phase);
    uint64_t inserted = worker->inserted;
    if (U_LIKELY(phase == KV_GROW_NONE) &&
        (U_LIKELY(inserted < LOOK_EVERY_MIN) || inserted < look_every(index)))
        return;
    if (phase == KV_GROW_MOVE) {
        for (unsigned left = kv_steps_due(inserted, MOVE_CHAINS); left > 0; left--)
            move_some(worker);
        worker->inserted = 0;
    }
    if (!kv_lock_try(&index->grow_lock)) {
        /* The holder may be preempted; inserts in the meantime would find full chains. */
        if (inserted > 0)
            sched_yield();
        return; /* worker->inserted keeps counting */
    }
    worker->inserted = 0;
    unsigned steps = inserted >= LOOP_INSERTS ? STEPS_MAX : 1;
    enum kv_grow_phase before;
    do {
        before = (enum kv_grow_phase)kv_u32_load_relaxed(&index->phase);
        step(kv, before, inserted);
    } while (--steps > 0 && before != (enum kv_grow_phase)kv_u32_load_relaxed(&index->phase));
    /* The larger table may be too small already: check the load again. */
    if (before == KV_GROW_RELEASE && kv_u32_load_relaxed(&index->phase) == KV_GROW_NONE)
        worker->inserted = look_every(index);
    kv_lock_drop(&index->grow_lock);
}

bool kv_grow_is_active(const struct kv_index *index)
{
    return kv_u32_load_relaxed(&index->phase) > KV_GROW_WAIT_MEMORY;
}
