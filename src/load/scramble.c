/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Feistel network over the next even number of bits that n fits into is a permutation of at most
 * 4n words. Whoever lands beyond n goes on from there (walks the cycle) until he is within; since
 * the walk stays on a cycle of the permutation, no two arrive at the same place.
 */
#include "load/scramble.h"
#include "base/base.h"
#include "load/random.h"

void load_scramble_init(struct load_scramble *scramble, uint64_t n, uint64_t seed)
{
    U_ASSERT(n >= 1 && n <= UINT64_C(1) << 62);
    scramble->n = n;
    scramble->half_bits = 1;
    while (scramble->half_bits < 31 && (n - 1) >> (2 * scramble->half_bits) != 0)
        scramble->half_bits++;
    for (unsigned round = 0; round < LOAD_SCRAMBLE_ROUNDS; round++)
        scramble->keys[round] = load_random_of(seed, round + 1);
}

static uint64_t permute(const struct load_scramble *scramble, uint64_t word)
{
    uint64_t mask = (UINT64_C(1) << scramble->half_bits) - 1;
    uint64_t left = word >> scramble->half_bits;
    uint64_t right = word & mask;

    for (unsigned round = 0; round < LOAD_SCRAMBLE_ROUNDS; round++) {
        uint64_t mixed = (right ^ scramble->keys[round]) * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t next = left ^ (mixed >> 32 & mask);
        left = right;
        right = next;
    }
    return left << scramble->half_bits | right;
}

uint64_t load_scramble_of(const struct load_scramble *scramble, uint64_t i)
{
    U_ASSERT(i < scramble->n);
    do
        i = permute(scramble, i);
    while (i >= scramble->n);
    return i;
}

void load_scramble_many(const struct load_scramble *scramble, uint64_t *ids, uint32_t count)
{
    struct load_scramble own = *scramble; /* which nothing that is written can be a part of */

    for (uint32_t i = 0; i < count; i++)
        ids[i] = load_scramble_of(&own, ids[i]);
}
