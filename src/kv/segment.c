/* SPDX-License-Identifier: BSD-3-Clause */
/* States and lists of segments; segment.h has the states and their invariants. */
#include "kv/segment.h"

#include "base/base.h"
#include "kv/poison.h"
#include "kv/prefault.h"

/* ---- lists (under the lock) -------------------------------------------------------------- */

static void list_init(struct kv_segment_list *list)
{
    list->head = KV_SEGMENT_NONE;
    list->tail = KV_SEGMENT_NONE;
    kv_u32_store_relaxed(&list->count, 0);
}

static void count_change(kv_atomic_u32 *count, uint32_t change)
{
    kv_u32_store_relaxed(count, kv_u32_load_relaxed(count) + change);
}

static void list_prepend(struct kv_segments *segments, struct kv_segment_list *list, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    segment->prev = KV_SEGMENT_NONE;
    segment->next = list->head;
    if (list->head == KV_SEGMENT_NONE)
        list->tail = index;
    else
        segments->array[list->head].prev = index;
    list->head = index;
    count_change(&list->count, 1);
}

static void list_append(struct kv_segments *segments, struct kv_segment_list *list, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    segment->next = KV_SEGMENT_NONE;
    segment->prev = list->tail;
    if (list->tail == KV_SEGMENT_NONE)
        list->head = index;
    else
        segments->array[list->tail].next = index;
    list->tail = index;
    count_change(&list->count, 1);
}

static void list_remove(struct kv_segments *segments, struct kv_segment_list *list, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    if (segment->prev == KV_SEGMENT_NONE)
        list->head = segment->next;
    else
        segments->array[segment->prev].next = segment->next;
    if (segment->next == KV_SEGMENT_NONE)
        list->tail = segment->prev;
    else
        segments->array[segment->next].prev = segment->prev;
    count_change(&list->count, UINT32_MAX);
}

/* ---- transitions (under the lock) -------------------------------------------------------- */

static enum kv_segment_state state_of(const struct kv_segment *segment)
{
    return (enum kv_segment_state)kv_u8_load_seq_cst(&segment->state);
}

static void state_set(struct kv_segment *segment, enum kv_segment_state state)
{
    kv_u8_store_seq_cst(&segment->state, (uint8_t)state);
}

/* To the tail of the free list if touched, else to the head. */
static void free_insert(struct kv_segments *segments, uint32_t index)
{
    if (segments->array[index].touched) {
        list_append(segments, &segments->free, index);
        count_change(&segments->touched_free, 1);
        return;
    }
    list_prepend(segments, &segments->free, index);
    if (segments->untouched == KV_SEGMENT_NONE)
        segments->untouched = index;
}

static void free_remove(struct kv_segments *segments, uint32_t index)
{
    const struct kv_segment *segment = &segments->array[index];
    if (segment->touched)
        count_change(&segments->touched_free, UINT32_MAX);
    else if (segments->untouched == index)
        segments->untouched = segment->prev;
    list_remove(segments, &segments->free, index);
}

static void make_free(struct kv_segments *segments, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    U_ASSERT(kv_u64_load_seq_cst(&segment->usage) == 0);
    kv_poison(kv_segment_base(segments, index), kv_segments_bytes(segments));
    segment->used = 0;
    state_set(segment, KV_SEGMENT_FREE);
    free_insert(segments, index);
}

static struct kv_segment_list *sealed_list(struct kv_segments *segments,
                                           const struct kv_segment *segment)
{
    return &segments->sealed[kv_u8_load_relaxed(&segment->pool)];
}

static void retire_if_empty(struct kv_segments *segments, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    if (state_of(segment) != KV_SEGMENT_SEALED || segment->claimed ||
        kv_u64_load_seq_cst(&segment->usage) != 0)
        return;
    list_remove(segments, sealed_list(segments, segment), index);
    segment->retired_at = kv_epoch_retire(segments->epoch);
    state_set(segment, KV_SEGMENT_RETIRED);
    list_append(segments, &segments->retired, index);
}

