/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conversation: a state machine over the bytes of a session.
 *
 *   LINE ---- request with a value -> VALUE ---- data complete ----> LINE
 *   LINE ---- refused data block ---> SWALLOW -- skipped, error ---> LINE
 *   LINE ---- keys, sink full ------> REPLYING - resumed ----------> LINE
 *   LINE ---- set of -Y ------------> TOKEN ---- user, password ---> LINE
 *   LINE ---- dump, watch ----------> TASK ----- done -------------> LINE
 *   any ----- quit, fatal error ----> CLOSING
 *
 * The first byte decides whether a session speaks the text or the binary protocol. A request (a
 * line, or a packet's header, extras and key) that lies within the input is parsed in place. Only
 * what straddles two inputs is copied: the beginning of a request, the request of an upload, the
 * keys that an interrupted reply still owes.
 */
#include <string.h>

#include "base/base.h"
#include "cache/auth.h"
#include "cache/exec.h"
#include "cache/line.h"
#include "cache/reply.h"
#include "cache/shown.h"
#include "cache/task.h"

/* ---- leaving a request ------------------------------------------------------------------- */

/* Between two requests. */
static inline void session_idle(struct cache_session *session)
{
    if (U_UNLIKELY(session->line != NULL))
        cache_line_drop(session->worker, &session->line);
    cache_session_set_phase(session, CACHE_PHASE_LINE);
}

static void session_end(struct cache_session *session)
{
    cache_line_drop(session->worker, &session->line);
    cache_session_set_phase(session, CACHE_PHASE_CLOSING);
}

/* After a request that has been answered, or not (result < 0: the transport has no memory). */
static void session_done(struct cache_session *session, int result)
{
    if (U_UNLIKELY(cache_session_phase(session) == CACHE_PHASE_TASK))
        return; /* the request goes on as that */
    if (U_LIKELY(result >= 0)) {
        session_idle(session);
        return;
    }
    if (session->close_reason == CACHE_CLOSE_NORMAL)
        session->close_reason = CACHE_CLOSE_ERROR;
    session_end(session);
}

/* There is no memory for what has to be kept of a request. */
static void session_out_of_memory(struct cache_session *session, struct cache_sink *sink)
{
    if (session->language != CACHE_LANGUAGE_BINARY)
        cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_REQUEST);
    session_end(session);
}

/* Keeps a request that lies in the input. False if there was no memory, the session then ends. */
static bool request_keep(struct cache_session *session, const uint8_t *bytes, uint32_t len,
                         struct cache_sink *sink)
{
    if (session->line != NULL)
        return true; /* there it is */
    if (cache_line_set(session->worker, &session->line, bytes, len) == 0)
        return true;
    session_out_of_memory(session, sink);
    return false;
}

/* ---- data blocks that nobody wants ------------------------------------------------------- */

/* The error is sent when the data has come; null: none. */
static void swallow_start(struct cache_session *session, uint32_t bytes, const char *error,
                          uint32_t error_len)
{
    cache_line_drop(session->worker, &session->line);
    session->u.swallow.left = bytes;
    session->u.swallow.error = error;
    session->u.swallow.error_len = error_len;
    cache_session_set_phase(session, CACHE_PHASE_SWALLOW);
}

static uint32_t take_swallow(struct cache_session *session, uint32_t len, struct cache_sink *sink)
{
    struct cache_swallow *swallow = &session->u.swallow;
    uint32_t n = u_min32(len, swallow->left);
    int result = 0;

    swallow->left -= n;
    if (swallow->left > 0)
        return n;
    if (swallow->error != NULL)
        result = cache_reply_bytes(session->worker, sink, swallow->error, swallow->error_len);
    session_done(session, result);
    return n;
}

/*
 * Sends an error and skips what follows it, or the other way round: the text of a binary error is
 * not there any more when the data has come.
 */
static void refuse(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink)
{
    bool late = request->swallow_bytes > 0 && session->language != CACHE_LANGUAGE_BINARY;
    int result = 0;

    if (request->error != NULL && !late)
        result = cache_reply_bytes(session->worker, sink, request->error, request->error_len);
    if (request->close || result != 0)
        session_end(session);
    else if (request->swallow_bytes > 0)
        swallow_start(session, request->swallow_bytes, late ? request->error : NULL,
                      request->error_len);
    else
        session_idle(session);
}

