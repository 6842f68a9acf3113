/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of cores, and pinning of threads. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/cores.h"

static char error[CORES_ERROR_MAX];

static void test_lists(void **state)
{
    struct cores cores;

    assert_int_equal(cores_parse("2", &cores, error), 0);
    assert_int_equal(cores.count, 1);
    assert_int_equal(cores.list[0], 2);
    assert_int_equal(cores_parse("8,0-3,2", &cores, error), 0);
    assert_int_equal(cores.count, 5);
    assert_int_equal(cores.list[0], 8);
    assert_int_equal(cores.list[1], 0);
    assert_int_equal(cores.list[4], 3);
    assert_int_equal(cores_of_thread(&cores, 0), 8);
    assert_int_equal(cores_of_thread(&cores, 4), 3);
    assert_int_equal(cores_of_thread(&cores, 5), 8); /* in turn */
}

static void test_mistakes(void **state)
{
    static const char *const wrong[] = {"",   ",",   "0,",  "a",    "1-",
                                        "-1", "3-1", "0x1", "1024", "0-1023"};
    struct cores cores;
    unsigned i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(cores_parse(wrong[i], &cores, error), -1);
    assert_non_null(strstr(error, "too many cores"));
}

static void test_cores_that_do_not_exist(void **state)
{
    struct cores cores;

    assert_int_equal(cores_parse("1023", &cores, error), 0);
    assert_int_equal(cores_check(&cores, error), -1);
    assert_non_null(strstr(error, "no core 1023"));
}

static void test_pin_and_unpin(void **state)
{
    struct cores cores;
    cpu_set_t before, after;
    char text[16];
    unsigned core = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(core, &before))
        core++;
    snprintf(text, sizeof(text), "%u", core);
    assert_int_equal(cores_parse(text, &cores, error), 0);
    assert_int_equal(cores_check(&cores, error), 0);
    assert_int_equal(cores_pin(core), 0);
    assert_int_equal(sched_getcpu(), core);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_int_equal(CPU_COUNT(&after), 1);
    cores_unpin(&cores);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_true(cores_pin(1023) < 0);
    assert_true(cores_node(core) >= CORES_NODE_UNKNOWN);
    assert_int_equal(cores_node(100000), CORES_NODE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_cores_that_do_not_exist),
        cmocka_unit_test(test_pin_and_unpin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
