/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests with a value, in all protocols: from the request through the upload of the value to the
 * reply. The value goes into the item while it arrives (op_store.c, upload.c).
 */
#include "base/base.h"
#include "cache/exec.h"
#include "cache/latency.h"
#include "cache/linebuf.h"
#include "cache/op.h"
#include "cache/sink_reply.h"
#include "cache/upload.h"

/* A request as an operation on a key. */
struct put {
    struct kv_key key;
    struct cache_store store;
};

static bool is_binary(const struct cache_session *session)
{
    return session->state.protocol == CACHE_PROTOCOL_BINARY;
}

static inline void put_init(struct put *put, const struct cache_session *session,
                            const struct mc_request *request)
{
    put->key = cache_session_key(session, request->key, request->key_len);
    if (is_binary(session))
        put->store = cache_binary_store(session->worker, request);
    else if (request->command == MC_CMD_MS)
        put->store = cache_meta_store(session->worker, request);
    else
        put->store = cache_text_store(session->worker, request);
}

/* The end of the stored value that the client does not send: binary values have no CRLF. */
static uint32_t unsent_bytes(const struct cache_session *session)
{
    return is_binary(session) ? CACHE_CRLF_BYTES : 0;
}

/* Replies that a value is refused and discards the `bytes` of it that are still to come. */
static void refuse(struct cache_session *session, const struct mc_request *request,
                   enum cache_outcome outcome, uint32_t bytes, struct cache_sink *sink)
{
    enum mc_status status =
        outcome == CACHE_TOO_LARGE ? MC_STATUS_TOO_LARGE : MC_STATUS_NO_MEMORY_STORING;
    uint32_t error_len;
    const char *error = mc_status_text(status, &error_len);

    if (!is_binary(session))
        cache_session_discard(session, bytes, request->noreply ? NULL : error, error_len);
    else if (cache_binary_store_refuse(session, request, outcome, sink) != 0)
        cache_session_done(session, -1);
    else if (bytes > 0)
        cache_session_discard(session, bytes, NULL, 0);
    else
        cache_session_done(session, 0);
}

/* There is no memory for the bytes of a value that has begun. */
static void abort_upload(struct cache_session *session, const struct mc_request *request,
                         const struct put *put, struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t unsent = unsent_bytes(session);
    uint32_t bytes = upload->left > unsent ? upload->left - unsent : 0;

    cache_store_abort(session->worker, &put->key, &put->store, upload);
    refuse(session, request, CACHE_NO_MEMORY, bytes, sink);
}

/* The value and its CRLF are complete: stores it and replies. */
static int finish(struct cache_session *session, const struct mc_request *request,
                  const struct put *put, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct cache_upload *upload = &session->u.upload;
    struct cache_store_result stored;

    cache_latency_add(worker, cache_latency_class(request->command));
    cache_count(worker, CACHE_CMD_SET, 1);
    cache_count_class(worker, CACHE_CLASS_CMD_SET, put->key.len, put->store.flags,
                      upload->value_len);
    if (U_UNLIKELY(upload->is_unfinished) &&
        cache_store_unstage(worker, &put->key, &put->store, upload) != CACHE_OK) {
        if (is_binary(session))
            return cache_binary_store_refuse(session, request, CACHE_NO_MEMORY, sink);
        return cache_reply_unless_noreply(worker, sink, request, MC_STATUS_NO_MEMORY_STORING);
    }
    if (!cache_store_has_crlf(upload)) {
        cache_store_drop(worker, upload);
        return cache_reply_unless_noreply(worker, sink, request, MC_STATUS_BAD_DATA_CHUNK);
    }
    cache_store_finish(worker, &put->key, &put->store, upload, &stored);
    if (is_binary(session))
        return cache_binary_store_reply(session, request, &stored, sink);
    if (request->command == MC_CMD_MS)
        return cache_meta_store_reply(session, request, &stored, sink);
    return cache_text_store_reply(session, request, &stored, sink);
}

/* Takes data up to the end of the value; *taken says how much. False: no memory, nothing taken. */
static inline bool take(struct cache_session *session, const uint8_t *data, uint32_t len,
                        uint32_t *taken)
{
    struct cache_upload *upload = &session->u.upload;

    *taken = u_min32(len, upload->left - unsent_bytes(session));
    if (U_LIKELY(cache_store_write(session->worker, upload, data, *taken)))
        return true;
    *taken = 0;
    return false;
}

static inline bool is_complete(const struct cache_session *session)
{
    return session->u.upload.left <= unsent_bytes(session);
}

/* All bytes of the value have come: adds the CRLF that is not sent, stores and replies. */
static void complete(struct cache_session *session, const struct mc_request *request,
                     const struct put *put, struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t unsent = unsent_bytes(session);

    if (unsent == 0 || cache_store_write(session->worker, upload, (const uint8_t *)"\r\n", unsent))
        cache_session_done(session, finish(session, request, put, sink));
    else
        abort_upload(session, request, put, sink);
}

uint32_t cache_exec_store(struct cache_session *session, const struct mc_request *request,
                          const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t bytes = request->value_bytes + CACHE_CRLF_BYTES - unsent_bytes(session);
    enum cache_outcome outcome;
    struct put put;
    uint32_t n;

    put_init(&put, session, request);
    outcome = cache_store_begin(session->worker, &put.key, &put.store, len >= bytes, upload);
    if (outcome != CACHE_OK) {
        refuse(session, request, outcome, bytes, sink);
        return 0;
    }
    if (!take(session, data, len, &n)) {
        abort_upload(session, request, &put, sink);
        return 0;
    }
    if (U_LIKELY(is_complete(session)))
        complete(session, request, &put, sink);
    else if (cache_session_keep_request(session, data - request->line_bytes, request->line_bytes,
                                        sink))
        cache_session_set_phase(session, CACHE_PHASE_VALUE);
    else
        cache_store_drop(session->worker, upload);
    return n;
}

uint32_t cache_exec_store_more(struct cache_session *session, const uint8_t *data, uint32_t len,
                               struct cache_sink *sink)
{
    const struct cache_linebuf *line = session->line;
    enum mc_outcome outcome;
    struct mc_request request;
    struct put put;
    uint32_t n;
    bool taken = take(session, data, len, &n);

    if (taken) {
        cache_upload_progress(session->worker, &session->u.upload);
        if (!is_complete(session))
            return n;
    }
    /* The session keeps the line, which is shorter than what it parses to. */
    outcome = cache_session_parse(session, line->bytes, line->len, &request);
    U_ASSERT(outcome == MC_REQUEST);
    put_init(&put, session, &request);
    if (taken)
        complete(session, &request, &put, sink);
    else
        abort_upload(session, &request, &put, sink);
    return n;
}
