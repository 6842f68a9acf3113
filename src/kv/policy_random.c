/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random replacement: a segment drawn by lot goes, with all that is in it.
 *
 * Its items were stored one after the other, so they are not drawn independently of each other;
 * but for each item it is the same lot at each draw, whatever its age and however often it was
 * fetched, and that is what the hit ratio depends on as long as requests are independent of each
 * other. There it equals that of first in, first out (Gelenbe, 1973).
 */
#include "kv/policy.h"

static struct kv_fate judge(enum kv_pool pool, unsigned freq)
{
    (void)freq;
    return (struct kv_fate){.stays = false, .pool = pool};
}

const struct kv_policy kv_policy_random = {
    .name = "random",
    .draws_lots = true,
    .place = kv_policy_place_main,
    .victim_pool = kv_policy_victim_main,
    .judge = judge,
};
