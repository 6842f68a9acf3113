/* SPDX-License-Identifier: BSD-3-Clause */
/* CUBIC against the formulas of RFC 9438 in floating point. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ustack/tcp/tcp_cubic.h"

enum { MSS = 1000 };

#define TICK_S 0.001024

static double formula(double w_max, double k_s, double t_s)
{
    return 0.4 * (t_s - k_s) * (t_s - k_s) * (t_s - k_s) + w_max;
}

/* Congestion at this window; returns the window that remains. */
static u_u32 congest(struct us_cubic *cubic, u_u32 cwnd)
{
    return us_cubic_decrease(cubic, cwnd, cwnd);
}

static void decrease_is_seven_tenths(void **state)
{
    struct us_cubic cubic;

    memset(&cubic, 0, sizeof(cubic));
    assert_int_equal(us_cubic_decrease(&cubic, 100000, 90000), 63000);
    assert_int_equal(us_cubic_plateau(&cubic), 100000);
    assert_int_equal(us_cubic_decrease(&cubic, 1u << 30, 1u << 30), 751619276);
}

static void fast_convergence_gives_way(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;

    memset(&cubic, 0, sizeof(cubic));
    congest(&cubic, 100000);
    congest(&cubic, 80000); /* below the plateau of 100000: fast convergence */
    assert_int_equal(us_cubic_plateau(&cubic), 68000);
    congest(&cubic, 70000); /* above the plateau */
    assert_int_equal(us_cubic_plateau(&cubic), 70000);
    congest(&cubic, 70000); /* on it */
    assert_int_equal(us_cubic_plateau(&cubic), 70000);
    congest(&cubic, 60000);
    us_cubic_growth(&cubic, 80000, MSS, &credit, 0, 0, 0); /* beyond: a new plateau */
    assert_int_equal(us_cubic_plateau(&cubic), 80000);
}

static void curve_follows_the_formula(void **state)
{
    static const u_u32 windows[] = {20, 300, 5000, 100000};
    unsigned i;
    u_u32 t;

    for (i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        struct us_cubic cubic;
        u_u32 credit = 0;
        double w_max = windows[i];
        double k_s = cbrt(w_max * 0.3 / 0.4);
        u_u32 cwnd;

        memset(&cubic, 0, sizeof(cubic));
        cwnd = congest(&cubic, windows[i] * MSS);
        us_cubic_growth(&cubic, cwnd, MSS, &credit, 0, 5000, 0);
        assert_true(fabs(cubic.k_ticks * TICK_S - k_s) < 0.002 + k_s * 0.001);
        for (t = 0; t < 60000; t += 97) {
            double expected = formula(w_max, k_s, t * TICK_S) * MSS;
            double got = us_cubic_window(&cubic, MSS, t);
            assert_true(fabs(got - expected) < MSS + expected * 0.01);
        }
    }
}

/* One round trip of ACKs of two segments each. */
static u_u32 round_trip(struct us_cubic *cubic, u_u32 cwnd, u_u32 *credit, u_u32 now, u_u32 rtt)
{
    u_u32 acked;
    u_u32 end = cwnd;

    for (acked = 0; acked < end; acked += 2 * MSS)
        cwnd += us_cubic_growth(cubic, cwnd, MSS, credit, 2 * MSS, now, rtt);
    return cwnd;
}

static void window_comes_back_concave_and_goes_on_convex(void **state)
{
    enum { RTT = 100, WINDOW = 2000 };
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 cwnd;
    u_u32 now;
    double k_s = cbrt(WINDOW * 0.3 / 0.4);

    memset(&cubic, 0, sizeof(cubic));
    cwnd = congest(&cubic, WINDOW * MSS);
    for (now = 0; now * TICK_S < 2 * k_s; now += RTT) {
        double expected = formula(WINDOW, k_s, (now + RTT) * TICK_S) * MSS;
        cwnd = round_trip(&cubic, cwnd, &credit, now, RTT);
        assert_true(cwnd < expected * 1.02 + 2 * MSS);
        assert_true(cwnd > expected * 0.96 - 2 * MSS);
    }
    assert_true(cwnd > 2200000);
}

static void grows_like_reno_where_reno_is_faster(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 cwnd;
    u_u32 i;

    memset(&cubic, 0, sizeof(cubic));
    cwnd = congest(&cubic, 20 * MSS); /* a round trip of one tick: the curve is flat */
    assert_int_equal(cwnd, 14000);
    for (i = 0; i < 13; i++)
        cwnd = round_trip(&cubic, cwnd, &credit, i, 1);
    /* 9/17 of a segment per round trip, up to the window before the reduction */
    assert_in_range(cwnd, 20 * MSS, 21 * MSS);
    for (i = 0; i < 10; i++)
        cwnd = round_trip(&cubic, cwnd, &credit, 13 + i, 1);
    assert_in_range(cwnd, 28 * MSS, 31 * MSS); /* then a whole one */
}

/* RFC 9438 4.3: from the window before the reduction on, that included, alpha is 1. */
static void the_estimate_grows_faster_from_the_old_window_on(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 est;

    for (est = 20 * MSS - 1; est <= 20 * MSS; est++) {
        memset(&cubic, 0, sizeof(cubic));
        congest(&cubic, 20 * MSS);
        us_cubic_growth(&cubic, 14 * MSS, MSS, &credit, 0, 0, 0);
        cubic.est = est;
        us_cubic_growth(&cubic, 14 * MSS, MSS, &credit, 14 * MSS, 0, 0);
        assert_int_equal(cubic.est, est < 20 * MSS ? est : est + MSS);
    }
    (void)state;
}

