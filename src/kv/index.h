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
 *   slot      tag 16 | LIVE | PEND | FROZEN | VACANT | place 44   place: the item, in 4 bytes
 *             without LIVE it is empty: 0, or VACANT and in the place a version (see 5 below)
 *   control   link 30 | version 25 | pend 6 | MOVED | FROZEN | READY   of a chain's first bucket;
 *             overflow buckets have a link, to the next bucket of the chain, a version, FROZEN,
 *             and CUT
 *
 * Of what grow.c adds, this file has to know: a chain whose control has FROZEN does not change any
 * more, FROZEN slot by FROZEN slot, and once it has MOVED, what was in it is found in two chains of
 * the next larger table. Readers go on there; writers that meet FROZEN help to move the chain
 * first.
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
 *     emptied since b, which 3 relies on. (A version comes again after 2^25 commits in one chain; a
 *     worker would have to stop between b and d for exactly so many, without being quiescent.)
 *   6 What a word points to may be read as long as the reader has not been quiescent since it
 *     loaded the word (epoch.h), so a place cannot have become another item's meanwhile: comparing
 *     words is comparing items.
 *   7 Overflow buckets are appended at the end, and leave from there when they are empty
 *     (overflow.c); one that has left stays as it is until no reader can be in it. So the link a
 *     reader follows always leads on in its own chain. A new one is zeroed before its link is
 *     stored.
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
#define KV_WORD_FROZEN (UINT64_C(1) << 45)
#define KV_WORD_VACANT (UINT64_C(1) << 44)
#define KV_WORD_PLACE ((UINT64_C(1) << 44) - 1)
#define KV_WORD_PLAIN_SHIFT 45
#define KV_PLACE_UNIT 4

/* kv_bucket.control of the first bucket of a chain. */
#define KV_CONTROL_READY UINT64_C(1)
#define KV_CONTROL_FROZEN UINT64_C(2)
#define KV_CONTROL_MOVED UINT64_C(4)
#define KV_CONTROL_CUT UINT64_C(1) /* of an overflow bucket: the next one is about to leave */
#define KV_CONTROL_PEND_SHIFT 3
#define KV_CONTROL_PEND_MASK UINT64_C(63) /* number of the slot in the chain + 1; 0: none */
#define KV_CONTROL_VERSION_SHIFT 9
#define KV_CONTROL_VERSION_MASK ((UINT64_C(1) << 25) - 1)
#define KV_CONTROL_LINK_SHIFT 34
#define KV_LINKS_MAX (UINT32_C(1) << 30)

/* Positions in the order of the chains: the hash without its lowest bit. */
#define KV_POSITION_END (UINT64_C(1) << 63)

/* kv_index.shape: the power in the low bits, above them how far a growing table has been moved. */
#define KV_SHAPE_POWER_MASK UINT64_C(63)
#define KV_SHAPE_MOVED_SHIFT 6
#define KV_SHAPE_POSITION_SHIFT 5

struct kv_bucket {
    _Alignas(U_LINE_BYTES) kv_atomic_u64 control;
    kv_atomic_u64 slot[KV_BUCKET_SLOTS];
};

U_STATIC_ASSERT(sizeof(struct kv_bucket) == 64, kv_bucket_bytes);
U_STATIC_ASSERT(KV_CHAIN_SLOTS_MAX <= KV_CONTROL_PEND_MASK, kv_pend_names_every_slot);

/* The overflow buckets of a table that are free. */
struct kv_overflow {
    kv_atomic_u64 stack; /* of those that came back: a count 32, link of the first 32; 0 is none */
    kv_atomic_u32 next;  /* those from here on were never used */
    kv_atomic_u32 end;   /* those from here on have no memory yet */
};

/* Where a growth stands (grow.c). */
enum kv_grow_phase {
    KV_GROW_NONE = 0,
    KV_GROW_WAITS,   /* for memory that the segments give up */
    KV_GROW_OPENS,   /* it, by the thread that touches memory ahead (touch.h) */
    KV_GROW_TOUCHES, /* the pages of the larger table, a few at a time, without that thread */
    KV_GROW_MOVES,
    KV_GROW_RETIRES, /* the smaller table, until nobody reads it any more */
    KV_GROW_RELEASES /* its pages, a few at a time */
};

