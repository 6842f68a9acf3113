/* SPDX-License-Identifier: BSD-3-Clause */
/* What a steady connection is; see tcp_steady.h. */
#include "ustack/tcp_steady.h"

#include "ustack/tcp.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"
#include "ustack/tcp_rxq.h"
#include "ustack/tcp_timer.h"

/* Whether a segment in order means no more than that. */
static int conn_takes(const struct us_conn *conn)
{
    return us_conn_is_quiet(conn) && conn->rxq.blocks == 0 && conn->sack == U_NULL &&
           us_seq_leq(conn->snd_wl1, conn->rcv_nxt) && us_seq_leq(conn->rcv_nxt, conn->rcv_adv) &&
           conn->neighbour != U_NULL;
}

/* Whether what is sent and acknowledged has nothing to do with windows and packet sizes. */
static int conn_is_plain(const struct us_stack *stack, const struct us_conn *conn)
{
    return !(conn->opts & US_OPT_ECN) && (conn->opts & US_OPT_SACK) &&
           !(conn->flags & US_CF_WANT_SENDABLE) && conn->cc.kind != US_CC_DCTCP &&
           !(conn->cc.kind == US_CC_CUBIC && conn->cc.of.cubic.running) && !conn->pmtu.probing &&
           !us_pmtu_is_low(conn) && conn->pmtu.probe_bytes == 0 && conn->sendq.refs == 0 &&
           !us_rxq_has_sack(&conn->rxq) && !(conn->out_flags & ~(US_OUT_ACK | US_OUT_ACK_LATER)) &&
           conn->snd_nxt == conn->snd_max && conn->mss_sent <= stack->config.recv_window_bytes >> 1;
}

/* Whether the time after which a tail is probed depends on the round trips only, and is known. */
static int conn_is_timed(const struct us_conn *conn)
{
    return conn->rec.tails == 0 && conn->rtt.srtt8_us != 0 && conn->rtt.backoff == 0;
}

/* Whether a probe of the tail comes before the first question of keepalives would. */
static int tail_comes_first(const struct us_conn *conn, u_u32 tail_us)
{
    return conn->patience.keep_idle_ms == 0 || tail_us <= us_ms(conn->patience.keep_idle_ms);
}

/* Whether its segments have a timestamp behind an IPv4 header behind Ethernet's without a tag. */
static int conn_has_usual_head(const struct us_stack *stack, const struct us_conn *conn)
{
    return stack->l2_bytes == US_ETH_HDR_BYTES && (conn->opts & US_OPT_TS) &&
           !us_local_is_ip6(conn->key.local_ip);
}

/* Whether one segment has room in both windows, and the congestion window is no limit for it. */
static int conn_is_roomy(const struct us_conn *conn)
{
    return conn->snd_wnd >= conn->cc.mss && us_cc_is_roomy(&conn->cc, conn->cc.mss);
}

/* Whether a connection that is US_STEADY_ALL is US_STEADY_USUAL, but for numbers that aren't kept.
 */
static int conn_is_usual(const struct us_stack *stack, const struct us_conn *conn)
{
    return conn_has_usual_head(stack, conn) && conn_is_roomy(conn) && conn->ack_us == US_NEVER &&
           conn->timer.at_us <= us_conn_main_us(conn);
}

/* Whether the segment sent last was the one whose round trip was measured. */
static int last_was_timed(const struct us_conn *conn)
{
    return conn->rtt_seq == conn->snd_max && conn->rtt_from_us == conn->sent_us;
}

int us_conn_look(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 tail_us;

    if (!conn_takes(conn))
        return 0;
    if (conn->snd_una != conn->snd_max || conn->patience.owed_us != 0 ||
        conn->main_us > us_tcp_timer_keep_us(conn) || !last_was_timed(conn)) {
        conn->steady = US_STEADY_LATER;
        return 1;
    }
    conn->steady = US_STEADY_IN;
    if (!conn_is_plain(stack, conn) || !conn_is_timed(conn) || conn->limited != conn->snd_una ||
        conn->recover != conn->snd_una - 1)
        return 1;
    tail_us = us_recovery_lone_us(stack, conn);
    if (!tail_comes_first(conn, tail_us))
        return 1;
    conn->steady = US_STEADY_ALL;
    conn->flags |= US_CF_RTT_TIMED;
    conn->main_timer = US_TT_TAIL;
    conn->main_us = conn->sent_us + tail_us;
    us_conn_look_usual(stack, conn);
    return 1;
}

void us_conn_look_usual(const struct us_stack *stack, struct us_conn *conn)
{
    if (!conn_is_usual(stack, conn) || conn->snd_wl2 != conn->snd_una)
        return;
    conn->main_us -= conn->sent_us;
    conn->steady = US_STEADY_USUAL;
}

void us_conn_leave_usual(struct us_conn *conn)
{
    conn->main_us = us_conn_main_us(conn);
    conn->snd_wl2 = conn->snd_una;
    conn->steady = US_STEADY_ALL;
}

void us_conn_settle_steady(struct us_conn *conn)
{
    int all = conn->steady >= US_STEADY_ALL;

    if (conn->steady == US_STEADY_USUAL)
        us_conn_leave_usual(conn);
    conn->steady = US_STEADY_NOT;
    if (!all)
        return;
    conn->limited = conn->snd_una;
    conn->recover = conn->snd_una - 1;
    conn->rtt_seq = conn->snd_max;
    conn->rtt_from_us = conn->sent_us;
    conn->patience.owed_us = conn->sent_us;
    if (conn->snd_una != conn->snd_max)
        return;
    /* What us_tcp_timer_idle() does; the wheel needs no earlier entry for it. */
    conn->flags &= (u_u8)~US_CF_RTT_TIMED;
    conn->patience.owed_us = 0;
    conn->main_us = us_tcp_timer_keep_us(conn);
    conn->main_timer = conn->main_us == US_NEVER ? US_TT_NONE : US_TT_KEEP;
}

void us_conn_steady_retime(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 tail_us = us_recovery_lone_us(stack, conn);

    if (conn->steady == US_STEADY_USUAL)
        us_conn_leave_usual(conn);
    conn->main_us = conn->sent_us + tail_us;
    if (tail_comes_first(conn, tail_us))
        us_conn_look_usual(stack, conn);
    else
        us_conn_settle(conn);
}

int us_conn_steady_holds(const struct us_stack *stack, const struct us_conn *conn)
{
    if (conn->steady == US_STEADY_NOT)
        return 1;
    if (!conn_takes(conn))
        return 0;
    if (conn->steady < US_STEADY_ALL)
        return 1;
    if (conn->steady == US_STEADY_USUAL && !conn_is_usual(stack, conn))
        return 0;
    return conn_is_plain(stack, conn) && conn_is_timed(conn) && conn->main_timer == US_TT_TAIL &&
           (conn->flags & US_CF_RTT_TIMED) && us_seq_leq(conn->limited, conn->snd_una) &&
           us_seq_lt(conn->recover, conn->snd_una);
}
