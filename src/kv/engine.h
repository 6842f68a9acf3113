/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's two structs, and what its files offer each other beyond their own headers.
 *
 *   kv.c       create, destroy, join, leave, time, quiesce
 *   lookup.c   get, peek, value, pins          update.c   decisions carried out
 *   item.c     making items                    log.c      appending records to segments
 *   index.c    the hash table                  segment.c  the memory under the logs
 *   epoch.c    grace periods                   evict.c    making room; moving items
 *   sweep.c    expired and flushed items       stats.c, check.c
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "kv/epoch.h"
#include "kv/index.h"
#include "kv/item.h"
#include "kv/kv.h"
#include "kv/segment.h"

/* ---- counters ---------------------------------------------------------------------------- */

/* Each is written by its worker only. Gauges are differences: only their sum means something. */
enum kv_counter {
    KV_COUNT_ITEMS_LINKED = 0, /* items = linked - unlinked */
    KV_COUNT_ITEMS_UNLINKED,
    KV_COUNT_BYTES_LINKED,
    KV_COUNT_BYTES_UNLINKED,
    KV_COUNT_PINS,
    KV_COUNT_UNPINS,
    KV_COUNT_PUBLISHED, /* from here on `stats reset` applies */
    KV_COUNT_EVICTIONS,
    KV_COUNT_EVICTED_UNFETCHED,
    KV_COUNT_EXPIRED,
    KV_COUNT_EXPIRED_UNFETCHED,
    KV_COUNT_NO_MEMORY,
    KV_COUNT_RETRIES,
    KV_COUNTERS
};

/* ---- worker ------------------------------------------------------------------------------ */

/* Two open segments per worker: new items, and old ones that were worth keeping. */
enum kv_log_kind { KV_LOG_NEW = 0, KV_LOG_RESCUED, KV_LOGS };

enum kv_walk_mode {
    KV_WALK_NONE = 0,
    KV_WALK_EVICT,   /* what was not fetched lately is evicted, the rest moves */
    KV_WALK_COMPACT, /* everything moves */
    KV_WALK_EXPIRE   /* only what is over is removed */
};

/* A walk through the records of a claimed segment, done in bounded steps. */
struct kv_walk {
    enum kv_walk_mode mode;
    uint32_t segment;
    uint32_t at; /* next record: bytes from the segment's front */
    bool spares; /* something stays in the segment that was worth keeping */
};

struct kv_worker {
    _Alignas(64) struct kv *kv;
    struct kv_epoch_member *member;
    uint32_t *seen; /* by segment: turn of the last view into it (struct kv_segment_reader) */
    uint32_t turn;  /* changes when the worker holds no view */
    uint32_t now_s;
    uint32_t log[KV_LOGS]; /* open segments; KV_SEGMENT_NONE */
    struct kv_walk walk;
    uint64_t rescue_bytes; /* that eviction may move: earned by what it evicts (evict.c) */
    uint32_t spare_bucket; /* link of an overflow bucket for the next insert; 0: none */
    uint32_t sweep_s;      /* second whose sweep this worker has seen to the end */
    uint64_t cas_next;     /* [next, end): numbers that no other worker gives out */
    uint64_t cas_end;
    kv_atomic_u32 joined;
    _Alignas(64) kv_atomic_u64 counters[KV_COUNTERS];
};

/* ---- table ------------------------------------------------------------------------------- */

struct kv {
    struct kv_config config;
    void *mapping; /* all of the memory, as mmap() gave it */
    uint64_t mapping_bytes;
    uint64_t fixed_bytes; /* index heads and segment headers */
    struct kv_index index;
    struct kv_segments segments;
    uint32_t floor_segments;   /* kept for the rescue of items: new items leave these alone */
    uint32_t reserve_segments; /* free or soon free: what housekeeping keeps up */
    uint32_t small_bytes_max;  /* longest record of a small item */
    struct kv_worker *workers;
    struct kv_epoch_member *members;
    struct kv_epoch epoch;

    _Alignas(64) kv_atomic_u32 generation; /* flushes so far; an item is valid in its own only */
    _Alignas(64) kv_atomic_u64 cas_next;   /* first number of the next worker's range */