/*
 * A table of power p has its heads at buckets[1 << p] to buckets[(2 << p) - 1], and its overflow
 * buckets at the same places of `overflow`. There is one table; while it grows there are two.
 */
struct kv_index {
    uint8_t *base; /* places count from here */
    struct kv_bucket *buckets;
    struct kv_bucket *overflow;
    kv_atomic_u64 shape;
    kv_atomic_u32 moving; /* 1 + the power of the table that is being moved; 0: none */
    unsigned power_max;   /* that there are addresses for */
    unsigned power_open;  /* up to here they are accessible from the beginning; 0: the first is */

    _Alignas(U_LINE_BYTES) struct kv_overflow overflows[2]; /* by the lowest bit of the power */
    kv_atomic_u64 bytes;                                    /* of all tables */
    kv_atomic_u32 growths;                                  /* finished ones */
    kv_atomic_u32 phase; /* enum kv_grow_phase; changes under the lock */
    struct kv_lock grow_lock;
    bool refused;          /* the system has refused memory: no more growth */
    bool extends;          /* what is waited for is not a larger table but more overflow buckets */
    uint64_t bytes_wanted; /* what the segments leave; under kv.limit_lock */
    uint64_t grow_at;      /* bytes touched or released, or keys inserted since OPENS, so far */
    uint64_t retired;      /* number of kv_epoch_retire() */
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

/* What is above KV_WORD_PLAIN_SHIFT in a plain word: the tag and LIVE, neither PEND nor FROZEN. */
static inline uint32_t kv_word_plain_bits(uint64_t hash)
{
    return (uint32_t)(uint16_t)hash << (KV_WORD_TAG_SHIFT - KV_WORD_PLAIN_SHIFT) |
           (uint32_t)(KV_WORD_LIVE >> KV_WORD_PLAIN_SHIFT);
}

/* Leads to an item with that tag that is there now, without doubt, in a chain that may change. */
static inline bool kv_word_is_plain(uint64_t word, uint64_t hash)
{
    return word >> KV_WORD_PLAIN_SHIFT == kv_word_plain_bits(hash);
}

/* Leads to an item that is there, without doubt. */
static inline bool kv_word_is_settled(uint64_t word)
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

/* log2 of the number of chains, those of a larger table that is being filled not counted. */
static inline unsigned kv_index_power(const struct kv_index *index)
{
    return (unsigned)(kv_u64_load_acquire(&index->shape) & KV_SHAPE_POWER_MASK);
}

/* The head of a table's chain that a position belongs to. */
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

/* The power of the table in which the chain of a position is to be looked for. */
static inline unsigned kv_position_power(const struct kv_index *index, uint64_t position)
{
    uint64_t shape = kv_u64_load_acquire(&index->shape);
    unsigned power = (unsigned)(shape & KV_SHAPE_POWER_MASK);
    return power + (position >> KV_SHAPE_POSITION_SHIFT < shape >> KV_SHAPE_MOVED_SHIFT);
}

/* Where the chain of a position is now, or was when last looked at; may be FROZEN, not MOVED. */
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
 * What the slot leads to, `word` being what was found in it: the word without PEND and FROZEN, or 0
 * if nothing is there. PEND is cleared in the slot if the insert is committed. `number` is that of
 * the slot in its chain. The result may have another tag than `word`: the slot may have got another
 * item meanwhile.
 */
uint64_t kv_slot_settle(const struct kv_index *index, struct kv_bucket *head, kv_atomic_u64 *slot,
                        unsigned number, uint64_t word);

/* ---- finding ----------------------------------------------------------------------------- */

/* What a search has found. */
struct kv_find {
    struct kv_item *item;
    kv_atomic_u64 *slot;
    uint64_t word;      /* in the slot: leads to the item */
    uint64_t status;    /* what kv_item_status() said when the key was compared */
    const uint8_t *key; /* its bytes in the item, before which client flags stand, if any */
};

/* Whether the item that a word leads to has the key; it is then the one that was found. */
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
 * Whether the word that a prefetch has found in a place (kv_key.word, plain and of the key's tag)
 * is there. What it leads to is there now, however old the hint is and whatever has been there
 * meanwhile: a word without FROZEN is of a chain that has not moved, buckets stay buckets for good,
 * and those that are free have no words.
 */
static inline bool kv_place_holds(const struct kv_key *key)
{
    return key->word != 0 && kv_u64_load_acquire((const kv_atomic_u64 *)key->place) == key->word;
}

/* Finds a key in a slot where it was once. False says nothing: it may be elsewhere. */
static inline bool kv_index_search_slot(const struct kv_index *index, kv_atomic_u64 *slot,
                                        const struct kv_key *key, struct kv_find *find)
{
    find->slot = slot;
    uint64_t word = slot ? kv_u64_load_acquire(slot) : 0;
    return kv_word_is_plain(word, key->hash) && kv_word_search(index, word, key, find);
}

/* Finds a key in its place. False says nothing: it may be elsewhere. */
static inline bool kv_index_search_place(const struct kv_index *index, const struct kv_key *key,
                                         struct kv_find *find)
{
    return kv_place_holds(key) && kv_word_search(index, key->word, key, find);
}

/*
 * Finds a key, whatever the validity of its item. False if it is not there. The caller is an online
 * worker; the item is its to read until it is quiescent.
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
            if (U_UNLIKELY(!kv_word_is_settled(word))) {
                word = kv_slot_settle(index, head, &bucket->slot[i], number + i, word);
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

/* The same for those who want the item, or null, and the word, or 0. */
static inline struct kv_item *kv_index_find(const struct kv_index *index, const struct kv_key *key,
                                            uint64_t *found)
{
    struct kv_find find;
    bool is_there = kv_index_search(index, key, &find);
    *found = is_there ? find.word : 0;
    return is_there ? find.item : U_NULL;
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

/*
 * An empty table of 1 << power chains and so many overflow buckets, in zeroed memory. `buckets` and
 * `overflow` are addresses for two times 1 << power_max buckets each.
 */
void kv_index_init(struct kv_index *index, uint8_t *base, struct kv_bucket *buckets,
                   struct kv_bucket *overflow, unsigned power, unsigned power_max);

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
 * The same for what a search has found since the worker was quiescent last: tries its slot first.
 * A word never comes back to a slot that it has left, nor to another one but by a growth, which
 * leaves it FROZEN where it was. So if the slot has it, it is where the key is.
 */
bool kv_index_exchange_at(struct kv_worker *worker, const struct kv_find *found, uint64_t hash,
                          const struct kv_item *item);

/*
 * Empties the slot that leads to `word`, if one still does, and marks the item dead. True if it was
 * this call that removed it: the caller then accounts for it (kv_unlinked()).
 */
bool kv_index_unlink(struct kv_worker *worker, uint64_t hash, uint64_t word);

/* Whether a slot leads to `word`. */
bool kv_index_has(const struct kv_index *index, uint64_t hash, uint64_t word);

/* ---- overflow buckets (overflow.c) ------------------------------------------------------- */

/*
 * Sees to it that the worker has an overflow bucket for the next insert. False if the memory has
 * none to give.
 */
bool kv_index_spare(struct kv_worker *worker);

/* An overflow bucket of the table of that power, zeroed; 0 if there is none. And back, zeroed. */
uint32_t kv_overflow_take(struct kv_worker *worker, unsigned power);
void kv_overflow_give(struct kv_worker *worker, unsigned power, uint32_t link);

/* Takes the last buckets out of the chain, as far as they are overflow buckets and empty. */
void kv_overflow_cut(struct kv_worker *worker, struct kv_bucket *head);

/*
 * To be called before the bucket that follows this overflow bucket is used for an insert. False if
 * it was about to leave the chain: the chain has to be looked at again.
 */
bool kv_overflow_keep(struct kv_bucket *bucket);

/* Housekeeping, if the worker has cut off buckets: those that nobody can be in any more are free.
 */
void kv_overflow_reclaim(struct kv_worker *worker);

/* ---- growing (grow.c) -------------------------------------------------------------------- */

/* Moves a FROZEN chain, or what others have left to be done of it, to the next larger table. */
void kv_chain_move(struct kv_worker *worker, struct kv_bucket *head);

/* Housekeeping: a bounded part of what a growth has to do; starts one if the table is too full. */
void kv_grow_step(struct kv_worker *worker);

/* Whether there is housekeeping to be done soon. */
bool kv_grow_is_going_on(const struct kv_index *index);

/* Overflow buckets that a new table of that power gets. */
uint32_t kv_overflow_count(unsigned power);

/* What a new table of that power takes of the memory. */
uint64_t kv_table_bytes(unsigned power);

#endif
