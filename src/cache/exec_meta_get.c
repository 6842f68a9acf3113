/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mg.
 *
 * An mg without T (set the expiry), N (create) and R (renew) is a lookup. The others are decisions
 * (kv_update), and so is an mg that finds a stale item that no client renews yet: exactly one
 * client wins the right to renew it.
 */
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/op.h"
#include "cache/sink_reply.h"

#define HIT_TELLS                                                                                  \
    (MC_META_RETURN_CAS | MC_META_RETURN_FLAGS | MC_META_RETURN_HIT | MC_META_RETURN_KEY |         \
     MC_META_RETURN_ACCESS | MC_META_OPAQUE | MC_META_RETURN_SIZE | MC_META_RETURN_TTL)

#define DECIDING_FLAGS (MC_META_SET_TTL | MC_META_VIVIFY | MC_META_RECACHE)

struct mg_decision {
    struct cache_worker *worker;
    const struct kv_key *key;
    const struct mc_meta *meta;
    struct kv_item *made; /* by the last call */
    struct kv_view view;  /* the item before the change */
    bool found;           /* or created */
    bool created;
    bool won;
};

/*
 * Applies the flags in the order of the request; returns the resulting expiry. *expires_soon: at an
 * R the item had less time left than it names, so the client should renew it.
 */
static uint32_t apply_flags(const struct mg_decision *mg, uint32_t exptime, bool *expires_soon)
{
    const struct cache_worker *worker = mg->worker;
    const struct mc_meta *meta = mg->meta;

    *expires_soon = false;
    for (uint32_t i = 0; i < meta->order_len; i++) {
        if (meta->order[i] == 'T')
            exptime = cache_clock_expiry(worker, meta->ttl_s);
        else if (meta->order[i] == 'N' && mg->created)
            exptime = cache_clock_expiry_of_new(worker, meta->vivify_ttl_s);
        else if (meta->order[i] == 'R' && exptime != 0 &&
                 exptime < cache_clock_expiry(worker, meta->recache_ttl_s))
            *expires_soon = true;
    }
    return exptime;
}

static enum kv_verdict decide_create(struct mg_decision *mg, struct kv_change *change)
{
    const struct mc_meta *meta = mg->meta;
    bool expires_soon;

    mg->found = false;
    mg->created = true;
    mg->won = true;
    if ((meta->has & MC_META_VIVIFY) == 0)
        return KV_KEEP;
    mg->made = cache_item_new_empty(mg->worker, mg->key, 0, apply_flags(mg, 0, &expires_soon));
    if (mg->made == NULL)
        return KV_KEEP;
    mg->found = true;
    change->item = mg->made;
    change->cas = meta->new_cas;
    change->cas_given = (meta->has & MC_META_NEW_CAS) != 0;
    change->state = (meta->has & MC_META_NO_BUMP) != 0 ? KV_WON : KV_WON | KV_FETCHED;
    return KV_REPLACE;
}

static enum kv_verdict decide_mg(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct mg_decision *mg = ctx;
    bool expires_soon;

    cache_item_drop(mg->worker, &mg->made);
    if (old == NULL)
        return decide_create(mg, change);
    mg->found = true;
    mg->created = false;
    mg->view = *old;
    change->exptime = apply_flags(mg, old->exptime, &expires_soon);
    mg->won = (old->state & KV_WON) == 0 && (expires_soon || (old->state & KV_STALE) != 0);
    change->state = old->state | KV_FETCHED | (mg->won ? KV_WON : 0);
    change->unseen = (mg->meta->has & MC_META_NO_BUMP) != 0;
    return KV_TOUCH;
}

/* The view of a created item. */
static struct kv_view created_view(const struct mg_decision *mg, const struct kv_change *change)
{
    struct kv_view view = {
        .item = mg->made,
        .key = mg->key->bytes,
        .key_len = mg->key->len,
        .value_len = CACHE_CRLF_BYTES,
        .last_access = mg->worker->now_s,
        .cas = change->cas,
    };

    return view;
}

static void mg_decide(struct mg_decision *mg)
{
    struct kv_change change = {0};

    if ((mg->meta->has & MC_META_VIVIFY) != 0)
        kv_release_views(mg->worker->kv_worker);
    kv_update(mg->worker->kv_worker, mg->key, decide_mg, mg, &change);
    if (mg->found && mg->created)
        mg->view = created_view(mg, &change);
}

