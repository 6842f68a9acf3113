/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting lines and tokens, and how long a line may become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "mcproto/tokenize.h"

static void check_line(const char *input, size_t len, u_u32 content, u_u32 bytes)
{
    struct mc_line line;
    const u_u8 *in = guard_behind(input, len);

    assert_int_equal(mc_line_split(in, (u_u32)len, &line), 1);
    assert_ptr_equal(line.at, in);
    assert_ptr_equal(line.end, in + content);
    assert_int_equal(line.bytes, bytes);
    in = guard_before(input, len);
    assert_int_equal(mc_line_split(in, (u_u32)len, &line), 1);
    assert_ptr_equal(line.end, in + content);
}

static void line_ends(void **state)
{
    struct mc_line line;

    check_line("abc\r\n", 5, 3, 5);
    check_line("abc\n", 4, 3, 4);
    check_line("\r\n", 2, 0, 2);
    check_line("\n", 1, 0, 1);
    check_line("abc\r\r\n", 6, 4, 6);
    check_line("a\rb\r\n", 5, 3, 5);
    check_line("abc\n\r\n", 6, 3, 4);
    check_line("abc\r\ndef\r\n", 10, 3, 5);
    check_line("a\0b\r\n", 5, 3, 5);
    assert_int_equal(mc_line_split(guard_behind("", 0), 0, &line), 0);
    assert_int_equal(mc_line_split(guard_behind("abc\r", 4), 4, &line), 0);
}

/* `text`, then so many x that there are `len` bytes. */
static int may_grow(const char *text, u_u32 len)
{
    u_u8 *in = malloc(len);
    int result;

    assert_non_null(in);
    memset(in, 'x', len);
    memcpy(in, text, strlen(text) < len ? strlen(text) : len);
    result = mc_line_may_grow(in, len);
    free(in);
    return result;
}

static void line_lengths(void **state)
{
    char spaces[128];

    assert_int_equal(may_grow("", 1), 1);
    assert_int_equal(may_grow("set ", MC_LINE_MAX), 1);
    assert_int_equal(may_grow("set ", MC_LINE_MAX + 1), 0);
    assert_int_equal(may_grow("gat 0 ", MC_LINE_MAX + 1), 1);
    assert_int_equal(may_grow("gats 0 ", MC_LINE_MAX + 1), 1);
    assert_int_equal(may_grow("getx ", MC_LINE_MAX + 1), 0);
    assert_int_equal(may_grow("GET ", MC_LINE_MAX + 1), 0);
    assert_int_equal(may_grow("get ", MC_LINE_MAX + 1), 1);
    assert_int_equal(may_grow("gets ", MC_LINE_MAX + 1), 1);
    assert_int_equal(may_grow("get ", MC_KEYS_LINE_MAX), 1);
    assert_int_equal(may_grow("get ", MC_KEYS_LINE_MAX + 1), 0);
    memset(spaces, ' ', sizeof spaces);
    memcpy(spaces + 100, "gets ", 6);
    assert_int_equal(may_grow(spaces, MC_LINE_MAX + 1), 1);
    memset(spaces, ' ', sizeof spaces);
    memcpy(spaces + 101, "gets ", 6);
    assert_int_equal(may_grow(spaces, MC_LINE_MAX + 1), 0);
}

static void tokens(void **state)
{
    const u_u8 *in = guard_behind("  one  two\tx \0 four ", 20);
    struct mc_token token[5];

    memset(token, 0, sizeof token);
    assert_int_equal(mc_tokens_split(in, in + 20, token, 5), 4);
    assert_ptr_equal(token[0].at, in + 2);
    assert_ptr_equal(token[0].end, in + 5);
    assert_ptr_equal(token[1].at, in + 7);
    assert_ptr_equal(token[1].end, in + 12);
    assert_ptr_equal(token[2].at, in + 13);
    assert_ptr_equal(token[2].end, in + 14);
    assert_ptr_equal(token[3].at, in + 15);
    assert_ptr_equal(token[3].end, in + 19);
    assert_null(token[4].at);
    assert_int_equal(mc_tokens_split(in, in + 20, token, 2), 2);
    assert_int_equal(mc_tokens_split(in, in + 2, token, 5), 0);
    assert_int_equal(mc_tokens_split(in, in, token, 5), 0);
    assert_int_equal(mc_tokens_split(in, in + 9, token, 5), 2);
    assert_ptr_equal(token[1].end, in + 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends),
        cmocka_unit_test(line_lengths),
        cmocka_unit_test(tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
