/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control, in bytes: what all algorithms share (slow start, the recovery of NewReno, the
 * window after a timeout or a pause) and the choice of one. Knows of windows, amounts and the time
 * only, not of connections, segments or timers.
 *
 * An algorithm answers two questions: how far the window falls when there is congestion, and how it
 * grows in congestion avoidance. Reno (RFC 5681) answers here, CUBIC in tcp_cubic.c, DCTCP in
 * tcp_dctcp.c. They are told apart by a switch, not by pointers to functions: nothing of this is on
 * the path of a request and its response, whose window is never the limit.
 *
 * Times are in ticks of us_ts_clock(), about a millisecond.
 */
#ifndef USTACK_TCP_CC_H
#define USTACK_TCP_CC_H

#include "base/base.h"
#include "ustack/tcp_cubic.h"
#include "ustack/tcp_dctcp.h"
#include "ustack/ustack.h"

struct us_tcp_cc {
    u_u32 cwnd;     /* bytes */
    u_u32 ssthresh; /* bytes */
    u_u32 credit;   /* bytes acknowledged towards the next step of congestion avoidance */
    u_u32 mss;      /* sender maximum segment size, bytes */
    u_u8 kind;      /* enum us_cc_kind */
    union {
        struct us_cubic cubic;
        struct us_dctcp dctcp;
    } of; /* the state of the algorithm that `kind` says */
};

/* No window is larger than this: the largest that window scaling can express. */
enum { US_CC_WINDOW_MAX = 1 << 30 };

/* The initial window of RFC 6928, or one segment if the SYN got lost (RFC 5681 3.1). */
u_u32 us_cc_initial_window(u_u32 mss, int syn_was_lost);

/* Begins with this algorithm; the windows stay. */
void us_cc_choose(struct us_tcp_cc *cc, enum us_cc_kind kind);

/* Begins anew with these segments; the algorithm stays. */
void us_cc_init(struct us_tcp_cc *cc, u_u32 mss, int syn_was_lost);

/*
 * Whether `flight` unacknowledged bytes are so many that the window is what limits the sender. Only
 * then it may grow: a window that was never filled has not been tested (RFC 7661 section 1).
 */
int us_cc_is_limit(const struct us_tcp_cc *cc, u_u32 flight);

/* Whether us_cc_is_limit() surely says no, as it does of a flight that is far below the window. */
U_INLINE int us_cc_is_roomy(const struct us_tcp_cc *cc, u_u32 flight)
{
    return flight + cc->mss <= cc->cwnd >> 1;
}

/* New data was acknowledged outside of recovery, sent while the window was the limit. */
void us_cc_acked(struct us_tcp_cc *cc, u_u32 acked, u_u32 now_ticks, u_u32 rtt_ticks);

/* Likewise, but the window was not the limit: the time that passes is not to count for CUBIC. */
U_INLINE void us_cc_not_limited(struct us_tcp_cc *cc)
{
    if (cc->kind == US_CC_CUBIC)
        cc->of.cubic.running = 0;
}

/* Three duplicate ACKs without SACK: RFC 5681 3.2 (2) and (3). */
void us_cc_enter_recovery(struct us_tcp_cc *cc, u_u32 flight);

/*
 * A loss seen by SACK, or a mark (RFC 3168 6.1.2): sets ssthresh, and the window to it. In a
 * recovery with SACK tcp_recovery.c takes the window there step by step (RFC 9937).
 */
void us_cc_reduce(struct us_tcp_cc *cc, u_u32 flight, int is_mark);

/* One more duplicate ACK in recovery: RFC 5681 3.2 (4). */
void us_cc_inflate(struct us_tcp_cc *cc);

/* RFC 6582 3.2 (3), an ACK of `acked` new bytes that does not end the recovery. */
void us_cc_partial_ack(struct us_tcp_cc *cc, u_u32 acked);

/* RFC 6582 3.2 (3), an ACK of all that was sent when the loss was seen. */
void us_cc_leave_recovery(struct us_tcp_cc *cc, u_u32 flight);

/* The retransmission timer has expired: RFC 5681 3.1. `again`: for the same segment as before. */
void us_cc_timeout(struct us_tcp_cc *cc, u_u32 flight, int again);

/* The last reduction was needless; these were the windows before it (RFC 4015 3.2). */
void us_cc_undo(struct us_tcp_cc *cc, u_u32 cwnd, u_u32 ssthresh);

/*
 * Nothing was sent for pause_us, longer than the timeout rto_us. The window falls by half for each
 * timeout that has passed, to the initial window (RFC 5681 4.1) at the lowest; ssthresh remembers
 * it, as RFC 2861 has it, so that it comes back in slow start.
 */
void us_cc_idle(struct us_tcp_cc *cc, u_u64 pause_us, u_u32 rto_us);

#endif
