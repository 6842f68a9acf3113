/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get, gets, gat, gats.
 *
 * The keys of a request are taken in batches: all of a batch are hashed and their buckets
 * prefetched, then the starts of their items, then the remaining lines of these, and only then the
 * first one is answered, so that the cache misses overlap.
 */
#include "base/base.h"
#include "cache/clock.h"
#include "cache/cluster.h"
#include "cache/exec.h"
#include "cache/linebuf.h"
#include "cache/op.h"
#include "cache/sink_reply.h"

#define BATCH_KEYS 16

struct retrieval {
    enum mc_command command;
    int32_t exptime;   /* gat, gats */
    const uint8_t *at; /* the keys that have no answer yet */
    const uint8_t *end;
};

struct key_batch {
    struct kv_key keys[BATCH_KEYS];
    const uint8_t *next[BATCH_KEYS]; /* the end of each key in the request */
    unsigned count;
};

static void batch_fill(struct cache_session *session, const struct retrieval *retrieval,
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

/* Writes the VALUE of one key, or nothing for a miss; the list of servers needs no item. */
static inline int answer_key(struct cache_worker *worker, enum mc_command command, int32_t exptime,
                             const struct kv_key *key, struct cache_sink *sink)
{
    bool touches = command == MC_CMD_GAT || command == MC_CMD_GATS;
    bool with_cas = command == MC_CMD_GETS || command == MC_CMD_GATS;
    struct kv_view view;
    bool found;

    if (touches) {
        found = cache_touch(worker, key, cache_clock_expiry(worker, exptime), &view);
        cache_log_fetch(worker, key, found);
    } else {
        found = cache_get(worker, key, &view);
    }
    if (found)
        return cache_reply_value(worker, sink, &view, with_cas);
    if (U_UNLIKELY(cache_cluster_has_key(worker, key)) && !touches)
        return cache_cluster_value(worker, sink, with_cas);
    return 0;
}

/* The sink is full: keeps the remaining keys in the line buffer they lie in, or in a copy. */
static int keep_remaining(struct cache_session *session, const struct retrieval *retrieval,
                          struct cache_sink *sink)
{
    uint32_t len = (uint32_t)(retrieval->end - retrieval->at);
    uint32_t at = 0;

    if (session->line != NULL) {
        at = (uint32_t)(retrieval->at - session->line->bytes);
    } else if (cache_linebuf_append(session->worker, &session->line, retrieval->at, len) != 0) {
        cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_REQUEST);
        return -1;
    }
    session->u.remaining = (struct cache_remaining_keys){
        .at = at,
        .end = at + len,
        .exptime = retrieval->exptime,
        .command = (uint8_t)retrieval->command,
    };
    cache_session_set_phase(session, CACHE_PHASE_REPLYING);
    return 0;
}

static int answer_keys(struct cache_session *session, struct retrieval *retrieval,
                       struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct key_batch batch;

    do {
        batch_fill(session, retrieval, &batch);
        for (unsigned i = 0; i < batch.count; i++) {
            if (sink->full)
                return keep_remaining(session, retrieval, sink);
            if (answer_key(worker, retrieval->command, retrieval->exptime, &batch.keys[i], sink) !=
                0)
                return -1;
            retrieval->at = batch.next[i];
        }
    } while (batch.count == BATCH_KEYS);
    return cache_reply_end(worker, sink);
}

int cache_exec_get_key(struct cache_worker *worker, const struct kv_key *key,
                       struct cache_sink *sink)
{
    if (answer_key(worker, MC_CMD_GET, 0, key, sink) != 0)
        return -1;
    return cache_reply_end(worker, sink);
}

int cache_exec_get(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink)
{
    struct retrieval retrieval;

    if (request->args_len == request->key_len) { /* one key needs no batch */
        struct kv_key key = cache_session_key(session, request->key, request->key_len);

        if (answer_key(session->worker, request->command, request->exptime, &key, sink) != 0)
            return -1;
        return cache_reply_end(session->worker, sink);
    }
    retrieval.command = request->command;
    retrieval.exptime = request->exptime;
    retrieval.at = request->args;
    retrieval.end = request->args + request->args_len;
    return answer_keys(session, &retrieval, sink);
}

int cache_exec_get_resume(struct cache_session *session, struct cache_sink *sink)
{
    const struct cache_remaining_keys *remaining = &session->u.remaining;
    struct retrieval retrieval = {
        .command = (enum mc_command)remaining->command,
        .exptime = remaining->exptime,
        .at = session->line->bytes + remaining->at,
        .end = session->line->bytes + remaining->end,
    };

    U_ASSERT(cache_session_phase(session) == CACHE_PHASE_REPLYING);
    cache_session_set_phase(session, CACHE_PHASE_LINE);
    return answer_keys(session, &retrieval, sink);
}
