/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers: all edges of the strict and the loose style, of counters, and of writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "mcproto/num.h"

#define REFUSED "refused"

static struct mc_token token_of(const char *text, size_t len)
{
    struct mc_token token;

    token.at = guard_behind(text, len);
    token.end = token.at + len;
    return token;
}

static void check_u32(const char *text, const char *expected)
{
    struct mc_token token = token_of(text, strlen(text));
    u_u32 n = 7;
    char got[32] = REFUSED;

    if (mc_num_u32(&token, &n))
        snprintf(got, sizeof got, "%u", n);
    else
        assert_int_equal(n, 7);
    assert_string_equal(got, expected);
}

static void check_s32(const char *text, const char *expected)
{
    struct mc_token token = token_of(text, strlen(text));
    u_s32 n = 7;
    char got[32] = REFUSED;

    if (mc_num_s32(&token, &n))
        snprintf(got, sizeof got, "%d", n);
    else
        assert_int_equal(n, 7);
    assert_string_equal(got, expected);
}

static void check_u64(const char *text, const char *expected)
{
    struct mc_token token = token_of(text, strlen(text));
    u_u64 n = 7;
    char got[32] = REFUSED;

    if (mc_num_u64(&token, &n))
        snprintf(got, sizeof got, "%llu", (unsigned long long)n);
    else
        assert_int_equal(n, 7);
    assert_string_equal(got, expected);
}

static void check_flags(const char *text, const char *expected)
{
    struct mc_token token = token_of(text, strlen(text));
    u_u32 n = 7;
    char got[32] = REFUSED;

    if (mc_num_flags(&token, &n))
        snprintf(got, sizeof got, "%u", n);
    else
        assert_int_equal(n, 7);
    assert_string_equal(got, expected);
}

static void check_exptime(const char *text, const char *expected)
{
    struct mc_token token = token_of(text, strlen(text));
    u_s32 n = 7;
    char got[32] = REFUSED;

    if (mc_num_exptime(&token, &n))
        snprintf(got, sizeof got, "%d", n);
    else
        assert_int_equal(n, 7);
    assert_string_equal(got, expected);
}

static void strict_u32(void **state)
{
    check_u32("0", "0");
    check_u32("9", "9");
    check_u32("4294967295", "4294967295");
    check_u32("4294967296", REFUSED);
    check_u32("04294967295", "4294967295"); /* eleven characters */
    check_u32("00000000001", "1");
    check_u32("000000000001", REFUSED); /* twelve */
    check_u32("99999999999", REFUSED);
    check_u32("-1", REFUSED);
    check_u32("-0", REFUSED);
    check_u32("+5", REFUSED);
    check_u32("5x", REFUSED);
    check_u32("x", REFUSED);
    check_u32("5\t", REFUSED);
    check_u32("\t5", REFUSED);
    check_u32("/", REFUSED);
    check_u32(":", REFUSED);
    check_u32("0x5", REFUSED);
}

static void strict_s32(void **state)
{
    check_s32("0", "0");
    check_s32("-0", "0");
    check_s32("-1", "-1");
    check_s32("2147483647", "2147483647");
    check_s32("2147483648", REFUSED);
    check_s32("-2147483648", "-2147483648"); /* eleven characters */
    check_s32("-2147483649", REFUSED);
    check_s32("-0000000001", "-1");
    check_s32("-00000000001", REFUSED);
    check_s32("00000000001", "1");
    check_s32("000000000001", REFUSED);
    check_s32("-", REFUSED);
    check_s32("--1", REFUSED);
    check_s32("+1", REFUSED);
    check_s32("1-", REFUSED);
    check_s32("1.5", REFUSED);
}

static void strict_u64(void **state)
{
    check_u64("0", "0");
    check_u64("18446744073709551609", "18446744073709551609");
    check_u64("18446744073709551615", "18446744073709551615");
    check_u64("18446744073709551616", REFUSED);
    check_u64("18446744073709551620", REFUSED);
    check_u64("99999999999999999999", REFUSED);
    check_u64("0018446744073709551615", "18446744073709551615"); /* 22 characters */
    check_u64("00018446744073709551615", REFUSED);
    check_u64("184467440737095516150", REFUSED);
    check_u64("9223372036854775808", "9223372036854775808");
    check_u64("-1", REFUSED);
    check_u64("+1", REFUSED);
    check_u64("1a", REFUSED);
}

