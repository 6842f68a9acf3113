/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set, add, replace, append, prepend, cas.
 *
 * The data block goes straight into an item that is not published yet; whether it is published is
 * decided when it is complete. The CRLF at its end is stored too, so that a reply can send data and
 * CRLF from one place.
 */
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/reply.h"

/* memcached counts its own header, the cas and the key's end against the limit of an item. */
#define ITEM_HEADER_BYTES (48 + 8 + 1)
#define ITEM_FLAGS_BYTES 4

/* value_len counts the CRLF. */
static bool item_fits(const struct cache *cache, uint32_t key_len, uint32_t flags,
                      uint64_t value_len)
{
    uint64_t bytes = ITEM_HEADER_BYTES + key_len + (flags != 0 ? ITEM_FLAGS_BYTES : 0) + value_len;

    return bytes <= cache->settings.item_bytes_max;
}

/* ---- before the data --------------------------------------------------------------------- */

/* A set that fails must not leave an old value behind that its sender believes replaced. */
static enum mc_status store_refuse(struct cache_worker *worker, const struct mc_request *request,
                                   const struct kv_key *key, enum mc_status status)
{
    if (status == MC_STATUS_TOO_LARGE)
        cache_count(worker, CACHE_STORE_TOO_LARGE, 1);
    else
        cache_count(worker, CACHE_STORE_NO_MEMORY, 1);
    if (request->command == MC_CMD_SET)
        cache_key_remove(worker, key);
    return status;
}

enum mc_status cache_store_begin(struct cache_session *session, const struct mc_request *request,
                                 struct cache_upload *upload)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    uint32_t exptime = cache_clock_expiry_of_new(worker, request->exptime);
    enum kv_error error = KV_OK;

    kv_views_done(worker->kv_worker);
    upload->value_len = request->value_bytes + CACHE_CRLF_BYTES;
    if (!item_fits(worker->cache, key.len, request->flags, upload->value_len))
        return store_refuse(worker, request, &key, MC_STATUS_TOO_LARGE);
    upload->item =
        kv_item_new(worker->kv_worker, &key, upload->value_len, request->flags, exptime, &error);
    if (upload->item == NULL)
        return store_refuse(worker, request, &key,
                            error == KV_TOO_LARGE ? MC_STATUS_TOO_LARGE
                                                  : MC_STATUS_NO_MEMORY_STORING);
    upload->left = upload->value_len;
    upload->cas = request->cas;
    upload->command = (uint8_t)request->command;
    upload->noreply = request->noreply != 0;
    return MC_STATUS_OK;
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

void cache_store_write(struct cache_upload *upload, const uint8_t *data, uint32_t n)
{
    U_ASSERT(n <= upload->left);
    item_write(upload->item, upload->value_len - upload->left, data, n);
    upload->left -= n;
}

static uint8_t item_byte(struct kv_item *item, uint32_t offset)
{
    uint32_t len;

    return *kv_item_room(item, offset, &len);
}

static bool upload_ends_well(const struct cache_upload *upload)
{
    return item_byte(upload->item, upload->value_len - 2) == '\r' &&
           item_byte(upload->item, upload->value_len - 1) == '\n';
}

/* ---- the decision ------------------------------------------------------------------------ */

struct store_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    const struct cache_upload *upload;
    struct kv_item *joined; /* append, prepend: old and new data, made by the last call */
    enum mc_status status;
};

/* Appends the first len bytes of a published value at to_offset. */
static void item_write_old(struct kv_item *to, uint32_t to_offset, const struct kv_view *old,
                           uint32_t len)
{
    uint32_t done = 0;

    while (done < len) {
        uint32_t n;
        const uint8_t *bytes = kv_value(old->item, done, &n);

        n = u_min32(n, len - done);
        item_write(to, to_offset + done, bytes, n);
        done += n;
    }
}

/* Appends the first len bytes of an upload at to_offset. */
static void item_write_new(struct kv_item *to, uint32_t to_offset,
                           const struct cache_upload *upload, uint32_t len)
{
    uint32_t done = 0;

    while (done < len) {
        uint32_t n;
        const uint8_t *bytes = kv_item_room(upload->item, done, &n);

        n = u_min32(n, len - done);
        item_write(to, to_offset + done, bytes, n);
        done += n;
    }
}

/* Makes the item of an append or prepend; the old one gives flags and expiry. */
static struct kv_item *item_join(struct store_decision *store, const struct kv_view *old)
{
    const struct cache_upload *upload = store->upload;
    struct kv_worker *kv_worker = store->worker->kv_worker;
    uint64_t joined_len = (uint64_t)old->value_len + upload->value_len - CACHE_CRLF_BYTES;
    struct kv_item *joined;
    enum kv_error error;

