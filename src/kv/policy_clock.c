/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CLOCK (Corbato, 1968): first in, first out, except that an item fetched since the last decision
 * moves to the young end. One bit per item.
 */
#include "kv/policy.h"

static struct kv_policy_verdict decide(enum kv_pool pool, unsigned freq)
{
    return (struct kv_policy_verdict){.stays = freq > 0, .pool = pool, .freq = 0};
}

const struct kv_policy kv_policy_clock = {
    .name = "clock",
    .summary = "evict items not accessed since the last pass (one bit per item)",
    .freq_max = 1,
    .place = kv_policy_place_main,
    .victim_pool = kv_policy_victim_main,
    .decide = decide,
};
