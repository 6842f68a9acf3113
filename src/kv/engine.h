/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's two structs, and what its files offer each other beyond their own headers.
 *
 *   kv.c       create, destroy, join, leave, time, quiesce
 *   lookup.c   get, peek, value, pins          update.c   decisions carried out
 *   item.c     making items                    log.c      appending records to segments
 *   index.c    the hash table                  segment.c  the memory under the logs
 *   epoch.c    grace periods                   evict.c    making room; moving items
 *   sweep.c    expired and flushed items       resize.c   the memory limit
 *   scan.c     walks over all items            sizes.c    size classes
 *   hash.c     the hash of keys                grow.c     the hash table becomes larger
 *   overflow.c buckets for crowded chains      memory.c   addresses, pages, nodes
 *   touch.c    a thread that touches memory before the workers do
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "base/base.h"
#include "base/prng.h"
#include "kv/epoch.h"
#include "kv/ghost.h"
#include "kv/hash.h"
#include "kv/index.h"
#include "kv/item.h"
#include "kv/kv.h"
#include "kv/memory.h"
#include "kv/poison.h"
#include "kv/policy.h"
#include "kv/segment.h"
#include "kv/touch.h"

/* ---- counters ---------------------------------------------------------------------------- */

/* Each is written by its worker only. Gauges are differences: only their sum means something. */
enum kv_counter {
    KV_COUNT_BYTES_LINKED = 0, /* live bytes = linked - unlinked */
    KV_COUNT_BYTES_UNLINKED,
    KV_COUNT_PINS,
    KV_COUNT_UNPINS,
    KV_COUNT_RETRIES, /* from here on `stats reset` applies */
    KV_COUNTERS
};

/* The same by size class; the sum over the classes is the table's. */
enum kv_class_counter {
    KV_CLASS_LINKED = 0,
    KV_CLASS_UNLINKED,
    KV_CLASS_SIZES_LINKED, /* sizes as config.sizes counts them */
    KV_CLASS_SIZES_UNLINKED,
    KV_CLASS_PUBLISHED, /* as LINKED; but from here on `stats reset` applies */
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
    kv_atomic_u64 last_evicted; /* when << 32 | seconds since its last access */
};

/* ---- worker ------------------------------------------------------------------------------ */

/*
 * Open segments of a worker: one for each pool, and in each pool one for each class of times of
 * expiry, so that what expires together lies together. Most are never opened.
 */
#define KV_TTL_CLASSES 8
#define KV_LOGS (KV_POOLS * KV_TTL_CLASSES)

enum kv_purpose {
    KV_FOR_NEW,  /* a new item: may evict, and leaves the last free segments alone */
    KV_FOR_MOVED /* one on the move: may take the last, never makes others move */
};

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
    uint32_t at;      /* next record: bytes from the segment's front */
    uint32_t records; /* so far */
    enum kv_pool pool;
    bool spares; /* something stays in the segment that was worth keeping: it goes to spares_to */
    enum kv_pool spares_to;
};

/* Overflow buckets in reserve, for the table of that power. */
struct kv_spares {
    unsigned power;
    unsigned count;
    uint32_t link[KV_CHAIN_BUCKETS_MAX];
};

/* Overflow buckets that the worker has taken out of their chains. */
#define KV_CUT_MAX 256
struct kv_cut {
    unsigned power; /* of the table */
    unsigned count;
    unsigned waiting; /* the first so many of them, for the grace period of `retired` */
    uint64_t retired;
    uint32_t link[KV_CUT_MAX];
};

