/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CLOCK: first in, first out, but what was fetched since it was last judged gets another turn
 * (Corbato, 1968). One bit per item.
 */
#include "kv/policy.h"

static struct kv_fate judge(enum kv_pool pool, unsigned freq)
{
    return (struct kv_fate){.stays = freq > 0, .pool = pool, .freq = 0};
}

const struct kv_policy kv_policy_clock = {
    .name = "clock",
    .freq_max = 1,
    .place = kv_policy_place_main,
    .victim_pool = kv_policy_victim_main,
    .judge = judge,
};
