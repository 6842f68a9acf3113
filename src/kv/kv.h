/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key-value engine: one table, shared by all workers of a process.
 *
 * The engine stores immutable items: key, value bytes, client flags and some metadata. It does not
 * know memcached's commands. A command that changes an item is a pure decision function (kv_decide)
 * that kv_update() calls again if another worker changed the key in the meantime.
 *
 * Lifetimes:
 *   struct kv_worker   one per thread, used by that thread only.
 *   struct kv_view     result of a lookup; its pointers are valid until the worker's next
 *                      kv_quiesce(), kv_release_views() or kv_offline(). It holds no lock.
 *   a pin              keeps the bytes of one item readable until kv_unpin(), which any worker may
 *                      call (zero-copy sending).
 *   an unpublished     item belongs to the worker that made it until kv_update() publishes it or
 *                      kv_item_drop() frees it; it survives kv_quiesce().
 *
 * Time is in whole seconds since process start, set by kv_tick(). exptime 0 is never; an item has
 * expired when exptime <= now.
 *
 * Unless a function says otherwise: pointers are not null, and the worker is online.
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

/* The registry of eviction policies, one row each; policy.h says how to add one. */
#define KV_POLICY_TABLE(ROW)                                                                       \
    ROW(S3FIFO, s3fifo)                                                                            \
    ROW(CLOCK, clock)                                                                              \
    ROW(RANDOM, random)
#define KV_POLICY_KIND(kind, name) KV_POLICY_##kind,

enum kv_policy_kind { KV_POLICY_TABLE(KV_POLICY_KIND) KV_POLICIES };

/* Name of a policy, as in options and statistics; and one line of help. kind < KV_POLICIES. */
const char *kv_policy_name(enum kv_policy_kind kind);
const char *kv_policy_summary(enum kv_policy_kind kind);

/*
 * A file that has the table's memory and outlives the process: what kv_save() leaves in it is taken
 * over by the next table that is created in it.
 */
struct kv_file {
    int fd;       /* for reading and writing; the caller's, stays open until kv_destroy() */
    uint64_t tag; /* of the caller: items that were saved with another one are not taken over */
};

struct kv_config {
    uint64_t memory_bytes;           /* hard bound on items and index together; at least 1 MiB */
    uint64_t memory_bytes_max;       /* highest limit that can be set later; 0: memory_bytes */
    uint32_t value_bytes_max;        /* longest value */
    unsigned worker_max;             /* workers joined at the same time; at least 1 */
    bool evict;                      /* false: allocation fails instead of evicting (-M) */
    enum kv_policy_kind policy;      /* if evict */
    bool huge_pages;                 /* use reserved huge pages for items, if there are enough */
    bool dump_items;                 /* include items in core files */
    uint64_t numa_nodes;             /* nodes of the workers' cores, one bit each; 0: no policy */
    uint64_t touch_ahead_bytes;      /* free memory that a thread prefaults; 0: no thread */
    const struct kv_file *file;      /* null: memory of the process */
    uint8_t secret[KV_SECRET_BYTES]; /* unpredictable: key of the hash function */
    struct kv_sizes sizes;           /* for the statistics; kv_create() fills its table in */
};

/*
 * Makes an empty table; the caller frees it with kv_destroy(). Reserves addresses for all memory;
 * pages are faulted in as they are used, or by the prefault thread. Returns null with *error set to
 * a constant phrase that says what failed and what to do. With huge_pages, no other thread may map
 * memory during the call.
 */
struct kv *kv_create(const struct kv_config *config, const char **error);

/* Pages behind the items. */
enum kv_pages {
    KV_PAGES_SMALL = 0,
    KV_PAGES_ADVISED, /* transparent huge pages (madvise) */
    KV_PAGES_HUGE     /* reserved huge pages; kept until kv_destroy() */
};

struct kv_placement {
    enum kv_pages pages;
    uint64_t huge_bytes; /* requested in reserved huge pages */
    int huge_error;      /* errno value if they were refused, else 0 */
    int numa_error;      /* errno value if interleaving over nodes was refused, else 0 */
};

/* How the memory was placed. Does not change. */
void kv_placement(const struct kv *kv, struct kv_placement *placement);

/* When a table is saved, and a word of the caller. */
struct kv_moment {
    uint64_t unix_s; /* the present */
    uint32_t now_s;  /* what kv_tick() would be given: the clock of the next table continues */
    uint32_t note;
};

/* What config.file had when the table was created. Zero without a file. */
struct kv_restored {
    bool restored;
    const char *why_not; /* if not restored: the reason, or null if the file was empty */
    uint64_t items;      /* restored */
    uint64_t bytes;      /* of their records */
    struct kv_moment saved;
};

/* Does not change. A file that is not restored is emptied first: the table is then a new one. */
const struct kv_restored *kv_restored(const struct kv *kv);

