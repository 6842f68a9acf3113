/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's internal structs and functions that several of its files use.
 *
 *   kv.c        create, destroy, join, leave, time, quiesce
 *   lookup.c    get, peek, prefetch, pins        update.c    carrying decisions out
 *   item.c      making items, accounting         item_log.c  appending records to segments
 *   index.c     the hash table                   segment.c   segment states and lists
 *   overflow.c  overflow buckets                 grow.c      growth of the hash table
 *   epoch.c     grace periods                    memory.c    address space, pages, NUMA nodes
 *   evict.c     eviction, moving items           policy*.c   eviction policies
 *   sweep.c     expired items                    flush.c     flushes, purge of flushed items
 *   item_scan.c scans of all items             sizes.c     size classes
 *   resize.c    the memory limit                 prefault.c  background thread that faults pages in
 *   hash.c      hash of keys                     ghost.c     fingerprints of evicted keys
 *   file.c      saving into a file, restoring
 *   stats.c     statistics                       check.c     check of all invariants
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "base/base.h"
#include "base/prng.h"
#include "kv/epoch.h"
#include "kv/file.h"
#include "kv/generation.h"
#include "kv/ghost.h"
#include "kv/hash.h"
#include "kv/index.h"
#include "kv/item.h"
#include "kv/kv.h"
#include "kv/memory.h"
#include "kv/poison.h"
#include "kv/policy.h"
#include "kv/prefault.h"
#include "kv/segment.h"

/* ---- counters ---------------------------------------------------------------------------- */

/*
 * Written by the owning worker only. Of a gauge each worker has its own changes, modulo 2^64; the
 * value is the sum over all workers.
 */
enum kv_counter {
    KV_COUNT_BYTES = 0, /* gauge: of the records of live items */
    KV_COUNT_PINS,      /* gauge */
    KV_COUNT_RETRIES,   /* `stats reset` applies to this one and those below */
    KV_COUNTERS
};

/* Counters by size class; the sum over the classes is the table's. */
enum kv_class_counter {
    KV_CLASS_ITEMS = 0, /* gauge: live items */
    KV_CLASS_SIZES,     /* gauge: their sizes as config.sizes counts them */
    KV_CLASS_PUBLISHED, /* `stats reset` applies to this one and those below */
    KV_CLASS_EVICTED,
    KV_CLASS_EVICTED_NONZERO,
    KV_CLASS_EVICTED_UNFETCHED,
    KV_CLASS_EVICTED_ACTIVE,
    KV_CLASS_EXPIRED,
    KV_CLASS_EXPIRED_UNFETCHED,
    KV_CLASS_CRAWL_CHECKED,
    KV_CLASS_CRAWLED,
    KV_CLASS_NO_MEMORY,
    KV_CLASS_COUNTERS
};

/* Counters of one worker for one class. */
struct kv_class {
    kv_atomic_u64 counters[KV_CLASS_COUNTERS];
    kv_atomic_u64 last_evicted; /* time of the eviction << 32 | idle seconds of the item */
};

/* ---- worker ------------------------------------------------------------------------------ */

/*
 * A worker has up to one open segment (log) per pool and class of time to live, so that items of
 * one segment expire together.
 */
#define KV_TTL_CLASSES 8
#define KV_LOGS (KV_POOLS * KV_TTL_CLASSES)

enum kv_log_purpose {
    KV_LOG_NEW,  /* a new item: may evict; leaves floor_segments free */
    KV_LOG_MOVED /* a copy of an item that moves: may take the last free segment; never evicts */
};

enum kv_clean_mode {
    KV_CLEAN_NONE = 0,
    KV_CLEAN_EVICT,   /* the policy decides which items move and which are evicted */
    KV_CLEAN_COMPACT, /* all items move */
    KV_CLEAN_EXPIRE   /* removes expired and flushed items only */
};

