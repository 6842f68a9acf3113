/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control by the formulas of RFC 5681, 6582 and 6928, and the choice of an algorithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ustack/tcp/tcp_cc.h"

static void initial_window_by_rfc6928(void **state)
{
    assert_int_equal(us_cc_initial_window(1460, 0), 14600);
    assert_int_equal(us_cc_initial_window(536, 0), 5360);
    assert_int_equal(us_cc_initial_window(8960, 0), 17920);
    assert_int_equal(us_cc_initial_window(1460, 1), 1460);
}

static void slow_start_doubles_per_round_trip(void **state)
{
    struct us_tcp_cc cc;
    u_u32 before;
    u_u32 acked;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    before = cc.cwnd;
    for (acked = 0; acked < before; acked += 2000)
        us_cc_acked(&cc, 2000, 0, 0); /* the peer delays its ACKs */
    assert_int_equal(cc.cwnd, 2 * before);
    us_cc_acked(&cc, 7000, 0, 0); /* RFC 3465 2.3: for one ACK no more than two segments */
    assert_int_equal(cc.cwnd, 2 * before + 2000);
}

static void avoidance_adds_one_segment_per_round_trip(void **state)
{
    struct us_tcp_cc cc;
    u_u32 acked;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.ssthresh = cc.cwnd;
    for (acked = 0; acked < 10000; acked += 1000)
        us_cc_acked(&cc, 1000, 0, 0);
    assert_int_equal(cc.cwnd, 11000);
    us_cc_acked(&cc, 50000, 0, 0); /* by one ACK no more than by those of one round trip */
    assert_int_equal(cc.cwnd, 12000);
    us_cc_acked(&cc, 1000, 0, 0);
    assert_int_equal(cc.cwnd, 12000);
}

/* Bytes acked in excess of cwnd count towards its next increase (RFC 5681 3.1, RFC 3465 2.1). */
static void avoidance_loses_no_acknowledged_byte(void **state)
{
    struct us_tcp_cc cc;
    unsigned i;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.ssthresh = cc.cwnd;
    for (i = 0; i < 7; i++)
        us_cc_acked(&cc, 1500, 0, 0);
    assert_int_equal(cc.cwnd, 11000);
    for (i = 0; i < 7; i++)
        us_cc_acked(&cc, 1500, 0, 0);
    assert_int_equal(cc.cwnd, 12000); /* for 21000 bytes: 10000 and 11000 */
}

/* RFC 5681 3.1: after a reduction the next step takes a whole window anew. */
static void a_reduction_forgets_acknowledged_bytes(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.ssthresh = cc.cwnd;
    us_cc_acked(&cc, 9000, 0, 0);
    us_cc_reduce(&cc, 10000, 0);
    assert_int_equal(cc.cwnd, 5000);
    us_cc_acked(&cc, 4999, 0, 0);
    assert_int_equal(cc.cwnd, 5000);
    us_cc_acked(&cc, 1, 0, 0);
    assert_int_equal(cc.cwnd, 6000);
    (void)state;
}

static void only_a_filled_window_is_a_limit(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    assert_false(us_cc_is_cwnd_limited(&cc, 100));
    assert_true(us_cc_is_cwnd_limited(&cc, 5000)); /* slow start */
    cc.ssthresh = 5000;
    assert_false(us_cc_is_cwnd_limited(&cc, 9000));
    assert_true(us_cc_is_cwnd_limited(&cc, 9001));
}

static void recovery_halves_and_deflates(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 20000;
    us_cc_enter_recovery(&cc, 20000);
    assert_int_equal(cc.ssthresh, 10000);
    assert_int_equal(cc.cwnd, 13000);
    us_cc_inflate(&cc);
    assert_int_equal(cc.cwnd, 14000);
    us_cc_partial_ack(&cc, 3000);
    assert_int_equal(cc.cwnd, 12000);
    us_cc_partial_ack(&cc, 500);
    assert_int_equal(cc.cwnd, 11500);
    us_cc_partial_ack(&cc, 1000); /* a whole segment is added back, see RFC 6582 3.2 (3) */
    assert_int_equal(cc.cwnd, 11500);
    us_cc_partial_ack(&cc, 50000);
    assert_int_equal(cc.cwnd, 1000);
    us_cc_leave_recovery(&cc, 30000);
    assert_int_equal(cc.cwnd, 10000);
    us_cc_leave_recovery(&cc, 0);
    assert_int_equal(cc.cwnd, 2000);
}

