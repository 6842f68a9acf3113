/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A seeded permutation of [0, n); see scramble.h.
 *
 * A Feistel network over the smallest even number of bits that holds n permutes at most 4n words. A
 * result >= n is permuted again until it is below n (cycle walking), which is again a permutation.
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
        scramble->keys[round] = load_random_hash(seed, round + 1);
}

/* Ids that are permuted in parallel: the number of steps per id is unpredictable for the CPU. */
#define MANY 64

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

/* Permutes up to MANY ids. Ids that are still >= n take another step, without a branch per id. */
static void walk_together(const struct load_scramble *scramble, uint64_t *ids, uint32_t count)
{
    uint8_t beyond[MANY];
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++) {
        ids[i] = permute(scramble, ids[i]);
        beyond[left] = (uint8_t)i;
        left += ids[i] >= scramble->n;
    }
    while (left > 0) {
        count = left;
        left = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint8_t at = beyond[i];

            ids[at] = permute(scramble, ids[at]);
            beyond[left] = at;
            left += ids[at] >= scramble->n;
        }
    }
}

void load_scramble_many(const struct load_scramble *scramble, uint64_t *ids, uint32_t count)
{
    struct load_scramble own = *scramble; /* a copy that the stores to ids[] cannot alias */

    for (; count > MANY; ids += MANY, count -= MANY)
        walk_together(&own, ids, MANY);
    walk_together(&own, ids, count);
}
