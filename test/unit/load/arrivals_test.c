/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrivals: rate, deviation, and reproducibility by the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "load/arrivals.h"

enum { N = 100000 };

static void test_constant(void **state)
{
    struct load_arrivals a;
    unsigned i;

    (void)state;
    load_arrivals_start(&a, LOAD_ARRIVALS_CONSTANT, 3, 1000, 1);
    for (i = 1; i <= N; i++) {
        assert_in_range(load_arrivals_due_ns(&a), 1000 + i * UINT64_C(1000000000) / 3 - 100,
                        1000 + i * UINT64_C(1000000000) / 3 + 100); /* 33,333 s later */
        load_arrivals_advance(&a);
    }
}

/* The mean and the standard deviation of exponential intervals are both 1 / rate. */
static void test_poisson(void **state)
{
    struct load_arrivals a;
    double sum = 0, squares = 0, mean;
    uint64_t before = 0;
    unsigned i;

    (void)state;
    load_arrivals_start(&a, LOAD_ARRIVALS_POISSON, 1000, 0, 7);
    for (i = 0; i < N; i++) {
        double gap = (double)(load_arrivals_due_ns(&a) - before);

        before = load_arrivals_due_ns(&a);
        sum += gap;
        squares += gap * gap;
        load_arrivals_advance(&a);
    }
    mean = sum / N;
    assert_true(mean > 0.98e6 && mean < 1.02e6);
    assert_true(squares / N > 1.9 * mean * mean && squares / N < 2.1 * mean * mean);
}

static void test_seed(void **state)
{
    struct load_arrivals a, b, c;
    unsigned i, differences = 0;

    (void)state;
    load_arrivals_start(&a, LOAD_ARRIVALS_POISSON, 1e6, 5, 7);
    load_arrivals_start(&b, LOAD_ARRIVALS_POISSON, 1e6, 5, 7);
    load_arrivals_start(&c, LOAD_ARRIVALS_POISSON, 1e6, 5, 8);
    for (i = 0; i < 100; i++) {
        assert_int_equal(load_arrivals_due_ns(&a), load_arrivals_due_ns(&b));
        differences += load_arrivals_due_ns(&a) != load_arrivals_due_ns(&c);
        load_arrivals_advance(&a);
        load_arrivals_advance(&b);
        load_arrivals_advance(&c);
    }
    assert_true(differences > 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_poisson),
        cmocka_unit_test(test_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
