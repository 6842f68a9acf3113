/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index: a lock-free hash table. Its buckets are one cache line each, chained through overflow
 * buckets. All changes are compare-and-swaps of single words; readers only load.
 *
 * The upper bits of a key's hash choose the chain, so chains are in the order of the hash, and a
 * scan remembers its position in that order. The low 16 bits are the tag in the slot: a reader
 * compares keys only if the tag matches.
 *
 *   slot      tag 16 | LIVE | PEND | FROZEN | VACANT | place 44   place: the item, in units of 4
 *   bytes
 *             without LIVE the slot is empty: 0, or VACANT with a version as its place (invariant
 *             5)
 *   control   link 30 | version 25 | pend 6 | MOVED | FROZEN | READY   of a chain's first bucket;
 *             overflow buckets have link (the next bucket of the chain), version, FROZEN and CUT
 *
 * For growth (grow.c): a chain whose control has FROZEN does not change any more; its slots become
 * FROZEN one by one; once it has MOVED, its content is in two chains of the next larger table.
 * Readers continue there; a writer that meets FROZEN helps to move the chain first.
 *
 * Algorithm
 *   Look up: load the slots of the chain (acquire), compare tags, then keys. No match: a miss.
 *   Overwrite, delete, relocate: one compare-and-swap of the slot, from exactly the word that leads
 *     to the old item. The winner marks the old item DEAD and is the only one to account for it.
 *     A loser looks at the same slot again.
 *   Insert a key that is missing. A single compare-and-swap of an empty slot is not enough, since
 *     two workers could put the same key into two slots. So:
 *     a  c = control. If the slot that c.pend names has PEND, clear it: that insert is committed.
 *     b  Search the whole chain. If the key is there: no insert. Remember an empty slot j other
 *     than
 *        the one that c.pend names (if that is the only one, pend is set to none first).
 *     c  Check that control is still c, else start again.
 *     d  Claim: slot j from its empty word to word | PEND. No other worker takes this slot now.
 *     e  Commit: control from c to {version + 1, pend = j}. From here on the key is there. If this
 *        fails, another insert was committed in the chain: slot j gets back exactly the empty word
 *        that it had, and all starts again.
 *     f  Slot j from word | PEND to word. Any worker may do that.
 *   A reader or helper that meets PEND takes a snapshot: it loads control, the slot again, and
 *   control again; if all are unchanged, both words were there together at the second load of the
 *   slot. The insert is committed if pend names the slot; else the key was not there at that
 *   moment.
 *
 * Invariants
 *   1 A key is in at most one committed slot. Between a and e no other insert was committed in the
 *     chain, or e would have failed; and only a commit makes a key appear.
 *   2 A key never moves from slot to slot without being absent in between. So a reader that loads
 *     the slots one after the other finds a key that is present during the whole search.
 *   3 If pend names slot j and slot j has PEND, then that word is committed: a claim on j begins
 *     while pend names another slot (b, c), and while it stands no other worker can commit with j.
 *   4 pend names another slot only after PEND was cleared in the slot that it named before (a; e
 *     fails if control is no longer c). So pend always names a committed slot that has PEND.
 *   5 An empty word never returns to a slot after a commit there: deletion writes the version of
 *     control, which the commit has incremented. So d cannot succeed on a slot that was filled and
 *     emptied since b, which 3 relies on. (A version repeats after 2^25 commits in one chain; a
 *     worker would have to stop between b and d for exactly as many, without being quiescent.)
 *   6 A reader may read the item of a word until it is quiescent (epoch.h), so a place cannot have
 *     become another item's in the meantime: comparing words is comparing items.
 *   7 Overflow buckets are appended at the end and unlinked from the end when empty (overflow.c);
 *   an
 *     unlinked bucket stays unchanged until no reader can be in it. So a link always leads on in
 *     its own chain. A new bucket is zeroed before its link is stored.
 *
 * Progress: no step waits for another worker. A failed compare-and-swap means that another worker
 * has succeeded: e by a commit, d and the swaps of words by a change of that slot. A worker that
 * stops between d and e for ever occupies one slot.
 *
 * Which store pairs with which load
 *   d and swaps of words (release) -> loads of slots (acquire): the item's bytes.
 *   e (release) -> a (acquire): the claim, so that b meets the committed word; and the version, so
 *     that a deletion, which has loaded the word, writes a new one.
 *   c (acquire) before d (release) -> the snapshot's loads (acquire): a reader that sees the claim
 *     cannot see a control older than c, so not an earlier commit that named the same slot.
 *   append: the link (release) -> the link (acquire): the zeroes of the new bucket.
 */
