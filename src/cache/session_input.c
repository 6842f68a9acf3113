/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session state machine: input bytes to requests.
 *
 *   LINE ---- request with a value -> VALUE ---- data complete ----> LINE
 *   LINE ---- refused data block ---> DISCARD -- skipped, error ---> LINE
 *   LINE ---- keys, sink full ------> REPLYING - resumed ----------> LINE
 *   LINE ---- set of -Y, SASL ------> TOKEN ---- user, password ---> LINE
 *   LINE ---- dump, watch ----------> TASK ----- done -------------> LINE
 *   any ----- quit, fatal error ----> CLOSING
 *
 * The first byte decides whether a session speaks the text or the binary protocol. A request (a
 * line, or a packet's header, extras and key) that lies within the input is parsed in place, once.
 * Only what spans two inputs is copied to session->line: the beginning of a request, the request of
 * an unfinished upload, the keys of an interrupted reply.
 */
#include <string.h>

#include "base/base.h"
#include "cache/acl.h"
#include "cache/exec.h"
#include "cache/hot_keys.h"
#include "cache/latency.h"
#include "cache/linebuf.h"
#include "cache/pending_items.h"
#include "cache/sasl.h"
#include "cache/sink_reply.h"
#include "cache/task.h"
#include "cache/wire_log.h"

/* ---- transitions ------------------------------------------------------------------------- */

/* A session is idle since the end of its last request, which may be long after its beginning. */
static inline void note_time(struct cache_session *session)
{
    atomic_store_explicit(&session->last_request_s, session->worker->now_s, memory_order_relaxed);
}

/* Between two requests. */
static inline void session_idle(struct cache_session *session)
{
    note_time(session);
    if (U_UNLIKELY(session->line != NULL))
        cache_linebuf_drop(session->worker, &session->line);
    cache_session_set_phase(session, CACHE_PHASE_LINE);
}

static void session_end(struct cache_session *session)
{
    cache_linebuf_drop(session->worker, &session->line);
    cache_session_set_phase(session, CACHE_PHASE_CLOSING);
}

/* Ends the session because of a client's error or for lack of memory. */
static void session_fail(struct cache_session *session)
{
    if (session->close_reason == CACHE_CLOSE_NORMAL)
        session->close_reason = CACHE_CLOSE_ERROR;
    session_end(session);
}

static inline void session_done(struct cache_session *session, int result)
{
    enum cache_phase phase = cache_session_phase(session);

    if (U_UNLIKELY(result < 0))
        session_fail(session);
    else if (U_LIKELY(phase != CACHE_PHASE_TASK && phase != CACHE_PHASE_REPLYING))
        session_idle(session);
}

void cache_session_done(struct cache_session *session, int result)
{
    session_done(session, result);
}

/* There is no memory to keep a part of a request. */
static void session_out_of_memory(struct cache_session *session, struct cache_sink *sink)
{
    if (session->state.protocol != CACHE_PROTOCOL_BINARY)
        cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_REQUEST);
    session_fail(session);
}

bool cache_session_keep_request(struct cache_session *session, const uint8_t *bytes, uint32_t len,
                                struct cache_sink *sink)
{
    if (session->line != NULL) /* the request was parsed there */
        return true;
    if (cache_linebuf_append(session->worker, &session->line, bytes, len) == 0)
        return true;
    session_out_of_memory(session, sink);
    return false;
}

void cache_session_discard(struct cache_session *session, uint32_t bytes, const char *error,
                           uint32_t error_len)
{
    cache_linebuf_drop(session->worker, &session->line);
    session->u.discard = (struct cache_discard){error, error_len, bytes};
    cache_session_set_phase(session, CACHE_PHASE_DISCARD);
}

static uint32_t discard_data(struct cache_session *session, uint32_t len, struct cache_sink *sink)
{
    struct cache_discard *discard = &session->u.discard;
    uint32_t n = u_min32(len, discard->left);
    int result = 0;

    discard->left -= n;
    if (discard->left > 0)
        return n;
    if (discard->error != NULL)
        result = cache_reply_bytes(session->worker, sink, discard->error, discard->error_len);
    session_done(session, result);
    return n;
}

