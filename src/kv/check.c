/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks all invariants while no worker runs; for tests and a debugging command. */
#include <stdlib.h>

#include "kv/engine.h"

struct check {
    const struct kv *kv;
    uint64_t *live_bytes;    /* by segment: found through the index */
    uint64_t *pending_usage; /* by segment: changes not added to its usage yet */
    uint64_t items;
    uint64_t bytes;
};

/* ---- the index --------------------------------------------------------------------------- */

static const char *check_record(struct check *check, const struct kv_item *record)
{
    const struct kv_segments *segments = &check->kv->segments;
    const uint8_t *at = (const uint8_t *)record;
    uint64_t memory_bytes = (uint64_t)kv_segments_count(segments) << segments->shift;
    if (at < segments->base || at >= segments->base + memory_bytes)
        return "a record lies outside of the segments";
    uint32_t index = kv_segment_of(segments, record);
    const struct kv_segment *segment = &segments->array[index];
    uint8_t state = kv_u8_load_seq_cst(&segment->state);
    if (state != KV_SEGMENT_OPEN && state != KV_SEGMENT_SEALED)
        return "a linked record lies in a segment that is neither open nor sealed";
    uint32_t bytes = kv_record_bytes(record);
    if (at + bytes > kv_segment_base(segments, index) + segment->used)
        return "a record reaches beyond the used part of its segment";
    check->live_bytes[index] += bytes;
    return U_NULL;
}

static const char *check_extents(struct check *check, const struct kv_item *item, uint64_t hash)
{
    const struct kv_extents *extents = kv_item_extents(item);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < extents->count; i++) {
        const struct kv_item *extent = kv_item_extent(item, i);
        const char *broken = check_record(check, extent);
        if (broken)
            return broken;
        if (!(kv_item_marks(extent) & KV_MARK_EXTENT) || kv_item_cas(extent) != hash)
            return "an extent doesn't belong to its item";
        bytes += kv_extent_len(extent);
    }
    return bytes == item->long_len ? U_NULL : "the extents don't add up to the value";
}

static const char *check_item(struct check *check, uint64_t word, const struct kv_bucket *head)
{
    const struct kv *kv = check->kv;
    const struct kv_item *item = kv_word_item(&kv->index, word);
    const char *broken = check_record(check, item);
    if (broken)
        return broken;
    if (kv_item_marks(item) & (KV_MARK_DEAD | KV_MARK_EXTENT))
        return "a slot leads to a dead record or to an extent";
    if (kv_item_key_len(item) == 0 || kv_item_key_len(item) > KV_KEY_MAX)
        return "a linked item has no valid key";
    struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
    if (!kv_word_has_tag(word, key.hash) || kv_index_chain(&kv->index, key.hash) != head)
        return "an item is in a wrong chain, or its tag is wrong";
    struct kv_find find;
    if (!kv_index_find(&kv->index, &key, &find) || find.word != word)
        return "a key is in its chain twice";
    check->items++;
    check->bytes += kv_item_bytes(item);
    return kv_item_is_large(item) ? check_extents(check, item, key.hash) : U_NULL;
}

static const char *check_chain(struct check *check, const struct kv_bucket *head)
{
    const struct kv_index *index = &check->kv->index;
    unsigned buckets = 0;
    for (const struct kv_bucket *bucket = head; bucket;
         bucket = kv_bucket_next(index, head, bucket)) {
        if (++buckets > KV_CHAIN_BUCKETS_MAX)
            return "a chain is longer than its bound";
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]) & ~KV_WORD_FROZEN;
            if (word & KV_WORD_PEND)
                return "an insert was not finished";
            const char *broken = (word & KV_WORD_LIVE) ? check_item(check, word, head) : U_NULL;
            if (broken)
                return broken;
        }
    }
    return U_NULL;
}

static const char *check_index(struct check *check)
{
    const struct kv_index *index = &check->kv->index;
    const char *broken = U_NULL;
    for (uint64_t position = 0; !broken && position < KV_POSITION_END;) {
        const struct kv_bucket *head = kv_position_chain(index, position);
        broken = check_chain(check, head);
        position += UINT64_C(1) << (63 - kv_chain_power(index, head));
    }
    return broken;
}

/* ---- the segments ------------------------------------------------------------------------ */

static const char *check_records(const struct kv_segments *segments, uint32_t index)
{
    const uint8_t *base = kv_segment_base(segments, index);
    uint32_t used = segments->array[index].used;
    uint32_t at = 0;
    while (at < used)
        at += kv_record_bytes((const struct kv_item *)(const void *)(base + at));
    return at == used ? U_NULL : "the records of a segment don't end where it ends";
}

