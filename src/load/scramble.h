/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A seeded permutation of [0, n), which maps ranks of a distribution to keys so that popular keys
 * are not neighbours. Unlike a hash modulo n, which leaves a third of the keys unused, it preserves
 * the distribution exactly.
 */
#ifndef LOAD_SCRAMBLE_H
#define LOAD_SCRAMBLE_H

#include <stdint.h>

#define LOAD_SCRAMBLE_ROUNDS 4

struct load_scramble {
    uint64_t n;
    unsigned half_bits; /* half the bits of the permuted words */
    uint64_t keys[LOAD_SCRAMBLE_ROUNDS];
};

/* 1 <= n <= 2^62. */
void load_scramble_init(struct load_scramble *scramble, uint64_t n, uint64_t seed);

/* The image of i, i < n. */
uint64_t load_scramble_of(const struct load_scramble *scramble, uint64_t i);

/* Permutes `count` ids in place, several in parallel. */
void load_scramble_many(const struct load_scramble *scramble, uint64_t *ids, uint32_t count);

#endif