/* ---- uploads ----------------------------------------------------------------------------- */

/* What the client does not send of what is stored: in binary packets no CRLF ends the value. */
static uint32_t upload_tail(const struct cache_session *session)
{
    return session->language == CACHE_LANGUAGE_BINARY ? CACHE_CRLF_BYTES : 0;
}

/* Takes data as far as the value goes; returns how much. */
static uint32_t upload_take(struct cache_session *session, const uint8_t *data, uint32_t len)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t n = u_min32(len, upload->left - upload_tail(session));

    cache_store_write(upload, data, n);
    return n;
}

/* Stores and answers if the value is complete; else returns false. */
static bool upload_finish(struct cache_session *session, const struct mc_request *request,
                          struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t tail = upload_tail(session);

    if (upload->left > tail)
        return false;
    cache_store_write(upload, (const uint8_t *)"\r\n", tail);
    session_done(session, cache_exec_store_finish(session, request, upload, sink));
    return true;
}

static uint32_t take_value(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    uint32_t n = upload_take(session, data, len);
    const struct cache_line *line = session->line;
    struct mc_request request;
    enum mc_outcome outcome;

    if (session->u.upload.left > upload_tail(session))
        return n;
    if (session->language == CACHE_LANGUAGE_BINARY)
        outcome = mc_parse_binary(line->bytes, line->len, &request);
    else
        outcome = mc_parse(line->bytes, line->len, &request);
    U_ASSERT(outcome == MC_REQUEST);
    upload_finish(session, &request, sink);
    return n;
}

/* There is no item to upload to. */
static void upload_refuse(struct cache_session *session, const struct mc_request *request,
                          enum cache_outcome outcome, struct cache_sink *sink)
{
    enum mc_status status =
        outcome == CACHE_TOO_LARGE ? MC_STATUS_TOO_LARGE : MC_STATUS_NO_MEMORY_STORING;
    uint32_t bytes = request->value_bytes;
    uint32_t error_len;
    const char *error = mc_status_text(status, &error_len);

    if (session->language != CACHE_LANGUAGE_BINARY)
        swallow_start(session, bytes + CACHE_CRLF_BYTES, request->noreply ? NULL : error,
                      error_len);
    else if (cache_binary_store_refuse(session, request, outcome, sink) != 0)
        session_end(session);
    else if (bytes > 0)
        swallow_start(session, bytes, NULL, 0);
    else
        session_idle(session);
}

/*
 * A request with a value that begins at `data`, right behind it, as far as it has come. Takes it
 * whole, or starts an upload that take_value() or take_swallow() will finish. Returns the bytes
 * taken.
 */
static uint32_t run_storage(struct cache_session *session, const struct mc_request *request,
                            const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    enum cache_outcome outcome = cache_exec_store_begin(session, request, upload);
    uint32_t n;

    if (outcome != CACHE_OK) {
        upload_refuse(session, request, outcome, sink);
        return 0;
    }
    n = upload_take(session, data, len);
    if (upload_finish(session, request, sink))
        return n;
    if (request_keep(session, data - request->line_bytes, request->line_bytes, sink))
        cache_session_set_phase(session, CACHE_PHASE_VALUE);
    else
        cache_store_drop(session->worker, upload);
    return n;
}

/* ---- retrieval --------------------------------------------------------------------------- */

/* The sink is full: keeps the keys that remain, in the line that they stand in or in a copy. */
static void retrieval_keep(struct cache_session *session, const struct cache_retrieval *retrieval,
                           struct cache_sink *sink)
{
    uint32_t len = (uint32_t)(retrieval->end - retrieval->at);
    uint32_t at = 0;

    if (session->line != NULL) {
        at = (uint32_t)(retrieval->at - session->line->bytes);
    } else if (cache_line_set(session->worker, &session->line, retrieval->at, len) != 0) {
        session_out_of_memory(session, sink);
        return;
    }
    session->u.rest.at = at;
    session->u.rest.end = at + len;
    session->u.rest.exptime = retrieval->exptime;
    session->u.rest.command = (uint8_t)retrieval->command;
    cache_session_set_phase(session, CACHE_PHASE_REPLYING);
}

/* Answers many keys, as long as the sink takes them. */
static void run_retrieval(struct cache_session *session, struct cache_retrieval *retrieval,
                          struct cache_sink *sink)
{
    enum cache_progress progress = cache_exec_get(session, retrieval, sink);