#ifndef KV_INDEX_H
#define KV_INDEX_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/item.h"

#define KV_BUCKET_SLOTS 7
#define KV_CHAIN_BUCKETS_MAX 9 /* bounds the work per request: an insert beyond it evicts */
#define KV_CHAIN_SLOTS_MAX (KV_CHAIN_BUCKETS_MAX * KV_BUCKET_SLOTS)

/* Words of slots. */
#define KV_WORD_TAG_SHIFT 48
#define KV_WORD_LIVE (UINT64_C(1) << 47)
#define KV_WORD_PEND (UINT64_C(1) << 46)
#define KV_WORD_FROZEN (UINT64_C(1) << 45)
#define KV_WORD_VACANT (UINT64_C(1) << 44)
#define KV_WORD_PLACE ((UINT64_C(1) << 44) - 1)
#define KV_WORD_MATCH_SHIFT 45
#define KV_PLACE_UNIT 4

/* kv_bucket.control of the first bucket of a chain. */
#define KV_CONTROL_READY UINT64_C(1)
#define KV_CONTROL_FROZEN UINT64_C(2)
#define KV_CONTROL_MOVED UINT64_C(4)
#define KV_CONTROL_CUT UINT64_C(1) /* of an overflow bucket: the next one is being unlinked */
#define KV_CONTROL_PEND_SHIFT 3
#define KV_CONTROL_PEND_MASK UINT64_C(63) /* number of the slot in the chain + 1; 0: none */
#define KV_CONTROL_VERSION_SHIFT 9
#define KV_CONTROL_VERSION_MASK ((UINT64_C(1) << 25) - 1)
#define KV_CONTROL_LINK_SHIFT 34
#define KV_LINKS_MAX (UINT32_C(1) << 30)

/* Positions in the order of the chains: the hash without its lowest bit. */
#define KV_POSITION_END (UINT64_C(1) << 63)

/* kv_index.shape: the power in the low bits; above it the position up to which chains are moved. */
#define KV_SHAPE_POWER_MASK UINT64_C(63)
#define KV_SHAPE_MOVED_SHIFT 6
#define KV_SHAPE_POSITION_SHIFT 5

struct kv_bucket {
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 control;
    kv_atomic_u64 slot[KV_BUCKET_SLOTS];
};

U_STATIC_ASSERT(sizeof(struct kv_bucket) == 64, kv_bucket_bytes);
U_STATIC_ASSERT(KV_CHAIN_SLOTS_MAX <= KV_CONTROL_PEND_MASK, kv_pend_names_every_slot);

/* Free overflow buckets of a table. */
struct kv_overflow {
    kv_atomic_u64 stack; /* returned ones: count 32, link of the first 32; 0: none */
    kv_atomic_u32 next;  /* first never used one */
    kv_atomic_u32 end;   /* end of those that have memory */
};

/* Phase of a growth (grow.c). */
enum kv_grow_phase {
    KV_GROW_NONE = 0,
    KV_GROW_WAIT_MEMORY,  /* segments are being withdrawn to free memory for the table */
    KV_GROW_PREFAULT,     /* the prefault thread opens the new table and faults its pages in */
    KV_GROW_FAULT_PAGES,  /* workers fault its pages in, without that thread */
    KV_GROW_MOVE,         /* chains are moved */
    KV_GROW_WAIT_READERS, /* grace period for readers of the old table */
    KV_GROW_RELEASE       /* pages of the old table go back to the system */
};

/*
 * A table of power p has its heads at buckets[1 << p] to buckets[(2 << p) - 1], and its overflow
 * buckets at the same places of `overflow`. There is one table; while it grows there are two.
 */
struct kv_index {
    uint8_t *base; /* places are relative to this */
    struct kv_bucket *buckets;
    struct kv_bucket *overflow;
    kv_atomic_u64 shape;
    kv_atomic_u32 moving; /* 1 + power of the table whose chains are moved; 0: none */
    unsigned power_max;   /* tables with reserved addresses */
    unsigned power_open;  /* tables accessible at the start; 0: the first only */

