/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session: a state machine over the bytes of a connection.
 *
 *   LINE ---- storage command -----> VALUE ---- data complete ----> LINE
 *   LINE ---- refused data block --> SWALLOW -- skipped, error ---> LINE
 *   LINE ---- keys, sink full -----> REPLYING - resumed ----------> LINE
 *   any ----- quit, fatal error ---> CLOSING
 *
 * A line that lies within the input is parsed in place. Only what straddles two inputs is copied:
 * the beginning of a line, the key of an upload, the keys that an interrupted reply still owes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/exec.h"
#include "cache/line.h"
#include "cache/reply.h"

static const char error_reading[] = "SERVER_ERROR out of memory reading request\r\n";

/* ---- opening and closing ----------------------------------------------------------------- */

/* Adds a slab of free sessions. The caller holds session_lock. */
static bool pool_grow(struct cache_worker *worker)
{
    struct cache_slab *slab = calloc(1, sizeof(*slab));

    if (slab == NULL) {
        cache_count(worker, CACHE_MALLOC_FAILS, 1);
        return false;
    }
    slab->next = worker->slabs;
    worker->slabs = slab;
    for (uint32_t i = CACHE_SLAB_SESSIONS; i-- > 0;) {
        struct cache_session *session = &slab->sessions[i];

        session->worker = worker;
        session->id = (worker->session_count + i) * worker->cache->settings.threads + worker->index;
        session->u.next_free = worker->free_sessions;
        worker->free_sessions = session;
    }
    worker->session_count += CACHE_SLAB_SESSIONS;
    return true;
}

void cache_session_pool_free(struct cache_worker *worker)
{
    while (worker->slabs != NULL) {
        struct cache_slab *slab = worker->slabs;

        worker->slabs = slab->next;
        free(slab);
    }
    worker->free_sessions = NULL;
}

static struct cache_session *pool_take(struct cache_worker *worker, const struct cache_peer *peer)
{
    struct cache_session *session = NULL;

    pthread_mutex_lock(&worker->session_lock);
    if (worker->free_sessions != NULL || pool_grow(worker)) {
        session = worker->free_sessions;
        worker->free_sessions = session->u.next_free;
        session->open = true;
        session->peer = *peer;
    }
    pthread_mutex_unlock(&worker->session_lock);
    return session;
}

static void connection_leave(struct cache_worker *worker)
{
    atomic_fetch_sub_explicit(&worker->cache->connections, 1, memory_order_relaxed);
}

/* Counts a connection in. False if all that are allowed are open. */
static bool connection_admit(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    unsigned open_before = atomic_fetch_add_explicit(&cache->connections, 1, memory_order_relaxed);

    if (open_before < cache->settings.connections_max)
        return true;
    connection_leave(worker);
    cache_count(worker, CACHE_REJECTED_CONNECTIONS, 1);
    return false;
}

static bool is_datagram(const struct cache_peer *peer)
{
    return strncmp(peer->transport, "udp", 3) == 0;
}

/* A conversation of which nothing has come yet. */
static void session_begin(struct cache_session *session)
{
    session->line = NULL;
    session->blocked = false;
    session->yielded = false;
    session->hint.key = NULL;
    cache_session_set_phase(session, CACHE_PHASE_LINE);
}

/* Gives back what a request that has begun holds. */
static void session_drop(struct cache_session *session)
{
    struct cache_worker *worker = session->worker;

    if (cache_session_phase(session) == CACHE_PHASE_VALUE)
        kv_item_drop(worker->kv_worker, session->u.upload.item);
    cache_line_drop(worker, &session->line);
}

bool cache_is_full(const struct cache *cache)
{
    return atomic_load_explicit(&cache->connections, memory_order_relaxed) >=
           cache->settings.connections_max;
}

struct cache_session *cache_session_open(struct cache_worker *worker, const struct cache_peer *peer)
{
    bool counted = !is_datagram(peer);
    struct cache_session *session;

    if (counted && !connection_admit(worker))
        return NULL;
    session = pool_take(worker, peer);
    if (session == NULL) {
        if (counted)
            connection_leave(worker);
        return NULL;
    }
    if (counted)
        cache_count(worker, CACHE_TOTAL_CONNECTIONS, 1);
    session->counted = counted;
    session_begin(session);
    atomic_store_explicit(&session->last_request_s, worker->now_s, memory_order_relaxed);
    return session;
}

void cache_session_close(struct cache_session *session)
{
    struct cache_worker *worker = session->worker;

    session_drop(session);
    if (session->counted)
        connection_leave(worker);
    pthread_mutex_lock(&worker->session_lock);
    session->open = false;
    session->u.next_free = worker->free_sessions;
    worker->free_sessions = session;
    pthread_mutex_unlock(&worker->session_lock);
}

