/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequence arithmetic, around the wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ustack/tcp/seq.h"

static void compares_across_the_wrap(void **state)
{
    static const u_u32 base[] = {0, 1, 0x7fffffff, 0x80000000u, 0xffffffffu};
    unsigned i;

    for (i = 0; i < sizeof(base) / sizeof(base[0]); i++) {
        u_u32 a = base[i];
        assert_false(us_seq_lt(a, a));
        assert_true(us_seq_leq(a, a));
        assert_true(us_seq_geq(a, a));
        assert_true(us_seq_lt(a, a + 1));
        assert_true(us_seq_gt(a + 1, a));
        assert_true(us_seq_lt(a, a + 0x7fffffff));
        assert_true(us_seq_gt(a, a + 0x80000001u));
        assert_int_equal(us_seq_max(a, a + 5), a + 5);
        assert_int_equal(us_seq_min(a, a + 5), a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_across_the_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