    _Alignas(U_CACHE_LINE_BYTES) struct kv_overflow overflows[2]; /* by the power's lowest bit */
    kv_atomic_u64 bytes;                                          /* of all tables */
    kv_atomic_u32 growths;                                        /* completed growths */
    kv_atomic_u32 phase; /* enum kv_grow_phase; changes under the lock */
    struct kv_lock grow_lock;
    bool refused;          /* the system refused memory: no more growth */
    bool extends;          /* the phase is for more overflow buckets, not a larger table */
    uint64_t bytes_wanted; /* bytes reserved for the index; under kv.limit_lock */
    uint64_t grow_at;      /* progress of the phase: bytes, or keys inserted */
    uint64_t retired;      /* grace period of WAIT_READERS */
};

/* The index of a saved table (file.h). */
struct kv_saved_index {
    uint64_t shape;
    uint64_t bytes;
    uint64_t bytes_wanted;
    uint64_t grow_at;
    struct {
        uint64_t stack;
        uint32_t next;
        uint32_t end;
    } overflows[2];
    uint32_t moving;
    uint32_t power_open;
    uint32_t growths;
    uint32_t phase;
    uint32_t extends;
    uint32_t reserved;
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
    return (word ^ hash << KV_WORD_TAG_SHIFT) >> KV_WORD_TAG_SHIFT == 0;
}

/* The upper bits of a word that matches a hash: tag and LIVE, without PEND and FROZEN. */
static inline uint32_t kv_word_match_bits(uint64_t hash)
{
    return (uint32_t)(uint16_t)hash << (KV_WORD_TAG_SHIFT - KV_WORD_MATCH_SHIFT) |
           (uint32_t)(KV_WORD_LIVE >> KV_WORD_MATCH_SHIFT);
}

/* Whether a word is committed, has the hash's tag, and is in a chain that may change. */
static inline bool kv_word_matches(uint64_t word, uint64_t hash)
{
    return word >> KV_WORD_MATCH_SHIFT == kv_word_match_bits(hash);
}

/* Whether a word is committed. */
static inline bool kv_word_is_committed(uint64_t word)
{
    return (word & (KV_WORD_LIVE | KV_WORD_PEND)) == KV_WORD_LIVE;
}

/* ---- chains ------------------------------------------------------------------------------ */

/* The number + 1 of the slot whose insert was committed last; 0: none. */
static inline unsigned kv_control_pend(uint64_t control)
{
    return (unsigned)(control >> KV_CONTROL_PEND_SHIFT & KV_CONTROL_PEND_MASK);
}

static inline uint64_t kv_control_version(uint64_t control)
{
    return control >> KV_CONTROL_VERSION_SHIFT & KV_CONTROL_VERSION_MASK;
}

/* The next version, with another pend. */
static inline uint64_t kv_control_next(uint64_t control, unsigned pend)
{
    uint64_t version = (kv_control_version(control) + 1) & KV_CONTROL_VERSION_MASK;
    uint64_t rest = control & ~(KV_CONTROL_PEND_MASK << KV_CONTROL_PEND_SHIFT |
                                KV_CONTROL_VERSION_MASK << KV_CONTROL_VERSION_SHIFT);
    return rest | version << KV_CONTROL_VERSION_SHIFT | (uint64_t)pend << KV_CONTROL_PEND_SHIFT;
}

/* log2 of the number of chains; a larger table that is being filled does not count. */
static inline unsigned kv_index_power(const struct kv_index *index)
{
    return (unsigned)(kv_u64_load_acquire(&index->shape) & KV_SHAPE_POWER_MASK);
}

/* The first bucket of a position's chain in a table. */
static inline struct kv_bucket *kv_table_chain(const struct kv_index *index, unsigned power,
                                               uint64_t position)
{
    return &index->buckets[UINT64_C(1) << power | position >> (63 - power)];
}

/* The power of the table that a head belongs to. */
static inline unsigned kv_chain_power(const struct kv_index *index, const struct kv_bucket *head)
{
    return 63 - (unsigned)__builtin_clzll((unsigned long long)(head - index->buckets));
}

/* The power of the table that has the chain of a position. */
static inline unsigned kv_position_power(const struct kv_index *index, uint64_t position)
{
    uint64_t shape = kv_u64_load_acquire(&index->shape);
    unsigned power = (unsigned)(shape & KV_SHAPE_POWER_MASK);
    return power + (position >> KV_SHAPE_POSITION_SHIFT < shape >> KV_SHAPE_MOVED_SHIFT);
}

