/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index: a hash table without locks. Its buckets are one cache line each, chained through
 * overflow buckets where one is not enough. All changes are compare-and-swaps on single words;
 * readers only load.
 *
 * The upper bits of a key's hash choose the chain, so chains are in the order of the hash, and a
 * walk over all of them can remember where it is as a position in that order. The low 16 bits are
 * the tag in the slot: a reader looks at an item only if its tag fits.
 *
 *   slot      tag 16 | LIVE | PEND | unused 2 | place 44      place: the item, in units of 8 bytes
 *             without LIVE it is empty, and what is in the place is a version (see 5 below)
 *   control   link 30 | version 25 | pend 6 | unused 3        of a chain's first bucket;
 *             of overflow buckets only the link, to the next bucket of the chain, is used
 *
 * Algorithm
 *   Look up: load the slots of the chain (acquire), compare tags, then keys. No match: a miss.
 *   Overwrite, delete, relocate: one compare-and-swap on the slot, from exactly the word that leads
 *     to the old item. Who wins it marks the old item DEAD and is the only one to account for it.
 *     Who fails looks at the same slot again.
 *   Insert a key that is not there. A single compare-and-swap of an empty slot is not enough: two
 *     workers could put the same key into two slots. So:
 *     a  c = control. If the slot that c.pend names has PEND, clear it: that insert is committed.
 *     b  look through the whole chain. The key is there: no insert. Remember an empty slot j, not
 *        the one that c.pend names (then pend is taken back to none first).
 *     c  control is still c, else start again.
 *     d  slot j: empty word -> word | PEND. The claim. Nobody else takes this slot now.
 *     e  control: c -> {version + 1, pend = j}. The commit: from here on the key is there. If it
 *        fails, another insert was committed in the chain: slot j goes back to the very empty word
 *        that it was, and all starts again.
 *     f  slot j: word | PEND -> word. Anybody may do that, and whoever needs it done does it.
 *   A reader or helper that meets PEND takes a snapshot: control, then the slot once more, then
 *   control once more, all unchanged: at the second look at the slot both words were there
 *   together. Committed if pend names the slot; else that key was not there at that moment.
 *
 * Invariants
 *   1 A key is in at most one committed slot. Between a and e no other insert has been committed in
 *     the chain, or e had failed; and nothing but a commit makes a key appear.
 *   2 A key never moves from slot to slot without having been absent in between. So a reader that
 *     loads the slots one after the other finds a key that is there all the while.
 *   3 If pend names slot j and slot j has PEND, then that word is committed: a claim on j begins
 *     while pend names another slot (b, c), and while it stands nobody else can commit with j.
 *   4 pend names another slot only after PEND was cleared in the one it named (a, then e fails if
 *     control is no longer c). So a committed slot with PEND is always named by pend.
 *   5 An empty word never comes back to a slot after a commit there: deletion writes the version
 *     of control, which the commit has raised. So d cannot succeed on a slot that was filled and
 *     emptied since b, which 3 relies on.
 *   6 What a word points to may be read as long as the reader has not been quiescent since it
 *     loaded the word (epoch.h), so a place cannot have become another item's meanwhile: comparing
 *     words is comparing items.
 *   7 Overflow buckets are appended and stay: the link a reader follows always leads on in its own
 *     chain. A new one is zeroed before its link is stored.
 *
 * Progress: no step waits for another worker. A failed compare-and-swap means that somebody else
 * has succeeded: e by a commit, d and the swaps of words by a change of that slot. A worker that
 * stops between d and e for ever occupies one slot.
 *
 * Which store pairs with which load
 *   d and swaps of words (release) -> loads of slots (acquire): the item's bytes.
 *   e (release) -> a (acquire): the claim, so that the scan in b meets the committed word; and the
 *     version, so that deletion, which has loaded the word, writes one that is new.
 *   c (acquire) before d (release) -> the snapshot's loads (acquire): who sees the claim cannot see
 *     a control that is older than c, so not an earlier commit that named the same slot.
 *   append: the link (release) -> the link (acquire): the zeroes of the new bucket.
 */
