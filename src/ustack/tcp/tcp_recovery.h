/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery with SACK: RFC 6675 decides what is sent, a simple form of RACK-TLP (RFC 8985)
 * decides what is lost.
 *
 * A scoreboard (tcp_sack.h) exists only while data is missing. Meanwhile cwnd limits the bytes in
 * the network (`pipe`), SND.NXT is SND.MAX, and LOST ranges are retransmitted before new data is
 * sent. Without SACK, and without memory for a scoreboard, tcp_ack.c implements NewReno.
 *
 * - A hole is lost when three segments behind it have arrived, or a quarter of a round trip after
 *   the first of them (RACK.reo_wnd). Once reordering was seen only the time counts, and each
 *   D-SACK of a needless retransmission lengthens it.
 * - A lost retransmission is found by the same rule and retransmitted without a timeout. It does
 *   not reduce cwnd once more.
 * - When no ACK arrives for two round trips a tail loss probe (TLP) is sent, in recovery too, where
 *   it replaces the rescue retransmission of RFC 6675. Further probes follow at doubled intervals
 *   (as in RFC 9002 6.2) before the RTO reduces cwnd to one segment.
 * - After an RTO SACKed data stays SACKed (RFC 6675 section 5.1) unless the peer has reneged, or
 *   the same segment times out again.
 * - If all retransmissions were needless, by timestamps (Eifel, RFC 3522, also without SACK) or by
 *   D-SACK, cwnd and ssthresh are restored (RFC 4015).
 */
#ifndef USTACK_TCP_TCP_RECOVERY_H
#define USTACK_TCP_TCP_RECOVERY_H

#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_timer.h"

/* Frees the scoreboard, if there is one. */
void us_recovery_free_scoreboard(struct us_stack *stack, struct us_conn *conn);

/* Whether us_recovery_ack() has anything to do for a segment. */
U_INLINE int us_recovery_concerns(const struct us_conn *conn, const struct us_seg *seg)
{
    return conn->sack != U_NULL || seg->opts.sack_blocks != 0 ||
           (conn->flags & US_CF_TLP_OUTSTANDING) || (conn->rec.flags & US_RF_EIFEL);
}

/*
 * Processes the SACK blocks of an acceptable segment, and its acknowledgment as far as it concerns
 * the scoreboard, after SND.UNA was advanced. Returns whether the peer reports new data that
 * arrived out of order.
 */
int us_recovery_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* cwnd is about to be reduced: saves it, in case the reduction is undone. */
void us_recovery_save_for_undo(struct us_conn *conn);

/* The RTO has expired: marks all as lost. Returns 0 if there is no scoreboard to do so. */
int us_recovery_timeout(struct us_stack *stack, struct us_conn *conn);

/* The timers US_TCP_TIMER_REORDER and US_TCP_TIMER_TLP have expired. */
void us_recovery_reorder_timeout(struct us_stack *stack, struct us_conn *conn);
void us_recovery_tlp_timeout(struct us_stack *stack, struct us_conn *conn);

/* Starts the timer for the data in flight: reordering, TLP or RTO, whichever is due first. */
void us_recovery_arm_timer(struct us_stack *stack, struct us_conn *conn);

enum {
    US_SINGLE_ACKS_UNDELAYED = 3 /* after so many in a row the peer is taken not to delay ACKs */
};

enum {
    US_ACK_DELAY_MAX_US = 500 * 1000, /* RFC 9293 3.8.6.3: no host delays an ACK for longer */
    US_ACK_DELAY_OLD_US = 200 * 1000, /* of hosts without SACK */
    US_ACK_DELAY_DOUBLINGS_MAX = 10
};

/* The time that the peer may delay its ACK of a single segment (RFC 9293 3.8.6.3). */
U_INLINE u_u32 us_recovery_peer_ack_delay_us(const struct us_stack *stack,
                                             const struct us_conn *conn)
{
    u_u32 delay_us = stack->config.peer_ack_delay_us;

    if (conn->rec.consecutive_single_acks >= US_SINGLE_ACKS_UNDELAYED || delay_us == 0)
        return 0;
    if (!(conn->opts & US_OPT_SACK))
        delay_us = u_max32(delay_us, US_ACK_DELAY_OLD_US);
    return u_min32(delay_us << conn->rec.ack_delay_doublings, US_ACK_DELAY_MAX_US);
}

/* The ACK of a single segment came later than allowed for, or was lost: allows more time. */
U_INLINE void us_recovery_raise_ack_delay(struct us_conn *conn)
{
    conn->rec.consecutive_single_acks = 0;
    conn->rtt.settled = 0; /* us_recovery_lower_ack_delay() needs the next sample */
    if (conn->rec.ack_delay_doublings < US_ACK_DELAY_DOUBLINGS_MAX)
        conn->rec.ack_delay_doublings++;
}

/* A new round-trip time: if it took at most half of the allowed delay, allows less. */
U_INLINE void us_recovery_lower_ack_delay(const struct us_stack *stack, struct us_conn *conn,
                                          u_u64 sample_us)
{
    if (U_LIKELY(conn->rec.ack_delay_doublings == 0))
        return;
    if (sample_us <= conn->rtt.min_rtt_us + (us_recovery_peer_ack_delay_us(stack, conn) >> 1))
        conn->rec.ack_delay_doublings--;
    if (conn->rec.ack_delay_doublings != 0)
        conn->rtt.settled = 0;
}

/* The PTO of a segment that is sent for the first time, with nothing else in flight. */
U_INLINE u_u32 us_recovery_single_segment_pto_us(const struct us_stack *stack,
                                                 const struct us_conn *conn)
{
    u_u32 delay_us = us_recovery_peer_ack_delay_us(stack, conn);

    return us_rtt_pto_us(&conn->rtt, delay_us,
                         us_rtt_rto_us(&conn->rtt, delay_us, conn->rtt.max_us));
}

/*
 * The RTO of the data in flight. It allows for the peer's delayed ACK if a single segment is in
 * flight and the peer is not known to acknowledge each one immediately.
 */
u_u32 us_recovery_rto_us(const struct us_stack *stack, const struct us_conn *conn);

/* The PTO of the data in flight (RFC 8985 7.2), in microseconds. */
u_u32 us_recovery_pto_us(const struct us_stack *stack, const struct us_conn *conn);

/* `acked` bytes were acknowledged while more than a segment was in flight. */
U_INLINE void us_recovery_count_single_ack(struct us_conn *conn, u_u32 acked)
{
    if (acked > conn->cc.mss)
        conn->rec.consecutive_single_acks = 0;
    else if (conn->rec.consecutive_single_acks < 0xff)
        conn->rec.consecutive_single_acks++;
}

/* RFC 6675 pipe: an estimate of the bytes in the network. */
u_u32 us_recovery_pipe(const struct us_conn *conn);

/* Plan a retransmission or a tail loss probe, like us_tcp_plan(). */
int us_recovery_plan(const struct us_conn *conn, struct us_tcp_desc *desc);
int us_recovery_plan_tlp(const struct us_conn *conn, struct us_tcp_desc *desc);

/* A retransmission was built; `end` is the number after its last byte. */
void us_recovery_sent(struct us_stack *stack, struct us_conn *conn, const struct us_tcp_desc *desc,
                      u_u32 end);

#endif