/* ---- initialization ---------------------------------------------------------------------- */

/* All but the segments themselves. */
static void init(struct kv_segments *segments, uint8_t *base, struct kv_segment *array,
                 unsigned shift, struct kv_epoch *epoch)
{
    segments->base = base;
    segments->array = array;
    segments->shift = shift;
    segments->epoch = epoch;
    kv_u32_store_relaxed(&segments->lock.held, 0);
    list_init(&segments->free);
    for (int pool = 0; pool < KV_POOLS; pool++)
        list_init(&segments->sealed[pool]);
    list_init(&segments->retired);
    list_init(&segments->withdrawn);
    segments->prefault = U_NULL;
    segments->ahead_max = 0;
    segments->untouched = KV_SEGMENT_NONE;
    segments->touching = KV_SEGMENT_NONE;
    kv_u32_store_relaxed(&segments->touched_free, 0);
}

void kv_segments_init(struct kv_segments *segments, uint8_t *base, struct kv_segment *array,
                      uint32_t count, unsigned shift, struct kv_epoch *epoch)
{
    init(segments, base, array, shift, epoch);
    segments->accessible = count;
    for (uint32_t i = 0; i < count; i++) {
        u_zero(&array[i], sizeof(array[i]));
        make_free(segments, i);
    }
    kv_u32_store_relaxed(&segments->count, count);
    kv_u32_store_relaxed(&segments->in_service, count);
    kv_u32_store_relaxed(&segments->wanted, count);
}

/* ---- saving and restoring ---------------------------------------------------------------- */

static struct kv_saved_list list_saved(const struct kv_segment_list *list)
{
    struct kv_saved_list saved = {list->head, list->tail, kv_segment_list_count(list)};
    return saved;
}

static bool is_at_rest(const struct kv_segment *segment)
{
    enum kv_segment_state state = state_of(segment);
    return !segment->claimed && kv_u64_load_relaxed(&segment->usage) < KV_SEGMENT_HOLD &&
           (state == KV_SEGMENT_FREE || state == KV_SEGMENT_SEALED ||
            state == KV_SEGMENT_WITHDRAWN);
}

bool kv_segments_save(const struct kv_segments *segments, struct kv_saved_segments *saved)
{
    for (uint32_t i = 0; i < kv_segments_count(segments); i++)
        if (!is_at_rest(&segments->array[i]))
            return false;
    saved->count = kv_segments_count(segments);
    saved->in_service = kv_u32_load_relaxed(&segments->in_service);
    saved->wanted = kv_u32_load_relaxed(&segments->wanted);
    saved->accessible = segments->accessible;
    saved->free = list_saved(&segments->free);
    for (int pool = 0; pool < KV_POOLS; pool++)
        saved->sealed[pool] = list_saved(&segments->sealed[pool]);
    saved->withdrawn = list_saved(&segments->withdrawn);
    return true;
}

/* Restores a list if it has `saved.count` segments of that state; their links are in place. */
static bool list_restore(const struct kv_segments *segments, struct kv_segment_list *list,
                         struct kv_saved_list saved, enum kv_segment_state state)
{
    uint32_t count = 0;
    uint32_t before = KV_SEGMENT_NONE;
    for (uint32_t i = saved.head; i != KV_SEGMENT_NONE; i = segments->array[i].next) {
        if (i >= kv_segments_count(segments) || count++ == saved.count ||
            segments->array[i].prev != before || state_of(&segments->array[i]) != state)
            return false;
        before = i;
    }
    list->head = saved.head;
    list->tail = saved.tail;
    kv_u32_store_relaxed(&list->count, count);
    return count == saved.count && before == saved.tail;
}

