/* SPDX-License-Identifier: BSD-3-Clause */
/* Which delays count as hiccups, and that a hiccup on a core is detected. */
#define _GNU_SOURCE /* usleep() */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "hiccup.h"

#define MS 1000000u

static void test_which_delays_count(void **state)
{
    struct hiccup_watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .count = 2};
    struct hiccups found;

    (void)state;
    watch.cores[0].watch = watch.cores[1].watch = &watch;
    hiccup_start(&watch, 100 * MS);
    hiccup_woke(&watch.cores[0], 200 * MS, 200 * MS);
    hiccup_woke(&watch.cores[0], 200 * MS, 199 * MS);
    hiccup_woke(&watch.cores[0], 200 * MS, 201 * MS - 1);
    hiccup_woke(&watch.cores[0], 99 * MS, 500 * MS); /* began before */
    found = hiccup_read(&watch);
    assert_int_equal(found.count, 0);
    assert_int_equal(found.longest_ns, 0);

    hiccup_woke(&watch.cores[0], 200 * MS, 201 * MS);
    hiccup_woke(&watch.cores[0], 300 * MS, 304 * MS);
    hiccup_woke(&watch.cores[1], 300 * MS, 303 * MS);
    hiccup_woke(&watch.cores[1], 400 * MS, 403 * MS);
    found = hiccup_read(&watch);
    assert_int_equal(found.count, 4);
    assert_int_equal(found.longest_ns, 4 * MS);
    assert_int_equal(found.worst_ns, 6 * MS); /* hiccups of two cores may coincide: no sum */

    hiccup_start(&watch, 500 * MS);
    found = hiccup_read(&watch);
    assert_int_equal(found.count + found.longest_ns + found.worst_ns, 0);
}

static void test_cores_are_watched_until_closed(void **state)
{
    struct hiccup_watch watch;
    struct cores cores;
    char why[CORES_ERROR_MAX];

    (void)state;
    assert_int_equal(cores_all(&cores, why), 0);
    assert_int_equal(hiccup_open(&watch, &cores), 0);
    assert_int_equal(watch.count, cores.count < HICCUP_CORES_MAX ? cores.count : HICCUP_CORES_MAX);
    hiccup_start(&watch, 0);
    usleep(10000);
    assert_true(hiccup_read(&watch).longest_ns <= hiccup_read(&watch).worst_ns);
    hiccup_close(&watch);
    assert_int_equal(watch.count, 0);
}

static void test_missing_core(void **state)
{
    struct hiccup_watch watch;
    struct cores cores = {.count = 1, .list = {1023}};

    (void)state;
    assert_true(hiccup_open(&watch, &cores) < 0);
    hiccup_close(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_delays_count),
        cmocka_unit_test(test_cores_are_watched_until_closed),
        cmocka_unit_test(test_missing_core),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