/* ---- requests ---------------------------------------------------------------------------- */

enum mc_outcome cache_session_parse(const struct cache_session *session, const uint8_t *bytes,
                                    uint32_t len, struct mc_request *request)
{
    if (U_LIKELY(session->state.protocol != CACHE_PROTOCOL_BINARY))
        return mc_parse(bytes, len, request);
    return mc_parse_binary(bytes, len, request);
}

/*
 * Runs a get of one key without making a struct mc_request of it, which would be a fifth of the
 * instructions of a pipelined get.
 */
static inline uint32_t run_get(struct cache_session *session, const uint8_t *data,
                               uint32_t line_bytes, uint32_t key_len, struct cache_sink *sink)
{
    struct kv_key key = cache_session_key(session, data + MC_FAST_KEY_OFFSET, key_len);

    note_time(session);
    cache_latency_add(session->worker, MC_CMD_GET);
    if (U_UNLIKELY(cache_exec_get_key(session->worker, &key, sink) != 0))
        session_fail(session);
    return line_bytes;
}

/*
 * Runs a well-formed request. data is what follows its line or packet; returns how much of that it
 * took as its value.
 */
static uint32_t run_request(struct cache_session *session, const struct mc_request *request,
                            const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    note_time(session);
    if (mc_command_has_value(request->command))
        return cache_exec_store(session, request, data, len, sink);
    cache_latency_add(session->worker, cache_latency_class(request->command));
    if (U_UNLIKELY(session->state.protocol == CACHE_PROTOCOL_BINARY))
        session_done(session, cache_binary_run(session, request, sink));
    else if (U_LIKELY(mc_command_is_retrieval(request->command)))
        session_done(session, cache_exec_get(session, request, sink));
    else
        session_done(session, cache_text_run(session, request, sink));
    if (U_UNLIKELY(request->command == MC_CMD_QUIT))
        session_end(session);
    return 0;
}

/*
 * Sends the error of a malformed request and discards its data block. memcached sends the error of
 * a text request after the block; a binary one, which lies in *request, has to be sent before.
 */
static void refuse_request(struct cache_session *session, const struct mc_request *request,
                           struct cache_sink *sink)
{
    bool late = request->discard_bytes > 0 && session->state.protocol != CACHE_PROTOCOL_BINARY;
    int result = 0;

    if (request->command == MC_CMD_FLUSH_ALL)
        result = cache_text_flush_refused(session, request, sink);
    else if (request->error != NULL && !late)
        result = cache_reply_bytes(session->worker, sink, request->error, request->error_len);
    if (request->close || result != 0)
        session_fail(session);
    else if (request->discard_bytes > 0)
        cache_session_discard(session, request->discard_bytes, late ? request->error : NULL,
                              request->error_len);
    else
        session_idle(session);
}

/*
 * How much of an input to append to the beginning of a request in `line` before parsing it. A line
 * is parsed when it is complete, and once when it crosses each limit of its length, so that a line
 * that arrives byte by byte is not scanned for each byte.
 */
static uint32_t continuation_bytes(const struct cache_session *session, const uint8_t *data,
                                   uint32_t len, bool *parse)
{
    uint32_t before = session->line->len;
    const uint8_t *newline;
    uint32_t n;

    *parse = true;
    if (session->state.protocol == CACHE_PROTOCOL_BINARY)
        return u_min32(len, MC_BINARY_REQUEST_MAX - before);
    n = u_min32(len, MC_KEYS_LINE_MAX + 1 - before);
    newline = memchr(data, '\n', n);
    if (newline != NULL)
        return (uint32_t)(newline - data) + 1;
    *parse = (before <= MC_LINE_MAX && before + n > MC_LINE_MAX) || before + n > MC_KEYS_LINE_MAX;
    return n;
}

static void auth_reply(struct cache_session *session, enum mc_status status,
                       struct cache_sink *sink)
{
    session_done(session, cache_reply_status(session->worker, sink, status));
}