struct kv_worker {
    _Alignas(U_LINE_BYTES) struct kv *kv;
    struct kv_epoch_member *member;
    uint32_t *seen;     /* by segment: turn of the last view into it (struct kv_segment_reader) */
    uint32_t turn;      /* changes when the worker holds no view */
    uint32_t view_turn; /* that the worker has last looked at something in */
    uint32_t now_s;
    uint32_t log[KV_LOGS];    /* open segments; KV_SEGMENT_NONE */
    uint64_t untold[KV_LOGS]; /* what their usage does not say yet, modulo 2^64 */
    unsigned log_last;        /* that something was appended to */
    uint64_t found_hash;      /* of the key that was last found to be stored anew, */
    kv_atomic_u64 *found_at;  /* and the slot it was in; null: quiescent since */
    struct kv_walk walk;
    uint64_t rescue_bytes; /* that eviction may move: earned by what it evicts (evict.c) */
    unsigned freq_max;     /* up to which accesses are counted */
    uint32_t access_most;  /* kv_access_most() */
    bool urgent;           /* nothing is spared, expired items come last (evict.c) */
    uint64_t waited_for;   /* announcement of another worker that was waited for in vain */
    struct u_prng lots;
    struct kv_spares spares[2]; /* by the lowest bit of the table's power */
    struct kv_cut cut;
    uint64_t inserted;     /* new keys since this worker has last looked at the load */
    unsigned move_turn;    /* which of the next chains to move (grow.c) */
    uint32_t compact_next; /* segment at which the search for dead bytes goes on */
    uint32_t sweep_s;      /* second whose sweep this worker has seen to the end */
    uint64_t cas_next;     /* [next, end): numbers that no other worker gives out */
    uint64_t cas_end;
    kv_atomic_u32 joined;
    kv_evicted *evicted; /* null: nobody wants to know */
    void *evicted_ctx;
    kv_atomic_u64 *buckets; /* by bucket of size: linked - unlinked, modulo 2^64; or null */
    _Alignas(U_LINE_BYTES) kv_atomic_u64 counters[KV_COUNTERS];
    _Alignas(U_LINE_BYTES) struct kv_class classes[KV_CLASSES_MAX];
};

/* ---- table ------------------------------------------------------------------------------- */

struct kv {
    struct kv_config config;
    struct kv_memory memory;
    struct kv_hash hash;
    struct kv_index index;
    struct kv_segments segments;
    const struct kv_policy *policy;
    struct kv_ghost ghost;
    uint64_t ghosts_bytes;
    uint32_t small_bytes_max;    /* longest record of a small item */
    uint32_t segments_count_max; /* that there are addresses for */
    struct kv_lock limit_lock;   /* one change of the limit at a time */
    struct kv_touch touch;

    /* Follow from the memory limit (resize.c). */
    kv_atomic_u64 memory_limit_bytes; /* as asked for */
    kv_atomic_u64 value_bytes_max;    /* longest value that fits */
    kv_atomic_u32 floor_segments;     /* for the rescue of items: new items leave these alone */
    kv_atomic_u32 ttl_classes;        /* 1, if there are segments enough for them */
    kv_atomic_u32 reserve_segments;   /* free or soon free: what housekeeping keeps up */

    struct kv_worker *workers;
    struct kv_epoch_member *members;
    struct kv_epoch epoch;

    /* Flushes so far; an item is valid in its own only. */
    _Alignas(U_LINE_BYTES) kv_atomic_u32 generation;
    _Alignas(U_LINE_BYTES) kv_atomic_u64 cas_next; /* first number of the next worker's range */

    /* The purge of flushed items (sweep.c). */
    _Alignas(U_LINE_BYTES) struct kv_lock purge_lock;
    kv_atomic_u32 purged;  /* no item of an older generation than this is linked */
    uint32_t purge_target; /* what `purged` becomes when purge_bucket has reached the end */
    uint64_t purge_position;
    uint64_t purge_retired; /* number of kv_epoch_retire() that the purge waits for; 0: none */

    /* The sweep for expired items: one pass over all segments per second, shared by all workers. */
    _Alignas(U_LINE_BYTES) kv_atomic_u32 sweep_s; /* the second that sweep_next belongs to */
    kv_atomic_u32 sweep_next;                     /* next segment to look at */

    /* Sums at the last kv_stats_reset(). */
    kv_atomic_u64 stats_base[KV_COUNTERS];
    struct kv_class class_base[KV_CLASSES_MAX];
};

static inline void kv_count(struct kv_worker *worker, enum kv_counter counter, uint64_t value)
{
    kv_u64_count(&worker->counters[counter], value);
}

/*
 * How many times as much as usual has to be done of what the index needs to grow, in one loop of a
 * worker that has inserted so many items: the present table has to be left before its overflow
 * buckets are used up, and the larger one must not be crowded before it is the table.
 */
#define KV_TURNS_MAX 256
static inline unsigned kv_turns_due(uint64_t inserted, unsigned inserts_each)
{
    return (unsigned)u_min64(1 + inserted / inserts_each, KV_TURNS_MAX);
}

static inline uint32_t kv_floor_segments(const struct kv *kv)
{
    return kv_u32_load_relaxed(&kv->floor_segments);
}