/* A new process has touched no page yet. */
static bool segment_restore(struct kv_segments *segments, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    segment->touched = 0;
    segment->retired_at = 0;
    if (state_of(segment) == KV_SEGMENT_FREE)
        kv_poison(kv_segment_base(segments, index), kv_segments_bytes(segments));
    return is_at_rest(segment) && segment->used <= kv_segments_bytes(segments) &&
           kv_u8_load_relaxed(&segment->pool) < KV_POOLS;
}

bool kv_segments_restore(struct kv_segments *segments, const struct kv_saved_segments *saved,
                         uint8_t *base, struct kv_segment *array, unsigned shift,
                         struct kv_epoch *epoch)
{
    init(segments, base, array, shift, epoch);
    segments->accessible = saved->accessible;
    kv_u32_store_relaxed(&segments->count, saved->count);
    kv_u32_store_relaxed(&segments->in_service, saved->in_service);
    kv_u32_store_relaxed(&segments->wanted, saved->wanted);
    for (uint32_t i = 0; i < saved->count; i++)
        if (!segment_restore(segments, i))
            return false;
    uint64_t listed = (uint64_t)saved->free.count + saved->withdrawn.count;
    for (int pool = 0; pool < KV_POOLS; pool++) {
        listed += saved->sealed[pool].count;
        if (!list_restore(segments, &segments->sealed[pool], saved->sealed[pool],
                          KV_SEGMENT_SEALED))
            return false;
    }
    segments->untouched = saved->free.tail;
    return listed == saved->count && saved->count <= saved->accessible &&
           saved->in_service == saved->count - saved->withdrawn.count &&
           list_restore(segments, &segments->free, saved->free, KV_SEGMENT_FREE) &&
           list_restore(segments, &segments->withdrawn, saved->withdrawn, KV_SEGMENT_WITHDRAWN);
}

void kv_segments_set_faulted(struct kv_segments *segments, uint32_t count)
{
    U_ASSERT(count <= kv_segments_count(segments));
    for (uint32_t i = 0; i < count; i++)
        segments->array[i].touched = 1;
    kv_u32_store_relaxed(&segments->touched_free, count);
    segments->untouched = count < kv_segments_count(segments) ? count : KV_SEGMENT_NONE;
}

/* ---- prefaulting ------------------------------------------------------------------------- */

static uint32_t ahead_wanted(const struct kv_segments *segments)
{
    uint32_t in_use =
        kv_u32_load_relaxed(&segments->in_service) - kv_segment_list_count(&segments->free);
    return u_min32(segments->ahead_max, u_max32(segments->ahead_min, in_use));
}

static bool prefault_lags(const struct kv_segments *segments)
{
    return segments->prefault && segments->untouched != KV_SEGMENT_NONE &&
           kv_u32_load_relaxed(&segments->touched_free) + segments->ahead_slack <=
               ahead_wanted(segments);
}

bool kv_segments_prefault_lags(struct kv_segments *segments)
{
    kv_lock_take(&segments->lock);
    bool lags = prefault_lags(segments);
    kv_lock_drop(&segments->lock);
    return lags;
}

uint32_t kv_segment_prefault_begin(struct kv_segments *segments)
{
    kv_lock_take(&segments->lock);
    if (kv_u32_load_relaxed(&segments->touched_free) < ahead_wanted(segments))
        segments->touching = segments->untouched;
    uint32_t index = segments->touching;
    kv_lock_drop(&segments->lock);
    return index;
}

void kv_segment_prefault_end(struct kv_segments *segments, uint32_t index)
{
    kv_lock_take(&segments->lock);
    struct kv_segment *segment = &segments->array[index];
    segments->touching = KV_SEGMENT_NONE;
    if (!segment->touched) { /* not taken meanwhile: it is still free and `untouched` */
        segments->untouched = segment->prev;
        segment->touched = 1;
        count_change(&segments->touched_free, 1);
        count_change(&segments->touched_ahead, 1);
    }
    kv_lock_drop(&segments->lock);
}

