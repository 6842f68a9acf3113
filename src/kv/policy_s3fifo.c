/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * S3-FIFO: three queues, each first in, first out (Yang et al., "FIFO queues are all you need for
 * cache eviction", SOSP 2023).
 *
 * New items go to a small pool, a tenth of the memory. Most items are never asked for again: they
 * leave from there, soon, and a fingerprint of their key is remembered in the ghost queue. What was
 * fetched often enough meanwhile moves on to the main pool, and so does what comes back while its
 * ghost is remembered. In the main pool an item lives on for as many turns as it was fetched, up to
 * three; each turn takes one off.
 *
 * docs/decisions/0008-eviction.md has the measurements behind the constants.
 */
#include "kv/policy.h"

#define SMALL_SHARE 10 /* the small pool is a tenth of all */
#define PROMOTION 2    /* fetched that often in the small pool, an item moves on */

static bool small_is_full(const struct kv_occupancy *occupancy)
{
    uint64_t small = occupancy->segments[KV_POOL_SMALL];

    return small * SMALL_SHARE > small + occupancy->segments[KV_POOL_MAIN];
}

/* As long as there is room for all, the pools grow in proportion. */
static enum kv_pool place(const struct kv_occupancy *occupancy, bool remembered)
{
    if (remembered || (occupancy->roomy && small_is_full(occupancy)))
        return KV_POOL_MAIN;
    return KV_POOL_SMALL;
}

static enum kv_pool victim_pool(const struct kv_occupancy *occupancy)
{
    return small_is_full(occupancy) ? KV_POOL_SMALL : KV_POOL_MAIN;
}

static struct kv_fate judge(enum kv_pool pool, unsigned freq)
{
    if (pool == KV_POOL_SMALL)
        return (struct kv_fate){.stays = freq >= PROMOTION, .pool = KV_POOL_MAIN, .freq = 0};
    return (struct kv_fate){.stays = freq > 0, .pool = KV_POOL_MAIN, .freq = freq - (freq > 0)};
}

const struct kv_policy kv_policy_s3fifo = {
    .name = "s3fifo",
    .freq_max = KV_FREQ_MAX,
    .remembers = true,
    .place = place,
    .victim_pool = victim_pool,
    .judge = judge,
};
