/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records, the content of segments. Three kinds, each with the same 20 bytes in front and a
 * multiple of 4 bytes long:
 *
 *   small item    header [length 4] [flags 4] key value
 *   large item    header length 4, first_bytes 4, extent_count 4, distances 8 each [flags 4] key
 *   extent        header length 4, bytes     (a part of the value of a large item)
 *
 * The length is that of the value, of an extent that of its bytes. A small item whose value has
 * less than 255 bytes has the length in its status instead (inline_len). The value of a large item
 * is split so that extent 0 has first_bytes and each further one fills a segment, except the last:
 * a division finds the extent of an offset.
 *
 * Who writes what, and when:
 *   - Before publication the worker that made the record writes all of it.
 *   - That worker sets generation, state marks and `cas` just before publication.
 *   - After publication only two words change. `status` changes by compare-and-swap only, so no
 *     change of it is lost, and touching and sealing can be conditional on it (update.c). Readers
 *     write `access` with a plain store of the whole word: a race loses at most a hint for the
 *     eviction.
 */
#ifndef KV_ITEM_H
#define KV_ITEM_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/kv.h"

/* Marks of an item's status. The low bits are those of enum kv_state without KV_FETCHED. */
enum kv_mark {
    KV_MARK_SEALED = 1 << 0, /* is being replaced: nothing changes in place any more */
    KV_MARK_STATE = KV_STALE | KV_WON | KV_KEY_BINARY,
    KV_MARK_DEAD = 1 << 4,  /* unlinked from the index: scans skip it */
    KV_MARK_FLAGS = 1 << 5, /* has client flags other than 0 */
    KV_MARK_LARGE = 1 << 6,
    KV_MARK_EXTENT = 1 << 7
};

/* The low bits of kv_item.access; the seconds of the last access are above them. */
enum kv_access {
    KV_ACCESS_FETCHED = 1 << 0,  /* KV_FETCHED */
    KV_ACCESS_RETAINED = 1 << 1, /* large item whose head stays: its extents stay, too */
    KV_ACCESS_FREQ = 3 << 2,     /* fetches since eviction last examined the item */
    KV_ACCESS_BITS = 15
};

#define KV_ACCESS_FREQ_SHIFT 2
#define KV_ACCESS_SECONDS_SHIFT 4 /* leaves eight years of seconds */

/* kv_item.status: exptime 32, key_len 8, generation 8, marks 8, inline_len 8, from the low end. */
#define KV_STATUS_KEY_LEN_SHIFT 32
#define KV_STATUS_GENERATION_SHIFT 40
#define KV_STATUS_MARKS_SHIFT 48
#define KV_STATUS_INLINE_LEN_SHIFT 56

#define KV_INLINE_LEN_NONE 255u /* the length is in long_len */

#define KV_STATUS_SEALED ((uint64_t)KV_MARK_SEALED << KV_STATUS_MARKS_SHIFT)
#define KV_STATUS_DEAD ((uint64_t)KV_MARK_DEAD << KV_STATUS_MARKS_SHIFT)

/*
 * A record begins at a multiple of 4, but the 8-byte words status and cas must be aligned to 8:
 * they come first, and access after them, or else the other way round.
 */
struct kv_item {
    uint32_t header[5];
    uint32_t long_len; /* only if inline_len is KV_INLINE_LEN_NONE; else flags or key begin here */
};

#define KV_HEADER_BYTES ((uint32_t)offsetof(struct kv_item, long_len))
#define KV_LONG_HEADER_BYTES ((uint32_t)sizeof(struct kv_item))

U_STATIC_ASSERT(sizeof(struct kv_item) == 24, kv_item_bytes);
U_STATIC_ASSERT(offsetof(struct kv_item, long_len) == 20, kv_item_near_bytes);

static inline kv_atomic_u64 *kv_item_status_at(const struct kv_item *item)
{
    return (kv_atomic_u64 *)((uintptr_t)item + ((uintptr_t)item & 4));
}

/* In an extent: the hash of its item's key. */
static inline kv_atomic_u64 *kv_item_cas_at(const struct kv_item *item)
{
    return kv_item_status_at(item) + 1;
}

