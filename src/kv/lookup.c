/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups, prefetches and pins. A hit takes no lock and no read-modify-write. */
#include "kv/engine.h"
#include "kv/tag.h"

#define PREFETCH_BYTES_MAX 1024 /* the hardware prefetcher continues from there */

void kv_prefetch_bucket(const struct kv_worker *worker, struct kv_key *key)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t position = key->hash >> 1;
    const struct kv_bucket *head =
        kv_table_chain(index, kv_position_power(index, position), position);
    U_PREFETCH(head);
    key->hint.at = head;
    key->hint.word = 0;
}

/* Sets the key's hint to a slot of the bucket with its tag. False if there is none. */
static inline bool hint_set(const struct kv_bucket *bucket, struct kv_key *key)
{
    uint64_t hash = key->hash;
    const kv_atomic_u64 *slot = kv_tag_search(bucket, hash);
    if (U_UNLIKELY(slot == U_NULL))
        return false;
    uint64_t word = kv_u64_load_acquire(slot);
    key->hint.at = slot;
    key->hint.word = word;
    return kv_word_matches(word, hash);
}

static inline const struct kv_item *prefetch_hinted(const struct kv_index *index,
                                                    const struct kv_key *key)
{
    const struct kv_item *item = kv_word_item(index, key->hint.word);
    U_PREFETCH(item);
    U_PREFETCH((const uint8_t *)item + U_CACHE_LINE_BYTES);
    return item;
}

/* The tag is not in the first bucket: searches the chain without prefetching its buckets. */
static U_NOINLINE const struct kv_item *prefetch_in_chain(const struct kv_index *index,
                                                          struct kv_key *key)
{
    uint64_t position = key->hash >> 1;
    const struct kv_bucket *head =
        kv_table_chain(index, kv_position_power(index, position), position);
    const struct kv_bucket *bucket = head;
    for (; bucket != U_NULL; bucket = kv_bucket_next(index, head, bucket)) {
        if (hint_set(bucket, key))
            return prefetch_hinted(index, key);
    }
    key->hint.at = U_NULL;
    key->hint.word = 0;
    return U_NULL;
}

const struct kv_item *kv_prefetch_item(const struct kv_worker *worker, struct kv_key *key)
{
    const struct kv_index *index = &worker->kv->index;
    /* A repeated call for a key finds a slot in hint.at: round down to the bucket. */
    const struct kv_bucket *bucket =
        (const struct kv_bucket *)((uintptr_t)key->hint.at & ~(uintptr_t)(sizeof(*bucket) - 1));
    if (U_UNLIKELY(bucket == U_NULL || !hint_set(bucket, key)))
        return prefetch_in_chain(index, key);
    return prefetch_hinted(index, key);
}

void kv_prefetch_value(const struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    uint32_t bytes = kv_item_key_offset(item, status) + kv_status_key_len(status);
    if (U_LIKELY((kv_status_marks(status) & KV_MARK_LARGE) == 0))
        bytes += kv_item_value_len(item, status);
    bytes = u_min32(bytes, PREFETCH_BYTES_MAX);
    /* The number of iterations depends on the length only, so that it can be predicted. */
    const uint8_t *at = (const uint8_t *)item;
    for (uint32_t next = 2 * U_CACHE_LINE_BYTES; next < bytes; next += U_CACHE_LINE_BYTES)
        U_PREFETCH(at + next);
    U_PREFETCH(at + bytes - 1);
}

void kv_view_fill(struct kv_view *view, const struct kv_item *item, uint64_t status)
{
    struct kv_find find = {.item = (struct kv_item *)(uintptr_t)item, .status = status};
    find.key = (const uint8_t *)item + kv_item_key_offset(item, status);
    kv_view_fill_found(view, &find);
}

bool kv_unlink_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash, uint64_t word)
{
    /* Seal with the status found invalid: a worker with an older clock may be touching the item. */
    uint64_t status = kv_item_status(item);
    if (kv_status_validity(worker, item, status) == KV_HIT)
        return false;
    uint64_t sealed = status | KV_STATUS_SEALED;
    if (status != sealed && !kv_item_status_cas(item, &status, sealed))
        return false;
    return kv_index_unlink(worker, hash, word);
}

void kv_remove_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash, uint64_t word,
                       enum kv_found found)
{
    if (kv_unlink_invalid(worker, item, hash, word))
        kv_account_unlinked(worker, item,
                            found == KV_MISS_EXPIRED ? KV_REMOVAL_EXPIRED : KV_REMOVAL_FLUSHED);
}

/* Counts an access. */
static inline void touch(const struct kv_worker *worker, struct kv_item *item)
{
    uint32_t access = kv_item_access(item);
    kv_item_access_set(item, access, kv_access_fetched(worker, access));
}

enum kv_found kv_get(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view)
{
    const struct kv_index *index = &worker->kv->index;
    struct kv_find find;
    if (!kv_index_find(index, key, &find))
        return KV_MISS;
    enum kv_found found = kv_status_validity(worker, find.item, find.status);
    if (U_UNLIKELY(found != KV_HIT)) {
        kv_remove_invalid(worker, find.item, key->hash, find.word, found);
        return found;
    }
    kv_view_fill_found(view, &find);
    kv_found_mark_seen(worker, &find);
    touch(worker, find.item);
    return KV_HIT;
}

U_STATIC_ASSERT(KV_SHORT_MAX == KV_INLINE_LEN_NONE - 1, kv_short_max_is_that_of_the_status);

bool kv_get_short(struct kv_worker *worker, const struct kv_key *key, struct kv_short *found)
{
    struct kv_find find;
    /* A longer key would be compared by a call, which costs the caller its registers. */
    if (U_UNLIKELY(key->len > U_SHORT_BYTES || !kv_find_short(worker, key, &find)))
        return false;
    found->value = find.key + key->len;
    found->value_len = kv_status_inline_len(find.status);
    if (U_UNLIKELY(kv_item_access(find.item) != worker->access_saturated))
        touch(worker, find.item);
    return true;
}

enum kv_found kv_peek(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view)
{
    struct kv_find find;
    if (!kv_index_find(&worker->kv->index, key, &find))
        return KV_MISS;
    enum kv_found found = kv_status_validity(worker, find.item, find.status);
    if (found == KV_HIT) {
        kv_view_fill_found(view, &find);
        kv_found_mark_seen(worker, &find);
    }
    return found;
}

void kv_bump(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv_find find;
    if (kv_index_find(&worker->kv->index, key, &find)) {
        uint32_t access = kv_item_access(find.item);
        kv_item_access_set(find.item, access, kv_access_counted(worker, access));
    }
}

/* ---- pins -------------------------------------------------------------------------------- */

static void hold(struct kv_worker *worker, const struct kv_item *record)
{
    struct kv_segments *segments = &worker->kv->segments;
    kv_segment_add(segments, kv_segment_of(segments, record), KV_SEGMENT_HOLD);
}

static void unhold(struct kv_worker *worker, const struct kv_item *record)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = kv_segment_of(segments, record);
    kv_segment_subtract(segments, index, KV_SEGMENT_HOLD);
}

void kv_pin(struct kv_worker *worker, const struct kv_item *item)
{
    U_ASSERT(item != U_NULL);
    kv_item_each_record(worker, item, hold);
    kv_count(worker, KV_COUNT_PINS, 1);
}

void kv_unpin(struct kv_worker *worker, const struct kv_item *item)
{
    U_ASSERT(item != U_NULL);
    kv_item_each_record(worker, item, unhold);
    kv_count(worker, KV_COUNT_PINS, UINT64_MAX);
}
