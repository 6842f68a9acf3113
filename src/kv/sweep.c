/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sweep for expired items. They are misses from the moment they expire; the sweep reclaims
 * their memory, a few steps per loop and worker. flush.c does the same for flushed items.
 *
 * Once per second the workers together check the bounds of expiry of each segment and scan
 * those in which a good part of the items has probably expired. A scan recomputes the lower bound:
 * it resets it, and notes the time of each item that stays. It reads an item's status by a swap for
 * itself, so that a touch meanwhile (update.c) either comes before, and the scan notes its time; or
 * comes after, sees the bound reset, and notes its time itself.
 */
#include "kv/engine.h"

#define SEGMENTS_PER_STEP 16
#define MIXED_RANGE_S 60 /* assumed range of expiry if some items never expire */

/* Whether a quarter of the items has expired, if their times are distributed evenly. */
static bool is_worth_cleaning(const struct kv_segment *segment, uint32_t now_s)
{
    uint32_t min = kv_u32_load_relaxed(&segment->exptime_min);
    uint32_t max = kv_u32_load_relaxed(&segment->exptime_max);
    if (min > now_s)
        return false;
    uint32_t range = max == KV_EXPTIME_NEVER ? MIXED_RANGE_S : max - min;
    return max <= now_s || now_s - min >= range / 4;
}

static bool clean_if_worth(struct kv_worker *worker, uint32_t index)
{
    struct kv_segment *segment = &worker->kv->segments.array[index];
    if (!is_worth_cleaning(segment, worker->now_s) ||
        !kv_clean_begin(worker, index, KV_CLEAN_EXPIRE))
        return false;
    kv_u32_store_relaxed(&segment->exptime_min, KV_EXPTIME_NEVER);
    return true;
}

/*
 * Sweeps the worker's own open segments, which other workers cannot scan. Seals those without
 * live items: the next item of their class may come much later.
 */
static bool clean_own_logs(struct kv_worker *worker)
{
    const struct kv_segment *array = worker->kv->segments.array;
    for (unsigned log = 0; log < KV_LOGS; log++) {
        uint32_t index = worker->log[log];
        if (index == KV_SEGMENT_NONE)
            continue;
        if (clean_if_worth(worker, index))
            return true;
        uint64_t usage = kv_u64_load_relaxed(&array[index].usage) + worker->pending_usage[log];
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
            if (clean_own_logs(worker))
                return true;
            worker->sweep_s = worker->now_s;
            return false;
        }
        if (is_sealed(&kv->segments.array[index]) && clean_if_worth(worker, index))
            return true;
    }
    return false;
}

void kv_sweep_step(struct kv_worker *worker)
{
    if (worker->cleaner.mode == KV_CLEAN_NONE && worker->sweep_s != worker->now_s)
        (void)kv_sweep_begin(worker, SEGMENTS_PER_STEP);
}
