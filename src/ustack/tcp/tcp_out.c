/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output: takes connections from the list of those scheduled, and for each plans a segment
 * (us_tcp_plan), builds it (us_tcp_build) and records it. Retransmissions, probes and RSTs are
 * planned like data.
 */
#include "base/cksum.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_fast.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_sack.h"
#include "ustack/tcp/tcp_sendq.h"
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_tso.h"

/* Segments of one connection in a row; then the next connection is served. */
enum { OUT_QUANTUM = 8 };

enum out_result {
    OUT_DONE,   /* nothing more to send now */
    OUT_MORE,   /* the quantum or the packets are exhausted */
    OUT_WAITING /* for the next hop's address */
};

/* ---- plan ---- */

/* Whether a FIN belongs behind the byte before `seq`. */
static int plan_fin_at(const struct us_conn *conn, u_u32 seq)
{
    return (conn->out_flags & US_OUT_FIN) && seq == conn->snd_end;
}

/* Sets the flags of a segment with data or a FIN. */
static void plan_data_flags(const struct us_conn *conn, struct us_tcp_desc *desc, int fin)
{
    desc->flags = US_TCP_ACK;
    if (desc->len > 0 && desc->seq + desc->len == conn->snd_end)
        desc->flags |= US_TCP_PSH;
    if (fin)
        desc->flags |= US_TCP_FIN;
}

void us_tcp_plan_flags(const struct us_conn *conn, struct us_tcp_desc *desc, u_u32 usable)
{
    plan_data_flags(conn, desc, plan_fin_at(conn, desc->seq + desc->len) && desc->len < usable);
}

/* cwnd, with the allowance of limited transmit (RFC 3042). */
static u_u32 plan_cwnd(const struct us_conn *conn)
{
    u_u32 cwnd = conn->cc.cwnd;

    if (!(conn->flags & US_CF_RECOVERY) && conn->dup_acks > 0 && conn->sack == U_NULL)
        cwnd += u_min32(conn->dup_acks, 2) * conn->cc.mss;
    return cwnd;
}

/*
 * Nagle (RFC 9293 3.7.4): whether a small segment of new data must wait until nothing is in flight.
 */
static int plan_nagle_waits(const struct us_conn *conn, const struct us_tcp_desc *desc, int fin)
{
    return desc->len < conn->cc.mss && !fin && conn->snd_una != conn->snd_max &&
           us_seq_geq(desc->seq, conn->snd_max);
}

/* Data at snd_nxt, as far as both windows and silly window syndrome avoidance permit. */
static int plan_data(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    u_u32 flight = conn->snd_nxt - conn->snd_una;
    u_u32 pipe = us_recovery_pipe(conn);
    u_u32 cwnd = plan_cwnd(conn);
    u_u32 avail;
    u_u32 usable;
    int fin;

    if (!us_conn_has_unsent(conn) || cwnd <= pipe || conn->snd_wnd <= flight)
        return 0;
    avail = conn->snd_end - conn->snd_nxt; /* a FIN lies behind snd_end, so this is never < 0 */
    usable = u_min32(cwnd - pipe, conn->snd_wnd - flight);
    desc->kind = US_SEND_DATA;
    desc->seq = conn->snd_nxt;
    desc->len = u_min32(u_min32(avail, us_pmtu_segment(conn)), usable);
    /* RFC 9293 3.8.6.2.1: a full segment, or all there is, or half the peer's largest window. */
    if (us_seq_geq(desc->seq, conn->snd_max) && desc->len < conn->cc.mss && desc->len < avail &&
        desc->len < conn->snd_wnd_max >> 1)
        return 0;
    fin = plan_fin_at(conn, desc->seq + desc->len) && desc->len < usable;
    if (desc->len == 0 && !fin)
        return 0;
    if (conn->nagle && plan_nagle_waits(conn, desc, fin))
        return 0;
    plan_data_flags(conn, desc, fin);
    return 1;
}

/* A retransmission of one segment at snd_una. */
static int plan_resend(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    u_u32 sent = us_seq_min(conn->snd_max, conn->snd_end) - conn->snd_una;
    int fin;

    if (conn->snd_una == conn->snd_max)
        return 0;
    desc->kind = US_SEND_RETRANSMIT;
    desc->seq = conn->snd_una;
    /* With only the FIN outstanding snd_una is snd_end and `sent` is 0. */
    desc->len = u_min32(sent, conn->cc.mss);
    fin = plan_fin_at(conn, desc->seq + desc->len) && us_conn_fin_sent(conn);
    plan_data_flags(conn, desc, fin);
    return 1;
}

