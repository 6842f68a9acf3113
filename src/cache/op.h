/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations that the protocols share: what is done to a key, without a word about how it was
 * asked for or how it is answered. They count in the statistics. A view that one of them gives is
 * good until the next operation of the worker that stores something.
 */
#ifndef CACHE_OP_H
#define CACHE_OP_H

#include "cache/note.h"
#include "cache/worker.h"

/* A value is stored with the CRLF that ends its data block. */
#define CACHE_CRLF_BYTES 2

enum cache_outcome {
    CACHE_OK = 0, /* found, stored, deleted, changed */
    CACHE_NOT_FOUND,
    CACHE_EXISTS, /* its cas is another one */
    CACHE_NOT_STORED,
    CACHE_NON_NUMERIC,
    CACHE_TOO_LARGE,
    CACHE_NO_MEMORY
};

/* The cas that clients see: 0 if cas is disabled. */
static inline uint64_t cache_cas_shown(const struct cache_worker *worker, uint64_t cas)
{
    return worker->cache->settings.cas_disabled ? 0 : cas;
}

/* ---- get, touch (op_get.c) --------------------------------------------------------------- */

/* Counts a retrieval; hits are counted by class only, see cache_get_note(). */
static inline void cache_get_count(struct cache_worker *worker, enum kv_found found)
{
    if (found == KV_HIT)
        return;
    cache_count(worker, CACHE_GET_MISSES, 1);
    if (found == KV_MISS_EXPIRED)
        cache_count(worker, CACHE_GET_EXPIRED, 1);
    else if (found == KV_MISS_FLUSHED)
        cache_count(worker, CACHE_GET_FLUSHED, 1);
}

/* Tells of a retrieval, and counts a hit by class. */
static inline void cache_get_note(struct cache_worker *worker, const struct kv_key *key,
                                  enum kv_found found, const struct kv_view *view)
{
    if (found == KV_HIT)
        cache_count_class(worker, CACHE_CLASS_GET_HITS, key->len, view->flags, view->value_len);
    if (U_LIKELY(worker->noting == 0))
        return;
    cache_note_view(worker, key, found, view);
    cache_note_fetch(worker, key, found == KV_HIT);
}

static inline bool cache_get(struct cache_worker *worker, const struct kv_key *key,
                             struct kv_view *view)
{
    enum kv_found found = kv_get(worker->kv_worker, key, view);

    cache_get_count(worker, found);
    cache_get_note(worker, key, found, view);
    return found == KV_HIT;
}

/*
 * Gives a key a new time of expiry (on the engine's clock); *view is what it has. The statistics
 * count this as a touch only.
 */
bool cache_touch(struct cache_worker *worker, const struct kv_key *key, uint32_t exptime,
                 struct kv_view *view);

/* ---- storing (op_store.c) ---------------------------------------------------------------- */

enum cache_mode {
    CACHE_SET,
    CACHE_ADD,
    CACHE_REPLACE,
    CACHE_CAS, /* replaces what has the cas that is named */
    CACHE_APPEND,
    CACHE_PREPEND
};

struct cache_store {
    enum cache_mode mode;
    uint32_t flags;
    uint32_t exptime;     /* on the engine's clock */
    uint32_t value_bytes; /* without the CRLF */
    uint64_t cas;         /* CACHE_CAS; append and prepend: 0, or what the old item must have */
    uint64_t new_cas;     /* if has_new_cas; else the engine gives one */
    bool has_new_cas;
    bool create;        /* append and prepend: store what is not there yet */
    bool stale_allowed; /* CACHE_CAS: if the item is newer, store all the same, marked stale */
    bool key_binary;    /* shown in base64 by the meta commands */
};

/* A data block on its way into the item that was made for it. */
struct cache_upload {
    struct kv_item *item;
    uint32_t value_len; /* with the CRLF, which is stored too */
    uint32_t left;      /* bytes still to come */
};

/* What has become of it. */
struct cache_stored {
    enum cache_outcome outcome;
    uint32_t value_bytes; /* without the CRLF: of the item, which append and prepend make longer */
    uint64_t cas;         /* of the new item; 0 if there is none */
};

/*
 * Makes the item of an upload. Returns CACHE_OK, or CACHE_TOO_LARGE or CACHE_NO_MEMORY: the data
 * block is then to be skipped; a refused CACHE_SET removes what the key had.
 */
enum cache_outcome cache_store_begin(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_store *store, struct cache_upload *upload);

/* Writes n bytes of the data block (n <= upload->left). */
void cache_store_write(struct cache_upload *upload, const uint8_t *data, uint32_t n);

/* The data block is complete: does it end with CRLF, as it must? */
bool cache_store_ends_well(const struct cache_upload *upload);

/* The data block is complete but not to be stored. */
void cache_store_drop(struct cache_worker *worker, struct cache_upload *upload);

/* Stores the item or drops it; upload->item is gone in either case. */
void cache_store_finish(struct cache_worker *worker, const struct kv_key *key,
                        const struct cache_store *store, struct cache_upload *upload,
                        struct cache_stored *stored);

/* ---- counting (op_arith.c) --------------------------------------------------------------- */

struct cache_arith {
    bool decr;
    bool create; /* if it is not there: with `initial` and create_exptime */
    bool touch;  /* sets `exptime` */
    uint64_t delta;
    uint64_t initial;
    uint64_t cas;     /* that it must have; 0: any */
    uint64_t new_cas; /* if has_new_cas; else the engine gives one */
    bool has_new_cas;
    uint32_t exptime;
    uint32_t create_exptime;
};

/* What it has come to; `created` is right with CACHE_NO_MEMORY too. */
struct cache_counted {
    uint64_t number;
    uint64_t cas;
    uint32_t exptime; /* before it was touched; 0 if it was created */
    bool created;
};

/* CACHE_OK: *counted says what the number is now. incr wraps around, decr stops at zero. */
enum cache_outcome cache_arith(struct cache_worker *worker, const struct kv_key *key,
                               const struct cache_arith *arith, struct cache_counted *counted);

/* ---- deleting (op_delete.c) -------------------------------------------------------------- */

struct cache_deletion {
    bool meta;        /* asked for by md */
    bool compare;     /* it must have `cas` */
    bool empty;       /* takes the value only: an item with `flags` and `exptime` stays */
    bool invalidate;  /* takes nothing (more): stale, so that the next reader may renew it */
    bool touch;       /* `exptime` is meant for what is invalidated, too */
    bool has_new_cas; /* for what stays; else: emptied alone the old one, invalidated a new one */
    uint64_t cas;
    uint64_t new_cas;
    uint32_t flags;
    uint32_t exptime; /* on the engine's clock */
};

/* CACHE_OK, NOT_FOUND, EXISTS, or NO_MEMORY if there is none for the empty item. */
enum cache_outcome cache_delete(struct cache_worker *worker, const struct kv_key *key,
                                const struct cache_deletion *deletion);

/* Removes a key without counting. */
void cache_key_remove(struct cache_worker *worker, const struct kv_key *key);

/* ---- flushing (op_flush.c) --------------------------------------------------------------- */

/*
 * Flushes at a time on the engine's clock as cache_clock_expiry() gives it; 0: now. Counted. False
 * if flushing is disabled.
 */
bool cache_flush(struct cache_worker *worker, uint32_t when_s);

/* Once per loop: carries out a delayed flush that is due. */
void cache_flush_tick(struct cache_worker *worker);

#endif
