/* SPDX-License-Identifier: BSD-3-Clause */
/* flush_all. */
#include "rig.h"

#include <stdio.h>

#define NOT_ALLOWED "CLIENT_ERROR flush_all not allowed\r\n"
#define GET_A "VALUE a 0 1\r\nx\r\nEND\r\n"

static void test_flush_now(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "flush_all\r\n", "OK\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\n" GET_A);
    rig_expect(rig, "flush_all\r\nget a\r\ndelete a\r\n", "OK\r\nEND\r\nNOT_FOUND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\n" GET_A);
    rig_expect(rig, "flush_all 0\r\nget a\r\n", "OK\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\nflush_all noreply\r\nget a\r\n", "STORED\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\nflush_all -5\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\nflush_all x\r\nget a\r\n",
               "STORED\r\nCLIENT_ERROR invalid exptime argument\r\n" GET_A);
    assert_int_equal(rig_stat(rig, NULL, "cmd_flush"), 6);
}

/* It takes effect one second before the time that it names, for that whole second. */
static void test_flush_later(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set a 0 0 1\r\nx\r\nflush_all 3\r\nget a\r\n", "STORED\r\nOK\r\n" GET_A);
    rig_wait(rig, 1);
    rig_expect(rig, "get a\r\nset b 0 0 1\r\nx\r\n", GET_A "STORED\r\n");
    rig_wait(rig, 1);
    rig_expect(rig, "get a b\r\nset a 0 0 1\r\nx\r\nget a\r\n", "END\r\nSTORED\r\nEND\r\n");
    rig_wait(rig, 1);
    rig_expect(rig, "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n", "END\r\nSTORED\r\n" GET_A);
    rig_wait(rig, 1000);
    rig_expect(rig, "get a\r\n", GET_A);
}

static void test_flush_in_one_second(void **state)
{
    rig_expect(*state, "set a 0 0 1\r\nx\r\nflush_all 1 noreply\r\nget a\r\n", "STORED\r\nEND\r\n");
    rig_expect(*state, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n", "END\r\nSTORED\r\n" GET_A);
}

static void test_the_last_flush_wins(void **state)
{
    rig_expect(*state, "flush_all 2\r\nflush_all 10\r\nset a 0 0 1\r\nx\r\n",
               "OK\r\nOK\r\nSTORED\r\n");
    rig_wait(*state, 5);
    rig_expect(*state, "get a\r\nflush_all 2\r\nflush_all\r\nset a 0 0 1\r\nx\r\n",
               GET_A "OK\r\nOK\r\nSTORED\r\n");
    rig_wait(*state, 20);
    rig_expect(*state, "get a\r\nflush_all 1\r\nflush_all\r\nset a 0 0 1\r\nx\r\nget a\r\n",
               GET_A "OK\r\nOK\r\nSTORED\r\n" GET_A);
    rig_wait(*state, 1); /* the remainder of the first one's second is not flushed any more */
    rig_expect(*state, "flush_all 1\r\nflush_all 100\r\nset a 0 0 1\r\nx\r\nget a\r\n",
               "OK\r\nOK\r\nSTORED\r\n" GET_A);
}

static void test_flush_at_an_absolute_time(void **state)
{
    char text[64];

    rig_expect(*state, "set a 0 0 1\r\nx\r\nflush_all 1000000000\r\nget a\r\n",
               "STORED\r\nOK\r\n" GET_A);
    snprintf(text, sizeof(text), "flush_all %u\r\nget a\r\n", RIG_UNIX_S + 3);
    rig_expect(*state, text, "OK\r\n" GET_A);
    rig_wait(*state, 1);
    rig_expect(*state, "get a\r\n", GET_A);
    rig_wait(*state, 1);
    rig_expect(*state, "get a\r\n", "END\r\n");
}

/* A worker that slept through the second flushes when it wakes up. */
static void test_flush_after_a_gap(void **state)
{
    rig_expect(*state, "set a 0 0 1\r\nx\r\nflush_all 5\r\n", "STORED\r\nOK\r\n");
    rig_wait(*state, 100);
    rig_expect(*state, "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n", "END\r\nSTORED\r\n" GET_A);
}

static void test_flush_disabled(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.flush_disabled = true;
    rig_open(&rig, &config);
    rig_expect(&rig,
               "set a 0 0 1\r\nx\r\nflush_all\r\nflush_all x\r\nflush_all noreply\r\nget a\r\n",
               "STORED\r\n" NOT_ALLOWED NOT_ALLOWED GET_A);
    assert_int_equal(rig_stat(&rig, NULL, "cmd_flush"), 3);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flush_now, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flush_later, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flush_in_one_second, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_flush_wins, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flush_at_an_absolute_time, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flush_after_a_gap, rig_setup, rig_teardown),
        cmocka_unit_test(test_flush_disabled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
