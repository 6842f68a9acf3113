/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ACK processing: what an acknowledgment frees, the round-trip time it measures, the window it
 * sets, and loss recovery without SACK (RFC 5681, RFC 6582; with SACK: tcp_recovery.c).
 */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_local_queue.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_sendq.h"
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_tw.h"

/* RFC 5681 3.2: so many duplicate ACKs indicate a loss. */
enum { DUP_ACKS_LOSS = 3 };

/* An echo that is older belongs to a lost acknowledgment, not to a slow path. */
enum { ECHO_TICKS_MAX = 1000 };

/*
 * The round-trip time by the echoed timestamp, after a retransmission. The echo shows which
 * transmission is acknowledged, so Karn's rule is met (RFC 7323 4.1): the last one, or an earlier
 * one with a late acknowledgment.
 */
static void ack_take_echo(struct us_stack *stack, struct us_conn *conn, u_u32 ts_ecr)
{
    u_u32 now_ticks = us_ts_clock(stack->now_us);
    u_u32 ticks = now_ticks + conn->ts_offset - ts_ecr;

    if (ticks <= now_ticks - us_ts_clock(conn->sent_us))
        us_rtt_sample(&conn->rtt, stack->now_us - conn->sent_us);
    else if (ticks <= ECHO_TICKS_MAX)
        us_rtt_sample(&conn->rtt, ticks << US_TS_CLOCK_SHIFT);
    else
        us_rtt_clear_backoff(&conn->rtt);
}

static void ack_take_rtt(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr)
{
    if (us_conn_lazy(conn)->rtt_timed) {
        if (us_seq_geq(ack, us_conn_lazy(conn)->rtt_seq)) {
            us_rtt_sample(&conn->rtt, stack->now_us - us_conn_lazy(conn)->rtt_from_us);
            us_queueing_sample(stack, conn, us_conn_lazy(conn)->rtt_from_us);
            us_recovery_lower_ack_delay(stack, conn,
                                        stack->now_us - us_conn_lazy(conn)->rtt_from_us);
            us_conn_lazy(conn)->rtt_timed = 0;
        }
    } else if ((conn->rtt.backoff != 0 || (conn->rec.flags & US_RF_EIFEL)) &&
               (conn->opts & US_OPT_TS) && ts_ecr != 0) {
        ack_take_echo(stack, conn, ts_ecr);
    }
}

/* Adjusts cwnd and a recovery under way to an ACK of new data. */
static void ack_adjust_window(struct us_stack *stack, struct us_conn *conn, u_u32 ack, int ece)
{
    u_u32 acked = ack - conn->snd_una;

    conn->dup_acks = 0;
    if (!(conn->flags & US_CF_RECOVERY)) {
        if (us_seq_lt(conn->snd_una, us_conn_lazy(conn)->cwnd_limited_end)) {
            if (!ece && !(conn->ecn & US_EF_REDUCED)) /* RFC 3168 6.1.2 */
                us_cc_acked(&conn->cc, acked, us_ts_clock(stack->now_us),
                            us_ts_clock(conn->rtt.srtt8_us >> 3));
        } else {
            us_cc_not_limited(&conn->cc);
            us_conn_lazy(conn)->cwnd_limited_end =
                ack; /* follows SND.UNA, so that it never wraps */
        }
        if (us_seq_gt(ack, us_conn_lazy(conn)->recover))
            us_conn_lazy(conn)->recover = ack - 1; /* follows SND.UNA, too */
        if (conn->retries != 0 && ack == conn->snd_max)
            us_cc_restart(&conn->cc);
        return;
    }
    if (us_seq_geq(ack, us_conn_lazy(conn)->recover)) {
        if (conn->sack == U_NULL)
            us_cc_leave_recovery(&conn->cc, conn->snd_max - ack);
        else
            conn->cc.cwnd = conn->cc.ssthresh; /* RFC 9937 section 6 */
        us_conn_lazy(conn)->recover = ack - 1; /* a new loss counts from here on */
        conn->flags &= (u_u8)~US_CF_RECOVERY;
        conn->out_flags &= (u_u8)~US_OUT_RETRANSMIT; /* nothing that was lost is left */
        return;
    }
    us_count(stack, US_C_TCP_PARTIAL_ACKS);
    if (conn->sack != U_NULL)
        return; /* the scoreboard has the missing ranges */
    us_cc_partial_ack(&conn->cc, acked);
    conn->out_flags |= US_OUT_RETRANSMIT;
    us_tcp_output_schedule(stack, conn);
}

/* Our FIN is acknowledged: RFC 9293 3.10.7.4, fifth. */
static void ack_take_fin(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->state == US_TCP_FIN_WAIT_1) {
        conn->state = US_TCP_FIN_WAIT_2;
        us_tcp_timer_start(stack, conn, US_TCP_TIMER_FIN_WAIT_2, stack->config.fin_wait2_us);
    }
    /* CLOSING and LAST-ACK end in us_tcp_ack_process(), where the segment is at hand. */
}

