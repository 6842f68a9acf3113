/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text commands without a value: dispatch, and for the classic ones from arguments to an
 * operation and from its outcome to a status line.
 */
#include "cache/clock.h"
#include "cache/cluster.h"
#include "cache/event_log.h"
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/pending_items.h"
#include "cache/sink_reply.h"

#define VERBOSITY_MAX 2

static int answer(struct cache_session *session, const struct mc_request *request,
                  enum mc_status status, struct cache_sink *sink)
{
    return cache_reply_unless_noreply(session->worker, sink, request, status);
}

/* ---- storing ----------------------------------------------------------------------------- */

enum cache_mode cache_mode_of(enum mc_command command)
{
    switch (command) {
    case MC_CMD_ADD:
        return CACHE_ADD;
    case MC_CMD_REPLACE:
        return CACHE_REPLACE;
    case MC_CMD_CAS:
        return CACHE_CAS;
    case MC_CMD_APPEND:
        return CACHE_APPEND;
    case MC_CMD_PREPEND:
        return CACHE_PREPEND;
    default:
        return CACHE_SET;
    }
}

struct cache_store cache_text_store(const struct cache_worker *worker,
                                    const struct mc_request *request)
{
    struct cache_store store = {
        .mode = cache_mode_of(request->command),
        .flags = request->flags,
        .exptime = cache_clock_expiry_of_new(worker, request->exptime),
        .value_bytes = request->value_bytes,
        .cas = request->cas,
    };

    return store;
}

static enum mc_status stored_status(enum cache_outcome outcome)
{
    switch (outcome) {
    case CACHE_OK:
        return MC_STATUS_STORED;
    case CACHE_NOT_FOUND:
        return MC_STATUS_NOT_FOUND;
    case CACHE_EXISTS:
        return MC_STATUS_EXISTS;
    default:
        return MC_STATUS_NOT_STORED;
    }
}

int cache_text_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_store_result *stored, struct cache_sink *sink)
{
    return answer(session, request, stored_status(stored->outcome), sink);
}

/* ---- a key ------------------------------------------------------------------------------- */

static int text_arith(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_arith arith = {
        .delta = request->delta,
        .decr = request->command == MC_CMD_DECR,
    };
    struct cache_arith_result counted;

    switch (cache_arith(session->worker, &key, &arith, &counted)) {
    case CACHE_OK:
        if (request->noreply)
            return 0;
        return cache_reply_number(session->worker, sink, counted.number);
    case CACHE_NOT_FOUND:
        return answer(session, request, MC_STATUS_NOT_FOUND, sink);
    case CACHE_NON_NUMERIC:
        return answer(session, request, MC_STATUS_NON_NUMERIC, sink);
    default:
        return answer(session, request, MC_STATUS_NO_MEMORY, sink);
    }
}

static int text_delete(struct cache_session *session, const struct mc_request *request,
                       struct cache_sink *sink)
{
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    const struct cache_deletion deletion = {0};
    bool found = cache_delete(session->worker, &key, &deletion) == CACHE_OK;

    return answer(session, request, found ? MC_STATUS_DELETED : MC_STATUS_NOT_FOUND, sink);
}

static int text_touch(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct kv_view view;
    bool found = cache_touch(worker, &key, cache_clock_expiry(worker, request->exptime), &view);

    return answer(session, request, found ? MC_STATUS_TOUCHED : MC_STATUS_NOT_FOUND, sink);
}

/* ---- the server -------------------------------------------------------------------------- */

static int text_flush(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    uint32_t when_s = request->exptime > 0 ? cache_clock_expiry(worker, request->exptime) : 0;
    bool allowed = cache_flush(worker, when_s);

    return answer(session, request, allowed ? MC_STATUS_OK : MC_STATUS_FLUSH_NOT_ALLOWED, sink);
}

