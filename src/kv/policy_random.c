/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random replacement: evicts all items of a random segment.
 *
 * Items of one segment were stored one after the other, so their evictions are not independent; but
 * each item has the same probability at each draw, whatever its age and access count. With
 * independent requests the hit ratio depends on that only and equals FIFO's (Gelenbe, 1973).
 */
#include "kv/policy.h"

static struct kv_policy_verdict decide(enum kv_pool pool, unsigned freq)
{
    return (struct kv_policy_verdict){.stays = false, .pool = pool};
}

const struct kv_policy kv_policy_random = {
    .name = "random",
    .summary = "evict a random segment of items",
    .random_victim = true,
    .place = kv_policy_place_main,
    .victim_pool = kv_policy_victim_main,
    .decide = decide,
};
