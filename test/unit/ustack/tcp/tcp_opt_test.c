/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP options: emitted options are parsed back; hostile input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "guard.h"
#include "ustack/tcp/tcp_opt.h"

static void parses_what_it_emits(void **state)
{
    struct us_tcp_opts in;
    struct us_tcp_opts out;
    u_u8 bytes[40];
    unsigned bits;
    unsigned n;

    for (bits = 0; bits < 16; bits++) {
        memset(&in, 0, sizeof(in));
        in.mss = bits & 1 ? 1460 : 0;
        in.has_scale = (bits & 2) != 0;
        in.scale = bits & 2 ? 7 : 0;
        in.sack_permitted = (bits & 4) != 0;
        in.has_ts = (bits & 8) != 0;
        in.ts_val = bits & 8 ? 0x01020304 : 0;
        in.ts_ecr = bits & 8 ? 0xfffefdfc : 0;
        n = us_tcp_opts_emit(&in, bytes);
        assert_int_equal(n % 4, 0);
        us_tcp_opts_parse(&out, bytes, n);
        assert_memory_equal(&in, &out, sizeof(in));
    }
    memset(&in, 0, sizeof(in));
    in.has_ts = 1;
    in.sack_blocks = 3;
    in.sack[2].start = 5;
    in.sack[2].end = 9;
    n = us_tcp_opts_emit(&in, bytes);
    assert_int_equal(n, 40);
    us_tcp_opts_parse(&out, bytes, n);
    assert_memory_equal(&in, &out, sizeof(in));
}

static void timestamps_alone_have_the_layout_of_rfc7323_appendix_a(void **state)
{
    static const u_u8 expected[] = {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
    struct us_tcp_opts opts;
    u_u8 bytes[40];

    memset(&opts, 0, sizeof(opts));
    opts.has_ts = 1;
    opts.ts_val = 1;
    opts.ts_ecr = 2;
    assert_int_equal(us_tcp_opts_emit(&opts, bytes), US_TCP_OPT_TS_BYTES);
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void scale_is_clamped(void **state)
{
    static const u_u8 bytes[] = {3, 3, 200, 0};
    struct us_tcp_opts opts;

    us_tcp_opts_parse(&opts, bytes, sizeof(bytes));
    assert_int_equal(opts.scale, 14);
}

static void malformed_lengths_end_the_parsing(void **state)
{
    static const u_u8 zero[] = {2, 4, 5, 0xb4, 99, 0, 3, 3};
    static const u_u8 beyond[] = {2, 4, 5, 0xb4, 3, 3};
    static const u_u8 wrong_mss[] = {2, 3, 5, 1, 3, 3, 7, 0};
    static const u_u8 ended[] = {0, 2, 4, 1, 1};
    static const u_u8 kind_only[] = {1, 1, 1, 8};
    struct us_tcp_opts opts;

    us_tcp_opts_parse(&opts, zero, sizeof(zero));
    assert_int_equal(opts.mss, 1460);
    assert_false(opts.has_scale);
    us_tcp_opts_parse(&opts, beyond, sizeof(beyond));
    assert_int_equal(opts.mss, 1460);
    assert_false(opts.has_scale);
    us_tcp_opts_parse(&opts, wrong_mss, sizeof(wrong_mss));
    assert_int_equal(opts.mss, 0);
    assert_int_equal(opts.scale, 7);
    us_tcp_opts_parse(&opts, ended, sizeof(ended));
    assert_int_equal(opts.mss, 0);
    us_tcp_opts_parse(&opts, kind_only, sizeof(kind_only));
    assert_false(opts.has_ts);
}

/* An option of another length than its kind has is ignored, and the next one is parsed. */
static void options_have_their_lengths(void **state)
{
    static const u_u8 kinds[] = {2, 3, 4, 8}, lengths[] = {4, 3, 2, 10};
    struct us_tcp_opts opts;
    unsigned i, len;
    u_u8 bytes[40];

    for (i = 0; i < 4; i++) {
        for (len = 2; len <= 12; len++) {
            memset(bytes, 1, sizeof(bytes));
            bytes[0] = kinds[i];
            bytes[1] = (u_u8)len;
            us_tcp_opts_parse(&opts, bytes, sizeof(bytes));
            assert_int_equal((opts.mss != 0) + opts.has_scale + opts.sack_permitted + opts.has_ts,
                             len == lengths[i]);
        }
    }
    for (len = 2; len <= 38; len++) { /* RFC 2018 section 3: blocks of eight bytes */
        memset(bytes, 1, sizeof(bytes));
        bytes[0] = 5;
        bytes[1] = (u_u8)len;
        us_tcp_opts_parse(&opts, bytes, sizeof(bytes));
        assert_int_equal(opts.sack_blocks, len % 8 == 2 ? len / 8 : 0);
    }
    (void)state;
}

static void random_bytes_do_no_harm(void **state)
{
    struct us_tcp_opts opts;
    struct u_prng prng;
    int i;

    u_prng_seed(&prng, 1);
    for (i = 0; i < 100000; i++) {
        unsigned n = u_prng_below(&prng, 41);
        u_u8 bytes[40];
        unsigned j;
        for (j = 0; j < n; j++)
            bytes[j] = (u_u8)u_prng_below(&prng, u_prng_below(&prng, 2) ? 12 : 256);
        us_tcp_opts_parse(&opts, guard_behind(bytes, n), n);
        assert_true(opts.scale <= 14 && opts.sack_blocks <= 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_what_it_emits),
        cmocka_unit_test(timestamps_alone_have_the_layout_of_rfc7323_appendix_a),
        cmocka_unit_test(scale_is_clamped),
        cmocka_unit_test(malformed_lengths_end_the_parsing),
        cmocka_unit_test(options_have_their_lengths),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