/* RFC 9293 3.8.4: a keepalive, at a number that the peer has acknowledged already. */
static int plan_keep(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    desc->kind = US_SEND_KEEPALIVE;
    desc->seq = conn->snd_una - 1;
    desc->len = 0;
    desc->flags = US_TCP_ACK;
    return 1;
}

/*
 * A segment although the window is closed (RFC 9293 3.8.6.1), or smaller than the SWS rule permits
 * (3.8.6.2.1): what fits into the window is sent as data.
 */
static int plan_probe(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    u_u32 avail = conn->snd_end - conn->snd_nxt;
    u_u32 flight = conn->snd_nxt - conn->snd_una;
    u_u32 usable = conn->snd_wnd > flight ? conn->snd_wnd - flight : 0;

    if (!us_conn_has_unsent(conn))
        return us_conn_lazy_const(conn)->main_timer == US_TCP_TIMER_KEEPALIVE &&
               plan_keep(conn, desc);
    desc->kind = (u_u8)(usable > 0 ? US_SEND_DATA : US_SEND_PROBE);
    desc->seq = conn->snd_nxt;
    desc->len = u_min32(u_min32(avail, conn->cc.mss), u_max32(usable, 1));
    plan_data_flags(conn, desc, plan_fin_at(conn, desc->seq + desc->len) && desc->len == 0);
    return 1;
}

static int plan_ack(const struct us_conn *conn, struct us_tcp_desc *desc, enum us_send_kind kind)
{
    desc->kind = (u_u8)kind;
    desc->seq = conn->snd_max;
    /* A number beyond a closed window would be unacceptable to the peer. */
    if (conn->snd_una != conn->iss)
        desc->seq = us_seq_min(desc->seq, conn->snd_una + conn->snd_wnd);
    desc->len = 0;
    desc->flags = US_TCP_ACK;
    return 1;
}

static int plan_syn(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    desc->kind = US_SEND_SYN;
    desc->seq = conn->iss;
    desc->len = 0;
    desc->flags = US_TCP_SYN;
    if (conn->state == US_TCP_SYN_RECEIVED)
        desc->flags |= US_TCP_ACK | (conn->opts & US_OPT_ECN ? (int)US_TCP_ECE : 0);
    else if ((conn->ecn & US_EF_REQUESTED) && !(conn->flags & US_CF_SYN_RESENT))
        desc->flags |= US_TCP_ECE | US_TCP_CWR;
    return 1;
}

int us_tcp_plan(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    if (conn->out_flags & US_OUT_RST) {
        plan_ack(conn, desc, US_SEND_RST);
        desc->flags = US_TCP_RST | US_TCP_ACK;
        return 1;
    }
    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED) {
        if (conn->out_flags & US_OUT_SYN)
            return plan_syn(conn, desc);
        if (conn->state == US_TCP_SYN_RECEIVED && (conn->out_flags & US_OUT_ACK))
            return plan_ack(conn, desc, US_SEND_ACK);
        return 0;
    }
    if (conn->dup_acks_owed > 0)
        return plan_ack(conn, desc, US_SEND_DUP_ACK);
    if (U_UNLIKELY(conn->sack != U_NULL)) {
        if (us_recovery_plan(conn, desc))
            return 1;
    } else if ((conn->out_flags & US_OUT_RETRANSMIT) && plan_resend(conn, desc)) {
        return 1;
    }
    if (plan_data(conn, desc))
        return 1;
    if ((conn->out_flags & US_OUT_TLP) && us_recovery_plan_tlp(conn, desc))
        return 1;
    if ((conn->out_flags & US_OUT_PROBE) && plan_probe(conn, desc))
        return 1;
    if (conn->out_flags & US_OUT_ACK)
        return plan_ack(conn, desc, US_SEND_ACK);
    return 0;
}

/* Options of a segment that is no SYN. */
static void conn_fill_options(const struct us_stack *stack, const struct us_conn *conn,
                              struct us_tcp_desc *desc)
{
    struct us_tcp_opts *opts = &desc->opts;
    u_u32 room = conn->cc.mss > desc->len ? conn->cc.mss - desc->len : 0;

