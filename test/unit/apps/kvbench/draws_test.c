/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests drawn beforehand are those that the workload draws. */
#include "kvbench_rig.h"

#include "kvbench/draws.h"
#include "load/key.h"

static struct load_workload make(const char *text)
{
    struct load_workload workload;
    char error[LOAD_ERROR_MAX];

    if (!load_workload_parse(&workload, text, error))
        fail_msg("%s", error);
    return workload;
}

static void check(const struct table_request *drawn, const struct load_request *request, int op)
{
    char key[LOAD_KEY_MAX];
    uint32_t len = load_key_write(key, request->id, request->key_bytes);

    assert_int_equal(drawn->op, op);
    assert_int_equal(drawn->value_bytes, request->value_bytes);
    assert_int_equal(drawn->key_bytes, len);
    assert_memory_equal(drawn->key, key, len);
}

static void test_same_as_the_workload(void **unused)
{
    struct load_workload drawn = make("etc,keys=500,get=4,set=3,delete=2,touch=1"), again = drawn;
    struct draws draws = {0};

    for (unsigned turn = 0; turn < 3; turn++) {
        assert_true(draws_make(&draws, &drawn, 640));
        for (unsigned i = 0; i < 640; i += TABLE_BURST) {
            struct table_requests part = draws_part(&draws, i, TABLE_BURST, 1);
            for (unsigned j = 0; j < TABLE_BURST; j++) {
                struct load_request request;
                load_workload_next(&again, &request);
                check(table_request_at(&part, j), &request,
                      request.op == LOAD_TOUCH ? LOAD_GET : (int)request.op);
            }
        }
    }
    draws_free(&draws);
}

static void test_fill(void **unused)
{
    struct load_workload workload = make("zipf,keys=100,key=1-250");
    struct draws draws = {0};
    struct table_requests part;

    assert_true(draws_fill(&draws, &workload, 40, 60));
    assert_int_equal(draws.count, 60);
    part = draws_part(&draws, 0, 60, 8);
    assert_int_equal(part.group, 8);
    for (unsigned i = 0; i < 60; i++) {
        struct load_request request;
        load_workload_describe(&workload, 40 + i, &request);
        check(table_request_at(&part, i), &request, LOAD_SET);
    }
    draws_free(&draws);
}

static void test_how_many(void **unused)
{
    struct load_workload few = make("zipf,keys=1"), some = make("zipf,keys=100001"),
                         many = make("zipf,keys=1e9");
    assert_int_equal(draws_wanted(&few), 65536);
    assert_int_equal(draws_wanted(&some) % TABLE_BURST, 0);
    assert_in_range(draws_wanted(&some), 400004 - TABLE_BURST, 400004);
    assert_int_equal(draws_wanted(&many), 1 << 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_workload),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_how_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