void cache_session_restart(struct cache_session *session)
{
    session_drop(session);
    session_begin(session);
}

void cache_session_kick(struct cache_session *session)
{
    cache_count(session->worker, CACHE_IDLE_KICKS, 1);
    cache_session_close(session);
}

uint32_t cache_session_idle_s(const struct cache_session *session)
{
    uint32_t last_s = atomic_load_explicit(&session->last_request_s, memory_order_relaxed);

    if (cache_session_state(session) != CACHE_SESSION_OPEN ||
        cache_session_phase(session) != CACHE_PHASE_LINE)
        return 0;
    return session->worker->now_s - last_s;
}

enum cache_session_state cache_session_state(const struct cache_session *session)
{
    switch (cache_session_phase(session)) {
    case CACHE_PHASE_CLOSING:
        return CACHE_SESSION_CLOSING;
    case CACHE_PHASE_REPLYING:
        return CACHE_SESSION_BLOCKED;
    default:
        if (session->blocked)
            return CACHE_SESSION_BLOCKED;
        return session->yielded ? CACHE_SESSION_YIELDED : CACHE_SESSION_OPEN;
    }
}

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
    if (U_LIKELY(result >= 0))
        session_idle(session);
    else
        session_end(session);
}

/* There is no memory for what has to be kept of a request. */
static void session_out_of_memory(struct cache_session *session, struct cache_sink *sink)
{
    cache_reply_bytes(session->worker, sink, error_reading, sizeof(error_reading) - 1);
    session_end(session);
}

/* ---- data blocks that nobody wants ------------------------------------------------------- */

/* memcached sends the error when the data has come. */
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

static void refuse(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink)
{
    int result = 0;

    if (request->command == MC_CMD_FLUSH_ALL) {
        session_done(session, cache_text_flush_refused(session, request, sink));
        return;
    }
    if (request->swallow_bytes > 0 && !request->close) {
        swallow_start(session, request->swallow_bytes, request->error, request->error_len);
        return;
    }
    if (request->error != NULL)
        result = cache_reply_bytes(session->worker, sink, request->error, request->error_len);
    if (request->close)
        session_end(session);
    else
        session_done(session, result);
}

/* ---- uploads ----------------------------------------------------------------------------- */

static uint32_t take_value(struct cache_session *session, const uint8_t *data, uint32_t len,
                           struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    uint32_t n = u_min32(len, upload->left);
    struct mc_request request;
    enum mc_outcome outcome;

    cache_store_write(upload, data, n);
    if (upload->left > 0)
        return n;
    outcome = mc_parse(session->line->bytes, session->line->len, &request);
    U_ASSERT(outcome == MC_REQUEST);
    session_done(session, cache_text_store_finish(session, &request, upload, sink));
    return n;
}

/*
 * A storage command whose data begins at `data`, right behind its line, as far as it has come.
 * Takes it whole, or starts an upload that take_value() or take_swallow() will finish. Returns the
 * bytes taken.
 */
static uint32_t run_storage(struct cache_session *session, const struct mc_request *request,
                            const uint8_t *data, uint32_t len, struct cache_sink *sink)
{
    struct cache_upload *upload = &session->u.upload;
    enum mc_status status = cache_text_store_begin(session, request, upload);
    uint32_t n;

    if (status != MC_STATUS_OK) {
        uint32_t error_len;
        const char *error = mc_status_text(status, &error_len);

        swallow_start(session, request->value_bytes + CACHE_CRLF_BYTES,
                      request->noreply ? NULL : error, error_len);
        return 0;
    }
    n = u_min32(len, upload->left);
    cache_store_write(upload, data, n);
    if (upload->left == 0) {
        session_done(session, cache_text_store_finish(session, request, upload, sink));
        return n;
    }
    if (session->line == NULL &&
        cache_line_set(session->worker, &session->line, data - request->line_bytes,
                       request->line_bytes) != 0) {
        cache_store_drop(session->worker, upload);
        session_out_of_memory(session, sink);
        return n;
    }
    cache_session_set_phase(session, CACHE_PHASE_VALUE);
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
    if (sink->full)
        return;
    session->blocked = false;
    if (cache_session_phase(session) == CACHE_PHASE_REPLYING) {
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

/* ---- requests ---------------------------------------------------------------------------- */

/* Commands that are answered at once. Returns 0, or -1 if the reply could not be written. */
static int run_simple(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    switch (request->command) {
    case MC_CMD_DELETE:
        return cache_text_delete(session, request, sink);
    case MC_CMD_INCR:
    case MC_CMD_DECR:
        return cache_text_arith(session, request, sink);
    case MC_CMD_TOUCH:
        return cache_text_touch(session, request, sink);
    case MC_CMD_FLUSH_ALL:
        return cache_text_flush(session, request, sink);
    case MC_CMD_VERSION:
        return cache_text_version(session, sink);
    case MC_CMD_VERBOSITY:
        return cache_text_verbosity(session, request, sink);
    case MC_CMD_STATS:
        return cache_exec_stats(session, request, sink);
    default:
        if (request->noreply)
            return 0;
        return cache_reply_status(session->worker, sink, MC_STATUS_ERROR);
    }
}

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
        return run_storage(session, request, data, len, sink);
    case MC_CMD_QUIT:
        session_end(session);
        return 0;
    default:
        session_done(session, run_simple(session, request, sink));
        return 0;
    }
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
        refuse(session, &request, sink);
        return n;
    case MC_MORE:
        if (before + n > MC_KEYS_LINE_MAX)
            session_end(session);
        return n;
    }
    return n;
}