    opts->mss = 0;
    opts->has_scale = 0;
    opts->sack_permitted = 0;
    opts->sack_blocks = 0;
    opts->has_ts = (conn->opts & US_OPT_TS) != 0;
    if (opts->has_ts) {
        opts->ts_val = us_ts_clock(stack->now_us) + conn->ts_offset;
        opts->ts_ecr = conn->ts_recent;
    }
    if (U_UNLIKELY(us_rxq_has_sack(&conn->rxq)) && (conn->opts & US_OPT_SACK) && room >= 12)
        opts->sack_blocks = (u_u8)us_rxq_sack(&conn->rxq, opts->sack,
                                              u_min32((room - 4) >> 3, opts->has_ts ? 3 : 4));
}

/*
 * Options of our SYN: all that are supported, or in a SYN-ACK those of them that the peer has
 * offered.
 */
static void conn_fill_syn_options(const struct us_stack *stack, const struct us_conn *conn,
                                  struct us_tcp_desc *desc)
{
    struct us_tcp_opts *opts = &desc->opts;
    unsigned offer = conn->state == US_TCP_SYN_RECEIVED
                         ? conn->opts
                         : (unsigned)(US_OPT_TS | US_OPT_SCALE | US_OPT_SACK);

    opts->mss = conn->mss_sent;
    opts->has_scale = (offer & US_OPT_SCALE) != 0;
    opts->scale = conn->rcv_scale;
    opts->sack_permitted = (offer & US_OPT_SACK) != 0;
    opts->sack_blocks = 0;
    opts->has_ts = (offer & US_OPT_TS) != 0;
    opts->ts_val = us_ts_clock(stack->now_us) + conn->ts_offset;
    opts->ts_ecr = conn->ts_recent;
}

/* Completes a plan with acknowledgment, window and options; *edge: the right edge of the window. */
static void conn_fill_desc(const struct us_stack *stack, const struct us_conn *conn,
                           struct us_tcp_desc *desc, u_u32 *edge)
{
    desc->ack = desc->flags & US_TCP_ACK ? conn->rcv_nxt : 0;
    desc->ecn = 0;
    if (desc->flags & US_TCP_SYN) {
        desc->window = (u_u16)u_min32(us_conn_recv_window(stack, conn), 0xffff);
        *edge = conn->rcv_nxt + desc->window;
        conn_fill_syn_options(stack, conn, desc);
    } else {
        desc->window = us_tcp_window(stack, conn, edge);
        conn_fill_options(stack, conn, desc);
    }
    if (conn->opts & US_OPT_ECN)
        us_ecn_fill(conn, desc);
}

/* ---- record ---- */

/* Records that a segment carries an acknowledgment. */
static void record_ack(struct us_stack *stack, struct us_conn *conn, const struct us_tcp_desc *desc,
                       u_u32 edge)
{
    if (desc->kind == US_SEND_DUP_ACK)
        conn->dup_acks_owed--;
    else if (desc->kind == US_SEND_ACK)
        us_count(stack, US_C_TCP_TX_PURE_ACKS);
    conn->out_flags &= (u_u8) ~(US_OUT_ACK | US_OUT_DELAYED_ACK);
    conn->delack_deadline_us = US_NEVER;
    conn->last_ack = desc->ack;
    if (desc->opts.sack_blocks != 0)
        us_rxq_forget_duplicate(&conn->rxq);
    conn->rcv_adv = us_seq_max(conn->rcv_adv, edge);
}

/* Records that data, a SYN or a FIN was sent, for the first time or again. */
static void record_sent(struct us_stack *stack, struct us_conn *conn,
                        const struct us_tcp_desc *desc, u_u32 end)
{
    if (U_UNLIKELY(us_pmtu_is_reduced(conn)))
        us_pmtu_sent(stack, conn, desc->seq, end);
    if (us_seq_lt(desc->seq, conn->snd_max)) {
        /* Karn: no sample of a retransmission, nor of data that has to wait for one. */
        if (conn->sack == U_NULL || us_seq_geq(end, us_conn_lazy(conn)->rtt_seq))
            us_conn_lazy(conn)->rtt_timed = 0;
        us_recovery_sent(stack, conn, desc, end);
        conn->retransmits++;
        us_count(stack, US_C_TCP_RETRANSMITS);
    } else if (!us_conn_lazy(conn)->rtt_timed && desc->kind != US_SEND_PROBE) {
        us_conn_lazy(conn)->rtt_timed = 1;
        us_conn_lazy(conn)->rtt_seq = end;
        us_conn_lazy(conn)->rtt_from_us = stack->now_us;
    }
    us_count_add(stack, US_C_TCP_TX_BYTES, desc->len);
    if (U_UNLIKELY(conn->sack != U_NULL))
        conn->sack->prr.out += desc->len;
    conn->snd_max = us_seq_max(conn->snd_max, end);
    if (desc->kind != US_SEND_RETRANSMIT && desc->kind != US_SEND_PROBE)
        conn->snd_nxt = us_seq_max(conn->snd_nxt, end);
    conn->sent_us = stack->now_us;
    if (us_cc_is_cwnd_limited(&conn->cc, conn->snd_nxt - conn->snd_una))
        us_conn_lazy(conn)->cwnd_limited_end =
            us_seq_max(us_conn_lazy(conn)->cwnd_limited_end, conn->snd_nxt);
    if (desc->kind == US_SEND_PROBE)
        return; /* the persist timer keeps running */
    /* With a second segment in flight the peer does not delay its ACK any more. */
    if (desc->kind == US_SEND_RETRANSMIT || desc->seq - conn->snd_una <= conn->cc.mss ||
        (us_conn_lazy(conn)->main_timer != US_TCP_TIMER_RTO &&
         us_conn_lazy(conn)->main_timer != US_TCP_TIMER_REORDER))
        us_recovery_arm_timer(stack, conn);
}

