/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of a copy, by when the next batch may begin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pace.h"

static void test_batches(void **state)
{
    struct pace pace = {0};

    (void)state;
    assert_int_equal(pace_batch(&pace, 256), 256);
    pace.items_per_s = 1000;
    assert_int_equal(pace_batch(&pace, 256), 50);
    pace.items_per_s = 0.5;
    assert_int_equal(pace_batch(&pace, 256), 1);
    pace.items_per_s = 1e9;
    assert_int_equal(pace_batch(&pace, 256), 256);
}

/* With *stop set nothing waits, and the due time shows what the limits ask for. */
static void test_limits(void **state)
{
    struct pace pace = {.items_per_s = 100, .bytes_per_s = 1000};
    atomic_bool stop = true;
    uint64_t due_ns;

    (void)state;
    pace_wait(&pace, 100, 500, &stop);
    due_ns = pace.due_ns;
    assert_true(due_ns >= pace_clock_ns());
    pace_wait(&pace, 100, 500, &stop); /* items: one second more */
    assert_int_equal(pace.due_ns - due_ns, UINT64_C(1000000000));
    due_ns = pace.due_ns;
    pace_wait(&pace, 1, 3000, &stop); /* bytes: three */
    assert_int_equal(pace.due_ns - due_ns, UINT64_C(3000000000));
}

static void test_no_limit_waits_for_nothing(void **state)
{
    struct pace pace = {0};
    atomic_bool stop = false;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        pace_wait(&pace, 1000000, UINT64_MAX, &stop);
    assert_true(pace.due_ns <= pace_clock_ns());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_limit_waits_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
