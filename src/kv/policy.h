/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction policies: what makes room for new items, and what stays.
 *
 * The memory is one or two pools of segments. Whoever needs room takes the segment of a pool that
 * has been there longest (or one drawn by lot) and has the policy judge each item in it: it goes,
 * or it moves to the young end of a pool. A policy sees how often an item was fetched since it was
 * last judged, which pool it lies in, how large the pools are, and whether a key that is stored
 * was evicted a short while ago (ghost.h). It sees no address, no key and no time, it keeps no
 * state, and its decisions are pure functions of what it sees.
 *
 * How accesses are counted, how items move and how much moving there may be is evict.c's business.
 */
#ifndef KV_POLICY_H
#define KV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Policies with one pool use KV_POOL_MAIN. */
enum kv_pool { KV_POOL_SMALL = 0, KV_POOL_MAIN, KV_POOLS };

#define KV_FREQ_MAX 3 /* accesses beyond that are not counted */

/* How large the pools are, in segments. */
struct kv_occupancy {
    uint32_t segments[KV_POOLS];
    bool roomy; /* there is free memory: nothing has to be evicted for now */
};

/* What becomes of an item that the eviction has come to. */
struct kv_fate {
    bool stays;
    enum kv_pool pool; /* to which it moves then */
    unsigned freq;     /* and with what count of accesses */
};

struct kv_policy {
    const char *name;
    unsigned freq_max; /* up to which it wants accesses counted: at most KV_FREQ_MAX */
    bool remembers;    /* wants to know whether a key was evicted from the small pool lately */
    bool draws_lots;   /* victims are drawn from all segments */

    /* The pool for an item whose key is not there. */
    enum kv_pool (*place)(const struct kv_occupancy *occupancy, bool remembered);

    /* The pool that has to give a segment. It may be empty: then the other one has to. */
    enum kv_pool (*victim_pool)(const struct kv_occupancy *occupancy);

    struct kv_fate (*judge)(enum kv_pool pool, unsigned freq);
};

/* place and victim_pool of policies with one pool. */
static inline enum kv_pool kv_policy_place_main(const struct kv_occupancy *occupancy,
                                                bool remembered)
{
    (void)occupancy;
    (void)remembered;
    return KV_POOL_MAIN;
}

static inline enum kv_pool kv_policy_victim_main(const struct kv_occupancy *occupancy)
{
    (void)occupancy;
    return KV_POOL_MAIN;
}

extern const struct kv_policy kv_policy_random;
extern const struct kv_policy kv_policy_clock;
extern const struct kv_policy kv_policy_s3fifo;

#endif
