/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr and decr.
 */
#include <string.h>

#include "cache/exec.h"
#include "cache/reply.h"

struct arith_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    uint64_t delta;
    uint64_t result;
    struct kv_item *item; /* made by the last call */
    bool incr;
    enum mc_status status; /* MC_STATUS_STORED: the result is to be sent */
};

/* A number is short, so one in a value of several extents is not one. */
static bool number_read(const struct kv_view *old, uint64_t *number)
{
    uint32_t digits_len = old->value_len - CACHE_CRLF_BYTES;
    uint32_t len;
    const uint8_t *bytes = kv_value(old->item, 0, &len);
    u_u64 parsed;

    if (len < digits_len || !mc_counter_parse(bytes, digits_len, &parsed))
        return false;
    *number = parsed;
    return true;
}

/* incr wraps around, decr stops at zero. */
static uint64_t number_change(uint64_t number, uint64_t delta, bool incr)
{
    if (incr)
        return number + delta;
    return number > delta ? number - delta : 0;
}

/* The new value: never shorter than the old one, spaces fill it up. */
static struct kv_item *number_item(const struct arith_decision *arith, const struct kv_view *old)
{
    uint8_t digits[MC_NUMBER_MAX];
    uint32_t digits_len = mc_write_u64(digits, arith->result);
    uint32_t old_len = old->value_len - CACHE_CRLF_BYTES;
    uint32_t new_len = digits_len > old_len ? digits_len : old_len;
    struct kv_item *item;
    enum kv_error error;
    uint32_t offset = 0;

    item = kv_item_new(arith->worker->kv_worker, arith->key, new_len + CACHE_CRLF_BYTES, old->flags,
                       old->exptime, &error);
    if (item == NULL)
        return NULL;
    while (offset < new_len + CACHE_CRLF_BYTES) {
        uint32_t room;
        uint8_t *to = kv_item_room(item, offset, &room);

        for (uint32_t i = 0; i < room && offset < new_len + CACHE_CRLF_BYTES; i++, offset++) {
            if (offset < digits_len)
                to[i] = digits[offset];
            else if (offset < new_len)
                to[i] = ' ';
            else
                to[i] = offset == new_len ? '\r' : '\n';
        }
    }
    return item;
}

static enum kv_verdict decide_arith(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct arith_decision *arith = ctx;
    uint64_t number;

    if (arith->item != NULL) {
        kv_item_drop(arith->worker->kv_worker, arith->item);
        arith->item = NULL;
    }
    if (old == NULL) {
        arith->status = MC_STATUS_NOT_FOUND;
        return KV_KEEP;
    }
    if (!number_read(old, &number)) {
        arith->status = MC_STATUS_NON_NUMERIC;
        return KV_KEEP;
    }
    arith->result = number_change(number, arith->delta, arith->incr);
    arith->item = number_item(arith, old);
    if (arith->item == NULL) {
        arith->status = MC_STATUS_NO_MEMORY;
        return KV_KEEP;
    }
    arith->status = MC_STATUS_STORED;
    change->item = arith->item;
    change->state = old->state;
    return KV_REPLACE;
}

int cache_exec_arith(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    bool incr = request->command == MC_CMD_INCR;
    struct arith_decision arith = {
        .worker = worker,
        .key = &key,
        .delta = request->delta,
        .incr = incr,
    };
    struct kv_change change = {0};

    kv_views_done(worker->kv_worker);
    kv_update(worker->kv_worker, &key, decide_arith, &arith, &change);
    if (arith.status == MC_STATUS_STORED)
        cache_count(worker, incr ? CACHE_INCR_HITS : CACHE_DECR_HITS, 1);
    else if (arith.status == MC_STATUS_NOT_FOUND)
        cache_count(worker, incr ? CACHE_INCR_MISSES : CACHE_DECR_MISSES, 1);
    if (request->noreply)
        return 0;
    if (arith.status == MC_STATUS_STORED)
        return cache_reply_number(worker, sink, arith.result);
    return cache_reply_status(worker, sink, arith.status);
}