static inline kv_atomic_u32 *kv_item_access_at(const struct kv_item *item)
{
    return (kv_atomic_u32 *)((uintptr_t)item + 16 - 4 * ((uintptr_t)item & 4));
}

/*
 * Follows the header of a large item. The extents are named by their distance from the head in
 * bytes, so that records are valid wherever the memory is mapped.
 */
struct __attribute__((packed, aligned(4))) kv_extents {
    uint32_t first_bytes;
    uint32_t count;
    int64_t distance[];
};

U_STATIC_ASSERT(sizeof(struct kv_extents) == 8, kv_extents_bytes);

static inline uint8_t *kv_extent_data(struct kv_item *extent)
{
    return (uint8_t *)(extent + 1);
}

/* ---- status ------------------------------------------------------------------------------ */

static inline uint32_t kv_status_exptime(uint64_t status)
{
    return (uint32_t)status;
}

/* 0 for an extent. */
static inline uint32_t kv_status_key_len(uint64_t status)
{
    return (uint8_t)(status >> KV_STATUS_KEY_LEN_SHIFT);
}

/* The low bits of the number of flushes at publication (generation.h). */
static inline uint8_t kv_status_generation(uint64_t status)
{
    return (uint8_t)(status >> KV_STATUS_GENERATION_SHIFT);
}

static inline uint8_t kv_status_marks(uint64_t status)
{
    return (uint8_t)(status >> KV_STATUS_MARKS_SHIFT);
}

static inline uint32_t kv_status_inline_len(uint64_t status)
{
    return (uint32_t)(status >> KV_STATUS_INLINE_LEN_SHIFT);
}

/* Whether the key follows the header and the value the key, and client flags are 0. */
static inline bool kv_status_is_compact(uint64_t status)
{
    const uint64_t else_marks = (uint64_t)(KV_MARK_FLAGS | KV_MARK_LARGE | KV_MARK_EXTENT)
                                << KV_STATUS_MARKS_SHIFT;
    return (status & else_marks) == 0 && kv_status_inline_len(status) != KV_INLINE_LEN_NONE;
}

static inline uint64_t kv_status_make(uint32_t exptime, uint32_t key_len, uint8_t marks,
                                      uint32_t inline_len)
{
    return exptime | (uint64_t)key_len << KV_STATUS_KEY_LEN_SHIFT |
           (uint64_t)marks << KV_STATUS_MARKS_SHIFT |
           (uint64_t)inline_len << KV_STATUS_INLINE_LEN_SHIFT;
}

static inline uint64_t kv_status_with_exptime(uint64_t status, uint32_t exptime)
{
    return status >> 32 << 32 | exptime;
}

static inline uint64_t kv_status_with_generation(uint64_t status, uint8_t generation)
{
    const uint64_t mask = UINT64_C(0xff) << KV_STATUS_GENERATION_SHIFT;
    return (status & ~mask) | (uint64_t)generation << KV_STATUS_GENERATION_SHIFT;
}

static inline uint64_t kv_status_with_marks(uint64_t status, uint8_t marks)
{
    const uint64_t mask = UINT64_C(0xff) << KV_STATUS_MARKS_SHIFT;
    return (status & ~mask) | (uint64_t)marks << KV_STATUS_MARKS_SHIFT;
}

static inline uint64_t kv_item_status(const struct kv_item *item)
{
    return kv_u64_load_relaxed(kv_item_status_at(item));
}

/* Before publication, and by the worker that removes a sealed item from the index (index.c). */
static inline void kv_item_status_set(struct kv_item *item, uint64_t status)
{
    kv_u64_store_relaxed(kv_item_status_at(item), status);
}

/* Changes the status if it is *expected; else stores the current one in *expected. */
static inline bool kv_item_status_cas(struct kv_item *item, uint64_t *expected, uint64_t status)
{
    return kv_u64_cas_acq_rel(kv_item_status_at(item), expected, status);
}

/* Adds marks and returns the status with them. */
static inline uint64_t kv_item_mark(struct kv_item *item, uint8_t marks)
{
    uint64_t bits = (uint64_t)marks << KV_STATUS_MARKS_SHIFT;
    return kv_u64_fetch_or_acq_rel(kv_item_status_at(item), bits) | bits;
}

static inline uint32_t kv_item_exptime(const struct kv_item *item)
{
    return kv_status_exptime(kv_item_status(item));
}

