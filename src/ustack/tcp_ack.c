/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acknowledgments: what they free, what they say about the path, and the recovery from losses
 * without SACK (RFC 5681, RFC 6582; with SACK: tcp_recovery.c).
 */
#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"
#include "ustack/tcp_sendq.h"
#include "ustack/tcp_timer.h"
#include "ustack/tcp_tw.h"

/* RFC 5681 3.2: so many duplicate ACKs mean a loss. */
enum { DUP_ACKS_LOSS = 3 };

/* A round-trip time from the timed segment, or from the echoed timestamp after a timeout. */
static void ack_take_rtt(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr)
{
    if (conn->flags & US_CF_RTT_TIMED) {
        if (us_seq_geq(ack, conn->rtt_seq)) {
            us_rtt_sample(&conn->rtt, stack->now_us - conn->rtt_from_us);
            conn->flags &= (u_u8)~US_CF_RTT_TIMED;
        }
    } else if (conn->rtt.backoff != 0 && (conn->opts & US_OPT_TS) && ts_ecr != 0) {
        /* The echo can tell that it was the last transmission that arrived: Karn's rule is met. */
        u_u32 ticks = us_ts_clock(stack->now_us) + conn->ts_offset - ts_ecr;
        if (ticks <= us_ts_clock(stack->now_us) - us_ts_clock(conn->sent_us))
            us_rtt_sample(&conn->rtt, stack->now_us - conn->sent_us);
        else
            us_rtt_alive(&conn->rtt); /* an ACK got lost: too old for a sample */
    }
}

/* What an ACK of new data means for the congestion window and a recovery under way. */
static void ack_adjust_window(struct us_stack *stack, struct us_conn *conn, u_u32 ack, int ece)
{
    u_u32 acked = ack - conn->snd_una;

    conn->dup_acks = 0;
    if (!(conn->flags & US_CF_RECOVERY)) {
        if (us_seq_lt(conn->snd_una, conn->limited)) {
            if (!ece && !(conn->ecn & US_EF_REDUCED)) /* RFC 3168 6.1.2 */
                us_cc_acked(&conn->cc, acked, us_ts_clock(stack->now_us),
                            us_ts_clock(conn->rtt.srtt8_us >> 3));
        } else {
            us_cc_not_limited(&conn->cc);
            conn->limited = ack; /* goes along, so that it never wraps */
        }
        if (us_seq_gt(ack, conn->recover))
            conn->recover = ack - 1; /* likewise */
        return;
    }
    if (us_seq_geq(ack, conn->recover)) {
        if (conn->sack == U_NULL)
            us_cc_leave_recovery(&conn->cc, conn->snd_max - ack);
        else
            conn->cc.cwnd = conn->cc.ssthresh; /* RFC 9937 section 6 */
        conn->recover = ack - 1; /* nothing below was resent needlessly: a new loss counts */
        conn->flags &= (u_u8) ~(US_CF_RECOVERY | US_CF_PARTIAL);
        return;
    }
    us_count(stack, US_C_TCP_PARTIAL_ACKS);
    if (conn->sack != U_NULL)
        return; /* the scoreboard says what is missing */
    us_cc_partial_ack(&conn->cc, acked);
    conn->out_flags |= US_OUT_RESEND;
    us_tcp_out_want(stack, conn);
}

/* Our FIN is acknowledged: RFC 9293 3.10.7.4, fifth. */
static void ack_take_fin(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->state == US_TCP_FIN_WAIT_1) {
        us_conn_set_state(stack, conn, US_TCP_FIN_WAIT_2);
        us_tcp_timer_start(stack, conn, US_TT_FIN_WAIT_2, stack->config.fin_wait2_us);
    }
    /* CLOSING and LAST-ACK end in us_tcp_ack_process(), where the segment is at hand. */
}

/* Starts the retransmission timer anew if something is in flight (RFC 6298 5.2, 5.3). */
static void ack_restart_timer(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->snd_una == conn->snd_max) {
        us_tcp_timer_idle(stack, conn);
        return;
    }
    conn->patience.owed_us = stack->now_us;
    if (!(conn->flags & US_CF_PARTIAL) || conn->sack != U_NULL) {
        us_recovery_timer(stack, conn);
        /* RFC 6582 section 4, impatient: only the first partial ACK restarts the timer. */
        if (conn->flags & US_CF_RECOVERY)
            conn->flags |= US_CF_PARTIAL;
    }
}

