/* SPDX-License-Identifier: BSD-3-Clause */
/* Every table that is measured is a table: against a naive map, in all groups, by two threads. */
#include <pthread.h>

#include "kvbench_rig.h"

#include "kvbench/draws.h"
#include "kvbench/table.h"

#define KEYS 3000
#define BURSTS 400

static const struct table_config config = {
    .memory_bytes = 64 << 20, .value_bytes_max = 70000, .threads_max = 2};

static struct load_workload workload_of(const char *text)
{
    struct load_workload workload;
    char error[LOAD_ERROR_MAX];

    if (!load_workload_parse(&workload, text, error))
        fail_msg("%s", error);
    return workload;
}

/* The hits that a naive map of ids would have. */
static void naive(struct load_workload workload, unsigned count, struct table_tally *tally)
{
    static bool there[KEYS];

    memset(there, 0, sizeof(there));
    memset(tally, 0, sizeof(*tally));
    for (unsigned i = 0; i < count; i++) {
        struct load_request request;
        load_workload_next(&workload, &request);
        assert_true(request.id < KEYS);
        if (request.op == LOAD_SET || request.op == LOAD_DELETE) {
            there[request.id] = request.op == LOAD_SET;
        } else {
            tally->hits += there[request.id];
            tally->misses += !there[request.id];
        }
    }
}

static void run_all(const struct table_ops *ops, void *worker, const struct draws *draws,
                    unsigned group, struct table_tally *tally)
{
    memset(tally, 0, sizeof(*tally));
    for (unsigned i = 0; i < draws->count; i += TABLE_BURST) {
        struct table_requests part = draws_part(draws, i, TABLE_BURST, group);
        ops->run(worker, &part, tally);
    }
}

static void check_against_naive(const struct table_ops *ops, unsigned group)
{
    struct load_workload workload =
        workload_of("zipf,keys=3000,key=4-60,value=0@1/8@5/300@3/70000@0.01,get=6,set=3,delete=1");
    struct table_tally expected, tally;
    struct draws draws = {0};
    const char *error;
    void *table = ops->create(&config, &error);
    void *worker = ops->join(table);

    assert_non_null(worker);
    naive(workload, BURSTS * TABLE_BURST, &expected);
    assert_true(draws_make(&draws, &workload, BURSTS * TABLE_BURST));
    run_all(ops, worker, &draws, group, &tally);
    assert_int_equal(tally.hits, expected.hits);
    assert_int_equal(tally.misses, expected.misses);
    assert_int_equal(tally.failures, 0);
    ops->leave(worker);
    ops->destroy(table);
    draws_free(&draws);
}

static void test_against_a_naive_map(void **unused)
{
    for (unsigned i = 0; tables[i]; i++) {
        if (tables[i]->absent) {
            print_message("%s: skipped: %s\n", tables[i]->name, tables[i]->absent);
            continue;
        }
        check_against_naive(tables[i], 1);
        check_against_naive(tables[i], 7);
        check_against_naive(tables[i], TABLE_BURST);
    }
}

struct hammer {
    const struct table_ops *ops;
    void *table;
    struct draws draws;
    struct table_tally tally;
};

static void *hammer(void *arg)
{
    struct hammer *hammer = arg;
    void *worker = hammer->ops->join(hammer->table);

    if (worker) {
        run_all(hammer->ops, worker, &hammer->draws, 16, &hammer->tally);
        hammer->ops->leave(worker);
    }
    return NULL;
}

/* Two threads change the same keys; afterwards each key is where a last SET of all puts it. */
static void check_threads(const struct table_ops *ops)
{
    struct load_workload workload = workload_of("uniform,keys=3000,get=4,set=4,delete=2");
    struct hammer hammers[2] = {{.ops = ops}, {.ops = ops}};
    struct table_tally tally;
    pthread_t threads[2];
    const char *error;
    void *worker, *table = ops->create(&config, &error);

    for (unsigned i = 0; i < 2; i++) {
        hammers[i].table = table;
        assert_true(draws_make(&hammers[i].draws, &workload, BURSTS * TABLE_BURST));
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &hammers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(hammers[i].tally.failures, 0);
        assert_true(hammers[i].tally.hits > 0 && hammers[i].tally.misses > 0);
    }
    worker = ops->join(table);
    assert_true(draws_fill(&hammers[0].draws, &workload, 0, KEYS / TABLE_BURST * TABLE_BURST));
    run_all(ops, worker, &hammers[0].draws, 1, &tally);
    for (unsigned i = 0; i < hammers[0].draws.count; i++) {
        struct table_requests part = draws_part(&hammers[0].draws, i, 1, 1);
        ((struct table_request *)(void *)(hammers[0].draws.at + i * part.stride))->op = LOAD_GET;
        ops->run(worker, &part, &tally);
    }
    assert_int_equal(tally.hits, hammers[0].draws.count);
    assert_int_equal(tally.misses, 0);
    ops->leave(worker);
    ops->destroy(table);
    for (unsigned i = 0; i < 2; i++)
        draws_free(&hammers[i].draws);
}

/* A library's own threads may be about to make the table larger, or smaller as it is emptied. */
static void check_end_of_growth(const struct table_ops *ops)
{
    enum { MANY = 1 << 16, TIMES = 8 };
    struct load_workload workload = workload_of("uniform,keys=65536,get=0,set=1");
    struct draws draws = {0};

    assert_true(draws_make(&draws, &workload, MANY));
    for (unsigned i = 0; i < TIMES; i++) {
        const char *error;
        void *table = ops->create(&config, &error);
        void *worker = ops->join(table);
        struct table_tally tally;

        assert_true(draws_fill(&draws, &workload, 0, MANY));
        run_all(ops, worker, &draws, TABLE_BURST, &tally);
        assert_int_equal(tally.failures, 0);
        ops->leave(worker);
        ops->destroy(table);
    }
    draws_free(&draws);
}

static void test_destroyed_while_it_grows(void **unused)
{
    for (unsigned i = 0; tables[i]; i++)
        if (!tables[i]->absent)
            check_end_of_growth(tables[i]);
}

static void test_two_threads(void **unused)
{
    for (unsigned i = 0; tables[i]; i++)
        if (!tables[i]->absent)
            check_threads(tables[i]);
}

/* An engine that cannot be made says why. */
static void test_no_table(void **unused)
{
    struct table_config tiny = config;
    const char *error = NULL;

    tiny.memory_bytes = 1;
    assert_null(table_engine.create(&tiny, &error));
    assert_non_null(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_naive_map),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_destroyed_while_it_grows),
        cmocka_unit_test(test_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
