/* SPDX-License-Identifier: BSD-3-Clause */
/* The generator: its known numbers, its determinism, and that its choices are even. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"

/* The sequence that SplitMix64 has for this seed in every implementation. */
static void sequence_is_splitmix64(void **state)
{
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    struct u_prng prng;
    unsigned i;

    u_prng_seed(&prng, 1234567);
    for (i = 0; i < U_ARRAY_LEN(expected); i++)
        assert_int_equal(u_prng_next(&prng), expected[i]);
}

static void seeds_decide_the_sequence(void **state)
{
    struct u_prng a;
    struct u_prng b;
    struct u_prng c;
    unsigned i;

    u_prng_seed(&a, 42);
    u_prng_seed(&b, 42);
    u_prng_seed(&c, 43);
    for (i = 0; i < 1000; i++) {
        u_u64 number = u_prng_next(&a);
        assert_int_equal(number, u_prng_next(&b));
        assert_int_not_equal(number, u_prng_next(&c));
    }
}

static void below_stays_below(void **state)
{
    static const u_u32 limits[] = {1, 2, 3, 7, 1000, 0x80000000u, 0x80000001u, 0xffffffffu};
    struct u_prng prng;
    unsigned i;
    unsigned draw;

    u_prng_seed(&prng, 7);
    for (i = 0; i < U_ARRAY_LEN(limits); i++)
        for (draw = 0; draw < 1000; draw++)
            assert_true(u_prng_below(&prng, limits[i]) < limits[i]);
}

/* 100000 draws of 10: each should come 10000 times, with a standard deviation of 95. */
static void below_is_even(void **state)
{
    struct u_prng prng;
    unsigned counts[10] = {0};
    unsigned i;

    u_prng_seed(&prng, 11);
    for (i = 0; i < 100000; i++)
        counts[u_prng_below(&prng, 10)]++;
    for (i = 0; i < 10; i++)
        assert_in_range(counts[i], 9500, 10500);
}

/*
 * For this n two of three values of a 32-bit number would hit an even result if none were drawn
 * again, so an unfair method shows at once.
 */
static void below_is_even_where_it_is_hard(void **state)
{
    struct u_prng prng;
    unsigned odd = 0;
    unsigned i;

    u_prng_seed(&prng, 13);
    for (i = 0; i < 100000; i++)
        odd += u_prng_below(&prng, 0xaaaaaaabu) & 1;
    assert_in_range(odd, 49000, 51000);
}

static void every_bit_is_balanced(void **state)
{
    struct u_prng prng;
    unsigned ones[64] = {0};
    unsigned draw;
    unsigned bit;

    u_prng_seed(&prng, 17);
    for (draw = 0; draw < 10000; draw++) {
        u_u64 number = u_prng_next(&prng);
        for (bit = 0; bit < 64; bit++)
            ones[bit] += (unsigned)(number >> bit & 1);
    }
    for (bit = 0; bit < 64; bit++)
        assert_in_range(ones[bit], 4750, 5250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_is_splitmix64),
        cmocka_unit_test(seeds_decide_the_sequence),
        cmocka_unit_test(below_stays_below),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(below_is_even_where_it_is_hard),
        cmocka_unit_test(every_bit_is_balanced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