static void conn_record(struct us_stack *stack, struct us_conn *conn,
                        const struct us_tcp_desc *desc, u_u32 edge)
{
    u_u32 len = desc->len + (desc->flags & US_TCP_SYN ? 1 : 0) + (desc->flags & US_TCP_FIN ? 1 : 0);

    if (desc->flags & US_TCP_ACK)
        record_ack(stack, conn, desc, edge);
    if (desc->flags & US_TCP_CWR)
        conn->ecn &= (u_u8)~US_EF_SEND_CWR;
    switch ((enum us_send_kind)desc->kind) {
    case US_SEND_SYN:
        conn->out_flags &= (u_u8)~US_OUT_SYN;
        break;
    case US_SEND_RETRANSMIT:
        conn->out_flags &= (u_u8)~US_OUT_RETRANSMIT;
        break;
    case US_SEND_PROBE:
        conn->out_flags &= (u_u8)~US_OUT_PROBE;
        us_count(stack, US_C_TCP_WINDOW_PROBES);
        break;
    case US_SEND_KEEPALIVE:
        conn->out_flags &= (u_u8)~US_OUT_PROBE;
        us_count(stack, US_C_TCP_KEEPALIVE_PROBES);
        break;
    case US_SEND_DATA:
        conn->out_flags &= (u_u8) ~(US_OUT_PROBE | US_OUT_TLP);
        break;
    case US_SEND_TLP:
        conn->out_flags &= (u_u8)~US_OUT_TLP;
        break;
    case US_SEND_RST:
        conn->out_flags = 0;
        break;
    case US_SEND_ACK:
    case US_SEND_DUP_ACK:
        break;
    }
    if (len > 0)
        record_sent(stack, conn, desc, desc->seq + len);
}

/* ---- scheduling ---- */

/* The next hop of the connection; null if there is none now. */
static struct us_neighbour *conn_next_hop(struct us_stack *stack, struct us_conn *conn)
{
    struct us_route route;

    if (U_LIKELY(us_conn_has_hop(conn)))
        return conn->neighbour;
    conn->neighbour = (struct us_neighbour *)U_NULL;
    if (us_route_find(stack, us_conn_remote(conn), &route))
        conn->neighbour = us_neighbour_acquire(stack, route.next_hop);
    if (conn->neighbour != U_NULL)
        conn->hop_serial = conn->neighbour->serial;
    return conn->neighbour;
}

void us_tcp_suspect_next_hop(struct us_stack *stack, struct us_conn *conn)
{
    if (us_conn_has_hop(conn))
        us_neighbour_suspect(stack, conn->neighbour);
}

/* Nothing more can be sent now: starts the timers that continue later. */
static void conn_start_timers(struct us_stack *stack, struct us_conn *conn)
{
    if ((conn->out_flags & US_OUT_DELAYED_ACK) && conn->delack_deadline_us == US_NEVER)
        us_tcp_timer_delay_ack(stack, conn);
    /* Unsent data with nothing in flight: only the peer's window can be the reason. */
    if (conn->state > US_TCP_SYN_RECEIVED && us_conn_has_unsent(conn) &&
        conn->snd_nxt == conn->snd_una && us_conn_lazy(conn)->main_timer != US_TCP_TIMER_PERSIST &&
        us_conn_lazy(conn)->main_timer != US_TCP_TIMER_RTO)
        us_tcp_timer_start(stack, conn, US_TCP_TIMER_PERSIST, us_recovery_rto_us(stack, conn));
}

/*
 * There is no route to the peer now: unsent data is tried again later; an ACK is not, as the peer
 * retransmits.
 */