/*
 * Leaves the table in config.file, for a later kv_create(). All workers have left; nothing is
 * pinned or unpublished. Returns null, after which only kv_destroy() or kv_save_undo() may follow,
 * or a constant phrase that says why nothing was saved.
 */
const char *kv_save(struct kv *kv, const struct kv_moment *moment);

/*
 * After kv_save(): the table continues in this process after all, without a thread that prefaults.
 * No other table has been created in the file since.
 */
void kv_save_undo(struct kv *kv);

/*
 * Whether a table of this configuration would take over what kv_save() left in config->file:
 * returns null, or a constant phrase that says why not. Changes nothing.
 */
const char *kv_file_examine(const struct kv_config *config);

/* Frees the table. All workers have left; nothing is pinned or unpublished. */
void kv_destroy(struct kv *kv);

/*
 * Changes the memory limit. A higher limit applies immediately, up to memory_bytes_max. A lower one
 * is reached in bounded steps within kv_quiesce(): items are evicted (if the table evicts) and
 * pages go back to the system; the index and a few segments per worker stay. Returns false, with
 * nothing changed, if the system refuses the memory.
 */
bool kv_memory_limit_set(struct kv_worker *worker, uint64_t bytes);

/* The limit that was set last, in bytes. */
uint64_t kv_memory_limit(const struct kv *kv);

/* Whether a change of the limit or a growth of the index needs kv_quiesce() from idle workers. */
bool kv_is_resizing(const struct kv *kv);

/* ---- workers ----------------------------------------------------------------------------- */

/* Registers the calling thread, online. Null if worker_max are joined or without memory. */
struct kv_worker *kv_join(struct kv *kv);

/* Ends the registration; the pointer is invalid from then on. The worker may be offline. */
void kv_leave(struct kv_worker *worker);

/* Sets the worker's clock, in seconds; once per loop. It may go back (tests). */
void kv_tick(struct kv_worker *worker, uint32_t now_s);

/*
 * Announces a quiescent state (the worker holds no view) and does a bounded amount of housekeeping:
 * reclaiming, expiring, purging, evicting in advance, growing, resizing. Once per loop.
 */
void kv_quiesce(struct kv_worker *worker);

/*
 * Invalidates the worker's views without announcing it to other workers: memory that this worker
 * evicts may then be reused by itself. One addition; call it between two requests of one loop,
 * before a store.
 */
void kv_release_views(struct kv_worker *worker);

/* Around a blocking wait: an offline worker holds no view and does not delay reclamation. */
void kv_offline(struct kv_worker *worker);
void kv_online(struct kv_worker *worker);

/* ---- keys -------------------------------------------------------------------------------- */

/* Where a prefetch found a key. Only a hint: every use checks it. The fields are the engine's. */
struct kv_hint {
    const void *at; /* bucket or slot of the index; null: none */
    uint64_t word;  /* the slot's word; 0: not found there */
};

struct kv_key {
    const uint8_t *bytes;
    uint32_t len; /* 1..KV_KEY_MAX */
    uint64_t hash;
    struct kv_hint hint; /* set by the prefetch functions; zero: none */
};

/* Hashes a key of 1 to KV_KEY_MAX bytes. The bytes stay the caller's and outlive the kv_key. */
struct kv_key kv_key(const struct kv *kv, const void *bytes, uint32_t len);

/*
 * Prefetches for a batch of lookups, each a few keys after the previous step: the bucket; the first
 * two cache lines of the item; its other lines, if kv_prefetch_item() returned an item. That item
 * is probably, not certainly, the key's; it is good for kv_prefetch_value() only and as long as a
 * view's pointers. They set key->hint, which saves lookups the search. A hint that has become stale
 * does no harm.
 */
void kv_prefetch_bucket(const struct kv_worker *worker, struct kv_key *key);
const struct kv_item *kv_prefetch_item(const struct kv_worker *worker, struct kv_key *key);
void kv_prefetch_value(const struct kv_item *item);

/* Prefetches the end of the log that the worker wrote last: a store is about to follow. */
void kv_prefetch_log(const struct kv_worker *worker);

/* ---- lookup ------------------------------------------------------------------------------ */

/* Bits of kv_view.state. The engine sets FETCHED; the others only have a meaning to the caller. */
enum kv_state {
    KV_FETCHED = 1 << 0, /* kv_get() has returned it since it was stored */
    KV_STALE = 1 << 1,
    KV_WON = 1 << 2,
    KV_KEY_BINARY = 1 << 3
};

struct kv_view {
    const struct kv_item *item;
    const uint8_t *key;
    const uint8_t *value; /* null if the value has several extents: see kv_value() */
    uint32_t key_len;
    uint32_t value_len;
    uint32_t flags; /* the client's */
    uint32_t exptime;
    uint32_t last_access;
    uint32_t state; /* enum kv_state, before this lookup */
    uint64_t cas;
};