static void timeout_falls_to_one_segment(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 30000;
    us_cc_timeout(&cc, 30000, 0);
    assert_int_equal(cc.ssthresh, 15000);
    assert_int_equal(cc.cwnd, 1000);
    us_cc_timeout(&cc, 1000, 1); /* the same segment again: ssthresh stays */
    assert_int_equal(cc.ssthresh, 15000);
    us_cc_timeout(&cc, 1000, 0);
    assert_int_equal(cc.ssthresh, 2000);
}

static void idleness_restarts(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_RENO);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 500000;
    cc.ssthresh = 100000;
    us_cc_idle(&cc, 2500, 1000); /* two timeouts long */
    assert_int_equal(cc.cwnd, 125000);
    assert_int_equal(cc.ssthresh, 375000);
    us_cc_idle(&cc, ~(u_u64)0, 1000);
    assert_int_equal(cc.cwnd, 10000);
    cc.cwnd = 3000;
    us_cc_idle(&cc, 100000, 1000);
    assert_int_equal(cc.cwnd, 3000);
}

/* RFC 9438 5.8: CUBIC's time does not run in a pause; the curve begins anew after it. */
static void cubic_does_not_grow_by_a_pause(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_CUBIC);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 40000;
    cc.ssthresh = 20000;
    us_cc_acked(&cc, 0, 1000, 10);
    us_cc_idle(&cc, 1500, 1000);
    cc.ssthresh = cc.cwnd;
    us_cc_acked(&cc, cc.cwnd, 20000, 10);
    assert_in_range(cc.cwnd, 20000, 21000);
}

static void cubic_falls_to_seven_tenths(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_CUBIC);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 100000;
    us_cc_reduce(&cc, 200000, 0); /* no more than the window was in the network */
    assert_int_equal(cc.ssthresh, 70000);
    assert_int_equal(cc.cwnd, 70000);
    us_cc_undo(&cc, 100000, 1 << 30);
    assert_int_equal(cc.cwnd, 100000);
    assert_int_equal(cc.ssthresh, 1 << 30);
    cc.cwnd = 50000;
    us_cc_reduce(&cc, 50000, 0);
    assert_int_equal(us_cubic_plateau(&cc.of.cubic), 42500);
    us_cc_undo(&cc, 50000, 1 << 30);
    assert_int_equal(us_cubic_plateau(&cc.of.cubic), 50000); /* RFC 9438 4.9 */
    cc.cwnd = 1000;
    us_cc_reduce(&cc, 1000, 0);
    assert_int_equal(cc.ssthresh, 2000); /* never below two segments */
}

/* RFC 9438 4.8: after a timeout the curve has its plateau where slow start ended. */
static void cubic_forgets_its_plateau_in_a_timeout(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_CUBIC);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 100000;
    us_cc_timeout(&cc, 100000, 0);
    assert_int_equal(cc.ssthresh, 70000);
    cc.cwnd = cc.ssthresh;
    us_cc_acked(&cc, 1000, 1000, 10);
    assert_int_equal(us_cubic_plateau(&cc.of.cubic), 70000);
    (void)state;
}

static void dctcp_halves_for_a_loss_and_less_for_a_mark(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_DCTCP);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 100000;
    cc.of.dctcp.alpha = 256;
    us_cc_reduce(&cc, 100000, 1);
    assert_int_equal(cc.cwnd, 87500);
    us_cc_reduce(&cc, 80000, 0);
    assert_int_equal(cc.cwnd, 40000);
}

static void another_algorithm_keeps_the_window(void **state)
{
    struct us_tcp_cc cc;

    us_cc_choose(&cc, US_CC_CUBIC);
    us_cc_init(&cc, 1000, 0);
    cc.cwnd = 77000;
    us_cc_choose(&cc, US_CC_RENO);
    assert_int_equal(cc.cwnd, 77000);
    us_cc_init(&cc, 500, 0);
    assert_int_equal(cc.kind, US_CC_RENO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_window_by_rfc6928),
        cmocka_unit_test(slow_start_doubles_per_round_trip),
        cmocka_unit_test(avoidance_adds_one_segment_per_round_trip),
        cmocka_unit_test(avoidance_loses_no_acknowledged_byte),
        cmocka_unit_test(a_reduction_forgets_acknowledged_bytes),
        cmocka_unit_test(only_a_filled_window_is_a_limit),
        cmocka_unit_test(recovery_halves_and_deflates),
        cmocka_unit_test(timeout_falls_to_one_segment),
        cmocka_unit_test(idleness_restarts),
        cmocka_unit_test(cubic_does_not_grow_by_a_pause),
        cmocka_unit_test(cubic_falls_to_seven_tenths),
        cmocka_unit_test(cubic_forgets_its_plateau_in_a_timeout),
        cmocka_unit_test(dctcp_halves_for_a_loss_and_less_for_a_mark),
        cmocka_unit_test(another_algorithm_keeps_the_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
