/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: item memory in equal parts, each filled from front to back by one worker, and emptied
 * and reused as a whole.
 *
 *        take                 seal                    retire                reclaim
 *   FREE ------> OPEN(worker) ------> SEALED -------------> RETIRED -----------------> FREE
 *                                     claimed by a worker      \ pinned: PARKED ------^
 *   FREE <-----> WITHDRAWN (out of service for a lower memory limit; its pages are released)
 *
 * `usage` of a segment holds two numbers in one word, so that one read-modify-write changes both
 * and zero has one meaning: live bytes (low 40 bits) of the records linked in the index, and holds
 * (high 24 bits) of unpublished records and pins.
 *
 * Invariants and orderings:
 *   - `state` and the lists (free, sealed, retired, withdrawn) change under the lock only.
 *   - A SEALED, unclaimed segment whose usage is 0 is retired immediately. A thread that subtracts
 *   to 0
 *     then loads the state; a thread that seals or unclaims then loads the usage. Both are
 *     sequentially consistent, so at least one of them sees the other's change; it checks again
 *     under the lock.
 *   - The usage of an OPEN segment is incomplete: its owner may not have added yet what other
 *     workers subtract (item_log.c). The owner adds the rest before it seals.
 *   - From SEALED on, live bytes only fall, except that publishing a record exchanges its hold for
 *     live bytes in one step. So usage 0 is final except for pins.
 *   - A RETIRED segment has no linked record. A view older than the unlink can still be pinned;
 *     after the grace period none can, so the remaining holds only fall (PARKED), and the thread
 *     that drops the last one frees the segment.
 *   - The owner writes `used` while OPEN; it does not change from SEALED until FREE.
 *
 * A page fault takes long where the kernel provides a huge page, so a background thread faults the
 * pages of free segments in (prefault.h). A segment is `touched` once that is done or once it was
 * taken, until its pages go back to the system. kv_segment_take() takes from the tail of the free
 * list, where all touched segments are; `untouched` is the untouched one nearest to the tail.
 */
#ifndef KV_SEGMENT_H
#define KV_SEGMENT_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/epoch.h"
#include "kv/policy.h"

struct kv_prefault;

#define KV_SEGMENT_NONE UINT32_MAX
#define KV_SEGMENT_LIVE_MASK ((UINT64_C(1) << 40) - 1)
#define KV_SEGMENT_HOLD (UINT64_C(1) << 40)
#define KV_SEGMENT_USAGE_END (UINT64_C(1) << 63) /* a usage beyond is negative */
#define KV_EXPTIME_NEVER UINT32_MAX

enum kv_segment_state {
    KV_SEGMENT_FREE = 0,
    KV_SEGMENT_OPEN,
    KV_SEGMENT_SEALED,
    KV_SEGMENT_RETIRED,
    KV_SEGMENT_PARKED,
    KV_SEGMENT_WITHDRAWN
};

/* Other workers subtract from usage while the owner fills the segment: separate cache lines. */
struct kv_segment {
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 usage;

    /* Bounds of the records' expiry times; KV_EXPTIME_NEVER: never. */
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u32 exptime_min;
    kv_atomic_u32 exptime_max;
    uint64_t retired_at;      /* number of kv_epoch_retire() */
    kv_atomic_u64 generation; /* at opening: no item in it is older */
    uint32_t used;            /* bytes of records, from the front */
    uint32_t next;            /* neighbours in the segment's list */
    uint32_t prev;
    kv_atomic_u8 state;
    kv_atomic_u8 pool; /* enum kv_pool; set while OPEN, later under the lock only */
    uint8_t claimed;   /* a worker scans it: no other claim, no retirement */
    uint8_t touched;   /* its pages are faulted in; under the lock */
};

struct kv_segment_list {
    uint32_t head;
    uint32_t tail;
    kv_atomic_u32 count; /* written under the lock, read without it */
};

struct kv_segments {
    /* Read-mostly. */
    uint8_t *base; /* first byte of segment 0 */
    struct kv_segment *array;
    struct kv_epoch *epoch;
    struct kv_prefault *prefault; /* the prefault thread; null: none */
    kv_atomic_u32 count;          /* [0, count) have ever been in service; never falls */
    kv_atomic_u32 in_service;     /* count less those withdrawn or being withdrawn */
    kv_atomic_u32 wanted;         /* target of in_service (resize.c) */
    uint32_t accessible;          /* segments with accessible memory; under the lock */
    uint32_t ahead_min;           /* free segments to prefault: as many as are in use, at least */
    uint32_t ahead_max;           /* ahead_min and at most ahead_max */
    uint32_t ahead_slack;         /* with so many fewer the thread is woken */
    unsigned shift;               /* log2 of a segment's bytes */

