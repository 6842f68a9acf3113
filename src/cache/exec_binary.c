/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary requests: from a packet to an operation, and from its outcome to a packet. */
#include <string.h>

#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/pending_items.h"
#include "cache/sink_reply.h"

static const char error_item[] = "Out of memory allocating item";
static const char error_new_item[] = "Out of memory allocating new item";
static const char error_number[] = "Out of memory incrementing value";

/* ---- packets without a value ------------------------------------------------------------- */

int cache_binary_error(struct cache_worker *worker, const struct mc_request *request,
                       enum mc_binary_status status, const char *text, struct cache_sink *sink)
{
    uint32_t n;

    if (cache_reply_room(sink, MC_BINARY_STATUS_MAX) != 0)
        return -1;
    n = text != NULL ? mc_write_binary_text(sink->at, &request->binary, status, text)
                     : mc_write_binary_error(sink->at, &request->binary, status);
    cache_reply_take(worker, sink, n);
    return 0;
}

/* An error also sends the pending replies, as in memcached. */
static int reply_error(struct cache_worker *worker, const struct mc_request *request,
                       enum mc_binary_status status, struct cache_sink *sink)
{
    cache_pending_clear(worker);
    return cache_binary_error(worker, request, status, NULL, sink);
}

/* Success, which a quiet request suppresses. */
static int reply_done(struct cache_worker *worker, const struct mc_request *request, uint64_t cas,
                      struct cache_sink *sink)
{
    if (request->binary.quiet)
        return 0;
    if (cache_reply_room(sink, MC_BINARY_HEADER_BYTES) != 0)
        return -1;
    cache_reply_take(worker, sink, mc_write_binary_done(sink->at, &request->binary, cas));
    return 0;
}

/* ---- get, gat, touch --------------------------------------------------------------------- */

static int reply_miss(struct cache_worker *worker, const struct mc_request *request,
                      struct cache_sink *sink)
{
    if (request->binary.quiet)
        return 0;
    if (!request->binary.return_key)
        return reply_error(worker, request, MC_BINARY_NOT_FOUND, sink);
    if (cache_reply_room(sink, MC_BINARY_REQUEST_MAX) != 0)
        return -1;
    cache_reply_take(
        worker, sink,
        mc_write_binary_miss(sink->at, &request->binary, request->key, request->key_len));
    return 0;
}

static int binary_get(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    bool with_value = request->command != MC_CMD_TOUCH;
    struct kv_view view;
    bool found;

    if (request->command == MC_CMD_GET)
        found = cache_get(worker, &key, &view);
    else
        found =
            cache_touch(worker, &key, cache_clock_expiry(worker, request->binary.exptime), &view);
    if (!found)
        return reply_miss(worker, request, sink);
    return cache_reply_binary_value(worker, sink, &request->binary, &view, with_value);
}

/* ---- storing ----------------------------------------------------------------------------- */

static enum cache_mode mode_of(const struct mc_request *request)
{
    enum cache_mode mode = cache_mode_of(request->command);
    bool joins = mode == CACHE_APPEND || mode == CACHE_PREPEND;

    return request->binary.cas != 0 && !joins ? CACHE_CAS : mode;
}

struct cache_store cache_binary_store(const struct cache_worker *worker,
                                      const struct mc_request *request)
{
    struct cache_store store = {
        .mode = mode_of(request),
        .flags = request->flags,
        .exptime = cache_clock_expiry_of_new(worker, request->binary.exptime),
        .value_bytes = request->value_bytes,
        .cas = request->binary.cas,
        .overrides = request->command == MC_CMD_SET,
    };

    return store;
}

/* memcached gives an add and a replace the reason why they were not stored. */
static enum mc_binary_status stored_status(const struct mc_request *request,
                                           enum cache_outcome outcome)
{
    switch (outcome) {
    case CACHE_EXISTS:
        return MC_BINARY_EXISTS;
    case CACHE_NOT_FOUND:
        return MC_BINARY_NOT_FOUND;
    default:
        if (request->command == MC_CMD_ADD)
            return MC_BINARY_EXISTS;
        return request->command == MC_CMD_REPLACE ? MC_BINARY_NOT_FOUND : MC_BINARY_NOT_STORED;
    }
}

int cache_binary_store_reply(struct cache_session *session, const struct mc_request *request,
                             const struct cache_store_result *stored, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    if (stored->outcome == CACHE_OK)
        return reply_done(worker, request, stored->cas, sink);
    return reply_error(worker, request, stored_status(request, stored->outcome), sink);
}

