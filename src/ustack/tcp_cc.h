/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control: Reno (RFC 5681) with the recovery of NewReno (RFC 6582), in bytes.
 * Knows of windows and amounts only, not of connections, segments or timers.
 */
#ifndef USTACK_TCP_CC_H
#define USTACK_TCP_CC_H

#include "base/base.h"

struct us_tcp_cc {
    u_u32 cwnd;     /* bytes */
    u_u32 ssthresh; /* bytes */
    u_u32 credit;   /* bytes acknowledged towards the next step of congestion avoidance */
    u_u32 mss;      /* sender maximum segment size, bytes */
};

/* The initial window of RFC 6928, or one segment if the SYN got lost (RFC 5681 3.1). */
u_u32 us_cc_initial_window(u_u32 mss, int syn_was_lost);

void us_cc_init(struct us_tcp_cc *cc, u_u32 mss, int syn_was_lost);

/*
 * Whether `flight` unacknowledged bytes are so many that the window is what limits the sender. Only
 * then it may grow: a window that was never filled has not been tested (RFC 7661 section 1).
 */
int us_cc_is_limit(const struct us_tcp_cc *cc, u_u32 flight);

/* New data was acknowledged outside of recovery, sent while the window was the limit. */
void us_cc_acked(struct us_tcp_cc *cc, u_u32 acked);

/* Three duplicate ACKs: RFC 5681 3.2 (2) and (3). */
void us_cc_enter_recovery(struct us_tcp_cc *cc, u_u32 flight);

/* A loss seen by SACK: half of what was in flight, RFC 6675 section 5 (4.2). */
void us_cc_reduce(struct us_tcp_cc *cc, u_u32 flight);

/* One more duplicate ACK in recovery: RFC 5681 3.2 (4). */
void us_cc_inflate(struct us_tcp_cc *cc);

/* RFC 6582 3.2 (3), an ACK of `acked` new bytes that does not end the recovery. */
void us_cc_partial_ack(struct us_tcp_cc *cc, u_u32 acked);

/* RFC 6582 3.2 (3), an ACK of all that was sent when the loss was seen. */
void us_cc_leave_recovery(struct us_tcp_cc *cc, u_u32 flight);

/* The retransmission timer has expired: RFC 5681 3.1. `again`: for the same segment as before. */
void us_cc_timeout(struct us_tcp_cc *cc, u_u32 flight, int again);

/* Nothing was sent for longer than a timeout: RFC 5681 4.1. */
void us_cc_idle(struct us_tcp_cc *cc);

#endif
