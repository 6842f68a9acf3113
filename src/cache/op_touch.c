/* SPDX-License-Identifier: BSD-3-Clause */
/* touch, and the touch of gat. */
#include "cache/op.h"

struct touch_decision {
    struct kv_view view; /* the item, valid until the end of this loop */
    uint32_t exptime;
    bool found;
};

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct touch_decision *touch = ctx;

    touch->found = old != NULL;
    if (old == NULL)
        return KV_KEEP;
    touch->view = *old;
    change->exptime = touch->exptime;
    change->state = old->state | KV_FETCHED;
    return KV_TOUCH;
}

bool cache_touch(struct cache_worker *worker, const struct kv_key *key, uint32_t exptime,
                 struct kv_view *view)
{
    struct touch_decision touch = {.exptime = exptime};
    struct kv_change change = {0};

    kv_update(worker->kv_worker, key, decide_touch, &touch, &change);
    cache_gone_count(worker, change.gone);
    cache_count(worker, CACHE_CMD_TOUCH, 1);
    cache_count(worker, touch.found ? CACHE_TOUCH_HITS : CACHE_TOUCH_MISSES, 1);
    if (touch.found)
        cache_count_class(worker, CACHE_CLASS_TOUCH_HITS, key->len, touch.view.flags,
                          touch.view.value_len);
    cache_log_view(worker, key, touch.found ? KV_HIT : KV_MISS, &touch.view);
    *view = touch.view;
    return touch.found;
}
