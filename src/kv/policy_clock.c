/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CLOCK: first in, first out, but what was fetched since it was last judged gets another turn
 * (Corbato, 1968). One bit per item.
 */
#include "kv/policy.h"

static enum kv_pool place(const struct kv_occupancy *occupancy, bool remembered)
{
    (void)occupancy;
    (void)remembered;
    return KV_POOL_MAIN;
}

static enum kv_pool victim_pool(const struct kv_occupancy *occupancy)
{
    (void)occupancy;
    return KV_POOL_MAIN;
}

static struct kv_fate judge(enum kv_pool pool, unsigned freq)
{
    return (struct kv_fate){.stays = freq > 0, .pool = pool, .freq = 0};
}

const struct kv_policy kv_policy_clock = {
    .name = "clock",
    .freq_max = 1,
    .place = place,
    .victim_pool = victim_pool,
    .judge = judge,
};
