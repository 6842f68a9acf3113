/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A seeded permutation of [0, n): gives each rank of a popularity a place of its own, so that
 * popular keys are not neighbours. Unlike a hash modulo n, which leaves a third of the places empty
 * and shares others, it keeps the distribution exact.
 */
#ifndef LOAD_SCRAMBLE_H
#define LOAD_SCRAMBLE_H

#include <stdint.h>

#define LOAD_SCRAMBLE_ROUNDS 4

struct load_scramble {
    uint64_t n;
    unsigned half_bits; /* the permuted words have twice as many */
    uint64_t keys[LOAD_SCRAMBLE_ROUNDS];
};

/* 1 <= n <= 2^62. */
void load_scramble_init(struct load_scramble *scramble, uint64_t n, uint64_t seed);

/* Where i (less than n) goes: less than n, and no other i goes there. */
uint64_t load_scramble_of(const struct load_scramble *scramble, uint64_t i);

/* The same of each of these, in their place; they go side by side, which is much faster. */
void load_scramble_many(const struct load_scramble *scramble, uint64_t *ids, uint32_t count);

#endif
