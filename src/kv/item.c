/* SPDX-License-Identifier: BSD-3-Clause */
/* Making items and accounting for them. item.h has their layout. */
#include "kv/item.h"

#include "kv/engine.h"

/* ---- accounting -------------------------------------------------------------------------- */

static uint32_t segment_of(const struct kv_worker *worker, const struct kv_item *record)
{
    return kv_segment_of(&worker->kv->segments, record);
}

uint32_t kv_record_bytes_slow(const struct kv_item *record, uint64_t status)
{
    uint8_t marks = kv_status_marks(status);
    if (marks & KV_MARK_EXTENT)
        return kv_record_round(KV_LONG_HEADER_BYTES + kv_extent_len(record));
    uint32_t bytes = kv_item_key_offset(record, status) + kv_status_key_len(status);
    if (!(marks & KV_MARK_LARGE))
        bytes += kv_item_value_len(record, status);
    return kv_record_round(bytes);
}

uint64_t kv_item_bytes(const struct kv_item *item)
{
    uint64_t bytes = kv_record_bytes(item);
    if (U_UNLIKELY(kv_item_is_large(item))) {
        const struct kv_extents *extents = kv_item_extents(item);
        for (uint32_t i = 0; i < extents->count; i++)
            bytes += kv_record_bytes(kv_item_extent(item, i));
    }
    return bytes;
}

enum kv_found kv_item_validity(const struct kv_worker *worker, const struct kv_item *item)
{
    return kv_status_validity(worker, item, kv_item_status(item));
}

void kv_record_charge(struct kv_worker *worker, const struct kv_item *record)
{
    /* One addition for both: the hold is there, so subtracting it does not borrow. */
    kv_log_change(worker, segment_of(worker, record),
                  (uint64_t)kv_record_bytes(record) - KV_SEGMENT_HOLD);
}

void kv_record_uncharge(struct kv_worker *worker, const struct kv_item *record)
{
    kv_log_change(worker, segment_of(worker, record),
                  KV_SEGMENT_HOLD - (uint64_t)kv_record_bytes(record));
}

void kv_record_discharge(struct kv_worker *worker, const struct kv_item *record)
{
    kv_log_subtract(worker, segment_of(worker, record), kv_record_bytes(record));
}

static void record_mark_seen(struct kv_worker *worker, const struct kv_item *record)
{
    worker->seen[segment_of(worker, record)] = worker->view_version;
}

void kv_item_mark_seen(struct kv_worker *worker, const struct kv_item *item)
{
    worker->viewed_version = worker->view_version;
    kv_item_each_record(worker, item, record_mark_seen);
}

void kv_item_note_exptime(struct kv_worker *worker, const struct kv_item *item, uint32_t exptime)
{
    struct kv_segments *segments = &worker->kv->segments;
    kv_segment_note_exptime(segments, segment_of(worker, item), exptime);
    if (U_UNLIKELY(kv_item_is_large(item))) {
        const struct kv_extents *extents = kv_item_extents(item);
        for (uint32_t i = 0; i < extents->count; i++)
            kv_segment_note_exptime(segments, segment_of(worker, kv_item_extent(item, i)), exptime);
    }
}

/* Adds `change` (1 or UINT64_MAX for -1) to the counter of the size bucket. */
static void bucket_count(struct kv_worker *worker, uint64_t size, uint64_t change)
{
    const struct kv_sizes *sizes = &worker->kv->config.sizes;
    if (U_LIKELY(!worker->buckets))
        return;
    uint64_t bucket = (size + sizes->bucket_bytes - 1) / sizes->bucket_bytes;
    kv_u64_count(&worker->buckets[u_min64(bucket, sizes->bucket_count - 1)], change);
}

void kv_account_linked(struct kv_worker *worker, const struct kv_item *item)
{
    uint64_t size = kv_item_size(worker->kv, item);
    unsigned class = kv_sizes_class(&worker->kv->config.sizes, size);
    kv_count_live(worker, class, 1, kv_item_bytes(item), size);
    kv_class_count(worker, class, KV_CLASS_PUBLISHED, 1);
    bucket_count(worker, size, 1);
}

