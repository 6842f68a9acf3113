/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays: misses that can be counted by hand, expiry, and a limit for a number of objects. */
#include "kvbench_rig.h"

#include "kvbench/replay.h"

static struct options options;
static struct source source;
static struct source_facts facts;

static void open_source(const char *line)
{
    parse_good(line, &options);
    assert_true(source_open(&source, &options));
    assert_true(source_look(&source, &facts));
}

/* Everything fits: each key misses once. */
static void test_cold_misses_only(void **unused)
{
    struct replay_result result;

    open_source("ratio --workload=uniform,keys=500,value=100 --requests=20000");
    assert_true(replay_engine(&source, &facts, 32 << 20, options.policies[0], 0, &result));
    assert_int_equal(result.gets, 20000);
    assert_int_equal(result.misses, 500);
    assert_int_equal(result.items, 500);
    assert_true(replay_engine(&source, &facts, 32 << 20, options.policies[0], 15000, &result));
    assert_int_equal(result.gets, 5000);
    assert_int_equal(result.misses, 0);
    source_close(&source);
}

/* Ten keys, a request a second, alive for 25 s: each miss is more than 25 s after the last. */
static void test_expiry_by_the_clock_of_the_stream(void **unused)
{
    uint32_t until[10] = {0};
    struct replay_result result;
    struct load_request request;
    uint64_t misses = 0;

    open_source("ratio --workload=uniform,keys=10,ttl=25,rate=1 --requests=5000");
    while (source_next(&source, &request) > 0) {
        if (request.time_s >= until[request.id]) {
            misses++;
            until[request.id] = request.time_s + 25;
        }
    }
    assert_true(replay_engine(&source, &facts, 32 << 20, options.policies[0], 0, &result));
    /* The engine's clock is set every 16 requests, so a key may live that much longer. */
    assert_in_range(result.misses, misses * 6 / 10, misses);
    source_close(&source);
}

static void test_sets_and_deletes(void **unused)
{
    struct replay_result result;
    struct load_request request;
    bool there[50] = {false};
    uint64_t gets = 0, misses = 0;

    open_source("ratio --workload=uniform,keys=50,get=5,set=2,delete=3 --requests=10000");
    while (source_next(&source, &request) > 0) {
        if (request.op == LOAD_GET) {
            gets++;
            misses += !there[request.id];
        }
        there[request.id] = request.op != LOAD_DELETE;
    }
    assert_true(replay_engine(&source, &facts, 32 << 20, options.policies[0], 0, &result));
    assert_int_equal(result.gets, gets);
    assert_int_equal(result.misses, misses);
    source_close(&source);
}

static void test_limit_for_objects(void **unused)
{
    struct replay_result result;
    uint64_t bytes;

    open_source("ratio --workload=uniform,keys=20000,value=1000 --requests=60000");
    assert_true(replay_bytes_for(&source, &facts, 5000, &bytes));
    assert_true(replay_engine(&source, &facts, bytes, options.policies[0], 0, &result));
    assert_in_range(result.items, 4800, 5200);
    /* A quarter of the keys is there, whatever a policy thinks of keys that are all alike. */
    assert_in_range(1000 * result.misses / result.gets, 740, 790);
    source_close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_misses_only),
        cmocka_unit_test(test_expiry_by_the_clock_of_the_stream),
        cmocka_unit_test(test_sets_and_deletes),
        cmocka_unit_test(test_limit_for_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