static void no_more_than_half_a_window_in_a_round_trip(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 cwnd = 100 * MSS;

    memset(&cubic, 0, sizeof(cubic));
    us_cubic_growth(&cubic, cwnd, MSS, &credit, 0, 0, 0);
    cwnd = round_trip(&cubic, cwnd, &credit, 60000, 60000);
    assert_in_range(cwnd, 130 * MSS, 170 * MSS);
}

/* Bytes that were acknowledged while the curve was flat do not speed up later growth. */
static void no_more_than_half_a_window_after_a_flat_curve(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 cwnd = 100 * MSS;
    unsigned i;

    memset(&cubic, 0, sizeof(cubic));
    for (i = 0; i < 3; i++)
        assert_in_range(us_cubic_growth(&cubic, cwnd, MSS, &credit, cwnd, 0, 200), 0, 3 * MSS);
    assert_int_equal(us_cubic_growth(&cubic, cwnd, MSS, &credit, cwnd, 60000, 200), 51 * MSS);
    (void)state;
}

/* W_est counts from the reduction on: bytes acknowledged before it move no step of it forward. */
static void the_estimate_begins_anew(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    unsigned i;

    memset(&cubic, 0, sizeof(cubic));
    for (i = 0; i < 2; i++) {
        congest(&cubic, 20 * MSS);
        us_cubic_growth(&cubic, 14 * MSS, MSS, &credit, 14 * MSS, 0, 0);
        assert_int_equal(cubic.est, 14 * MSS);
    }
    (void)state;
}

/* An ACK of more than a window, as after a timeout, counts for a window. */
static void an_ack_moves_the_estimate_by_one_segment(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;
    u_u32 cwnd = 10 * MSS;

    memset(&cubic, 0, sizeof(cubic));
    us_cubic_growth(&cubic, cwnd, MSS, &credit, 5 * cwnd, 0, 0);
    assert_int_equal(cubic.est, 11 * MSS);
    us_cubic_growth(&cubic, cwnd, MSS, &credit, 0, 0, 0);
    assert_int_equal(cubic.est, 11 * MSS);
    (void)state;
}

static void timeout_begins_with_the_plateau(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;

    memset(&cubic, 0, sizeof(cubic));
    congest(&cubic, 1000 * MSS);
    us_cubic_timeout(&cubic);
    us_cubic_growth(&cubic, 500 * MSS, MSS, &credit, 0, 0, 0);
    assert_int_equal(cubic.k_ticks, 0);
    assert_int_equal(us_cubic_plateau(&cubic), 500 * MSS);
}

static void undo_goes_on_from_the_old_window(void **state)
{
    struct us_cubic cubic;
    u_u32 credit = 0;

    memset(&cubic, 0, sizeof(cubic));
    congest(&cubic, 1000 * MSS);
    us_cubic_undo(&cubic, 1000 * MSS);
    us_cubic_growth(&cubic, 1000 * MSS, MSS, &credit, 0, 0, 0);
    assert_int_equal(cubic.k_ticks, 0);
    assert_int_equal(us_cubic_plateau(&cubic), 1000 * MSS);
}

/* Values at the edges of their types: nothing overflows, the window never shrinks. */
static void extreme_windows(void **state)
{
    static const u_u32 windows[] = {1, 64, 9000, 1u << 20, (1u << 30) - 1, 1u << 30};
    static const u_u32 sizes[] = {64, 536, 1460, 9216};
    static const u_u32 times[] = {0, 1, 65535, 65536, 0x7fffffff, 0xffffffff};
    unsigned w;
    unsigned m;
    unsigned t;

    for (w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
        for (m = 0; m < 4; m++) {
            for (t = 0; t < 6; t++) {
                struct us_cubic cubic;
                u_u32 credit = 0;
                u_u32 cwnd;
                u_u32 growth;

                memset(&cubic, 0, sizeof(cubic));
                cwnd = congest(&cubic, windows[w]);
                cwnd = cwnd < sizes[m] ? sizes[m] : cwnd;
                us_cubic_growth(&cubic, cwnd, sizes[m], &credit, 0, 0, 0);
                growth = us_cubic_growth(&cubic, cwnd, sizes[m], &credit, 1u << 30, times[t], 1);
                assert_true(growth <= cwnd / 2 + 2 * sizes[m]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decrease_is_seven_tenths),
        cmocka_unit_test(fast_convergence_gives_way),
        cmocka_unit_test(curve_follows_the_formula),
        cmocka_unit_test(window_comes_back_concave_and_goes_on_convex),
        cmocka_unit_test(grows_like_reno_where_reno_is_faster),
        cmocka_unit_test(the_estimate_grows_faster_from_the_old_window_on),
        cmocka_unit_test(no_more_than_half_a_window_in_a_round_trip),
        cmocka_unit_test(no_more_than_half_a_window_after_a_flat_curve),
        cmocka_unit_test(the_estimate_begins_anew),
        cmocka_unit_test(an_ack_moves_the_estimate_by_one_segment),
        cmocka_unit_test(timeout_begins_with_the_plateau),
        cmocka_unit_test(undo_goes_on_from_the_old_window),
        cmocka_unit_test(extreme_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