#ifndef KV_INDEX_H
#define KV_INDEX_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/item.h"

#define KV_BUCKET_SLOTS 7
#define KV_CHAIN_BUCKETS_MAX 9 /* beyond that an insert evicts: work per request stays bounded */
#define KV_CHAIN_SLOTS_MAX (KV_CHAIN_BUCKETS_MAX * KV_BUCKET_SLOTS)

/* Words of slots. */
#define KV_WORD_TAG_SHIFT 48
#define KV_WORD_LIVE (UINT64_C(1) << 47)
#define KV_WORD_PEND (UINT64_C(1) << 46)
#define KV_WORD_PLACE ((UINT64_C(1) << 44) - 1)
#define KV_PLACE_UNIT 8

/* kv_bucket.control of the first bucket of a chain. */
#define KV_CONTROL_PEND_SHIFT 3
#define KV_CONTROL_PEND_MASK UINT64_C(63) /* number of the slot in the chain + 1; 0: none */
#define KV_CONTROL_VERSION_SHIFT 9
#define KV_CONTROL_VERSION_MASK ((UINT64_C(1) << 25) - 1)
#define KV_CONTROL_LINK_SHIFT 34
#define KV_LINK_MAX ((UINT32_C(1) << 30) - 1)

/* Positions in the order of the chains: the hash without its lowest bit. */
#define KV_POSITION_END (UINT64_C(1) << 63)

struct kv_bucket {
    _Alignas(64) kv_atomic_u64 control;
    kv_atomic_u64 slot[KV_BUCKET_SLOTS];
};

U_STATIC_ASSERT(sizeof(struct kv_bucket) == 64, kv_bucket_bytes);
U_STATIC_ASSERT(KV_CHAIN_SLOTS_MAX <= KV_CONTROL_PEND_MASK, kv_pend_names_every_slot);

struct kv_index {
    uint8_t *base;             /* places and links count from here */
    struct kv_bucket *buckets; /* heads of the chains */
    unsigned power;            /* log2 of the number of chains */
    /* Overflow buckets that are not in a chain; carved from segments, never given back to them. */
    struct kv_lock pool_lock;
    uint32_t pool_free; /* list through control's link; 0: empty */
    uint32_t pool_next; /* links of the segment that is being carved: [next, end) */
    uint32_t pool_end;
    kv_atomic_u32 pool_segments; /* segments taken so far; written under the lock */
    kv_atomic_u32 pool_segments_max;
};

/* ---- words ------------------------------------------------------------------------------- */

static inline uint64_t kv_word_of(const struct kv_index *index, uint64_t hash,
                                  const struct kv_item *item)
{
    uint64_t place = (uint64_t)((const uint8_t *)item - index->base) / KV_PLACE_UNIT;
    return hash << KV_WORD_TAG_SHIFT | KV_WORD_LIVE | place;
}

static inline struct kv_item *kv_word_item(const struct kv_index *index, uint64_t word)
{
    return (struct kv_item *)(void *)(index->base + (word & KV_WORD_PLACE) * KV_PLACE_UNIT);
}

static inline bool kv_word_has_tag(uint64_t word, uint64_t hash)
{
    return word >> KV_WORD_TAG_SHIFT == (uint16_t)hash;
}

/* Leads to an item that is there, without doubt. */
static inline bool kv_word_is_settled(uint64_t word)
{
    return (word & (KV_WORD_LIVE | KV_WORD_PEND)) == KV_WORD_LIVE;
}

/* ---- chains ------------------------------------------------------------------------------ */

static inline uint64_t kv_index_chains(const struct kv_index *index)
{
    return UINT64_C(1) << index->power;
}