    /* The purge of flushed items (sweep.c). */
    _Alignas(64) struct kv_lock purge_lock;
    kv_atomic_u32 purged;  /* no item of an older generation than this is linked */
    uint32_t purge_target; /* what `purged` becomes when purge_bucket has reached the end */
    uint64_t purge_bucket;

    /* The sweep for expired items: one pass over all segments per second, shared by all workers. */
    _Alignas(64) kv_atomic_u32 sweep_s; /* the second that sweep_next belongs to */
    kv_atomic_u32 sweep_next;           /* next segment to look at */

    kv_atomic_u64 stats_base[KV_COUNTERS]; /* sums at the last kv_stats_reset() */
};

static inline void kv_count(struct kv_worker *worker, enum kv_counter counter, uint64_t value)
{
    kv_u64_count(&worker->counters[counter], value);
}

/* ---- log.c ------------------------------------------------------------------------------- */

/*
 * Room for a record of `bytes` at the end of the worker's log, with one hold on its segment; null
 * if there is no segment to be had. Opening a segment may evict, but not for the rescue log.
 */
void *kv_log_append(struct kv_worker *worker, enum kv_log_kind kind, uint32_t bytes);

/*
 * Sees to it that the open segment has room for `bytes` more, and returns how much room it has;
 * 0 if there is no segment to be had.
 */
uint32_t kv_log_reserve(struct kv_worker *worker, enum kv_log_kind kind, uint32_t bytes);

/*
 * Gives an unpublished record back: drops its hold, and takes the bytes back where it is the last
 * of the worker's open segment.
 */
void kv_log_drop(struct kv_worker *worker, void *record, uint32_t bytes);

/* Frees retired segments that neither this worker nor another can still read. Returns how many. */
uint32_t kv_log_reclaim(struct kv_worker *worker, uint32_t look_max);

/* Seals the open segment, if there is one. */
void kv_log_close(struct kv_worker *worker, enum kv_log_kind kind);

/* ---- evict.c ----------------------------------------------------------------------------- */

/* Readies a worker that joins. */
void kv_evict_init(struct kv_worker *worker);

/*
 * A free segment, now OPEN, for new items: from the free list, or by reclaiming, or by evicting.
 * Waits a little (some ten microseconds) if all depends on other workers' quiescent states.
 * KV_SEGMENT_NONE if nothing helps.
 */
uint32_t kv_evict_segment(struct kv_worker *worker);

/* Housekeeping: goes on with a walk or starts one if free segments are few. At most `records`. */
void kv_evict_step(struct kv_worker *worker, unsigned records);

/* Takes the next `records` of the current walk; ends it when it is through. */
void kv_walk_step(struct kv_worker *worker, unsigned records);

/* Claims a segment and starts a walk. False if it can't be claimed. No walk may be going on. */
bool kv_walk_begin(struct kv_worker *worker, uint32_t segment, enum kv_walk_mode mode);

/* Gives up the current walk, if any. */
void kv_walk_end(struct kv_worker *worker);

/* ---- item.c, lookup.c -------------------------------------------------------------------- */

enum kv_end { KV_END_REPLACED, KV_END_DELETED, KV_END_EXPIRED, KV_END_FLUSHED, KV_END_EVICTED };

/* Accounts for an item that the caller has just removed from the index, no lock held. */
void kv_unlinked(struct kv_worker *worker, const struct kv_item *item, enum kv_end end);

/* Removes an item that kv_item_validity() found to be over, if `word` still leads to it. */
void kv_remove_invalid(struct kv_worker *worker, const struct kv_item *item, uint64_t hash,
                       uint64_t word, enum kv_found found);

void kv_view_fill(struct kv_view *view, const struct kv_item *item);

/* The state of an item as callers see it. */
uint32_t kv_item_state(const struct kv_item *item);

/* ---- sweep.c ----------------------------------------------------------------------------- */

/* Housekeeping: a bounded part of the search for expired and for flushed items. */
void kv_sweep_step(struct kv_worker *worker);

/* ---- stats.c ----------------------------------------------------------------------------- */

/* The sum of one counter over all workers. */
uint64_t kv_counter_sum(const struct kv *kv, enum kv_counter counter);

#endif
