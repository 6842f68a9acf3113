/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search for items that are over: expired ones by segment, flushed ones by bucket. Both are
 * misses from the moment on at which they are over; this only takes their memory back, a few steps
 * per loop and worker.
 *
 * Expired: once per second the workers together look at each segment's bounds of expiry, and walk
 * through those where a good part of the items must be over. A walk finds the lower bound anew.
 *
 * Flushed: an item carries the low 8 bits of the generation it was stored in. The purge removes
 * items of earlier generations from all chains, and kv.purged says how far it has come: no item of
 * a generation before that is linked, nor will be. For that, the purge lets a grace period pass
 * between taking note of the generation and its first chain: a worker reads the generation and
 * publishes the item without being quiescent in between, so an item of an earlier generation that
 * is not linked when the grace period ends will never be. What moves meanwhile, by relocation or
 * because the index grows, stays in its place in the order of the chains, and goes when the purge
 * comes by.
 *
 * So 255 generations can be told apart. The flush that would be the 256th while the purge has not
 * come to its end removes all items by itself, which nobody has to wait for either.
 */
#include "kv/engine.h"

#define SEGMENTS_PER_STEP 16
#define CHAINS_PER_STEP 64
#define MIXED_RANGE_S 60 /* how late a few expired among immortals are looked for, times 4 */

/* ---- expired ----------------------------------------------------------------------------- */

/* Is a quarter of the segment's items over, if their times are spread evenly? */
static bool is_worth_walking(const struct kv_segment *segment, uint32_t now_s)
{
    uint32_t min = kv_u32_load_relaxed(&segment->exptime_min);
    uint32_t max = kv_u32_load_relaxed(&segment->exptime_max);
    if (min > now_s)
        return false;
    uint32_t range = max == KV_EXPTIME_NEVER ? MIXED_RANGE_S : max - min;
    return max <= now_s || now_s - min >= range / 4;
}

static bool walk_begin_if_worth(struct kv_worker *worker, uint32_t index)
{
    struct kv_segment *segment = &worker->kv->segments.array[index];
    if (!is_worth_walking(segment, worker->now_s) || !kv_walk_begin(worker, index, KV_WALK_EXPIRE))
        return false;
    kv_u32_store_relaxed(&segment->exptime_min, KV_EXPTIME_NEVER);
    return true;
}

/*
 * The worker's own open segments, which nobody else can walk through. Those in which nothing is
 * left are closed: it may be long until the next item of their kind comes.
 */
static bool walk_own_logs(struct kv_worker *worker)
{
    const struct kv_segment *array = worker->kv->segments.array;
    for (unsigned log = 0; log < KV_LOGS; log++) {
        uint32_t index = worker->log[log];
        if (index == KV_SEGMENT_NONE)
            continue;
        if (walk_begin_if_worth(worker, index))
            return true;
        uint64_t usage = kv_u64_load_relaxed(&array[index].usage) + worker->untold[log];
        if (array[index].used > 0 && usage == 0)
            kv_log_close(worker, log);
    }
    return false;
}

static bool is_sealed(const struct kv_segment *segment)
{
    return kv_u8_load_seq_cst(&segment->state) == KV_SEGMENT_SEALED;
}

bool kv_sweep_begin(struct kv_worker *worker, uint32_t segments_max)
{
    struct kv *kv = worker->kv;
    if (worker->sweep_s == worker->now_s)
        return false;
    uint32_t second = kv_u32_load_relaxed(&kv->sweep_s);
    if (second < worker->now_s && kv_u32_cas_acq_rel(&kv->sweep_s, &second, worker->now_s))
        kv_u32_store_relaxed(&kv->sweep_next, 0);
    for (; segments_max > 0; segments_max--) {
        uint32_t index = kv_u32_load_relaxed(&kv->sweep_next);
        if (index < kv_segments_count(&kv->segments))
            index = kv_u32_fetch_add_relaxed(&kv->sweep_next, 1);
        if (index >= kv_segments_count(&kv->segments)) {
            if (walk_own_logs(worker))
                return true;
            worker->sweep_s = worker->now_s;
            return false;
        }
        if (is_sealed(&kv->segments.array[index]) && walk_begin_if_worth(worker, index))
            return true;
    }
    return false;
}

/* ---- flushed ----------------------------------------------------------------------------- */

/* Removes those items of a chain that are flushed, or all. */
static void purge_chain(struct kv_worker *worker, uint64_t *position, bool all)
{
    const struct kv *kv = worker->kv;
    struct kv_words words;
    kv_index_copy(&kv->index, position, &words);
    for (unsigned i = 0; i < words.count; i++) {
        const struct kv_item *item = kv_word_item(&kv->index, words.at[i]);
        if (!all && kv_item_validity(worker, item) != KV_MISS_FLUSHED)
            continue;
        struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
        if (kv_index_unlink(worker, key.hash, words.at[i]))
            kv_unlinked(worker, item, KV_END_FLUSHED);
    }
}

/* Under kv.purge_lock. */
static void purge_some(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    if (kv->purge_retired == 0) {
        kv->purge_target = kv_u32_load_acquire(&kv->generation);
        kv->purge_retired = kv_epoch_retire(&kv->epoch);
        kv->purge_position = 0;
    }
    if (kv->purge_position == 0 && kv_epoch_oldest(&kv->epoch, U_NULL) < kv->purge_retired)
        return;
    for (unsigned i = 0; i < CHAINS_PER_STEP && kv->purge_position < KV_POSITION_END; i++)
        purge_chain(worker, &kv->purge_position, false);
    if (kv->purge_position == KV_POSITION_END) {
        kv->purge_retired = 0;
        kv_u32_store_release(&kv->purged, kv->purge_target);
    }
}

static void purge_step(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    if (kv_u32_load_relaxed(&kv->purged) == kv_u32_load_relaxed(&kv->generation) ||
        !kv_lock_try(&kv->purge_lock))
        return;
    purge_some(worker);
    kv_lock_drop(&kv->purge_lock);
}

static void remove_all(struct kv_worker *worker)
{
    uint64_t position = 0;
    while (position < KV_POSITION_END)
        purge_chain(worker, &position, true);
}

void kv_flush(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    uint32_t generation = kv_u32_load_acquire(&kv->generation);
    do {
        if (generation - kv_u32_load_acquire(&kv->purged) >= UINT8_MAX) {
            remove_all(worker);
            return;
        }
    } while (!kv_u32_cas_acq_rel(&kv->generation, &generation, generation + 1));
}

/* ---- both -------------------------------------------------------------------------------- */

void kv_sweep_step(struct kv_worker *worker)
{
    purge_step(worker);
    if (worker->walk.mode == KV_WALK_NONE && worker->sweep_s != worker->now_s)
        (void)kv_sweep_begin(worker, SEGMENTS_PER_STEP);
}
