/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms: slots, classes of commands, percentiles, reset, workers that leave. */
#include "cache/latency.h"

#include <stdio.h>

#include "rig.h"

/* Slots follow each other, contain what they are chosen for, and are at most 3.2 % wide. */
static void test_slots(void **state)
{
    static const uint64_t times[] = {
        0, 1, 63, 64, 65, 127, 128, 1000, 123456789, (UINT64_C(1) << 36) - 1,
    };

    for (unsigned slot = 0; slot < CACHE_LATENCY_SLOTS - 1; slot++) {
        uint64_t first = cache_latency_slot_ns(slot);
        uint64_t next = cache_latency_slot_ns(slot + 1);

        assert_true(next > first);
        assert_int_equal(cache_latency_slot(first), slot);
        assert_int_equal(cache_latency_slot(next - 1), slot);
        assert_true(next - first <= 1 || (double)(next - first) / (double)first <= 0.032);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        assert_true(cache_latency_slot_ns(cache_latency_slot(times[i])) <= times[i]);
    assert_int_equal(cache_latency_slot((UINT64_C(1) << 36) - 1), CACHE_LATENCY_SLOTS - 1);
}

static uint64_t count_of(struct rig *rig, enum mc_command command)
{
    struct cache_latency sum;

    return cache_latency_read(rig->cache, cache_latency_class(command), &sum);
}

/* Every executed request is counted for its command, in all protocols, once it is complete. */
static void test_classes(void **state)
{
    static const struct {
        const char *request;
        enum mc_command command;
    } rows[] = {
        {"set a 0 0 1\r\n1\r\n", MC_CMD_SET},
        {"set a 0 0 1\r\n1\r\n", MC_CMD_SET}, /* replaces: the fast path */
        {"get a\r\n", MC_CMD_GET},
        {"get a b\r\n", MC_CMD_GET},
        {"gets a\r\n", MC_CMD_GETS},
        {"gat 0 a\r\n", MC_CMD_GAT},
        {"gats 0 a\r\n", MC_CMD_GATS},
        {"add a 0 0 1\r\n1\r\n", MC_CMD_ADD},
        {"replace a 0 0 1\r\n1\r\n", MC_CMD_REPLACE},
        {"append a 0 0 1\r\n1\r\n", MC_CMD_APPEND},
        {"prepend a 0 0 1\r\n1\r\n", MC_CMD_PREPEND},
        {"cas a 0 0 1 1\r\n1\r\n", MC_CMD_CAS},
        {"incr a 1\r\n", MC_CMD_INCR},
        {"decr a 1\r\n", MC_CMD_DECR},
        {"touch a 0\r\n", MC_CMD_TOUCH},
        {"mg a v\r\n", MC_CMD_MG},
        {"ms a 1\r\n1\r\n", MC_CMD_MS},
        {"ma a\r\n", MC_CMD_MA},
        {"md a\r\n", MC_CMD_MD},
        {"me a\r\n", MC_CMD_ME},
        {"mn\r\n", MC_CMD_MN},
        {"delete a\r\n", MC_CMD_DELETE},
        {"version\r\n", MC_CMD_VERSION},
        {"flush_all\r\n", MC_CMD_FLUSH_ALL},
    };
    struct rig *rig = *state;
    uint64_t expected[CACHE_LATENCY_CLASSES] = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned class = cache_latency_class(rows[i].command);

        rig_feed(rig, rows[i].request);
        cache_latency_record(rig->worker, 1000);
        expected[class]++;
        for (unsigned other = 0; other < CACHE_LATENCY_CLASSES; other++) {
            struct cache_latency sum;

            assert_int_equal(cache_latency_read(rig->cache, other, &sum), expected[other]);
        }
    }
    assert_string_equal(cache_latency_name(cache_latency_class(MC_CMD_GET)), "get");
    assert_string_equal(cache_latency_name(cache_latency_class(MC_CMD_QUIT)), "other");
}

/* A value that comes in pieces is counted with its last piece; malformed requests are not. */
static void test_when(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 10\r\n01234");
    assert_false(cache_latency_is_pending(rig->worker));
    assert_int_equal(count_of(rig, MC_CMD_SET), 0);
    rig_feed(rig, "56789\r\n");
    assert_int_equal(count_of(rig, MC_CMD_SET), 0);
    cache_latency_record(rig->worker, 1000);
    assert_int_equal(count_of(rig, MC_CMD_SET), 1);
    rig_feed(rig, "get\r\nset a 0 0 x\r\nnothing\r\n");
    assert_false(cache_latency_is_pending(rig->worker));
}

static void record_gets(struct rig *rig, unsigned n, uint64_t ns)
{
    while (n-- > 0) {
        rig_feed(rig, "get a\r\n");
        cache_latency_record(rig->worker, ns);
    }
}

static void expect_near(uint64_t value, uint64_t expected)
{
    assert_in_range(value, expected * 97 / 100, expected * 103 / 100);
}

/* All requests of a turn have its time; percentiles are ranks, rounded up. */
static void test_percentiles(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "get a\r\nget a\r\nget b\r\n");
    cache_latency_record(rig->worker, 2000);
    record_gets(rig, 1, 100000);
    assert_int_equal(rig_stat(rig, "latency", "get:count"), 4);
    expect_near(rig_stat(rig, "latency", "get:mean_ns"), 26500);
    expect_near(rig_stat(rig, "latency", "get:p50_ns"), 2000);
    expect_near(rig_stat(rig, "latency", "get:p99_ns"), 100000);
    expect_near(rig_stat(rig, "latency", "get:max_ns"), 100000);
    record_gets(rig, 96, 500);
    expect_near(rig_stat(rig, "latency", "get:p50_ns"), 500);
    expect_near(rig_stat(rig, "latency", "get:p90_ns"), 500);
    expect_near(rig_stat(rig, "latency", "get:p99_ns"), 2000);
    expect_near(rig_stat(rig, "latency", "get:p999_ns"), 100000);
    expect_near(rig_stat(rig, "latency", "get:p9999_ns"), 100000);
}

static void test_reset(void **state)
{
    struct rig *rig = *state;
    struct cache_latency sum;

    record_gets(rig, 10, 1000);
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    assert_int_equal(count_of(rig, MC_CMD_GET), 0);
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    cache_latency_record(rig->worker, 1000);
    record_gets(rig, 3, 4096);
    assert_int_equal(cache_latency_read(rig->cache, MC_CMD_GET, &sum), 3);
    expect_near(cache_latency_sum_ns(&sum), 3 * 4096);
    assert_int_equal(cache_latency_below(&sum, 4096), 0);
    assert_int_equal(cache_latency_below(&sum, 8192), 3);
}

/* What a worker has counted remains when it leaves. */
static void test_leave(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *first = rig->worker;
    struct cache_latency sum;

    record_gets(rig, 5, 1000);
    rig->worker = cache_join(rig->cache);
    assert_non_null(rig->worker);
    assert_int_equal(cache_latency_read(rig->cache, MC_CMD_GET, &sum), 5);
    cache_latency_add(rig->worker, MC_CMD_GET);
    cache_latency_record(rig->worker, 1000);
    cache_leave(rig->worker);
    rig->worker = first;
    assert_int_equal(cache_latency_read(rig->cache, MC_CMD_GET, &sum), 6);
    expect_near(cache_latency_sum_ns(&sum), 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test_setup_teardown(test_classes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_when, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_percentiles, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_reset, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_leave, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
