/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of tables: keyed, and even over names as networks have them. */
#include "base/pairhash.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 4096, BUCKETS = 4096, CHAIN_MAX = 10, KEYS = 200 };

static struct u_pairhash random_key(struct u_prng *prng)
{
    struct u_pairhash key;
    unsigned i;

    for (i = 0; i < U_PAIRHASH_WORDS; i++)
        key.add[i] = (u_u32)u_prng_next(prng);
    key.start = u_prng_next(prng);
    key.low = u_prng_next(prng);
    key.high = u_prng_next(prng);
    return key;
}

/* By hand: every sum, product and shift of it. */
static void follows_the_definition(void **state)
{
    static const struct u_pairhash key = {{1, 2, 3, 4}, 5, (u_u64)1 << 32, (u_u64)3 << 32};
    static const u_u32 words[4] = {9, 8, 0xfffffffd, 7};
    u_u32 h = 10 * 10; /* times 1 << 32; the second sum wraps to 0 and adds nothing */

    h ^= h >> 16;
    h *= 0x9e3779b1u;
    h ^= h >> 15;
    assert_int_equal(u_pairhash4(&key, words), h);
    /* ((1 << 32) + 9) * ((3 << 32) + 8): the upper halves meet beyond 64 bits. */
    h = 8 + 3 * 9;
    h ^= h >> 16;
    h *= 0x9e3779b1u;
    h ^= h >> 15;
    assert_int_equal(u_pairhash2(&key, 9, 8), h);
    /* 4 * 0x7fffffff + 5 carries 2 into the upper half. */
    h = 4 + 3 * 0x7fffffffu + 2;
    h ^= h >> 16;
    h *= 0x9e3779b1u;
    h ^= h >> 15;
    assert_int_equal(u_pairhash2(&key, 0x7fffffff, 4), h);
}

static unsigned longest_chain(const struct u_pairhash *key, u_u32 step_a, u_u32 step_b)
{
    static unsigned char chains[BUCKETS];
    unsigned longest = 0;
    u_u32 i;

    memset(chains, 0, sizeof(chains));
    for (i = 0; i < NAMES; i++) {
        u_u32 bucket = u_pairhash2(key, 0x0a000002 + i * step_a, 11211 + i * step_b);
        unsigned n = ++chains[bucket & (BUCKETS - 1)];
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Ports and addresses in steps of all sizes, under many keys: chains as short as chance has them.
 */
static void regular_inputs_are_spread(void **state)
{
    struct u_prng prng;
    unsigned long_ones = 0;
    unsigned i;

    u_prng_seed(&prng, 7);
    for (i = 0; i < KEYS; i++) {
        struct u_pairhash key = random_key(&prng);
        long_ones += longest_chain(&key, 0, 1u << 16) > CHAIN_MAX;
        long_ones += longest_chain(&key, 1, 0) > CHAIN_MAX;
        long_ones += longest_chain(&key, 256, 1u << (16 + i % 8)) > CHAIN_MAX;
        long_ones += longest_chain(&key, 1u << (i % 20), 0x10001) > CHAIN_MAX;
    }
    /* Of balls thrown at random one in 4000 rows has a chain of eleven. */
    assert_true(long_ones <= 2);
}

/* Two names share one of 256 buckets as often as chance wants it, over the keys. */
static void pairs_collide_only_by_chance(void **state)
{
    static const u_u32 differ[][2] = {{1, 0},      {0, 1},          {0, 0x10000},
                                      {1, 1},      {0x80000000, 0}, {0, 0x80000000},
                                      {256, 4096}, {0xffffffff, 1}, {0x80000000, 0x80000000}};
    enum { TRIES = 20000 };
    struct u_prng prng;
    unsigned n;
    unsigned i;

    u_prng_seed(&prng, 8);
    for (n = 0; n < U_ARRAY_LEN(differ); n++) {
        unsigned together = 0;

        for (i = 0; i < TRIES; i++) {
            struct u_pairhash key = random_key(&prng);
            u_u32 one = u_pairhash2(&key, 0x0a000002, 0x12342bcb);
            u_u32 other = u_pairhash2(&key, 0x0a000002 + differ[n][0], 0x12342bcb + differ[n][1]);
            together += (one & 255) == (other & 255);
        }
        assert_in_range(together, TRIES / 256 / 2, TRIES / 256 * 2);
    }
}

static void every_word_and_every_bit_counts(void **state)
{
    u_u32 words[4] = {1, 2, 3, 4};
    struct u_pairhash key;
    struct u_prng prng;
    u_u32 before;
    unsigned i;

    u_prng_seed(&prng, 9);
    key = random_key(&prng);
    before = u_pairhash4(&key, words);
    for (i = 0; i < 128; i++) {
        words[i / 32] ^= (u_u32)1 << (i % 32);
        assert_int_not_equal(u_pairhash4(&key, words), before);
        words[i / 32] ^= (u_u32)1 << (i % 32);
    }
    assert_int_equal(u_pairhash4(&key, words), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_definition),
        cmocka_unit_test(regular_inputs_are_spread),
        cmocka_unit_test(pairs_collide_only_by_chance),
        cmocka_unit_test(every_word_and_every_bit_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
