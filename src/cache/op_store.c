/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set, add, replace, append, prepend, cas.
 *
 * The data block is written to an unpublished item; when it is complete, a decision (kv_update)
 * publishes it or not. The CRLF is stored too, so that a reply can send data and CRLF from one
 * place.
 */
#include <string.h>

#include "base/base.h"
#include "cache/op.h"
#include "cache/upload.h"

/* value_len counts the CRLF. */
static bool item_fits(const struct cache *cache, uint32_t key_len, uint32_t flags,
                      uint64_t value_len)
{
    return kv_sizes_of(&cache->sizes, key_len, flags, value_len) <= cache->settings.item_bytes_max;
}

/* ---- before the data --------------------------------------------------------------------- */

static const char *const mode_names[] = {
    [CACHE_SET] = "set", [CACHE_ADD] = "add",       [CACHE_REPLACE] = "replace",
    [CACHE_CAS] = "cas", [CACHE_APPEND] = "append", [CACHE_PREPEND] = "prepend",
};

/* A failed set removes the old value, which its sender assumes replaced. */
static enum cache_outcome store_refuse(struct cache_worker *worker, const struct kv_key *key,
                                       const struct cache_store *store, enum cache_outcome outcome)
{
    if (outcome == CACHE_TOO_LARGE)
        cache_count(worker, CACHE_STORE_TOO_LARGE, 1);
    else
        cache_count(worker, CACHE_STORE_NO_MEMORY, 1);
    cache_log_store(worker, key, mode_names[store->mode], outcome, 0, NULL);
    if (store->mode == CACHE_SET || store->overrides)
        cache_key_remove(worker, key);
    return outcome;
}

/* Makes the item of an upload. */
static enum cache_outcome item_make(struct cache_worker *worker, const struct kv_key *key,
                                    const struct cache_store *store, struct cache_upload *upload)
{
    enum kv_error error = KV_OK;

    upload->item = kv_item_new(worker->kv_worker, key, upload->value_len, store->flags,
                               store->exptime, &error);
    if (U_LIKELY(upload->item != NULL))
        return CACHE_OK;
    return error == KV_TOO_LARGE ? CACHE_TOO_LARGE : CACHE_NO_MEMORY;
}

enum cache_outcome cache_store_begin(struct cache_worker *worker, const struct kv_key *key,
                                     const struct cache_store *store, bool is_complete,
                                     struct cache_upload *upload)
{
    enum cache_outcome outcome;

    cache_log_prefix(worker, key, CACHE_PREFIX_SET);
    kv_release_views(worker->kv_worker);
    upload->value_len = store->value_bytes + CACHE_CRLF_BYTES;
    if (!item_fits(worker->cache, key->len, store->flags, upload->value_len))
        return store_refuse(worker, key, store, CACHE_TOO_LARGE);
    upload->item = NULL;
    upload->left = upload->value_len;
    upload->is_unfinished = false;
    if (!is_complete && !cache_upload_open(worker, upload))
        return CACHE_OK; /* staged */
    outcome = item_make(worker, key, store, upload);
    if (U_LIKELY(outcome == CACHE_OK))
        return CACHE_OK;
    cache_store_drop(worker, upload);
    return store_refuse(worker, key, store, outcome);
}

void cache_store_abort(struct cache_worker *worker, const struct kv_key *key,
                       const struct cache_store *store, struct cache_upload *upload)
{
    cache_store_drop(worker, upload);
    store_refuse(worker, key, store, CACHE_NO_MEMORY);
}

/* ---- the data ---------------------------------------------------------------------------- */

/* Copies into an unpublished item from `offset` on. */
static void item_write(struct kv_item *item, uint32_t offset, const uint8_t *bytes, uint32_t len)
{
    while (len > 0) {
        uint32_t room;
        uint8_t *to = kv_item_room(item, offset, &room);
        uint32_t n = u_min32(room, len);

        memcpy(to, bytes, n);
        offset += n;
        bytes += n;
        len -= n;
    }
}

bool cache_store_write(struct cache_worker *worker, struct cache_upload *upload,
                       const uint8_t *data, uint32_t n)
{
    U_ASSERT(n <= upload->left);
    if (U_LIKELY(upload->item != NULL))
        item_write(upload->item, upload->value_len - upload->left, data, n);
    else if (!cache_upload_stage(worker, upload, data, n))
        return false;
    upload->left -= n;
    return true;
}

