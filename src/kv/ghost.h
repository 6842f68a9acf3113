/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ghosts: two-byte fingerprints of the keys that were evicted most recently.
 *
 * A table of sets, one cache line each: 31 fingerprints and the index of the one to replace next,
 * so each set is a FIFO of 31 keys. The number of sets in use determines how long keys are
 * remembered. The probability of a false positive is 31 / 65535.
 *
 * It is a hint: all accesses are relaxed loads and stores of whole words, so a race of two workers
 * loses at most a fingerprint.
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
 * Sets the capacity to about `keys`. The number of sets is a power of two and changes only if it is
 * off by a factor of two, because a change loses the keys of the sets concerned.
 */
void kv_ghost_fit(struct kv_ghost *ghost, uint64_t keys);

void kv_ghost_remember(struct kv_ghost *ghost, uint64_t hash);

/* Whether the key is in the table; removes it. */
bool kv_ghost_recall(struct kv_ghost *ghost, uint64_t hash);

#endif
