/* SPDX-License-Identifier: BSD-3-Clause */
/* The logs of a worker: records are appended to its open segments, without a lock or a search. */
#include "kv/engine.h"
#include "kv/poison.h"

static struct kv_segment_reader reader_of(const struct kv_worker *worker)
{
    struct kv_segment_reader reader = {worker->member, worker->seen, worker->turn};
    return reader;
}

uint32_t kv_log_reclaim(struct kv_worker *worker, uint32_t look_max)
{
    struct kv_segment_reader reader = reader_of(worker);
    return kv_segment_reclaim(&worker->kv->segments, &reader, look_max);
}

/* Items on the move may use the last free segments, and never make others move. */
static uint32_t segment_for_rescue(struct kv_worker *worker)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = kv_segment_take(segments, 0, KV_SEGMENT_OPEN);
    if (index == KV_SEGMENT_NONE && kv_log_reclaim(worker, kv_segments_count(segments)) > 0)
        index = kv_segment_take(segments, 0, KV_SEGMENT_OPEN);
    return index;
}

uint32_t kv_log_reserve(struct kv_worker *worker, enum kv_log_kind kind, uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t segment_bytes = kv_segments_bytes(segments);
    uint32_t index = worker->log[kind];
    U_ASSERT(bytes > 0 && bytes <= segment_bytes);
    if (index != KV_SEGMENT_NONE) {
        uint32_t room = segment_bytes - segments->array[index].used;
        if (U_LIKELY(bytes <= room))
            return room;
    }
    index = kind == KV_LOG_RESCUED ? segment_for_rescue(worker) : kv_evict_segment(worker);
    if (index == KV_SEGMENT_NONE)
        return 0;
    kv_log_close(worker, kind);
    worker->log[kind] = index;
    return segment_bytes;
}

void *kv_log_append(struct kv_worker *worker, enum kv_log_kind kind, uint32_t bytes)
{
    if (kv_log_reserve(worker, kind, bytes) == 0)
        return U_NULL;
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[kind];
    struct kv_segment *segment = &segments->array[index];
    uint8_t *record = kv_segment_base(segments, index) + segment->used;
    segment->used += bytes;
    kv_unpoison(record, bytes);
    kv_segment_add(segments, index, KV_SEGMENT_HOLD);
    return record;
}

/* Takes the record's bytes back if no other record follows. */
static void take_back(struct kv_worker *worker, uint32_t index, uint8_t *record, uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    struct kv_segment *segment = &segments->array[index];
    if (record + bytes != kv_segment_base(segments, index) + segment->used)
        return;
    segment->used -= bytes;
    kv_poison(record, bytes);
    struct kv_walk *walk = &worker->walk;
    if (walk->mode != KV_WALK_NONE && walk->segment == index && walk->at > segment->used)
        walk->at = segment->used;
}

void kv_log_drop(struct kv_worker *worker, void *record, uint32_t bytes)
{
    uint32_t index = kv_segment_of(&worker->kv->segments, record);
    if (index == worker->log[KV_LOG_NEW] || index == worker->log[KV_LOG_RESCUED])
        take_back(worker, index, (uint8_t *)record, bytes);
    kv_segment_subtract(&worker->kv->segments, index, KV_SEGMENT_HOLD);
}

void kv_log_close(struct kv_worker *worker, enum kv_log_kind kind)
{
    uint32_t index = worker->log[kind];
    if (index == KV_SEGMENT_NONE)
        return;
    worker->log[kind] = KV_SEGMENT_NONE;
    kv_segment_seal(&worker->kv->segments, index);
}