enum cache_outcome cache_store_unstage(struct cache_worker *worker, const struct kv_key *key,
                                       const struct cache_store *store, struct cache_upload *upload)
{
    enum cache_outcome outcome = CACHE_OK;

    if (upload->item == NULL) {
        kv_release_views(worker->kv_worker);
        outcome = item_make(worker, key, store, upload);
        if (outcome != CACHE_OK) {
            cache_store_drop(worker, upload);
            return store_refuse(worker, key, store, outcome);
        }
        item_write(upload->item, 0, upload->staged, upload->value_len);
    }
    cache_upload_close(worker, upload);
    return outcome;
}

static uint8_t item_byte(struct kv_item *item, uint32_t offset)
{
    uint32_t len;

    return *kv_item_room(item, offset, &len);
}

bool cache_store_has_crlf(const struct cache_upload *upload)
{
    return item_byte(upload->item, upload->value_len - 2) == '\r' &&
           item_byte(upload->item, upload->value_len - 1) == '\n';
}

void cache_store_drop(struct cache_worker *worker, struct cache_upload *upload)
{
    if (upload->is_unfinished)
        cache_upload_close(worker, upload);
    cache_item_drop(worker, &upload->item);
}

/* ---- the decision ------------------------------------------------------------------------ */

struct store_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    const struct cache_store *store;
    const struct cache_upload *upload;
    struct kv_item *joined; /* append, prepend: old and new data, made by the last call */
    uint32_t value_len;
    struct cache_lookup lookup;
    enum cache_outcome outcome;
};

/* Writes the first len bytes of an item's value, published or not, to another one at to_offset. */
static void item_copy(struct kv_item *to, uint32_t to_offset, const struct kv_item *from,
                      uint32_t len)
{
    uint32_t done = 0;

    while (done < len) {
        uint32_t n;
        const uint8_t *bytes = kv_value(from, done, &n);

        n = u_min32(n, len - done);
        item_write(to, to_offset + done, bytes, n);
        done += n;
    }
}

/* Makes the item of an append or prepend; the old one gives flags and expiry. */
static struct kv_item *item_join(struct store_decision *decision, const struct kv_view *old)
{
    const struct cache_upload *upload = decision->upload;
    struct kv_worker *kv_worker = decision->worker->kv_worker;
    uint64_t joined_len = (uint64_t)old->value_len + upload->value_len - CACHE_CRLF_BYTES;
    struct kv_item *joined;
    enum kv_error error;

    if (!item_fits(decision->worker->cache, decision->key->len, old->flags, joined_len))
        return NULL;
    joined = kv_item_new(kv_worker, decision->key, (uint32_t)joined_len, old->flags, old->exptime,
                         &error);
    if (joined == NULL)
        return NULL;
    if (decision->store->mode == CACHE_APPEND) {
        uint32_t old_bytes = old->value_len - CACHE_CRLF_BYTES;

        item_copy(joined, 0, old->item, old_bytes);
        item_copy(joined, old_bytes, upload->item, upload->value_len);
    } else {
        uint32_t new_bytes = upload->value_len - CACHE_CRLF_BYTES;

        item_copy(joined, 0, upload->item, new_bytes);
        item_copy(joined, new_bytes, old->item, old->value_len);
    }
    decision->value_len = (uint32_t)joined_len;
    return joined;
}

static enum kv_verdict decide_join(struct store_decision *decision, const struct kv_view *old,
                                   struct kv_change *change)
{
    const struct cache_store *store = decision->store;

    if (store->cas != 0 && store->cas != old->cas &&
        !decision->worker->cache->settings.cas_disabled) {
        decision->outcome = CACHE_EXISTS;
        return KV_KEEP;
    }
    decision->outcome = CACHE_NOT_STORED;
    decision->joined = item_join(decision, old);
    if (decision->joined == NULL)
        return KV_KEEP;
    decision->outcome = CACHE_OK;
    change->item = decision->joined;
    change->state = 0;
    return KV_REPLACE;
}

