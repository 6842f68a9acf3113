/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making room: walks through segments, one record after the other, so that they can be reused.
 *
 * The policy is a CLOCK over segments: the oldest are emptied first (or one of the next few, if it
 * has clearly fewer live bytes), and an item that was fetched since the last walk came by is moved
 * to the worker's rescue log instead of being evicted. Moving has to be paid for: each byte that is
 * found dead or evicted buys RESCUE_RATE bytes of moving, so walks gain memory even where all items
 * were fetched. With config.evict false everything moves, and dead bytes are what is gained.
 *
 * A record is moved by sealing it, copying it and then swapping the copy's word for the old one's
 * in its slot; if the slot no longer holds the old word, the copy is dropped. A sealed item does
 * not change any more, so no touch is lost. Readers that found the old record go on reading it: its
 * segment is reused after a grace period only.
 *
 * A large item moves by its head: a copy of the head, in which at most one extent is exchanged for
 * a copy, takes over all the other extents where they are. So heads and extents are immutable too.
 *
 * Bounds: a call to kv_evict_segment() walks through at most TRIES_MAX segments and waits at most
 * WAITS_MAX turns; housekeeping takes a fixed number of records.
 */
#include "kv/engine.h"

#define CHOOSE_MAX 8
#define LOOK_MAX 64
#define COMPACT_LOOK_MAX 1024
#define TRIES_MAX 128
#define WAITS_MAX 128
#define RESCUE_RATE 3
#define RESCUE_SEGMENTS_MAX 4 /* what can be saved up */
#define SLACK_SHARE 8         /* an eighth of a segment fewer live bytes is worth more than age */
#define DEAD_SHARE 16         /* compacting is worth while from a sixteenth of dead bytes on */

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
    uint64_t hash = kv_u64_load_relaxed(&extent->cas);
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

static void copy_fixed(struct kv_item *to, const struct kv_item *from, uint32_t bytes)
{
    to->value_len = from->value_len;
    u_copy(to + 1, from + 1, bytes - sizeof(*from));
}

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
    kv_u64_store_relaxed(&to->cas, kv_u64_load_relaxed(&from->cas));
    kv_u32_store_relaxed(&to->access, chance_apply(from, chance));
}

