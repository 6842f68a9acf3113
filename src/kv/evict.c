/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction: scans the records of a segment until it can be reused.
 *
 * The next segment to empty is, in this order:
 *   1. one of whose items a good part has expired (sweep.c): the scan removes expired items only.
 *   In
 *      urgent need this comes last, as it may not empty the segment;
 *   2. one of the next few segments that is at least a quarter dead: its live items move;
 *   3. one of the pool that the policy chooses: the policy decides which items move and which are
 *      evicted.
 * Each byte that is found dead or evicted earns MOVE_CREDIT_RATE bytes of moving, so that a scan
 * gains memory even if the policy retains everything. With config.evict false all items move, and
 * only dead bytes are gained.
 *
 * To move a record: seal it, copy it, swap the copy's word for the old one in its slot. If the slot
 * no longer holds the old word, the copy is dropped. A sealed item does not change, so no touch is
 * lost. Readers of the old record keep reading it: its segment is reused after a grace period.
 *
 * A large item moves by its head: the new head refers to the same extents, except for at most one
 * that was copied. So heads and extents are immutable, too.
 *
 * Bounds: housekeeping and kv_item_new() scan a number of records that depends on the item's
 * size only. They keep some segments free, so that kv_evict_make_free(), which may scan
 * whole segments, finds a free one. It empties at most TRIES_MAX of them, then one between two
 * sleeps, and waits at most WAITS_MAX polls, about a tenth of a second.
 */
#include <time.h>

#include "kv/engine.h"

#define CHOOSE_MAX 8
#define LOOK_MAX 64
#define COMPACT_LOOK_MAX 1024
#define TRIES_MAX 128
#define TRIES_PATIENT 16 /* beyond: urgent, everything is evicted whatever the policy decides */
#define WAITS_MAX 1024
#define WAITS_AWAKE 512 /* beyond: sleeps NAP_NS between two polls */
#define WAITS_SHORT 32
#define NAP_NS 100000
#define RETIRED_SHARE 8 /* at most one part in so many of the memory is retired in advance */
#define MOVE_CREDIT_RATE 8
#define MOVE_CREDIT_SEGMENTS_MAX 16 /* bound of the credit */
#define EXPIRE_LOOK_MAX 256
#define DEAD_LOOK_MAX 16
#define RANDOM_TRIES_MAX 16
#define PAY_RECORDS 4 /* for each new item, and one more per PAY_BYTES of it */
#define PAY_BYTES 64
#define SLACK_SHARE 8 /* a younger victim needs so many fewer live bytes: segment / SLACK_SHARE */
#define DEAD_SHARE 16 /* compact only segments with segment / DEAD_SHARE dead bytes */

/* ---- owners of records ------------------------------------------------------------------- */

/* A record that has to leave its segment, and its item: the record is its head or an extent. */
struct owner {
    struct kv_item *item;
    struct kv_item *record;
    uint64_t hash;
    uint64_t word;
};

static bool has_extent(const struct kv_item *item, const struct kv_item *extent)
{
    if (!kv_item_is_large(item))
        return false;
    const struct kv_extents *extents = kv_item_extents(item);
    for (uint32_t i = 0; i < extents->count; i++)
        if (kv_item_extent(item, i) == extent)
            return true;
    return false;
}

/* Finds the linked item that an extent belongs to. */
static bool extent_owner(const struct kv_worker *worker, struct kv_item *extent,
                         struct owner *owner)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t hash = kv_item_cas(extent);
    uint64_t position = hash >> 1;
    struct kv_words words;
    kv_index_copy(index, &position, &words);
    for (unsigned i = 0; i < words.count; i++) {
        struct kv_item *item = kv_word_item(index, words.at[i]);
        if (kv_word_has_tag(words.at[i], hash) && has_extent(item, extent)) {
            *owner = (struct owner){item, extent, hash, words.at[i]};
            return true;
        }
    }
    return false;
}

static bool head_owner(const struct kv_worker *worker, struct kv_item *item, struct owner *owner)
{
    const struct kv *kv = worker->kv;
    struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
    uint64_t word = kv_word_of(&kv->index, key.hash, item);
    *owner = (struct owner){item, item, key.hash, word};
    return kv_index_has(&kv->index, key.hash, word);
}

