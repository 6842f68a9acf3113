/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get, gets, gat, gats.
 *
 * The keys of a long request are taken some at a time: all of them are hashed and their buckets
 * fetched, then what their items begin with, then the rest of these, and only then is the first one
 * answered, so that the cache misses overlap.
 */
#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/reply.h"

#define BATCH_KEYS 16

struct key_batch {
    struct kv_key keys[BATCH_KEYS];
    const uint8_t *next[BATCH_KEYS]; /* where the request goes on behind each key */
    unsigned count;
};

static void batch_fill(struct cache_session *session, const struct cache_retrieval *retrieval,
                       struct key_batch *batch)
{
    const struct kv_worker *kv_worker = session->worker->kv_worker;
    const struct kv_item *items[BATCH_KEYS];
    const uint8_t *at = retrieval->at;
    const uint8_t *bytes;
    uint32_t len;

    batch->count = 0;
    while (batch->count < BATCH_KEYS && mc_token_next(&at, retrieval->end, &bytes, &len)) {
        batch->keys[batch->count] = cache_session_key(session, bytes, len);
        batch->next[batch->count] = at;
        batch->count++;
    }
    if (batch->count < 2)
        return;
    for (unsigned i = 0; i < batch->count; i++)
        kv_prefetch_bucket(kv_worker, &batch->keys[i]);
    for (unsigned i = 0; i < batch->count; i++)
        items[i] = kv_prefetch_item(kv_worker, &batch->keys[i]);
    for (unsigned i = 0; i < batch->count; i++)
        if (items[i])
            kv_prefetch_value(items[i]);
}

static int key_answer(struct cache_worker *worker, enum mc_command command, int32_t exptime,
                      const struct kv_key *key, struct cache_sink *sink)
{
    bool touches = command == MC_CMD_GAT || command == MC_CMD_GATS;
    bool with_cas = command == MC_CMD_GETS || command == MC_CMD_GATS;
    struct kv_view view;
    bool found;

    if (touches) {
        found = cache_touch(worker, key, cache_clock_expiry(worker, exptime), &view);
        cache_note_fetch(worker, key, found);
    } else {
        found = cache_get(worker, key, &view);
    }
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

int cache_exec_get_key(struct cache_worker *worker, const struct kv_key *key,
                       struct cache_sink *sink)
{
    struct kv_view view;

    if (!cache_get(worker, key, &view))
        return cache_reply_end(worker, sink);
    if (cache_reply_value(worker, sink, &view, false) != 0)
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
