/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies as bytes, and value headers read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"

static const char *const lines[] = {
    "STORED\r\n",
    "NOT_STORED\r\n",
    "EXISTS\r\n",
    "NOT_FOUND\r\n",
    "DELETED\r\n",
    "TOUCHED\r\n",
    "OK\r\n",
    "END\r\n",
    "RESET\r\n",
    "ERROR\r\n",
    "CLIENT_ERROR bad command line format\r\n",
    "CLIENT_ERROR bad data chunk\r\n",
    "CLIENT_ERROR invalid numeric delta argument\r\n",
    "CLIENT_ERROR invalid exptime argument\r\n",
    "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    "SERVER_ERROR object too large for cache\r\n",
    "SERVER_ERROR out of memory storing object\r\n",
    "SERVER_ERROR out of memory\r\n",
    "ERROR Too many open connections\r\n",
    "CLIENT_ERROR flush_all not allowed\r\n",
};

static void status_lines_are_exact(void **state)
{
    int i;

    assert_int_equal(sizeof lines / sizeof lines[0], MC_STATUS_COUNT);
    for (i = 0; i < MC_STATUS_COUNT; i++) {
        u_u8 out[MC_STATUS_MAX];
        u_u32 len = 0;
        assert_string_equal(mc_status_text((enum mc_status)i, &len), lines[i]);
        assert_int_equal(len, strlen(lines[i]));
        assert_in_range(len, 1, MC_STATUS_MAX);
        assert_int_equal(mc_write_status(out, (enum mc_status)i), len);
        assert_memory_equal(out, lines[i], len);
    }
}

/* Into a buffer that has room for exactly what is due, then read back field by field. */
static void check_header(u_u32 key_len, u_u32 flags, u_u32 bytes, const u_u64 *cas)
{
    static const u_u8 blank[MC_VALUE_HEADER_MAX];
    u_u8 key[MC_KEY_MAX];
    char expected[MC_VALUE_HEADER_MAX + 1];
    char tail[80];
    u_u8 *out;
    u_u32 i;
    int len;

    for (i = 0; i < key_len; i++)
        key[i] = (u_u8)('!' + i % 90);
    if (cas != NULL)
        snprintf(tail, sizeof tail, " %u %u %llu\r\n", flags, bytes, (unsigned long long)*cas);
    else
        snprintf(tail, sizeof tail, " %u %u\r\n", flags, bytes);
    len = snprintf(expected, sizeof expected, "VALUE %.*s%s", (int)key_len, (char *)key, tail);
    assert_in_range(len, 1, MC_VALUE_HEADER_MAX);
    out = guard_behind(blank, (size_t)len);
    assert_int_equal(mc_write_value_header(out, key, key_len, flags, bytes, cas), len);
    assert_memory_equal(out, expected, len);
}

static void value_headers(void **state)
{
    static const u_u32 numbers[] = {0,   1,     9,         10,         99,
                                    100, 65535, 999999999, 1000000000, 4294967295u};
    static const u_u64 uniques[] = {0, 1, 4294967295UL, 4294967296UL, 18446744073709551615UL};
    static const u_u32 lengths[] = {1, 8, 249, 250};
    size_t i, j, k, l;

    for (i = 0; i < 4; i++)
        for (j = 0; j < 10; j++)
            for (k = 0; k < 10; k++) {
                check_header(lengths[i], numbers[j], numbers[k], NULL);
                for (l = 0; l < 5; l++)
                    check_header(lengths[i], numbers[j], numbers[k], &uniques[l]);
            }
}

static void numbers_with_line_end(void **state)
{
    static const u_u8 blank[MC_NUMBER_MAX + 2];
    u_u8 *out = guard_behind(blank, 3);

    assert_int_equal(mc_write_number(out, 0), 3);
    assert_memory_equal(out, "0\r\n", 3);
    out = guard_behind(blank, 22);
    assert_int_equal(mc_write_number(out, 18446744073709551615UL), 22);
    assert_memory_equal(out, "18446744073709551615\r\n", 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_lines_are_exact),
        cmocka_unit_test(value_headers),
        cmocka_unit_test(numbers_with_line_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