/* A scan of the records of a claimed segment, in bounded steps. */
struct kv_cleaner {
    enum kv_clean_mode mode;
    uint32_t segment;
    uint32_t at;      /* next record: offset in the segment in bytes */
    uint32_t records; /* so far */
    enum kv_pool pool;
    bool retains; /* a large record stays in place: the segment moves to the pool retain_to */
    enum kv_pool retain_to;
};

/* Free overflow buckets of the table with that power, for this worker only. */
struct kv_bucket_reserve {
    unsigned power;
    unsigned count;
    uint32_t link[KV_CHAIN_BUCKETS_MAX];
};

/* Overflow buckets that the worker has unlinked from their chains. */
#define KV_CUT_MAX 256
struct kv_cut_buckets {
    unsigned power; /* of the table */
    unsigned count;
    unsigned waiting; /* how many of the first ones wait for the grace period `retired` */
    uint64_t retired;
    uint32_t link[KV_CUT_MAX];
};

struct kv_worker {
    _Alignas(U_CACHE_LINE_BYTES) struct kv *kv;
    struct kv_epoch_member *member;
    uint32_t *seen;          /* by segment: version of the last view into it (kv_segment_reader) */
    uint32_t view_version;   /* of the worker's views; incremented when they end */
    uint32_t viewed_version; /* the version of the last view */
    uint32_t now_s;
    uint32_t log[KV_LOGS];           /* open segments; KV_SEGMENT_NONE */
    uint64_t pending_usage[KV_LOGS]; /* changes not yet added to their usage, modulo 2^64 */
    unsigned log_last;               /* the log appended to last */
    struct kv_cleaner cleaner;
    uint64_t move_credit_bytes; /* bytes that evict.c may move; earned by evicting */
    unsigned freq_max;          /* accesses are counted up to this */
    uint32_t access_saturated;  /* kv_access_saturated() */
    bool urgent;                /* evict everything; look for expired items last (evict.c) */
    uint64_t waited_for;        /* announcement of another worker that a wait timed out on */
    struct u_prng prng;
    struct kv_bucket_reserve spares[2]; /* by the lowest bit of the table's power */
    struct kv_cut_buckets cut;
    uint64_t inserted;     /* new keys since this worker last checked the load factor */
    unsigned move_count;   /* selects the chains to move next (grow.c) */
    uint32_t compact_next; /* next segment to check for dead bytes */
    uint32_t sweep_s;      /* the second whose sweep this worker has finished */
    uint64_t cas_next;     /* [next, end): cas numbers reserved for this worker */
    uint64_t cas_end;
    kv_atomic_u32 joined;
    kv_evicted *evicted; /* callback; null: none */
    void *evicted_ctx;
    kv_atomic_u64 *buckets; /* by bucket of size: linked - unlinked, modulo 2^64; or null */
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 counters[KV_COUNTERS];
    _Alignas(U_CACHE_LINE_BYTES) struct kv_class classes[KV_CLASSES_MAX];
};

/* ---- table ------------------------------------------------------------------------------- */

struct kv {
    struct kv_config config;
    struct kv_memory memory;
    struct kv_file_map file;
    struct kv_hash hash;
    struct kv_index index;
    struct kv_segments segments;
    const struct kv_policy *policy;
    struct kv_ghost ghost;
    uint64_t ghosts_bytes;
    uint32_t small_bytes_max;    /* longest record that is not a large item */
    uint32_t segments_count_max; /* segments with reserved addresses */
    struct kv_lock limit_lock;   /* serializes changes of the limit */
    struct kv_prefault prefault;

    /* Derived from the memory limit (resize.c). */
    kv_atomic_u64 memory_limit_bytes; /* as set by the caller */
    kv_atomic_u64 value_bytes_max;    /* longest value that fits */
    kv_atomic_u32 floor_segments;     /* free segments reserved for moving items */
    kv_atomic_u32 ttl_classes;        /* 1: logs by time to live; 0: too few segments */
    kv_atomic_u32 reserve_segments;   /* housekeeping keeps so many free or retired */