/* False if the record is dead or not published yet. */
static bool find_owner(const struct kv_worker *worker, struct kv_item *record, struct owner *owner)
{
    uint8_t marks = kv_item_marks(record);
    if (marks & KV_MARK_DEAD)
        return false;
    if (marks & KV_MARK_EXTENT)
        return extent_owner(worker, record, owner);
    return head_owner(worker, record, owner);
}

/* ---- moving ------------------------------------------------------------------------------ */

/* How eviction changes the access bits of an item that it retains. */
struct access_change {
    uint32_t keep; /* mask of the bits to keep */
    uint32_t set;  /* bits to set */
};

static const struct access_change access_unchanged = {KV_ACCESS_BITS, 0};

static uint32_t access_changed(const struct kv_item *item, struct access_change change)
{
    uint32_t access = kv_item_access(item);
    return kv_access_make(kv_access_seconds(access), (access & change.keep) | change.set);
}

/* Copies the words that change; `status` is the sealed item's. The copy is not sealed. */
static void copy_changing(struct kv_item *to, const struct kv_item *from, uint64_t status,
                          struct access_change change)
{
    uint8_t marks = kv_status_marks(status) & (uint8_t) ~(KV_MARK_SEALED | KV_MARK_DEAD);
    kv_item_status_set(to, kv_status_with_marks(status, marks));
    kv_item_cas_set(to, kv_item_cas(from));
    kv_item_access_store(to, access_changed(from, change));
}

/* Copies a record to a log with enough free bytes. */
static struct kv_item *record_copy(struct kv_worker *worker, unsigned log,
                                   const struct kv_item *from)
{
    uint32_t bytes = kv_record_bytes(from);
    struct kv_item *to = (struct kv_item *)kv_log_append(worker, log, KV_LOG_MOVED, bytes);
    U_ASSERT(to != U_NULL);
    kv_record_copy_fixed(to, from, bytes);
    copy_changing(to, from, kv_item_status(from), access_unchanged);
    return to;
}

/* Puts the new head into the old one's slot. False if the key was changed or flushed. */
static bool exchange(struct kv_worker *worker, const struct owner *owner, struct kv_item *head,
                     struct access_change change)
{
    if (U_UNLIKELY(!kv_generation_may_move(worker->kv, owner->item, head)))
        return false;
    uint64_t status = kv_item_mark(owner->item, KV_MARK_SEALED);
    copy_changing(head, owner->item, status, change);
    kv_item_note_exptime(worker, head, kv_status_exptime(status));
    return kv_index_exchange(worker, owner->hash, owner->word, head);
}

static uint32_t owner_bytes(const struct owner *owner)
{
    uint32_t bytes = kv_record_bytes(owner->record);
    return owner->record == owner->item ? bytes : bytes + kv_record_bytes(owner->item);
}

static void extent_exchange(struct kv_item *head, const struct kv_item *from, struct kv_item *to)
{
    for (uint32_t i = 0; i < kv_item_extents(head)->count; i++)
        if (kv_item_extent(head, i) == from)
            kv_item_set_extent(head, i, to);
}

/* Moves a record to a pool. False if there is no memory for the copy. */
static bool move(struct kv_worker *worker, const struct owner *owner, enum kv_pool pool,
                 struct access_change change)
{
    unsigned log = kv_log_for(worker, pool, kv_item_exptime(owner->item));
    kv_log_refresh(worker, log);
    if (kv_log_reserve(worker, log, KV_LOG_MOVED, owner_bytes(owner)) == 0)
        return false;
    /*
     * kv_log_reserve() may have reclaimed retired segments: not the one of this scan, but maybe the
     * one with an extent's head. If the head is still linked now, it stays readable: this worker
     * does not reclaim before the end of the move, and other workers' reclaiming waits for it.
     */
    struct owner now;
    if (owner->record != owner->item &&
        (!extent_owner(worker, owner->record, &now) || now.word != owner->word))
        return true;
    struct kv_item *extent = U_NULL;
    struct kv_item *head = record_copy(worker, log, owner->item);
    kv_record_charge(worker, head);
    if (owner->record != owner->item) {
        extent = record_copy(worker, log, owner->record);
        extent_exchange(head, owner->record, extent);
        kv_record_charge(worker, extent);
    }
    if (exchange(worker, owner, head, change)) {
        if (extent)
            kv_record_discharge(worker, owner->record);
        kv_record_discharge(worker, owner->item);
        return true;
    }
    if (extent) {
        kv_record_uncharge(worker, extent);
        kv_log_drop(worker, extent, kv_record_bytes(extent));
    }
    kv_record_uncharge(worker, head);
    kv_log_drop(worker, head, kv_record_bytes(head));
    return true;
}

