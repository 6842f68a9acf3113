/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logs of a worker: appends records to its open segments, without locks.
 *
 * Each store changes the usage of the open segment twice: by the hold of the new record, and when
 * that is published. Other workers subtract replaced items from the same word, so the worker keeps
 * its own changes in pending_usage, for the log that it appended to last, and adds them when it
 * seals the segment. The usage of an open segment is not read before that and may be below zero.
 */
#include "kv/engine.h"
#include "kv/poison.h"

#define TRIES_MAX 64

static struct kv_segment_reader reader_of(const struct kv_worker *worker)
{
    struct kv_segment_reader reader = {worker->member, worker->seen, worker->view_version};
    return reader;
}

/* ---- usage ------------------------------------------------------------------------------- */

void kv_log_change(struct kv_worker *worker, uint32_t segment, uint64_t change)
{
    if (U_LIKELY(worker->log[worker->log_last] == segment))
        worker->pending_usage[worker->log_last] += change;
    else
        kv_segment_add(&worker->kv->segments, segment, change);
}

/* ---- segments ---------------------------------------------------------------------------- */

uint32_t kv_log_reclaim(struct kv_worker *worker, uint32_t look_max)
{
    struct kv_segment_reader reader = reader_of(worker);
    return kv_segment_reclaim(&worker->kv->segments, &reader, look_max);
}

/*
 * The log of a pool and a class of time to live: 8 classes by 7 bounds from 16 s to 3 days; the
 * last class has longer times and items that never expire.
 */
unsigned kv_log_for(const struct kv_worker *worker, enum kv_pool pool, uint32_t exptime)
{
    static const uint32_t bounds_s[KV_TTL_CLASSES - 1] = {1 << 4,  1 << 6,  1 << 8, 1 << 10,
                                                          1 << 12, 1 << 14, 1 << 18};
    unsigned ttl = KV_TTL_CLASSES - 1;
    if (exptime != 0 && kv_u32_load_relaxed(&worker->kv->ttl_classes) != 0) {
        uint32_t left_s = exptime > worker->now_s ? exptime - worker->now_s : 0;
        while (ttl > 0 && left_s <= bounds_s[ttl - 1])
            ttl--;
    }
    return (unsigned)pool * KV_TTL_CLASSES + ttl;
}

/* A segment for items that move: may be the last free one; does not evict. */
static uint32_t segment_for_moved(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = kv_segment_take(segments, 0);
    if (index == KV_SEGMENT_NONE && kv_log_reclaim(worker, kv_segments_count(segments)) > 0)
        index = kv_segment_take(segments, 0);
    return index;
}

static void log_open(struct kv_worker *worker, unsigned log, uint32_t index)
{
    struct kv_segment *segment = &worker->kv->segments.array[index];
    kv_log_close(worker, log);
    kv_u8_store_relaxed(&segment->pool, (uint8_t)(log / KV_TTL_CLASSES));
    uint64_t word = kv_u64_load_acquire(&worker->kv->generation);
    kv_u64_store_relaxed(&segment->generation, kv_generation_number(word));
    worker->log[log] = index;
}

uint32_t kv_log_reserve(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                        uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    U_ASSERT(bytes > 0 && bytes <= kv_segments_bytes(segments));
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint32_t room = kv_log_free_bytes(worker, log);
        if (U_LIKELY(bytes <= room))
            return room;
        uint32_t index;
        if (purpose == KV_LOG_MOVED)
            index = segment_for_moved(worker);
        else
            index = kv_segment_take(segments, kv_floor_segments(worker->kv));
        if (index != KV_SEGMENT_NONE)
            log_open(worker, log, index);
        else if (purpose == KV_LOG_MOVED || !kv_evict_make_free(worker))
            return 0;
    }
    return 0; /* other workers took each segment that this worker freed */
}

void *kv_log_append(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                    uint32_t bytes)
{
    if (U_UNLIKELY(bytes > kv_log_free_bytes(worker, log)) &&
        kv_log_reserve(worker, log, purpose, bytes) == 0)
        return U_NULL;
    return kv_log_take(worker, log, bytes);
}

/*
 * Without the prefetch, the exchange would wait for the cache misses of the record's lines. Two
 * lines hold a short item. All stores of a batch prefetch the same lines; in longer sequences the
 * hardware prefetcher takes over.
 */
void kv_prefetch_log(const struct kv_worker *worker)
{
    const struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[worker->log_last];
    if (U_UNLIKELY(index == KV_SEGMENT_NONE))
        return;
    const uint8_t *next = kv_segment_base(segments, index) + segments->array[index].used;
    U_PREFETCH(next + U_CACHE_LINE_BYTES);
    U_PREFETCH(next + 2 * U_CACHE_LINE_BYTES);
}

static bool is_own_open(const struct kv_worker *worker, uint32_t index)
{
    for (unsigned log = 0; log < KV_LOGS; log++)
        if (worker->log[log] == index)
            return true;
    return false;
}

/* Frees a record's bytes if it is the last one of the segment. */
static void take_back(struct kv_worker *worker, uint32_t index, uint8_t *record, uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_segment *segment = &segments->array[index];
    if (record + bytes != kv_segment_base(segments, index) + segment->used)
        return;
    segment->used -= bytes;
    kv_poison(record, bytes);
    struct kv_cleaner *cleaner = &worker->cleaner;
    if (cleaner->mode != KV_CLEAN_NONE && cleaner->segment == index && cleaner->at > segment->used)
        cleaner->at = segment->used;
}

void kv_log_drop(struct kv_worker *worker, void *record, uint32_t bytes)
{
    uint32_t index = kv_segment_of(&worker->kv->segments, record);
    if (is_own_open(worker, index))
        take_back(worker, index, (uint8_t *)record, bytes);
    kv_log_subtract(worker, index, KV_SEGMENT_HOLD);
}

void kv_log_close(struct kv_worker *worker, unsigned log)
{
    uint32_t index = worker->log[log];
    if (index == KV_SEGMENT_NONE)
        return;
    worker->log[log] = KV_SEGMENT_NONE;
    kv_segment_add(&worker->kv->segments, index, worker->pending_usage[log]);
    worker->pending_usage[log] = 0;
    kv_segment_seal(&worker->kv->segments, index);
}