static void conn_try_later(struct us_stack *stack, struct us_conn *conn)
{
    if ((us_conn_lazy(conn)->main_timer == US_TCP_TIMER_NONE ||
         us_conn_lazy(conn)->main_timer == US_TCP_TIMER_KEEPALIVE) &&
        us_conn_has_unsent(conn))
        us_tcp_timer_start(stack, conn, US_TCP_TIMER_RTO, us_recovery_rto_us(stack, conn));
}

/* A RST cannot be sent without a next hop: gives it up. */
static void conn_give_up_rst(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags = 0;
    us_conn_free_if_done(stack, conn);
}

static void conn_count_bytes(struct us_stack *stack, const struct us_pkt *seg)
{
    for (; seg != U_NULL; seg = seg->next_seg)
        us_count_add(stack, US_C_TX_BYTES, seg->len);
}

static U_NOINLINE enum out_result conn_output(struct us_stack *stack, struct us_conn *conn,
                                              struct us_pkt **pkts, unsigned n, unsigned *filled)
{
    struct us_tcp_desc desc;
    u_u32 edge;
    unsigned i;

    us_conn_leave_fast_path(conn);
    us_sendq_unpark_block(stack, &conn->sendq);
    for (i = 0; i < OUT_QUANTUM && *filled < n; i++) {
        struct us_neighbour *neighbour;

        if (U_UNLIKELY(us_pmtu_is_reduced(conn)))
            us_pmtu_plan(stack, conn);
        if (!us_tcp_plan(conn, &desc)) {
            conn_start_timers(stack, conn);
            return OUT_DONE;
        }
        neighbour = conn_next_hop(stack, conn);
        if (neighbour == U_NULL || !us_neighbour_use(stack, neighbour)) {
            if (desc.kind == US_SEND_RST)
                conn_give_up_rst(stack, conn);
            else if (neighbour != U_NULL)
                u_list_push_back(&neighbour->waiting, &conn->out_link);
            else
                conn_try_later(stack, conn);
            return OUT_WAITING;
        }
        if (desc.kind == US_SEND_DATA && conn->snd_una == conn->snd_max &&
            stack->now_us - conn->sent_us > conn->rtt.rto_us) {
            u_u32 cwnd = conn->cc.cwnd;
            us_cc_idle(&conn->cc, stack->now_us - conn->sent_us, conn->rtt.rto_us);
            us_event_cwnd(stack, conn, cwnd);
        }
        desc.tso_mss = 0;
        if (stack->config.caps & US_CAP_TX_TSO)
            us_tso_extend(stack, conn, pkts[*filled], &desc);
        conn_fill_desc(stack, conn, &desc, &edge);
        us_tcp_build(stack, pkts[*filled], neighbour->l2, &conn->head, &desc, &conn->sendq);
        conn_count_bytes(stack, pkts[*filled]);
        (*filled)++;
        conn_record(stack, conn, &desc, edge);
        if (desc.kind == US_SEND_RST) {
            us_conn_free_if_done(stack, conn);
            return OUT_DONE;
        }
    }
    return OUT_MORE;
}

unsigned us_tcp_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    unsigned filled = 0;

    for (;;) {
        struct us_conn *conn;

        if (U_LIKELY(!stack->config.no_fast_path))
            filled += us_tcp_fast_output(stack, pkts + filled, n - filled);
        if (U_LIKELY(u_list_is_empty(&stack->out_list) || filled == n))
            break;
        conn = U_CONTAINER_OF(u_list_pop_front(&stack->out_list), struct us_conn, out_link);
        if (conn_output(stack, conn, pkts, n, &filled) == OUT_MORE)
            us_tcp_output_schedule(stack, conn);
    }
    return filled;
}

void us_tcp_next_hop_resolved(struct us_stack *stack, struct u_list *waiting)
{
    u_list_append_all(&stack->out_list, waiting);
}

void us_tcp_next_hop_unreachable(struct us_stack *stack, struct u_list *waiting)
{
    while (!u_list_is_empty(waiting)) {
        struct us_conn *conn = U_CONTAINER_OF(u_list_pop_front(waiting), struct us_conn, out_link);

        us_conn_leave_fast_path(conn);
        conn->flags |= US_CF_UNREACHABLE;
        if (conn->out_flags & US_OUT_RST)
            conn_give_up_rst(stack, conn);
        else if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED)
            us_conn_end(stack, conn, US_CLOSE_UNREACHABLE);
        else
            conn_try_later(stack, conn);
    }
}