void us_tcp_ack_advance(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr,
                        int ece)
{
    U_ASSERT(us_seq_gt(ack, conn->snd_una) && us_seq_leq(ack, conn->snd_max));
    ack_take_rtt(stack, conn, ack, ts_ecr);
    if (conn->snd_max - conn->snd_una > conn->cc.mss)
        us_recovery_note_prompt(conn, ack - conn->snd_una);
    conn->retries = 0;
    if (U_UNLIKELY(conn->flags & US_CF_TAIL))
        conn->rec.tails = 0;
    if (conn->cc.kind == US_CC_DCTCP)
        us_dctcp_acked(&conn->cc.of.dctcp, ack - conn->snd_una, ece, ack, conn->snd_nxt);
    ack_adjust_window(stack, conn, ack, ece);
    conn->bytes_out += ack - conn->snd_una;
    conn->snd_una = ack;
    if (U_UNLIKELY(conn->pmtu.probing))
        us_pmtu_acked(stack, conn);
    if (us_seq_lt(conn->snd_nxt, ack))
        conn->snd_nxt = ack;
    us_sendq_drop(stack, &conn->sendq, ack);
    ack_restart_timer(stack, conn);
    us_conn_check_sendable(stack, conn);
    if (us_conn_fin_acked(conn))
        ack_take_fin(stack, conn);
}

/* RFC 9293 3.10.7.4: a segment newer than the one that set the window sets it. */
static void ack_take_window(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    u_u32 wnd = seg->wnd << conn->snd_scale;

    if (us_seq_gt(conn->snd_wl1, seg->seq) ||
        (conn->snd_wl1 == seg->seq && us_seq_gt(conn->snd_wl2, seg->ack)))
        return;
    conn->snd_wl1 = seg->seq;
    conn->snd_wl2 = seg->ack;
    if (wnd != conn->snd_wnd && us_conn_has_unsent(conn)) {
        if (conn->main_timer == US_TT_PERSIST && wnd > conn->snd_wnd)
            us_tcp_timer_start(stack, conn,
                               conn->snd_una == conn->snd_max ? US_TT_NONE : US_TT_RESEND,
                               us_recovery_rto_us(stack, conn));
        us_tcp_out_want(stack, conn);
    }
    conn->snd_wnd = wnd;
    conn->snd_wnd_max = u_max32(conn->snd_wnd_max, wnd);
}

/* One more duplicate ACK. */
static void ack_duplicate(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_RX_DUP_ACKS);
    us_tcp_out_want(stack, conn); /* limited transmit, or a larger window in recovery */
    if (conn->flags & US_CF_RECOVERY) {
        us_cc_inflate(&conn->cc);
        return;
    }
    if (conn->dup_acks < 0xff)
        conn->dup_acks++;
    /* RFC 6582 3.2 (2): not for ACKs that the retransmissions of the last loss bring about. */
    if (conn->dup_acks != DUP_ACKS_LOSS || us_seq_leq(conn->snd_una, conn->recover))
        return;
    us_count(stack, US_C_TCP_FAST_RETRANSMITS);
    us_count(stack, US_C_TCP_CC_REDUCTIONS);
    us_ecn_reduced(conn);
    us_cc_enter_recovery(&conn->cc, u_min32(conn->snd_max - conn->snd_una, conn->cc.cwnd));
    conn->recover = conn->snd_max;
    conn->flags |= US_CF_RECOVERY;
    conn->flags &= (u_u8)~US_CF_PARTIAL;
    conn->out_flags |= US_OUT_RESEND;
}

/*
 * RFC 5681 section 2: the definition of a duplicate acknowledgment. What carries SACK blocks is
 * judged by them (RFC 6675 section 2).
 */
static int ack_is_duplicate(const struct us_conn *conn, const struct us_seg *seg)
{
    return seg->ack == conn->snd_una && conn->snd_una != conn->snd_max && seg->len == 0 &&
           !(seg->flags & US_TCP_FIN) && seg->opts.sack_blocks == 0 &&
           seg->wnd << conn->snd_scale == conn->snd_wnd;
}

void us_tcp_ack_process(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    int duplicate = 0;

    conn->flags &= (u_u8)~US_CF_UNREACHABLE;
    if (conn->main_timer == US_TT_PERSIST || conn->main_timer == US_TT_KEEP)
        conn->retries = 0; /* RFC 9293 3.8.6.1: a peer that answers may keep its window closed */
    if (us_seq_gt(seg->ack, conn->snd_una))
        us_tcp_ack_advance(stack, conn, seg->ack, seg->opts.ts_ecr, (seg->flags & US_TCP_ECE) != 0);
    else
        duplicate = ack_is_duplicate(conn, seg) && conn->main_timer != US_TT_PERSIST;
    if (us_recovery_wants(conn, seg) && us_recovery_ack(stack, conn, seg))
        duplicate = seg->ack == conn->snd_una;
    if (duplicate && conn->sack == U_NULL)
        ack_duplicate(stack, conn);
    us_ecn_ack(stack, conn, seg);
    ack_take_window(stack, conn, seg);
    if (us_conn_has_unsent(conn))
        us_tcp_out_want(stack, conn);
    if (!us_conn_fin_acked(conn))
        return;
    if (conn->state == US_TCP_LAST_ACK) {
        us_conn_end(stack, conn, US_CLOSE_NORMAL);
    } else if (conn->state == US_TCP_CLOSING) {
        us_tw_add(stack, conn,
                  conn->out_flags & US_OUT_ACK ? seg->rx : (const struct us_rx *)U_NULL);
        us_conn_end(stack, conn, US_CLOSE_NORMAL);
    }
}