/* Index, ghosts, and headers of the segments that have ever been in service. */
static inline uint64_t kv_fixed_bytes(const struct kv *kv)
{
    return kv_u64_load_relaxed(&kv->index.bytes) + kv->ghosts_bytes +
           (uint64_t)kv_segments_count(&kv->segments) * sizeof(struct kv_segment);
}

/* ---- log.c ------------------------------------------------------------------------------- */

/* The worker's log for a pool and a time of expiry (0: never). */
unsigned kv_log_of(const struct kv_worker *worker, enum kv_pool pool, uint32_t exptime);

/*
 * Room for a record of `bytes` at the end of the worker's log, with one hold on its segment; null
 * if there is no segment to be had.
 */
void *kv_log_append(struct kv_worker *worker, unsigned log, enum kv_purpose purpose,
                    uint32_t bytes);

/* How much room the open segment has; 0 if there is none. */
static inline uint32_t kv_log_room(const struct kv_worker *worker, unsigned log)
{
    const struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[log];
    return index == KV_SEGMENT_NONE ? 0 : kv_segments_bytes(segments) - segments->array[index].used;
}

/* The next `bytes`, for which there is room, with one hold on the segment. */
static inline void *kv_log_next(struct kv_worker *worker, unsigned log, uint32_t bytes)
{
    struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[log];
    struct kv_segment *segment = &segments->array[index];
    uint8_t *record = kv_segment_base(segments, index) + segment->used;
    segment->used += bytes;
    kv_unpoison(record, bytes);
    worker->untold[log] += KV_SEGMENT_HOLD;
    worker->log_last = log;
    return record;
}

/*
 * Sees to it that the open segment has room for `bytes` more, and returns how much room it has;
 * 0 if there is no segment to be had.
 */
uint32_t kv_log_reserve(struct kv_worker *worker, unsigned log, enum kv_purpose purpose,
                        uint32_t bytes);

/*
 * Gives an unpublished record back: drops its hold, and takes the bytes back where it is the last
 * of the worker's open segment.
 */
void kv_log_drop(struct kv_worker *worker, void *record, uint32_t bytes);

/* Frees retired segments that neither this worker nor another can still read. Returns how many. */
uint32_t kv_log_reclaim(struct kv_worker *worker, uint32_t look_max);

/* Seals the open segment, if there is one. */
void kv_log_close(struct kv_worker *worker, unsigned log);

/*
 * Changes the usage of the segment of a record that this worker has appended, modulo 2^64: what a
 * hold and live bytes are exchanged by.
 */
void kv_log_change(struct kv_worker *worker, uint32_t segment, uint64_t change);

/* Takes something off the usage of any segment. */
static inline void kv_log_subtract(struct kv_worker *worker, uint32_t segment, uint64_t usage)
{
    if (worker->log[worker->log_last] == segment)
        worker->untold[worker->log_last] -= usage;
    else
        kv_segment_subtract(&worker->kv->segments, segment, usage);
}

/* ---- evict.c ----------------------------------------------------------------------------- */

/* Readies a worker that joins. */
void kv_evict_init(struct kv_worker *worker);

