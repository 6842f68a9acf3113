/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery of a sender whose peer tells by SACK what has arrived: what RFC 6675 sends, decided
 * by the rules of RFC 8985 in a simple form.
 *
 * A scoreboard (tcp_sack.h) exists only while something is missing. While it does, the congestion
 * window limits the bytes in the network (`pipe`), not the unacknowledged ones, SND.NXT is SND.MAX,
 * and what is LOST on it is sent again before anything new. Without SACK, and when there is no
 * memory for a scoreboard, NewReno does its work (tcp_ack.c).
 *
 * - A hole is lost when three segments behind it have arrived, or a quarter of a round trip after
 *   the first of them. Once reordering was seen only the time counts, and each needless
 *   retransmission that the peer reports by D-SACK lengthens it.
 * - A lost retransmission is found by the same rule and sent again without a timeout. It does not
 *   reduce the window once more.
 * - When nothing comes back for two round trips, the end of what was sent is probed (RFC 8985
 *   section 7), in recovery too, where this stands for the rescue retransmission of RFC 6675. A
 *   probe can get lost as well: there are some more, each after twice the time (as in RFC 9002
 *   6.2), before the timeout reduces the window to one segment.
 * - After a timeout SACKed data stays SACKed (RFC 6675 section 5.1) unless the peer has evidently
 *   thrown it away, or the same segment times out again.
 * - If all retransmissions turn out to be needless, by timestamps (RFC 3522) or by D-SACK, the
 *   congestion window gets back what they took from it (RFC 4015).
 */
#ifndef USTACK_TCP_RECOVERY_H
#define USTACK_TCP_RECOVERY_H

#include "ustack/tcp.h"
#include "ustack/tcp_timer.h"

/* Gives the scoreboard back, if there is one. */
void us_recovery_forget(struct us_stack *stack, struct us_conn *conn);

/* Whether an ACK with or without SACK blocks means something for what is in this file. */
U_INLINE int us_recovery_wants(const struct us_conn *conn, const struct us_seg *seg)
{
    return conn->sack != U_NULL || seg->opts.sack_blocks != 0 || (conn->flags & US_CF_TAIL);
}

/*
 * Takes the SACK blocks of an acceptable segment, and what its acknowledgment means for the
 * scoreboard, after SND.UNA was moved. Returns whether the peer tells of new data that arrived out
 * of order.
 */
int us_recovery_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* The retransmission timer has expired. Returns 0 if it is to be handled without a scoreboard. */
int us_recovery_timeout(struct us_stack *stack, struct us_conn *conn);

/* The timers US_TT_REORDER and US_TT_TAIL have expired. */
void us_recovery_reorder(struct us_stack *stack, struct us_conn *conn);
void us_recovery_tail(struct us_stack *stack, struct us_conn *conn);

/*
 * Starts the timer of what is in flight: the retransmission timer, or one that comes earlier and
 * leads to it.
 */
void us_recovery_timer(struct us_stack *stack, struct us_conn *conn);

enum {
    US_PROMPT_ACKS = 3,   /* so many in a row: the peer delays none */
    US_TAIL_MIN_US = 1000 /* more than hosts take to get round to a segment */
};

/* The timeout where the peer may take delay_us for its ACK. */
U_INLINE u_u32 us_recovery_late_rto_us(const struct us_tcp_rtt *rtt, u_u32 delay_us)
{
    if (delay_us == 0 || rtt->srtt8_us == 0)
        return us_rtt_timeout_us(rtt, 0);
    return us_rtt_timeout_us(rtt, (rtt->srtt8_us >> 3) + delay_us);
}

/*
 * When the first probe of the tail is due: after twice the round trip (RFC 8985 7.2), more where it
 * varies by more than half of itself, as with hosts that are short of time; and before the timeout.
 */
U_INLINE u_u32 us_recovery_probe_us(const struct us_tcp_rtt *rtt, u_u32 delay_us, u_u32 timeout_us)
{
    u_u32 srtt_us = rtt->srtt8_us >> 3;
    u_u32 after_us = srtt_us + u_max32(srtt_us, rtt->rttvar4_us >> 1);

    return u_min32(u_max32(after_us, US_TAIL_MIN_US) + delay_us, timeout_us);
}

/*
 * How long after a segment that is sent for the first time, with nothing else in flight, the tail
 * is probed, where the last round-trip time was a good one and SACK is there.
 */
U_INLINE u_u32 us_recovery_lone_us(const struct us_stack *stack, const struct us_conn *conn)
{
    const struct us_tcp_rtt *rtt = &conn->rtt;
    u_u32 delay_us = conn->rec.prompt >= US_PROMPT_ACKS ? 0 : stack->config.peer_ack_delay_us;
    u_u32 rto_us;

    /* With a delay of 0 this is RTO, which is never less than a round trip. */
    rto_us = u_min32(u_max32(rtt->rto_us, (rtt->srtt8_us >> 3) + delay_us), rtt->max_us);
    return us_recovery_probe_us(rtt, delay_us, rto_us);
}

/*
 * The retransmission timeout of what is in flight. The ACK of a single segment may be delayed by
 * the peer (RFC 9293 3.8.6.3) unless it is known for acknowledging each one at once, and the
 * minimum of this stack is below such a delay.
 */
u_u32 us_recovery_rto_us(const struct us_stack *stack, const struct us_conn *conn);

/* `acked` bytes of more than a segment in flight were acknowledged: how prompt the peer is. */
U_INLINE void us_recovery_note_prompt(struct us_conn *conn, u_u32 acked)
{
    if (acked > conn->cc.mss)
        conn->rec.prompt = 0;
    else if (conn->rec.prompt < 0xff)
        conn->rec.prompt++;
}

/* Bytes that are in the network, as far as is known. */
u_u32 us_recovery_pipe(const struct us_conn *conn);

/* What is to be sent again, or as a probe of the tail. Like us_tcp_plan(). */
int us_recovery_plan(const struct us_conn *conn, struct us_tcp_desc *desc);
int us_recovery_plan_tail(const struct us_conn *conn, struct us_tcp_desc *desc);

/* A segment with bytes that were sent before was built; end: the number after its last one. */
void us_recovery_sent(struct us_stack *stack, struct us_conn *conn, const struct us_tcp_desc *desc,
                      u_u32 end);

#endif