    struct kv_worker *workers;
    struct kv_epoch_member *members;
    struct kv_epoch epoch;

    /* Flushes so far (generation.h); an item is valid in its own generation only. */
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 generation;
    _Alignas(U_CACHE_LINE_BYTES)
        kv_atomic_u64 cas_next; /* first number of the next worker's range */

    /* The purge of flushed items (flush.c). */
    _Alignas(U_CACHE_LINE_BYTES) struct kv_lock purge_lock;
    kv_atomic_u64 purged;  /* no older generation is linked or viewed */
    uint64_t purge_target; /* value of `purged` after this purge */
    uint64_t purge_position;
    uint64_t purge_retired; /* grace period that the purge waits for; 0: no purge */

    /* Sweep for expired items: one pass over all segments per second, shared by the workers. */
    _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u32 sweep_s; /* the second that sweep_next belongs to */
    kv_atomic_u32 sweep_next;                           /* next segment to look at */

    /* Sums at the last kv_stats_reset(). */
    kv_atomic_u64 stats_base[KV_COUNTERS];
    struct kv_class class_base[KV_CLASSES_MAX];
};

static inline void kv_count(struct kv_worker *worker, enum kv_counter counter, uint64_t value)
{
    kv_u64_count(&worker->counters[counter], value);
}

/*
 * Housekeeping steps due for a worker that has inserted that many items since its last step. They
 * scale with the inserts, so that a growth ends before the overflow buckets are used up.
 */
#define KV_STEPS_MAX 256
static inline unsigned kv_steps_due(uint64_t inserted, unsigned inserts_each)
{
    return (unsigned)u_min64(1 + inserted / inserts_each, KV_STEPS_MAX);
}

static inline uint32_t kv_floor_segments(const struct kv *kv)
{
    return kv_u32_load_relaxed(&kv->floor_segments);
}

/* Bytes of index, ghosts, and headers of all segments that have ever been in service. */
static inline uint64_t kv_fixed_bytes(const struct kv *kv)
{
    return kv_u64_load_relaxed(&kv->index.bytes) + kv->ghosts_bytes +
           (uint64_t)kv_segments_count(&kv->segments) * sizeof(struct kv_segment);
}

/* ---- kv.c -------------------------------------------------------------------------------- */

/* Allocates the worker's size buckets if config.sizes has any. False without memory. */
bool kv_worker_buckets_make(struct kv_worker *worker, const struct kv_sizes *sizes);

/* ---- item_log.c ------------------------------------------------------------------------- */

/* The worker's log for a pool and an expiry time (0: never). */
unsigned kv_log_for(const struct kv_worker *worker, enum kv_pool pool, uint32_t exptime);

/* Appends a record of `bytes` and takes a hold on its segment; null if there is no segment. */
void *kv_log_append(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                    uint32_t bytes);

/* Free bytes of the log's open segment; 0 without one. */
static inline uint32_t kv_log_free_bytes(const struct kv_worker *worker, unsigned log)
{
    const struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[log];
    return index == KV_SEGMENT_NONE ? 0 : kv_segments_bytes(segments) - segments->array[index].used;
}

/* kv_log_append() for a log with enough free bytes. */
static inline void *kv_log_take(struct kv_worker *worker, unsigned log, uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[log];
    struct kv_segment *segment = &segments->array[index];
    uint8_t *record = kv_segment_base(segments, index) + segment->used;
    segment->used += bytes;
    kv_unpoison(record, bytes);
    worker->pending_usage[log] += KV_SEGMENT_HOLD;
    worker->log_last = log;
    return record;
}

/* Opens a new segment unless `bytes` are free. Returns the free bytes; 0 if there is no segment. */
uint32_t kv_log_reserve(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                        uint32_t bytes);

