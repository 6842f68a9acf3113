/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of goals, and the search against simulated servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "slo.h"

static void test_goals(void **state)
{
    static const struct {
        const char *text;
        double percent;
        uint64_t limit_ns;
    } good[] = {{"p99<200us", 99, 200000},
                {"p99.9<1ms", 99.9, 1000000},
                {"mean<1.5ms", 0, 1500000},
                {"max<10s", 100, UINT64_C(10000000000)},
                {"p50<800ns", 50, 800}};
    struct slo slo;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(slo_parse(&slo, good[i].text), 0);
        assert_true(slo.percent == good[i].percent);
        assert_int_equal(slo.limit_ns, good[i].limit_ns);
        assert_string_equal(slo.text, good[i].text);
    }
}

static void test_invalid_goals(void **state)
{
    static const char *const bad[] = {
        "",
        "p99",
        "p99<",
        "p99<200",
        "p99<200 us",
        "<1ms",
        "p<1ms",
        "p0<1ms",
        "p101<1ms",
        "p99x<1ms",
        "median<1ms",
        "p99<0us",
        "p99<-1us",
        "p99<1min",
        "p99<1e99s",
        "p99>200us",
        "p99.99999999999999999999999999<1us",
    };
    struct slo slo;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(slo_parse(&slo, bad[i]), -1);
}

static void test_value(void **state)
{
    static struct load_histogram h;
    struct slo slo;

    (void)state;
    load_histogram_clear(&h);
    load_histogram_count(&h, 100);
    load_histogram_count(&h, 300);
    assert_int_equal(slo_parse(&slo, "mean<1ms"), 0);
    assert_int_equal(slo_value(&slo, &h), 200);
    assert_int_equal(slo_parse(&slo, "p50<1ms"), 0);
    assert_int_equal(slo_value(&slo, &h), 100);
    assert_int_equal(slo_parse(&slo, "max<1ms"), 0);
    assert_int_equal(slo_value(&slo, &h), 300);
}

/* The rate found for a server that meets the goal up to `limit`. */
static double search(double start, double limit, unsigned *tries)
{
    struct slo_search s;
    double rate;

    slo_start(&s, start);
    while ((rate = slo_next(&s)) > 0)
        slo_learn(&s, rate, rate <= limit);
    *tries = s.tries;
    return s.kept;
}

static void test_search(void **state)
{
    static const double limits[] = {15, 1000, 54321, 1e6, 1.2e7};
    unsigned i, tries;

    (void)state;
    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        double found = search(20000, limits[i], &tries);

        assert_true(found <= limits[i] && found >= limits[i] / 1.04);
        assert_true(tries <= 24);
    }
}

/* The search ends for a goal that is never met, and for one that is always met. */
static void test_search_ends(void **state)
{
    unsigned tries;

    (void)state;
    assert_true(search(20000, 0, &tries) == 0);
    assert_true(tries <= 24);
    assert_true(search(20000, 1e300, &tries) > 20000);
    assert_int_equal(tries, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goals),       cmocka_unit_test(test_invalid_goals),
        cmocka_unit_test(test_value),       cmocka_unit_test(test_search),
        cmocka_unit_test(test_search_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