/* ---- the scan ---------------------------------------------------------------------------- */

static uint64_t move_credit_max(const struct kv_worker *worker)
{
    return (uint64_t)kv_segments_bytes(&worker->kv->segments) * MOVE_CREDIT_SEGMENTS_MAX;
}

static void move_credit_earn(struct kv_worker *worker, uint32_t bytes)
{
    uint64_t earned = worker->move_credit_bytes + (uint64_t)bytes * MOVE_CREDIT_RATE;
    worker->move_credit_bytes = u_min64(move_credit_max(worker), earned);
}

static bool is_last_extent(const struct owner *owner)
{
    uint32_t count = kv_item_extents(owner->item)->count;
    return kv_item_extent(owner->item, count - 1) == owner->record;
}

/*
 * The policy's verdict; *change is what happens to the item's access bits if it stays.
 *
 * The segments of a large item are scanned at different times, in any order, and must decide alike:
 * the policy decides when a scan meets the head; if the item stays it is marked RETAINED, extents
 * follow that mark, and the last extent clears it.
 */
static struct kv_policy_verdict decide(const struct kv_worker *worker, const struct owner *owner,
                                       struct access_change *change)
{
    const struct kv_item *item = owner->item;
    struct kv_policy_verdict verdict =
        worker->kv->policy->decide(worker->cleaner.pool, kv_item_freq(item));
    if (owner->record == item) {
        uint32_t retained = kv_item_is_large(item) ? KV_ACCESS_RETAINED : 0;
        change->keep = KV_ACCESS_FETCHED;
        change->set = retained | verdict.freq << KV_ACCESS_FREQ_SHIFT;
        return verdict;
    }
    *change = access_unchanged;
    if (is_last_extent(owner))
        change->keep = KV_ACCESS_BITS & ~(uint32_t)KV_ACCESS_RETAINED;
    if (kv_item_access(item) & KV_ACCESS_RETAINED)
        verdict = (struct kv_policy_verdict){.stays = true, .pool = KV_POOL_MAIN};
    return verdict;
}

/*
 * Moves a record to a pool; one that fills more than half of its segment stays, and the whole
 * segment moves to that pool at the end of the scan. False if there is no memory for the copy.
 */
static bool retain(struct kv_worker *worker, const struct owner *owner, enum kv_pool pool,
                   struct access_change change)
{
    if (owner_bytes(owner) <= kv_segments_bytes(&worker->kv->segments) / 2)
        return move(worker, owner, pool, change);
    kv_item_access_set(owner->item, kv_item_access(owner->item),
                       access_changed(owner->item, change));
    worker->cleaner.retains = true;
    worker->cleaner.retain_to = pool;
    return true;
}

static void evict(struct kv_worker *worker, const struct owner *owner)
{
    struct kv *kv = worker->kv;
    if (!kv_index_unlink(worker, owner->hash, owner->word))
        return;
    kv_account_unlinked(worker, owner->item, KV_REMOVAL_EVICTED);
    if (kv->policy->uses_ghosts && worker->cleaner.pool == KV_POOL_SMALL)
        kv_ghost_remember(&kv->ghost, owner->hash);
}

static void clean_evict(struct kv_worker *worker, const struct owner *owner)
{
    uint32_t bytes = owner_bytes(owner);
    struct access_change change;
    struct kv_policy_verdict verdict = decide(worker, owner, &change);
    if (verdict.stays && !worker->urgent && bytes <= worker->move_credit_bytes &&
        retain(worker, owner, verdict.pool, change)) {
        worker->move_credit_bytes -= bytes;
        return;
    }
    move_credit_earn(worker, bytes);
    evict(worker, owner);
}

/* False if there is no memory for the copy. */
static bool clean_compact(struct kv_worker *worker, const struct owner *owner)
{
    if (owner_bytes(owner) > kv_segments_bytes(&worker->kv->segments))
        return true; /* a record that fills its segment */
    return move(worker, owner, worker->cleaner.pool, access_unchanged);
}