/* Looks up, or decides. Returns the result of the lookup. */
static enum kv_found mg_find(struct mg_decision *mg)
{
    struct kv_worker *kv_worker = mg->worker->kv_worker;
    bool decides = (mg->meta->has & DECIDING_FLAGS) != 0;
    bool unseen = decides || (mg->meta->has & MC_META_NO_BUMP) != 0;
    enum kv_found found =
        unseen ? kv_peek(kv_worker, mg->key, &mg->view) : kv_get(kv_worker, mg->key, &mg->view);
    bool claimable = found == KV_HIT && (mg->view.state & (KV_STALE | KV_WON)) == KV_STALE;

    mg->found = found == KV_HIT;
    if (decides && (mg->found || (mg->meta->has & MC_META_VIVIFY) != 0)) {
        mg_decide(mg);
        if (mg->found)
            cache_gone_count(mg->worker, found);
    } else if (claimable) {
        struct kv_view before = mg->view;

        mg_decide(mg);
        mg->view.last_access = before.last_access;
        mg->view.state = (mg->view.state & ~(uint32_t)KV_FETCHED) | (before.state & KV_FETCHED);
    }
    if (mg->found)
        return KV_HIT;
    return found == KV_HIT ? KV_MISS : found;
}

static void mg_count(const struct mg_decision *mg, enum kv_found found)
{
    if (found != KV_HIT || (mg->meta->has & MC_META_SET_TTL) == 0) {
        cache_get_count(mg->worker, found);
        cache_log_get(mg->worker, mg->key, found, &mg->view);
        return;
    }
    cache_count(mg->worker, CACHE_CMD_TOUCH, 1);
    cache_count(mg->worker, CACHE_TOUCH_HITS, 1);
    cache_count_class(mg->worker, CACHE_CLASS_TOUCH_HITS, mg->key->len, mg->view.flags,
                      mg->view.value_len);
    cache_log_view(mg->worker, mg->key, found, &mg->view);
    cache_log_fetch(mg->worker, mg->key, true);
}

static struct mc_meta_reply hit_reply(const struct mg_decision *mg)
{
    const struct cache_worker *worker = mg->worker;
    const struct mc_meta *meta = mg->meta;
    const struct kv_view *view = &mg->view;
    bool same_cas = (meta->has & MC_META_COMPARE_CAS) != 0 &&
                    meta->compare_cas == cache_cas_shown(worker, view->cas);
    struct mc_meta_reply reply = {
        .code = MC_META_HD,
        .tells = HIT_TELLS,
        .value_bytes = view->value_len - CACHE_CRLF_BYTES,
        .key = view->key,
        .key_len = view->key_len,
        .key_is_binary = (view->state & KV_KEY_BINARY) != 0,
        .size = view->value_len - CACHE_CRLF_BYTES,
        .client_flags = view->flags,
        .cas = cache_cas_shown(worker, view->cas),
        .access_s = cache_clock_since(worker, view->last_access),
        .was_hit = (view->state & KV_FETCHED) != 0,
        .ttl_s = cache_meta_ttl(worker, view->exptime),
        .ttl_set_s = cache_meta_ttl(worker, cache_clock_expiry(worker, meta->ttl_s)),
        .ttl_created_s = cache_meta_ttl(worker, cache_clock_expiry(worker, meta->vivify_ttl_s)),
        .created = mg->created,
        .won_before = (view->state & KV_WON) != 0,
        .is_stale = (view->state & KV_STALE) != 0,
        .won = mg->won,
    };

    if ((meta->has & MC_META_RETURN_VALUE) != 0 && !same_cas)
        reply.code = MC_META_VA;
    return reply;
}

int cache_meta_get(struct cache_session *session, const struct mc_request *request,
                   struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    const struct mc_meta *meta = &request->meta;
    struct kv_key key = cache_session_key(session, request->key, request->key_len);
    struct mg_decision mg = {.worker = worker, .key = &key, .meta = meta};
    enum kv_found found = mg_find(&mg);
    struct mc_meta_reply reply;

    mg_count(&mg, found);
    if (found == KV_HIT) {
        reply = hit_reply(&mg);
    } else {
        if ((meta->has & MC_META_QUIET) != 0)
            return 0;
        reply = cache_meta_reply(request);
        reply.code = MC_META_EN;
    }
    return cache_reply_meta(worker, sink, meta, &reply, &mg.view);
}