/* A valid token is the user's name, a space and the password. */
static uint32_t token_name_len(const struct cache_linebuf *line)
{
    return (uint32_t)((const uint8_t *)memchr(line->bytes, ' ', line->len) - line->bytes);
}

/* The token is complete. */
static void run_token(struct cache_session *session, struct cache_sink *sink)
{
    const struct cache_linebuf *line = session->line;
    enum mc_status status;

    if (session->state.protocol == CACHE_PROTOCOL_BINARY) {
        session_done(session, cache_sasl_run(session, line->bytes, line->len, sink));
        return;
    }
    status = cache_auth_token(session, line->bytes, line->len);
    if (status == MC_STATUS_STORED) {
        session->state.protocol = CACHE_PROTOCOL_TEXT;
        cache_acl_set_user(session, line->bytes, token_name_len(line));
    }
    auth_reply(session, status, sink);
}

/*
 * SASL (-S): refuses what needs authentication, and collects the commands that authenticate.
 * Returns whether the request is to be run.
 */
static bool sasl_permits(struct cache_session *session, enum mc_outcome outcome,
                         const struct mc_request *request, const uint8_t *packet,
                         struct cache_sink *sink)
{
    enum mc_binary_status status = MC_BINARY_AUTH_ERROR;

    switch (cache_sasl_check(session, outcome, request, packet)) {
    case CACHE_SASL_PERMITTED:
        return true;
    case CACHE_SASL_COMMAND:
        session->u.token_bytes = MC_BINARY_HEADER_BYTES + request->discard_bytes;
        if (!cache_session_keep_request(session, packet, MC_BINARY_HEADER_BYTES, sink))
            return false;
        cache_session_set_phase(session, CACHE_PHASE_TOKEN);
        if (request->discard_bytes == 0)
            run_token(session, sink);
        return false;
    case CACHE_SASL_UNAUTHENTICATED:
        (void)cache_binary_error(session->worker, request, status, NULL, sink);
        session_fail(session);
        return false;
    case CACHE_SASL_BAD_MECHANISM:
        status = MC_BINARY_INVALID;
        break;
    case CACHE_SASL_TOO_LONG:
        status = MC_BINARY_NO_MEMORY;
        break;
    }
    if (cache_binary_error(session->worker, request, status, NULL, sink) != 0)
        session_fail(session);
    else
        cache_session_discard(session, request->discard_bytes, NULL, 0);
    return false;
}

/* Replies that a request is refused, and discards its value. */
static void deny(struct cache_session *session, const struct mc_request *request,
                 struct cache_sink *sink)
{
    bool is_binary = session->state.protocol == CACHE_PROTOCOL_BINARY;
    bool has_value = mc_command_has_value(request->command);
    const char *error;
    uint32_t error_len;
    int result;

    if (!is_binary && has_value) {
        error = mc_status_text(MC_STATUS_ACCESS_DENIED, &error_len);
        cache_session_discard(session, request->value_bytes + CACHE_CRLF_BYTES,
                              request->noreply ? NULL : error, error_len);
        return;
    }
    if (is_binary)
        result = cache_binary_error(session->worker, request, MC_BINARY_AUTH_ERROR, NULL, sink);
    else
        result =
            cache_reply_unless_noreply(session->worker, sink, request, MC_STATUS_ACCESS_DENIED);
    if (result == 0 && has_value && request->value_bytes > 0)
        cache_session_discard(session, request->value_bytes, NULL, 0);
    else
        session_done(session, result);
}

/* With CACHE_CHECK_REQUESTS: whether a request, whose bytes begin in `line` or at data, may run. */
static bool request_is_permitted(struct cache_session *session, enum mc_outcome outcome,
                                 const struct mc_request *request, const uint8_t *data,
                                 struct cache_sink *sink)
{
    const uint8_t *bytes = session->line != NULL ? session->line->bytes : data;