    _Alignas(U_CACHE_LINE_BYTES) struct kv_lock lock;
    /* Taken and returned at the tail (their memory is cached), withdrawn at the head. */
    struct kv_segment_list free;
    struct kv_segment_list sealed[KV_POOLS]; /* oldest first */
    struct kv_segment_list retired;          /* oldest first */
    struct kv_segment_list withdrawn;        /* their pages were released */

    /* Under the lock; the counts may be read without it. */
    uint32_t untouched;          /* the next free one to prefault, or KV_SEGMENT_NONE */
    uint32_t touching;           /* being prefaulted, stays in service; or KV_SEGMENT_NONE */
    kv_atomic_u32 touched_free;  /* touched free segments */
    kv_atomic_u32 touched_ahead; /* total prefaulted by the thread */
    kv_atomic_u32 touched_late;  /* total taken before the thread got to them */
};

/* The views of the worker that reclaims. */
struct kv_segment_reader {
    const struct kv_epoch_member *member;
    const uint32_t *seen; /* by segment: version of the last view into it */
    uint32_t view_version;
};

void kv_segments_init(struct kv_segments *segments, uint8_t *base, struct kv_segment *array,
                      uint32_t count, unsigned shift, struct kv_epoch *epoch);

/* The segments of a saved table (file.h); their headers are in its memory. */
struct kv_saved_list {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
};

struct kv_saved_segments {
    uint32_t count;
    uint32_t in_service;
    uint32_t wanted;
    uint32_t accessible;
    struct kv_saved_list free;
    struct kv_saved_list sealed[KV_POOLS];
    struct kv_saved_list withdrawn;
};

/* No worker is joined. False if a record is held or a segment is in another state. */
bool kv_segments_save(const struct kv_segments *segments, struct kv_saved_segments *saved);

/* kv_segments_init() with the segments as they were saved. False if they contradict each other. */
bool kv_segments_restore(struct kv_segments *segments, const struct kv_saved_segments *saved,
                         uint8_t *base, struct kv_segment *array, unsigned shift,
                         struct kv_epoch *epoch);

/* Marks the first `count` segments as touched. Call before any is taken. */
void kv_segments_set_faulted(struct kv_segments *segments, uint32_t count);

/* Whether more or fewer segments are in service than wanted. */
static inline bool kv_segments_differ(const struct kv_segments *segments)
{
    return kv_u32_load_relaxed(&segments->in_service) != kv_u32_load_relaxed(&segments->wanted);
}

static inline uint32_t kv_segments_count(const struct kv_segments *segments)
{
    return kv_u32_load_acquire(&segments->count);
}

static inline uint32_t kv_segments_bytes(const struct kv_segments *segments)
{
    return UINT32_C(1) << segments->shift;
}

static inline uint8_t *kv_segment_base(const struct kv_segments *segments, uint32_t index)
{
    return segments->base + ((uint64_t)index << segments->shift);
}

/* The segment of an address. */
static inline uint32_t kv_segment_of(const struct kv_segments *segments, const void *at)
{
    return (uint32_t)((uint64_t)((const uint8_t *)at - segments->base) >> segments->shift);
}

static inline uint64_t kv_segment_live_bytes(const struct kv_segment *segment)
{
    return kv_u64_load_relaxed(&segment->usage) & KV_SEGMENT_LIVE_MASK;
}

static inline bool kv_segment_is_held(const struct kv_segment *segment)
{
    return kv_u64_load_relaxed(&segment->usage) >= KV_SEGMENT_HOLD;
}

/* FREE to OPEN. KV_SEGMENT_NONE if no more than `floor` segments are free. */
uint32_t kv_segment_take(struct kv_segments *segments, uint32_t floor);

/*
 * Sets the target of in_service; memory and headers of the first `accessible` segments are
 * accessible. The functions below admit or withdraw one segment each.
 */
void kv_segments_want(struct kv_segments *segments, uint32_t wanted, uint32_t accessible);

