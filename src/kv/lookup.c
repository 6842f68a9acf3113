/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking keys up. The path that must be fast: no lock, no read-modify-write, no shared store. */
#include "kv/engine.h"
#include "kv/tag.h"

#define PREFETCH_BYTES_MAX 1024 /* what is read in a row beyond that the processor foresees */

void kv_prefetch_bucket(const struct kv_worker *worker, struct kv_key *key)
{
    const struct kv_index *index = &worker->kv->index;
    uint64_t position = key->hash >> 1;
    const struct kv_bucket *head =
        kv_table_chain(index, kv_position_power(index, position), position);
    U_PREFETCH(head);
    key->place = head;
    key->word = 0;
}

/* Remembers what is in the bucket now. Returns whether the key's tag is there. */
static inline bool find_place(const struct kv_bucket *bucket, struct kv_key *key)
{
    uint64_t hash = key->hash;
    const kv_atomic_u64 *slot = kv_tag_search(bucket, hash);
    if (U_UNLIKELY(slot == U_NULL))
        return false;
    uint64_t word = kv_u64_load_acquire(slot);
    key->place = slot;
    key->word = word;
    return kv_word_is_plain(word, hash);
}

static inline const struct kv_item *prefetch_place(const struct kv_index *index,
                                                   const struct kv_key *key)
{
    const struct kv_item *item = kv_word_item(index, key->word);
    U_PREFETCH(item);
    U_PREFETCH((const uint8_t *)item + U_LINE_BYTES);
    return item;
}

/* Not in the bucket that was fetched. Overflow buckets are few, so nobody waits to look there. */
static U_NOINLINE const struct kv_item *prefetch_in_chain(const struct kv_index *index,
                                                          struct kv_key *key)
{
    uint64_t position = key->hash >> 1;
    const struct kv_bucket *head =
        kv_table_chain(index, kv_position_power(index, position), position);
    const struct kv_bucket *bucket = head;
    for (; bucket != U_NULL; bucket = kv_bucket_next(index, head, bucket)) {
        if (find_place(bucket, key))
            return prefetch_place(index, key);
    }
    key->place = U_NULL;
    key->word = 0;
    return U_NULL;
}

const struct kv_item *kv_prefetch_item(const struct kv_worker *worker, struct kv_key *key)
{
    const struct kv_index *index = &worker->kv->index;
    /* Called once more for the same key, it has a slot of a bucket there. */
    const struct kv_bucket *bucket =
        (const struct kv_bucket *)((uintptr_t)key->place & ~(uintptr_t)(sizeof(*bucket) - 1));
    if (U_UNLIKELY(bucket == U_NULL || !find_place(bucket, key)))
        return prefetch_in_chain(index, key);
    return prefetch_place(index, key);
}

void kv_prefetch_value(const struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    uint32_t bytes = kv_item_key_offset(item, status) + kv_status_key_len(status);
    if (U_LIKELY((kv_status_marks(status) & KV_MARK_LARGE) == 0))
        bytes += kv_item_value_len(item, status);
    bytes = u_min32(bytes, PREFETCH_BYTES_MAX);
    /* As many turns for all items of a length, wherever they begin, so that they are foreseen. */
    const uint8_t *at = (const uint8_t *)item;
    for (uint32_t next = 2 * U_LINE_BYTES; next < bytes; next += U_LINE_BYTES)
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
    /* Sealed as it was found to be over: somebody whose clock is behind may be about to touch it.
     */
    uint64_t status = kv_item_status(item);
    if (kv_status_validity(worker, status) == KV_HIT)
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
        kv_unlinked(worker, item, found == KV_MISS_EXPIRED ? KV_END_EXPIRED : KV_END_FLUSHED);
}

/* Counts as accessed. */
static inline void touch(const struct kv_worker *worker, struct kv_item *item)
{
    uint32_t access = kv_item_access(item);
    kv_item_access_set(item, access, kv_access_fetched(worker, access));
}

enum kv_found kv_get(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view)
{
    const struct kv_index *index = &worker->kv->index;
    struct kv_find find;
    if (!kv_index_search_place(index, key, &find) && !kv_index_search(index, key, &find))
        return KV_MISS;
    enum kv_found found = kv_status_validity(worker, find.status);
    if (U_UNLIKELY(found != KV_HIT)) {
        kv_remove_invalid(worker, find.item, key->hash, find.word, found);
        return found;
    }
    kv_view_fill_found(view, &find);
    kv_found_mark_seen(worker, &find);
    touch(worker, find.item);
    return KV_HIT;
}

U_STATIC_ASSERT(KV_SHORT_MAX == KV_NEAR_LEN_NONE - 1, kv_short_max_is_that_of_the_status);

bool kv_get_short(struct kv_worker *worker, const struct kv_key *key, struct kv_short *found)
{
    if (U_UNLIKELY(!kv_place_holds(key)))
        return false;
    struct kv_item *item = kv_word_item(&worker->kv->index, key->word);
    uint64_t status = kv_item_status(item);
    const uint8_t *item_key = (const uint8_t *)item + KV_ITEM_NEAR_BYTES;
    found->value = item_key + key->len;
    found->value_len = kv_status_near_len(status);
    /* Nothing is called here: a long key would be compared by a function. */
    if (U_UNLIKELY(!kv_status_is_plain(worker, status, key->len) ||
                   found->value_len > KV_SHORT_MAX || key->len > U_SHORT_BYTES ||
                   !u_equal_short(item_key, key->bytes, key->len)))
        return false;
    if (U_UNLIKELY(kv_item_access(item) != worker->access_most))
        touch(worker, item);
    return true;
}

enum kv_found kv_peek(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view)
{
    uint64_t word;
    struct kv_item *item = kv_index_find(&worker->kv->index, key, &word);
    if (!item)
        return KV_MISS;
    uint64_t status = kv_item_status(item);
    enum kv_found found = kv_status_validity(worker, status);
    if (found == KV_HIT) {
        kv_view_fill(view, item, status);
        kv_item_mark_seen(worker, item);
    }
    return found;
}

void kv_spare(struct kv_worker *worker, const struct kv_key *key)
{
    uint64_t word;
    struct kv_item *item = kv_index_find(&worker->kv->index, key, &word);
    if (item)
        kv_item_access_set(item, kv_item_access(item),
                           kv_access_counted(worker, kv_item_access(item)));
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
    kv_segment_subtract(segments, kv_segment_of(segments, record), KV_SEGMENT_HOLD);
}

void kv_pin(struct kv_worker *worker, const struct kv_item *item)
{
    if (kv_item_is_large(item)) {
        const struct kv_extents *extents = kv_item_extents(item);
        for (uint32_t i = 0; i < extents->count; i++)
            hold(worker, extents->at[i]);
    }
    hold(worker, item);
    kv_count(worker, KV_COUNT_PINS, 1);
}

void kv_unpin(struct kv_worker *worker, const struct kv_item *item)
{
    if (kv_item_is_large(item)) {
        const struct kv_extents *extents = kv_item_extents(item);
        for (uint32_t i = 0; i < extents->count; i++)
            unhold(worker, extents->at[i]);
    }
    unhold(worker, item);
    kv_count(worker, KV_COUNT_UNPINS, 1);
}
