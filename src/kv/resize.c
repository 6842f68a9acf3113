/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory limit: layout of the memory, and changes of the limit.
 *
 *   | tables of the index | headers of segments | segment 0 | segment 1 | ...       | unused ...  |
 *   '-------------------- addresses for the highest limit ---------------------------------------'
 *
 * Addresses are reserved for the highest limit; memory not in use is inaccessible. A change sets
 * how many segments are wanted in service; each worker's housekeeping then admits or withdraws a
 * few free segments until that number is reached. The pages of withdrawn segments go back to the
 * system (except reserved huge pages, see memory.h).
 *
 * The limit bounds index and segments together: segments are withdrawn before the index grows
 * (grow.c), and admitted for memory that the index releases.
 */
#include "kv/engine.h"

#define SEGMENT_SHIFT_MIN 13
#define SEGMENT_SHIFT_WISHED 14 /* minimum unless memory is small */
#define SEGMENT_SHIFT_MAX 20
#define SEGMENTS_WISHED 2048
#define SEGMENTS_NEEDED 128
#define SEGMENTS_PER_WORKER 16
#define SEGMENTS_PER_LOG 5 /* with fewer, logs are not separated by time to live */
#define SEGMENTS_PER_WORKER_MIN 4
#define INDEX_SHARE 64    /* heads of the first table: memory / INDEX_SHARE */
#define INDEX_SHARE_MAX 4 /* heads of the last one */
#define INDEX_POWER_MIN 6 /* a page */
#define INDEX_POWER_START_MAX 16
#define INDEX_POWER_MAX 30
#define INDEX_POWER_OPEN 13 /* tables up to here are accessible at the start: 512 KiB of heads */
#define GHOSTS_SHARE 256    /* ghosts: at most memory / GHOSTS_SHARE */
#define RESIZE_PER_STEP 16
#define RESIZE_INSERTS 128 /* so many inserts add one step */

/* ---- layout ------------------------------------------------------------------------------ */

/*
 * log2 of the segment size: many segments, so that open, half-empty and reserved ones are a small
 * part of the memory; but not so small that long values need many extents, unless the memory is
 * small or shared by many workers.
 */
static unsigned segment_shift(const struct kv_config *config)
{
    uint64_t needed = (uint64_t)config->worker_max * SEGMENTS_PER_WORKER;
    if (needed < SEGMENTS_NEEDED)
        needed = SEGMENTS_NEEDED;
    unsigned shift = SEGMENT_SHIFT_MAX;
    while ((shift > SEGMENT_SHIFT_WISHED && config->memory_bytes >> shift < SEGMENTS_WISHED) ||
           (shift > SEGMENT_SHIFT_MIN && config->memory_bytes >> shift < needed))
        shift--;
    return shift;
}

/* Power of the largest table whose heads take at most memory_bytes / share. */
static unsigned index_power(uint64_t memory_bytes, unsigned share, unsigned power_max)
{
    uint64_t heads = memory_bytes / share / sizeof(struct kv_bucket);
    unsigned power = INDEX_POWER_MIN;
    while (power < power_max && heads >> (power + 1) != 0)
        power++;
    return power;
}

/* Bytes of the ghost queue: a power of two, at most memory / GHOSTS_SHARE. */
uint64_t kv_ghosts_bytes(const struct kv_config *config)
{
    uint64_t bytes = KV_GHOST_SET_BYTES;
    while (bytes <= config->memory_bytes / GHOSTS_SHARE / 2)
        bytes *= 2;
    return config->evict && kv_policy_at(config->policy)->uses_ghosts ? bytes : 0;
}

/* Number of segments, with headers, that fit into the memory beside index and ghosts. */
static uint32_t segments_fit(const struct kv_config *config, uint64_t memory_bytes,
                             uint64_t index_bytes, unsigned shift)
{
    uint64_t beside = index_bytes + kv_ghosts_bytes(config);
    uint64_t each = (UINT64_C(1) << shift) + sizeof(struct kv_segment);
    if (memory_bytes <= beside)
        return 0;
    return (uint32_t)u_min64((memory_bytes - beside) / each, KV_SEGMENT_NONE - 1);
}

static uint32_t segments_min(const struct kv_config *config)
{
    return config->worker_max * SEGMENTS_PER_WORKER_MIN;
}

bool kv_layout_has_enough(const struct kv_config *config, uint32_t segments)
{
    return segments >= segments_min(config);
}

