/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of congestion control, and Reno; see tcp_cc.h. */
#include "ustack/tcp/tcp_cc.h"

/* The multiplicative decrease. is_mark: for a CE mark instead of a loss. */
static u_u32 cc_decrease(struct us_tcp_cc *cc, u_u32 flight, int is_mark)
{
    u_u32 ssthresh = flight >> 1; /* RFC 5681 (4) */

    switch ((enum us_cc_kind)cc->kind) {
    case US_CC_RENO:
        break;
    case US_CC_CUBIC:
        ssthresh = us_cubic_decrease(&cc->of.cubic, cc->cwnd, flight);
        break;
    case US_CC_DCTCP:
        if (is_mark)
            ssthresh = us_dctcp_decrease(&cc->of.dctcp, cc->cwnd);
        break;
    }
    cc->credit = 0;
    return u_max32(ssthresh, 2 * cc->mss);
}

u_u32 us_cc_initial_window(u_u32 mss, int syn_was_lost)
{
    if (syn_was_lost)
        return mss;
    return u_min32(10 * mss, u_max32(2 * mss, 14600)); /* RFC 6928 (1) */
}

void us_cc_choose(struct us_tcp_cc *cc, enum us_cc_kind kind)
{
    cc->kind = (u_u8)kind;
    cc->credit = 0;
    u_zero(&cc->of, sizeof(cc->of));
    if (kind == US_CC_DCTCP)
        us_dctcp_init(&cc->of.dctcp);
}

void us_cc_init(struct us_tcp_cc *cc, u_u32 mss, int syn_was_lost)
{
    us_cc_choose(cc, (enum us_cc_kind)cc->kind);
    cc->mss = mss;
    cc->cwnd = us_cc_initial_window(mss, syn_was_lost);
    cc->ssthresh = US_CC_WINDOW_MAX;
}

int us_cc_is_cwnd_limited(const struct us_tcp_cc *cc, u_u32 flight)
{
    if (cc->cwnd < cc->ssthresh) /* it may double before the next ACK of this flight */
        return flight >= cc->cwnd >> 1;
    return flight + cc->mss > cc->cwnd;
}

void us_cc_acked(struct us_tcp_cc *cc, u_u32 acked, u_u32 now_ticks, u_u32 rtt_ticks)
{
    if (cc->cwnd >= US_CC_WINDOW_MAX)
        return;
    if (cc->cwnd < cc->ssthresh) {
        /* An ACK of two segments may count for two, so that delayed ACKs keep the doubling. */
        cc->cwnd += u_min32(acked, 2 * cc->mss);
        return;
    }
    if (cc->kind == US_CC_CUBIC) {
        cc->cwnd += us_cubic_growth(&cc->of.cubic, cc->cwnd, cc->mss, &cc->credit, acked, now_ticks,
                                    rtt_ticks);
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
    cc->ssthresh = cc_decrease(cc, flight, 0);
    cc->cwnd = cc->ssthresh + 3 * cc->mss;
}

void us_cc_reduce(struct us_tcp_cc *cc, u_u32 flight, int is_mark)
{
    /* SACKed bytes are in flight in the sense of RFC 5681, but the window was not that large. */
    cc->ssthresh = cc_decrease(cc, u_min32(flight, cc->cwnd), is_mark);
    cc->cwnd = cc->ssthresh;
}

void us_cc_inflate(struct us_tcp_cc *cc)
{
    if (cc->cwnd < US_CC_WINDOW_MAX)
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
    /*
     * RFC 7661: at least the validated window. The initial window is always validated (RFC 6928),
     * however little was in flight when the timer expired.
     */
    if (!again)
        cc->ssthresh = cc_decrease(
            cc, u_min32(u_max32(flight, us_cc_initial_window(cc->mss, 0)), cc->cwnd), 0);
    if (cc->kind == US_CC_CUBIC)
        us_cubic_timeout(&cc->of.cubic);
    cc->cwnd = cc->mss;
    cc->credit = 0;
}

void us_cc_restart(struct us_tcp_cc *cc)
{
    cc->cwnd = u_max32(cc->cwnd, u_min32(us_cc_initial_window(cc->mss, 0), cc->ssthresh));
}

void us_cc_undo(struct us_tcp_cc *cc, u_u32 cwnd, u_u32 ssthresh)
{
    cc->cwnd = u_max32(cc->cwnd, cwnd);
    cc->ssthresh = u_max32(cc->ssthresh, ssthresh);
    cc->credit = 0;
    if (cc->kind == US_CC_CUBIC)
        us_cubic_undo(&cc->of.cubic, cc->cwnd);
}

void us_cc_idle(struct us_tcp_cc *cc, u_u64 pause_us, u_u32 rto_us)
{
    u_u32 floor = us_cc_initial_window(cc->mss, 0);

    if (cc->cwnd <= floor)
        return;
    cc->ssthresh = u_max32(cc->ssthresh, (cc->cwnd >> 1) + (cc->cwnd >> 2));
    us_cc_not_limited(cc);
    while (pause_us > rto_us && cc->cwnd > floor) {
        pause_us -= rto_us;
        cc->cwnd >>= 1;
    }
    cc->cwnd = u_max32(cc->cwnd, floor);
}
