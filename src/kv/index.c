/* SPDX-License-Identifier: BSD-3-Clause */
/* The writers' side of the hash table; index.h has the structure and the rules. */
#include "kv/index.h"

#include "kv/engine.h"
#include "kv/poison.h"

void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *heads, unsigned power,
                   uint32_t pool_segments_max)
{
    index->base = base;
    index->buckets = heads;
    index->power = power;
    index->mask = (UINT64_C(1) << power) - 1;
    kv_u32_store_relaxed(&index->pool_lock.held, 0);
    index->pool_free = 0;
    index->pool_next = 0;
    index->pool_end = 0;
    kv_u32_store_relaxed(&index->pool_segments, 0);
    kv_u32_store_relaxed(&index->pool_segments_max, pool_segments_max);
}

void kv_chain_lock(struct kv_bucket *head)
{
    unsigned turns = 0;
    uint64_t control = kv_u64_load_relaxed(&head->control);
    for (;;) {
        if ((control & KV_CONTROL_LOCKED) == 0 &&
            kv_u64_cas_acquire(&head->control, &control, control | KV_CONTROL_LOCKED))
            return;
        if (control & KV_CONTROL_LOCKED) {
            kv_spin(&turns);
            control = kv_u64_load_relaxed(&head->control);
        }
    }
}

void kv_chain_unlock(struct kv_bucket *head)
{
    uint64_t control = kv_u64_load_relaxed(&head->control);
    kv_u64_store_release(&head->control, control & ~KV_CONTROL_LOCKED);
}

kv_atomic_u64 *kv_chain_find_word(const struct kv_index *index, struct kv_bucket *head,
                                  uint64_t word)
{
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket))
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
            if (kv_u64_load_acquire(&bucket->slot[i]) == word)
                return &bucket->slot[i];
    return U_NULL;
}

kv_atomic_u64 *kv_chain_empty_slot(const struct kv_index *index, struct kv_bucket *head,
                                   uint32_t *spare)
{
    unsigned buckets = 0;
    struct kv_bucket *last = U_NULL;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket)) {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
            if (kv_u64_load_relaxed(&bucket->slot[i]) == 0)
                return &bucket->slot[i];
        last = bucket;
        buckets++;
    }
    if (*spare == 0 || buckets >= KV_CHAIN_BUCKETS_MAX)
        return U_NULL;
    uint64_t link = (uint64_t)*spare << KV_CONTROL_LINK_SHIFT;
    struct kv_bucket *added = kv_bucket_at(index, *spare);
    *spare = 0;
    uint64_t lock = kv_u64_load_relaxed(&last->control) & KV_CONTROL_LOCKED;
    kv_u64_store_release(&last->control, link | lock);
    return &added->slot[0];
}

static uint32_t pool_take_locked(struct kv_index *index)
{
    uint32_t link = index->pool_free;
    if (link != 0) {
        struct kv_bucket *bucket = kv_bucket_at(index, link);
        index->pool_free =
            (uint32_t)(kv_u64_load_relaxed(&bucket->control) >> KV_CONTROL_LINK_SHIFT);
    } else if (index->pool_next < index->pool_end) {
        link = index->pool_next++;
    }
    return link;
}

/* Turns one more segment into overflow buckets. */
static bool pool_grow_locked(struct kv *kv)
{
    struct kv_index *index = &kv->index;
    uint32_t taken = kv_u32_load_relaxed(&index->pool_segments);
    if (taken >= kv_u32_load_relaxed(&index->pool_segments_max))
        return false;
    uint32_t segment = kv_segment_take(&kv->segments, kv_floor_segments(kv), KV_SEGMENT_INDEX);
    if (segment == KV_SEGMENT_NONE)
        return false;
    uint8_t *from = kv_segment_base(&kv->segments, segment);
    kv_unpoison(from, kv_segments_bytes(&kv->segments));
    kv_u32_store_relaxed(&index->pool_segments, taken + 1);
    index->pool_next = (uint32_t)((uint64_t)(from - index->base) / sizeof(struct kv_bucket));
    index->pool_end =
        index->pool_next + kv_segments_bytes(&kv->segments) / (uint32_t)sizeof(struct kv_bucket);
    return true;
}

uint32_t kv_index_pool_take(struct kv_worker *worker)
{
    struct kv_index *index = &worker->kv->index;
    kv_lock_take(&index->pool_lock);
    uint32_t link = pool_take_locked(index);
    if (link == 0 && pool_grow_locked(worker->kv))
        link = pool_take_locked(index);
    kv_lock_drop(&index->pool_lock);
    if (link != 0)
        u_zero(kv_bucket_at(index, link), sizeof(struct kv_bucket));
    return link;
}

void kv_index_pool_give(struct kv_index *index, uint32_t link)
{
    struct kv_bucket *bucket = kv_bucket_at(index, link);
    kv_lock_take(&index->pool_lock);
    kv_u64_store_relaxed(&bucket->control, (uint64_t)index->pool_free << KV_CONTROL_LINK_SHIFT);
    index->pool_free = link;
    kv_lock_drop(&index->pool_lock);
}

bool kv_index_unlink(struct kv_index *index, uint64_t hash, uint64_t word)
{
    struct kv_bucket *head = kv_index_chain(index, hash);
    kv_chain_lock(head);
    kv_atomic_u64 *slot = kv_chain_find_word(index, head, word);
    if (slot) {
        kv_item_mark(kv_word_item(index, word), KV_MARK_DEAD);
        kv_u64_store_relaxed(slot, 0);
    }
    kv_chain_unlock(head);
    return slot != U_NULL;
}

bool kv_index_exchange(struct kv_index *index, uint64_t hash, uint64_t word,
                       const struct kv_item *item)
{
    struct kv_bucket *head = kv_index_chain(index, hash);
    kv_chain_lock(head);
    kv_atomic_u64 *slot = kv_chain_find_word(index, head, word);
    if (slot) {
        kv_item_mark(kv_word_item(index, word), KV_MARK_DEAD);
        kv_u64_store_release(slot, kv_word_of(index, hash, item));
    }
    kv_chain_unlock(head);
    return slot != U_NULL;
}
