/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations on a key that all protocols share, independent of requests and replies. They
 * count in the statistics. A view that one returns is valid until the worker's next operation that
 * stores something.
 */
#ifndef CACHE_OP_H
#define CACHE_OP_H

#include "cache/cache_worker.h"
#include "cache/event_log.h"

/* A value is stored with the CRLF that ends its data block. */
#define CACHE_CRLF_BYTES 2

/* The cas that clients see: 0 if cas is disabled. */
static inline uint64_t cache_cas_shown(const struct cache_worker *worker, uint64_t cas)
{
    return worker->cache->settings.cas_disabled ? 0 : cas;
}

/* ---- get, touch (op_touch.c) --------------------------------------------------------------- */

/* Counts that a requested item has expired or was flushed. memcached does so for all commands. */
static inline void cache_gone_count(struct cache_worker *worker, enum kv_found found)
{
    if (found == KV_MISS_EXPIRED)
        cache_count(worker, CACHE_GET_EXPIRED, 1);
    else if (found == KV_MISS_FLUSHED)
        cache_count(worker, CACHE_GET_FLUSHED, 1);
}

/* Counts a miss; cache_log_get() counts hits, by class. */
static inline void cache_get_count(struct cache_worker *worker, enum kv_found found)
{
    if (found == KV_HIT)
        return;
    cache_count(worker, CACHE_GET_MISSES, 1);
    cache_gone_count(worker, found);
}

/* Logs a retrieval, and counts a hit by class. */
static inline void cache_log_get(struct cache_worker *worker, const struct kv_key *key,
                                 enum kv_found found, const struct kv_view *view)
{
    if (found == KV_HIT)
        cache_count_class(worker, CACHE_CLASS_GET_HITS, key->len, view->flags, view->value_len);
    if (U_LIKELY(worker->event_mask == 0))
        return;
    cache_log_view(worker, key, found, view);
    cache_log_fetch(worker, key, found == KV_HIT);
}

static inline bool cache_get(struct cache_worker *worker, const struct kv_key *key,
                             struct kv_view *view)
{
    enum kv_found found = kv_get(worker->kv_worker, key, view);

    cache_get_count(worker, found);
    cache_log_get(worker, key, found, view);
    return found == KV_HIT;
}

/*
 * Sets the expiry time of a key (on the engine's clock). Returns whether it was found; *view is
 * then the item as it was. Counted as a touch only.
 */
bool cache_touch(struct cache_worker *worker, const struct kv_key *key, uint32_t exptime,
                 struct kv_view *view);

/* ---- storing (op_store.c) ---------------------------------------------------------------- */

enum cache_mode {
    CACHE_SET,
    CACHE_ADD,
    CACHE_REPLACE,
    CACHE_CAS, /* replaces the item if it has the given cas */
    CACHE_APPEND,
    CACHE_PREPEND
};

struct cache_store {
    enum cache_mode mode;
    uint32_t flags;
    uint32_t exptime;     /* on the engine's clock */
    uint32_t value_bytes; /* without the CRLF */
    uint64_t cas;         /* CACHE_CAS; append, prepend: 0, or the cas the old item must have */
    uint64_t new_cas;     /* if has_new_cas; else the engine gives one */
    bool has_new_cas;
    bool create;        /* append, prepend: store if the key is missing */
    bool stale_allowed; /* CACHE_CAS: an older cas stores too, marked stale */
    bool key_binary;    /* shown in base64 by the meta commands */
    bool overrides;     /* a refused value removes the old item in any mode, not only CACHE_SET */
};

/* A data block that is being written to its item, or to a buffer (upload.h). */
struct cache_upload {
    struct kv_item *item; /* null: staged */
    uint32_t value_len;   /* with the CRLF, which is stored too */
    uint32_t left;        /* bytes still to come */
    bool is_unfinished;   /* bounded by upload.h, which owns the fields that follow */
    uint8_t *staged;
    uint32_t staged_bytes; /* of the buffer */
    uint32_t item_bytes;   /* charged for the item; 0: staged */
    uint32_t marked_left;  /* `left` when it last made progress, */
    uint64_t marked_us;    /* and when that was */
    struct u_list link;    /* on the worker's list, longest without progress first */
};

/* The result of a store. */
struct cache_store_result {
    enum cache_outcome outcome;
    uint32_t value_bytes; /* without the CRLF: of the item, which append and prepend make longer */
    uint64_t cas;         /* of the new item; 0 if there is none */
};

/*
 * Begins an upload; is_complete: all of the data block has arrived. Returns CACHE_OK, or
 * CACHE_TOO_LARGE or CACHE_NO_MEMORY: the caller then skips the data block; a refused CACHE_SET or
 * store that overrides removes the old item of the key.
 */
enum cache_outcome cache_store_begin(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_store *store, bool is_complete,
                                     struct cache_upload *upload);