/* Processes one record. False if the scan has to end. */
static bool clean_record(struct kv_worker *worker, struct kv_item *record)
{
    const struct kv_cleaner *cleaner = &worker->cleaner;
    struct kv_segments *segments = &worker->kv->segments;
    bool sweeps = cleaner->mode == KV_CLEAN_EXPIRE;
    uint64_t status = sweeps ? kv_item_mark(record, 0) : kv_item_status(record); /* sweep.c */
    uint32_t exptime = kv_status_exptime(status);
    if (sweeps && !(kv_status_marks(status) & KV_MARK_EXTENT) &&
        (exptime == 0 || exptime > worker->now_s)) {
        kv_segment_note_exptime(segments, cleaner->segment, exptime);
        return true;
    }
    struct owner owner;
    if (!find_owner(worker, record, &owner)) {
        move_credit_earn(worker, kv_record_bytes(record));
        return true;
    }
    enum kv_found found = kv_item_validity(worker, owner.item);
    if (found != KV_HIT)
        kv_remove_invalid(worker, owner.item, owner.hash, owner.word, found);
    else if (cleaner->mode == KV_CLEAN_EVICT)
        clean_evict(worker, &owner);
    else if (cleaner->mode == KV_CLEAN_COMPACT)
        return clean_compact(worker, &owner);
    else
        kv_segment_note_exptime(segments, cleaner->segment, kv_item_exptime(owner.item));
    return true;
}

/* The caller has claimed the segment. */
static void clean_start(struct kv_worker *worker, uint32_t segment, enum kv_clean_mode mode)
{
    U_ASSERT(worker->cleaner.mode == KV_CLEAN_NONE);
    const struct kv_segment *header = &worker->kv->segments.array[segment];
    worker->cleaner = (struct kv_cleaner){
        .mode = mode, .segment = segment, .pool = (enum kv_pool)kv_u8_load_relaxed(&header->pool)};
}

bool kv_clean_begin(struct kv_worker *worker, uint32_t segment, enum kv_clean_mode mode)
{
    if (!kv_segment_claim(&worker->kv->segments, segment))
        return false;
    clean_start(worker, segment, mode);
    return true;
}

/* Sizes the ghost queue to the estimated number of items in the main pool. */
static void ghosts_fit(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    uint64_t segments = kv_segment_list_count(&kv->segments.sealed[KV_POOL_MAIN]);
    kv_ghost_fit(&kv->ghost, segments * worker->cleaner.records);
}

void kv_clean_end(struct kv_worker *worker)
{
    struct kv_cleaner *cleaner = &worker->cleaner;
    struct kv_segments *segments = &worker->kv->segments;
    if (cleaner->mode == KV_CLEAN_NONE)
        return;
    bool through = cleaner->at >= segments->array[cleaner->segment].used;
    /* The lower bound of expiry is incomplete: 1 makes the sweep scan this segment again. */
    if (cleaner->mode == KV_CLEAN_EXPIRE && !through)
        kv_segment_note_exptime(segments, cleaner->segment, 1);
    if (cleaner->mode == KV_CLEAN_EVICT && through && worker->kv->policy->uses_ghosts)
        ghosts_fit(worker);
    cleaner->mode = KV_CLEAN_NONE;
    if (cleaner->retains)
        kv_segment_unclaim_to(segments, cleaner->segment, cleaner->retain_to);
    else
        kv_segment_unclaim(segments, cleaner->segment);
}

void kv_clean_step(struct kv_worker *worker, unsigned records)
{
    struct kv_cleaner *cleaner = &worker->cleaner;
    struct kv_segments *segments = &worker->kv->segments;
    while (cleaner->mode != KV_CLEAN_NONE && records-- > 0) {
        if (cleaner->at >= segments->array[cleaner->segment].used) {
            kv_clean_end(worker);
            return;
        }
        uint8_t *at = kv_segment_base(segments, cleaner->segment) + cleaner->at;
        struct kv_item *record = (struct kv_item *)(void *)at;
        cleaner->at += kv_record_bytes(record);
        cleaner->records++;
        if (!clean_record(worker, record))
            kv_clean_end(worker);
    }
}

void kv_evict_init(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    worker->cleaner.mode = KV_CLEAN_NONE;
    worker->move_credit_bytes = move_credit_max(worker);
    worker->freq_max = kv->policy->freq_max;
    worker->access_saturated = kv_access_saturated(worker);
    worker->urgent = false;
    worker->waited_for = 0;
    u_prng_seed(&worker->prng, (uint64_t)(worker - kv->workers));
}