enum kv_found {
    KV_MISS = 0,
    KV_HIT,
    KV_MISS_EXPIRED, /* an item was there, but has expired */
    KV_MISS_FLUSHED  /* an item was there, but was stored before kv_flush() */
};

/* Looks a key up. A hit fills *view and counts as an access (FETCHED, last access, policy). */
enum kv_found kv_get(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view);

/* A value of at most KV_SHORT_MAX bytes, of an item without client flags. */
struct kv_short {
    const uint8_t *value;
    uint32_t value_len;
};

#define KV_SHORT_MAX 254

/*
 * kv_get() for a key with a hint: the fast path for short keys and values without client flags.
 * False: nothing was done; call kv_get(). found->value is valid until the worker's next call of the
 * engine.
 */
bool kv_get_short(struct kv_worker *worker, const struct kv_key *key, struct kv_short *found);

/* kv_get() that does not count as an access. */
enum kv_found kv_peek(struct kv_worker *worker, const struct kv_key *key, struct kv_view *view);

/* Counts as an access for the eviction policy only. A key that is not there is ignored. */
void kv_bump(struct kv_worker *worker, const struct kv_key *key);

/*
 * The value's contiguous bytes from `offset` on (offset <= value_len); their number in *len. A
 * value is one extent or, if large, several.
 */
const uint8_t *kv_value(const struct kv_item *item, uint32_t offset, uint32_t *len);

/* Keeps a viewed item's bytes readable until kv_unpin(), whatever happens to the key. */
void kv_pin(struct kv_worker *worker, const struct kv_item *item);
void kv_unpin(struct kv_worker *worker, const struct kv_item *item);

/* ---- change ------------------------------------------------------------------------------ */

enum kv_error {
    KV_OK = 0,
    KV_TOO_LARGE = -1, /* value_len exceeds value_bytes_max or what the memory can hold */
    KV_NO_MEMORY = -2  /* nothing can be evicted, or evict is false; counted */
};

/*
 * Makes an unpublished item with room for value_len bytes; evicts to make room. Returns null with
 * *error set.
 *
 * Evicted memory cannot be reused while this worker (since its last kv_quiesce() or
 * kv_release_views()) or another online worker may hold a view into it, or while it is pinned or
 * unpublished. The engine keeps some memory free and waits up to a tenth of a second if it must;
 * KV_NO_MEMORY results only if this worker views nearly all of the memory, or another online worker
 * does not call kv_quiesce().
 */
struct kv_item *kv_item_new(struct kv_worker *worker, const struct kv_key *key, uint32_t value_len,
                            uint32_t flags, uint32_t exptime, enum kv_error *error);

/* The unpublished value's contiguous bytes from `offset` on, to write; their number in *len. */
uint8_t *kv_item_room(struct kv_item *item, uint32_t offset, uint32_t *len);

/* Changes the expiry time of an unpublished item. */
void kv_item_set_exptime(struct kv_worker *worker, struct kv_item *item, uint32_t exptime);

/* Frees an unpublished item. */
void kv_item_drop(struct kv_worker *worker, struct kv_item *item);

enum kv_verdict {
    KV_KEEP = 0, /* change nothing */
    KV_REPLACE,  /* publish change->item (an insert if there is no old item) */
    KV_DELETE,
    KV_TOUCH, /* set exptime and state of the old item in place; value and cas stay. Counts as an
                 access if state has KV_FETCHED, unless `unseen` */
    KV_RENEW  /* KV_TOUCH, and a new cas. The item is evicted if not even the memory reserved for
                 moving items has room for its copy */
};

struct kv_change {
    struct kv_item *item; /* KV_REPLACE: made by kv_item_new() with the same key */
    uint64_t cas;     /* KV_REPLACE: the item's cas; 0: the engine assigns one and stores it here */
    bool cas_given;   /* KV_REPLACE: use cas even if it is 0 */
    bool unseen;      /* KV_TOUCH: leave FETCHED and the time of the last access as they are */
    uint32_t exptime; /* KV_TOUCH; initially the old item's */
    uint32_t state;   /* KV_TOUCH, KV_REPLACE; initially the old item's, 0 without one */
    enum kv_found gone; /* set by the engine: how an old item had become invalid, if one had */
};

/*
 * Decides what happens to a key. old is null if the key is missing, expired or flushed. May call
 * kv_item_new(). Is called again with a new old if the key changed in the meantime, so its only
 * effects are on ctx and *change.
 */
typedef enum kv_verdict kv_decide(void *ctx, const struct kv_view *old, struct kv_change *change);

/*
 * Carries a decision out atomically and returns it. The caller or decide sets item and cas of
 * *change. After KV_REPLACE the engine owns change->item, and change->cas is its cas: unique in the
 * table and larger than the replaced item's, unless decide gave one for either. After any other
 * verdict, change->item still belongs to the caller. KV_DELETE, KV_TOUCH and KV_RENEW without an
 * old item count as KV_KEEP.
 */
