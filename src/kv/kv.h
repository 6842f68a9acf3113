/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key-value engine: one table, shared by all workers of a process.
 *
 * The engine stores immutable items: key, value bytes, client flags, and a few words of metadata.
 * It knows nothing of memcached's commands. Whatever changes an item is written as a pure decision
 * (kv_update) which the engine repeats if another worker was faster.
 *
 * Who may hold what, and how long:
 *   struct kv_worker   one per thread, used by that thread only.
 *   struct kv_view     what a lookup found; its pointers are good until the worker's next
 *                      kv_quiesce(), kv_views_done() or kv_offline(). No lock is held meanwhile.
 *   a pin              keeps the bytes of one item readable for longer (zero-copy sending), until
 *                      kv_unpin(); any worker may unpin.
 *   an unpublished     item belongs to the worker that made it until kv_update() has published it
 *                      or kv_item_drop() has given it back; it may be held across kv_quiesce().
 *
 * Time is in whole seconds since the start of the process, told by kv_tick(); exptime 0 means
 * never. An item is gone as soon as exptime <= now.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/sizes.h"

struct kv;
struct kv_worker;
struct kv_item;

#define KV_KEY_MAX 250
#define KV_SECRET_BYTES 16

/* What is evicted when the memory is full; policy.h. */
enum kv_policy_kind { KV_POLICY_S3FIFO = 0, KV_POLICY_CLOCK, KV_POLICY_RANDOM, KV_POLICIES };

/* "s3fifo", "clock", "random". */
const char *kv_policy_name(enum kv_policy_kind kind);

struct kv_config {
    uint64_t memory_bytes;           /* hard bound on items and index together; at least 1 MiB */
    uint64_t memory_bytes_max;       /* highest limit that can be set later; 0: memory_bytes */
    uint32_t value_bytes_max;        /* longest value that may ever be stored */
    unsigned worker_max;             /* workers that may be joined at the same time */
    bool evict;                      /* false: an allocation fails instead of evicting (-M) */
    enum kv_policy_kind policy;      /* if it evicts */
    bool huge_pages;                 /* items in reserved huge pages, where there are enough */
    uint64_t numa_nodes;             /* of the workers' cores, a bit each; 0: as the system likes */
    uint64_t touch_ahead_bytes;      /* free memory that a thread touches ahead; 0: no thread */
    uint8_t secret[KV_SECRET_BYTES]; /* unpredictable: key of the hash */
    struct kv_sizes sizes;           /* for the statistics; kv_create() fills its table in */
};

/*
 * Makes an empty table. All memory is reserved here and touched as it is used, or a little ahead.
 * Returns null with *error set to a phrase that says what failed and what to do. With huge_pages:
 * no other thread may map memory meanwhile.
 */
struct kv *kv_create(const struct kv_config *config, const char **error);

/* What the items' memory is made of. */
enum kv_pages {
    KV_PAGES_SMALL = 0, /* ordinary pages */
    KV_PAGES_ADVISED,   /* huge ones where the system can and wants to */
    KV_PAGES_HUGE       /* huge ones that were set aside; they never go back to the system */
};

struct kv_placement {
    enum kv_pages pages;
    uint64_t huge_bytes; /* that were wanted, or are, in reserved huge pages */
    int huge_error;      /* 0, or why there are none: an errno value */
    int numa_error;      /* 0, or why the memory is not spread over the nodes: an errno value */
};

/* Where the memory has come from. Does not change. */
void kv_placement(const struct kv *kv, struct kv_placement *placement);

/* Frees everything. All workers have left, nothing is pinned or unpublished any more. */
void kv_destroy(struct kv *kv);

/*
 * Changes the hard bound while all goes on. A higher one holds at once, as far as memory_bytes_max
 * allows. A lower one is reached in bounded steps that the workers do in
 * kv_quiesce(): items are evicted (if the table evicts at all) and their pages go back to the
 * system, but for the index and a few segments for each worker. False, and all is as it was, if the
 * system refuses the memory.
 */
bool kv_memory_limit_set(struct kv_worker *worker, uint64_t bytes);

/* Whether workers with nothing else to do should come to kv_quiesce() soon, for the limit's sake.
 */
bool kv_is_resizing(const struct kv *kv);

/* ---- workers ----------------------------------------------------------------------------- */