static void count_evicted(struct kv_worker *worker, const struct kv_item *item, unsigned class)
{
    uint32_t access = kv_item_access(item);
    uint32_t last_access = kv_access_seconds(access);
    uint32_t idle_s = worker->now_s > last_access ? worker->now_s - last_access : 0;
    bool fetched = (access & KV_ACCESS_FETCHED) != 0;
    kv_class_count(worker, class, KV_CLASS_EVICTED, 1);
    kv_class_count(worker, class, KV_CLASS_EVICTED_NONZERO, kv_item_exptime(item) != 0);
    kv_class_count(worker, class, KV_CLASS_EVICTED_UNFETCHED, !fetched);
    kv_class_count(worker, class, KV_CLASS_EVICTED_ACTIVE, fetched && kv_access_freq(access) != 0);
    kv_u64_store_relaxed(&worker->classes[class].last_evicted,
                         (uint64_t)worker->now_s << 32 | idle_s);
    if (U_UNLIKELY(worker->evicted != U_NULL)) {
        struct kv_view view;
        kv_view_fill(&view, item, kv_item_status(item));
        worker->evicted(worker->evicted_ctx, &view);
    }
}

void kv_account_unlinked(struct kv_worker *worker, const struct kv_item *item, enum kv_removal end)
{
    uint64_t size = kv_item_size(worker->kv, item);
    unsigned class = kv_sizes_class(&worker->kv->config.sizes, size);
    kv_count_live(worker, class, UINT64_MAX, kv_item_bytes(item), size);
    bucket_count(worker, size, UINT64_MAX);
    if (end == KV_REMOVAL_EVICTED) {
        count_evicted(worker, item, class);
    } else if (end == KV_REMOVAL_EXPIRED || end == KV_REMOVAL_CRAWLED) {
        bool fetched = (kv_item_access(item) & KV_ACCESS_FETCHED) != 0;
        kv_class_count(worker, class,
                       end == KV_REMOVAL_EXPIRED ? KV_CLASS_EXPIRED : KV_CLASS_CRAWLED, 1);
        kv_class_count(worker, class, KV_CLASS_EXPIRED_UNFETCHED, !fetched);
    }
    kv_item_each_record(worker, item, kv_record_discharge);
}

/* ---- making ------------------------------------------------------------------------------ */

/* The inline_len of an item that is not large. */
static uint32_t inline_len_of(uint32_t value_len)
{
    return u_min32(value_len, KV_INLINE_LEN_NONE);
}

static void header_init(struct kv_item *record, uint64_t status, uint32_t len)
{
    kv_item_status_set(record, status);
    kv_item_cas_set(record, 0);
    kv_item_access_store(record, 0);
    if (kv_status_inline_len(status) == KV_INLINE_LEN_NONE)
        record->long_len = len;
}

/* The item that kv_item_new() makes. */
struct wanted {
    const struct kv_key *key;
    uint32_t value_len;
    uint32_t flags;
    uint32_t exptime;
    struct kv_pool_entry start;
};

static struct kv_item *extent_new(struct kv_worker *worker, unsigned log, uint64_t hash,
                                  uint32_t bytes)
{
    uint32_t record_bytes = kv_record_round(KV_LONG_HEADER_BYTES + bytes);
    struct kv_item *extent = (struct kv_item *)kv_log_append(worker, log, KV_LOG_NEW, record_bytes);
    if (extent) {
        header_init(extent, kv_status_make(0, 0, KV_MARK_EXTENT, KV_INLINE_LEN_NONE), bytes);
        kv_item_cas_set(extent, hash);
    }
    return extent;
}

static void extent_drop(struct kv_worker *worker, struct kv_item *extent)
{
    kv_log_drop(worker, extent, kv_record_bytes(extent));
}

void kv_item_drop(struct kv_worker *worker, struct kv_item *item)
{
    U_ASSERT((kv_item_marks(item) & (KV_MARK_DEAD | KV_MARK_EXTENT)) == 0);
    if (kv_item_is_large(item)) {
        /* Backwards, so that the log can free the last record first. */
        for (uint32_t i = kv_item_extents(item)->count; i-- > 0;)
            extent_drop(worker, kv_item_extent(item, i));
    }
    kv_log_drop(worker, item, kv_record_bytes(item));
}

/* Layout of a large value, by large_plan(). */
struct large_plan {
    uint32_t head_bytes;
    uint32_t first_bytes;
    uint32_t extent_bytes; /* of the extents between the first and the last */
    uint32_t extent_count;
};

static uint32_t large_head_bytes(uint32_t fixed_bytes, uint32_t extent_count)
{
    return kv_record_round(fixed_bytes + kv_extents_bytes(extent_count));
}

