/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests with a value, from the request to the reply: what is the same in all protocols.
 */
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/reply.h"

static struct cache_store store_of(const struct cache_session *session,
                                   const struct mc_request *request)
{
    if (session->language == CACHE_LANGUAGE_BINARY)
        return cache_binary_store(session->worker, request);
    if (request->command == MC_CMD_MS)
        return cache_meta_store(session->worker, request);
    return cache_text_store(session->worker, request);
}

enum cache_outcome cache_exec_store_begin(struct cache_session *session,
                                          const struct mc_request *request,
                                          struct cache_upload *upload)
{
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_store store = store_of(session, request);

    return cache_store_begin(session->worker, &key, &store, upload);
}

int cache_exec_store_finish(struct cache_session *session, const struct mc_request *request,
                            struct cache_upload *upload, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_store store = store_of(session, request);
    struct cache_stored stored;

    cache_count(worker, CACHE_CMD_SET, 1);
    cache_count_class(worker, CACHE_CLASS_CMD_SET, key.len, store.flags, upload->value_len);
    if (!cache_store_ends_well(upload)) {
        cache_store_drop(worker, upload);
        return request->noreply ? 0 : cache_reply_status(worker, sink, MC_STATUS_BAD_DATA_CHUNK);
    }
    cache_store_finish(worker, &key, &store, upload, &stored);
    if (session->language == CACHE_LANGUAGE_BINARY)
        return cache_binary_store_reply(session, request, &stored, sink);
    if (request->command == MC_CMD_MS)
        return cache_meta_store_reply(session, request, &stored, sink);
    return cache_text_store_reply(session, request, &stored, sink);
}
