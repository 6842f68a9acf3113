/* SPDX-License-Identifier: BSD-3-Clause */
/* Integers in network byte order: the bytes they have, the way there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/wire.h"

static void most_significant_byte_comes_first(void **state)
{
    static const u_u8 two[] = {0x12, 0x34};
    static const u_u8 four[] = {0xfe, 0xdc, 0xba, 0x98};
    struct u_be16 v16 = u_be16(0x1234);
    struct u_be32 v32 = u_be32(0xfedcba98);

    assert_memory_equal(&v16, two, 2);
    assert_memory_equal(&v32, four, 4);
}

static void all_16_bit_numbers_come_back(void **state)
{
    unsigned v;

    for (v = 0; v <= 0xffff; v++)
        assert_int_equal(u_get_be16(u_be16(v)), v);
}

static void bits_above_16_are_dropped(void **state)
{
    assert_int_equal(u_get_be16(u_be16(0xabcd1234)), 0x1234);
}

static void numbers_of_32_bits_come_back(void **state)
{
    static const u_u32 edges[] = {0, 1, 0xff, 0x100, 0x7fffffff, 0x80000000, 0xffffffff};
    struct u_prng prng;
    unsigned i;

    u_prng_seed(&prng, 1);
    for (i = 0; i < U_ARRAY_LEN(edges); i++)
        assert_int_equal(u_get_be32(u_be32(edges[i])), edges[i]);
    for (i = 0; i < 10000; i++) {
        u_u32 v = (u_u32)u_prng_next(&prng);
        assert_int_equal(u_get_be32(u_be32(v)), v);
    }
}

/* A header may begin anywhere in a frame. */
static void they_need_no_alignment(void **state)
{
    struct packed_by_nature {
        u_u8 odd;
        struct u_be16 a;
        struct u_be32 b;
    } header;

    assert_int_equal(sizeof(header), 7);
    header.b = u_be32(0x01020304);
    assert_int_equal(u_get_be32(header.b), 0x01020304);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_significant_byte_comes_first),
        cmocka_unit_test(all_16_bit_numbers_come_back),
        cmocka_unit_test(bits_above_16_are_dropped),
        cmocka_unit_test(numbers_of_32_bits_come_back),
        cmocka_unit_test(they_need_no_alignment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
