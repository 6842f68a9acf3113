/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get, gets, gat, gats.
 *
 * The keys of a long request are taken a few at a time: all of them are hashed and their buckets
 * fetched, then their items, and only then is the first one answered, so that the cache misses
 * overlap.
 */
#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/reply.h"

#define BATCH_KEYS 8

struct key_batch {
    struct kv_key keys[BATCH_KEYS];
    const uint8_t *next[BATCH_KEYS]; /* where the request goes on behind each key */
    unsigned count;
};

static void batch_fill(struct cache_session *session, const struct cache_retrieval *retrieval,
                       struct key_batch *batch)
{
    const struct kv_worker *kv_worker = session->worker->kv_worker;
    const uint8_t *at = retrieval->at;
    const uint8_t *bytes;
    uint32_t len;

    batch->count = 0;
    while (batch->count < BATCH_KEYS && mc_key_next(&at, retrieval->end, &bytes, &len)) {
        batch->keys[batch->count] = cache_session_key(session, bytes, len);
        batch->next[batch->count] = at;
        batch->count++;
    }
    if (batch->count < 2)
        return;
    for (unsigned i = 0; i < batch->count; i++)
        kv_prefetch_bucket(kv_worker, &batch->keys[i]);
    for (unsigned i = 0; i < batch->count; i++)
        kv_prefetch_item(kv_worker, &batch->keys[i]);
}

struct gat_decision {
    struct kv_view view; /* what was found, good until the end of this loop */
    uint32_t exptime;
    bool found;
};

static enum kv_verdict decide_gat(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct gat_decision *gat = ctx;

    gat->found = old != NULL;
    if (old == NULL)
        return KV_KEEP;
    gat->view = *old;
    change->exptime = gat->exptime;
    change->state = old->state | KV_FETCHED;
    return KV_TOUCH;
}

/* Looks a key up for gat; the statistics count it as a touch only. */
static bool key_touch(struct cache_worker *worker, const struct kv_key *key, int32_t exptime,
                      struct kv_view *view)
{
    struct gat_decision gat = {.exptime = cache_clock_expiry(worker, exptime)};
    struct kv_change change = {0};

    kv_update(worker->kv_worker, key, decide_gat, &gat, &change);
    cache_count(worker, CACHE_CMD_TOUCH, 1);
    cache_count(worker, gat.found ? CACHE_TOUCH_HITS : CACHE_TOUCH_MISSES, 1);
    *view = gat.view;
    return gat.found;
}

static bool key_get(struct cache_worker *worker, const struct kv_key *key, struct kv_view *view)
{
    enum kv_found found = kv_get(worker->kv_worker, key, view);

    cache_count(worker, CACHE_CMD_GET, 1);
    if (U_LIKELY(found == KV_HIT)) {
        cache_count(worker, CACHE_GET_HITS, 1);
        return true;
    }
    cache_count(worker, CACHE_GET_MISSES, 1);
    if (found == KV_MISS_EXPIRED)
        cache_count(worker, CACHE_GET_EXPIRED, 1);
    else if (found == KV_MISS_FLUSHED)
        cache_count(worker, CACHE_GET_FLUSHED, 1);
    return false;
}

static int key_answer(struct cache_worker *worker, enum mc_command command, int32_t exptime,
                      const struct kv_key *key, struct cache_sink *sink)
{
    bool touches = command == MC_CMD_GAT || command == MC_CMD_GATS;
    bool with_cas = command == MC_CMD_GETS || command == MC_CMD_GATS;
    struct kv_view view;
    bool found;

    if (touches)
        found = key_touch(worker, key, exptime, &view);
    else
        found = key_get(worker, key, &view);
    return found ? cache_reply_value(worker, sink, &view, with_cas) : 0;
}

int cache_exec_get_one(struct cache_session *session, const struct mc_request *request,
                       struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);

    if (key_answer(worker, request->command, request->exptime, &key, sink) != 0)
        return -1;
    return cache_reply_end(worker, sink);
}

enum cache_progress cache_exec_get(struct cache_session *session, struct cache_retrieval *retrieval,
                                   struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct key_batch batch;

    do {
        batch_fill(session, retrieval, &batch);
        for (unsigned i = 0; i < batch.count; i++) {
            if (sink->full)
                return CACHE_INTERRUPTED;
            if (key_answer(worker, retrieval->command, retrieval->exptime, &batch.keys[i], sink) !=
                0)
                return CACHE_GAVE_UP;
            retrieval->at = batch.next[i];
        }
    } while (batch.count == BATCH_KEYS);
    return cache_reply_end(worker, sink) == 0 ? CACHE_DONE : CACHE_GAVE_UP;
}