/* ---- resizing ---------------------------------------------------------------------------- */

void kv_segments_want(struct kv_segments *segments, uint32_t wanted, uint32_t accessible)
{
    kv_lock_take(&segments->lock);
    U_ASSERT(accessible >= segments->accessible && wanted <= accessible);
    segments->accessible = accessible;
    kv_u32_store_relaxed(&segments->wanted, wanted);
    kv_lock_drop(&segments->lock);
}

static bool wants_more(const struct kv_segments *segments)
{
    return kv_u32_load_relaxed(&segments->in_service) < kv_u32_load_relaxed(&segments->wanted);
}

/* The next segment that never was in service, or KV_SEGMENT_NONE. */
static uint32_t admit_new(struct kv_segments *segments)
{
    uint32_t index = kv_u32_load_relaxed(&segments->count);
    if (index == segments->accessible)
        return KV_SEGMENT_NONE;
    u_zero(&segments->array[index], sizeof(segments->array[index]));
    state_set(&segments->array[index], KV_SEGMENT_WITHDRAWN);
    /* Release: a thread that sees the count may read the header. */
    kv_u32_store_release(&segments->count, index + 1);
    return index;
}

uint32_t kv_segment_admit_begin(struct kv_segments *segments)
{
    uint32_t index = KV_SEGMENT_NONE;
    kv_lock_take(&segments->lock);
    if (wants_more(segments)) {
        index = segments->withdrawn.head;
        if (index != KV_SEGMENT_NONE)
            list_remove(segments, &segments->withdrawn, index);
        else
            index = admit_new(segments);
    }
    if (index != KV_SEGMENT_NONE)
        count_change(&segments->in_service, 1);
    kv_lock_drop(&segments->lock);
    return index;
}

void kv_segment_admit_end(struct kv_segments *segments, uint32_t index, bool opened)
{
    kv_lock_take(&segments->lock);
    if (opened) {
        make_free(segments, index);
    } else {
        count_change(&segments->in_service, UINT32_MAX);
        list_append(segments, &segments->withdrawn, index);
    }
    kv_lock_drop(&segments->lock);
}

uint32_t kv_segment_withdraw(struct kv_segments *segments, uint32_t floor)
{
    uint32_t index = KV_SEGMENT_NONE;
    kv_lock_take(&segments->lock);
    if (kv_u32_load_relaxed(&segments->in_service) > kv_u32_load_relaxed(&segments->wanted) &&
        kv_segment_list_count(&segments->free) > floor) {
        index = segments->free.head;
        if (index == segments->touching)
            index = segments->array[index].next;
    }
    if (index != KV_SEGMENT_NONE) {
        free_remove(segments, index);
        state_set(&segments->array[index], KV_SEGMENT_WITHDRAWN);
        count_change(&segments->in_service, UINT32_MAX);
    }
    kv_lock_drop(&segments->lock);
    return index;
}

void kv_segment_withdrawn(struct kv_segments *segments, uint32_t index, bool keeps_pages)
{
    kv_lock_take(&segments->lock);
    U_ASSERT(state_of(&segments->array[index]) == KV_SEGMENT_WITHDRAWN);
    segments->array[index].touched = keeps_pages;
    list_append(segments, &segments->withdrawn, index);
    kv_lock_drop(&segments->lock);
}

/* ---- states ------------------------------------------------------------------------------ */

static void touch_by_use(struct kv_segments *segments, struct kv_segment *segment)
{
    if (!segment->touched && segments->prefault)
        count_change(&segments->touched_late, 1);
    segment->touched = 1;
}