static void loose_flags(void **state)
{
    struct mc_token token;
    u_u32 n = 0;

    check_flags("0", "0");
    check_flags("+5", "5");
    check_flags("\t\v\f\r\n5", "5");
    check_flags("5\tfoo", "5");
    check_flags("5\rx", "5");
    check_flags("5x", REFUSED);
    check_flags("4294967295", "4294967295");
    check_flags("4294967296", "0");
    check_flags("4294967301", "5");
    check_flags("18446744073709551615", "4294967295");
    check_flags("18446744073709551616", REFUSED);
    check_flags("00000000000000000000000000000000000001", "1");
    check_flags("-0", "0");
    check_flags("-1", REFUSED);
    check_flags("-18446744073709551615", REFUSED);
    check_flags("+-1", REFUSED);
    check_flags("+", REFUSED);
    check_flags("-", REFUSED);
    check_flags("\t", REFUSED);
    check_flags("+\t5", REFUSED);
    check_flags("x", REFUSED);
    token = token_of("5\0x", 3);
    assert_true(mc_num_flags(&token, &n) && n == 5);
    token = token_of("\0", 1);
    assert_false(mc_num_flags(&token, &n));
}

static void loose_exptime(void **state)
{
    check_exptime("0", "0");
    check_exptime("-1", "-1");
    check_exptime("+2147483647", "2147483647");
    check_exptime("2147483648", "-2147483648");
    check_exptime("99999999999", "1215752191");
    check_exptime("-99999999999", "-1215752191");
    check_exptime("4294967296", "0");
    check_exptime("9223372036854775807", "-1");
    check_exptime("9223372036854775808", REFUSED);
    check_exptime("-9223372036854775807", "1");
    check_exptime("-9223372036854775808", "0");
    check_exptime("-9223372036854775809", REFUSED);
    check_exptime("99999999999999999999999", REFUSED);
    check_exptime("5x", REFUSED);
    check_exptime("5\tx", "5");
    check_exptime("-", REFUSED);
    check_exptime("noreply", REFUSED);
}

static void counters(void **state)
{
    static const struct {
        const char *text;
        u_u32 len;
        const char *expected;
    } rows[] = {
        {"", 0, REFUSED},
        {" ", 1, REFUSED},
        {"5", 1, "5"},
        {" 1", 2, "1"},
        {"1 ", 2, "1"},
        {"1          ", 11, "1"},
        {"+1", 2, "1"},
        {"1 x", 3, "1"},
        {"1x", 2, REFUSED},
        {"-1", 2, REFUSED},
        {"-0", 2, "0"},
        {"1\0", 2, "1"},
        {"1\r\n", 3, "1"},
        {"abc", 3, REFUSED},
        {"0x10", 4, REFUSED},
        {"18446744073709551615", 20, "18446744073709551615"},
        {"18446744073709551616", 20, REFUSED},
        {"000000000000000000000000000007", 30, "7"},
    };
    size_t i;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u_u64 n = 3;
        char got[32] = REFUSED;
        if (mc_counter_parse(guard_behind(rows[i].text, rows[i].len), rows[i].len, &n))
            snprintf(got, sizeof got, "%llu", (unsigned long long)n);
        else
            assert_int_equal(n, 3);
        assert_string_equal(got, rows[i].expected);
    }
}

static void check_write(u_u64 n)
{
    char expected[MC_NUMBER_MAX + 1];
    int len = snprintf(expected, sizeof expected, "%llu", (unsigned long long)n);
    u_u8 *out = guard_behind("                    ", (size_t)len); /* room for just so many */
    struct mc_token token = {out, out + len};
    u_u64 back;

    assert_int_equal(mc_write_u64(out, n), len);
    assert_memory_equal(out, expected, len);
    assert_true(mc_num_u64(&token, &back) && back == n);
}

static void writing_round_trip(void **state)
{
    u_u64 power = 1;
    u_u64 n;
    int i;

    for (n = 0; n < 12000; n++)
        check_write(n);
    for (i = 0; i < 20; i++, power *= 10)
        for (n = 1; n <= 9 && power * n / n == power; n++) {
            check_write(power * n - 1);
            check_write(power * n);
            check_write(power * n + 1);
        }
    for (i = 0; i < 64; i++) {
        check_write((u_u64)1 << i);
        check_write(((u_u64)1 << i) - 1);
        check_write(~(u_u64)0 >> i);
        check_write(0x9e3779b97f4a7c15UL >> i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_u32),         cmocka_unit_test(strict_s32),
        cmocka_unit_test(strict_u64),         cmocka_unit_test(loose_flags),
        cmocka_unit_test(loose_exptime),      cmocka_unit_test(counters),
        cmocka_unit_test(writing_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