void kv_layout_place(struct kv_layout *layout)
{
    layout->overflow_offset = 2 * sizeof(struct kv_bucket) << layout->index_power_max;
    layout->headers_offset = 2 * layout->overflow_offset;
    uint64_t headers_end =
        layout->headers_offset + (uint64_t)layout->count_max * sizeof(struct kv_segment);
    layout->segments_offset = (headers_end + KV_HUGE_PAGE_BYTES - 1) & ~(KV_HUGE_PAGE_BYTES - 1);
    layout->bytes_max =
        layout->segments_offset + ((uint64_t)layout->count_max << layout->segment_shift);
}

const char *kv_layout_plan(const struct kv_config *config, struct kv_layout *layout)
{
    uint64_t memory_max = config->memory_bytes_max;
    if (memory_max < config->memory_bytes)
        memory_max = config->memory_bytes;
    layout->index_power = index_power(config->memory_bytes, INDEX_SHARE, INDEX_POWER_START_MAX);
    layout->index_power_max = index_power(memory_max, INDEX_SHARE_MAX, INDEX_POWER_MAX);
    layout->index_power_open =
        u_max32(layout->index_power, u_min32(INDEX_POWER_OPEN, layout->index_power_max));
    layout->segment_shift = segment_shift(config);
    uint64_t index_bytes = kv_table_bytes(layout->index_power);
    layout->count = segments_fit(config, config->memory_bytes, index_bytes, layout->segment_shift);
    layout->count_max = segments_fit(config, memory_max, index_bytes, layout->segment_shift);
    if (!kv_layout_has_enough(config, layout->count))
        return "the memory limit is too low for so many workers: raise it or use fewer threads";
    kv_layout_place(layout);
    return U_NULL;
}

#define SEGMENTS_BESIDE 3 /* the last extent, the head's segment, one for the scan */

/* By the number of extents that a head in one segment can name (item.c). */
uint64_t kv_layout_value_bytes_max(unsigned segment_shift)
{
    uint64_t segment_bytes = UINT64_C(1) << segment_shift;
    uint64_t head = segment_bytes / 16 * 15 - KV_LONG_HEADER_BYTES - sizeof(struct kv_extents) -
                    sizeof(uint32_t) - KV_KEY_MAX;
    return (head / KV_EXTENT_NAME_BYTES - SEGMENTS_BESIDE) * (segment_bytes - KV_LONG_HEADER_BYTES);
}

/* The longest value: bounded by configuration, extents, and memory if it holds nothing else. */
static uint64_t value_bytes_max(const struct kv *kv, uint64_t usable_segments)
{
    uint64_t full = kv_segments_bytes(&kv->segments) - KV_LONG_HEADER_BYTES;
    if (usable_segments < SEGMENTS_BESIDE)
        return 0;
    uint64_t fits = (usable_segments - SEGMENTS_BESIDE + 1) * full - 1;
    return u_min64(kv->config.value_bytes_max,
                   u_min64(fits, kv_layout_value_bytes_max(kv->segments.shift)));
}

void kv_limit_derive(struct kv *kv, uint32_t segments)
{
    uint32_t workers = kv->config.worker_max;
    uint32_t floor = u_max32(2, u_min32(workers, segments / 16));
    kv_u32_store_relaxed(&kv->floor_segments, floor);
    kv_u32_store_relaxed(&kv->reserve_segments,
                         floor + u_max32(2, u_min32(workers, segments / 64)));
    kv_u32_store_relaxed(&kv->ttl_classes,
                         segments / SEGMENTS_PER_LOG >= (uint64_t)workers * KV_LOGS);
    kv_u64_store_relaxed(&kv->value_bytes_max, value_bytes_max(kv, segments - floor));
}

/* ---- changing ---------------------------------------------------------------------------- */

uint64_t kv_memory_bound(const struct kv *kv)
{
    uint64_t limit = kv_u64_load_relaxed(&kv->memory_limit_bytes);
    uint64_t bound = kv->config.memory_bytes_max;
    return u_min64(limit, bound > kv->config.memory_bytes ? bound : kv->config.memory_bytes);
}

/* Segments for a limit; at least twice the minimum, or the present number if that is smaller. */
static uint32_t segments_wanted(const struct kv *kv, uint64_t bytes)
{
    uint32_t wanted = segments_fit(&kv->config, bytes, kv->index.bytes_wanted, kv->segments.shift);
    uint32_t least = segments_min(&kv->config) * 2;
    if (wanted < kv_segments_count(&kv->segments)) { /* headers of withdrawn segments stay */
        uint64_t beside = kv_fixed_bytes(kv) - kv_u64_load_relaxed(&kv->index.bytes);
        beside = u_min64(bytes, beside + kv->index.bytes_wanted);
        wanted = (uint32_t)((bytes - beside) >> kv->segments.shift);
    }
    wanted = u_max32(wanted, u_min32(least, kv_u32_load_relaxed(&kv->segments.wanted)));
    return u_min32(wanted, kv->segments_count_max);
}