    if (session->state.protocol == CACHE_PROTOCOL_BINARY && session->worker->cache->settings.sasl &&
        !sasl_permits(session, outcome, request, bytes, sink))
        return false;
    if (outcome != MC_REQUEST || session->worker->acl == NULL ||
        cache_acl_permits(session, request))
        return true;
    deny(session, request, sink);
    return false;
}

static inline bool checks_requests(const struct cache_session *session)
{
    return (session->worker->event_mask & CACHE_CHECK_REQUESTS) != 0;
}

/*
 * Runs or refuses a complete request, of which `before` bytes are in `line` and the others at
 * `data`; returns how many bytes of data it took. `checked`: it needs permission.
 */
static inline uint32_t run_parsed(struct cache_session *session, enum mc_outcome outcome,
                                  const struct mc_request *request, uint32_t before,
                                  const uint8_t *data, uint32_t len, struct cache_sink *sink,
                                  bool checked)
{
    uint32_t n = request->line_bytes - before;

    if (checked && !request_is_permitted(session, outcome, request, data, sink))
        return n;
    if (U_LIKELY(outcome == MC_REQUEST))
        return n + run_request(session, request, data + n, len - n, sink);
    refuse_request(session, request, sink);
    return n;
}

/* Continues a request whose beginning is in `line`. */
static uint32_t continue_request(struct cache_session *session, const uint8_t *data, uint32_t len,
                                 struct cache_sink *sink)
{
    uint32_t before = session->line->len;
    struct mc_request request;
    enum mc_outcome outcome;
    bool parse;
    uint32_t n = continuation_bytes(session, data, len, &parse);

    if (cache_linebuf_append(session->worker, &session->line, data, n) != 0) {
        session_out_of_memory(session, sink);
        return 0;
    }
    if (!parse)
        return n;
    outcome = cache_session_parse(session, session->line->bytes, before + n, &request);
    if (outcome == MC_MORE)
        return n;
    session->line->len = request.line_bytes;
    return run_parsed(session, outcome, &request, before, data, len, sink,
                      checks_requests(session));
}

/* Runs what a parser has found at the start of the input, or keeps its beginning. */
static inline uint32_t take_parsed(struct cache_session *session, enum mc_outcome outcome,
                                   const struct mc_request *request, const uint8_t *data,
                                   uint32_t len, struct cache_sink *sink, bool checked)
{
    uint32_t n = u_min32(len, MC_KEYS_LINE_MAX + 1);

    if (U_LIKELY(outcome != MC_MORE))
        return run_parsed(session, outcome, request, 0, data, len, sink, checked);
    if (cache_linebuf_append(session->worker, &session->line, data, n) != 0)
        session_out_of_memory(session, sink);
    return n;
}

static uint32_t take_binary(struct cache_session *session, const uint8_t *data, uint32_t len,
                            struct cache_sink *sink)
{
    struct mc_request request;

    if (session->line != NULL)
        return continue_request(session, data, len, sink);
    return take_parsed(session, mc_parse_binary(data, len, &request), &request, data, len, sink,
                       false);
}

/* A get of one key or a set that stage A has parsed is not parsed again. */
static inline uint32_t take_text(struct cache_session *session, const uint8_t *data, uint32_t len,
                                 struct cache_sink *sink)
{
    const struct cache_hint *hint = &session->hint;
    enum mc_outcome outcome = MC_REQUEST;
    struct mc_request request;
    uint32_t key_len;
    uint32_t line_bytes;

    if (U_UNLIKELY(session->line != NULL))
        return continue_request(session, data, len, sink);
    if (cache_hint_is_for(session, data + MC_FAST_KEY_OFFSET) && hint->line_bytes > 0) {
        if (data[0] == 'g')
            return run_get(session, data, hint->line_bytes, hint->key.len, sink);
        mc_request_from_set(&request, data, hint->line_bytes, &hint->set);
    } else {
        line_bytes = mc_parse_get(data, len, &key_len);
        if (U_LIKELY(line_bytes > 0))
            return run_get(session, data, line_bytes, key_len, sink);
        outcome = mc_parse_except_get(data, u_min32(len, MC_KEYS_LINE_MAX + 1), &request);
    }
    return take_parsed(session, outcome, &request, data, len, sink, false);
}