/*
 * Head and first extent share the `room` bytes that are left of the open segment; each further
 * extent has a segment of its own, the last one the front of one. With c extents the first one has
 * room - head(c) - header bytes, so c is the least number for which that and c - 1 segments
 * suffice. The search starts at a number that is too low by at most two.
 */
static void large_plan(struct large_plan *plan, uint32_t segment_bytes, uint32_t room,
                       uint32_t fixed_bytes, uint32_t value_len)
{
    const uint32_t header = KV_LONG_HEADER_BYTES;
    uint32_t full = segment_bytes - header;
    uint32_t count = value_len / full > 0 ? value_len / full : 1;
    uint64_t first, covered;
    for (;; count++) {
        plan->head_bytes = large_head_bytes(fixed_bytes, count);
        first = room - plan->head_bytes - header;
        covered = first + (uint64_t)(count - 1) * full;
        if (covered >= value_len)
            break;
    }
    plan->extent_count = count;
    plan->extent_bytes = full;
    plan->first_bytes = first < value_len ? (uint32_t)first : value_len;
}

static void head_init(struct kv_item *item, const struct wanted *wanted, uint8_t marks,
                      uint32_t inline_len)
{
    if (wanted->flags != 0)
        marks |= KV_MARK_FLAGS;
    header_init(item, kv_status_make(wanted->exptime, wanted->key->len, marks, inline_len),
                wanted->value_len);
}

/* Writes access word, flags and key. The count of extents is set already. */
static void head_fill(struct kv_item *item, const struct wanted *wanted)
{
    const struct kv_key *key = wanted->key;
    uint64_t status = kv_item_status(item);
    kv_item_access_store(item, wanted->start.freq << KV_ACCESS_FREQ_SHIFT);
    if (wanted->flags != 0)
        u_copy((uint8_t *)item + kv_item_flags_offset(item, status), &wanted->flags,
               sizeof(uint32_t));
    u_copy((uint8_t *)item + kv_item_key_offset(item, status), key->bytes, key->len);
}

/* Makes the extents. False, with all of them freed, if there is no memory for one. */
static bool extents_fill(struct kv_worker *worker, const struct wanted *wanted, unsigned log,
                         const struct large_plan *plan, struct kv_item *item)
{
    uint32_t left = wanted->value_len;
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        uint32_t bytes = u_min32(left, i == 0 ? plan->first_bytes : plan->extent_bytes);
        struct kv_item *extent = extent_new(worker, log, wanted->key->hash, bytes);
        if (!extent) {
            while (i-- > 0)
                extent_drop(worker, kv_item_extent(item, i));
            return false;
        }
        kv_item_set_extent(item, i, extent);
        left -= bytes;
    }
    U_ASSERT(left == 0);
    return true;
}

static struct kv_item *large_new(struct kv_worker *worker, const struct wanted *wanted,
                                 uint32_t fixed_bytes)
{
    uint32_t segment_bytes = kv_segments_bytes(&worker->kv->segments);
    unsigned log = kv_log_for(worker, wanted->start.pool, wanted->exptime);
    kv_log_refresh(worker, log);
    uint32_t count_max = wanted->value_len / (segment_bytes - KV_LONG_HEADER_BYTES) + 2;
    uint32_t room = kv_log_reserve(worker, log, KV_LOG_NEW,
                                   large_head_bytes(fixed_bytes, count_max) + segment_bytes / 16);
    if (room == 0)
        return U_NULL;

    struct large_plan plan;
    large_plan(&plan, segment_bytes, room, fixed_bytes, wanted->value_len);
    struct kv_item *item =
        (struct kv_item *)kv_log_append(worker, log, KV_LOG_NEW, plan.head_bytes);
    head_init(item, wanted, KV_MARK_LARGE, KV_INLINE_LEN_NONE);
    struct kv_extents *extents = kv_item_extents_room(item);
    extents->first_bytes = plan.first_bytes;
    extents->count = plan.extent_count;
    head_fill(item, wanted);
    if (!extents_fill(worker, wanted, log, &plan, item)) {
        kv_log_drop(worker, item, plan.head_bytes);
        return U_NULL;
    }
    kv_item_note_exptime(worker, item, wanted->exptime);
    return item;
}