/*
 * Writes n bytes of the data block (n <= upload->left). False: there is no memory for them, and
 * nothing was written; cache_store_abort() has to follow.
 */
bool cache_store_write(struct cache_worker *worker, struct cache_upload *upload,
                       const uint8_t *data, uint32_t n);

/* Ends an upload as cache_store_begin() does for CACHE_NO_MEMORY. */
void cache_store_abort(struct cache_worker *worker, const struct kv_key *key,
                       const struct cache_store *store, struct cache_upload *upload);

/*
 * The data block of an unfinished upload is complete: copies it to an item if it is staged. Returns
 * CACHE_OK, or CACHE_NO_MEMORY if the upload is refused.
 */
enum cache_outcome cache_store_unstage(struct cache_worker *worker, const struct kv_key *key,
                                       const struct cache_store *store,
                                       struct cache_upload *upload);

/* Whether a complete data block ends with CRLF, as it must. */
bool cache_store_has_crlf(const struct cache_upload *upload);

/* Ends an upload, complete or not, without storing it. */
void cache_store_drop(struct cache_worker *worker, struct cache_upload *upload);

/* Stores the item or drops it; upload->item is invalid in either case. */
void cache_store_finish(struct cache_worker *worker, const struct kv_key *key,
                        const struct cache_store *store, struct cache_upload *upload,
                        struct cache_store_result *stored);

/* ---- counting (op_arith.c) --------------------------------------------------------------- */

struct cache_arith {
    bool decr;
    bool create; /* if it is not there: with `initial` and create_exptime */
    bool touch;  /* sets `exptime` */
    uint64_t delta;
    uint64_t initial;
    uint64_t cas;     /* the cas the item must have; 0: any */
    uint64_t new_cas; /* if has_new_cas; else the engine gives one */
    bool has_new_cas;
    uint32_t exptime;
    uint32_t create_exptime;
};

/* The result; `created` is valid with CACHE_NO_MEMORY too. */
struct cache_arith_result {
    uint64_t number;
    uint64_t cas;
    uint32_t exptime; /* before it was touched; 0 if it was created */
    bool created;
};

/* CACHE_OK: *counted has the new number. incr wraps around, decr stops at zero. */
enum cache_outcome cache_arith(struct cache_worker *worker, const struct kv_key *key,
                               const struct cache_arith *arith, struct cache_arith_result *counted);

/* ---- deleting (op_delete.c) -------------------------------------------------------------- */

struct cache_deletion {
    bool meta;        /* by md */
    bool compare;     /* it must have `cas` */
    bool empty;       /* removes the value only: an item with `flags` and `exptime` stays */
    bool invalidate;  /* marks the item stale, so that the next reader may renew it */
    bool touch;       /* an invalidated item gets `exptime` */
    bool has_new_cas; /* else an emptied item keeps its cas, an invalidated one gets a new one */
    uint64_t cas;
    uint64_t new_cas;
    uint32_t flags;
    uint32_t exptime; /* on the engine's clock */
};

/* Returns CACHE_OK, NOT_FOUND, EXISTS, or NO_MEMORY if the empty item cannot be made. */
enum cache_outcome cache_delete(struct cache_worker *worker, const struct kv_key *key,
                                const struct cache_deletion *deletion);

/* Drops the item that the last call of a decision has made, if any. */
static inline void cache_item_drop(struct cache_worker *worker, struct kv_item **item)
{
    if (*item != NULL)
        kv_item_drop(worker->kv_worker, *item);
    *item = NULL;
}

/* Makes an item whose value is only the CRLF; null if there is no memory. */
struct kv_item *cache_item_new_empty(struct cache_worker *worker, const struct kv_key *key,
                                     uint32_t flags, uint32_t exptime);

/* Removes a key without counting. */
void cache_key_remove(struct cache_worker *worker, const struct kv_key *key);

/* ---- flushing (op_flush.c) --------------------------------------------------------------- */

/*
 * Flushes at a time on the engine's clock as cache_clock_expiry() gives it; 0: now. Counted. False
 * if flushing is disabled.
 */
bool cache_flush(struct cache_worker *worker, uint32_t when_s);

/* Once per loop: runs a delayed flush that is due. */
void cache_flush_tick(struct cache_worker *worker);

/* ---- crawling (crawl.c) ------------------------------------------------------------------ */

/*
 * A crawl visits the whole table and reclaims expired and flushed items of some classes (bits, of
 * the engine). The worker that starts it does a part of it in each loop. False if one is running.
 */
bool cache_crawl_start(struct cache_worker *worker, uint64_t classes);

/* Once per loop: continues the worker's crawl. */
void cache_crawl_tick(struct cache_worker *worker);

/* The worker leaves: its crawl ends. */
void cache_crawl_leave(struct cache_worker *worker);

#endif
