/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ms, md, ma, me, mn; exec_meta_get.c has mg.
 *
 * The functions here fill in all facts that a reply may show; mc_write_meta() selects and orders
 * them by the flags of the request.
 */
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/sink_reply.h"
#include "cache/slab_class.h"

/* ---- shared ------------------------------------------------------------------------------ */

uint32_t cache_meta_ttl(const struct cache_worker *worker, uint32_t exptime)
{
    if (exptime == 0)
        return MC_TTL_NONE;
    return exptime > worker->now_s ? exptime - worker->now_s : 0;
}

struct mc_meta_reply cache_meta_reply(const struct mc_request *request)
{
    struct mc_meta_reply reply = {
        .tells = MC_META_RETURN_KEY | MC_META_OPAQUE,
        .key = request->key,
        .key_len = request->key_len,
        .key_is_binary = (request->meta.has & MC_META_KEY_BASE64) != 0,
    };

    return reply;
}

static enum mc_meta_code code_of(enum cache_outcome outcome)
{
    switch (outcome) {
    case CACHE_OK:
        return MC_META_HD;
    case CACHE_NOT_FOUND:
        return MC_META_NF;
    case CACHE_EXISTS:
        return MC_META_EX;
    default:
        return MC_META_NS;
    }
}

/* q suppresses the reply to a success. */
static bool is_quiet(const struct mc_request *request, enum cache_outcome outcome)
{
    return outcome == CACHE_OK && (request->meta.has & MC_META_QUIET) != 0;
}

/* ---- ms ---------------------------------------------------------------------------------- */

static enum cache_mode mode_of(const struct mc_meta *meta)
{
    bool compare = (meta->has & MC_META_COMPARE_CAS) != 0;

    switch (meta->mode) {
    case MC_MODE_ADD:
        return CACHE_ADD;
    case MC_MODE_APPEND:
        return CACHE_APPEND;
    case MC_MODE_PREPEND:
        return CACHE_PREPEND;
    case MC_MODE_REPLACE:
        return compare ? CACHE_CAS : CACHE_REPLACE;
    default:
        return compare ? CACHE_CAS : CACHE_SET;
    }
}

struct cache_store cache_meta_store(const struct cache_worker *worker,
                                    const struct mc_request *request)
{
    const struct mc_meta *meta = &request->meta;
    struct cache_store store = {
        .mode = mode_of(meta),
        .flags = meta->client_flags,
        .value_bytes = request->value_bytes,
        .cas = meta->compare_cas,
        .new_cas = meta->new_cas,
        .has_new_cas = (meta->has & MC_META_NEW_CAS) != 0,
        .stale_allowed = (meta->has & MC_META_INVALIDATE) != 0,
        .key_binary = (meta->has & MC_META_KEY_BASE64) != 0,
        .overrides = true,
    };
    bool joins = store.mode == CACHE_APPEND || store.mode == CACHE_PREPEND;

    store.create = joins && (meta->has & MC_META_VIVIFY) != 0;
    store.exptime =
        cache_clock_expiry_of_new(worker, store.create ? meta->vivify_ttl_s : meta->ttl_s);
    return store;
}

int cache_meta_store_reply(struct cache_session *session, const struct mc_request *request,
                           const struct cache_store_result *stored, struct cache_sink *sink)
{
    struct mc_meta_reply reply = cache_meta_reply(request);

    if (is_quiet(request, stored->outcome))
        return 0;
    reply.code = code_of(stored->outcome);
    reply.tells |= MC_META_RETURN_CAS | MC_META_RETURN_SIZE;
    reply.cas = stored->cas;
    reply.size = stored->value_bytes;
    return cache_reply_meta(session->worker, sink, &request->meta, &reply, NULL);
}

/* ---- md ---------------------------------------------------------------------------------- */

int cache_meta_delete(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    const struct mc_meta *meta = &request->meta;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_deletion deletion = {
        .meta = true,
        .compare = (meta->has & MC_META_COMPARE_CAS) != 0,
        .empty = (meta->has & MC_META_REMOVE_VALUE) != 0,
        .invalidate = (meta->has & MC_META_INVALIDATE) != 0,
        .touch = (meta->has & MC_META_SET_TTL) != 0,
        .has_new_cas = (meta->has & MC_META_NEW_CAS) != 0,
        .cas = meta->compare_cas,
        .new_cas = meta->new_cas,
        .flags = meta->client_flags,
        .exptime = cache_clock_expiry(worker, meta->ttl_s),
    };
    struct mc_meta_reply reply = cache_meta_reply(request);
    enum cache_outcome outcome = cache_delete(worker, &key, &deletion);

    if (outcome == CACHE_EXISTS)
        cache_count(worker, CACHE_DELETE_MISSES, 1);
    if (outcome == CACHE_NO_MEMORY)
        return cache_reply_status(worker, sink, MC_STATUS_NO_MEMORY);
    if (is_quiet(request, outcome))
        return 0;
    reply.code = code_of(outcome);
    return cache_reply_meta(worker, sink, meta, &reply, NULL);
}