/* The pool and the count of accesses that an item starts with which is about to be stored. */
struct kv_start {
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

struct kv_start kv_evict_start(struct kv_worker *worker, const struct kv_key *key);

/* Whether what an item starts with depends on what is known of its key. */
static inline bool kv_evict_remembers(const struct kv *kv)
{
    return kv->policy->remembers && kv->config.evict;
}

/* The same for one that takes the place of this item: to be stored again counts as an access. */
static inline struct kv_start kv_evict_start_over(const struct kv_worker *worker,
                                                  const struct kv_item *old)
{
    struct kv_start start = {KV_POOL_MAIN, 0};
    if (kv_evict_remembers(worker->kv)) {
        start.pool = kv_evict_pool(worker, old);
        start.freq = u_min32(kv_item_freq(old) + 1, worker->kv->policy->freq_max);
    }
    return start;
}

/*
 * Before a new item of so many bytes is made: does a bounded part of the eviction that its room
 * costs, unless enough is free.
 */
void kv_evict_pay(struct kv_worker *worker, uint64_t bytes);

/* Whether so much is free that it would do nothing. */
bool kv_evict_is_paid(const struct kv *kv);

/*
 * Sees to it that a segment is free for new items: by reclaiming, by evicting, or by waiting a
 * little if all depends on other workers' quiescent states. False if nothing helps.
 */
bool kv_evict_make_free(struct kv_worker *worker);

/* Housekeeping: goes on with a walk or starts one if free segments are few. At most `records`. */
void kv_evict_step(struct kv_worker *worker, unsigned records);

/* Takes the next `records` of the current walk; ends it when it is through. */
void kv_walk_step(struct kv_worker *worker, unsigned records);

/* Claims a segment and starts a walk. False if it can't be claimed. No walk may be going on. */
bool kv_walk_begin(struct kv_worker *worker, uint32_t segment, enum kv_walk_mode mode);

/* Gives up the current walk, if any. */
void kv_walk_end(struct kv_worker *worker);

/* ---- item.c, lookup.c -------------------------------------------------------------------- */

enum kv_end {
    KV_END_REPLACED,
    KV_END_DELETED,
    KV_END_EXPIRED,
    KV_END_FLUSHED,
    KV_END_CRAWLED, /* was over when kv_crawl() came by */
    KV_END_EVICTED
};

/* Accounts for an item that the caller has just published. */
void kv_linked(struct kv_worker *worker, const struct kv_item *item);

/* Accounts for an item that the caller has just removed from the index. */
void kv_unlinked(struct kv_worker *worker, const struct kv_item *item, enum kv_end end);

/*
 * Removes an item that is over from the index, if `word` still leads to it and nobody has touched
 * it meanwhile. True if it was this call: the caller then accounts for it.
 */
bool kv_unlink_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash,
                       uint64_t word);

/* The same, and accounts for it as kv_item_validity() found it to be over. */
void kv_remove_invalid(struct kv_worker *worker, struct kv_item *item, uint64_t hash, uint64_t word,
                       enum kv_found found);

/* `status` is what kv_item_status() said of the item. */
void kv_view_fill(struct kv_view *view, const struct kv_item *item, uint64_t status);

U_STATIC_ASSERT((int)KV_ACCESS_FETCHED == (int)KV_FETCHED, kv_fetched_is_the_same_bit);

/* The same of what a search has found. */
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

/* kv_item_mark_seen() for what a search has found. */
static inline void kv_found_mark_seen(struct kv_worker *worker, const struct kv_find *find)
{
    if (U_UNLIKELY(kv_status_marks(find->status) & KV_MARK_LARGE)) {
        kv_item_mark_seen(worker, find->item);
    } else {
        worker->view_turn = worker->turn;
        worker->seen[kv_segment_of(&worker->kv->segments, find->item)] = worker->turn;
    }
}

/*
 * Finds a key that is to be stored; remembers where, as it is looked for again to be published.
 * The slot stays one of the index, and of this key's chains, until the worker is quiescent.
 */
static inline bool kv_find_to_store(struct kv_worker *worker, const struct kv_key *key,
                                    struct kv_find *find)
{
    if (worker->found_hash == key->hash &&
        kv_index_search_slot(&worker->kv->index, worker->found_at, key, find))
        return true;
    if (!kv_index_search(&worker->kv->index, key, find))
        return false;
    worker->found_hash = key->hash;
    worker->found_at = find->slot;
    return true;
}

/* ---- quiescence -------------------------------------------------------------------------- */

/* Announces a quiescent state: the slot that was found may be part of anything from now on. */
static inline void kv_announce(struct kv_worker *worker)
{
    worker->found_at = U_NULL;
    kv_epoch_announce(&worker->kv->epoch, worker->member);
}

/* The same for longer. */
static inline void kv_go_offline(struct kv_worker *worker)
{
    worker->found_at = U_NULL;
    kv_epoch_offline(worker->member);
}

/* ---- sweep.c ----------------------------------------------------------------------------- */

/* Housekeeping: a bounded part of the search for expired and for flushed items. */
void kv_sweep_step(struct kv_worker *worker);

/*
 * Starts to walk through a segment with items that have expired, if there is one among the next
 * few that this second's search comes to.
 */
bool kv_sweep_begin(struct kv_worker *worker, uint32_t segments_max);

static inline void kv_class_count(struct kv_worker *worker, unsigned class,
                                  enum kv_class_counter counter, uint64_t value)
{
    kv_u64_count(&worker->classes[class].counters[counter], value);
}

