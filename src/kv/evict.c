/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making room: walks through segments, one record after the other, so that they can be reused.
 *
 * Which segment is emptied next, in this order:
 *   1. one in which a good part of the items has expired (sweep.c): only what is over is removed,
 *      which may empty none of many segments, so in need this comes last;
 *   2. one of the next few of all segments that is at least a quarter dead: what lives in it moves;
 *   3. one of the pool that the policy says: what the policy lets stay moves, the rest is evicted.
 * Moving has to be paid for: each byte that is found dead or evicted buys RESCUE_RATE bytes of
 * moving, so walks gain memory even where the policy would let everything stay. With config.evict
 * false everything moves, and dead bytes are what is gained.
 *
 * A record is moved by sealing it, copying it and then swapping the copy's word for the old one's
 * in its slot; if the slot no longer holds the old word, the copy is dropped. A sealed item does
 * not change any more, so no touch is lost. Readers that found the old record go on reading it: its
 * segment is reused after a grace period only.
 *
 * A large item moves by its head: a copy of the head, in which at most one extent is exchanged for
 * a copy, takes over all the other extents where they are. So heads and extents are immutable too.
 *
 * Bounds: housekeeping and the making of an item walk through a number of records that depends on
 * the item's size only; they keep a few segments free, so that kv_evict_make_free(), which walks
 * through whole segments if it has to, has nothing to do. It takes at most TRIES_MAX of them, then
 * one between two naps, and waits at most WAITS_MAX turns, which is a tenth of a second or so.
 */
#include <time.h>

#include "kv/engine.h"

#define CHOOSE_MAX 8
#define LOOK_MAX 64
#define COMPACT_LOOK_MAX 1024
#define TRIES_MAX 128
#define TRIES_PATIENT 16 /* from then on it is urgent: nothing stays, whatever the policy says */
#define WAITS_MAX 1024
#define WAITS_AWAKE 512 /* from then on it naps between two looks */
#define WAITS_SHORT 32
#define NAP_NS 100000
#define RETIRED_SHARE 8 /* that part of the memory is emptied in advance at most */
#define RESCUE_RATE 8
#define RESCUE_SEGMENTS_MAX 16 /* what can be saved up */
#define EXPIRE_LOOK_MAX 256
#define DEAD_LOOK_MAX 16
#define DRAWS_MAX 16
#define PAY_RECORDS 4 /* for each new item, and one more for each so many bytes: */
#define PAY_BYTES 64
#define SLACK_SHARE 8 /* an eighth of a segment fewer live bytes is worth more than age */
#define DEAD_SHARE 16 /* compacting is worth while from a sixteenth of dead bytes on */

/* ---- who lives in a record --------------------------------------------------------------- */

/* An item, and the record of it that has to leave its segment: its head, or one of its extents. */
struct tenant {
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
        if (extents->at[i] == extent)
            return true;
    return false;
}

/* The linked item that an extent belongs to. */
static bool extent_tenant(const struct kv_worker *worker, struct kv_item *extent,
                          struct tenant *tenant)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t hash = kv_item_cas(extent);
    uint64_t position = hash >> 1;
    struct kv_words words;
    kv_index_copy(index, &position, &words);
    for (unsigned i = 0; i < words.count; i++) {
        struct kv_item *item = kv_word_item(index, words.at[i]);
        if (kv_word_has_tag(words.at[i], hash) && has_extent(item, extent)) {
            *tenant = (struct tenant){item, extent, hash, words.at[i]};
            return true;
        }
    }
    return false;
}

static bool head_tenant(const struct kv_worker *worker, struct kv_item *item, struct tenant *tenant)
{
    const struct kv *kv = worker->kv;
    struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
    uint64_t word = kv_word_of(&kv->index, key.hash, item);
    *tenant = (struct tenant){item, item, key.hash, word};
    return kv_index_has(&kv->index, key.hash, word);
}

/* False if nothing lives there: the record is dead, or not published yet. */
static bool find_tenant(const struct kv_worker *worker, struct kv_item *record,
                        struct tenant *tenant)
{
    uint8_t marks = kv_item_marks(record);
    if (marks & KV_MARK_DEAD)
        return false;
    if (marks & KV_MARK_EXTENT)
        return extent_tenant(worker, record, tenant);
    return head_tenant(worker, record, tenant);
}