/* The chain of a position; it may be FROZEN but was not MOVED when loaded. */
static inline struct kv_bucket *kv_position_chain(const struct kv_index *index, uint64_t position)
{
    unsigned power = kv_position_power(index, position);
    struct kv_bucket *head = kv_table_chain(index, power, position);
    while (U_UNLIKELY(kv_u64_load_acquire(&head->control) & KV_CONTROL_MOVED))
        head = kv_table_chain(index, ++power, position);
    return head;
}

static inline struct kv_bucket *kv_index_chain(const struct kv_index *index, uint64_t hash)
{
    return kv_position_chain(index, hash >> 1);
}

static inline struct kv_bucket *kv_overflow_at(const struct kv_index *index, unsigned power,
                                               uint32_t link)
{
    return &index->overflow[(UINT64_C(1) << power) + link];
}

/* The bucket after this one in the chain; null at the end. */
static inline struct kv_bucket *kv_bucket_next(const struct kv_index *index,
                                               const struct kv_bucket *head,
                                               const struct kv_bucket *bucket)
{
    uint32_t link = (uint32_t)(kv_u64_load_acquire(&bucket->control) >> KV_CONTROL_LINK_SHIFT);
    if (U_LIKELY(link == 0))
        return U_NULL;
    return kv_overflow_at(index, kv_chain_power(index, head), link);
}

/*
 * Resolves PEND: returns the slot's committed word without PEND and FROZEN, or 0 if it has none.
 * `word` was loaded from the slot, which is the chain's `number`. Clears PEND in the slot if the
 * insert is committed. The result may have another tag than `word`, as the slot may have changed.
 */
uint64_t kv_slot_resolve(const struct kv_index *index, struct kv_bucket *head, kv_atomic_u64 *slot,
                         unsigned number, uint64_t word);

/* ---- finding ----------------------------------------------------------------------------- */

/* Result of a search. */
struct kv_find {
    struct kv_item *item;
    kv_atomic_u64 *slot;
    uint64_t word;      /* in the slot: leads to the item */
    uint64_t status;    /* the item's status when the key was compared */
    const uint8_t *key; /* the key's bytes in the item */
};

/* Whether the item of a word has the key; fills *find, except for the slot. */
static inline bool kv_word_search(const struct kv_index *index, uint64_t word,
                                  const struct kv_key *key, struct kv_find *find)
{
    find->item = kv_word_item(index, word);
    find->word = word & ~KV_WORD_FROZEN;
    find->status = kv_item_status(find->item);
    if (kv_status_key_len(find->status) != key->len)
        return false;
    find->key = (const uint8_t *)find->item + kv_item_key_offset(find->item, find->status);
    return u_equal_short(find->key, key->bytes, key->len);
}

/*
 * Whether the slot of the key's hint still holds the word that the prefetch found there. If so, the
 * word leads to a current item, however old the hint is: a word without FROZEN belongs to a chain
 * that has not moved, the memory of buckets stays buckets, and free buckets hold no words.
 */
static inline bool kv_hint_holds(const struct kv_key *key)
{
    return key->hint.word != 0 &&
           kv_u64_load_acquire((const kv_atomic_u64 *)key->hint.at) == key->hint.word;
}

/*
 * Searches the key's chain, without regard to the item's validity. False if it is not there. The
 * caller, an online worker, may read the item until it is quiescent.
 */
static inline bool kv_index_search(const struct kv_index *index, const struct kv_key *key,
                                   struct kv_find *find)
{
    /* Copied, as the loads of slots are barriers to the compiler. */
    const struct kv_key wanted = *key;
    struct kv_bucket *head = kv_index_chain(index, wanted.hash);
    struct kv_bucket *bucket = head;
    unsigned number = 0;
    do {
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
            uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
            if (U_LIKELY(!kv_word_has_tag(word, wanted.hash)))
                continue;
            if (U_UNLIKELY(!kv_word_is_committed(word))) {
                word = kv_slot_resolve(index, head, &bucket->slot[i], number + i, word);
                if (word == 0)
                    continue;
            }
            find->slot = &bucket->slot[i];
            if (U_LIKELY(kv_word_search(index, word, &wanted, find)))
                return true;
        }
        number += KV_BUCKET_SLOTS;
        bucket = kv_bucket_next(index, head, bucket);
    } while (U_UNLIKELY(bucket != U_NULL));
    return false;
}