/* Frees an unpublished record: drops its hold; the last record's bytes become free again. */
void kv_log_drop(struct kv_worker *worker, void *record, uint32_t bytes);

/* Frees retired segments that no worker can still read. Returns how many. */
uint32_t kv_log_reclaim(struct kv_worker *worker, uint32_t look_max);

/*
 * Called before a record is appended in a wide table: seals the open segment if its generation is
 * so old that tags of current items could soon be ambiguous in it. `word` is kv.generation.
 */
void kv_log_refresh_old(struct kv_worker *worker, unsigned log, uint64_t word);

static inline void kv_log_refresh(struct kv_worker *worker, unsigned log)
{
    uint64_t word = kv_u64_load_relaxed(&worker->kv->generation);
    if (U_UNLIKELY(kv_generation_is_wide(word)))
        kv_log_refresh_old(worker, log, word);
}

/* Seals the open segment, if there is one. */
void kv_log_close(struct kv_worker *worker, unsigned log);

/* Adds to the usage of a segment that this worker has appended to, modulo 2^64. */
void kv_log_change(struct kv_worker *worker, uint32_t segment, uint64_t change);

/* Subtracts from the usage of any segment. */
static inline void kv_log_subtract(struct kv_worker *worker, uint32_t segment, uint64_t usage)
{
    if (worker->log[worker->log_last] == segment)
        worker->pending_usage[worker->log_last] -= usage;
    else
        kv_segment_subtract(&worker->kv->segments, segment, usage);
}

/* ---- evict.c ----------------------------------------------------------------------------- */

/* Initializes the eviction state of a worker that joins. */
void kv_evict_init(struct kv_worker *worker);

/* Pool and access count of an item that is about to be stored. */
struct kv_pool_entry {
    enum kv_pool pool;
    unsigned freq;
};

/* The pool that an item lies in. */
static inline enum kv_pool kv_evict_pool(const struct kv_worker *worker, const struct kv_item *item)
{
    const struct kv_segments *segments = &worker->kv->segments;
    const struct kv_segment *segment = &segments->array[kv_segment_of(segments, item)];
    return (enum kv_pool)kv_u8_load_relaxed(&segment->pool);
}

struct kv_pool_entry kv_evict_place(struct kv_worker *worker, const struct kv_key *key);

/* Whether pool and access count of a new item depend on its key's history. */
static inline bool kv_evict_uses_ghosts(const struct kv *kv)
{
    return kv->policy->uses_ghosts && kv->config.evict;
}

/* Pool and access count of an item that replaces `old`: a store counts as an access. */
static inline struct kv_pool_entry kv_evict_place_again(const struct kv_worker *worker,
                                                        const struct kv_item *old)
{
    struct kv_pool_entry start = {KV_POOL_MAIN, 0};
    if (kv_evict_uses_ghosts(worker->kv)) {
        start.pool = kv_evict_pool(worker, old);
        start.freq = u_min32(kv_item_freq(old) + 1, worker->kv->policy->freq_max);
    }
    return start;
}

/* Called for a new item of so many bytes: does its share of the eviction in advance. */
void kv_evict_advance(struct kv_worker *worker, uint64_t bytes);

/* Whether enough is free, so that kv_evict_advance() would do nothing. */
bool kv_evict_is_ahead(const struct kv *kv);

/*
 * Makes a segment free for new items: reclaims, evicts, or waits (bounded) for other workers'
 * quiescent states. False if none of these succeeds.
 */
bool kv_evict_make_free(struct kv_worker *worker);

/* Housekeeping: continues a scan, or starts one if too few segments are free. */
void kv_evict_step(struct kv_worker *worker, unsigned records);

/* Processes the next `records` of the current scan, if any; ends it at the segment's end. */
void kv_clean_step(struct kv_worker *worker, unsigned records);

