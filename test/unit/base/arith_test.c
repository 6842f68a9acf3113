/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic against the compiler's own 64-bit division, and cube roots by their definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arith.h"
#include "base/prng.h"

static u_u32 naive(u_u32 a, u_u32 b, u_u32 c)
{
    u_u64 result = (u_u64)a * b / c;

    return result > 0xffffffffu ? 0xffffffffu : (u_u32)result;
}

static void muldiv_is_exact(void **state)
{
    static const u_u32 edges[] = {0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    struct u_prng prng;
    unsigned i;
    unsigned k;
    unsigned m;

    for (i = 0; i < U_ARRAY_LEN(edges); i++)
        for (k = 0; k < U_ARRAY_LEN(edges); k++)
            for (m = 1; m < U_ARRAY_LEN(edges); m++)
                assert_int_equal(u_muldiv32(edges[i], edges[k], edges[m]),
                                 naive(edges[i], edges[k], edges[m]));
    u_prng_seed(&prng, 1);
    for (i = 0; i < 100000; i++) {
        u_u32 a = (u_u32)u_prng_next(&prng) >> (i % 31);
        u_u32 b = (u_u32)u_prng_next(&prng) >> (i / 31 % 31);
        u_u32 c = (u_u32)u_prng_next(&prng) >> (i / 961 % 31) | 1;

        assert_int_equal(u_muldiv32(a, b, c), naive(a, b, c));
    }
}

static void assert_is_cube_root(u_u64 v)
{
    u_u64 root = u_cbrt64(v);

    assert_true(root <= 2642245 && root * root * root <= v);
    assert_true(root == 2642245 || (root + 1) * (root + 1) * (root + 1) > v);
}

static void cube_root_is_the_largest_below(void **state)
{
    struct u_prng prng;
    u_u64 root;
    unsigned i;

    for (i = 0; i < 1000; i++)
        assert_is_cube_root(i);
    for (root = 1; root <= 2642245; root += 1 + root / 7) {
        assert_is_cube_root(root * root * root - 1);
        assert_is_cube_root(root * root * root);
        assert_is_cube_root(root * root * root + 1);
    }
    assert_is_cube_root(~(u_u64)0);
    u_prng_seed(&prng, 2);
    for (i = 0; i < 100000; i++)
        assert_is_cube_root(u_prng_next(&prng) >> (i % 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(muldiv_is_exact),
        cmocka_unit_test(cube_root_is_the_largest_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
