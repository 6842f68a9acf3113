/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * S3-FIFO: three FIFO queues (Yang et al., "FIFO queues are all you need for cache eviction", SOSP
 * 2023).
 *
 * New items enter a small pool, a tenth of the memory. Most items are not fetched again: they are
 * evicted from there, and the ghost queue keeps a fingerprint of their key. Items that were fetched
 * PROMOTION times meanwhile move to the main pool; a key that is stored again while its ghost is
 * there goes to the main pool directly. Each pass over an item of the main pool takes one off its
 * access count (at most 3); at 0 it is evicted.
 *
 * docs/decisions/0006-evict-by-s3-fifo-over-segments.md has the measurements behind the constants.
 */
#include "kv/policy.h"

#define SMALL_SHARE 10 /* the small pool is one part in so many */
#define PROMOTION 2    /* fetches that promote an item from the small to the main pool */

static bool small_is_full(const struct kv_occupancy *occupancy)
{
    uint64_t small = occupancy->segments[KV_POOL_SMALL];

    return small * SMALL_SHARE > small + occupancy->segments[KV_POOL_MAIN];
}

/* While there is free memory the pools grow in proportion. */
static enum kv_pool place(const struct kv_occupancy *occupancy, bool is_ghost)
{
    if (is_ghost || (occupancy->roomy && small_is_full(occupancy)))
        return KV_POOL_MAIN;
    return KV_POOL_SMALL;
}

static enum kv_pool victim_pool(const struct kv_occupancy *occupancy)
{
    return small_is_full(occupancy) ? KV_POOL_SMALL : KV_POOL_MAIN;
}

static struct kv_policy_verdict decide(enum kv_pool pool, unsigned freq)
{
    if (pool == KV_POOL_SMALL)
        return (struct kv_policy_verdict){
            .stays = freq >= PROMOTION, .pool = KV_POOL_MAIN, .freq = 0};
    return (struct kv_policy_verdict){
        .stays = freq > 0, .pool = KV_POOL_MAIN, .freq = freq - (freq > 0)};
}

const struct kv_policy kv_policy_s3fifo = {
    .name = "s3fifo",
    .summary = "evict items fetched less than twice first (three FIFO queues)",
    .freq_max = KV_FREQ_MAX,
    .uses_ghosts = true,
    .place = place,
    .victim_pool = victim_pool,
    .decide = decide,
};
