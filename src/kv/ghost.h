/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ghosts: which keys were evicted lately, as fingerprints of two bytes.
 *
 * A table of sets, each one cache line: 31 fingerprints and a number that says which of them is
 * replaced next, so each set forgets first in, first out, and a set that takes in 31 keys has
 * forgotten what it knew before. How long that is for the whole table follows from how many of its
 * sets are in use. A wrong yes has a chance of 31 / 65535.
 *
 * It is a hint. All accesses are relaxed loads and stores of whole words, so two workers that
 * write the same word at the same time lose a fingerprint, and nothing else.
 */
#ifndef KV_GHOST_H
#define KV_GHOST_H

#include "kv/atomic.h"

#define KV_GHOST_SET_BYTES 64
#define KV_GHOST_SET_KEYS 31

struct kv_ghost {
    kv_atomic_u64 *words;   /* eight per set; null: no table */
    uint32_t sets_max;      /* a power of two */
    kv_atomic_u32 set_mask; /* sets in use, a power of two, less one */
};

/* `words` is zeroed memory of sets_max lines. */
void kv_ghost_init(struct kv_ghost *ghost, kv_atomic_u64 *words, uint32_t sets_max);

/*
 * So many keys are to be remembered. Takes a power of two of sets, and changes it only when it is
 * off by a factor of two, because the keys of the sets that come or go are forgotten.
 */
void kv_ghost_fit(struct kv_ghost *ghost, uint64_t keys);

void kv_ghost_remember(struct kv_ghost *ghost, uint64_t hash);

/* Was the key remembered? It is not any longer. */
bool kv_ghost_recall(struct kv_ghost *ghost, uint64_t hash);

#endif
