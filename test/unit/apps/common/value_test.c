/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of the command line: accepted and refused ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/value.h"

static void test_numbers(void **state)
{
    uint64_t value = 7;
    unsigned octal = 0;
    double ratio = 0;

    assert_int_equal(value_number("18446744073709551615", 0, UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(value_number("18446744073709551616", 0, UINT64_MAX, &value), -1);
    assert_int_equal(value_number("", 0, 9, &value), -1);
    assert_int_equal(value_number(" 1", 0, 9, &value), -1);
    assert_int_equal(value_number("0x1", 0, 9, &value), -1);
    assert_int_equal(value_size("4K", 1, 1 << 20, &value), 0);
    assert_int_equal(value, 4096);
    assert_int_equal(value_size("18446744073709551615m", 1, UINT64_MAX, &value), -1);
    assert_int_equal(value_size("", 0, 10, &value), -1);

    assert_int_equal(value_octal("0777", 0777, &octal), 0);
    assert_int_equal(octal, 0777);
    assert_int_equal(value_octal("8", 0777, &octal), -1);
    assert_int_equal(value_octal("", 0777, &octal), -1);
    assert_int_equal(value_octal("1000", 0777, &octal), -1);
    assert_int_equal(value_ratio("1.25", &ratio), 0);
    assert_true(ratio == 1.25);
    assert_int_equal(value_ratio("2", &ratio), 0);
    assert_int_equal(value_ratio("", &ratio), -1);
    assert_int_equal(value_ratio(".", &ratio), -1);
    assert_int_equal(value_ratio("1.2.3", &ratio), -1);
    assert_int_equal(value_ratio("1e9", &ratio), -1);
    assert_int_equal(value_ratio("inf", &ratio), -1);
}

static void test_addresses(void **state)
{
    static const uint8_t mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};
    struct net_stack_addr net;
    struct us_addr addr;
    uint8_t bytes[6];

    assert_int_equal(value_addr("fd00::1", &addr), 0);
    assert_int_equal(addr.family, US_IP6);
    assert_int_equal(addr.bytes[15], 1);
    assert_int_equal(value_addr("10.0.0", &addr), -1);
    assert_int_equal(value_addr("", &addr), -1);
    assert_int_equal(value_network("10.100.0.20/32", &net), 0);
    assert_int_equal(net.prefix_len, 32);
    assert_int_equal(value_network("10.100.0.20/33", &net), -1);
    assert_int_equal(value_network("10.100.0.20/0", &net), -1);
    assert_int_equal(value_network("10.100.0.20", &net), -1);
    assert_int_equal(value_network("fd00::1/128", &net), 0);
    assert_int_equal(value_network("fd00::1/129", &net), -1);

    assert_int_equal(value_mac("02:00:00:ab:CD:ef", bytes), 0);
    assert_memory_equal(bytes, mac, 6);
    assert_int_equal(value_mac("03:00:00:ab:cd:ef", bytes), -1);
    assert_int_equal(value_mac("00:00:00:00:00:00", bytes), -1);
    assert_int_equal(value_mac("02:00:00:ab:cd:e", bytes), -1);
    assert_int_equal(value_mac("02-00-00-ab-cd-ef", bytes), -1);
}

static void must_cut(const char *text, const char *host, const char *port)
{
    char got[VALUE_HOST_MAX], got_port[VALUE_PORT_MAX] = "7";

    assert_int_equal(value_endpoint(text, got, got_port), 0);
    assert_string_equal(got, host);
    assert_string_equal(got_port, port);
}

static void test_endpoints(void **state)
{
    static const char too_long[] = "1234567890123456789012345678901234567890"
                                   "123456789012345678901234";
    static const char *const bad[] = {"",     ":1",     "h:",   "h:0",  "h:65536",     "h:http",
                                      "[::1", "[::1]x", "[]:1", "h:-1", "h:123456789", too_long};
    char host[VALUE_HOST_MAX], port[VALUE_PORT_MAX] = "";
    unsigned i;

    must_cut("host", "host", "7");
    must_cut("10.0.0.1:65535", "10.0.0.1", "65535");
    must_cut("fd00::20", "fd00::20", "7");
    must_cut("[fd00::20]", "fd00::20", "7");
    must_cut("[fd00::20]:1", "fd00::20", "1");
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(value_endpoint(bad[i], host, port), -1);
}

static void test_threading(void **state)
{
    const char *help = NULL;

    assert_string_equal(value_threading_choice(NET_THREADING_SPLIT, &help), "split");
    assert_non_null(help);
    assert_null(value_threading_choice(NET_THREADINGS, &help));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_threading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