/* The size of an item as config.sizes counts it. */
static inline uint64_t kv_item_size(const struct kv *kv, const struct kv_item *item)
{
    uint64_t status = kv_item_status(item);
    uint32_t flags = (kv_status_marks(status) & KV_MARK_FLAGS) ? kv_item_flags(item) : 0;
    return kv_sizes_of(&kv->config.sizes, kv_status_key_len(status), flags,
                       kv_item_value_len(item, status));
}

/* Has its time come, or was it stored before the last flush? */
static inline enum kv_found kv_status_validity(const struct kv_worker *worker, uint64_t status)
{
    uint8_t generation = (uint8_t)kv_u32_load_relaxed(&worker->kv->generation);
    if (U_UNLIKELY(kv_status_generation(status) != generation))
        return KV_MISS_FLUSHED;
    uint32_t exptime = kv_status_exptime(status);
    if (U_UNLIKELY(exptime != 0 && exptime <= worker->now_s))
        return KV_MISS_EXPIRED;
    return KV_HIT;
}

/*
 * Whether an item with that status is valid, has a key of that length, and no mark: then key and
 * value follow the header. Mostly it never expires either, and one comparison says it all.
 */
static inline bool kv_status_is_plain(const struct kv_worker *worker, uint64_t status,
                                      uint32_t key_len)
{
    const unsigned near_len_bits = 64 - KV_STATUS_NEAR_LEN_SHIFT;
    uint8_t generation = (uint8_t)kv_u32_load_relaxed(&worker->kv->generation);
    uint64_t wanted = (uint64_t)key_len << KV_STATUS_KEY_LEN_SHIFT |
                      (uint64_t)generation << KV_STATUS_GENERATION_SHIFT;
    uint64_t differs = (status ^ wanted) << near_len_bits;
    return U_LIKELY(differs == 0) ||
           (differs >> (near_len_bits + 32) == 0 && kv_status_exptime(status) > worker->now_s);
}

/* The access word of an item that counts as accessed once more; and of one that is fetched. */
static inline uint32_t kv_access_counted(const struct kv_worker *worker, uint32_t access)
{
    unsigned more = kv_access_freq(access) < worker->freq_max;
    return access + (more << KV_ACCESS_FREQ_SHIFT);
}

/* What the access word of an item is that is fetched often: fetching it again changes nothing. */
static inline uint32_t kv_access_most(const struct kv_worker *worker)
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

/* How the table is laid out for a limit, and for the highest limit that it can ever have. */
struct kv_layout {
    unsigned index_power; /* of the first table */
    unsigned index_power_max;
    unsigned index_power_open; /* up to which tables are accessible from the beginning */
    unsigned segment_shift;
    uint32_t count;
    uint32_t count_max;
    uint64_t overflow_offset; /* from the heads of tables, with which the memory begins */
    uint64_t headers_offset;  /* of segments */
    uint64_t segments_offset;
    uint64_t bytes_max;
};

/* Null, or what is wrong with the configuration. */
const char *kv_layout_plan(const struct kv_config *config, struct kv_layout *layout);

/* Sets what follows from so many segments. The index need not be there yet. */
void kv_limit_derive(struct kv *kv, uint32_t segments);

/* What the ghosts of evicted items take of the memory; 0 if the policy has none. */
uint64_t kv_ghosts_bytes(const struct kv_config *config);

/* The limit, or what there are addresses for if that is less. */
uint64_t kv_memory_bound(const struct kv *kv);

/* Says what the index wants of the memory; the segments give up or get the difference. */
void kv_budget_set(struct kv *kv, uint64_t index_bytes);

/*
 * Whether the segments could give up so many bytes; unless may_evict, without an item having to go.
 */
bool kv_budget_allows(const struct kv *kv, uint64_t bytes, bool may_evict);

/* Housekeeping: a bounded part of what remains to be done for a changed limit. */
void kv_resize_step(struct kv_worker *worker);

/*
 * What the memory in use may be when nothing remains to be done: the limit, or a little more where
 * the limit is below what the table can't do without.
 */
uint64_t kv_settled_limit_bytes(const struct kv *kv);

/* ---- stats.c ----------------------------------------------------------------------------- */

/* The sums of one counter over all workers. */
uint64_t kv_counter_sum(const struct kv *kv, enum kv_counter counter);
uint64_t kv_class_counter_sum(const struct kv *kv, unsigned class, enum kv_class_counter counter);

#endif