/* ---- making room ------------------------------------------------------------------------- */

/*
 * Segments that housekeeping keeps free or retired: the reserve and those to be withdrawn. None
 * while segments are being admitted, so that no item is evicted needlessly.
 */
static uint32_t free_wanted(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    uint32_t in_service = kv_u32_load_relaxed(&segments->in_service);
    uint32_t wanted = kv_u32_load_relaxed(&segments->wanted);
    if (in_service < wanted)
        return 0;
    return kv_u32_load_relaxed(&kv->reserve_segments) + (in_service - wanted);
}

static struct kv_occupancy occupancy(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    struct kv_occupancy now;
    for (int pool = 0; pool < KV_POOLS; pool++)
        now.segments[pool] = kv_segment_list_count(&segments->sealed[pool]);
    now.roomy = kv_segment_list_count(&segments->free) > 2 * free_wanted(kv);
    return now;
}

struct kv_pool_entry kv_evict_place(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv *kv = worker->kv;
    const struct kv_policy *policy = kv->policy;
    struct kv_pool_entry start = {KV_POOL_MAIN, 0};
    if (!kv_evict_uses_ghosts(kv))
        return start;
    struct kv_find old;
    if (!kv_index_find(&kv->index, key, &old)) {
        struct kv_occupancy now = occupancy(kv);
        start.pool = policy->place(&now, kv_ghost_recall(&kv->ghost, key->hash));
        return start;
    }
    return kv_evict_place_again(worker, old.item);
}

/* ---- victims ----------------------------------------------------------------------------- */

/* Claims the deadest of the next few segments, if a quarter is dead and one is free to move to. */
static uint32_t claim_part_dead(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    if (kv_segment_list_count(&segments->free) == 0)
        return KV_SEGMENT_NONE;
    uint32_t count = kv_segments_count(segments);
    uint32_t live_bytes_max = kv_segments_bytes(segments) / 4 * 3;
    uint32_t best = KV_SEGMENT_NONE;
    uint64_t best_usage = (uint64_t)live_bytes_max + 1;
    for (unsigned i = 0; i < DEAD_LOOK_MAX; i++) {
        uint32_t index = worker->compact_next < count ? worker->compact_next : 0;
        worker->compact_next = index + 1;
        const struct kv_segment *segment = &segments->array[index];
        uint64_t usage = kv_u64_load_relaxed(&segment->usage);
        if (kv_u8_load_seq_cst(&segment->state) == KV_SEGMENT_SEALED && usage < best_usage) {
            best = index;
            best_usage = usage;
        }
    }
    if (best != KV_SEGMENT_NONE && !kv_segment_claim_if(segments, best, live_bytes_max))
        best = KV_SEGMENT_NONE;
    return best;
}

static uint32_t claim_random(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    for (unsigned i = 0; i < RANDOM_TRIES_MAX; i++) {
        uint32_t index = u_prng_below(&worker->prng, kv_segments_count(segments));
        if (kv_segment_claim_if(segments, index, KV_SEGMENT_LIVE_MASK))
            return index;
    }
    return KV_SEGMENT_NONE;
}

static uint32_t claim_oldest(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_occupancy now = occupancy(worker->kv);
    struct kv_victim_search search = {.pool = worker->kv->policy->victim_pool(&now),
                                      .look_max = LOOK_MAX,
                                      .choose_max = CHOOSE_MAX,
                                      .slack_bytes = kv_segments_bytes(segments) / SLACK_SHARE,
                                      .now_s = worker->now_s};
    uint32_t segment = kv_segment_claim_victim(segments, &search);
    if (segment == KV_SEGMENT_NONE) {
        search.pool = search.pool == KV_POOL_MAIN ? KV_POOL_SMALL : KV_POOL_MAIN;
        segment = kv_segment_claim_victim(segments, &search);
    }
    return segment;
}

/* Without eviction: claims a segment with enough dead bytes. */
static uint32_t claim_to_compact(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_victim_search search = {.pool = KV_POOL_MAIN,
                                      .look_max = COMPACT_LOOK_MAX,
                                      .choose_max = COMPACT_LOOK_MAX,
                                      .dead_bytes_min = kv_segments_bytes(segments) / DEAD_SHARE,
                                      .now_s = worker->now_s};
    return kv_segment_claim_victim(segments, &search);
}