    if (progress == CACHE_INTERRUPTED)
        retrieval_keep(session, retrieval, sink);
    else
        session_done(session, progress == CACHE_DONE ? 0 : -1);
}

void cache_session_resume(struct cache_session *session, struct cache_sink *sink)
{
    if (sink->full) {
        cache_task_wait(session);
        return;
    }
    session->blocked = false;
    session->hint.key.bytes = NULL;
    session->worker->current = session;
    if (cache_session_phase(session) == CACHE_PHASE_TASK) {
        int result;

        if (cache_task_step(session, sink, &result))
            session_done(session, result);
    } else if (cache_session_phase(session) == CACHE_PHASE_REPLYING) {
        const struct cache_reply_rest *rest = &session->u.rest;
        struct cache_retrieval retrieval = {
            .command = (enum mc_command)rest->command,
            .exptime = rest->exptime,
            .at = session->line->bytes + rest->at,
            .end = session->line->bytes + rest->end,
        };

        run_retrieval(session, &retrieval, sink);
    }
}

/* ---- text requests ----------------------------------------------------------------------- */

/*
 * Runs a well-formed request. data is what follows its line; returns how much of that it took as
 * its data block.
 */
static uint32_t run_request(struct cache_session *session, const struct mc_request *request,
                            const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
    switch (request->command) {
    case MC_CMD_GET:
    case MC_CMD_GETS:
    case MC_CMD_GAT:
    case MC_CMD_GATS: {
        struct cache_retrieval retrieval = {
            .command = request->command,
            .exptime = request->exptime,
            .at = request->args,
            .end = request->args + request->args_len,
        };

        if (request->args_len == request->key_len)
            session_done(session, cache_exec_get_one(session, request, sink));
        else
            run_retrieval(session, &retrieval, sink);
        return 0;
    }
    case MC_CMD_SET:
    case MC_CMD_ADD:
    case MC_CMD_REPLACE:
    case MC_CMD_APPEND:
    case MC_CMD_PREPEND:
    case MC_CMD_CAS:
    case MC_CMD_MS:
        return run_storage(session, request, data, len, sink);
    case MC_CMD_QUIT:
        session_end(session);
        return 0;
    default:
        session_done(session, cache_text_run(session, request, sink));
        return 0;
    }
}

static void refuse_line(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    if (request->command == MC_CMD_FLUSH_ALL)
        session_done(session, cache_text_flush_refused(session, request, sink));
    else
        refuse(session, request, sink);
}

/*
 * Goes on with a line whose beginning has been kept. The parser is asked when the line is complete,
 * and once when it crosses each limit, so that a line that comes byte by byte is not scanned again
 * for each byte.
 */
static uint32_t take_rest_of_line(struct cache_session *session, const uint8_t *data, uint32_t len,
                                  struct cache_sink *sink)
{
    uint32_t before = session->line->len;
    uint32_t n = u_min32(len, MC_KEYS_LINE_MAX + 1 - before);
    const uint8_t *newline = memchr(data, '\n', n);
    struct mc_request request;
    bool crosses;

    if (newline != NULL)
        n = (uint32_t)(newline - data) + 1;
    if (cache_line_append(session->worker, &session->line, data, n) != 0) {
        session_out_of_memory(session, sink);
        return 0;
    }
    crosses = before <= MC_LINE_MAX && before + n > MC_LINE_MAX;
    if (newline == NULL && !crosses && before + n <= MC_KEYS_LINE_MAX)
        return n;
    switch (mc_parse(session->line->bytes, session->line->len, &request)) {
    case MC_REQUEST:
        return n + run_request(session, &request, data + n, len - n, sink);
    case MC_MALFORMED:
        refuse_line(session, &request, sink);
        return n;
    case MC_MORE:
        if (before + n > MC_KEYS_LINE_MAX)
            session_end(session);
        return n;
    }
    return n;
}

/* A get of one key. */
static void run_get(struct cache_session *session, const struct kv_key *key,
                    struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    atomic_store_explicit(&session->last_request_s, worker->now_s, memory_order_relaxed);
    if (U_UNLIKELY(cache_exec_get_key(worker, key, sink) != 0))
        session_done(session, -1);
}

static uint32_t take_line(struct cache_session *session, const uint8_t *data, uint32_t len,
                          struct cache_sink *sink)
{
    struct mc_request request;
    uint32_t seen = u_min32(len, MC_KEYS_LINE_MAX + 1);
    uint32_t key_len;
    uint32_t get_bytes;