bool kv_limit_follow(struct kv *kv)
{
    struct kv_segments *segments = &kv->segments;
    uint32_t wanted = segments_wanted(kv, kv_memory_bound(kv));
    uint32_t accessible = segments->accessible;
    if (wanted > accessible) {
        uint8_t *from = kv_segment_base(segments, accessible);
        uint64_t bytes = (uint64_t)(wanted - accessible) << segments->shift;
        if (!kv->memory.shared && !kv_memory_open(&kv->memory, from, bytes))
            return false;
        accessible = wanted;
    }
    kv_limit_derive(kv, wanted);
    kv_segments_want(segments, wanted, accessible);
    return true;
}

bool kv_memory_limit_set(struct kv_worker *worker, uint64_t bytes)
{
    struct kv *kv = worker->kv;
    kv_lock_take(&kv->limit_lock);
    uint64_t before = kv_u64_load_relaxed(&kv->memory_limit_bytes);
    kv_u64_store_relaxed(&kv->memory_limit_bytes, bytes);
    bool set = kv_limit_follow(kv);
    if (!set)
        kv_u64_store_relaxed(&kv->memory_limit_bytes, before);
    kv_lock_drop(&kv->limit_lock);
    kv_resize_step(worker);
    return set;
}

void kv_budget_set(struct kv *kv, uint64_t index_bytes)
{
    kv_lock_take(&kv->limit_lock);
    kv->index.bytes_wanted = index_bytes;
    (void)kv_limit_follow(kv); /* if memory is refused there are fewer segments */
    kv_lock_drop(&kv->limit_lock);
}

bool kv_budget_allows(const struct kv *kv, uint64_t bytes, bool may_evict)
{
    const struct kv_segments *segments = &kv->segments;
    uint64_t limit = kv_memory_bound(kv);
    uint64_t beside = kv_fixed_bytes(kv) + bytes;
    uint64_t left = limit > beside ? (limit - beside) >> segments->shift : 0;
    if (left < segments_min(&kv->config) * 2)
        return false;
    uint32_t in_service = kv_u32_load_relaxed(&segments->in_service);
    uint64_t to_go = in_service > left ? in_service - left : 0;
    return may_evict || to_go == 0 ||
           kv_segment_list_count(&segments->free) >=
               to_go + kv_u32_load_relaxed(&kv->reserve_segments);
}

uint64_t kv_memory_limit(const struct kv *kv)
{
    return kv_u64_load_relaxed(&kv->memory_limit_bytes);
}

bool kv_is_resizing(const struct kv *kv)
{
    if (kv_grow_is_active(&kv->index))
        return true;
    uint32_t in_service = kv_u32_load_relaxed(&kv->segments.in_service);
    uint32_t wanted = kv_u32_load_relaxed(&kv->segments.wanted);
    return kv->config.evict ? in_service != wanted : in_service < wanted;
}

/*
 * Withdraws a free segment. With eviction, the reserve for stores stays. Pages that cannot be
 * released (reserved huge pages) count as released.
 */
static bool withdraw_one(struct kv *kv)
{
    struct kv_segments *segments = &kv->segments;
    uint32_t spare =
        kv->config.evict ? kv_u32_load_relaxed(&kv->reserve_segments) : kv_floor_segments(kv);
    uint32_t index = kv_segment_withdraw(segments, spare);
    if (index == KV_SEGMENT_NONE)
        return false;
    bool closed =
        kv_memory_close(&kv->memory, kv_segment_base(segments, index), kv_segments_bytes(segments));
    kv_segment_withdrawn(segments, index, !closed);
    return true;
}

bool kv_resize_admit(struct kv *kv)
{
    struct kv_segments *segments = &kv->segments;
    uint32_t index = kv_segment_admit_begin(segments);
    if (index == KV_SEGMENT_NONE)
        return false;
    /* In a file, a segment that was withdrawn or is new has no space. */
    bool opened =
        !kv->memory.shared ||
        kv_memory_open(&kv->memory, kv_segment_base(segments, index), kv_segments_bytes(segments));
    kv_segment_admit_end(segments, index, opened);
    return opened;
}

void kv_resize_step(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    unsigned left = RESIZE_PER_STEP * kv_steps_due(worker->inserted, RESIZE_INSERTS);
    while (left-- > 0 && (kv_resize_admit(kv) || withdraw_one(kv)))
        continue;
}

uint64_t kv_memory_used_max(const struct kv *kv)
{
    uint64_t in_service = kv_u32_load_relaxed(&kv->segments.in_service);
    uint64_t least = kv_fixed_bytes(kv) + (in_service << kv->segments.shift);
    uint64_t limit = kv_u64_load_relaxed(&kv->memory_limit_bytes);
    return least > limit ? least : limit;
}
