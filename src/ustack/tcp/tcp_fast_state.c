/* SPDX-License-Identifier: BSD-3-Clause */
/* Classification of connections for the fast path; see tcp_fast_state.h. */
#include "ustack/tcp/tcp_fast_state.h"

#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_timer.h"

enum { DISTURBED = US_CF_RECOVERY | US_CF_TLP_OUTSTANDING | US_CF_UNREACHABLE | US_CF_WATCH_CWND };

/*
 * Whether the connection is established and nothing but data in order is under way: no FIN, nothing
 * held back, no loss, no mark, no timeout; and the timer, if lazy fields are valid, is none that
 * tcp_recovery.c or a closed window has set.
 */
static int conn_is_undisturbed(const struct us_conn *conn)
{
    return conn->state == US_TCP_ESTABLISHED && conn->rx_flags == 0 && !(conn->flags & DISTURBED) &&
           conn->dup_acks == 0 && conn->ecn == 0 && conn->retries == 0 && conn->rxq.blocks == 0 &&
           conn->sack == U_NULL && us_seq_leq(conn->snd_wl1, conn->rcv_nxt) &&
           us_seq_leq(conn->rcv_nxt, conn->rcv_adv) && conn->neighbour != U_NULL;
}

int us_conn_classify_rx(struct us_conn *conn)
{
    if (!conn_is_undisturbed(conn) || us_conn_lazy_const(conn)->main_timer >= US_TCP_TIMER_REORDER)
        return 0;
    conn->fast_path = US_FAST_RX;
    return 1;
}

/*
 * Whether neither ECN, packet sizes, references nor congestion control need general code: a segment
 * has room in both windows, and cwnd is so large that it is not the limit.
 */
static int conn_has_plain_output(const struct us_stack *stack, const struct us_conn *conn)
{
    return !(conn->opts & US_OPT_ECN) && (conn->opts & US_OPT_SACK) &&
           !(conn->flags & US_CF_WANT_SENDABLE) && conn->cc.kind != US_CC_DCTCP &&
           !(conn->cc.kind == US_CC_CUBIC && conn->cc.of.cubic.running) && !conn->pmtu.probing &&
           !us_pmtu_is_reduced(conn) && conn->pmtu.probe_bytes == 0 && conn->sendq.refs == 0 &&
           !us_rxq_has_sack(&conn->rxq) &&
           !(conn->out_flags & ~(US_OUT_ACK | US_OUT_DELAYED_ACK)) && conn->recv_kib == 0 &&
           conn->snd_nxt == conn->snd_max &&
           conn->mss_sent <= stack->config.recv_window_bytes >> 1 &&
           conn->snd_wnd >= conn->cc.mss && us_cc_is_far_from_limit(&conn->cc, conn->cc.mss);
}

/*
 * Whether the time after which a single segment is probed is known, and before a keepalive: so an
 * entry of the wheel for the probe is early enough for both.
 */
static int conn_has_known_pto(const struct us_conn *conn, u_u32 pto_us)
{
    return conn->rec.tlp_count == 0 && conn->rtt.srtt8_us != 0 && conn->rtt.backoff == 0 &&
           (conn->timeouts.keepalive_idle_ms == 0 ||
            pto_us <= us_ms(conn->timeouts.keepalive_idle_ms));
}

int us_conn_may_be_rxtx(const struct us_stack *stack, struct us_conn *conn)
{
    const struct us_conn_lazy *lazy = us_conn_lazy_const(conn);

    return (conn->fast_path == US_FAST_RX || us_conn_classify_rx(conn)) &&
           conn->snd_una == conn->snd_max && lazy->cwnd_limited_end == conn->snd_una &&
           lazy->recover == conn->snd_una - 1 && conn_has_plain_output(stack, conn) &&
           conn_has_known_pto(conn, us_recovery_single_segment_pto_us(stack, conn));
}

void us_conn_enter_rxtx(struct us_stack *stack, struct us_conn *conn)
{
    U_ASSERT(conn->fast_path == US_FAST_RX && conn->snd_una != conn->snd_max);
    conn->delack_deadline_us = US_NEVER;
    conn->pto_us = us_recovery_single_segment_pto_us(stack, conn);
    conn->is_common_rxtx = stack->l2_bytes == US_ETH_HDR_BYTES && (conn->opts & US_OPT_TS) &&
                           !us_local_is_ip6(conn->key.local_ip);
    conn->fast_path = US_FAST_RXTX;
    if (conn->timer.at_us > conn->sent_us + conn->pto_us)
        us_timer_set(&stack->wheel, &conn->timer, conn->sent_us + conn->pto_us);
}

void us_conn_fill_lazy(struct us_conn *conn)
{
    struct us_conn_lazy *lazy = &conn->lazy_fields;
    int in_flight = conn->snd_una != conn->snd_max;

    conn->is_common_rxtx = 0;
    lazy->cwnd_limited_end = conn->snd_una;
    lazy->recover = conn->snd_una - 1;
    lazy->rtt_seq = conn->snd_max;
    lazy->rtt_from_us = conn->sent_us;
    lazy->rtt_timed = (u_u8)in_flight;
    if (in_flight) {
        lazy->main_timer = US_TCP_TIMER_TLP;
        lazy->main_deadline_us = conn->sent_us + conn->pto_us;
        lazy->no_progress_since_us = conn->sent_us;
    } else { /* as us_tcp_timer_idle() leaves it; the wheel has an entry that is early enough */
        lazy->main_deadline_us = us_tcp_timer_keepalive_us(conn);
        lazy->main_timer =
            (u_u8)(lazy->main_deadline_us == US_NEVER ? US_TCP_TIMER_NONE : US_TCP_TIMER_KEEPALIVE);
        lazy->no_progress_since_us = 0;
    }
}

void us_conn_update_pto(const struct us_stack *stack, struct us_conn *conn)
{
    U_ASSERT(conn->fast_path == US_FAST_RXTX && conn->snd_una == conn->snd_max);
    conn->pto_us = us_recovery_single_segment_pto_us(stack, conn);
    if (!conn_has_known_pto(conn, conn->pto_us) || conn->timer.at_us > conn->sent_us + conn->pto_us)
        us_conn_leave_fast_path(conn);
}

int us_conn_fast_path_is_valid(const struct us_stack *stack, const struct us_conn *conn)
{
    if (conn->fast_path == US_FAST_NONE)
        return 1;
    if (!conn_is_undisturbed(conn))
        return 0;
    return conn->fast_path == US_FAST_RX ||
           (conn_has_plain_output(stack, conn) && conn_has_known_pto(conn, conn->pto_us) &&
            conn->delack_deadline_us == US_NEVER &&
            conn->timer.at_us <= conn->sent_us + conn->pto_us);
}