/* There is room: it was reserved. */
static struct kv_item *record_copy(struct kv_worker *worker, const struct kv_item *from)
{
    uint32_t bytes = kv_record_bytes(from);
    struct kv_item *to = (struct kv_item *)kv_log_append(worker, KV_LOG_RESCUED, bytes);
    U_ASSERT(to != U_NULL);
    copy_fixed(to, from, bytes);
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

/* Moves the tenant's record. False if there is no memory for the copy. */
static bool move(struct kv_worker *worker, const struct tenant *tenant, struct chance chance)
{
    if (kv_log_reserve(worker, KV_LOG_RESCUED, tenant_bytes(tenant)) == 0)
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
    struct kv_item *head = record_copy(worker, tenant->item);
    kv_record_charge(worker, head);
    if (tenant->record != tenant->item) {
        extent = record_copy(worker, tenant->record);
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
 * Has the tenant been fetched since the eviction last came by? Says in *chance what becomes of the
 * marks if it is spared for that.
 *
 * The segments of a large item come by at different times, in any order, and one of them must not
 * cost the item the chance that another one has given it: the head decides and marks the item as
 * spared, the extents go by that mark, and the last extent takes it away.
 */
static bool deserves_chance(const struct tenant *tenant, struct chance *chance)
{
    uint32_t access = kv_item_access(tenant->item);
    bool large = kv_item_is_large(tenant->item);
    *chance = chance_same;
    if (tenant->record == tenant->item) {
        *chance = (struct chance){KV_ACCESS_FETCHED, large ? KV_ACCESS_SPARED : 0};
        return (access & KV_ACCESS_RECENT) != 0;
    }
    if (is_last_extent(tenant))
        chance->keeps = KV_ACCESS_FETCHED | KV_ACCESS_RECENT;
    return (access & (KV_ACCESS_RECENT | KV_ACCESS_SPARED)) != 0;
}

/*
 * Gives the tenant its chance: moves it, or if its record is most of the segment has the segment
 * stay as it is. False if there is no memory for the copy.
 */
static bool spare(struct kv_worker *worker, const struct tenant *tenant, struct chance chance)
{
    if (tenant_bytes(tenant) <= kv_segments_bytes(&worker->kv->segments) / 2)
        return move(worker, tenant, chance);
    kv_item_access_set(tenant->item, kv_item_access(tenant->item),
                       chance_apply(tenant->item, chance));
    worker->walk.spares = true;
    return true;
}

static void walk_evict(struct kv_worker *worker, const struct tenant *tenant)
{
    uint32_t bytes = tenant_bytes(tenant);
    struct chance chance;
    if (deserves_chance(tenant, &chance) && bytes <= worker->rescue_bytes &&
        spare(worker, tenant, chance)) {
        worker->rescue_bytes -= bytes;
        return;
    }
    rescue_earn(worker, bytes);
    if (kv_index_unlink(worker, tenant->hash, tenant->word))
        kv_unlinked(worker, tenant->item, KV_END_EVICTED);
}

/* False if there is no memory for the copy. */
static bool walk_compact(struct kv_worker *worker, const struct tenant *tenant)
{
    if (tenant_bytes(tenant) > kv_segments_bytes(&worker->kv->segments))
        return true; /* an extent that fills its segment stays */
    return move(worker, tenant, chance_same);
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

bool kv_walk_begin(struct kv_worker *worker, uint32_t segment, enum kv_walk_mode mode)
{
    U_ASSERT(worker->walk.mode == KV_WALK_NONE);
    if (!kv_segment_claim(&worker->kv->segments, segment))
        return false;
    worker->walk = (struct kv_walk){.mode = mode, .segment = segment};
    return true;
}

void kv_walk_end(struct kv_worker *worker)
{
    struct kv_walk *walk = &worker->walk;
    struct kv_segments *segments = &worker->kv->segments;
    if (walk->mode == KV_WALK_NONE)
        return;
    /* The lower bound of expiry is only half found anew: have the segment walked again. */
    if (walk->mode == KV_WALK_EXPIRE && walk->at < segments->array[walk->segment].used)
        kv_segment_note_exptime(segments, walk->segment, 1);
    walk->mode = KV_WALK_NONE;
    kv_segment_unclaim(segments, walk->segment, walk->spares);
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
        if (!walk_record(worker, record))
            kv_walk_end(worker);
    }
}

void kv_evict_init(struct kv_worker *worker)
{
    worker->walk.mode = KV_WALK_NONE;
    worker->rescue_bytes = rescue_bytes_max(worker);
}

/* ---- making room ------------------------------------------------------------------------- */

/* Starts to empty a segment. False if there is none that could be emptied. */
static bool victim_begin(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    bool evict = worker->kv->config.evict;
    struct kv_victim_wish wish = {.now_s = worker->now_s};
    if (evict) {
        wish.look_max = LOOK_MAX;
        wish.choose_max = CHOOSE_MAX;
        wish.slack_bytes = kv_segments_bytes(segments) / SLACK_SHARE;
    } else {
        wish.look_max = COMPACT_LOOK_MAX;
        wish.choose_max = COMPACT_LOOK_MAX;
        wish.dead_bytes_min = kv_segments_bytes(segments) / DEAD_SHARE;
    }
    uint32_t segment = kv_segment_claim_victim(segments, &wish);
    if (segment == KV_SEGMENT_NONE)
        return false;
    enum kv_walk_mode mode = evict ? KV_WALK_EVICT : KV_WALK_COMPACT;
    worker->walk = (struct kv_walk){.mode = mode, .segment = segment};
    return true;
}

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

/* Empties one segment. False if that can't be done, or would be too much to be of use now. */
static bool empty_one(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    if (kv_segment_list_count(&kv->segments.retired) >= free_wanted(kv))
        return false;
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
    static const struct kv_victim_wish oldest = {.look_max = LOOK_MAX, .choose_max = 1};
    struct kv *kv = worker->kv;
    if (kv->config.evict || worker->walk.mode != KV_WALK_NONE ||
        kv_u32_load_relaxed(&kv->purged) == kv_u32_load_relaxed(&kv->generation))
        return false;
    uint32_t segment = kv_segment_claim_victim(&kv->segments, &oldest);
    if (segment == KV_SEGMENT_NONE)
        return false;
    worker->walk = (struct kv_walk){.mode = KV_WALK_COMPACT, .segment = segment};
    kv_walk_step(worker, UINT32_MAX);
    return true;
}

uint32_t kv_evict_segment(struct kv_worker *worker)
{
    const struct kv *kv = worker->kv;
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t look_max = kv_segments_count(segments);
    unsigned waits = 0;
    bool may_be_flushed = true;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint32_t index = kv_segment_take(segments, kv_floor_segments(kv), KV_SEGMENT_OPEN);
        if (index != KV_SEGMENT_NONE)
            return index;
        if (kv_segment_admit(segments) || kv_log_reclaim(worker, look_max) > 0 || empty_one(worker))
            continue;
        if (kv_segment_list_count(&segments->retired) == 0) {
            if (!may_be_flushed || !empty_flushed(worker))
                break;
            may_be_flushed = false; /* one copy in vain is enough */
        }
        while (kv_log_reclaim(worker, look_max) == 0) {
            if (waits == WAITS_MAX)
                return KV_SEGMENT_NONE;
            kv_spin(&waits);
        }
    }
    return KV_SEGMENT_NONE;
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
