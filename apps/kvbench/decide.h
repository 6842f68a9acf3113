/* SPDX-License-Identifier: BSD-3-Clause */
/* Decision functions for kv_update(): always replace; delete if found. */
#ifndef KVBENCH_DECIDE_H
#define KVBENCH_DECIDE_H

#include "kv/kv.h"

static inline enum kv_verdict always_replace(void *ctx, const struct kv_view *old,
                                             struct kv_change *change)
{
    change->state = 0;
    return KV_REPLACE;
}

static inline enum kv_verdict delete_if_found(void *ctx, const struct kv_view *old,
                                              struct kv_change *change)
{
    return old ? KV_DELETE : KV_KEEP;
}

#endif