static inline uint32_t kv_item_key_len(const struct kv_item *item)
{
    return kv_status_key_len(kv_item_status(item));
}

static inline uint8_t kv_item_marks(const struct kv_item *item)
{
    return kv_status_marks(kv_item_status(item));
}

/* ---- cas ---------------------------------------------------------------------------------- */

static inline uint64_t kv_item_cas(const struct kv_item *item)
{
    return kv_u64_load_relaxed(kv_item_cas_at(item));
}

/* Before publication only. */
static inline void kv_item_cas_set(struct kv_item *item, uint64_t cas)
{
    kv_u64_store_relaxed(kv_item_cas_at(item), cas);
}

/* ---- access ------------------------------------------------------------------------------ */

static inline uint32_t kv_access_make(uint32_t seconds, uint32_t bits)
{
    return seconds << KV_ACCESS_SECONDS_SHIFT | bits;
}

static inline uint32_t kv_access_seconds(uint32_t access)
{
    return access >> KV_ACCESS_SECONDS_SHIFT;
}

static inline unsigned kv_access_freq(uint32_t access)
{
    return (access & KV_ACCESS_FREQ) >> KV_ACCESS_FREQ_SHIFT;
}

static inline uint32_t kv_item_access(const struct kv_item *item)
{
    return kv_u32_load_relaxed(kv_item_access_at(item));
}

static inline unsigned kv_item_freq(const struct kv_item *item)
{
    return kv_access_freq(kv_item_access(item));
}

static inline void kv_item_access_store(struct kv_item *item, uint32_t access)
{
    kv_u32_store_relaxed(kv_item_access_at(item), access);
}

/* Stores only a change, so that the cache line of a hot item stays shared between cores. */
static inline void kv_item_access_set(struct kv_item *item, uint32_t was, uint32_t access)
{
    if (was != access)
        kv_item_access_store(item, access);
}

/* ---- layout ------------------------------------------------------------------------------ */

static inline bool kv_item_is_large(const struct kv_item *item)
{
    return (kv_item_marks(item) & KV_MARK_LARGE) != 0;
}

static inline const struct kv_extents *kv_item_extents(const struct kv_item *item)
{
    return (const struct kv_extents *)(const void *)(item + 1);
}

static inline struct kv_extents *kv_item_extents_room(struct kv_item *item)
{
    return (struct kv_extents *)(void *)(item + 1);
}

#define KV_EXTENT_NAME_BYTES ((uint32_t)sizeof(int64_t)) /* in the head, for each extent */

static inline uint32_t kv_extents_bytes(uint32_t count)
{
    return (uint32_t)sizeof(struct kv_extents) + count * KV_EXTENT_NAME_BYTES;
}

/* The extent of that number of a large item. */
static inline struct kv_item *kv_item_extent(const struct kv_item *item, uint32_t number)
{
    return (struct kv_item *)((uintptr_t)item + (uintptr_t)kv_item_extents(item)->distance[number]);
}

/* Before publication only. */
static inline void kv_item_set_extent(struct kv_item *item, uint32_t number,
                                      const struct kv_item *extent)
{
    kv_item_extents_room(item)->distance[number] = (const uint8_t *)extent - (const uint8_t *)item;
}

/* Bytes before flags and key of an item that is not large. */
static inline uint32_t kv_header_bytes(uint32_t inline_len)
{
    return inline_len == KV_INLINE_LEN_NONE ? KV_LONG_HEADER_BYTES : KV_HEADER_BYTES;
}

/*
 * Offset of the optional client flags, after which the key follows. Uses only parts of the status
 * that never change.
 */
static inline uint32_t kv_item_flags_offset(const struct kv_item *item, uint64_t status)
{
    uint32_t offset = kv_header_bytes(kv_status_inline_len(status));
    if (U_UNLIKELY(kv_status_marks(status) & KV_MARK_LARGE))
        offset += kv_extents_bytes(kv_item_extents(item)->count);
    return offset;
}

static inline uint32_t kv_item_key_offset(const struct kv_item *item, uint64_t status)
{
    uint32_t flags_bytes = (kv_status_marks(status) & KV_MARK_FLAGS) ? sizeof(uint32_t) : 0;
    return kv_item_flags_offset(item, status) + flags_bytes;
}

