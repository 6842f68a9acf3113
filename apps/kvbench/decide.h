/* SPDX-License-Identifier: BSD-3-Clause */
/* The decisions of kv_update() that kvbench needs: what comes is stored, what is there is deleted.
 */
#ifndef KVBENCH_DECIDE_H
#define KVBENCH_DECIDE_H

#include "kv/kv.h"

static inline enum kv_verdict decide_replace(void *ctx, const struct kv_view *old,
                                             struct kv_change *change)
{
    (void)ctx;
    (void)old;
    change->state = 0;
    return KV_REPLACE;
}

static inline enum kv_verdict decide_delete(void *ctx, const struct kv_view *old,
                                            struct kv_change *change)
{
    (void)ctx;
    (void)change;
    return old ? KV_DELETE : KV_KEEP;
}

#endif