/* ---- moving ------------------------------------------------------------------------------ */

/* How the eviction changes kv_item.access of what it spares. */
struct chance {
    uint32_t keeps;
    uint32_t gets;
};

static const struct chance chance_same = {KV_ACCESS_BITS, 0};

static uint32_t chance_apply(const struct kv_item *item, struct chance chance)
{
    uint32_t access = kv_item_access(item);
    return kv_access_make(kv_access_seconds(access), (access & chance.keeps) | chance.gets);
}

/* A copy of an item that is sealed or will be: its status is the last one, but not sealed. */
static void copy_changing(struct kv_item *to, const struct kv_item *from, uint64_t status,
                          struct chance chance)
{
    uint8_t marks = kv_status_marks(status) & (uint8_t) ~(KV_MARK_SEALED | KV_MARK_DEAD);
    kv_item_status_set(to, kv_status_with_marks(status, marks));
    kv_item_cas_set(to, kv_item_cas(from));
    kv_item_access_store(to, chance_apply(from, chance));
}

/* There is room: it was reserved. */
static struct kv_item *record_copy(struct kv_worker *worker, unsigned log,
                                   const struct kv_item *from)
{
    uint32_t bytes = kv_record_bytes(from);
    struct kv_item *to = (struct kv_item *)kv_log_append(worker, log, KV_FOR_MOVED, bytes);
    U_ASSERT(to != U_NULL);
    kv_record_copy_fixed(to, from, bytes);
    copy_changing(to, from, kv_item_status(from), chance_same);
    return to;
}

/* Puts the new head into the slot of the old one, unless the key has been changed. */
static bool exchange(struct kv_worker *worker, const struct tenant *tenant, struct kv_item *head,
                     struct chance chance)
{
    uint64_t status = kv_item_mark(tenant->item, KV_MARK_SEALED);
    copy_changing(head, tenant->item, status, chance);
    kv_item_note_exptime(worker, head, kv_status_exptime(status));
    return kv_index_exchange(worker, tenant->hash, tenant->word, head);
}

static uint32_t tenant_bytes(const struct tenant *tenant)
{
    uint32_t bytes = kv_record_bytes(tenant->record);
    return tenant->record == tenant->item ? bytes : bytes + kv_record_bytes(tenant->item);
}

static void extent_exchange(struct kv_item *head, const struct kv_item *from, struct kv_item *to)
{
    struct kv_extents *extents = kv_item_extents_room(head);
    for (uint32_t i = 0; i < extents->count; i++)
        if (extents->at[i] == from)
            extents->at[i] = to;
}

