/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of EAL: the user's stay, defaults are added for the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nic/dpdk_eal.h"

#define MANY (1ull << 30)

static struct dpdk_eal_args args;
static char error[NIC_ERROR_MAX];

static int make(const char *dev, const char *eal, uint64_t huge_bytes)
{
    struct nic_dpdk_config config = {.dev = dev, .eal = eal};
    struct dpdk_eal_facts facts = {
        .huge_bytes = huge_bytes, .need_bytes = 64ull << 20, .cpus = "0-1"};

    return dpdk_eal_args_make(&config, &facts, &args, error);
}

/* The arguments after the program's name, separated by blanks. */
static const char *words(void)
{
    static char text[DPDK_EAL_TEXT_MAX + DPDK_EAL_ARGS_MAX];
    size_t used = 0;
    int i;

    text[0] = '\0';
    for (i = 1; i < args.argc; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 1 ? " " : "",
                                 args.argv[i]);
    assert_null(args.argv[args.argc]);
    return text;
}

static void test_defaults(void **state)
{
    assert_int_equal(make(NULL, NULL, MANY), 0);
    assert_string_equal(words(), "--lcores=0@(0-1) --no-telemetry --in-memory");
    assert_int_equal(make("0", NULL, MANY), 0);
    assert_string_equal(words(), "--lcores=0@(0-1) --no-telemetry --in-memory");
    assert_int_equal(make("net_memif0", NULL, MANY), 0);
    assert_string_equal(words(),
                        "--lcores=0@(0-1) --no-telemetry --no-pci --iova-mode=va --in-memory "
                        "--single-file-segments");
    assert_int_equal(make("0000:17:00.0", NULL, MANY), 0);
    assert_string_equal(words(), "--lcores=0@(0-1) --no-telemetry -a 0000:17:00.0 --in-memory");
}

static void test_without_huge_pages(void **state)
{
    assert_int_equal(make(NULL, NULL, (64ull << 20) - 1), 0);
    assert_string_equal(words(), "--lcores=0@(0-1) --no-telemetry --no-huge -m 96 --no-shconf");
    assert_int_equal(make(NULL, NULL, 64ull << 20), 0); /* just enough */
    assert_string_equal(words(), "--lcores=0@(0-1) --no-telemetry --in-memory");
    assert_int_equal(make(NULL, "--no-huge", MANY), 0);
    assert_string_equal(words(), "--no-huge --lcores=0@(0-1) --no-telemetry --no-shconf");
    /* The user's amount of memory is not checked. */
    assert_int_equal(make(NULL, "-m 100", 0), 0);
    assert_string_equal(words(), "-m 100 --lcores=0@(0-1) --no-telemetry --in-memory");
}

static void test_the_user_is_right(void **state)
{
    assert_int_equal(make(NULL,
                          "-l 1 --telemetry --file-prefix=a --iova-mode=pa --allow=0000:01:00.0 "
                          "--vdev=net_null0",
                          MANY),
                     0);
    assert_string_equal(words(), "-l 1 --telemetry --file-prefix=a --iova-mode=pa "
                                 "--allow=0000:01:00.0 --vdev=net_null0");
}

static void test_quotes(void **state)
{
    assert_int_equal(make(NULL, "  a'b c'd \"e 'f\" g\\ h '' 'i\\j' ", MANY), 0);
    assert_string_equal(args.argv[1], "ab cd");
    assert_string_equal(args.argv[2], "e 'f");
    assert_string_equal(args.argv[3], "g h");
    assert_string_equal(args.argv[4], "");
    assert_string_equal(args.argv[5], "i\\j");
    assert_int_equal(make(NULL, "'a", MANY), -1);
    assert_non_null(strstr(error, "not closed"));
}

static void test_bounds(void **state)
{
    char text[DPDK_EAL_TEXT_MAX + 100];
    size_t used = 0;
    unsigned i;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(make(NULL, text, MANY), -1);
    for (i = 1; make(NULL, text + sizeof(text) - 1 - i, MANY) == 0; i++)
        used = args.used;
    assert_int_equal(used, sizeof(args.text)); /* with the defaults, all of it */
    for (i = 0; i < DPDK_EAL_ARGS_MAX; i++)
        memcpy(text + 2 * i, "y ", 2);
    text[2 * i] = '\0';
    assert_int_equal(make(NULL, text, MANY), -1);
    assert_int_equal(make(NULL, "--file-prefix=a --help", MANY), -1);
    assert_non_null(strstr(error, "--help"));
}

static void test_names(void **state)
{
    assert_int_equal(make(NULL, "--vdevice -l1", MANY), 0);
    assert_false(dpdk_eal_has(&args, "--vdev"));
    assert_true(dpdk_eal_has(&args, "-l"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_without_huge_pages),
        cmocka_unit_test(test_the_user_is_right),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