/* Claims a segment and starts a scan. False if it can't be claimed. The worker has no scan. */
bool kv_clean_begin(struct kv_worker *worker, uint32_t segment, enum kv_clean_mode mode);

/* Ends the current scan, if any. */
void kv_clean_end(struct kv_worker *worker);

/* ---- item.c, lookup.c -------------------------------------------------------------------- */

enum kv_removal {
    KV_REMOVAL_REPLACED,
    KV_REMOVAL_DELETED,
    KV_REMOVAL_EXPIRED,
    KV_REMOVAL_FLUSHED,
    KV_REMOVAL_CRAWLED, /* expired or flushed, removed by kv_crawl() */
    KV_REMOVAL_EVICTED
};

/* Accounts for an item that the caller has just published. */
void kv_account_linked(struct kv_worker *worker, const struct kv_item *item);

/* Accounts for an item that the caller has just removed from the index. */
void kv_account_unlinked(struct kv_worker *worker, const struct kv_item *item, enum kv_removal end);

/*
 * Removes an expired or flushed item from the index, if `word` is still in a slot and the item was
 * not touched in the meantime. True if this call removed it: the caller then accounts for it.
 */
bool kv_unlink_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash,
                       uint64_t word);

/* kv_unlink_invalid() with the accounting; `found` is KV_MISS_EXPIRED or KV_MISS_FLUSHED. */
void kv_remove_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash, uint64_t word,
                       enum kv_found found);

/* Fills a view of an item with that status. */
void kv_view_fill(struct kv_view *view, const struct kv_item *item, uint64_t status);

U_STATIC_ASSERT((int)KV_ACCESS_FETCHED == (int)KV_FETCHED, kv_fetched_is_the_same_bit);

/* Fills a view of the item that a search found. */
static inline void kv_view_fill_found(struct kv_view *view, const struct kv_find *find)
{
    const struct kv_item *item = find->item;
    uint64_t status = find->status;
    uint8_t marks = kv_status_marks(status);
    uint32_t access = kv_item_access(item);
    view->item = item;
    view->key = find->key;
    view->key_len = kv_status_key_len(status);
    view->value = (marks & KV_MARK_LARGE) ? U_NULL : find->key + view->key_len;
    view->value_len = kv_item_value_len(item, status);
    view->flags = 0;
    if (U_UNLIKELY(marks & KV_MARK_FLAGS))
        view->flags = kv_item_flags(item);
    view->exptime = kv_status_exptime(status);
    view->last_access = kv_access_seconds(access);
    view->state = (marks & KV_MARK_STATE) | (access & KV_ACCESS_FETCHED);
    view->cas = kv_item_cas(item);
}

/* kv_item_mark_seen() for the item that a search found. */
static inline void kv_found_mark_seen(struct kv_worker *worker, const struct kv_find *find)
{
    if (U_UNLIKELY(kv_status_marks(find->status) & KV_MARK_LARGE)) {
        kv_item_mark_seen(worker, find->item);
    } else {
        worker->viewed_version = worker->view_version;
        worker->seen[kv_segment_of(&worker->kv->segments, find->item)] = worker->view_version;
    }
}

/* ---- flush.c ----------------------------------------------------------------------------- */

/* Whether an item is of the current generation, if its tag is not kv_generation_tag(word). */
bool kv_generation_is_current(const struct kv *kv, const struct kv_item *item, uint64_t status,
                              uint64_t word);

/*
 * Whether an unpublished item may be published in its segment with the generation of `word`, which
 * is kv.generation, loaded (acquire) after the record was appended.
 */
bool kv_generation_may_publish(const struct kv *kv, const struct kv_item *item, uint64_t word);

/* Whether a copy may replace a linked item: false if that item was flushed since it was found. */
bool kv_generation_may_move(const struct kv *kv, const struct kv_item *from,
                            const struct kv_item *to);

/* Number of flushes whose items may still be in the index. */
uint64_t kv_flushes_behind(const struct kv *kv);