/*
 * Brings a segment into service, a withdrawn or a new one, if fewer are than wanted; else returns
 * KV_SEGMENT_NONE. The caller makes sure that it has memory, then calls kv_segment_admit_end(),
 * which withdraws it again if not `opened`.
 */
uint32_t kv_segment_admit_begin(struct kv_segments *segments);
void kv_segment_admit_end(struct kv_segments *segments, uint32_t index, bool opened);

/*
 * Takes a free segment out of service, if more are than wanted and more than `floor` are free; else
 * KV_SEGMENT_NONE. The caller releases its pages, then calls kv_segment_withdrawn(), with
 * keeps_pages if they could not be released.
 */
uint32_t kv_segment_withdraw(struct kv_segments *segments, uint32_t floor);
void kv_segment_withdrawn(struct kv_segments *segments, uint32_t index, bool keeps_pages);

/*
 * The next free segment to prefault; KV_SEGMENT_NONE if enough are touched. It may be taken in the
 * meantime, but stays in service until kv_segment_prefault_end(). For one thread only.
 */
uint32_t kv_segment_prefault_begin(struct kv_segments *segments);
void kv_segment_prefault_end(struct kv_segments *segments, uint32_t index);

/* Whether the prefault thread should run: too few free segments are touched. */
bool kv_segments_prefault_lags(struct kv_segments *segments);

/* OPEN to SEALED, or to RETIRED if nothing in it is live or held. */
void kv_segment_seal(struct kv_segments *segments, uint32_t index);

/*
 * Claims a segment for a scan. False if it is claimed already, or neither SEALED nor the caller's
 * own open one.
 */
bool kv_segment_claim(struct kv_segments *segments, uint32_t index);

/* Ends a claim; retires the segment if it is empty and sealed. */
void kv_segment_unclaim(struct kv_segments *segments, uint32_t index);

/* kv_segment_unclaim(); a sealed segment that is not empty becomes the youngest of a pool. */
void kv_segment_unclaim_to(struct kv_segments *segments, uint32_t index, enum kv_pool pool);

/* Parameters of kv_segment_claim_victim(). */
struct kv_victim_search {
    enum kv_pool pool;   /* of the victim */
    uint32_t look_max;   /* segments to examine, oldest first */
    uint32_t choose_max; /* claimable segments to choose from */
    uint32_t dead_bytes_min;
    uint32_t slack_bytes;
    uint32_t now_s;
};

/*
 * Claims a sealed segment to be emptied: the first one whose records have all expired; else the
 * oldest, unless a younger one has fewer live bytes by more than slack_bytes. Held segments are
 * skipped and become the youngest. KV_SEGMENT_NONE if there is none.
 */
uint32_t kv_segment_claim_victim(struct kv_segments *segments,
                                 const struct kv_victim_search *search);

/* Claims a segment if it is sealed, not held, and has at most live_bytes_max. */
bool kv_segment_claim_if(struct kv_segments *segments, uint32_t index, uint64_t live_bytes_max);

/* Add to and subtract from the usage. A subtraction to 0 retires or frees the segment. */
void kv_segment_add(struct kv_segments *segments, uint32_t index, uint64_t usage);
void kv_segment_subtract(struct kv_segments *segments, uint32_t index, uint64_t usage);

/* Widens the bounds of expiry for one record; exptime 0: never. Any thread. */
static inline void kv_segment_note_exptime(struct kv_segments *segments, uint32_t index,
                                           uint32_t exptime)
{
    struct kv_segment *segment = &segments->array[index];
    uint32_t at = exptime == 0 ? KV_EXPTIME_NEVER : exptime;
    uint32_t known = kv_u32_load_relaxed(&segment->exptime_min);
    while (at < known && !kv_u32_cas_relaxed(&segment->exptime_min, &known, at))
        continue;
    known = kv_u32_load_relaxed(&segment->exptime_max);
    while (at > known && !kv_u32_cas_relaxed(&segment->exptime_max, &known, at))
        continue;
}

/*
 * Frees (or parks) retired segments whose grace period has ended, examining at most look_max.
 * Returns how many left the retired list.
 */
uint32_t kv_segment_reclaim(struct kv_segments *segments, const struct kv_segment_reader *reader,
                            uint32_t look_max);

static inline uint32_t kv_segment_list_count(const struct kv_segment_list *list)
{
    return kv_u32_load_relaxed(&list->count);
}

#endif
