/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta requests in what the golden files do not reach: every flag by itself, against both guard
 * pages, and what may stand in a request at most.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "mcproto/meta_parse.h"
#include "ref_parser.h"

static enum mc_outcome parse(const char *line, struct mc_request *req)
{
    struct mc_request reference;
    size_t len = strlen(line);
    u_u8 *in = guard_behind(line, len);
    enum mc_outcome outcome = mc_parse(in, (u_u32)len, req);

    assert_int_equal(ref_parse(in, (u_u32)len, &reference), outcome);
    assert_true(ref_same(req, &reference));
    return outcome;
}

static void flags_have_bits_of_their_own(void **state)
{
    const char *letters = "bcCDEfFhIJklLMNOPqRstTuvx";
    u_u32 all = 0;
    int c;

    for (c = 0; c < 256; c++) {
        u_u32 bit = mc_meta_flag_bit((u_u8)c);
        assert_int_equal(bit != 0, c != 0 && strchr(letters, c) != NULL);
        assert_int_equal(all & bit, 0);
        assert_int_equal(bit & (bit - 1), 0);
        all |= bit;
    }
}

/* Each byte as the first one of a flag, for each command. */
static void every_letter_for_every_command(void **state)
{
    static const char *const heads[] = {"mg a2V5 ", "md a2V5 ", "ma a2V5 ", "ms a2V5 3 ",
                                        "me a2V5 "};
    static const char *const tails[] = {"\r\n",   "1\r\n",  "-1\r\n",        "S\r\n",
                                        "+x\r\n", " v\r\n", "999999999999\n"};
    char line[64];
    size_t h, t;
    int c;

    for (h = 0; h < sizeof heads / sizeof heads[0]; h++)
        for (t = 0; t < sizeof tails / sizeof tails[0]; t++)
            for (c = 1; c < 256; c++) {
                struct mc_request req;
                snprintf(line, sizeof line, "%s%c%s", heads[h], c, tails[t]);
                if (c != '\n')
                    assert_int_not_equal(parse(line, &req), MC_MORE);
            }
}

static void numbers_reach_their_bounds(void **state)
{
    struct mc_request req;

    assert_int_equal(parse("mg k T-2147483648 N2147483647 R-1 F4294967295 "
                           "C18446744073709551615 E18446744073709551615 "
                           "J18446744073709551615 D18446744073709551615\r\n",
                           &req),
                     MC_REQUEST);
    assert_int_equal(req.meta.ttl_s, INT32_MIN);
    assert_int_equal(req.meta.vivify_ttl_s, INT32_MAX);
    assert_int_equal(req.meta.recache_ttl_s, -1);
    assert_int_equal(req.meta.client_flags, UINT32_MAX);
    assert_int_equal(req.meta.compare_cas, UINT64_MAX);
    assert_int_equal(req.meta.new_cas, UINT64_MAX);
    assert_int_equal(req.meta.initial, UINT64_MAX);
    assert_int_equal(req.meta.delta, UINT64_MAX);
    assert_int_equal(parse("ma k\r\n", &req), MC_REQUEST);
    assert_int_equal(req.meta.delta, 1);
    assert_int_equal(req.meta.mode, MC_MODE_INCR);
}

/* Earlier contents of the struct do not show. */
static void nothing_remains_of_an_earlier_request(void **state)
{
    struct mc_request req;

    memset(&req, 0xa5, sizeof req);
    assert_int_equal(parse("ms k 0\r\n", &req), MC_REQUEST);
    assert_int_equal(req.meta.has, 0);
    assert_int_equal(req.meta.order_len, 0);
    assert_null(req.meta.opaque);
    assert_int_equal(req.meta.ttl_s, 0);
    assert_int_equal(req.value_bytes, 0);
}

static void eighteen_flags_are_the_most(void **state)
{
    struct mc_request req;

    assert_int_equal(parse("mg k c C1 D1 E1 f F1 h I J1 k l L M N1 O q R1 s\r\n", &req),
                     MC_REQUEST);
    assert_int_equal(req.meta.order_len, MC_META_FLAGS_MAX);
    assert_int_equal(parse("mg k c C1 D1 E1 f F1 h I J1 k l L M N1 O q R1 s t\r\n", &req),
                     MC_MALFORMED);
    assert_int_equal(parse("ms k 1 c C1 D1 E1 f F1 h I J1 k l L MS N1 O q R1\r\n", &req),
                     MC_REQUEST);
    assert_int_equal(req.meta.order_len, MC_META_FLAGS_MAX - 1);
    assert_int_equal(parse("ms k 1 c C1 D1 E1 f F1 h I J1 k l L MS N1 O q R1 s\r\n", &req),
                     MC_MALFORMED);
    assert_int_equal(req.discard_bytes, 3);
    /* Beyond the 23rd word nothing is looked at, so the ! goes unnoticed. */
    assert_int_equal(parse("mg k v v v v v v v v v v v v v v v v v v v v v v !\r\n", &req),
                     MC_MALFORMED);
    assert_string_equal(req.error, "CLIENT_ERROR options flags are too long\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_have_bits_of_their_own),
        cmocka_unit_test(every_letter_for_every_command),
        cmocka_unit_test(numbers_reach_their_bounds),
        cmocka_unit_test(nothing_remains_of_an_earlier_request),
        cmocka_unit_test(eighteen_flags_are_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
