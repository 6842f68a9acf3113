/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr and decr.
 *
 * memcached changes a number in place if it fits, padded with spaces, and makes a new item if not,
 * or if a pending reply contains the old one. Items are immutable here, but the visible result is
 * the same: the length, and that only a number changed "in place" keeps its state.
 */
#include <string.h>

#include "cache/op.h"
#include "cache/pending_items.h"
#include "cache/slab_class.h"
#include "mcproto/mcproto.h"

struct arith_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    const struct cache_arith *arith;
    struct cache_arith_result *counted;
    struct kv_item *item; /* made by the last call */
    struct cache_lookup lookup;
    enum cache_outcome outcome;
};

/*
 * An empty value is none, nor is one that memcached stores in several chunks: both are refused
 * before the cas is compared.
 */
static bool may_be_number(const struct arith_decision *decision, const struct kv_view *old)
{
    return old->value_len > CACHE_CRLF_BYTES &&
           !cache_slab_is_chunked(decision->worker->cache, decision->key->len, old->flags,
                                  old->value_len);
}

static bool number_read(const struct kv_view *old, uint64_t *number)
{
    uint32_t len;
    const uint8_t *bytes = kv_value(old->item, 0, &len);
    u_u64 parsed;

    if (len < old->value_len) /* in several extents, so longer than any number */
        return false;
    if (!mc_counter_parse(bytes, old->value_len - CACHE_CRLF_BYTES, &parsed))
        return false;
    *number = parsed;
    return true;
}

static uint64_t number_change(uint64_t number, const struct cache_arith *arith)
{
    if (!arith->decr)
        return number + arith->delta;
    return number > arith->delta ? number - arith->delta : 0;
}

/* Makes an item of a number, filled up with spaces to len_min. */
static struct kv_item *number_item(const struct arith_decision *decision, uint32_t len_min,
                                   uint32_t flags, uint32_t exptime)
{
    uint8_t digits[MC_NUMBER_MAX];
    uint32_t digits_len = mc_write_u64(digits, decision->counted->number);
    uint32_t len = digits_len > len_min ? digits_len : len_min;
    struct kv_item *item;
    enum kv_error error;
    uint32_t offset = 0;

    item = kv_item_new(decision->worker->kv_worker, decision->key, len + CACHE_CRLF_BYTES, flags,
                       exptime, &error);
    while (item != NULL && offset < len + CACHE_CRLF_BYTES) {
        uint32_t room;
        uint8_t *to = kv_item_room(item, offset, &room);

        for (uint32_t i = 0; i < room; i++, offset++) {
            if (offset < digits_len)
                to[i] = digits[offset];
            else if (offset < len)
                to[i] = ' ';
            else
                to[i] = offset == len ? '\r' : '\n';
        }
    }
    return item;
}

/* The key is not there. */
static enum kv_verdict decide_create(struct arith_decision *decision, struct kv_change *change)
{
    const struct cache_arith *arith = decision->arith;

    if (!arith->create) {
        decision->outcome = CACHE_NOT_FOUND;
        return KV_KEEP;
    }
    decision->counted->created = true;
    decision->counted->exptime = 0;
    decision->counted->number = arith->initial;
    decision->item = number_item(decision, 0, 0, arith->create_exptime);
    if (decision->item == NULL) {
        decision->outcome = CACHE_NO_MEMORY;
        return KV_KEEP;
    }
    decision->outcome = CACHE_OK;
    change->item = decision->item;
    return KV_REPLACE;
}

static enum kv_verdict decide_change(struct arith_decision *decision, const struct kv_view *old,
                                     uint64_t number, struct kv_change *change)
{
    const struct cache_arith *arith = decision->arith;
    uint32_t old_len = old->value_len - CACHE_CRLF_BYTES;
    uint8_t digits[MC_NUMBER_MAX];
    bool in_place;

    decision->counted->created = false;
    decision->counted->exptime = old->exptime;
    decision->counted->number = number_change(number, arith);
    in_place = mc_write_u64(digits, decision->counted->number) <= old_len &&
               !cache_is_pending(decision->worker, old->item);
    decision->item = number_item(decision, in_place ? old_len : 0, old->flags,
                                 arith->touch ? arith->exptime : old->exptime);
    if (decision->item == NULL) {
        decision->outcome = CACHE_NO_MEMORY;
        return KV_KEEP;
    }
    decision->outcome = CACHE_OK;
    change->item = decision->item;
    change->state = in_place ? old->state : 0;
    return KV_REPLACE;
}

static enum kv_verdict decide_arith(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct arith_decision *decision = ctx;
    const struct cache_arith *arith = decision->arith;
    uint64_t number;

    cache_item_drop(decision->worker, &decision->item);
    decision->lookup = cache_lookup_of(old);
    if (old == NULL)
        return decide_create(decision, change);
    decision->outcome = CACHE_NON_NUMERIC;
    if (!may_be_number(decision, old))
        return KV_KEEP;
    if (arith->cas != 0 && arith->cas != cache_cas_shown(decision->worker, old->cas)) {
        decision->outcome = CACHE_EXISTS;
        return KV_KEEP;
    }
    if (!number_read(old, &number))
        return KV_KEEP;
    return decide_change(decision, old, number, change);
}

static void count_hit(struct cache_worker *worker, const struct kv_key *key,
                      const struct cache_arith *arith, const struct cache_lookup *old)
{
    cache_count(worker, arith->decr ? CACHE_DECR_HITS : CACHE_INCR_HITS, 1);
    cache_count_class(worker, arith->decr ? CACHE_CLASS_DECR_HITS : CACHE_CLASS_INCR_HITS, key->len,
                      old->flags, old->value_len);
}

enum cache_outcome cache_arith(struct cache_worker *worker, const struct kv_key *key,
                               const struct cache_arith *arith, struct cache_arith_result *counted)
{
    struct arith_decision decision = {
        .worker = worker,
        .key = key,
        .arith = arith,
        .counted = counted,
    };
    struct kv_change change = {.cas = arith->new_cas, .cas_given = arith->has_new_cas};

    kv_release_views(worker->kv_worker);
    kv_update(worker->kv_worker, key, decide_arith, &decision, &change);
    counted->cas = cache_cas_shown(worker, change.cas);
    cache_gone_count(worker, change.gone);
    cache_log_lookup(worker, key, &decision.lookup);
    if (decision.outcome == CACHE_OK && !counted->created)
        count_hit(worker, key, arith, &decision.lookup);
    else if (decision.outcome == CACHE_NOT_FOUND)
        cache_count(worker, arith->decr ? CACHE_DECR_MISSES : CACHE_INCR_MISSES, 1);
    return decision.outcome;
}