    if (U_UNLIKELY(session->line != NULL))
        return take_rest_of_line(session, data, len, sink);
    get_bytes = mc_parse_get(data, len, &key_len);
    if (get_bytes > 0) {
        struct kv_key key = cache_session_key(session, data + MC_GET_KEY_OFFSET, key_len);

        run_get(session, &key, sink);
        return get_bytes;
    }
    switch (mc_parse(data, seen, &request)) {
    case MC_REQUEST:
        return request.line_bytes + run_request(session, &request, data + request.line_bytes,
                                                len - request.line_bytes, sink);
    case MC_MALFORMED:
        refuse_line(session, &request, sink);
        return request.line_bytes;
    case MC_MORE:
        if (cache_line_append(session->worker, &session->line, data, seen) != 0)
            session_out_of_memory(session, sink);
        return seen;
    }
    return 0;
}

/* ---- binary requests --------------------------------------------------------------------- */

/* As run_request(). */
static uint32_t run_packet(struct cache_session *session, const struct mc_request *request,
                           const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
    if (mc_command_has_value(request->command))
        return run_storage(session, request, data, len, sink);
    session_done(session, cache_binary_run(session, request, sink));
    if (request->command == MC_CMD_QUIT)
        session_end(session);
    return 0;
}

/* Goes on with a packet of which not even header, extras and key were complete. */
static uint32_t take_rest_of_packet(struct cache_session *session, const uint8_t *data,
                                    uint32_t len, struct cache_sink *sink)
{
    uint32_t before = session->line->len;
    uint32_t n = u_min32(len, MC_BINARY_REQUEST_MAX - before);
    struct mc_request request;

    if (cache_line_append(session->worker, &session->line, data, n) != 0) {
        session_out_of_memory(session, sink);
        return 0;
    }
    switch (mc_parse_binary(session->line->bytes, before + n, &request)) {
    case MC_REQUEST:
        session->line->len = request.line_bytes;
        n = request.line_bytes - before;
        return n + run_packet(session, &request, data + n, len - n, sink);
    case MC_MALFORMED:
        refuse(session, &request, sink);
        return request.line_bytes - before;
    case MC_MORE:
        return n;
    }
    return n;
}

static uint32_t take_packet(struct cache_session *session, const uint8_t *data, uint32_t len,
                            struct cache_sink *sink)
{
    struct mc_request request;

    if (session->line != NULL)
        return take_rest_of_packet(session, data, len, sink);
    switch (mc_parse_binary(data, len, &request)) {
    case MC_REQUEST:
        return request.line_bytes + run_packet(session, &request, data + request.line_bytes,
                                               len - request.line_bytes, sink);
    case MC_MALFORMED:
        refuse(session, &request, sink);
        return request.line_bytes;
    case MC_MORE:
        if (cache_line_append(session->worker, &session->line, data, len) != 0)
            session_out_of_memory(session, sink);
        return len;
    }
    return 0;
}

/* ---- authentication ---------------------------------------------------------------------- */

static void auth_answer(struct cache_session *session, enum mc_status status,
                        struct cache_sink *sink)
{
    session_done(session, cache_reply_status(session->worker, sink, status));
}

/* The line is complete. */
static void auth_line(struct cache_session *session, struct cache_sink *sink)
{
    uint32_t token_bytes;

    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
    switch (cache_auth_line(session->line->bytes, session->line->len, &token_bytes)) {
    case CACHE_AUTH_CLOSE:
        session_end(session);
        break;
    case CACHE_AUTH_REFUSED:
        auth_answer(session, MC_STATUS_UNAUTHENTICATED, sink);
        break;
    case CACHE_AUTH_TOO_LONG:
        auth_answer(session, MC_STATUS_AUTH_TOO_LONG, sink);
        break;
    case CACHE_AUTH_TOKEN:
        session->line->len = 0;
        session->u.token_bytes = token_bytes + CACHE_CRLF_BYTES;
        cache_session_set_phase(session, CACHE_PHASE_TOKEN);
        break;
    }
}

static uint32_t take_auth_line(struct cache_session *session, const uint8_t *data, uint32_t len,
                               struct cache_sink *sink)
{
    uint32_t before = session->line != NULL ? session->line->len : 0;
    uint32_t n = u_min32(len, MC_LINE_MAX + 1 - before);
    const uint8_t *newline = memchr(data, '\n', n);