/* Registers the calling thread. Null if worker_max are registered. */
struct kv_worker *kv_join(struct kv *kv);
void kv_leave(struct kv_worker *worker);

/*
 * The time has come to now_s. Cheap; called once per loop. It may also be set back, to try things
 * out: what has been reclaimed stays so.
 */
void kv_tick(struct kv_worker *worker, uint32_t now_s);

/*
 * "I hold no view": announces a quiescent state, and does a bounded quantum of housekeeping
 * (reclaiming retired memory, expiring, keeping free memory in reserve). Once per loop.
 */
void kv_quiesce(struct kv_worker *worker);

/*
 * "I hold no view", to the worker itself only: its own evictions may be reused at once again. Costs
 * one addition; to be called between two requests of one loop, before something is stored.
 */
void kv_views_done(struct kv_worker *worker);

/* Around a blocking wait: an offline worker holds no view and does not delay reclamation. */
void kv_offline(struct kv_worker *worker);
void kv_online(struct kv_worker *worker);

/* ---- keys -------------------------------------------------------------------------------- */

struct kv_key {
    const uint8_t *bytes;
    uint32_t len; /* 1..KV_KEY_MAX */
    uint64_t hash;
    const void *place; /* where a prefetch has looked for it, or null: the engine's */
    uint64_t word;     /* what it has found there, or 0 */
};

/* Hashes a key. The bytes stay the caller's and must outlive the use of the kv_key. */
struct kv_key kv_key(const struct kv *kv, const void *bytes, uint32_t len);

/*
 * Hints for a batch of lookups: fetch the bucket; then, some keys later, the first two lines of the
 * item; then, as much later, its other lines, if kv_prefetch_item() has returned one. What
 * it returns is no more than likely to be the key's item, is there for kv_prefetch_value() only,
 * and for as long as a view's pointers. No effect but that `place` remembers what was found, so
 * that kv_get() need not look for it again: what has happened to the key meanwhile does not matter.
 */
void kv_prefetch_bucket(const struct kv_worker *worker, struct kv_key *key);
const struct kv_item *kv_prefetch_item(const struct kv_worker *worker, struct kv_key *key);
void kv_prefetch_value(const struct kv_item *item);

/* A hint that an item is about to be stored: fetches what will probably be written first. */
void kv_prefetch_log(const struct kv_worker *worker);

/* ---- lookup ------------------------------------------------------------------------------ */

/* Bits of kv_view.state. The engine sets FETCHED; the others mean something to the caller only. */
enum kv_state {
    KV_FETCHED = 1 << 0, /* was returned by kv_get() since it was stored */
    KV_STALE = 1 << 1,
    KV_WON = 1 << 2,
    KV_KEY_BINARY = 1 << 3
};

struct kv_view {
    const struct kv_item *item;
    const uint8_t *key;
    const uint8_t *value; /* null if it is not one extent: see kv_value() */
    uint32_t key_len;
    uint32_t value_len;
    uint32_t flags; /* the client's */
    uint32_t exptime;
    uint32_t last_access;
    uint32_t state; /* enum kv_state, as it was before this lookup */
    uint64_t cas;
};

enum kv_found {
    KV_MISS = 0,
    KV_HIT,
    KV_MISS_EXPIRED, /* there was one, but its time is over */
    KV_MISS_FLUSHED  /* there was one from before kv_flush() */
};

/* Looks a key up, counts as an access (FETCHED, last access, eviction policy). */
enum kv_found kv_get(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view);

/*
 * What most lookups find: an item without flags whose value is short. To be used before the worker
 * asks the engine for anything else.
 */
struct kv_short {
    const uint8_t *value;
    uint32_t value_len; /* at most KV_SHORT_MAX */
};

#define KV_SHORT_MAX 254

/*
 * kv_get() for a key whose place is known, if what is there is of that kind and the key not long.
 * False: nothing was done, and kv_get() is to be asked.
 */
bool kv_get_short(struct kv_worker *worker, const struct kv_key *key, struct kv_short *found);

/* The same without counting as an access. */
enum kv_found kv_peek(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view);

/* Makes the eviction take the key for one that was just accessed; nothing else shows it. */
void kv_spare(struct kv_worker *worker, const struct kv_key *key);

/*
 * The value's bytes from `offset` on (offset < value_len), as many as are contiguous: *len. A
 * value is one extent or, when it is large, several.
 */