enum kv_verdict kv_update(struct kv_worker *worker, const struct kv_key *key, kv_decide *decide,
                          void *ctx, struct kv_change *change);

/*
 * kv_item_new() and kv_update() with KV_REPLACE in one step: the fast path for a key with a hint
 * that holds a short item without flags and state, if nothing has to be evicted first. The value is
 * at most KV_SHORT_MAX bytes. Returns the new cas; 0: nothing was done, use those two functions.
 */
uint64_t kv_replace_short(struct kv_worker *worker, const struct kv_key *key,
                          const struct kv_short *value, uint32_t exptime);

/*
 * Makes every item stored so far a miss, in O(1). Items stored afterwards are not affected. The
 * memory of flushed items is reclaimed in kv_quiesce(), or when it is needed.
 */
void kv_flush(struct kv_worker *worker);

/* ---- scans of all items ------------------------------------------------------------------ */

/* Position of a scan; zero is the beginning. Any worker may continue it. */
struct kv_cursor {
    uint64_t position;
};

/* Bounds of one step of a scan; it ends with the chain in which either is reached. */
struct kv_quantum {
    uint32_t chains;
    uint32_t items; /* exceeded by at most the items of one chain (63) */
};

/* The view is valid during the call, which must not call the engine. */
typedef void kv_visit(void *ctx, const struct kv_view *view);

/*
 * Visits the next valid items; does not count as an access. False at the end of the scan. An item
 * that is present during the whole scan is visited exactly once.
 */
bool kv_scan(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
             kv_visit *visit, void *ctx);

/*
 * The same scan, but removes expired and flushed items of the size classes whose bits are set in
 * `classes`.
 */
bool kv_crawl(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
              uint64_t classes);

/*
 * Sets a callback for the items that this worker evicts; null: none. The view is valid during the
 * call, which must not call the engine.
 */
typedef void kv_evicted(void *ctx, const struct kv_view *view);
void kv_on_evicted(struct kv_worker *worker, kv_evicted *callback, void *ctx);

/* ---- statistics -------------------------------------------------------------------------- */

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
    uint64_t evicted_active;    /* fetched again since eviction last examined them */
    uint64_t expired_reclaimed; /* expired items removed otherwise than by kv_crawl() */
    uint64_t expired_unfetched;
    uint64_t crawl_checked;   /* items examined by kv_crawl() */
    uint64_t crawl_reclaimed; /* items removed by kv_crawl() */
    uint64_t no_memory;       /* kv_item_new() failures for lack of memory */
    uint64_t update_retries;  /* decisions repeated because the key changed */
    uint64_t pinned;          /* pins held now */
    unsigned hash_power;      /* log2 of the number of buckets */
    bool growing;             /* a table with twice as many buckets is being filled */
    uint32_t growths;         /* growths completed */
    uint64_t epoch_lag;       /* retirements that the slowest online worker has not announced */
    uint64_t flushes_behind;  /* flushes whose items may still be linked */
    bool touch_thread;        /* the prefault thread runs */
    uint64_t touched_bytes;   /* free item memory whose pages are faulted in */
    uint32_t touched_ahead;   /* segments prefaulted by the thread */
    uint32_t touched_late;    /* segments that a worker took before the thread prefaulted them */
};

/* Sums the workers' counters; exact while no worker runs. Any thread may call it. */
void kv_stats(const struct kv *kv, struct kv_stats *stats);

/* Statistics of one size class of config.sizes; class < max(class_count, 1). */
struct kv_class_stats {
    uint64_t items;
    uint64_t bytes;       /* sizes of the live items, as config.sizes counts them */
    uint64_t items_total; /* ever published; not reset by `stats reset` */
    uint64_t evicted;
    uint64_t evicted_nonzero; /* had an expiry time */
    uint64_t evicted_unfetched;
    uint64_t evicted_active;
    uint64_t expired_reclaimed;
    uint64_t expired_unfetched;
    uint64_t crawl_checked;
    uint64_t crawl_reclaimed;
    uint64_t no_memory;
    uint32_t evicted_idle_s; /* idle time of the item evicted last */
};

void kv_class_stats(const struct kv *kv, unsigned class, struct kv_class_stats *stats);

/* Live items of a size bucket; 0 without size buckets. bucket < config.sizes.bucket_count. */
uint64_t kv_bucket_items(const struct kv *kv, uint32_t bucket);

/* Zeroes what `stats reset` zeroes: counters, not gauges. */
void kv_stats_reset(struct kv *kv);

/* Checks all invariants while no worker runs: null, or a phrase naming the broken one. */
const char *kv_check(const struct kv *kv);

#endif