/* ---- authentication ---------------------------------------------------------------------- */

/* The line is complete. */
static void run_auth_line(struct cache_session *session, struct cache_sink *sink)
{
    uint32_t token_bytes;

    note_time(session);
    switch (cache_auth_line(session->line->bytes, session->line->len, &token_bytes)) {
    case CACHE_AUTH_CLOSE:
        session_fail(session);
        break;
    case CACHE_AUTH_REFUSED:
        auth_reply(session, MC_STATUS_UNAUTHENTICATED, sink);
        break;
    case CACHE_AUTH_TOO_LONG:
        auth_reply(session, MC_STATUS_AUTH_TOO_LONG, sink);
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
    if (cache_linebuf_append(session->worker, &session->line, data, n) != 0)
        session_out_of_memory(session, sink);
    else if (newline != NULL)
        run_auth_line(session, sink);
    else if (before + n > MC_LINE_MAX)
        session_fail(session);
    return n;
}

static uint32_t take_token(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    uint32_t n = u_min32(len, session->u.token_bytes - session->line->len);

    if (cache_linebuf_append(session->worker, &session->line, data, n) != 0) {
        session_out_of_memory(session, sink);
        return n;
    }
    if (session->line->len == session->u.token_bytes)
        run_token(session, sink);
    return n;
}

/* ---- input ------------------------------------------------------------------------------- */

/* The settings decide the protocol, or else the first byte does. */
static enum cache_protocol protocol_of(const struct cache_session *session, uint8_t first_byte)
{
    const struct cache_settings *settings = &session->worker->cache->settings;
    enum cache_binding binding = session->peer.binding;

    if (settings->auth_file != NULL && !settings->sasl)
        return CACHE_PROTOCOL_AUTH;
    if (settings->auth_file == NULL && settings->sasl)
        return CACHE_PROTOCOL_BINARY;
    if (binding == CACHE_BINDING_NEGOTIATE)
        binding = settings->binding;
    if (binding == CACHE_BINDING_BINARY ||
        (binding != CACHE_BINDING_ASCII && mc_protocol_detect(first_byte) == MC_PROTOCOL_BINARY))
        return CACHE_PROTOCOL_BINARY;
    return settings->auth_file != NULL ? CACHE_PROTOCOL_AUTH : CACHE_PROTOCOL_TEXT;
}

/* Takes the request at the start of the input, as far as it has come. */
static uint32_t take_request(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    if (U_UNLIKELY(session->state.protocol != CACHE_PROTOCOL_TEXT)) {
        if (session->state.protocol == CACHE_PROTOCOL_UNKNOWN)
            session->state.protocol = protocol_of(session, data[0]);
        if (session->state.protocol == CACHE_PROTOCOL_BINARY)
            return take_binary(session, data, len, sink);
        if (session->state.protocol == CACHE_PROTOCOL_AUTH)
            return take_auth_line(session, data, len, sink);
    }
    return take_text(session, data, len, sink);
}

/* The same for requests that need permission: all are parsed by the general parsers. */
static uint32_t take_checked(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    struct mc_request request;
    enum mc_outcome outcome;

    if (session->state.protocol == CACHE_PROTOCOL_UNKNOWN)
        session->state.protocol = protocol_of(session, data[0]);
    if (session->state.protocol == CACHE_PROTOCOL_AUTH)
        return take_auth_line(session, data, len, sink);
    if (session->line != NULL)
        return continue_request(session, data, len, sink);
    outcome = cache_session_parse(session, data, u_min32(len, MC_KEYS_LINE_MAX + 1), &request);
    return take_parsed(session, outcome, &request, data, len, sink, true);
}

/* Takes a request, or more of a value, with checks of permission and lines for the log of -vv. */
static __attribute__((noinline)) uint32_t take_watched(struct cache_session *session,
                                                       const uint8_t *data, uint32_t len,
                                                       struct cache_sink *sink)
{
    struct cache_wire_mark mark = {NULL, NULL};
    bool is_line = cache_session_phase(session) == CACHE_PHASE_LINE;
    bool begins = is_line && session->line == NULL;
    bool logs = cache_wire_log_is_on(session->worker);
    uint32_t n;

    if (logs)
        mark = cache_wire_log_mark(sink);
    if (!is_line)
        n = cache_exec_store_more(session, data, len, sink);
    else if (checks_requests(session))
        n = take_checked(session, data, len, sink);
    else
        n = take_request(session, data, len, sink);
    if (!logs)
        return n;
    if (begins)
        cache_wire_log_request(session, data, len);
    cache_wire_log_reply(session, &mark, sink);
    return n;
}

/* Takes requests until the input ends or the session stops; returns the bytes taken. */
static uint32_t take_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    uint32_t requests_left = session->worker->requests_per_event;
    struct cache_session_state_word *state = &session->state;
    uint32_t at = 0;

    session->worker->written_before = cache_counter(session->worker, CACHE_BYTES_WRITTEN);
    if (state->stop == CACHE_STOP_TURN)
        state->stop = CACHE_STOP_NONE;
    while (at < len && state->stop == CACHE_STOP_NONE) {
        enum cache_phase phase = cache_session_phase(session);

        if (phase == CACHE_PHASE_LINE && sink->full) {
            state->stop = CACHE_STOP_FULL;
        } else if (phase == CACHE_PHASE_LINE && requests_left-- == 0) {
            state->stop = CACHE_STOP_TURN;
            cache_count(session->worker, CACHE_CONN_YIELDS, 1);
        } else if (phase <= CACHE_PHASE_VALUE &&
                   U_UNLIKELY(session->worker->event_mask &
                              (CACHE_LOG_WIRE | CACHE_CHECK_REQUESTS))) {
            at += take_watched(session, data + at, len - at, sink);
        } else if (phase == CACHE_PHASE_LINE) {
            at += take_request(session, data + at, len - at, sink);
        } else if (phase == CACHE_PHASE_VALUE) {
            at += cache_exec_store_more(session, data + at, len - at, sink);
        } else if (phase == CACHE_PHASE_DISCARD) {
            at += discard_data(session, len - at, sink);
        } else if (phase == CACHE_PHASE_TOKEN) {
            at += take_token(session, data + at, len - at, sink);
        } else if (phase == CACHE_PHASE_TASK && session->u.task->ops->listens) {
            at = len;
        } else {
            break;
        }
    }
    if (U_UNLIKELY(at < len))
        cache_count(session->worker, CACHE_BYTES_READ, (uint64_t)at - len);
    return at;
}

uint32_t cache_session_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    U_ASSERT(session->open);
    cache_count(worker, CACHE_BYTES_READ, len); /* before a `stats` in the input reads it */
    cache_pending_clear(worker);
    worker->current = session;
    if (U_UNLIKELY(worker->hot_is_due))
        cache_hot_sample(session, data, len);
    len = take_input(session, data, len, sink);
    session->hint.key.bytes = NULL;
    return len;
}

void cache_session_resume(struct cache_session *session, struct cache_sink *sink)
{
    enum cache_phase phase = cache_session_phase(session);
    int result;

    U_ASSERT(session->open);
    if (U_UNLIKELY(phase == CACHE_PHASE_CLOSING)) {
        cache_session_set_resumable(session, false);
        return;
    }
    if (sink->full) {
        cache_task_wait(session);
        return;
    }
    if (session->state.stop == CACHE_STOP_FULL)
        session->state.stop = CACHE_STOP_NONE;
    session->hint.key.bytes = NULL;
    session->worker->current = session;
    if (phase == CACHE_PHASE_REPLYING)
        session_done(session, cache_exec_get_resume(session, sink));
    else if (phase == CACHE_PHASE_TASK && cache_task_step(session, sink, &result))
        session_done(session, result);
}