    if (!item_fits(store->worker->cache, store->key->len, old->flags, joined_len))
        return NULL;
    joined =
        kv_item_new(kv_worker, store->key, (uint32_t)joined_len, old->flags, old->exptime, &error);
    if (joined == NULL)
        return NULL;
    if (upload->command == MC_CMD_APPEND) {
        uint32_t old_bytes = old->value_len - CACHE_CRLF_BYTES;

        item_write_old(joined, 0, old, old_bytes);
        item_write_new(joined, old_bytes, upload, upload->value_len);
    } else {
        uint32_t new_bytes = upload->value_len - CACHE_CRLF_BYTES;

        item_write_new(joined, 0, upload, new_bytes);
        item_write_old(joined, new_bytes, old, old->value_len);
    }
    return joined;
}

static enum kv_verdict decide_join(struct store_decision *store, const struct kv_view *old,
                                   struct kv_change *change)
{
    if (store->joined != NULL) {
        kv_item_drop(store->worker->kv_worker, store->joined);
        store->joined = NULL;
    }
    store->status = MC_STATUS_NOT_STORED;
    if (old == NULL)
        return KV_KEEP;
    store->joined = item_join(store, old);
    if (store->joined == NULL)
        return KV_KEEP;
    store->status = MC_STATUS_STORED;
    change->item = store->joined;
    change->state = 0;
    return KV_REPLACE;
}

/* What the commands other than append and prepend answer, given what the key has. */
static enum mc_status store_status(const struct cache_upload *upload, const struct kv_view *old)
{
    switch ((enum mc_command)upload->command) {
    case MC_CMD_ADD:
        return old == NULL ? MC_STATUS_STORED : MC_STATUS_NOT_STORED;
    case MC_CMD_REPLACE:
        return old != NULL ? MC_STATUS_STORED : MC_STATUS_NOT_STORED;
    case MC_CMD_CAS:
        if (old == NULL)
            return MC_STATUS_NOT_FOUND;
        return old->cas == upload->cas ? MC_STATUS_STORED : MC_STATUS_EXISTS;
    default:
        return MC_STATUS_STORED;
    }
}

static enum kv_verdict decide_store(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct store_decision *store = ctx;
    const struct cache_upload *upload = store->upload;

    if (upload->command == MC_CMD_APPEND || upload->command == MC_CMD_PREPEND)
        return decide_join(store, old, change);
    store->status = store_status(upload, old);
    if (store->status != MC_STATUS_STORED)
        return KV_KEEP;
    change->item = upload->item;
    change->state = 0;
    return KV_REPLACE;
}

/* ---- after the data ---------------------------------------------------------------------- */

static void cas_count(struct cache_worker *worker, enum mc_status status)
{
    if (status == MC_STATUS_STORED)
        cache_count(worker, CACHE_CAS_HITS, 1);
    else if (status == MC_STATUS_EXISTS)
        cache_count(worker, CACHE_CAS_BADVAL, 1);
    else
        cache_count(worker, CACHE_CAS_MISSES, 1);
}

/* Publishes the upload or drops it. */
static enum mc_status upload_store(struct cache_worker *worker, const struct cache_upload *upload,
                                   const struct kv_key *key)
{
    struct store_decision store = {.worker = worker, .key = key, .upload = upload};
    struct kv_change change = {0};

    kv_views_done(worker->kv_worker);
    kv_update(worker->kv_worker, key, decide_store, &store, &change);
    if (store.status != MC_STATUS_STORED || store.joined != NULL)
        kv_item_drop(worker->kv_worker, upload->item);
    if (upload->command == MC_CMD_CAS)
        cas_count(worker, store.status);
    if (upload->command == MC_CMD_ADD && store.status == MC_STATUS_NOT_STORED) {
        struct kv_view view;

        kv_get(worker->kv_worker, key, &view); /* a refused add counts as an access */
    }
    return store.status;
}

int cache_store_finish(struct cache_session *session, struct cache_upload *upload,
                       const uint8_t *key_bytes, uint32_t key_len, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    enum mc_status status = MC_STATUS_BAD_DATA_CHUNK;

    U_ASSERT(upload->left == 0);
    cache_count(worker, CACHE_CMD_SET, 1);
    if (upload_ends_well(upload)) {
        struct kv_key key = cache_session_key(session, key_bytes, key_len);

        status = upload_store(worker, upload, &key);
    } else {
        kv_item_drop(worker->kv_worker, upload->item);
    }
    upload->item = NULL;
    return upload->noreply ? 0 : cache_reply_status(worker, sink, status);
}