static uint32_t take_line(struct cache_session *session, const uint8_t *data, uint32_t len,
                          struct cache_sink *sink)
{
    struct mc_request request;
    uint32_t seen = u_min32(len, MC_KEYS_LINE_MAX + 1);

    if (U_UNLIKELY(session->line != NULL))
        return take_rest_of_line(session, data, len, sink);
    switch (mc_parse(data, seen, &request)) {
    case MC_REQUEST:
        return request.line_bytes + run_request(session, &request, data + request.line_bytes,
                                                len - request.line_bytes, sink);
    case MC_MALFORMED:
        refuse(session, &request, sink);
        return request.line_bytes;
    case MC_MORE:
        if (cache_line_append(session->worker, &session->line, data, seen) != 0)
            session_out_of_memory(session, sink);
        return seen;
    }
    return 0;
}

/* The session has had its turn, and there is more to do. */
static void session_yield(struct cache_session *session)
{
    session->yielded = true;
    cache_count(session->worker, CACHE_CONN_YIELDS, 1);
}

uint32_t cache_session_input(struct cache_session *session, const uint8_t *data, uint32_t len,
                             struct cache_sink *sink)
{
    uint32_t turns_left = session->worker->requests_per_event;
    uint32_t at = 0;

    /* Counted now, so that `stats` sees the bytes that asked for it. */
    cache_count(session->worker, CACHE_BYTES_READ, len);
    session->yielded = false;
    while (at < len && !session->blocked && !session->yielded) {
        enum cache_phase phase = cache_session_phase(session);

        if (phase == CACHE_PHASE_LINE && sink->full)
            session->blocked = true;
        else if (phase == CACHE_PHASE_LINE && turns_left-- == 0)
            session_yield(session);
        else if (phase == CACHE_PHASE_LINE)
            at += take_line(session, data + at, len - at, sink);
        else if (phase == CACHE_PHASE_VALUE)
            at += take_value(session, data + at, len - at, sink);
        else if (phase == CACHE_PHASE_SWALLOW)
            at += take_swallow(session, len - at, sink);
        else
            break;
    }
    session->hint.key = NULL;
    if (U_UNLIKELY(at < len))
        cache_count(session->worker, CACHE_BYTES_READ, (uint64_t)at - len);
    return at;
}

/* ---- prefetching ------------------------------------------------------------------------- */

/*
 * The key of most requests is what follows the command's name. Where it is not (gat), or what
 * follows is no key, a bucket is fetched in vain.
 */
void cache_session_prefetch_bucket(struct cache_session *session, const uint8_t *data, uint32_t len)
{
    enum { NAME_MAX_BYTES = 8 };
    const uint8_t *name_end;
    const uint8_t *at;
    const uint8_t *end;
    struct kv_key key;

    session->hint.key = NULL;
    if (session->line != NULL || cache_session_phase(session) != CACHE_PHASE_LINE)
        return;
    name_end = memchr(data, ' ', u_min32(len, NAME_MAX_BYTES));
    if (name_end == NULL)
        return;
    at = name_end + 1;
    end = data + u_min32(len, (uint32_t)(at - data) + KV_KEY_MAX);
    key.bytes = at;
    while (at < end && *at != ' ' && *at != '\r' && *at != '\n')
        at++;
    if (at == key.bytes || at == end)
        return;
    key = kv_key(session->worker->kv, key.bytes, (uint32_t)(at - key.bytes));
    session->hint.key = key.bytes;
    session->hint.len = key.len;
    session->hint.hash = key.hash;
    session->hint.loop = session->worker->loop;
    kv_prefetch_bucket(session->worker->kv_worker, &key);
}

void cache_session_prefetch_item(struct cache_session *session)
{
    const struct cache_hint *hint = &session->hint;

    if (hint->key != NULL && hint->loop == session->worker->loop) {
        struct kv_key key = {hint->key, hint->len, hint->hash};

        kv_prefetch_item(session->worker->kv_worker, &key);
    }
}