    if (newline != NULL)
        n = (uint32_t)(newline - data) + 1;
    if (cache_line_append(session->worker, &session->line, data, n) != 0)
        session_out_of_memory(session, sink);
    else if (newline != NULL)
        auth_line(session, sink);
    else if (before + n > MC_LINE_MAX)
        session_end(session);
    return n;
}

static uint32_t take_token(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    uint32_t n = u_min32(len, session->u.token_bytes - session->line->len);
    enum mc_status status;

    if (cache_line_append(session->worker, &session->line, data, n) != 0) {
        session_out_of_memory(session, sink);
        return n;
    }
    if (session->line->len < session->u.token_bytes)
        return n;
    status = cache_auth_token(session->worker, session->line->bytes, session->line->len);
    if (status == MC_STATUS_STORED)
        session->language = CACHE_LANGUAGE_TEXT;
    auth_answer(session, status, sink);
    return n;
}

/* ---- the input --------------------------------------------------------------------------- */

/* What a session speaks is settled by its first byte, if the settings leave it open. */
static enum cache_language language_of(const struct cache_session *session, uint8_t first_byte)
{
    const struct cache_settings *settings = &session->worker->cache->settings;
    enum cache_binding binding = session->peer.binding;

    if (settings->auth_file != NULL)
        return CACHE_LANGUAGE_AUTH;
    if (binding == CACHE_BINDING_NEGOTIATE)
        binding = settings->binding;
    if (binding == CACHE_BINDING_ASCII)
        return CACHE_LANGUAGE_TEXT;
    if (binding == CACHE_BINDING_BINARY)
        return CACHE_LANGUAGE_BINARY;
    return mc_protocol_detect(first_byte) == MC_PROTOCOL_BINARY ? CACHE_LANGUAGE_BINARY
                                                                : CACHE_LANGUAGE_TEXT;
}

static uint32_t take_request(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    if (U_LIKELY(session->language == CACHE_LANGUAGE_TEXT))
        return take_line(session, data, len, sink);
    if (session->language == CACHE_LANGUAGE_UNKNOWN)
        session->language = language_of(session, data[0]);
    if (session->language == CACHE_LANGUAGE_BINARY)
        return take_packet(session, data, len, sink);
    if (session->language == CACHE_LANGUAGE_AUTH)
        return take_auth_line(session, data, len, sink);
    return take_line(session, data, len, sink);
}

/* The session has had its turn, and there is more to do. */
static void session_yield(struct cache_session *session)
{
    session->yielded = true;
    cache_count(session->worker, CACHE_CONN_YIELDS, 1);
}

/* Requests from the input, as far as they may be taken now. Returns how much of it was taken. */
static uint32_t take_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    uint32_t turns_left = session->worker->requests_per_event;
    uint32_t at = 0;

    session->worker->written_before = cache_counter(session->worker, CACHE_BYTES_WRITTEN);
    session->yielded = false;
    while (at < len && !session->blocked && !session->yielded) {
        enum cache_phase phase = cache_session_phase(session);

        if (phase == CACHE_PHASE_LINE && sink->full)
            session->blocked = true;
        else if (phase == CACHE_PHASE_LINE && turns_left-- == 0)
            session_yield(session);
        else if (phase == CACHE_PHASE_LINE)
            at += take_request(session, data + at, len - at, sink);
        else if (phase == CACHE_PHASE_VALUE)
            at += take_value(session, data + at, len - at, sink);
        else if (phase == CACHE_PHASE_SWALLOW)
            at += take_swallow(session, len - at, sink);
        else if (phase == CACHE_PHASE_TOKEN)
            at += take_token(session, data + at, len - at, sink);
        else if (phase == CACHE_PHASE_TASK && session->u.task->ops->listens)
            at = len;
        else
            break;
    }
    if (U_UNLIKELY(at < len))
        cache_count(session->worker, CACHE_BYTES_READ, (uint64_t)at - len);
    return at;
}

uint32_t cache_session_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    /* Counted now, so that `stats` sees the bytes that asked for it. */
    cache_count(worker, CACHE_BYTES_READ, len);
    cache_shown_end(worker);
    worker->current = session;
    len = take_input(session, data, len, sink);
    session->hint.key.bytes = NULL;
    return len;
}
