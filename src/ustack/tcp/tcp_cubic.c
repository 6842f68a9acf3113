/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC; see tcp_cubic.h.
 *
 * The curve is W(t) = C * (t - K)^3 + W_max in segments and seconds, with C = 0.4. A tick is 1.024
 * ms, so in segments and ticks C is 0.4 * 0.001024^3 = 4.295e-10, which is 472.24 / 2^40.
 */
#include "ustack/tcp/tcp_cubic.h"

#include "base/arith.h"

enum {
    CUBIC_C_40 = 472,          /* C times 2^40, for ticks */
    CUBIC_C_INVERSE = 9094947, /* 1 / C / 2^8 */
    CUBIC_T_MAX = 65535,      /* ticks, 67 s: the curve is 123,000 segments away from its plateau */
    CUBIC_ROUND_MAX_SHIFT = 1 /* 4.2: no more than half the window within a round trip */
};

static const u_u32 cubic_window_max = (u_u32)1 << 30;

/* part / whole of the third argument, without leaving 32 bits; rounded down. */
static u_u32 cubic_share(u_u32 window, u_u32 part, u_u32 whole)
{
    return window / whole * part + window % whole * part / whole;
}

u_u32 us_cubic_plateau(const struct us_cubic *cubic)
{
    /* (1 + beta) / 2 = 17/20 */
    return cubic->fell_short ? cubic_share(cubic->prior, 17, 20) : cubic->prior;
}

u_u32 us_cubic_decrease(struct us_cubic *cubic, u_u32 cwnd, u_u32 flight)
{
    cubic->fell_short = cwnd < us_cubic_plateau(cubic);
    cubic->prior = cwnd;
    cubic->running = 0;
    return cubic_share(flight, 7, 10);
}

void us_cubic_timeout(struct us_cubic *cubic)
{
    cubic->prior = 0;
    cubic->fell_short = 0;
    cubic->running = 0;
}

void us_cubic_undo(struct us_cubic *cubic, u_u32 cwnd)
{
    cubic->prior = cwnd;
    cubic->fell_short = 0;
    cubic->running = 0;
}

/* K = cube root of (W_max - cwnd) / C (figure 2), in ticks. */
static u_u32 cubic_k_ticks(u_u32 bytes, u_u32 mss)
{
    u_u32 segments = bytes / mss;
    u_u32 fraction = ((bytes % mss) << 8) / mss;
    u_u64 segments_8 = ((u_u64)segments << 8) + fraction;

    return u_min32(u_cbrt64(segments_8 * CUBIC_C_INVERSE), CUBIC_T_MAX);
}

static void cubic_start(struct us_cubic *cubic, u_u32 cwnd, u_u32 mss, u_u32 now_ticks)
{
    u_u32 plateau = us_cubic_plateau(cubic);

    cubic->running = 1;
    cubic->from_ticks = now_ticks;
    cubic->est = cwnd;
    cubic->est_credit = 0;
    cubic->k_ticks = 0;
    if (cwnd < plateau) {
        cubic->k_ticks = (u_u16)cubic_k_ticks(plateau - cwnd, mss);
    } else {
        cubic->prior = cwnd;
        cubic->fell_short = 0;
    }
}

u_u32 us_cubic_window(const struct us_cubic *cubic, u_u32 mss, u_u32 t_ticks)
{
    u_u32 k = cubic->k_ticks;
    int before = t_ticks < k;
    u_u64 d = u_min32(before ? k - t_ticks : t_ticks - k, CUBIC_T_MAX);
    u_u32 plateau = us_cubic_plateau(cubic);
    /* 48 + 9 bits, then 37 + 14 */
    u_u64 bytes = ((d * d * d * CUBIC_C_40) >> 20) * mss >> 20;
    u_u32 delta = (u_u32)u_min64(bytes, cubic_window_max);

    if (before)
        return plateau > delta ? plateau - delta : 0;
    return u_min32(plateau + delta, cubic_window_max);
}

/* W_est (4.3): alpha is 9/17 until the window is what it was before the reduction, then 1. */
static void cubic_estimate(struct us_cubic *cubic, u_u32 cwnd, u_u32 mss, u_u32 acked)
{
    u_u32 step = cubic->est < cubic->prior ? cwnd + cubic_share(cwnd, 8, 9) : cwnd;

    cubic->est_credit += u_min32(acked, cwnd);
    if (cubic->est_credit < step)
        return;
    cubic->est_credit -= step;
    cubic->est += mss;
}

/* How many bytes must be acknowledged for a segment more if the window is to be `target`. */
static u_u32 cubic_step(u_u32 cwnd, u_u32 mss, u_u32 target)
{
    return u_max32(u_muldiv32(cwnd, mss, target - cwnd), 1);
}

u_u32 us_cubic_growth(struct us_cubic *cubic, u_u32 cwnd, u_u32 mss, u_u32 *credit, u_u32 acked,
                      u_u32 now_ticks, u_u32 rtt_ticks)
{
    u_u32 limit = cwnd + (cwnd >> CUBIC_ROUND_MAX_SHIFT);
    u_u32 growth = 0;
    u_u32 target;

    if (!cubic->running)
        cubic_start(cubic, cwnd, mss, now_ticks);
    target = us_cubic_window(cubic, mss, now_ticks - cubic->from_ticks + rtt_ticks);
    target = u_min32(target, limit);
    if (target > cwnd) {
        u_u32 step = cubic_step(cwnd, mss, target);
        u_u32 steps;

        *credit += u_min32(acked, cwnd);
        steps = *credit / step;
        *credit %= step;
        growth = u_min32(steps * mss, target - cwnd + mss);
    }
    cubic_estimate(cubic, cwnd, mss, acked);
    if (cubic->est > cwnd + growth)
        growth = cubic->est - cwnd; /* the Reno-friendly region */
    return growth;
}
