/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash against published values. Those of SipHash-2-4 are the first of the table that the
 * authors of the paper give, and the example of its appendix A (15 bytes). Those of SipHash-1-3
 * are hash() of Python 3.11 with PYTHONHASHSEED=0, which is SipHash-1-3 under a key of zeros.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/siphash.h"

static void count_up(u_u8 *bytes, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++)
        bytes[i] = (u_u8)i;
}

static void siphash24_gives_the_published_values(void **state)
{
    static const uint64_t expected[] = {
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
        0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5};
    u_u8 key[U_SIPHASH_KEY_BYTES];
    u_u8 data[U_ARRAY_LEN(expected)];
    u_u32 n;

    count_up(key, sizeof(key));
    count_up(data, sizeof(data));
    for (n = 0; n < U_ARRAY_LEN(expected); n++)
        assert_int_equal(u_siphash24(key, data, n), expected[n]);
}

static void siphash13_gives_the_known_values(void **state)
{
    static const struct {
        u_u32 bytes;
        uint64_t hash;
    } expected[] = {{1, 0x68a914128e01e473},  {7, 0x2f098ab0c751325a},   {8, 0xead411e67ebe2eea},
                    {9, 0x75927f9d95124362},  {15, 0xf30eb725bb91c9ea},  {16, 0x8972188433a5c5b7},
                    {63, 0x385d3e39e5f37359}, {128, 0x6488077d8be5b7b5}, {250, 0x9e1b3d0e595bbeec}};
    static const u_u8 key[U_SIPHASH_KEY_BYTES];
    u_u8 data[250];
    unsigned i;

    count_up(data, sizeof(data));
    for (i = 0; i < U_ARRAY_LEN(expected); i++)
        assert_int_equal(u_siphash13(key, data, expected[i].bytes), expected[i].hash);
}

static void alignment_does_not_matter(void **state)
{
    u_u8 area[128];
    u_u8 data[63];
    u_u8 key[U_SIPHASH_KEY_BYTES];
    u_u32 n;
    unsigned at;

    count_up(key, sizeof(key));
    count_up(data, sizeof(data));
    for (at = 0; at < 8; at++) {
        memset(area, 0xa5, sizeof(area));
        memcpy(area + at, data, sizeof(data));
        for (n = 0; n <= sizeof(data); n++)
            assert_int_equal(u_siphash13(key, area + at, n), u_siphash13(key, data, n));
    }
}

static void each_bit_of_key_and_data_matters(void **state)
{
    u_u8 key[U_SIPHASH_KEY_BYTES] = {0};
    u_u8 data[21] = {0};
    u_u64 before = u_siphash13(key, data, sizeof(data));
    unsigned bit;

    for (bit = 0; bit < sizeof(key) * 8; bit++) {
        key[bit / 8] ^= (u_u8)(1u << bit % 8);
        assert_int_not_equal(u_siphash13(key, data, sizeof(data)), before);
        key[bit / 8] = 0;
    }
    for (bit = 0; bit < sizeof(data) * 8; bit++) {
        data[bit / 8] ^= (u_u8)(1u << bit % 8);
        assert_int_not_equal(u_siphash13(key, data, sizeof(data)), before);
        data[bit / 8] = 0;
    }
}

/* Trailing zeros change the hash: the length is part of the input. */
static void length_matters(void **state)
{
    static const u_u8 zeros[300];
    u_u64 seen[300];
    u_u32 n;
    u_u32 other;

    for (n = 0; n < U_ARRAY_LEN(seen); n++) {
        seen[n] = u_siphash13(zeros, zeros, n);
        for (other = 0; other < n; other++)
            assert_int_not_equal(seen[n], seen[other]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash24_gives_the_published_values),
        cmocka_unit_test(siphash13_gives_the_known_values),
        cmocka_unit_test(alignment_does_not_matter),
        cmocka_unit_test(each_bit_of_key_and_data_matters),
        cmocka_unit_test(length_matters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
