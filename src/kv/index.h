/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index: a hash table of buckets that are one cache line each, chained through overflow
 * buckets where one is not enough.
 *
 * A slot is one word: the upper 16 bits of the key's hash as a tag, and the item's place in the
 * memory in units of 8 bytes. 0 is an empty slot. The low bits of the hash choose the bucket.
 *
 * Readers take no lock and write nothing. They load slots (acquire) and compare tags, then keys.
 * Writers of a chain exclude each other by a bit in the first bucket's control word, the same line
 * that they are about to change; they hold it for a few dozen instructions, never while they call
 * a decision, allocate or evict. Locks instead of compare-and-swap on slots, because an insert has
 * to look at the whole chain and claim a slot in one step, or two workers insert the same new key.
 *
 * Invariants and orderings:
 *   - An item is published by storing its word into a slot (release), so whoever loads the word
 *     (acquire) sees all of the item.
 *   - A key is in at most one slot. An overwrite or a relocation stores into the slot that the key
 *     is in, so a reader that passes meets the old item or the new one, never none. An item never
 *     moves from slot to slot.
 *   - The lock bit is taken with acquire and dropped with a release store of the control word;
 *     slots, links, `marks` and `exptime` change only in between.
 *   - Overflow buckets are linked (release) when they are needed and stay where they are: the link
 *     a reader follows always leads on in its own chain.
 *   - What a word points to may be read as long as the reader has not been quiescent since it
 *     loaded the word (epoch.h), or holds the chain's lock.
 */
#ifndef KV_INDEX_H
#define KV_INDEX_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/item.h"

#define KV_BUCKET_SLOTS 7
#define KV_CHAIN_BUCKETS_MAX 9 /* beyond that an insert evicts: work per request stays bounded */
#define KV_PLACE_BITS 48
#define KV_PLACE_UNIT 8

/* kv_bucket.control: the lock bit, and in the upper half where the next bucket is. */
#define KV_CONTROL_LOCKED UINT64_C(1)
#define KV_CONTROL_LINK_SHIFT 32

struct kv_bucket {
    _Alignas(64) kv_atomic_u64 control;
    kv_atomic_u64 slot[KV_BUCKET_SLOTS];
};

U_STATIC_ASSERT(sizeof(struct kv_bucket) == 64, kv_bucket_bytes);

struct kv_index {
    uint8_t *base;             /* places and links count from here */
    struct kv_bucket *buckets; /* heads of the chains */
    uint64_t mask;
    unsigned power; /* log2 of the number of chains */
    /* Overflow buckets that are not in a chain; carved from segments, never given back to them. */
    struct kv_lock pool_lock;
    uint32_t pool_free; /* list through control's link; 0: empty */
    uint32_t pool_next; /* links of the segment that is being carved: [next, end) */
    uint32_t pool_end;
    kv_atomic_u32 pool_segments; /* segments taken so far; written under the lock */
    kv_atomic_u32 pool_segments_max;
};

/* A slot and the word that was found in it. */
struct kv_slot {
    kv_atomic_u64 *at;
    uint64_t word;
};

static inline uint64_t kv_word_of(const struct kv_index *index, uint64_t hash,
                                  const struct kv_item *item)
{
    uint64_t place = (uint64_t)((const uint8_t *)item - index->base) / KV_PLACE_UNIT;
    return hash >> KV_PLACE_BITS << KV_PLACE_BITS | place;
}

static inline struct kv_item *kv_word_item(const struct kv_index *index, uint64_t word)
{
    uint64_t place = word & ((UINT64_C(1) << KV_PLACE_BITS) - 1);
    return (struct kv_item *)(void *)(index->base + place * KV_PLACE_UNIT);
}

static inline bool kv_word_has_tag(uint64_t word, uint64_t hash)
{
    return ((word ^ hash) >> KV_PLACE_BITS) == 0 && word != 0;
}

static inline struct kv_bucket *kv_index_chain(const struct kv_index *index, uint64_t hash)
{
    return &index->buckets[hash & index->mask];
}

static inline struct kv_bucket *kv_bucket_at(const struct kv_index *index, uint32_t link)
{
    return (struct kv_bucket *)(void *)(index->base + (uint64_t)link * sizeof(struct kv_bucket));
}

/* The bucket after this one in its chain; null at the end. */
static inline struct kv_bucket *kv_bucket_next(const struct kv_index *index,
                                               const struct kv_bucket *bucket)
{
    uint64_t link = kv_u64_load_acquire(&bucket->control) >> KV_CONTROL_LINK_SHIFT;
    return U_LIKELY(link == 0) ? U_NULL : kv_bucket_at(index, (uint32_t)link);
}

/*
 * Finds a key, whatever the validity of its item. Null if it is not there. Without a lock the
 * caller is an online worker; the item is its to read until it is quiescent.
 */
static inline struct kv_item *kv_index_find(const struct kv_index *index, const struct kv_key *key,
                                            struct kv_slot *found)
{
    struct kv_bucket *bucket = kv_index_chain(index, key->hash);
    do {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            if (!kv_word_has_tag(word, key->hash))
                continue;
            struct kv_item *item = kv_word_item(index, word);
            if (U_LIKELY(kv_item_has_key(item, key))) {
                found->at = &bucket->slot[i];
                found->word = word;
                return item;
            }
        }
        bucket = kv_bucket_next(index, bucket);
    } while (U_UNLIKELY(bucket != U_NULL));
    found->at = U_NULL;
    found->word = 0;
    return U_NULL;
}

/* `heads` is zeroed memory of 1 << power buckets, behind `base`. */
void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *heads, unsigned power,
                   uint32_t pool_segments_max);

void kv_chain_lock(struct kv_bucket *head);
void kv_chain_unlock(struct kv_bucket *head);

/*
 * The slot of the chain that holds exactly this word; null if none does. Under the lock, or as a
 * hint without it.
 */
kv_atomic_u64 *kv_chain_find_word(const struct kv_index *index, struct kv_bucket *head,
                                  uint64_t word);

/*
 * An empty slot of the chain. If there is none, appends the bucket `*spare` (a link; 0: none) and
 * sets *spare to 0. Null if that can't be done either, or the chain is at its bound. Under the
 * lock.
 */
kv_atomic_u64 *kv_chain_empty_slot(const struct kv_index *index, struct kv_bucket *head,
                                   uint32_t *spare);

/* A zeroed overflow bucket for the worker to keep in reserve. 0 if the memory has none to give. */
uint32_t kv_index_pool_take(struct kv_worker *worker);
void kv_index_pool_give(struct kv_index *index, uint32_t link);

/*
 * Removes the item from its chain if the slot still holds `word`, and marks it dead. True if it
 * was this call that removed it: the caller then accounts for it (kv_unlinked()).
 */
bool kv_index_unlink(struct kv_index *index, uint64_t hash, uint64_t word);

/*
 * Puts `item` into the slot that leads to `word`, if it still does, and marks the item that was
 * there dead. The caller has sealed that one (kv_item_mark(KV_MARK_SEALED)) before it copied its
 * status, so that no change in place is lost; both have the same key. True if it was this call.
 */
bool kv_index_exchange(struct kv_index *index, uint64_t hash, uint64_t word,
                       const struct kv_item *item);

#endif