uint32_t kv_segment_take(struct kv_segments *segments, uint32_t floor)
{
    if (kv_segment_list_count(&segments->free) <= floor)
        return KV_SEGMENT_NONE;
    uint32_t index = KV_SEGMENT_NONE;
    bool lags = false;
    kv_lock_take(&segments->lock);
    if (kv_segment_list_count(&segments->free) > floor) {
        index = segments->free.tail;
        struct kv_segment *segment = &segments->array[index];
        free_remove(segments, index);
        touch_by_use(segments, segment);
        lags = prefault_lags(segments);
        kv_u32_store_relaxed(&segment->exptime_min, KV_EXPTIME_NEVER);
        kv_u32_store_relaxed(&segment->exptime_max, 0);
        segment->claimed = 0;
        kv_u8_store_relaxed(&segment->pool, KV_POOL_MAIN);
        state_set(segment, KV_SEGMENT_OPEN);
    }
    kv_lock_drop(&segments->lock);
    if (lags)
        kv_prefault_wake(segments->prefault);
    return index;
}

void kv_segment_seal(struct kv_segments *segments, uint32_t index)
{
    struct kv_segment *segment = &segments->array[index];
    kv_lock_take(&segments->lock);
    U_ASSERT(state_of(segment) == KV_SEGMENT_OPEN);
    U_ASSERT(kv_u64_load_seq_cst(&segment->usage) < KV_SEGMENT_USAGE_END);
    state_set(segment, KV_SEGMENT_SEALED);
    list_append(segments, sealed_list(segments, segment), index);
    retire_if_empty(segments, index);
    kv_lock_drop(&segments->lock);
}

/* Claims a segment that is SEALED or in another state and has at most that usage. */
static bool claim(struct kv_segments *segments, uint32_t index, enum kv_segment_state or_state,
                  uint64_t usage_max)
{
    struct kv_segment *segment = &segments->array[index];
    kv_lock_take(&segments->lock);
    enum kv_segment_state state = state_of(segment);
    bool claimed = (state == KV_SEGMENT_SEALED || state == or_state) && !segment->claimed &&
                   kv_u64_load_relaxed(&segment->usage) <= usage_max;
    if (claimed)
        segment->claimed = 1;
    kv_lock_drop(&segments->lock);
    return claimed;
}

bool kv_segment_claim(struct kv_segments *segments, uint32_t index)
{
    return claim(segments, index, KV_SEGMENT_OPEN, UINT64_MAX);
}

bool kv_segment_claim_if(struct kv_segments *segments, uint32_t index, uint64_t live_bytes_max)
{
    return claim(segments, index, KV_SEGMENT_SEALED, live_bytes_max);
}

static void unclaim(struct kv_segments *segments, uint32_t index)
{
    U_ASSERT(segments->array[index].claimed);
    segments->array[index].claimed = 0;
    retire_if_empty(segments, index);
}

void kv_segment_unclaim(struct kv_segments *segments, uint32_t index)
{
    kv_lock_take(&segments->lock);
    unclaim(segments, index);
    kv_lock_drop(&segments->lock);
}

static void make_youngest(struct kv_segments *segments, uint32_t index, enum kv_pool pool)
{
    struct kv_segment *segment = &segments->array[index];
    list_remove(segments, sealed_list(segments, segment), index);
    kv_u8_store_relaxed(&segment->pool, (uint8_t)pool);
    list_append(segments, sealed_list(segments, segment), index);
}

void kv_segment_unclaim_to(struct kv_segments *segments, uint32_t index, enum kv_pool pool)
{
    kv_lock_take(&segments->lock);
    unclaim(segments, index);
    if (state_of(&segments->array[index]) == KV_SEGMENT_SEALED)
        make_youngest(segments, index, pool);
    kv_lock_drop(&segments->lock);
}

#define COST_UNSUITABLE UINT64_MAX

/* Live bytes that a scan would move or evict, + 1; 0 if all has expired. */
static uint64_t victim_cost(const struct kv_segment *segment, const struct kv_victim_search *search)
{
    if (kv_u32_load_relaxed(&segment->exptime_max) <= search->now_s)
        return 0;
    uint64_t live = kv_segment_live_bytes(segment);
    return live + search->dead_bytes_min > segment->used ? COST_UNSUITABLE : live + 1;
}