/* Which chain a position belongs to: 0 to kv_index_chains() - 1. */
static inline uint64_t kv_index_number(const struct kv_index *index, uint64_t position)
{
    return position >> (63 - index->power);
}

static inline struct kv_bucket *kv_index_chain(const struct kv_index *index, uint64_t hash)
{
    return &index->buckets[kv_index_number(index, hash >> 1)];
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
 * What the slot leads to, `word` having PEND: the word without it if the insert is committed (it is
 * cleared in the slot then), 0 if nothing is there. `number` is that of the slot in its chain. The
 * result may have another tag than `word`: the slot may have got another item meanwhile.
 */
uint64_t kv_slot_settle(struct kv_bucket *head, kv_atomic_u64 *slot, unsigned number,
                        uint64_t word);

/* ---- finding ----------------------------------------------------------------------------- */

/*
 * Finds a key, whatever the validity of its item. Null if it is not there. The caller is an online
 * worker; the item is its to read until it is quiescent. *found is the word that leads to it.
 */
static inline struct kv_item *kv_index_find(const struct kv_index *index, const struct kv_key *key,
                                            uint64_t *found)
{
    struct kv_bucket *head = kv_index_chain(index, key->hash);
    struct kv_bucket *bucket = head;
    unsigned number = 0;
    do {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            if (!kv_word_has_tag(word, key->hash))
                continue;
            if (U_UNLIKELY(!kv_word_is_settled(word))) {
                word = kv_slot_settle(head, &bucket->slot[i], number + i, word);
                if (word == 0)
                    continue;
            }
            struct kv_item *item = kv_word_item(index, word);
            if (U_LIKELY(kv_item_has_key(item, key))) {
                *found = word;
                return item;
            }
        }
        number += KV_BUCKET_SLOTS;
        bucket = kv_bucket_next(index, bucket);
    } while (U_UNLIKELY(bucket != U_NULL));
    *found = 0;
    return U_NULL;
}

/* The words of one chain. */
struct kv_words {
    unsigned count;
    uint64_t at[KV_CHAIN_SLOTS_MAX];
};

/*
 * Copies the words of the chain that the position belongs to, and moves the position to the next
 * chain's (KV_POSITION_END after the last). An item that is in the chain all the while is among
 * them exactly once, or the one that took its slot. The items are the caller's to read until it is
 * quiescent.
 */
void kv_index_copy(const struct kv_index *index, uint64_t *position, struct kv_words *words);

/* ---- changing ---------------------------------------------------------------------------- */

/* `heads` is zeroed memory of 1 << power buckets, behind `base`. */
void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *heads, unsigned power,
                   uint32_t pool_segments_max);

/*
 * Inserts the item unless its key is there. True if it was inserted. Evicts, and accounts for, the
 * worst of the chain if that is at its bound, or has no room and memory for more is not to be had.
 */
bool kv_index_insert(struct kv_worker *worker, const struct kv_key *key,
                     const struct kv_item *item);

/*
 * Puts `item` into the slot that leads to `word`, if one still does, and marks the item that was
 * there dead. The caller has sealed that one (kv_item_mark(KV_MARK_SEALED)) before it copied its
 * status, so that no change in place is lost; both have the same key. True if it was this call.
 */
bool kv_index_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                       const struct kv_item *item);

/*
 * Empties the slot that leads to `word`, if one still does, and marks the item dead. True if it was
 * this call that removed it: the caller then accounts for it (kv_unlinked()).
 */
bool kv_index_unlink(struct kv_worker *worker, uint64_t hash, uint64_t word);

/* Whether a slot leads to `word`. */
bool kv_index_has(const struct kv_index *index, uint64_t hash, uint64_t word);

/* A zeroed overflow bucket for the worker to keep in reserve. 0 if the memory has none to give. */
uint32_t kv_index_pool_take(struct kv_worker *worker);
void kv_index_pool_give(struct kv_index *index, uint32_t link);

#endif