const uint8_t *kv_value(const struct kv_item *item, uint32_t offset, uint32_t *len);

/* Keeps the item's bytes readable until kv_unpin(), whatever happens to the key. */
void kv_pin(struct kv_worker *worker, const struct kv_item *item);
void kv_unpin(struct kv_worker *worker, const struct kv_item *item);

/* ---- change ------------------------------------------------------------------------------ */

enum kv_error {
    KV_OK = 0,
    KV_TOO_LARGE = -1, /* value_len is over value_bytes_max, or could never fit */
    KV_NO_MEMORY = -2  /* nothing can be evicted (or may be: evict is false); counted */
};

/*
 * Makes an unpublished item with room for value_len bytes. Evicts to make room. On failure returns
 * null with *error set.
 *
 * What can be evicted but not reused yet: memory that this worker has looked at since its last
 * kv_quiesce() or kv_views_done(), that another online worker might still look at, or that is
 * pinned or unpublished. The engine keeps a little memory free in reserve, and waits up to a tenth
 * of a second if it must, so that KV_NO_MEMORY comes only to a worker that looks at nearly all of
 * the memory while it stores, or while another online worker doesn't come to its kv_quiesce() at
 * all.
 */
struct kv_item *kv_item_new(struct kv_worker *worker, const struct kv_key *key, uint32_t value_len,
                            uint32_t flags, uint32_t exptime, enum kv_error *error);

/* The unpublished value's bytes from `offset` on, contiguous: *len. To be written once. */
uint8_t *kv_item_room(struct kv_item *item, uint32_t offset, uint32_t *len);

/* Gives an unpublished item another time of expiry. */
void kv_item_set_exptime(struct kv_worker *worker, struct kv_item *item, uint32_t exptime);

/* Gives an unpublished item back. */
void kv_item_drop(struct kv_worker *worker, struct kv_item *item);

enum kv_verdict {
    KV_KEEP = 0, /* change nothing */
    KV_REPLACE,  /* publish change->item (an insert if there is no old one) */
    KV_DELETE,
    KV_TOUCH, /* set exptime and state of the old item in place; value and cas stay. Counts as an
                 access if state has KV_FETCHED, unless `unseen` */
    KV_RENEW  /* the same, and gives it the cas of KV_REPLACE. The item goes if there is no memory
                 left for its copy, not even that which is kept for items on the move */
};

struct kv_change {
    struct kv_item *item; /* KV_REPLACE: made by kv_item_new() with the same key */
    uint64_t cas;     /* KV_REPLACE: the item's cas; 0: the engine gives a new one and says it */
    bool cas_given;   /* KV_REPLACE: the item's cas is what cas says, even if that is 0 */
    uint32_t exptime; /* KV_TOUCH; starts as the old one's */
    uint32_t state;   /* KV_TOUCH, KV_REPLACE; starts as the old one's, 0 if there is none */
    bool unseen;      /* KV_TOUCH: leave FETCHED and the time of the last access as they are */
};

/*
 * Says what is to become of a key. old is null if the key is not there (or expired, or flushed).
 * It may call kv_item_new(). Called again with the new old if the key changed meanwhile, so it must
 * not have effects other than in ctx and *change.
 */
typedef enum kv_verdict kv_decide(void *ctx, const struct kv_view *old, struct kv_change *change);

/*
 * Carries a decision out atomically and returns it. item and cas of *change are the caller's to set
 * before, or decide's. After KV_REPLACE the engine owns change->item, and change->cas is its cas:
 * unique over all keys and times, and larger than that of the item it replaced, unless decide gave
 * one for either. After any other verdict an item that decide made is still the caller's.
 * KV_DELETE, KV_TOUCH and KV_RENEW without an old item count as KV_KEEP.
 */
enum kv_verdict kv_update(struct kv_worker *worker, const struct kv_key *key, kv_decide *decide,
                          void *ctx, struct kv_change *change);

/*
 * What most stores are: a short value, without flags and state, in the place of one that is there.
 * Does what kv_item_new(), kv_item_room() and kv_update() with KV_REPLACE would do, for a key whose
 * place is known, if it holds such an item and nothing has to be evicted first. Returns the cas of
 * the new one; 0: nothing was done, and those are to be asked. The value is at most KV_SHORT_MAX
 * bytes long.
 */
uint64_t kv_replace_short(struct kv_worker *worker, const struct kv_key *key,
                          const struct kv_short *value, uint32_t exptime);