/* memcached counts, and checks the permission, before it checks the argument. */
int cache_text_flush_refused(struct cache_session *session, const struct mc_request *request,
                             struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    cache_count(worker, CACHE_CMD_FLUSH, 1);
    if (worker->cache->settings.flush_disabled)
        return answer(session, request, MC_STATUS_FLUSH_NOT_ALLOWED, sink);
    return answer(session, request, MC_STATUS_BAD_EXPTIME, sink);
}

static int text_verbosity(struct cache_session *session, const struct mc_request *request,
                          struct cache_sink *sink)
{
    unsigned level = request->level < VERBOSITY_MAX ? request->level : VERBOSITY_MAX;

    atomic_store_explicit(&session->worker->cache->verbosity, level, memory_order_relaxed);
    cache_log_mask_changed(session->worker);
    return answer(session, request, MC_STATUS_OK, sink);
}

static int text_version(struct cache_session *session, struct cache_sink *sink)
{
    static const char reply[] = "VERSION " UCACHED_COMPAT_VERSION "\r\n";

    return cache_reply_bytes(session->worker, sink, reply, sizeof(reply) - 1);
}

static int text_noop(struct cache_session *session, struct cache_sink *sink)
{
    cache_pending_clear(session->worker);
    return cache_reply_status(session->worker, sink, MC_STATUS_META_NOOP);
}

/* Without `default`, so that a command without a case fails to build. */
int cache_text_run(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink)
{
    switch (request->command) {
    case MC_CMD_DELETE:
        return text_delete(session, request, sink);
    case MC_CMD_INCR:
    case MC_CMD_DECR:
        return text_arith(session, request, sink);
    case MC_CMD_TOUCH:
        return text_touch(session, request, sink);
    case MC_CMD_MG:
        return cache_meta_get(session, request, sink);
    case MC_CMD_MD:
        return cache_meta_delete(session, request, sink);
    case MC_CMD_MA:
        return cache_meta_arith(session, request, sink);
    case MC_CMD_ME:
        return cache_meta_debug(session, request, sink);
    case MC_CMD_MN:
        return text_noop(session, sink);
    case MC_CMD_FLUSH_ALL:
        return text_flush(session, request, sink);
    case MC_CMD_VERSION:
        return text_version(session, sink);
    case MC_CMD_VERBOSITY:
        return text_verbosity(session, request, sink);
    case MC_CMD_STATS:
        return cache_exec_stats(session, request, sink);
    case MC_CMD_WATCH:
        return cache_exec_watch(session, request, sink);
    case MC_CMD_LRU_CRAWLER:
        return cache_admin_crawler(session, request, sink);
    case MC_CMD_SHUTDOWN:
        return cache_admin_shutdown(session, request, sink);
    case MC_CMD_REFRESH_CERTS:
        return cache_admin_refresh_certs(session, request, sink);
    case MC_CMD_CACHE_MEMLIMIT:
    case MC_CMD_SLABS:
    case MC_CMD_LRU:
    case MC_CMD_EXTSTORE:
    case MC_CMD_MISBEHAVE:
    case MC_CMD_DEBUGTIME:
    case MC_CMD_DEBUGITEM:
        return cache_admin_run(session, request, sink);
    case MC_CMD_CONFIG:
        return cache_cluster_config(session, request, sink);
    case MC_CMD_GET: /* cache_exec_get() */
    case MC_CMD_GETS:
    case MC_CMD_GAT:
    case MC_CMD_GATS:
    case MC_CMD_SET: /* cache_exec_store() */
    case MC_CMD_ADD:
    case MC_CMD_REPLACE:
    case MC_CMD_APPEND:
    case MC_CMD_PREPEND:
    case MC_CMD_CAS:
    case MC_CMD_MS:
    case MC_CMD_NOOP: /* binary only */
    case MC_CMD_NONE:
    case MC_CMD_QUIT:
        break;
    }
    U_ASSERT(request->command == MC_CMD_QUIT);
    return 0;
}