/* Moves the tenant's record to a pool. False if there is no memory for the copy. */
static bool move(struct kv_worker *worker, const struct tenant *tenant, enum kv_pool pool,
                 struct chance chance)
{
    unsigned log = kv_log_of(worker, pool, kv_item_exptime(tenant->item));
    if (kv_log_reserve(worker, log, KV_FOR_MOVED, tenant_bytes(tenant)) == 0)
        return false;
    /*
     * That may have reused memory that others retired just now. Not the segment we walk through,
     * but the head of an extent may lie elsewhere. From here on it is safe, if it is still linked:
     * this worker doesn't reclaim before the end of the move, and the others wait for this one.
     */
    struct tenant now;
    if (tenant->record != tenant->item &&
        (!extent_tenant(worker, tenant->record, &now) || now.word != tenant->word))
        return true;
    struct kv_item *extent = U_NULL;
    struct kv_item *head = record_copy(worker, log, tenant->item);
    kv_record_charge(worker, head);
    if (tenant->record != tenant->item) {
        extent = record_copy(worker, log, tenant->record);
        extent_exchange(head, tenant->record, extent);
        kv_record_charge(worker, extent);
    }
    if (exchange(worker, tenant, head, chance)) {
        if (extent)
            kv_record_discharge(worker, tenant->record);
        kv_record_discharge(worker, tenant->item);
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

/* ---- the walk ---------------------------------------------------------------------------- */

static uint64_t rescue_bytes_max(const struct kv_worker *worker)
{
    return (uint64_t)kv_segments_bytes(&worker->kv->segments) * RESCUE_SEGMENTS_MAX;
}

static void rescue_earn(struct kv_worker *worker, uint32_t bytes)
{
    uint64_t earned = worker->rescue_bytes + (uint64_t)bytes * RESCUE_RATE;
    worker->rescue_bytes = u_min64(rescue_bytes_max(worker), earned);
}

static bool is_last_extent(const struct tenant *tenant)
{
    const struct kv_extents *extents = kv_item_extents(tenant->item);
    return extents->at[extents->count - 1] == tenant->record;
}

/*
 * What the policy says about the tenant. Says in *chance what becomes of its access bits if it
 * stays.
 *
 * The segments of a large item come by at different times, in any order, and one of them must not
 * cost the item the chance that another one has given it: the head is judged and marks the item as
 * spared, the extents go by that mark, and the last extent takes it away.
 */
static struct kv_fate judge(const struct kv_worker *worker, const struct tenant *tenant,
                            struct chance *chance)
{
    const struct kv_item *item = tenant->item;
    struct kv_fate fate = worker->kv->policy->judge(worker->walk.pool, kv_item_freq(item));
    if (tenant->record == item) {
        uint32_t spared = kv_item_is_large(item) ? KV_ACCESS_SPARED : 0;
        chance->keeps = KV_ACCESS_FETCHED;
        chance->gets = spared | fate.freq << KV_ACCESS_FREQ_SHIFT;
        return fate;
    }
    *chance = chance_same;
    if (is_last_extent(tenant))
        chance->keeps = KV_ACCESS_BITS & ~(uint32_t)KV_ACCESS_SPARED;
    if (kv_item_access(item) & KV_ACCESS_SPARED)
        fate = (struct kv_fate){.stays = true, .pool = KV_POOL_MAIN};
    return fate;
}

/*
 * Moves the tenant to where the policy wants it, or if its record is most of the segment has the
 * segment go there as it is. False if there is no memory for the copy.
 */
static bool spare(struct kv_worker *worker, const struct tenant *tenant, enum kv_pool pool,
                  struct chance chance)
{
    if (tenant_bytes(tenant) <= kv_segments_bytes(&worker->kv->segments) / 2)
        return move(worker, tenant, pool, chance);
    kv_item_access_set(tenant->item, kv_item_access(tenant->item),
                       chance_apply(tenant->item, chance));
    worker->walk.spares = true;
    worker->walk.spares_to = pool;
    return true;
}

static void evict(struct kv_worker *worker, const struct tenant *tenant)
{
    struct kv *kv = worker->kv;
    if (!kv_index_unlink(worker, tenant->hash, tenant->word))
        return;
    kv_unlinked(worker, tenant->item, KV_END_EVICTED);
    if (kv->policy->remembers && worker->walk.pool == KV_POOL_SMALL)
        kv_ghost_remember(&kv->ghost, tenant->hash);
}

static void walk_evict(struct kv_worker *worker, const struct tenant *tenant)
{
    uint32_t bytes = tenant_bytes(tenant);
    struct chance chance;
    struct kv_fate fate = judge(worker, tenant, &chance);
    if (fate.stays && !worker->urgent && bytes <= worker->rescue_bytes &&
        spare(worker, tenant, fate.pool, chance)) {
        worker->rescue_bytes -= bytes;
        return;
    }
    rescue_earn(worker, bytes);
    evict(worker, tenant);
}

/* False if there is no memory for the copy. */
static bool walk_compact(struct kv_worker *worker, const struct tenant *tenant)
{
    if (tenant_bytes(tenant) > kv_segments_bytes(&worker->kv->segments))
        return true; /* an extent that fills its segment stays */
    return move(worker, tenant, worker->walk.pool, chance_same);
}

/* False if the walk has to be given up. */
static bool walk_record(struct kv_worker *worker, struct kv_item *record)
{
    const struct kv_walk *walk = &worker->walk;
    struct kv_segments *segments = &worker->kv->segments;
    uint8_t marks = kv_item_marks(record);
    uint32_t exptime = kv_item_exptime(record);
    if (walk->mode == KV_WALK_EXPIRE && !(marks & KV_MARK_EXTENT) &&
        (exptime == 0 || exptime > worker->now_s)) {
        kv_segment_note_exptime(segments, walk->segment, exptime);
        return true;
    }
    struct tenant tenant;
    if (!find_tenant(worker, record, &tenant)) {
        rescue_earn(worker, kv_record_bytes(record));
        return true;
    }
    enum kv_found found = kv_item_validity(worker, tenant.item);
    if (found != KV_HIT)
        kv_remove_invalid(worker, tenant.item, tenant.hash, tenant.word, found);
    else if (walk->mode == KV_WALK_EVICT)
        walk_evict(worker, &tenant);
    else if (walk->mode == KV_WALK_COMPACT)
        return walk_compact(worker, &tenant);
    else
        kv_segment_note_exptime(segments, walk->segment, kv_item_exptime(tenant.item));
    return true;
}

/* The caller has claimed the segment. */
static void walk_start(struct kv_worker *worker, uint32_t segment, enum kv_walk_mode mode)
{
    U_ASSERT(worker->walk.mode == KV_WALK_NONE);
    const struct kv_segment *header = &worker->kv->segments.array[segment];
    worker->walk = (struct kv_walk){
        .mode = mode, .segment = segment, .pool = (enum kv_pool)kv_u8_load_relaxed(&header->pool)};
}

bool kv_walk_begin(struct kv_worker *worker, uint32_t segment, enum kv_walk_mode mode)
{
    if (!kv_segment_claim(&worker->kv->segments, segment))
        return false;
    walk_start(worker, segment, mode);
    return true;
}

/* As many ghosts as there are items in the main pool, going by those in the segment just walked. */
static void ghosts_fit(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    uint64_t segments = kv_segment_list_count(&kv->segments.sealed[KV_POOL_MAIN]);
    kv_ghost_fit(&kv->ghost, segments * worker->walk.records);
}

void kv_walk_end(struct kv_worker *worker)
{
    struct kv_walk *walk = &worker->walk;
    struct kv_segments *segments = &worker->kv->segments;
    if (walk->mode == KV_WALK_NONE)
        return;
    bool through = walk->at >= segments->array[walk->segment].used;
    /* The lower bound of expiry is only half found anew: have the segment walked again. */
    if (walk->mode == KV_WALK_EXPIRE && !through)
        kv_segment_note_exptime(segments, walk->segment, 1);
    if (walk->mode == KV_WALK_EVICT && through && worker->kv->policy->remembers)
        ghosts_fit(worker);
    walk->mode = KV_WALK_NONE;
    if (walk->spares)
        kv_segment_unclaim_to(segments, walk->segment, walk->spares_to);
    else
        kv_segment_unclaim(segments, walk->segment);
}

void kv_walk_step(struct kv_worker *worker, unsigned records)
{
    struct kv_walk *walk = &worker->walk;
    struct kv_segments *segments = &worker->kv->segments;
    while (walk->mode != KV_WALK_NONE && records-- > 0) {
        if (walk->at >= segments->array[walk->segment].used) {
            kv_walk_end(worker);
            return;
        }
        uint8_t *at = kv_segment_base(segments, walk->segment) + walk->at;
        struct kv_item *record = (struct kv_item *)(void *)at;
        walk->at += kv_record_bytes(record);
        walk->records++;
        if (!walk_record(worker, record))
            kv_walk_end(worker);
    }
}

void kv_evict_init(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    worker->walk.mode = KV_WALK_NONE;
    worker->rescue_bytes = rescue_bytes_max(worker);
    worker->freq_max = kv->policy->freq_max;
    worker->access_most = kv_access_most(worker);
    worker->urgent = false;
    worker->waited_for = 0;
    u_prng_seed(&worker->lots, (uint64_t)(worker - kv->workers));
}

/* ---- making room ------------------------------------------------------------------------- */

/*
 * Segments that housekeeping keeps free or soon free: the reserve and what is to be withdrawn. None
 * while more memory is on its way: it would be a pity about the items.
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

struct kv_start kv_evict_start(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv *kv = worker->kv;
    const struct kv_policy *policy = kv->policy;
    struct kv_start start = {KV_POOL_MAIN, 0};
    if (!kv_evict_remembers(kv))
        return start;
    struct kv_find old;
    if (!kv_find_to_store(worker, key, &old)) {
        struct kv_occupancy now = occupancy(kv);
        start.pool = policy->place(&now, kv_ghost_recall(&kv->ghost, key->hash));
        return start;
    }
    return kv_evict_start_over(worker, old.item);
}

/* ---- victims ----------------------------------------------------------------------------- */

/* A segment with much dead in it, of the next few. None if there is nowhere to move to. */
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

static uint32_t claim_by_lot(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        uint32_t index = u_prng_below(&worker->lots, kv_segments_count(segments));
        if (kv_segment_claim_if(segments, index, KV_SEGMENT_LIVE_MASK))
            return index;
    }
    return KV_SEGMENT_NONE;
}

static uint32_t claim_oldest(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_occupancy now = occupancy(worker->kv);
    struct kv_victim_wish wish = {.pool = worker->kv->policy->victim_pool(&now),
                                  .look_max = LOOK_MAX,
                                  .choose_max = CHOOSE_MAX,
                                  .slack_bytes = kv_segments_bytes(segments) / SLACK_SHARE,
                                  .now_s = worker->now_s};
    uint32_t segment = kv_segment_claim_victim(segments, &wish);
    if (segment == KV_SEGMENT_NONE) {
        wish.pool = wish.pool == KV_POOL_MAIN ? KV_POOL_SMALL : KV_POOL_MAIN;
        segment = kv_segment_claim_victim(segments, &wish);
    }
    return segment;
}

/* Without eviction: a segment from which something can be gained. */
static uint32_t claim_to_compact(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_victim_wish wish = {.pool = KV_POOL_MAIN,
                                  .look_max = COMPACT_LOOK_MAX,
                                  .choose_max = COMPACT_LOOK_MAX,
                                  .dead_bytes_min = kv_segments_bytes(segments) / DEAD_SHARE,
                                  .now_s = worker->now_s};
    return kv_segment_claim_victim(segments, &wish);
}

/*
 * Starts a walk that makes room. False if there is no segment for it. What has expired comes first,
 * but in a new second hundreds of segments may have lost a part of their items only: who needs
 * room now and has walked through some of them in vain takes those that are sure to become empty.
 */
static bool victim_begin(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    if (!worker->urgent && kv_sweep_begin(worker, EXPIRE_LOOK_MAX))
        return true;
    enum kv_walk_mode mode = KV_WALK_COMPACT;
    uint32_t segment = kv->config.evict ? claim_part_dead(worker) : claim_to_compact(worker);
    if (segment == KV_SEGMENT_NONE && kv->config.evict) {
        mode = KV_WALK_EVICT;
        if (kv->policy->draws_lots)
            segment = claim_by_lot(worker);
        if (segment == KV_SEGMENT_NONE)
            segment = claim_oldest(worker);
    }
    if (segment == KV_SEGMENT_NONE)
        return worker->urgent && kv_sweep_begin(worker, EXPIRE_LOOK_MAX);
    walk_start(worker, segment, mode);
    return true;
}

/* ---- making room ------------------------------------------------------------------------- */

/* Would it be of no use to empty more, because very much is empty and waits for other workers? */
static bool is_much_retired(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    uint32_t in_service = kv_u32_load_relaxed(&segments->in_service);
    uint32_t retired_max = free_wanted(kv) + in_service / RETIRED_SHARE;
    return kv_segment_list_count(&segments->retired) >= retired_max;
}

/* Empties one segment. False if that can't be done. */
static bool empty_one(struct kv_worker *worker)
{
    if (worker->walk.mode == KV_WALK_NONE && !victim_begin(worker))
        return false;
    kv_walk_step(worker, UINT32_MAX);
    return true;
}

/*
 * Without eviction: empties the oldest segment if flushed items may lie there that the purge has
 * not found yet, and that nobody counts as dead therefore. May be in vain, a copy of live items.
 */
static bool empty_flushed(struct kv_worker *worker)
{
    static const struct kv_victim_wish oldest = {
        .pool = KV_POOL_MAIN, .look_max = LOOK_MAX, .choose_max = 1};
    struct kv *kv = worker->kv;
    if (kv->config.evict || worker->walk.mode != KV_WALK_NONE ||
        kv_u32_load_relaxed(&kv->purged) == kv_u32_load_relaxed(&kv->generation))
        return false;
    uint32_t segment = kv_segment_claim_victim(&kv->segments, &oldest);
    if (segment == KV_SEGMENT_NONE)
        return false;
    walk_start(worker, segment, KV_WALK_COMPACT);
    kv_walk_step(worker, UINT32_MAX);
    return true;
}

/*
 * Would it be in vain to wait, after others were seen at `oldest` and what is retired could not be
 * reclaimed? Either all of them had announced the latest retirement, of which `clock` was the
 * number, so it waits for this worker's own views; or one was waited for in full and has not come
 * since. Not if one of them came, went or moved on meanwhile: none may have been online at first,
 * and who came then changes the clock before it goes again.
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
 * Waits for what is retired to become free, for `turns` at most of WAITS_MAX in all. True if it is
 * worth while to look again, also because another worker was faster to reclaim it. The others are
 * asked how far they are before it reclaims: one that moves on in between is not in vain. A worker
 * that has not looked at anything since its last kv_views_done() is quiescent and says so: two
 * workers that wait for each other's views would wait in vain.
 */
static bool wait_for_retired(struct kv_worker *worker, unsigned turns, unsigned *waits)
{
    const struct kv *kv = worker->kv;
    const struct kv_segments *segments = &kv->segments;
    const unsigned waits_max = kv->config.evict ? WAITS_MAX : WAITS_AWAKE;
    while (turns-- > 0) {
        if (worker->view_turn != worker->turn)
            kv_announce(worker);
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
 * Is it better to wait for what is retired than to empty more? A store needs one segment; what else
 * a lower limit wants is for housekeeping.
 */
static bool is_enough_retired(const struct kv *kv, uint32_t retired)
{
    uint32_t enough = u_min32(free_wanted(kv), kv_u32_load_relaxed(&kv->reserve_segments));
    return retired > 0 && retired >= enough;
}

/*
 * Much was emptied and all of it was taken by others, who need room as well or move what is to
 * stay. They will have enough at some time, so the store naps and goes on. False if it has waited
 * for as long as it may, or if what holds it up is one who was waited for in vain.
 */
static bool let_others_first(const struct kv_worker *worker, unsigned *waits)
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
    for (unsigned tries = 0; tries < TRIES_MAX || let_others_first(worker, &waits); tries++) {
        if (kv_segment_list_count(&segments->free) > kv_floor_segments(kv))
            return true;
        worker->urgent = tries >= TRIES_PATIENT;
        uint32_t retired = kv_segment_list_count(&segments->retired);
        if (kv_segment_admit(segments) || kv_log_reclaim(worker, UINT32_MAX) > 0 ||
            (is_enough_retired(kv, retired) && wait_for_retired(worker, WAITS_SHORT, &waits)))
            continue;
        bool is_much = is_much_retired(kv);
        if (!is_much && empty_one(worker))
            continue;
        /* Asked anew: others may have retired something meanwhile. */
        if (kv_segment_list_count(&segments->retired) > 0 &&
            wait_for_retired(worker, WAITS_MAX, &waits))
            continue;
        /* And others may have reclaimed and taken it: then more can be emptied after all. */
        if (is_much && !is_much_retired(kv))
            continue;
        if (!may_be_flushed || !empty_flushed(worker))
            return false;
        may_be_flushed = false; /* one copy in vain is enough */
    }
    return false;
}

bool kv_evict_make_free(struct kv_worker *worker)
{
    bool is_free = make_free(worker);
    worker->urgent = false;
    return is_free;
}

void kv_evict_step(struct kv_worker *worker, unsigned records)
{
    const struct kv *kv = worker->kv;
    const struct kv_segments *segments = &kv->segments;
    if (worker->walk.mode == KV_WALK_NONE) {
        uint32_t soon = kv_segment_list_count(&segments->free);
        soon += kv_segment_list_count(&segments->retired);
        if (soon >= free_wanted(kv) || !kv->config.evict || !victim_begin(worker))
            return;
    }
    kv_walk_step(worker, records);
}

static uint32_t free_soon(const struct kv *kv)
{
    const struct kv_segments *segments = &kv->segments;
    return kv_segment_list_count(&segments->free) + kv_segment_list_count(&segments->retired);
}

bool kv_evict_is_paid(const struct kv *kv)
{
    return free_soon(kv) >= free_wanted(kv);
}

void kv_evict_pay(struct kv_worker *worker, uint64_t bytes)
{
    uint32_t wanted = free_wanted(worker->kv);
    uint32_t soon = free_soon(worker->kv);
    if (U_LIKELY(soon >= wanted))
        return;
    uint64_t records = PAY_RECORDS + bytes / PAY_BYTES;
    kv_evict_step(worker, (unsigned)(soon < wanted / 2 ? 4 * records : records));
}