/* Whether a younger segment is better than the best so far: by more than slack_bytes. */
static bool is_better(uint64_t cost, uint64_t best_cost, const struct kv_victim_search *search)
{
    if (best_cost == COST_UNSUITABLE)
        return cost != COST_UNSUITABLE;
    return cost == 0 || cost + search->slack_bytes < best_cost;
}

uint32_t kv_segment_claim_victim(struct kv_segments *segments,
                                 const struct kv_victim_search *search)
{
    uint32_t best = KV_SEGMENT_NONE;
    uint64_t best_cost = COST_UNSUITABLE;
    uint32_t choice = 0;

    kv_lock_take(&segments->lock);
    const struct kv_segment_list *list = &segments->sealed[search->pool];
    uint32_t index = list->head;
    uint32_t look = u_min32(search->look_max, kv_segment_list_count(list));
    for (; look > 0 && choice < search->choose_max && best_cost > 0; look--) {
        struct kv_segment *segment = &segments->array[index];
        uint32_t next = segment->next;
        if (kv_segment_is_held(segment)) {
            make_youngest(segments, index, search->pool);
        } else if (!segment->claimed) {
            uint64_t cost = victim_cost(segment, search);
            if (is_better(cost, best_cost, search)) {
                best = index;
                best_cost = cost;
            }
            choice++;
        }
        index = next;
    }
    if (best != KV_SEGMENT_NONE)
        segments->array[best].claimed = 1;
    kv_lock_drop(&segments->lock);
    return best;
}

void kv_segment_add(struct kv_segments *segments, uint32_t index, uint64_t usage)
{
    kv_u64_fetch_add_seq_cst(&segments->array[index].usage, usage);
}

void kv_segment_subtract(struct kv_segments *segments, uint32_t index, uint64_t usage)
{
    struct kv_segment *segment = &segments->array[index];
    uint64_t before = kv_u64_fetch_sub_seq_cst(&segment->usage, usage);
    if (U_UNLIKELY(before < usage)) /* it was open; the owner adds its part before sealing */
        U_ASSERT(state_of(segment) == KV_SEGMENT_OPEN ||
                 kv_u64_load_seq_cst(&segment->usage) < KV_SEGMENT_USAGE_END);
    if (before != usage || state_of(segment) == KV_SEGMENT_OPEN)
        return;
    kv_lock_take(&segments->lock);
    retire_if_empty(segments, index);
    if (state_of(segment) == KV_SEGMENT_PARKED && kv_u64_load_seq_cst(&segment->usage) == 0)
        make_free(segments, index);
    kv_lock_drop(&segments->lock);
}

uint32_t kv_segment_reclaim(struct kv_segments *segments, const struct kv_segment_reader *reader,
                            uint32_t look_max)
{
    if (kv_segment_list_count(&segments->retired) == 0)
        return 0;
    uint32_t moved = 0;
    uint64_t own = kv_u64_load_relaxed(&reader->member->announced);
    uint64_t others = kv_epoch_oldest(segments->epoch, reader->member);

    kv_lock_take(&segments->lock);
    uint32_t index = segments->retired.head;
    while (index != KV_SEGMENT_NONE && look_max-- > 0) {
        struct kv_segment *segment = &segments->array[index];
        uint32_t next = segment->next;
        if (segment->retired_at > others)
            break; /* the list is in the order of retirement */
        if (segment->retired_at <= own || reader->seen[index] != reader->view_version) {
            list_remove(segments, &segments->retired, index);
            state_set(segment, KV_SEGMENT_PARKED);
            if (kv_u64_load_seq_cst(&segment->usage) == 0)
                make_free(segments, index);
            moved++;
        }
        index = next;
    }
    kv_lock_drop(&segments->lock);
    return moved;
}
