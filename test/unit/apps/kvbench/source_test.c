/* SPDX-License-Identifier: BSD-3-Clause */
/* Where requests of a replay come from, and what one pass finds out about them. */
#include "kvbench_rig.h"

#include "kvbench/source.h"

static char path[] = "/tmp/kvbench_source_test.XXXXXX";

static int make_file(void **unused)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **unused)
{
    return unlink(path);
}

static void file_is(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_workload(void **unused)
{
    struct options options;
    struct source source;
    struct source_facts facts;
    struct load_request request, first;
    unsigned count = 0;

    parse_good("ratio --workload=etc,keys=1000,ttl=0-5 --requests=500", &options);
    assert_true(source_open(&source, &options));
    assert_true(source_look(&source, &facts));
    assert_int_equal(facts.requests, 500);
    assert_int_equal(facts.objects, 1000);
    assert_true(facts.expires);
    assert_int_equal(source_next(&source, &first), 1);
    for (count = 1; source_next(&source, &request) > 0; count++)
        continue;
    assert_int_equal(count, 500);
    source_rewind(&source);
    assert_int_equal(source_next(&source, &request), 1);
    assert_int_equal(request.id, first.id);
    source_close(&source);
}

static void test_trace(void **unused)
{
    struct options options;
    struct source source;
    struct source_facts facts;
    struct load_request request;
    char line[128];

    /* the largest ids, too: the set must not confuse them with its mark of free slots */
    file_is("time,id,size,op\n1,5,100,get\n1,6,50,set\n2,5,100,get\n"
            "3,18446744073709551615,20,get\n3,0,1016,get\n");
    snprintf(line, sizeof(line), "ratio --trace=%s", path);
    parse_good(line, &options);
    options.trace_path = path;
    source.options = &options;
    source.trace = load_trace_open(path, LOAD_TRACE_CSV, source.error);
    assert_non_null(source.trace);
    source.drawn = 0;
    assert_true(source_look(&source, &facts));
    assert_int_equal(facts.requests, 5);
    assert_int_equal(facts.objects, 4);
    assert_int_equal(facts.footprint_bytes, 100 + 50 + 20 + 1016);
    assert_int_equal(facts.value_bytes_max, 1000);
    assert_false(facts.expires);
    assert_int_equal(source_next(&source, &request), 1);
    assert_int_equal(request.id, 5);
    source_close(&source);
}

/* Thousands of different ids: the set grows, and counts each once. */
static void test_many_ids(void **unused)
{
    struct options options;
    struct source source = {.options = &options};
    struct source_facts facts;
    FILE *file = fopen(path, "w");

    for (unsigned i = 0; i < 20000; i++)
        fprintf(file, "0,%u,16\n", i * 7919u % 5000);
    fclose(file);
    parse_good("ratio", &options);
    options.trace_path = path;
    source.trace = load_trace_open(path, LOAD_TRACE_CSV, source.error);
    assert_true(source_look(&source, &facts));
    assert_int_equal(facts.requests, 20000);
    assert_int_equal(facts.objects, 5000);
    assert_int_equal(facts.footprint_bytes, 5000 * 16);
    source_close(&source);
}

static void test_damaged_trace(void **unused)
{
    struct options options;
    struct source source = {.options = &options};
    struct source_facts facts;

    file_is("1,2,3\n1,2\n");
    parse_good("ratio", &options);
    options.trace_path = path;
    source.trace = load_trace_open(path, LOAD_TRACE_CSV, source.error);
    assert_non_null(source.trace);
    assert_false(source_look(&source, &facts));
    source_close(&source);
    options.trace_path = "/nonexistent";
    assert_false(source_open(&source, &options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workload),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_many_ids),
        cmocka_unit_test(test_damaged_trace),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