/* The length of the value, of an extent that of its bytes. */
static inline uint32_t kv_item_value_len(const struct kv_item *item, uint64_t status)
{
    uint32_t inline_len = kv_status_inline_len(status);
    return inline_len == KV_INLINE_LEN_NONE ? item->long_len : inline_len;
}

static inline uint32_t kv_extent_len(const struct kv_item *extent)
{
    return extent->long_len;
}

static inline const uint8_t *kv_item_key(const struct kv_item *item)
{
    return (const uint8_t *)item + kv_item_key_offset(item, kv_item_status(item));
}

static inline uint32_t kv_item_flags(const struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    uint32_t flags = 0;
    if (kv_status_marks(status) & KV_MARK_FLAGS)
        u_copy(&flags, (const uint8_t *)item + kv_item_flags_offset(item, status), sizeof(flags));
    return flags;
}

static inline uint32_t kv_record_round(uint32_t bytes)
{
    return (bytes + 3u) & ~3u;
}

/* kv_record_bytes() of a record whose kv_status_is_compact() is false. */
uint32_t kv_record_bytes_slow(const struct kv_item *record, uint64_t status);

/* Bytes of the record itself, without the extents of a large item. */
static inline uint32_t kv_record_bytes(const struct kv_item *record)
{
    uint64_t status = kv_item_status(record);
    if (U_UNLIKELY(!kv_status_is_compact(status)))
        return kv_record_bytes_slow(record, status);
    return kv_record_round(KV_HEADER_BYTES + kv_status_key_len(status) +
                           kv_status_inline_len(status));
}

/*
 * Copies the immutable part of a record of so many bytes: all but status, cas and access. The copy
 * of a large item has the same extents.
 */
static inline void kv_record_copy_fixed(struct kv_item *to, const struct kv_item *from,
                                        uint32_t bytes)
{
    u_copy((uint8_t *)to + KV_HEADER_BYTES, (const uint8_t *)from + KV_HEADER_BYTES,
           bytes - KV_HEADER_BYTES);
    if (U_UNLIKELY(kv_item_is_large(from)))
        for (uint32_t i = 0; i < kv_item_extents(from)->count; i++)
            kv_item_set_extent(to, i, kv_item_extent(from, i));
}

static inline bool kv_item_has_key(const struct kv_item *item, const struct kv_key *key)
{
    uint64_t status = kv_item_status(item);
    return kv_status_key_len(status) == key->len &&
           u_equal_short((const uint8_t *)item + kv_item_key_offset(item, status), key->bytes,
                         key->len);
}

/* ---- item.c ------------------------------------------------------------------------------ */

/* Bytes of all records of an item, as in kv_stats.item_bytes and the segments' live bytes. */
uint64_t kv_item_bytes(const struct kv_item *item);

/* Whether the item is valid, expired or flushed. */
enum kv_found kv_item_validity(const struct kv_worker *worker, const struct kv_item *item);

/*
 * Publishing exchanges the hold that an unpublished record has on its segment for live bytes:
 * charge just before, uncharge if another worker was faster. Discharge takes the live bytes of an
 * unlinked record off.
 */
void kv_record_charge(struct kv_worker *worker, const struct kv_item *record);
void kv_record_uncharge(struct kv_worker *worker, const struct kv_item *record);
void kv_record_discharge(struct kv_worker *worker, const struct kv_item *record);

/* Applies a function to all records of an item: the extents of a large one, then the head. */
static inline void kv_item_each_record(struct kv_worker *worker, const struct kv_item *item,
                                       void (*apply)(struct kv_worker *worker,
                                                     const struct kv_item *record))
{
    if (U_UNLIKELY(kv_item_is_large(item))) {
        const struct kv_extents *extents = kv_item_extents(item);
        for (uint32_t i = 0; i < extents->count; i++)
            apply(worker, kv_item_extent(item, i));
    }
    apply(worker, item);
}

/* Records a view into the item: this worker does not reuse its memory while the view is valid. */
void kv_item_mark_seen(struct kv_worker *worker, const struct kv_item *item);

/* Widens the bounds of expiry of the item's segments for exptime. */
void kv_item_note_exptime(struct kv_worker *worker, const struct kv_item *item, uint32_t exptime);

#endif