/* Housekeeping: a bounded part of the purge of flushed items. */
void kv_purge_step(struct kv_worker *worker);

/* ---- sweep.c ----------------------------------------------------------------------------- */

/* Housekeeping: a bounded part of the sweep for expired items. */
void kv_sweep_step(struct kv_worker *worker);

/* Starts a scan a segment with expired items, if the next segments_max segments have one. */
bool kv_sweep_begin(struct kv_worker *worker, uint32_t segments_max);

static inline void kv_class_count(struct kv_worker *worker, unsigned class,
                                  enum kv_class_counter counter, uint64_t value)
{
    kv_u64_count(&worker->classes[class].counters[counter], value);
}

/* Changes the gauges by an item of that class: 1 adds it, UINT64_MAX takes it off. */
static inline void kv_count_live(struct kv_worker *worker, unsigned class, uint64_t change,
                                 uint64_t bytes, uint64_t size)
{
    kv_count(worker, KV_COUNT_BYTES, bytes * change);
    kv_class_count(worker, class, KV_CLASS_ITEMS, change);
    kv_class_count(worker, class, KV_CLASS_SIZES, size * change);
}

/* The size of an item as config.sizes counts it. */
static inline uint64_t kv_item_size(const struct kv *kv, const struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    uint32_t flags = (kv_status_marks(status) & KV_MARK_FLAGS) ? kv_item_flags(item) : 0;
    return kv_sizes_of(&kv->config.sizes, kv_status_key_len(status), flags,
                       kv_item_value_len(item, status));
}

/* Whether an item with that status is valid, expired or flushed. */
static inline enum kv_found kv_status_validity(const struct kv_worker *worker,
                                               const struct kv_item *item, uint64_t status)
{
    uint64_t generation = kv_u64_load_relaxed(&worker->kv->generation);
    if (U_UNLIKELY(kv_status_generation(status) != kv_generation_tag(generation)) &&
        !kv_generation_is_current(worker->kv, item, status, generation))
        return KV_MISS_FLUSHED;
    uint32_t exptime = kv_status_exptime(status);
    if (U_UNLIKELY(exptime != 0 && exptime <= worker->now_s))
        return KV_MISS_EXPIRED;
    return KV_HIT;
}

/*
 * Whether an item with that status is valid, has a key of that length, and no marks: then key and
 * value follow the header. One comparison decides for an item that never expires. In a wide table
 * this is false for all items: the generation tag sets all bits of the marks, which no item has.
 */
static inline bool kv_status_is_unmarked(const struct kv_worker *worker, uint64_t status,
                                         uint32_t key_len)
{
    const unsigned inline_len_bits = 64 - KV_STATUS_INLINE_LEN_SHIFT;
    unsigned tag = kv_generation_tag(kv_u64_load_relaxed(&worker->kv->generation));
    uint64_t wanted =
        (uint64_t)key_len << KV_STATUS_KEY_LEN_SHIFT | (uint64_t)tag << KV_STATUS_GENERATION_SHIFT;
    uint64_t differs = (status ^ wanted) << inline_len_bits;
    return U_LIKELY(differs == 0) ||
           (differs >> (inline_len_bits + 32) == 0 && kv_status_exptime(status) > worker->now_s);
}

/*
 * Finds a short item by the key's hint only: one without client flags, marks and long length, valid
 * and not an older flush's. False says nothing: the key may be there as another kind of item.
 */
static inline bool kv_find_short(const struct kv_worker *worker, const struct kv_key *key,
                                 struct kv_find *find)
{
    if (U_UNLIKELY(!kv_hint_holds(key)))
        return false;
    find->slot = (kv_atomic_u64 *)(uintptr_t)key->hint.at;
    find->word = key->hint.word;
    find->item = kv_word_item(&worker->kv->index, key->hint.word);
    find->status = kv_item_status(find->item);
    find->key = (const uint8_t *)find->item + KV_HEADER_BYTES;
    return U_LIKELY(kv_status_is_unmarked(worker, find->status, key->len) &&
                    kv_status_inline_len(find->status) != KV_INLINE_LEN_NONE &&
                    u_equal_short(find->key, key->bytes, key->len));
}

