/* SPDX-License-Identifier: BSD-3-Clause */
/* Explicit congestion notification; see tcp_ecn.h. */
#include "ustack/tcp/tcp_ecn.h"

/* Both flags in a SYN request ECN; ECE alone in the SYN-ACK accepts (6.1.1). */
static unsigned ecn_flags(const struct us_seg *seg)
{
    return seg->flags & (unsigned)(US_TCP_ECE | US_TCP_CWR);
}

int us_ecn_is_requested(const struct us_stack *stack, const struct us_seg *syn)
{
    return stack->config.ecn != US_ECN_OFF && ecn_flags(syn) == (US_TCP_ECE | US_TCP_CWR);
}

void us_ecn_take_syn(const struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    if (seg->flags & US_TCP_ACK) {
        if ((conn->ecn & US_EF_REQUESTED) && ecn_flags(seg) == US_TCP_ECE)
            conn->opts |= US_OPT_ECN;
    } else if (us_ecn_is_requested(stack, seg)) {
        conn->opts |= US_OPT_ECN;
    }
    conn->ecn = 0;
}

void us_ecn_syn_retransmitted(struct us_conn *conn, const struct us_seg *seg)
{
    if (ecn_flags(seg) != (US_TCP_ECE | US_TCP_CWR))
        conn->opts &= (u_u8)~US_OPT_ECN;
}

/*
 * RFC 8257 3.2: the mark has changed while an ACK was delayed: sends that ACK for the segments
 * before, so that the peer can count the marked bytes.
 */
static void ecn_flush_delayed(struct us_stack *stack, struct us_conn *conn,
                              const struct us_seg *seg)
{
    struct us_reply *reply;
    u_u32 edge;

    if (!(conn->out_flags & US_OUT_DELAYED_ACK))
        return;
    reply = us_tcp_reply(stack, seg);
    if (reply == U_NULL)
        return;
    reply->tcp.seq = conn->snd_max;
    reply->tcp.ack = conn->rcv_nxt;
    reply->tcp.flags = (u_u8)(US_TCP_ACK | (conn->ecn & US_EF_LAST_CE ? (int)US_TCP_ECE : 0));
    reply->tcp.window = us_tcp_window(stack, conn, &edge);
    conn->rcv_adv = us_seq_max(conn->rcv_adv, edge);
    if (conn->opts & US_OPT_TS) {
        reply->tcp.has_ts = 1;
        reply->tcp.ts_val = us_ts_clock(stack->now_us) + conn->ts_offset;
        reply->tcp.ts_ecr = conn->ts_recent;
    }
    conn->last_ack = conn->rcv_nxt;
}

static void ecn_data_dctcp(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg,
                           int marked)
{
    if (marked == ((conn->ecn & US_EF_LAST_CE) != 0))
        return;
    ecn_flush_delayed(stack, conn, seg);
    conn->ecn ^= US_EF_LAST_CE;
    conn->out_flags |= US_OUT_ACK;
}

void us_ecn_data(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    int marked = (seg->rx->tos & US_ECN_MASK) == US_ECN_CE;

    if (!(conn->opts & US_OPT_ECN) || seg->len == 0)
        return;
    if (marked)
        us_count(stack, US_C_TCP_ECN_RX_CE);
    if (conn->cc.kind == US_CC_DCTCP) {
        ecn_data_dctcp(stack, conn, seg, marked);
        return;
    }
    if (seg->flags & US_TCP_CWR)
        conn->ecn &= (u_u8)~US_EF_SEND_ECE;
    if (marked) {
        if (!(conn->ecn & US_EF_SEND_ECE))
            conn->out_flags |= US_OUT_ACK; /* the mark has changed: no delay */
        conn->ecn |= US_EF_SEND_ECE;
    }
}

void us_ecn_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    if (!(conn->opts & US_OPT_ECN))
        return;
    /* Once the segment with CWR is acknowledged, ECE reports a new mark. */
    if ((conn->ecn & US_EF_REDUCED) && us_seq_gt(conn->snd_una, conn->rec.cwr_end))
        conn->ecn &= (u_u8)~US_EF_REDUCED;
    if (!(seg->flags & US_TCP_ECE))
        return;
    us_count(stack, US_C_TCP_ECN_RX_ECE);
    if (conn->ecn & US_EF_REDUCED)
        return;
    conn->ecn |= US_EF_REDUCED | US_EF_SEND_CWR;
    conn->rec.cwr_end = conn->snd_max;
    /* A loss in this round trip has reduced cwnd already. */
    if ((conn->flags & US_CF_RECOVERY) || us_seq_leq(conn->snd_una, us_conn_lazy(conn)->recover))
        return;
    us_count(stack, US_C_TCP_ECN_REDUCTIONS);
    us_count(stack, US_C_TCP_CC_REDUCTIONS);
    us_cc_reduce(&conn->cc, u_max32(conn->snd_max - conn->snd_una, conn->cc.cwnd), 1);
    conn->rec.flags &= (u_u8) ~(US_RF_UNDO | US_RF_EIFEL);
}

void us_ecn_fill(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    if (desc->flags & (US_TCP_SYN | US_TCP_RST))
        return;
    if (conn->ecn & (conn->cc.kind == US_CC_DCTCP ? US_EF_LAST_CE : US_EF_SEND_ECE))
        desc->flags |= US_TCP_ECE;
    if (desc->len == 0 || us_seq_lt(desc->seq, conn->snd_max) || desc->kind == US_SEND_PROBE)
        return;
    desc->ecn = US_ECN_ECT0;
    if (conn->ecn & US_EF_SEND_CWR)
        desc->flags |= US_TCP_CWR;
}
