/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault specifications: valid ones, and the messages for invalid ones. */
#include "nic_testing.h"

static void assert_parses(const char *spec, struct nic_fault_config expected)
{
    struct nic_fault_config config;
    char error[NIC_ERROR_MAX] = "";

    memset(&config, 0xa5, sizeof(config));
    if (nic_fault_parse(spec, &config, error) != 0)
        print_error("%s\n", error);
    assert_string_equal(error, "");
    assert_true(config.seed == expected.seed);
    assert_int_equal(config.loss_ppm, expected.loss_ppm);
    assert_int_equal(config.duplicate_ppm, expected.duplicate_ppm);
    assert_int_equal(config.reorder_ppm, expected.reorder_ppm);
    assert_int_equal(config.corrupt_ppm, expected.corrupt_ppm);
}

#define CONFIG(...) ((struct nic_fault_config){.seed = 1, __VA_ARGS__})

static void parses_every_part_in_any_order(void **state)
{
    assert_parses("loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7",
                  (struct nic_fault_config){7, 50000, 20000, 50000, 1000});
    assert_parses("seed=9,corrupt=0.0001%", (struct nic_fault_config){.seed = 9, .corrupt_ppm = 1});
    assert_parses("loss=0%", CONFIG(.loss_ppm = 0));
    assert_parses("loss=100%", CONFIG(.loss_ppm = 1000000));
    assert_parses("loss=100.0000%", CONFIG(.loss_ppm = 1000000));
    assert_parses("dup=007.50%", CONFIG(.duplicate_ppm = 75000));
    assert_parses("reorder=99.9999%", CONFIG(.reorder_ppm = 999999));
    assert_parses("seed=0", (struct nic_fault_config){.seed = 0});
    assert_parses("seed=18446744073709551615", (struct nic_fault_config){.seed = UINT64_MAX});
}

static void error_names_the_wrong_part(void **state)
{
    static const struct {
        const char *spec, *error;
    } cases[] = {
        {"loss=120%",
         "loss=120%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=100.0001%", "loss=100.0001%: a percentage up to 100% with at most four decimals, "
                           "for instance 5% or 0.1%"},
        {"loss=99999999999999999999%", "loss=99999999999999999999%: a percentage up to 100% with "
                                       "at most four decimals, for instance 5% or 0.1%"},
        {"dup=1%,loss=5",
         "loss=5: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=-1%",
         "loss=-1%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=%",
         "loss=%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=",
         "loss=: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=5%%",
         "loss=5%%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=5 %",
         "loss=5 %: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=5.%",
         "loss=5.%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"loss=0.00001%", "loss=0.00001%: a percentage up to 100% with at most four decimals, for "
                          "instance 5% or 0.1%"},
        {"loss=1.5e%",
         "loss=1.5e%: a percentage up to 100% with at most four decimals, for instance 5% or 0.1%"},
        {"seed=", "seed=: a number below 2^64, for instance seed=7"},
        {"seed=-1", "seed=-1: a number below 2^64, for instance seed=7"},
        {"seed=0x10", "seed=0x10: a number below 2^64, for instance seed=7"},
        {"seed=18446744073709551616",
         "seed=18446744073709551616: a number below 2^64, for instance seed=7"},
        {"jam=5%", "\"jam=5%\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"LOSS=5%", "\"LOSS=5%\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"los=5%", "\"los=5%\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"=5%", "\"=5%\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"loss=1%,loss=2%", "loss=2%: given twice"},
        {"", "\"\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"loss=1%,", "\"\": expected loss=, dup=, reorder=, corrupt= or seed="},
        {"loss", "\"loss\": expected loss=, dup=, reorder=, corrupt= or seed="},
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct nic_fault_config untouched = {.seed = 42};
        struct nic_fault_config config = untouched;
        char error[NIC_ERROR_MAX] = "";

        assert_int_equal(nic_fault_parse(cases[i].spec, &config, error), -1);
        assert_string_equal(error, cases[i].error);
        assert_memory_equal(&config, &untouched, sizeof(config));
    }
}

/* The message stays within its limit for any length of the specification. */
static void a_long_part_is_cut_in_the_message(void **state)
{
    char spec[2000];
    struct nic_fault_config config;
    struct {
        char text[NIC_ERROR_MAX];
        char guard;
    } error = {.guard = 'g'};

    memset(spec, 'x', sizeof(spec) - 1);
    spec[sizeof(spec) - 1] = '\0';
    assert_int_equal(nic_fault_parse(spec, &config, error.text), -1);
    assert_non_null(memchr(error.text, '\0', NIC_ERROR_MAX));
    assert_non_null(strstr(error.text, "expected"));
    assert_int_equal(error.guard, 'g');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_every_part_in_any_order),
        cmocka_unit_test(error_names_the_wrong_part),
        cmocka_unit_test(a_long_part_is_cut_in_the_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