static const char *check_segment(const struct check *check, uint32_t index)
{
    const struct kv_segments *segments = &check->kv->segments;
    const struct kv_segment *segment = &segments->array[index];
    uint64_t usage = kv_u64_load_relaxed(&segment->usage) + check->pending_usage[index];
    uint64_t live = usage & KV_SEGMENT_LIVE_MASK;
    if (live != check->live_bytes[index])
        return "the live bytes of a segment are not those of its linked records";
    switch ((enum kv_segment_state)kv_u8_load_seq_cst(&segment->state)) {
    case KV_SEGMENT_FREE:
    case KV_SEGMENT_WITHDRAWN:
        return kv_u64_load_relaxed(&segment->usage) == 0 ? U_NULL : "a free segment is in use";
    case KV_SEGMENT_SEALED:
        if (usage == 0 && !segment->claimed)
            return "an empty segment was not retired";
        return check_records(segments, index);
    case KV_SEGMENT_OPEN:
        return check_records(segments, index);
    case KV_SEGMENT_RETIRED:
        return live == 0 ? U_NULL : "a retired segment has live records";
    case KV_SEGMENT_PARKED:
        return usage >= KV_SEGMENT_HOLD && live == 0 ? U_NULL : "a parked segment isn't pinned";
    }
    return "a segment has no valid state";
}

static void add_pending_usage(struct check *check, const struct kv_worker *worker)
{
    for (unsigned log = 0; log < KV_LOGS; log++)
        if (worker->log[log] != KV_SEGMENT_NONE)
            check->pending_usage[worker->log[log]] += worker->pending_usage[log];
}

static const char *check_list(const struct kv_segments *segments,
                              const struct kv_segment_list *list, enum kv_segment_state state)
{
    uint32_t count = 0;
    for (uint32_t i = list->head; i != KV_SEGMENT_NONE; i = segments->array[i].next) {
        if (++count > kv_segments_count(segments))
            return "a list of segments is a circle";
        if (kv_u8_load_seq_cst(&segments->array[i].state) != state)
            return "a segment is in the wrong list";
    }
    return count == kv_segment_list_count(list) ? U_NULL : "a list of segments is miscounted";
}

/* Touched free segments are at the tail, from which kv_segment_take() takes. */
static const char *check_touched(const struct kv_segments *segments)
{
    uint32_t untouched = KV_SEGMENT_NONE;
    uint32_t touched = 0;
    for (uint32_t i = segments->free.head; i != KV_SEGMENT_NONE; i = segments->array[i].next) {
        if (segments->array[i].touched)
            touched++;
        else if (touched > 0)
            return "a free segment that is not touched would be taken before one that is";
        else
            untouched = i;
    }
    if (touched != kv_u32_load_relaxed(&segments->touched_free))
        return "the touched segments are miscounted";
    return untouched == segments->untouched ? U_NULL : "another segment is to be touched next";
}

static const char *check_service(const struct kv_segments *segments)
{
    uint32_t out = kv_segment_list_count(&segments->withdrawn);
    if (kv_u32_load_relaxed(&segments->in_service) != kv_segments_count(segments) - out)
        return "the segments in service are miscounted";
    return kv_segments_count(segments) <= segments->accessible
               ? U_NULL
               : "a segment is in service that has no memory";
}

/* ---- all --------------------------------------------------------------------------------- */

static const char *check_counters(const struct check *check)
{
    struct kv_stats stats;
    kv_stats(check->kv, &stats);
    if (stats.items != check->items)
        return "the counted items are not those in the index";
    if (stats.item_bytes != check->bytes)
        return "the counted bytes are not those of the items in the index";
    if (stats.memory_used_bytes > kv_memory_used_max(check->kv))
        return "more memory is used than the limit allows";
    return U_NULL;
}

static const char *check_all(struct check *check)
{
    const struct kv_segments *segments = &check->kv->segments;
    const char *broken = check_index(check);
    for (unsigned i = 0; i < check->kv->config.worker_max; i++)
        add_pending_usage(check, &check->kv->workers[i]);
    for (uint32_t i = 0; !broken && i < kv_segments_count(segments); i++)
        broken = check_segment(check, i);
    if (!broken)
        broken = check_list(segments, &segments->free, KV_SEGMENT_FREE);
    if (!broken)
        broken = check_touched(segments);
    for (int pool = 0; !broken && pool < KV_POOLS; pool++)
        broken = check_list(segments, &segments->sealed[pool], KV_SEGMENT_SEALED);
    if (!broken)
        broken = check_list(segments, &segments->retired, KV_SEGMENT_RETIRED);
    if (!broken)
        broken = check_list(segments, &segments->withdrawn, KV_SEGMENT_WITHDRAWN);
    if (!broken)
        broken = check_service(segments);
    return broken ? broken : check_counters(check);
}

const char *kv_check(const struct kv *kv)
{
    struct check check = {.kv = kv};
    uint32_t count = kv_segments_count(&kv->segments);
    check.live_bytes = (uint64_t *)calloc(count, sizeof(*check.live_bytes));
    check.pending_usage = (uint64_t *)calloc(count, sizeof(*check.pending_usage));
    const char *broken = "not enough memory to check";
    if (check.live_bytes && check.pending_usage)
        broken = check_all(&check);
    free(check.live_bytes);
    free(check.pending_usage);
    return broken;
}