/* The access word after one more counted access. */
static inline uint32_t kv_access_counted(const struct kv_worker *worker, uint32_t access)
{
    unsigned more = kv_access_freq(access) < worker->freq_max;
    return access + (more << KV_ACCESS_FREQ_SHIFT);
}

/* The access word that a further fetch in this second does not change. */
static inline uint32_t kv_access_saturated(const struct kv_worker *worker)
{
    return kv_access_make(worker->now_s,
                          worker->freq_max << KV_ACCESS_FREQ_SHIFT | KV_ACCESS_FETCHED);
}

static inline uint32_t kv_access_fetched(const struct kv_worker *worker, uint32_t access)
{
    uint32_t bits = kv_access_counted(worker, access) & KV_ACCESS_BITS;
    return kv_access_make(worker->now_s, bits | KV_ACCESS_FETCHED);
}

/* ---- resize.c ---------------------------------------------------------------------------- */

/* Layout of the memory, for the first limit and for the highest that can be set. */
struct kv_layout {
    unsigned index_power; /* of the first table */
    unsigned index_power_max;
    unsigned index_power_open; /* tables up to this power are accessible at the start */
    unsigned segment_shift;
    uint32_t count;
    uint32_t count_max;
    uint64_t overflow_offset; /* from the start of the memory, where the tables' heads are */
    uint64_t headers_offset;  /* of segments */
    uint64_t segments_offset;
    uint64_t bytes_max;
};

/* Computes the layout. Returns null, or a phrase saying what is wrong with the configuration. */
const char *kv_layout_plan(const struct kv_config *config, struct kv_layout *layout);

/* Sets the offsets and bytes_max from index_power_max, segment_shift and count_max. */
void kv_layout_place(struct kv_layout *layout);

/* Whether so many segments are enough for the workers. */
bool kv_layout_has_enough(const struct kv_config *config, uint32_t segments);

/* The longest value that a head in a segment of that size can describe. */
uint64_t kv_layout_value_bytes_max(unsigned segment_shift);

/* Sets the values derived from the number of segments. The index may be uninitialized. */
void kv_limit_derive(struct kv *kv, uint32_t segments);

/* Bytes of the ghost queue; 0 if the policy has none. */
uint64_t kv_ghosts_bytes(const struct kv_config *config);

/* The limit, bounded by memory_bytes_max. */
uint64_t kv_memory_bound(const struct kv *kv);

/* Sets the number of wanted segments from the limit. False if the system refuses the memory. */
bool kv_limit_follow(struct kv *kv);

/* Sets the bytes that the index may use; segments are withdrawn or admitted accordingly. */
void kv_budget_set(struct kv *kv, uint64_t index_bytes);

/* Whether segments of so many bytes could be withdrawn; unless may_evict, free ones only. */
bool kv_budget_allows(const struct kv *kv, uint64_t bytes, bool may_evict);

/* Brings a segment into service if fewer are than wanted. False if not, or without memory. */
bool kv_resize_admit(struct kv *kv);

/* Housekeeping: admits or withdraws a bounded number of segments to reach the limit. */
void kv_resize_step(struct kv_worker *worker);

/* Bound of the memory in use after resizing: the limit, or the table's minimum if larger. */
uint64_t kv_memory_used_max(const struct kv *kv);

/* ---- stats.c ----------------------------------------------------------------------------- */

/* Sums of one counter over all workers. */
uint64_t kv_counter_sum(const struct kv *kv, enum kv_counter counter);
uint64_t kv_class_counter_sum(const struct kv *kv, unsigned class, enum kv_class_counter counter);

#endif