/*
 * Starts a scan that frees memory. False if there is no segment for it. Segments with expired items
 * come first; but in a new second many segments may have lost only a part of their items, so an
 * urgent worker prefers segments that become empty.
 */
static bool victim_begin(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    if (!worker->urgent && kv_sweep_begin(worker, EXPIRE_LOOK_MAX))
        return true;
    enum kv_clean_mode mode = KV_CLEAN_COMPACT;
    uint32_t segment = kv->config.evict ? claim_part_dead(worker) : claim_to_compact(worker);
    if (segment == KV_SEGMENT_NONE && kv->config.evict) {
        mode = KV_CLEAN_EVICT;
        if (kv->policy->random_victim)
            segment = claim_random(worker);
        if (segment == KV_SEGMENT_NONE)
            segment = claim_oldest(worker);
    }
    if (segment == KV_SEGMENT_NONE)
        return worker->urgent && kv_sweep_begin(worker, EXPIRE_LOOK_MAX);
    clean_start(worker, segment, mode);
    return true;
}

/* ---- freeing a segment ------------------------------------------------------------------- */

/* Whether so much is retired already that emptying more is useless until other workers quiesce. */
static bool is_much_retired(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    uint32_t in_service = kv_u32_load_relaxed(&segments->in_service);
    uint32_t retired_max = free_wanted(kv) + in_service / RETIRED_SHARE;
    return kv_segment_list_count(&segments->retired) >= retired_max;
}

/* Empties one segment. False if there is no victim. */
static bool empty_one(struct kv_worker *worker)
{
    if (worker->cleaner.mode == KV_CLEAN_NONE && !victim_begin(worker))
        return false;
    kv_clean_step(worker, UINT32_MAX);
    return true;
}

/*
 * Without eviction: compacts the oldest segment if it may hold flushed items that the purge has not
 * reached, which are not counted as dead yet. May gain nothing.
 */
static bool empty_flushed(struct kv_worker *worker)
{
    static const struct kv_victim_search oldest = {
        .pool = KV_POOL_MAIN, .look_max = LOOK_MAX, .choose_max = 1};
    struct kv *kv = worker->kv;
    if (kv->config.evict || worker->cleaner.mode != KV_CLEAN_NONE || kv_flushes_behind(kv) == 0)
        return false;
    uint32_t segment = kv_segment_claim_victim(&kv->segments, &oldest);
    if (segment == KV_SEGMENT_NONE)
        return false;
    clean_start(worker, segment, KV_CLEAN_COMPACT);
    kv_clean_step(worker, UINT32_MAX);
    return true;
}

/*
 * Whether waiting is useless, after the other workers' oldest announcement was `oldest` and nothing
 * could be reclaimed: either all of them had announced the latest retirement `clock`, so only this
 * worker's own views are in the way; or a full wait for that announcement has already timed out.
 * False if an announcement changed in the meantime. Comparing the clock covers workers that came
 * online in between: kv_epoch_online() increments it.
 */
static bool is_hopeless(const struct kv_worker *worker, uint64_t clock, uint64_t oldest)
{
    const struct kv_epoch *epoch = &worker->kv->epoch;
    if (kv_epoch_oldest(epoch, worker->member) != oldest)
        return false;
    return oldest == worker->waited_for ||
           (oldest >= clock && kv_u64_load_acquire(&epoch->clock) == clock);
}

static void nap(unsigned *waits)
{
    static const struct timespec time = {0, NAP_NS};
    (void)nanosleep(&time, NULL);
    ++*waits;
}

/*
 * Waits for retired segments to become free, at most `polls` times, of at most WAITS_MAX per
 * store (*waits). True if the free list should be checked again, also because another worker has
 * reclaimed. The announcements are read before reclaiming, so that one that changes in between is
 * not missed. A worker without views since its last kv_release_views() announces a quiescent state,
 * so that two waiting workers do not block each other.
 */
