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
#include "mcproto/mcproto_fast.h"

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
    "SERVER_ERROR Out of memory allocating new item\r\n",
    "SERVER_ERROR Out of memory during read\r\n",
    "SERVER_ERROR out of memory reading request\r\n",
    "SERVER_ERROR out of memory writing stats\r\n",
    "ERROR Too many open connections\r\n",
    "CLIENT_ERROR flush_all not allowed\r\n",
    "MN\r\n",
    "EN\r\n",
    "CLIENT_ERROR options flags are too long\r\n",
    "CLIENT_ERROR invalid flag\r\n",
    "CLIENT_ERROR duplicate flag\r\n",
    "CLIENT_ERROR invalid or duplicate flag\r\n",
    "CLIENT_ERROR bad token in command line format\r\n",
    "CLIENT_ERROR invalid numeric initial value\r\n",
    "CLIENT_ERROR invalid numeric delta value\r\n",
    "CLIENT_ERROR opaque token too long\r\n",
    "CLIENT_ERROR error decoding key\r\n",
    "CLIENT_ERROR invalid mode for ms M token\r\n",
    "CLIENT_ERROR invalid mode for ma M token\r\n",
    "SERVER_ERROR: shutdown not enabled\r\n",
    "CLIENT_ERROR invalid shutdown mode\r\n",
    "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
    "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
    "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
    "BUSY currently processing reassign request\r\n",
    "BADCLASS invalid src or dst class id\r\n",
    "NOSPARE source class has no spare pages\r\n",
    "SAME src and dst class are identical\r\n",
    "CLIENT_ERROR slab reassignment disabled\r\n",
    "CLIENT_ERROR automove window too low or too high\r\n",
    "ERROR hot and warm pcts must not exceed 80\r\n",
    "ERROR hot/warm age factors must be greater than 0\r\n",
    "ERROR failed to start lru crawler thread\r\n",
    "ERROR failed to stop lru crawler thread\r\n",
    "CLIENT_ERROR sleep must be one second or less\r\n",
    "BUSY currently processing crawler request\r\n",
    "BADCLASS invalid class id\r\n",
    "NOTSTARTED no items to crawl\r\n",
    "ERROR an unknown error happened\r\n",
    "CLIENT_ERROR lru crawler disabled\r\n",
    "ERROR metadump not allowed\r\n",
    "ERROR key dump not allowed\r\n",
    "ERROR cannot pipeline other commands before metadump\r\n",
    "ERROR cannot pipeline other commands before mgdump\r\n",
    "ERROR locked try again later\r\n",
    "ERROR cannot pipeline other commands before watch\r\n",
    "CLIENT_ERROR watch commands not allowed\r\n",
    "WATCHER_TOO_MANY log watcher limit reached\r\n",
    "WATCHER_FAILED failed to add log watcher\r\n",
    "CLIENT_ERROR usage: stats detail on|off|dump\r\n",
    "CLIENT_ERROR stats detail not allowed\r\n",
    "CLIENT_ERROR bad command line\r\n",
    "CLIENT_ERROR Illegal slab id\r\n",
    "CLIENT_ERROR stats cachedump not allowed\r\n",
    "MISS\r\n",
    "CLIENT_ERROR unauthenticated\r\n",
    "CLIENT_ERROR authentication failure\r\n",
    "CLIENT_ERROR bad authentication token format\r\n",
    "CLIENT_ERROR bad command line termination\r\n",
    "CLIENT_ERROR auth token too long\r\n",
    "CLIENT_ERROR access denied\r\n",
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

/* Writes into a buffer of the exact size, then reads back each field. */
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

/* Every length of both, into blocks of just their size. */
static void short_hits(void **state)
{
    static const u_u8 blank[MC_SHORT_HIT_MAX];
    u_u8 key[MC_KEY_MAX];
    u_u8 value[MC_SHORT_VALUE_MAX];
    char expected[MC_SHORT_HIT_MAX + 1];
    u_u32 key_len;
    u_u32 bytes;
    u_u32 i;

    for (i = 0; i < sizeof key; i++)
        key[i] = (u_u8)('!' + i % 90);
    for (i = 0; i < sizeof value; i++)
        value[i] = (u_u8)('a' + i % 26);
    for (key_len = 1; key_len <= MC_KEY_MAX; key_len++)
        for (bytes = 0; bytes <= MC_SHORT_VALUE_MAX; bytes++) {
            const u_u8 *from = value + sizeof value - bytes;
            int len = snprintf(expected, sizeof expected, "VALUE %.*s 0 %u\r\n%.*s\r\nEND\r\n",
                               (int)key_len, (char *)key, bytes, (int)bytes, (const char *)from);
            u_u8 *out = guard_behind(blank, (size_t)len);

            assert_in_range(len, 1, MC_SHORT_HIT_MAX);
            assert_int_equal(mc_write_short_hit(out, key, key_len, from, bytes), len);
            assert_memory_equal(out, expected, len);
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
        cmocka_unit_test(short_hits),
        cmocka_unit_test(numbers_with_line_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
