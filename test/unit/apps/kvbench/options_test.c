/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: every option, defaults, and errors. */
#include "kvbench_rig.h"

static struct options options;

static void test_defaults(void **unused)
{
    parse_good("speed", &options);
    assert_int_equal(options.mode, OPTIONS_SPEED);
    assert_int_equal(options.workload.popularity.keys, 1000);
    assert_ptr_equal(options.tables[0], &table_engine);
    assert_true(options.table_count >= 2);
    assert_int_equal(options.threads_count, 1);
    assert_int_equal(options.threads[0], 1);
    assert_int_equal(options.group_count, 2);
    assert_int_equal(options.groups[1], 16);
    assert_int_equal(options.rounds, 5);
    assert_int_equal(options_value_bytes_max(&options), 8);
    parse_good("ratio", &options);
    assert_int_equal(options.size_count, 2);
    assert_int_equal(options.sizes[1].kind, OPTIONS_SHARE);
    assert_int_equal(options.policy_count, KV_POLICIES);
}

static void test_every_option(void **unused)
{
    parse_good("speed --workload=zipf,keys=5,value=1@1/900@1 --threads=1,2,3 --batch=4 "
               "--tables=mutexes,engine --rounds=7 --seconds=0.5 --latency --name=x_1 --json=f "
               "--memory=64",
               &options);
    assert_int_equal(options.threads_count, 3);
    assert_int_equal(options.threads[2], 3);
    assert_int_equal(options.group_count, 1);
    assert_int_equal(options.groups[0], 4);
    assert_int_equal(options.table_count, 2);
    assert_ptr_equal(options.tables[1], &table_engine);
    assert_int_equal(options.rounds, 7);
    assert_true(options.seconds == 0.5);
    assert_true(options.latency && options.json);
    assert_string_equal(options.name, "x_1");
    assert_string_equal(options.json_path, "f");
    assert_true(options.sizes[0].amount == 64 * 0x1p20);
    assert_int_equal(options_value_bytes_max(&options), 900);

    parse_good("ratio --trace=t.csv --memory=0.5%,300obj --policy=clock --requests=1e5 --warm=0 "
               "--memcached=/bin/m --json",
               &options);
    assert_string_equal(options.trace_path, "t.csv");
    assert_true(options.sizes[0].kind == OPTIONS_SHARE && options.sizes[0].amount == 0.005);
    assert_true(options.sizes[1].kind == OPTIONS_OBJECTS && options.sizes[1].amount == 300);
    assert_int_equal(options.policy_count, 1);
    assert_int_equal(options.policies[0], KV_POLICY_CLOCK);
    assert_int_equal(options.requests, 100000);
    assert_true(options.warm_given && options.warm == 0);
    assert_string_equal(options.memcached, "/bin/m");
    assert_true(options.json && !options.json_path);

    parse_good("growth --items=1e4", &options);
    assert_int_equal(options.items, 10000);
    parse_good("trace --out=t --workload=etc", &options);
    assert_string_equal(options.out_path, "t");
    parse_good("memory --memcached", &options);
    assert_string_equal(options.memcached, "memcached");
    parse_good("list", &options);
}

static void test_help(void **unused)
{
    assert_int_equal(parse("--help", &options), CMDLINE_HELP);
    assert_int_equal(parse("ratio --help", &options), CMDLINE_HELP);
    assert_int_equal(parse("speed -h", &options), CMDLINE_HELP);
}

static void test_refused(void **unused)
{
    const char *bad[] = {"",
                         "fast",
                         "--threads=1",
                         "speed again",
                         "speed --what",
                         "speed --rounds",
                         "speed --rounds=0",
                         "speed --rounds=102",
                         "speed --rounds=two",
                         "speed --seconds=0",
                         "speed --seconds=nan",
                         "speed --threads=",
                         "speed --threads=1,,2",
                         "speed --threads=257",
                         "speed --threads=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                         "speed --batch=0",
                         "speed --batch=65",
                         "speed --tables=none",
                         "speed --policy=lru",
                         "speed --workload=none",
                         "speed --name=A",
                         "speed --name=",
                         "speed --memory=1%",
                         "memory --memory=1,2",
                         "memory --memory=-1",
                         "memory --memory=64k",
                         "speed --trace=x",
                         "trace",
                         "ratio --requests=10 --warm=10",
                         "growth --items=0"};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(bad[i], &options) != CMDLINE_BAD)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(options.error[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
