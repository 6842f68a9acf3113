/* SPDX-License-Identifier: BSD-3-Clause */
/* The client of memcached: its counts are correct. */
#include "kvbench_rig.h"

#include "kvbench/memcached.h"

static char error[LOAD_ERROR_MAX];

static struct memcached *start_or_skip(uint32_t value_bytes_max)
{
    struct memcached *memcached = memcached_start("memcached", 64 << 20, value_bytes_max, error);

    if (!memcached) {
        print_message("skipped: %s\n", error);
        skip();
    }
    return memcached;
}

static void ask(struct memcached *memcached, uint64_t id, enum load_op op, uint32_t value_bytes)
{
    struct load_request request = {.id = id, .op = op, .key_bytes = 8, .value_bytes = value_bytes};
    if (!memcached_request(memcached, &request, error))
        fail_msg("%s", error);
}

/* A miss stores; the next request of the key hits, as if requests were sent one by one. */
static void test_order_within_a_key(void **unused)
{
    struct memcached *memcached = start_or_skip(100);

    ask(memcached, 1, LOAD_GET, 10); /* miss, stored */
    ask(memcached, 1, LOAD_GET, 10); /* hit */
    ask(memcached, 2, LOAD_SET, 0);
    ask(memcached, 2, LOAD_GET, 0); /* hit */
    ask(memcached, 2, LOAD_DELETE, 0);
    ask(memcached, 2, LOAD_GET, 0); /* miss */
    ask(memcached, 3, LOAD_GET, 5); /* miss */
    assert_true(memcached_flush(memcached, error));
    assert_int_equal(memcached_hits(memcached), 2);
    assert_int_equal(memcached_misses(memcached), 3);
    assert_true(memcached_stat(memcached, NULL, "curr_items") == 3);
    assert_true(memcached_stat(memcached, NULL, "no_such_number") == -1);
    assert_true(memcached_stat(memcached, "slabs", "total_malloced") >= 1 << 20);
    memcached_stop(memcached);
}

static void test_many_and_large(void **unused)
{
    struct memcached *memcached = start_or_skip(700000);

    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = 0; i < 3000; i++)
            ask(memcached, i, LOAD_GET, i == 7 ? 700000 : i);
    for (unsigned i = 0; i < 1000; i++)
        ask(memcached, 10000 + i, LOAD_SET, 10);
    assert_true(memcached_flush(memcached, error));
    assert_int_equal(memcached_misses(memcached), 3000);
    assert_int_equal(memcached_hits(memcached), 3000);
    assert_true(memcached_stat(memcached, NULL, "curr_items") == 4000);
    memcached_stop(memcached);
}

static void test_not_there(void **unused)
{
    assert_null(memcached_start("/nonexistent/memcached", 64 << 20, 100, error));
    assert_non_null(strstr(error, "/nonexistent/memcached could not be started"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_within_a_key),
        cmocka_unit_test(test_many_and_large),
        cmocka_unit_test(test_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