/* Restarts the retransmission timer if something is in flight (RFC 6298 5.2, 5.3). */
static void ack_restart_timer(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->snd_una == conn->snd_max) {
        us_tcp_timer_idle(stack, conn);
        return;
    }
    us_conn_lazy(conn)->no_progress_since_us = stack->now_us;
    us_recovery_arm_timer(stack, conn); /* RFC 6582 section 4: at each partial ACK, too */
}

void us_tcp_ack_advance(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr,
                        int ece)
{
    U_ASSERT(us_seq_gt(ack, conn->snd_una) && us_seq_leq(ack, conn->snd_max));
    ack_take_rtt(stack, conn, ack, ts_ecr);
    if (conn->snd_max - conn->snd_una > conn->cc.mss)
        us_recovery_count_single_ack(conn, ack - conn->snd_una);
    if (U_UNLIKELY(conn->flags & US_CF_TLP_OUTSTANDING))
        conn->rec.tlp_count = 0;
    if (conn->cc.kind == US_CC_DCTCP)
        us_dctcp_acked(&conn->cc.of.dctcp, ack - conn->snd_una, ece, ack, conn->snd_nxt);
    ack_adjust_window(stack, conn, ack, ece);
    conn->retries = 0;
    conn->bytes_out += ack - conn->snd_una;
    conn->snd_una = ack;
    if (U_UNLIKELY(conn->pmtu.probing))
        us_pmtu_acked(stack, conn);
    if (us_seq_lt(conn->snd_nxt, ack))
        conn->snd_nxt = ack;
    us_sendq_drop(stack, &conn->sendq, ack);
    ack_restart_timer(stack, conn);
    us_conn_raise_sendable(stack, conn);
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
        if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_PERSIST && wnd > conn->snd_wnd) {
            us_conn_lazy(conn)->no_progress_since_us = 0; /* opening the window is progress */
            us_tcp_timer_start(
                stack, conn, conn->snd_una == conn->snd_max ? US_TCP_TIMER_NONE : US_TCP_TIMER_RTO,
                us_recovery_rto_us(stack, conn));
        }
        us_tcp_output_schedule(stack, conn);
    }
    conn->snd_wnd = wnd;
    conn->snd_wnd_max = u_max32(conn->snd_wnd_max, wnd);
}

/* One more duplicate ACK. */
static void ack_duplicate(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_RX_DUP_ACKS);
    us_tcp_output_schedule(stack, conn); /* limited transmit, or cwnd inflation */
    if (conn->flags & US_CF_RECOVERY) {
        us_cc_inflate(&conn->cc);
        return;
    }
    if (conn->dup_acks < 0xff)
        conn->dup_acks++;
    /* RFC 6582 3.2 (2): not for duplicate ACKs caused by retransmissions of the last recovery. */
    if (conn->dup_acks != DUP_ACKS_LOSS || us_seq_leq(conn->snd_una, us_conn_lazy(conn)->recover))
        return;
    us_count(stack, US_C_TCP_FAST_RETRANSMITS);
    us_count(stack, US_C_TCP_CC_REDUCTIONS);
    us_ecn_reduced(conn);
    us_recovery_save_for_undo(conn);
    us_cc_enter_recovery(&conn->cc, u_min32(conn->snd_max - conn->snd_una, conn->cc.cwnd));
    us_conn_lazy(conn)->recover = conn->snd_max;
    conn->flags |= US_CF_RECOVERY;
    conn->out_flags |= US_OUT_RETRANSMIT;
}

/*
 * RFC 5681 section 2: the definition of a duplicate ACK. Segments with SACK blocks are classified
 * by these (RFC 6675 section 2).
 */
static int ack_is_duplicate(const struct us_conn *conn, const struct us_seg *seg)
{
    return seg->ack == conn->snd_una && conn->snd_una != conn->snd_max && seg->len == 0 &&
           !(seg->flags & US_TCP_FIN) && seg->opts.sack_blocks == 0 &&
           seg->wnd << conn->snd_scale == conn->snd_wnd;
}

static void ack_process(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    int duplicate = 0;

    conn->flags &= (u_u8)~US_CF_UNREACHABLE;
    if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_PERSIST ||
        us_conn_lazy(conn)->main_timer == US_TCP_TIMER_KEEPALIVE)
        conn->retries =
            0; /* RFC 9293 3.8.6.1: a peer that acknowledges probes may keep its window closed */
    if (us_seq_gt(seg->ack, conn->snd_una))
        us_tcp_ack_advance(stack, conn, seg->ack, seg->opts.ts_ecr, (seg->flags & US_TCP_ECE) != 0);
    else
        duplicate =
            ack_is_duplicate(conn, seg) && us_conn_lazy(conn)->main_timer != US_TCP_TIMER_PERSIST;
    if (us_recovery_concerns(conn, seg) && us_recovery_ack(stack, conn, seg))
        duplicate = seg->ack == conn->snd_una;
    if (duplicate && conn->sack == U_NULL)
        ack_duplicate(stack, conn);
    us_ecn_ack(stack, conn, seg);
    ack_take_window(stack, conn, seg);
    if (us_conn_has_unsent(conn))
        us_tcp_output_schedule(stack, conn);
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

void us_tcp_ack_process(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    u_u32 cwnd = conn->cc.cwnd;

    ack_process(stack, conn, seg);
    us_event_cwnd(stack, conn, cwnd);
}
