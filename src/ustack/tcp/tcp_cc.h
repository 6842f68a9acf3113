/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control, in bytes: the parts that all algorithms share (slow start, NewReno recovery,
 * the window after a timeout or an idle period) and the choice of one. Depends on windows, amounts
 * and time only, not on connections, segments or timers.
 *
 * An algorithm decides how far cwnd falls on congestion and how it grows in congestion avoidance:
 * Reno (RFC 5681) in tcp_cc.c, CUBIC in tcp_cubic.c, DCTCP in tcp_dctcp.c, chosen by a switch.
 * Requests and responses that cwnd does not limit never get here.
 *
 * Times are in ticks of us_ts_clock(), about a millisecond.
 */
#ifndef USTACK_TCP_TCP_CC_H
#define USTACK_TCP_TCP_CC_H

#include "base/base.h"
#include "ustack/tcp/tcp_cubic.h"
#include "ustack/tcp/tcp_dctcp.h"
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

/* The initial window of RFC 6928, or one segment if the SYN was lost (RFC 5681 3.1). */
u_u32 us_cc_initial_window(u_u32 mss, int syn_was_lost);

/* Chooses the algorithm; the windows stay. */
void us_cc_choose(struct us_tcp_cc *cc, enum us_cc_kind kind);

/* Sets the initial window for this MSS; the algorithm stays. */
void us_cc_init(struct us_tcp_cc *cc, u_u32 mss, int syn_was_lost);

/*
 * Whether cwnd limits the sender with `flight` unacknowledged bytes. Only then it may grow (RFC
 * 7661 section 1).
 */
int us_cc_is_cwnd_limited(const struct us_tcp_cc *cc, u_u32 flight);

/* A cheaper check: if true, us_cc_is_cwnd_limited() is false. */
U_INLINE int us_cc_is_far_from_limit(const struct us_tcp_cc *cc, u_u32 flight)
{
    return flight + cc->mss <= cc->cwnd >> 1;
}

/* New data, sent while cwnd was the limit, was acknowledged outside of recovery. */
void us_cc_acked(struct us_tcp_cc *cc, u_u32 acked, u_u32 now_ticks, u_u32 rtt_ticks);

/* Likewise, but cwnd was not the limit: CUBIC's time does not run. */
U_INLINE void us_cc_not_limited(struct us_tcp_cc *cc)
{
    if (cc->kind == US_CC_CUBIC)
        cc->of.cubic.running = 0;
}

/* Three duplicate ACKs without SACK: RFC 5681 3.2 (2) and (3). */
void us_cc_enter_recovery(struct us_tcp_cc *cc, u_u32 flight);

/*
 * A loss detected by SACK, or a mark (RFC 3168 6.1.2): sets ssthresh, and cwnd to it. In a recovery
 * with SACK tcp_recovery.c lowers cwnd gradually (RFC 9937).
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

/*
 * All data is acknowledged after a timeout: raises cwnd to the initial window (RFC 6928), at most
 * to ssthresh. So a sender of short responses, which never fills cwnd, is not left with one
 * segment.
 */
void us_cc_restart(struct us_tcp_cc *cc);

/* Undoes the last reduction (RFC 4015 3.2): these were the windows before it. */
void us_cc_undo(struct us_tcp_cc *cc, u_u32 cwnd, u_u32 ssthresh);

/*
 * Nothing was sent for pause_us, longer than rto_us: halves cwnd for each RTO, at lowest to the
 * initial window (RFC 5681 4.1); ssthresh remembers it (RFC 2861), so that slow start restores it.
 */
void us_cc_idle(struct us_tcp_cc *cc, u_u64 pause_us, u_u32 rto_us);

#endif
