/* SPDX-License-Identifier: BSD-3-Clause */
/* SYN cookies: options are recovered, and no other number is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"
#include "ustack/tcp/tcp_cookie.h"

/* A tick of the cookie's clock. */
#define TICK_US ((u_u64)1 << 26)

static int setup(void **state)
{
    static struct raw raw;

    raw_open(&raw, NULL);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static struct us_tcp_key some_key(void)
{
    struct us_tcp_key key;

    memset(&key, 0, sizeof(key));
    key.local_port = 11211;
    key.remote_port = 40000;
    return key;
}

static void cookie_brings_back_the_mss(void **state)
{
    struct us_stack *stack = ((struct raw *)*state)->stack;
    struct us_tcp_key key = some_key();
    struct us_cookie cookie;
    u_u32 before = 0;
    u_u32 mss;

    for (mss = 48; mss < 9100; mss++) {
        u_u32 isn = us_cookie_make(stack, &key, 7, mss);
        assert_true(us_cookie_check(stack, &key, 7, isn, &cookie));
        assert_true(cookie.mss <= mss && cookie.mss >= before);
        before = cookie.mss;
    }
    assert_true(us_cookie_check(stack, &key, 7, us_cookie_make(stack, &key, 7, 1), &cookie));
    assert_int_equal(cookie.mss, 48);
    assert_true(us_cookie_check(stack, &key, 7, us_cookie_make(stack, &key, 7, 1460), &cookie));
    assert_int_equal(cookie.mss, 1460);
}

static void cookie_is_of_one_connection(void **state)
{
    struct us_stack *stack = ((struct raw *)*state)->stack;
    struct us_tcp_key key = some_key();
    struct us_tcp_key other = key;
    struct us_cookie cookie;
    u_u32 isn = us_cookie_make(stack, &key, 7, 1460);

    assert_false(us_cookie_check(stack, &key, 8, isn, &cookie));
    other.remote_port++;
    assert_false(us_cookie_check(stack, &other, 7, isn, &cookie));
    other = key;
    other.local_port++;
    assert_false(us_cookie_check(stack, &other, 7, isn, &cookie));
    stack->key_cookie[0] ^= 1;
    assert_false(us_cookie_check(stack, &key, 7, isn, &cookie));
}

static void no_bit_of_a_cookie_can_be_changed(void **state)
{
    struct us_stack *stack = ((struct raw *)*state)->stack;
    struct us_tcp_key key = some_key();
    struct us_cookie cookie;
    u_u32 isn = us_cookie_make(stack, &key, 7, 1460);
    unsigned bit;

    for (bit = 0; bit < 32; bit++)
        assert_false(us_cookie_check(stack, &key, 7, isn ^ (u_u32)1 << bit, &cookie));
}

static void cookie_grows_old(void **state)
{
    struct us_stack *stack = ((struct raw *)*state)->stack;
    struct us_tcp_key key = some_key();
    struct us_cookie cookie;
    u_u32 isn;

    stack->now_us = 31 * TICK_US + TICK_US - 1; /* the coded part of the clock wraps next */
    isn = us_cookie_make(stack, &key, 7, 1460);
    stack->now_us += TICK_US;
    assert_true(us_cookie_check(stack, &key, 7, isn, &cookie));
    stack->now_us += 1;
    assert_false(us_cookie_check(stack, &key, 7, isn, &cookie));
    stack->now_us += 30 * TICK_US; /* the coded part is the same again */
    assert_false(us_cookie_check(stack, &key, 7, isn, &cookie));
    stack->now_us -= 40 * TICK_US; /* the cookie is of the future */
    assert_false(us_cookie_check(stack, &key, 7, isn, &cookie));
}

static void timestamp_brings_back_the_options(void **state)
{
    static const u_u32 clocks[] = {0, 1, 63, 64, 0x7fffffffu, 0xffffffffu, 123456789};
    struct us_cookie in;
    struct us_cookie out;
    unsigned i, scale, flags;

    (void)state;
    for (i = 0; i < U_ARRAY_LEN(clocks); i++) {
        for (scale = 0; scale <= 15; scale++) {
            for (flags = 0; flags < 4; flags++) {
                u_u32 ts;
                in.opts = US_OPT_TS;
                in.opts |= scale <= US_TCP_SCALE_MAX ? US_OPT_SCALE : 0;
                in.opts |= flags & 1 ? US_OPT_SACK : 0;
                in.opts |= flags & 2 ? US_OPT_ECN : 0;
                in.scale = scale <= US_TCP_SCALE_MAX ? (u_u8)scale : 0;
                ts = us_cookie_ts_make(clocks[i], &in);
                assert_true(clocks[i] - ts < 64); /* never ahead of the clock */
                us_cookie_ts_read(ts, &out);
                assert_int_equal(out.opts, in.opts);
                assert_int_equal(out.scale, in.scale);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cookie_brings_back_the_mss, setup, teardown),
        cmocka_unit_test_setup_teardown(cookie_is_of_one_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(no_bit_of_a_cookie_can_be_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(cookie_grows_old, setup, teardown),
        cmocka_unit_test(timestamp_brings_back_the_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