static bool wait_for_retired(struct kv_worker *worker, unsigned polls, unsigned *waits)
{
    const struct kv *kv = worker->kv;
    const struct kv_segments *segments = &kv->segments;
    const unsigned waits_max = kv->config.evict ? WAITS_MAX : WAITS_AWAKE;
    while (polls-- > 0) {
        if (worker->viewed_version != worker->view_version)
            kv_epoch_announce(&kv->epoch, worker->member);
        uint64_t clock = kv_u64_load_acquire(&kv->epoch.clock);
        uint64_t oldest = kv_epoch_oldest(&kv->epoch, worker->member);
        if (kv_log_reclaim(worker, kv_segments_count(segments)) > 0 ||
            kv_segment_list_count(&segments->retired) == 0 ||
            kv_segment_list_count(&segments->free) > kv_floor_segments(kv))
            return true;
        if (is_hopeless(worker, clock, oldest))
            return false;
        if (*waits >= waits_max) {
            if (oldest < clock)
                worker->waited_for = oldest;
            return false;
        }
        if (*waits < WAITS_AWAKE)
            kv_spin(waits);
        else
            nap(waits);
    }
    return false;
}

/*
 * Whether to wait for retired segments rather than to empty more. A store needs one segment; those
 * to be withdrawn for a lower limit are left to housekeeping.
 */
static bool is_enough_retired(const struct kv *kv, uint32_t retired)
{
    uint32_t enough = u_min32(free_wanted(kv), kv_u32_load_relaxed(&kv->reserve_segments));
    return retired > 0 && retired >= enough;
}

/*
 * After TRIES_MAX segments were emptied and all were taken by other workers: sleeps, then tries
 * again. False if the time is used up or a wait for the slowest worker has timed out before.
 */
static bool sleep_and_retry(const struct kv_worker *worker, unsigned *waits)
{
    const struct kv *kv = worker->kv;
    if (!kv->config.evict || *waits >= WAITS_MAX ||
        kv_epoch_oldest(&kv->epoch, worker->member) == worker->waited_for)
        return false;
    nap(waits);
    return true;
}

static bool make_free(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    struct kv_segments *segments = &worker->kv->segments;
    unsigned waits = 0;
    bool may_be_flushed = true;
    for (unsigned tries = 0; tries < TRIES_MAX || sleep_and_retry(worker, &waits); tries++) {
        if (kv_segment_list_count(&segments->free) > kv_floor_segments(kv))
            return true;
        worker->urgent = tries >= TRIES_PATIENT;
        uint32_t retired = kv_segment_list_count(&segments->retired);
        if (kv_resize_admit(worker->kv) || kv_log_reclaim(worker, UINT32_MAX) > 0 ||
            (is_enough_retired(kv, retired) && wait_for_retired(worker, WAITS_SHORT, &waits)))
            continue;
        bool is_much = is_much_retired(kv);
        if (!is_much && empty_one(worker))
            continue;
        /* Read again: other workers may have retired segments in the meantime. */
        if (kv_segment_list_count(&segments->retired) > 0 &&
            wait_for_retired(worker, WAITS_MAX, &waits))
            continue;
        /* Other workers may have reclaimed and taken them: then empty more. */
        if (is_much && !is_much_retired(kv))
            continue;
        if (!may_be_flushed || !empty_flushed(worker))
            return false;
        may_be_flushed = false; /* once only: it may gain nothing */
    }
    return false;
}

bool kv_evict_make_free(struct kv_worker *worker)
{
    bool is_free = make_free(worker);
    worker->urgent = false;
    return is_free;
}

static uint32_t free_soon(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    return kv_segment_list_count(&segments->free) + kv_segment_list_count(&segments->retired);
}

void kv_evict_step(struct kv_worker *worker, unsigned records)
{
    const struct kv *kv = worker->kv;
    if (worker->cleaner.mode == KV_CLEAN_NONE &&
        (kv_evict_is_ahead(kv) || !kv->config.evict || !victim_begin(worker)))
        return;
    kv_clean_step(worker, records);
}

bool kv_evict_is_ahead(const struct kv *kv)
{
    return free_soon(kv) >= free_wanted(kv);
}

void kv_evict_advance(struct kv_worker *worker, uint64_t bytes)
{
    uint32_t wanted = free_wanted(worker->kv);
    uint32_t soon = free_soon(worker->kv);
    if (U_LIKELY(soon >= wanted))
        return;
    uint64_t records = PAY_RECORDS + bytes / PAY_BYTES;
    kv_evict_step(worker, (unsigned)(soon < wanted / 2 ? 4 * records : records));
}
