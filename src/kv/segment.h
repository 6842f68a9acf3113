/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: the memory of the items, cut into equal parts that are filled from front to back by
 * one worker each and are emptied and reused as a whole.
 *
 *        take                 seal                    retire                reclaim
 *   FREE ------> OPEN(worker) ------> SEALED -------------> RETIRED -----------------> FREE
 *                                     claimed by a worker      \ pinned: PARKED ------^
 *   FREE <-----> WITHDRAWN (the memory limit is lower; its pages are the system's again)
 *
 * `usage` of a segment holds two numbers in one word, so that one read-modify-write changes both
 * and zero has one meaning: live bytes (low 40 bits), the records that are linked in the index; and
 * holds (high 24 bits), the unpublished records and the pins.
 *
 * Invariants and orderings:
 *   - `state` changes under the lock only. Lists (free, sealed, retired) are touched under it.
 *   - A SEALED, unclaimed segment whose usage is 0 is retired at once. The thread that subtracts to
 *     0 then looks at the state; the thread that seals or unclaims then looks at the usage. Both
 *     orders are sequentially consistent, so at least one of the two sees it; the lock and a second
 *     look decide which.
 *   - While OPEN the usage is the owner's affair, which may not have added yet what others take off
 *     (log.c): it means something from SEALED on, for the owner adds the rest before it seals.
 *   - While SEALED or later, live bytes only fall, except that an unpublished record may be
 *     published, which trades its hold for live bytes in one step: usage 0 is final but for pins.
 *   - A RETIRED segment has no linked record. A pin can still come from a view that is older than
 *     the unlink; after the grace period none can come any more, so the holds that are left then
 *     only fall (PARKED) and whoever drops the last one frees the segment.
 *   - `used` is written by the owner while OPEN and never after sealing, until FREE.
 *
 * The first touch of memory takes long where the kernel makes a huge page of it, so a thread of its
 * own does it ahead of the workers (touch.h). A segment counts as touched when that has been done
 * or when it has been taken, until its pages go back to the system. The free list has all that are
 * touched at the end which is taken from; the first of the others is `untouched`.
 */
#ifndef KV_SEGMENT_H
#define KV_SEGMENT_H

#include "base/base.h"
#include "kv/atomic.h"
#include "kv/epoch.h"
#include "kv/policy.h"

struct kv_touch;

#define KV_SEGMENT_NONE UINT32_MAX
#define KV_SEGMENT_LIVE_MASK ((UINT64_C(1) << 40) - 1)
#define KV_SEGMENT_HOLD (UINT64_C(1) << 40)
#define KV_SEGMENT_USAGE_END (UINT64_C(1) << 63) /* what is beyond has been less than 0 */
#define KV_EXPTIME_NEVER UINT32_MAX

enum kv_segment_state {
    KV_SEGMENT_FREE = 0,
    KV_SEGMENT_OPEN,
    KV_SEGMENT_SEALED,
    KV_SEGMENT_RETIRED,
    KV_SEGMENT_PARKED,
    KV_SEGMENT_WITHDRAWN
};

/* The owner of an open segment fills it while others take off its usage: a line for each. */
struct kv_segment {
    _Alignas(U_LINE_BYTES) kv_atomic_u64 usage;

    /* The bounds of what the records expire at; never: UINT32_MAX. */
    _Alignas(U_LINE_BYTES) kv_atomic_u32 exptime_min;
    kv_atomic_u32 exptime_max;
    uint64_t retired_at; /* number of kv_epoch_retire() */
    uint32_t used;       /* bytes from the front that are records */
    uint32_t next;       /* neighbours in the list that the segment is in */
    uint32_t prev;
    kv_atomic_u8 state;
    kv_atomic_u8 pool; /* enum kv_pool; set while OPEN, later under the lock only */
    uint8_t claimed;   /* a worker walks through it: not a victim for others, not to be retired */
    uint8_t touched;   /* has its pages; under the lock */
};

struct kv_segment_list {
    uint32_t head;
    uint32_t tail;
    kv_atomic_u32 count; /* written under the lock, read by anybody */
};

struct kv_segments {
    /* Read all the time, hardly ever written. */
    uint8_t *base; /* first byte of segment 0 */
    struct kv_segment *array;
    struct kv_epoch *epoch;
    struct kv_touch *touch;   /* touches ahead of the workers; null: nobody does */
    kv_atomic_u32 count;      /* that have ever been in service: [0, count). Never falls */
    kv_atomic_u32 in_service; /* count, less those withdrawn or being withdrawn */
    kv_atomic_u32 wanted;     /* what in_service is to become (resize.c) */
    uint32_t accessible;      /* segments that memory can be had for; under the lock */
    uint32_t ahead_min;       /* free segments that are to be touched: as many as are in use, */
    uint32_t ahead_max;       /* but so many at least and at most */
    uint32_t ahead_slack;     /* with so many fewer it is time to wake the thread */
    unsigned shift;           /* log2 of a segment's bytes */

    _Alignas(U_LINE_BYTES) struct kv_lock lock;
    /*
     * Last freed first taken: its memory is in the caches, and what is not needed is touched a
     * little ahead at most.
     * Withdrawn are those at the other end.
     */
    struct kv_segment_list free;
    struct kv_segment_list sealed[KV_POOLS]; /* oldest first */
    struct kv_segment_list retired;          /* oldest first */
    struct kv_segment_list withdrawn;        /* those whose pages have been given back already */

    /* Under the lock, but that anybody may read the counts. */
    uint32_t untouched;          /* of the free: the first to be touched; KV_SEGMENT_NONE */
    uint32_t touching;           /* is being touched: stays in service; KV_SEGMENT_NONE */
    kv_atomic_u32 touched_free;  /* free ones that are touched */
    kv_atomic_u32 touched_ahead; /* by the thread, so far */
    kv_atomic_u32 touched_late;  /* taken before it came to them, so far */
};

/* Who wants to reclaim: what it needs to know of its own views. */
struct kv_segment_reader {
    const struct kv_epoch_member *member;
    const uint32_t *seen; /* by segment: the turn in which a pointer into it was handed out */
    uint32_t turn;
};

void kv_segments_init(struct kv_segments *segments, uint8_t *base, struct kv_segment *array,
                      uint32_t count, unsigned shift, struct kv_epoch *epoch);

/* The first so many have their pages already. To be called before any is taken. */
void kv_segments_touched(struct kv_segments *segments, uint32_t count);

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

/* The segment that an address lies in. */
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

/* FREE to `state` (OPEN). KV_SEGMENT_NONE if no more than `floor` segments are free. */
uint32_t kv_segment_take(struct kv_segments *segments, uint32_t floor, enum kv_segment_state state);

/*
 * So many are to be in service; there is memory for the first `accessible`, and the array has room
 * for their headers. The functions below bring it about one by one.
 */
void kv_segments_want(struct kv_segments *segments, uint32_t wanted, uint32_t accessible);

/*
 * Brings one more segment into service, if fewer are than wanted and there is one to be had: a
 * withdrawn one, else the next that never was. False if not.
 */
bool kv_segment_admit(struct kv_segments *segments);

/*
 * Takes a free segment out of service, if more are than wanted and more than `floor` are free.
 * KV_SEGMENT_NONE if not. The caller then gives its pages back and calls kv_segment_withdrawn(),
 * with keeps_pages if they could not be given back.
 */
uint32_t kv_segment_withdraw(struct kv_segments *segments, uint32_t floor);
void kv_segment_withdrawn(struct kv_segments *segments, uint32_t index, bool keeps_pages);

/*
 * The free segment that is to be touched next, KV_SEGMENT_NONE if enough are. It may be taken
 * meanwhile, but stays in service until kv_segment_touch_end(). One thread only.
 */
uint32_t kv_segment_touch_begin(struct kv_segments *segments);
void kv_segment_touch_end(struct kv_segments *segments, uint32_t index);

/* Whether fewer free segments are touched than are to be, by so many that it is time to go on. */
bool kv_segments_touch_lags(struct kv_segments *segments);

/* OPEN to SEALED, or to RETIRED if nothing in it is live or held. */
void kv_segment_seal(struct kv_segments *segments, uint32_t index);

/*
 * Makes the caller the only one who walks through the segment. False if somebody else does or it
 * is neither SEALED nor the caller's own open one.
 */
bool kv_segment_claim(struct kv_segments *segments, uint32_t index);

/* Ends a claim; retires the segment if it is empty and sealed. */
void kv_segment_unclaim(struct kv_segments *segments, uint32_t index);

/* The same, but if the segment is sealed and not empty it becomes the youngest of a pool. */
void kv_segment_unclaim_to(struct kv_segments *segments, uint32_t index, enum kv_pool pool);

/* What kv_segment_claim_victim() looks for. */
struct kv_victim_wish {
    enum kv_pool pool;   /* to take it from */
    uint32_t look_max;   /* segments to look at, oldest first */
    uint32_t choose_max; /* of those: how many to choose from that could be taken */
    uint32_t dead_bytes_min;
    uint32_t slack_bytes;
    uint32_t now_s;
};

/*
 * Claims a sealed segment to be emptied: the oldest, unless another one has fewer live bytes by
 * more than slack_bytes; one whose records have all expired at once. Held ones are passed over and
 * go to the young end. KV_SEGMENT_NONE if there is none as wished.
 */
uint32_t kv_segment_claim_victim(struct kv_segments *segments, const struct kv_victim_wish *wish);

/* Claims a segment if it is sealed, not held, and has at most so many live bytes. */
bool kv_segment_claim_if(struct kv_segments *segments, uint32_t index, uint64_t live_bytes_max);

/* Change the usage. The subtraction retires or frees a segment that it empties. */
void kv_segment_add(struct kv_segments *segments, uint32_t index, uint64_t usage);
void kv_segment_subtract(struct kv_segments *segments, uint32_t index, uint64_t usage);

/* Widens the bounds of expiry by one record. Any thread. exptime 0 is never. */
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
 * Frees retired segments that nobody can read any more, looking at no more than look_max. Returns
 * how many segments it moved out of the retired list.
 */
uint32_t kv_segment_reclaim(struct kv_segments *segments, const struct kv_segment_reader *reader,
                            uint32_t look_max);

static inline uint32_t kv_segment_list_count(const struct kv_segment_list *list)
{
    return kv_u32_load_relaxed(&list->count);
}

#endif