/* Makes every item stored so far a miss, in O(1). Items stored afterwards are not affected. */
void kv_flush(struct kv_worker *worker);

/* ---- walks over all items ---------------------------------------------------------------- */

/* Where a walk stands. Zero is the beginning. Any worker may go on with it. */
struct kv_cursor {
    uint64_t position;
};

/* A part of a walk: it ends with the chain in which either bound is reached. */
struct kv_quantum {
    uint32_t chains;
    uint32_t items; /* may be exceeded by those of one chain (63) */
};

/* The view is good during the call, which must not call the engine. */
typedef void kv_visit(void *ctx, const struct kv_view *view);

/*
 * Shows the next live items; does not count as an access. False when the walk is at its end. Items
 * that are there from the beginning of a walk to its end are shown exactly once.
 */
bool kv_scan(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
             kv_visit *visit, void *ctx);

/*
 * The same for a walk that takes the memory of expired and flushed items back, of the classes of
 * config.sizes whose bits are set.
 */
bool kv_crawl(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
              uint64_t classes);

/*
 * Has the evictions that this worker carries out told, as they happen; tell null: no more. The
 * view is good during the call, which must not call the engine.
 */
typedef void kv_evicted(void *ctx, const struct kv_view *view);
void kv_evicted_tell(struct kv_worker *worker, kv_evicted *tell, void *ctx);

/* ---- looking ----------------------------------------------------------------------------- */

struct kv_stats {
    uint64_t memory_limit_bytes;
    uint64_t memory_used_bytes; /* index and item memory in use; never above the limit */
    uint64_t index_bytes;
    uint64_t item_bytes;  /* live items: keys, values, overhead */
    uint64_t item_sizes;  /* live items: their sizes, as config.sizes counts them */
    uint64_t items;       /* live items */
    uint64_t items_total; /* ever published */
    uint64_t evictions;
    uint64_t evicted_unfetched;
    uint64_t evicted_active;    /* were fetched again since the eviction had last come by */
    uint64_t expired_reclaimed; /* expired items whose memory was taken back, not by kv_crawl() */
    uint64_t expired_unfetched;
    uint64_t crawl_checked;   /* items that kv_crawl() has looked at */
    uint64_t crawl_reclaimed; /* and those that were over */
    uint64_t no_memory;       /* kv_item_new() failures for lack of memory */
    uint64_t update_retries;  /* decisions repeated because another worker was faster */
    uint64_t pinned;          /* pins held now */
    unsigned hash_power;      /* log2 of the number of buckets */
    bool growing;             /* a table of twice as many is being filled */
    uint32_t growths;         /* how often that has been done */
    uint64_t epoch_lag;       /* retirements that the slowest online worker is behind */
    bool touch_thread;        /* there is a thread that touches memory ahead */
    uint64_t touched_bytes;   /* free memory for items that has been touched */
    uint32_t touched_ahead;   /* segments that the thread has touched */
    uint32_t touched_late;    /* segments that a worker took before */
};

/* Sums the workers' counters; exact when they stand still. Any thread may call it. */
void kv_stats(const struct kv *kv, struct kv_stats *stats);

/* The same for one size class of config.sizes. */
struct kv_class_stats {
    uint64_t items;
    uint64_t bytes;       /* sizes of the live items, as config.sizes counts them */
    uint64_t items_total; /* ever published, whatever `stats reset` says */
    uint64_t evicted;
    uint64_t evicted_nonzero; /* had an expiry time */
    uint64_t evicted_unfetched;
    uint64_t evicted_active;
    uint64_t expired_reclaimed;
    uint64_t expired_unfetched;
    uint64_t crawl_checked;
    uint64_t crawl_reclaimed;
    uint64_t no_memory;
    uint32_t evicted_idle_s; /* how long the last one evicted had not been accessed */
};

void kv_class_stats(const struct kv *kv, unsigned class, struct kv_class_stats *stats);

/* Live items of a bucket of config.sizes; 0 if they are not counted. */
uint64_t kv_bucket_items(const struct kv *kv, uint32_t bucket);

/* Zeroes what `stats reset` zeroes: counters, not gauges. */
void kv_stats_reset(struct kv *kv);

/* Checks all invariants while no worker runs: null, or a phrase that says what is broken. */
const char *kv_check(const struct kv *kv);

#endif
