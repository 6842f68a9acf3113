/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock, and what an exptime means. */
#include "cache/clock.h"

#include "rig.h"

static void test_clock(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *worker = rig->worker;

    assert_int_equal(worker->now_s, 2);
    assert_false(cache_clock_set(worker, RIG_START_US));
    assert_false(cache_clock_set(worker, RIG_START_US + 999999));
    assert_int_equal(worker->now_s, 2);
    assert_true(cache_clock_set(worker, RIG_START_US + 1000000));
    assert_int_equal(worker->now_s, 3);
    assert_false(cache_clock_set(worker, RIG_START_US));
    assert_int_equal(worker->now_s, 3);
    assert_true(cache_clock_set(worker, RIG_START_US + 86400000000u + 5));
    assert_int_equal(worker->now_s, 86402);
    assert_int_equal(cache_clock_unix_s(worker), RIG_UNIX_S + 86400);
}

static void test_exptime(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *worker = rig->worker;
    uint32_t now;

    cache_clock_set(worker, RIG_START_US + 1000000000u);
    now = worker->now_s;
    assert_int_equal(cache_clock_expiry(worker, 0), 0);
    assert_int_equal(cache_clock_expiry(worker, -1), 1);
    assert_int_equal(cache_clock_expiry(worker, INT32_MIN), 1);
    assert_int_equal(cache_clock_expiry(worker, 1), now + 1);
    assert_int_equal(cache_clock_expiry(worker, 2592000), now + 2592000);
    /* From here on absolute: 1970, our start, now, later. */
    assert_int_equal(cache_clock_expiry(worker, 2592001), 1);
    assert_int_equal(cache_clock_expiry(worker, (int32_t)RIG_UNIX_S - 100), 1);
    assert_int_equal(cache_clock_expiry(worker, (int32_t)RIG_UNIX_S - 2), 1); /* where it is 0 */
    assert_true(cache_clock_expiry(worker, (int32_t)RIG_UNIX_S) <= 2);
    assert_int_equal(cache_clock_expiry(worker, (int32_t)RIG_UNIX_S + 1000), now);
    assert_int_equal(cache_clock_expiry(worker, (int32_t)RIG_UNIX_S + 1001), now + 1);
    assert_int_equal(cache_clock_expiry(worker, INT32_MAX), INT32_MAX - RIG_UNIX_S + 2);
}

static void test_the_flush_second(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *worker = rig->worker;

    assert_int_equal(cache_clock_expiry_of_new(worker, 0), 0);
    worker->flush_second_s = worker->now_s;
    assert_int_equal(cache_clock_expiry_of_new(worker, 0), 1);
    assert_int_equal(cache_clock_expiry_of_new(worker, 100), 1);
    worker->flush_second_s = worker->now_s - 1;
    assert_int_equal(cache_clock_expiry_of_new(worker, 100), worker->now_s + 100);
}

/* A machine whose clock says 1970. */
static void test_started_at_the_epoch(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.start_unix_s = 0;
    rig_open(&rig, &config);
    assert_int_equal(cache_clock_expiry(rig.worker, 2592001), 2592001);
    assert_int_equal(cache_clock_unix_s(rig.worker), 0);
    rig_close(&rig);
}

/* The same through the protocol, to the second. */
static void test_expiry_of_items(void **state)
{
    static const struct {
        const char *set;
        unsigned lives_s; /* 0: not at all */
    } cases[] = {
        {"set a 0 1 1\r\nx\r\n", 1},
        {"set a 0 10 1\r\nx\r\n", 10},
        {"set a 0 2592000 1\r\nx\r\n", 2592000},
        {"set a 0 2592001 1\r\nx\r\n", 0},
        {"set a 0 -1 1\r\nx\r\n", 0},
        {"set a 0 99999999999 1\r\nx\r\n", 0},
        {"add a 0 -2147483648 1\r\nx\r\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cache_config config = rig_config();
        struct rig rig;

        rig_open(&rig, &config);
        rig_expect(&rig, cases[i].set, "STORED\r\n");
        if (cases[i].lives_s > 0) {
            rig_wait(&rig, cases[i].lives_s - 1);
            rig_expect(&rig, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
            rig_wait(&rig, 1);
        }
        rig_expect(&rig, "get a\r\n", "END\r\n");
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_clock, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_exptime, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_flush_second, rig_setup, rig_teardown),
        cmocka_unit_test(test_started_at_the_epoch),
        cmocka_unit_test(test_expiry_of_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