int cache_binary_store_refuse(struct cache_session *session, const struct mc_request *request,
                              enum cache_outcome outcome, struct cache_sink *sink)
{
    if (outcome == CACHE_TOO_LARGE)
        return cache_binary_error(session->worker, request, MC_BINARY_TOO_LARGE, NULL, sink);
    return cache_binary_error(session->worker, request, MC_BINARY_NO_MEMORY, error_item, sink);
}

/* ---- delete, incr, decr ------------------------------------------------------------------ */

static int binary_delete(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_deletion deletion = {
        .compare = request->binary.cas != 0,
        .cas = request->binary.cas,
    };

    switch (cache_delete(worker, &key, &deletion)) {
    case CACHE_OK:
        return reply_done(worker, request, 0, sink);
    case CACHE_EXISTS:
        return reply_error(worker, request, MC_BINARY_EXISTS, sink);
    default:
        return reply_error(worker, request, MC_BINARY_NOT_FOUND, sink);
    }
}

static int reply_number(struct cache_worker *worker, const struct mc_request *request,
                        const struct cache_arith_result *counted, struct cache_sink *sink)
{
    if (request->binary.quiet)
        return 0;
    if (cache_reply_room(sink, MC_BINARY_HEADER_BYTES + 8) != 0)
        return -1;
    cache_reply_take(
        worker, sink,
        mc_write_binary_number(sink->at, &request->binary, counted->number, counted->cas));
    return 0;
}

static int binary_arith(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    const struct mc_binary *binary = &request->binary;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_arith arith = {
        .decr = request->command == MC_CMD_DECR,
        .create = binary->exptime != MC_BINARY_NO_CREATE,
        .delta = request->delta,
        .initial = binary->initial,
        .cas = binary->cas,
        .create_exptime = cache_clock_expiry_of_new(worker, binary->exptime),
    };
    struct cache_arith_result counted;

    switch (cache_arith(worker, &key, &arith, &counted)) {
    case CACHE_OK:
        return reply_number(worker, request, &counted, sink);
    case CACHE_NOT_FOUND:
        return reply_error(worker, request, MC_BINARY_NOT_FOUND, sink);
    case CACHE_EXISTS:
        return reply_error(worker, request, MC_BINARY_EXISTS, sink);
    case CACHE_NON_NUMERIC:
        return reply_error(worker, request, MC_BINARY_NON_NUMERIC, sink);
    default:
        return cache_binary_error(worker, request, MC_BINARY_NO_MEMORY,
                                  counted.created ? error_new_item : error_number, sink);
    }
}

/* ---- the server -------------------------------------------------------------------------- */

static int binary_flush(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    uint32_t when_s = cache_clock_expiry(worker, request->binary.exptime);

    if (!cache_flush(worker, when_s))
        return reply_error(worker, request, MC_BINARY_AUTH_ERROR, sink);
    return reply_done(worker, request, 0, sink);
}

static int binary_version(struct cache_session *session, const struct mc_request *request,
                          struct cache_sink *sink)
{
    static const char version[] = UCACHED_COMPAT_VERSION;
    uint32_t n;

    if (cache_reply_room(sink, MC_BINARY_HEADER_BYTES + sizeof(version)) != 0)
        return -1;
    n = mc_write_binary_header(sink->at, &request->binary, MC_BINARY_OK, 0, 0, sizeof(version) - 1,
                               0);
    memcpy(sink->at + n, version, sizeof(version) - 1);
    cache_reply_take(session->worker, sink, n + (uint32_t)sizeof(version) - 1);
    return 0;
}

int cache_binary_run(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    switch (request->command) {
    case MC_CMD_GET:
    case MC_CMD_GAT:
    case MC_CMD_TOUCH:
        return binary_get(session, request, sink);
    case MC_CMD_DELETE:
        return binary_delete(session, request, sink);
    case MC_CMD_INCR:
    case MC_CMD_DECR:
        return binary_arith(session, request, sink);
    case MC_CMD_FLUSH_ALL:
        return binary_flush(session, request, sink);
    case MC_CMD_NOOP:
        cache_pending_clear(session->worker);
        return reply_done(session->worker, request, 0, sink);
    case MC_CMD_QUIT:
        return reply_done(session->worker, request, 0, sink);
    case MC_CMD_VERSION:
        return binary_version(session, request, sink);
    case MC_CMD_STATS:
        return cache_exec_stats(session, request, sink);
    default:
        return reply_error(session->worker, request, MC_BINARY_UNKNOWN_COMMAND, sink);
    }
}