/* The outcome of a store on a key with (or without) an old item; not for joins. */
static enum cache_outcome store_outcome(const struct store_decision *decision,
                                        const struct kv_view *old)
{
    const struct cache_store *store = decision->store;

    switch (store->mode) {
    case CACHE_ADD:
        return old == NULL ? CACHE_OK : CACHE_NOT_STORED;
    case CACHE_CAS:
        if (old == NULL)
            return CACHE_NOT_FOUND;
        if (decision->worker->cache->settings.cas_disabled)
            return CACHE_EXISTS;
        if (old->cas == store->cas || (store->stale_allowed && store->cas < old->cas))
            return store->cas != 0 ? CACHE_OK : CACHE_EXISTS;
        return CACHE_EXISTS;
    case CACHE_REPLACE:
        return old != NULL ? CACHE_OK : CACHE_NOT_STORED;
    case CACHE_APPEND:
    case CACHE_PREPEND:
        return store->create ? CACHE_OK : CACHE_NOT_STORED;
    default:
        return CACHE_OK;
    }
}

/*
 * A store with the cas of an older item, if allowed, is stale: it keeps the expiry and the right to
 * renew. Any other store makes a fresh item, also if an earlier try of this decision was stale.
 */
static uint32_t store_state(const struct store_decision *decision, const struct kv_view *old)
{
    const struct cache_store *store = decision->store;
    bool stale = store->mode == CACHE_CAS && old->cas != store->cas;
    uint32_t state = store->key_binary ? KV_KEY_BINARY : 0;

    if (store->stale_allowed)
        kv_item_set_exptime(decision->worker->kv_worker, decision->upload->item,
                            stale ? old->exptime : store->exptime);
    return stale ? state | KV_STALE | (old->state & KV_WON) : state;
}

static enum kv_verdict decide_store(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct store_decision *decision = ctx;
    const struct cache_store *store = decision->store;

    cache_item_drop(decision->worker, &decision->joined);
    decision->lookup = cache_lookup_of(old);
    if (old != NULL && (store->mode == CACHE_APPEND || store->mode == CACHE_PREPEND))
        return decide_join(decision, old, change);
    decision->outcome = store_outcome(decision, old);
    if (decision->outcome != CACHE_OK)
        return KV_KEEP;
    decision->value_len = decision->upload->value_len;
    change->item = decision->upload->item;
    change->state = store_state(decision, old);
    return KV_REPLACE;
}

/* ---- after the data ---------------------------------------------------------------------- */

static void cas_count(struct cache_worker *worker, const struct kv_key *key,
                      const struct store_decision *decision)
{
    const struct cache_lookup *old = &decision->lookup;
    bool hit = decision->outcome == CACHE_OK;

    if (!hit && decision->outcome != CACHE_EXISTS) {
        cache_count(worker, CACHE_CAS_MISSES, 1);
        return;
    }
    cache_count(worker, hit ? CACHE_CAS_HITS : CACHE_CAS_BADVAL, 1);
    cache_count_class(worker, hit ? CACHE_CLASS_CAS_HITS : CACHE_CLASS_CAS_BADVAL, key->len,
                      old->flags, old->value_len);
}

void cache_store_finish(struct cache_worker *worker, const struct kv_key *key,
                        const struct cache_store *store, struct cache_upload *upload,
                        struct cache_store_result *stored)
{
    struct store_decision decision = {
        .worker = worker,
        .key = key,
        .store = store,
        .upload = upload,
        .value_len = upload->value_len,
    };
    struct kv_change change = {.cas = store->new_cas, .cas_given = store->has_new_cas};

    U_ASSERT(upload->left == 0);
    kv_release_views(worker->kv_worker);
    kv_update(worker->kv_worker, key, decide_store, &decision, &change);
    if (decision.outcome != CACHE_OK || decision.joined != NULL)
        kv_item_drop(worker->kv_worker, upload->item);
    upload->item = NULL;
    cache_log_lookup(worker, key, &decision.lookup);
    cache_log_store(worker, key, mode_names[store->mode], decision.outcome, store->exptime,
                    &(struct cache_lookup){KV_HIT, store->flags, decision.value_len});
    if (store->mode == CACHE_CAS)
        cas_count(worker, key, &decision);
    if (store->mode == CACHE_ADD && decision.outcome == CACHE_NOT_STORED)
        kv_bump(worker->kv_worker, key); /* counts as an access, as in memcached */
    stored->outcome = decision.outcome;
    stored->value_bytes = decision.value_len - CACHE_CRLF_BYTES;
    stored->cas = decision.outcome == CACHE_OK ? cache_cas_shown(worker, change.cas) : 0;
}