/* The one way to find a key: by its hint if that holds, else by a search of its chain. */
static inline bool kv_index_find(const struct kv_index *index, const struct kv_key *key,
                                 struct kv_find *find)
{
    if (kv_hint_holds(key)) {
        find->slot = (kv_atomic_u64 *)(uintptr_t)key->hint.at;
        if (kv_word_search(index, key->hint.word, key, find))
            return true;
    }
    return kv_index_search(index, key, find);
}

/* The words of one chain. */
struct kv_words {
    unsigned count;
    uint64_t at[KV_CHAIN_SLOTS_MAX];
};

/*
 * Copies the words of a position's chain and advances the position to the next chain
 * (KV_POSITION_END after the last). A key that is in the chain during the call is among them
 * exactly once. The caller may read the items until it is quiescent.
 */
void kv_index_copy(const struct kv_index *index, uint64_t *position, struct kv_words *words);

/* ---- changing ---------------------------------------------------------------------------- */

/*
 * Initializes an empty table of 1 << power chains in zeroed memory. `buckets` and `overflow` each
 * have addresses for 2 << power_max buckets.
 */
void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *buckets,
                   struct kv_bucket *overflow, unsigned power, unsigned power_max);

/* The state of the index outside of its buckets; no worker is joined. Restores after init. */
void kv_index_save(const struct kv_index *index, struct kv_saved_index *saved);
void kv_index_restore(struct kv_index *index, const struct kv_saved_index *saved);

/*
 * Inserts the item unless its key is there. True if it was inserted. Evicts and accounts for the
 * least valuable item of the chain if that is full and cannot be extended.
 */
bool kv_index_insert(struct kv_worker *worker, const struct kv_key *key,
                     const struct kv_item *item);

/*
 * Puts `item` into the slot that holds `word`, if one still does, and marks the old item DEAD. Both
 * have the same key. The caller has sealed the old item before copying its status, so that no
 * change in place is lost. True if this call did it.
 */
bool kv_index_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                       const struct kv_item *item);

/*
 * kv_index_exchange() for a search since the worker was last quiescent: tries the found slot first.
 * A word never returns to a slot that it has left; it reaches another slot only by a growth, which
 * leaves it FROZEN in the old one. So if the slot holds the word, that is the key's current slot.
 */
bool kv_index_exchange_at(struct kv_worker *worker, const struct kv_find *found, uint64_t hash,
                          const struct kv_item *item);

/*
 * Empties the slot that holds `word`, if one still does, and marks the item DEAD. True if this call
 * removed it: the caller then accounts for it (kv_account_unlinked()).
 */
bool kv_index_unlink(struct kv_worker *worker, uint64_t hash, uint64_t word);

/* Whether a slot of the key's chain holds `word`. */
bool kv_index_has(const struct kv_index *index, uint64_t hash, uint64_t word);

/* ---- overflow buckets (overflow.c) ------------------------------------------------------- */

/* Reserves an overflow bucket for the worker's next insert. False if none is free. */
bool kv_index_reserve_bucket(struct kv_worker *worker);

/* Takes a zeroed overflow bucket of a table, by its link; 0: none. Returns one, zeroed. */
uint32_t kv_overflow_take(struct kv_worker *worker, unsigned power);
void kv_overflow_give(struct kv_worker *worker, unsigned power, uint32_t link);

/* Unlinks empty overflow buckets from the end of the chain. */
void kv_overflow_cut(struct kv_worker *worker, struct kv_bucket *head);

/*
 * Called before an insert uses the bucket after this overflow bucket. False if that bucket was
 * being unlinked; the unlinking is stopped, and the insert has to look at the chain again.
 */
bool kv_overflow_keep(struct kv_bucket *bucket);

/* Frees all buckets that the worker keeps. No worker is online. */
void kv_overflow_return(struct kv_worker *worker, struct kv_index *index);

/* Housekeeping: frees unlinked buckets after their grace period. */
void kv_overflow_reclaim(struct kv_worker *worker);

/* ---- growing (grow.c) -------------------------------------------------------------------- */

/* Moves a chain to the next larger table, together with other workers that do the same. */
void kv_chain_move(struct kv_worker *worker, struct kv_bucket *head);

/* Housekeeping: a bounded part of a growth; starts one if the table is too full. */
void kv_grow_step(struct kv_worker *worker);

/* Whether a growth needs housekeeping soon. */
bool kv_grow_is_active(const struct kv_index *index);

/* Overflow buckets that a new table of that power gets. */
uint32_t kv_overflow_count(unsigned power);

/* Bytes of a new table of that power. */
uint64_t kv_table_bytes(unsigned power);

#endif