/* ---- ma ---------------------------------------------------------------------------------- */

/* Of an item that is created: T and N both set its expiry, and the later flag wins. */
static uint32_t created_exptime(const struct cache_worker *worker, const struct mc_meta *meta)
{
    int32_t ttl_s = 0;

    for (uint32_t i = 0; i < meta->order_len; i++) {
        if (meta->order[i] == 'T')
            ttl_s = meta->ttl_s;
        else if (meta->order[i] == 'N')
            ttl_s = meta->vivify_ttl_s;
    }
    return cache_clock_expiry_of_new(worker, ttl_s);
}

static int arith_refuse(struct cache_worker *worker, const struct cache_arith_result *counted,
                        enum cache_outcome outcome, struct cache_sink *sink)
{
    enum mc_status status = MC_STATUS_NON_NUMERIC;

    if (outcome == CACHE_NO_MEMORY)
        status = counted->created ? MC_STATUS_NO_MEMORY_NEW : MC_STATUS_NO_MEMORY;
    return cache_reply_status(worker, sink, status);
}

/* The line, and with v the number. */
static int arith_reply(struct cache_worker *worker, const struct mc_request *request,
                       const struct cache_arith_result *counted, struct cache_sink *sink)
{
    const struct mc_meta *meta = &request->meta;
    struct mc_meta_reply reply = cache_meta_reply(request);
    uint8_t digits[MC_NUMBER_MAX + 2];
    uint32_t digits_len = mc_write_number(digits, counted->number);
    uint32_t n;

    reply.tells |= MC_META_RETURN_CAS | MC_META_RETURN_TTL;
    reply.cas = counted->cas;
    reply.created = counted->created;
    reply.ttl_s = cache_meta_ttl(worker, counted->exptime);
    reply.ttl_set_s = cache_meta_ttl(worker, cache_clock_expiry(worker, meta->ttl_s));
    reply.ttl_created_s = cache_meta_ttl(worker, cache_clock_expiry(worker, meta->vivify_ttl_s));
    if ((meta->has & MC_META_RETURN_VALUE) == 0)
        return cache_reply_meta(worker, sink, meta, &reply, NULL);
    reply.code = MC_META_VA;
    reply.value_bytes = digits_len - CACHE_CRLF_BYTES;
    if (cache_reply_room(sink, MC_META_LINE_MAX) != 0)
        return -1;
    n = mc_write_meta(sink->at, meta, &reply);
    cache_reply_take(worker, sink, n);
    return cache_reply_bytes(worker, sink, digits, digits_len);
}

int cache_meta_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    const struct mc_meta *meta = &request->meta;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct cache_arith arith = {
        .decr = meta->mode == MC_MODE_DECR,
        .create = (meta->has & MC_META_VIVIFY) != 0,
        .touch = (meta->has & MC_META_SET_TTL) != 0,
        .delta = meta->delta,
        .initial = meta->initial,
        .cas = meta->compare_cas,
        .new_cas = meta->new_cas,
        .has_new_cas = (meta->has & MC_META_NEW_CAS) != 0,
        .exptime = cache_clock_expiry(worker, meta->ttl_s),
        .create_exptime = created_exptime(worker, meta),
    };
    struct mc_meta_reply reply = cache_meta_reply(request);
    struct cache_arith_result counted;
    enum cache_outcome outcome = cache_arith(worker, &key, &arith, &counted);

    if (outcome == CACHE_NON_NUMERIC || outcome == CACHE_NO_MEMORY)
        return arith_refuse(worker, &counted, outcome, sink);
    if (is_quiet(request, outcome))
        return 0;
    if (outcome == CACHE_OK)
        return arith_reply(worker, request, &counted, sink);
    reply.code = code_of(outcome);
    return cache_reply_meta(worker, sink, meta, &reply, NULL);
}

/* ---- me, mn ------------------------------------------------------------------------------ */

int cache_meta_debug(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct mc_item_info facts;
    struct kv_view view;
    enum kv_found found = kv_peek(worker->kv_worker, &key, &view);

    cache_count(worker, CACHE_CMD_META, 1);
    cache_gone_count(worker, found);
    if (found != KV_HIT)
        return cache_reply_status(worker, sink, MC_STATUS_META_MISS);
    facts = cache_item_info(worker, &view);
    if (cache_reply_room(sink, MC_ITEM_LINE_MAX) != 0)
        return -1;
    cache_reply_take(worker, sink, mc_write_meta_debug(sink->at, &facts));
    return 0;
}