static struct kv_item *small_new(struct kv_worker *worker, const struct wanted *wanted,
                                 uint32_t record_bytes)
{
    unsigned log = kv_log_for(worker, wanted->start.pool, wanted->exptime);
    kv_log_refresh(worker, log);
    struct kv_item *item = (struct kv_item *)kv_log_append(worker, log, KV_LOG_NEW, record_bytes);
    if (!item)
        return U_NULL;
    head_init(item, wanted, 0, inline_len_of(wanted->value_len));
    head_fill(item, wanted);
    kv_segment_note_exptime(&worker->kv->segments, worker->log[log], wanted->exptime);
    return item;
}

static void count_no_memory(struct kv_worker *worker, const struct kv_key *key, uint32_t value_len,
                            uint32_t flags)
{
    const struct kv_sizes *sizes = &worker->kv->config.sizes;
    uint64_t size = kv_sizes_of(sizes, key->len, flags, value_len);
    kv_class_count(worker, kv_sizes_class(sizes, size), KV_CLASS_NO_MEMORY, 1);
}

struct kv_item *kv_item_new(struct kv_worker *worker, const struct kv_key *key, uint32_t value_len,
                            uint32_t flags, uint32_t exptime, enum kv_error *error)
{
    const struct kv *kv = worker->kv;
    U_ASSERT(key->len >= 1 && key->len <= KV_KEY_MAX);
    *error = KV_TOO_LARGE;
    if (value_len > kv_u64_load_relaxed(&kv->value_bytes_max))
        return U_NULL;
    *error = KV_NO_MEMORY;
    /* Without eviction an insert must not find its chain full: reserve an overflow bucket. */
    if (!kv->config.evict && !kv_index_reserve_bucket(worker)) {
        count_no_memory(worker, key, value_len, flags);
        return U_NULL;
    }
    struct wanted wanted = {key, value_len, flags, exptime, kv_evict_place(worker, key)};
    uint32_t fixed_bytes = kv_header_bytes(inline_len_of(value_len)) +
                           (flags != 0 ? (uint32_t)sizeof(flags) : 0) + key->len;
    uint64_t bytes = (uint64_t)fixed_bytes + value_len;
    kv_evict_advance(worker, bytes);
    struct kv_item *item;
    if (U_LIKELY(bytes + 7 <= kv->small_bytes_max))
        item = small_new(worker, &wanted, kv_record_round((uint32_t)bytes));
    else
        item = large_new(worker, &wanted, fixed_bytes);
    *error = item ? KV_OK : KV_NO_MEMORY;
    if (U_UNLIKELY(!item))
        count_no_memory(worker, key, value_len, flags);
    return item;
}

/* The extent with the value's byte `offset`; *offset becomes the offset in it. */
static struct kv_item *extent_find(const struct kv_item *item, uint32_t *offset)
{
    const struct kv_extents *extents = kv_item_extents(item);
    uint32_t at = *offset;
    if (at < extents->first_bytes)
        return kv_item_extent(item, 0);
    at -= extents->first_bytes;
    uint32_t full = kv_extent_len(kv_item_extent(item, 1));
    *offset = at % full;
    return kv_item_extent(item, 1 + at / full);
}

void kv_item_set_exptime(struct kv_worker *worker, struct kv_item *item, uint32_t exptime)
{
    U_ASSERT((kv_item_marks(item) & (KV_MARK_DEAD | KV_MARK_EXTENT)) == 0);
    kv_item_status_set(item, kv_status_with_exptime(kv_item_status(item), exptime));
    kv_item_note_exptime(worker, item, exptime);
}

/* Offset in the record of a small item's value byte `offset`; *len: bytes from there on. */
static uint32_t small_value_at(const struct kv_item *item, uint32_t offset, uint32_t *len)
{
    uint64_t status = kv_item_status(item);
    uint32_t value_len = kv_item_value_len(item, status);
    U_ASSERT(offset <= value_len);
    *len = value_len - offset;
    return kv_item_key_offset(item, status) + kv_status_key_len(status) + offset;
}

const uint8_t *kv_value(const struct kv_item *item, uint32_t offset, uint32_t *len)
{
    if (U_UNLIKELY(kv_item_is_large(item))) {
        struct kv_item *extent = extent_find(item, &offset);
        *len = kv_extent_len(extent) - offset;
        return kv_extent_data(extent) + offset;
    }
    return (const uint8_t *)item + small_value_at(item, offset, len);
}

uint8_t *kv_item_room(struct kv_item *item, uint32_t offset, uint32_t *len)
{
    return (uint8_t *)(uintptr_t)kv_value(item, offset, len);
}
