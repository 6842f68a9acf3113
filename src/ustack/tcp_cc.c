/* SPDX-License-Identifier: BSD-3-Clause */
/* Reno; see tcp_cc.h. */
#include "ustack/tcp_cc.h"

/* No window is larger than this: the largest that window scaling can express. */
static const u_u32 cc_window_max = (u_u32)1 << 30;

static u_u32 half_flight(const struct us_tcp_cc *cc, u_u32 flight)
{
    return u_max32(flight >> 1, 2 * cc->mss); /* RFC 5681 (4) */
}

u_u32 us_cc_initial_window(u_u32 mss, int syn_was_lost)
{
    if (syn_was_lost)
        return mss;
    return u_min32(10 * mss, u_max32(2 * mss, 14600)); /* RFC 6928 (1) */
}

void us_cc_init(struct us_tcp_cc *cc, u_u32 mss, int syn_was_lost)
{
    cc->mss = mss;
    cc->cwnd = us_cc_initial_window(mss, syn_was_lost);
    cc->ssthresh = cc_window_max;
    cc->credit = 0;
}

int us_cc_is_limit(const struct us_tcp_cc *cc, u_u32 flight)
{
    if (cc->cwnd < cc->ssthresh) /* it may double before the next ACK of this flight */
        return flight >= cc->cwnd >> 1;
    return flight + cc->mss > cc->cwnd;
}

void us_cc_acked(struct us_tcp_cc *cc, u_u32 acked)
{
    if (cc->cwnd >= cc_window_max)
        return;
    if (cc->cwnd < cc->ssthresh) {
        /* An ACK of two segments may count for two, so that delayed ACKs keep the doubling. */
        cc->cwnd += u_min32(acked, 2 * cc->mss);
        return;
    }
    cc->credit += u_min32(acked, cc->cwnd);
    if (cc->credit >= cc->cwnd) {
        cc->credit -= cc->cwnd;
        cc->cwnd += cc->mss;
    }
}

void us_cc_enter_recovery(struct us_tcp_cc *cc, u_u32 flight)
{
    cc->ssthresh = half_flight(cc, flight);
    cc->cwnd = cc->ssthresh + 3 * cc->mss;
    cc->credit = 0;
}

void us_cc_reduce(struct us_tcp_cc *cc, u_u32 flight)
{
    /* SACKed bytes are in flight in the sense of RFC 5681, but the window was not that large. */
    cc->ssthresh = half_flight(cc, u_min32(flight, cc->cwnd));
    cc->cwnd = cc->ssthresh;
    cc->credit = 0;
}

void us_cc_inflate(struct us_tcp_cc *cc)
{
    if (cc->cwnd < cc_window_max)
        cc->cwnd += cc->mss;
}

void us_cc_partial_ack(struct us_tcp_cc *cc, u_u32 acked)
{
    cc->cwnd = cc->cwnd > acked ? cc->cwnd - acked : 0;
    if (acked >= cc->mss)
        cc->cwnd += cc->mss;
    cc->cwnd = u_max32(cc->cwnd, cc->mss);
}

void us_cc_leave_recovery(struct us_tcp_cc *cc, u_u32 flight)
{
    cc->cwnd = u_min32(cc->ssthresh, u_max32(flight, cc->mss) + cc->mss);
    cc->credit = 0;
}

void us_cc_timeout(struct us_tcp_cc *cc, u_u32 flight, int again)
{
    if (!again)
        cc->ssthresh = half_flight(cc, flight);
    cc->cwnd = cc->mss;
    cc->credit = 0;
}

void us_cc_idle(struct us_tcp_cc *cc)
{
    cc->cwnd = u_min32(cc->cwnd, us_cc_initial_window(cc->mss, 0));
}
