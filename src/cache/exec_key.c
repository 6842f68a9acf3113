/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delete and touch: commands that need no more than a key.
 */
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/reply.h"

static enum kv_verdict decide_delete(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    bool *found = ctx;

    *found = old != NULL;
    return KV_DELETE;
}

bool cache_key_remove(struct cache_worker *worker, const struct kv_key *key)
{
    struct kv_change change = {0};
    bool found = false;

    kv_update(worker->kv_worker, key, decide_delete, &found, &change);
    return found;
}

int cache_exec_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    bool found = cache_key_remove(worker, &key);

    cache_count(worker, found ? CACHE_DELETE_HITS : CACHE_DELETE_MISSES, 1);
    if (request->noreply)
        return 0;
    return cache_reply_status(worker, sink, found ? MC_STATUS_DELETED : MC_STATUS_NOT_FOUND);
}

struct touch_decision {
    uint32_t exptime;
    bool found;
};

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct touch_decision *touch = ctx;

    touch->found = old != NULL;
    if (old == NULL)
        return KV_KEEP;
    change->exptime = touch->exptime;
    change->state = old->state | KV_FETCHED;
    return KV_TOUCH;
}

int cache_exec_touch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct touch_decision touch = {.exptime = cache_clock_expiry(worker, request->exptime)};
    struct kv_change change = {0};

    kv_update(worker->kv_worker, &key, decide_touch, &touch, &change);
    cache_count(worker, CACHE_CMD_TOUCH, 1);
    cache_count(worker, touch.found ? CACHE_TOUCH_HITS : CACHE_TOUCH_MISSES, 1);
    if (request->noreply)
        return 0;
    return cache_reply_status(worker, sink, touch.found ? MC_STATUS_TOUCHED : MC_STATUS_NOT_FOUND);
}
