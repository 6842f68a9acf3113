/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction policies: which items make room for new ones.
 *
 * Item memory is one or two pools of segments. To free memory, evict.c takes the oldest segment of
 * a pool (or a random one) and calls the policy's decide() for each item in it: the item is
 * evicted, or moves to the young end of a pool. A policy sees how often an item was fetched since
 * the last decision, its pool, the sizes of the pools, and whether a stored key is in the ghost
 * queue (ghost.h). Its functions are pure; it keeps no state and sees no address, key or time.
 * evict.c counts accesses, moves items and bounds how much is moved.
 *
 * To add a policy: a file policy_NAME.c with a struct kv_policy, and a row of KV_POLICY_TABLE.
 */
#ifndef KV_POLICY_H
#define KV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/kv.h"

/* Policies with one pool use KV_POOL_MAIN. */
enum kv_pool { KV_POOL_SMALL = 0, KV_POOL_MAIN, KV_POOLS };

#define KV_FREQ_MAX 3 /* accesses beyond that are not counted */

/* Sizes of the pools in segments. */
struct kv_occupancy {
    uint32_t segments[KV_POOLS];
    bool roomy; /* free memory is left: nothing needs to be evicted yet */
};

/* What happens to an item of a segment that is being emptied. */
struct kv_policy_verdict {
    bool stays;        /* false: evicted */
    enum kv_pool pool; /* if it stays: the pool that it moves to */
    unsigned freq;     /* if it stays: its new access count */
};

struct kv_policy {
    const char *name;    /* in options and statistics */
    const char *summary; /* one line of help */
    unsigned freq_max;   /* accesses are counted up to this: at most KV_FREQ_MAX */
    bool uses_ghosts;    /* keys evicted from the small pool go to the ghost queue */
    bool random_victim;  /* victims are random segments of all pools */

    /* The pool for an item with a new key; is_ghost: the key is in the ghost queue. */
    enum kv_pool (*place)(const struct kv_occupancy *occupancy, bool is_ghost);

    /* The pool to take a segment from; if that is empty, the other pool is used. */
    enum kv_pool (*victim_pool)(const struct kv_occupancy *occupancy);

    /* Decides about one item of a victim segment. */
    struct kv_policy_verdict (*decide)(enum kv_pool pool, unsigned freq);
};

/* place and victim_pool of policies with one pool. */
static inline enum kv_pool kv_policy_place_main(const struct kv_occupancy *occupancy, bool is_ghost)
{
    return KV_POOL_MAIN;
}

static inline enum kv_pool kv_policy_victim_main(const struct kv_occupancy *occupancy)
{
    return KV_POOL_MAIN;
}

#define KV_POLICY_EXTERN(kind, name) extern const struct kv_policy kv_policy_##name;
KV_POLICY_TABLE(KV_POLICY_EXTERN)

/* A row of the registry; kind < KV_POLICIES. */
const struct kv_policy *kv_policy_at(enum kv_policy_kind kind);

#endif
