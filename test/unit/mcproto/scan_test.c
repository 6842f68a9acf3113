/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking for a byte eight at a time, against a loop over single bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "guard.h"
#include "mcproto/scan.h"

#define LEN_MAX 40

static void word_is_first_byte_lowest(void **state)
{
    const u_u8 bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    u_u32 n;

    assert_true(mc_word_load(bytes) == 0x0807060504030201UL);
    for (n = 0; n < 8; n++) {
        const u_u8 *at = guard_behind(bytes, n);
        u_u64 expected = 0x0807060504030201UL & (((u_u64)1 << 8 * n) - 1);
        assert_true(mc_word_load_some(at, n) == expected);
    }
}

static void match_finds_each_position(void **state)
{
    unsigned byte;
    u_u32 i;

    for (byte = 1; byte < 256; byte++)
        for (i = 0; i < 8; i++) {
            u_u8 bytes[8];
            memset(bytes, (int)(byte ^ 1), sizeof bytes); /* the nearest neighbour */
            bytes[i] = (u_u8)byte;
            assert_int_equal(mc_word_first(mc_word_match(mc_word_load(bytes), (u_u8)byte)), i);
            assert_true(mc_word_match(mc_word_load(bytes), (u_u8)(byte ^ 2)) == 0);
        }
}

/* All lengths, all places of the first match, another match or a look-alike behind it. */
static void scan_finds_the_first(void **state)
{
    static const u_u8 others[] = {'\n', '\n' + 1, '\n' - 1, 0x8a, 0x00, 0xff, ' '};
    u_u8 text[LEN_MAX];
    u_u32 len;
    u_u32 at;
    u_u32 other;

    for (len = 0; len <= LEN_MAX; len++)
        for (at = 0; at <= len; at++)
            for (other = 0; other < sizeof others; other++) {
                const u_u8 *in;
                memset(text, 'x', sizeof text);
                if (at < len)
                    text[at] = '\n';
                if (at + 1 < len)
                    memset(text + at + 1, others[other], len - at - 1);
                in = guard_behind(text, len);
                assert_ptr_equal(mc_scan_byte(in, in + len, '\n'), at < len ? in + at : NULL);
                assert_ptr_equal(mc_scan_blank(in, in + len), at < len ? in + at : NULL);
            }
}

/* Each byte, at each place, among others that are no blanks. */
static void blanks_are_space_and_control_characters(void **state)
{
    u_u8 text[LEN_MAX];
    unsigned byte;
    u_u32 len;
    u_u32 at;

    for (byte = 0; byte < 256; byte++)
        for (len = 1; len <= LEN_MAX; len++)
            for (at = 0; at < len; at++) {
                const u_u8 *in;
                memset(text, at % 2 == 0 ? 0xa0 : '!', sizeof text);
                text[at] = (u_u8)byte;
                in = guard_behind(text, len);
                assert_ptr_equal(mc_scan_blank(in, in + len), byte <= ' ' ? in + at : NULL);
            }
}

static void the_first_blank_counts(void **state)
{
    u_u8 text[LEN_MAX];
    u_u32 space;
    u_u32 feed;

    for (space = 0; space < LEN_MAX; space++)
        for (feed = 0; feed < LEN_MAX; feed++) {
            const u_u8 *in;
            memset(text, 0x8a, sizeof text);
            text[space] = ' ';
            text[feed] = '\n';
            in = guard_behind(text, LEN_MAX);
            assert_ptr_equal(mc_scan_blank(in, in + LEN_MAX), in + (space < feed ? space : feed));
        }
}

/* By both functions, where both are for that length. */
static int has_blank(const u_u8 *at, u_u32 len)
{
    int has = mc_has_blank(at, len);

    if (len >= 8 && len <= 16)
        assert_int_equal(mc_has_blank_pair(at, len), has);
    return has;
}

/* All lengths and positions, blanks and their neighbouring values. */
static void a_blank_is_seen_anywhere(void **state)
{
    static const u_u8 others[] = {'!', 0x7f, 0x80, 0xa0, 0xff};
    static const u_u8 blanks[] = {0, 1, '\t', '\n', '\r', 0x1f, ' '};
    u_u8 text[LEN_MAX];
    u_u32 len;
    u_u32 at;
    u_u32 i;

    for (len = 1; len <= LEN_MAX; len++)
        for (i = 0; i < sizeof others; i++) {
            memset(text, others[i], sizeof text);
            assert_false(has_blank(guard_behind(text, len), len));
            for (at = 0; at < len; at++) {
                text[at] = blanks[(at + len) % sizeof blanks];
                assert_true(has_blank(guard_behind(text, len), len));
                text[at] = others[i];
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(word_is_first_byte_lowest),
        cmocka_unit_test(match_finds_each_position),
        cmocka_unit_test(scan_finds_the_first),
        cmocka_unit_test(blanks_are_space_and_control_characters),
        cmocka_unit_test(the_first_blank_counts),
        cmocka_unit_test(a_blank_is_seen_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
