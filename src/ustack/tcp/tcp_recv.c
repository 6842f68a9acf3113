/* SPDX-License-Identifier: BSD-3-Clause */
/* Received data and FINs, in and out of order, and the receive window. */
#include "ustack/tcp/tcp_recv.h"

#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_tw.h"

/* The most duplicate ACKs that are pending; more would be of no use to the sender. */
enum { ACKS_OWED_MAX = 64 };

static void recv_ack_now(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags |= US_OUT_ACK;
    us_tcp_output_schedule(stack, conn);
}

void us_tcp_recv_consumed(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 edge;
    u_u32 open;

    if (conn->state == US_TCP_CLOSED || conn->rx_flags & US_RX_FIN)
        return;
    if (us_tcp_window_above_half(stack, conn))
        return;
    open = us_seq_gt(conn->rcv_adv, conn->rcv_nxt) ? conn->rcv_adv - conn->rcv_nxt : 0;
    /* The peer may be waiting for a larger window: an ACK with data would come too late. */
    us_tcp_window(stack, conn, &edge);
    if (edge - conn->rcv_nxt >=
        open + u_min32(2 * conn->mss_sent, us_conn_recv_window(stack, conn) >> 1))
        recv_ack_now(stack, conn);
}

/* Copies in-order data that cannot be a slice to the receive queue. Returns how much. */
static u_u32 recv_queue(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    u_u32 taken =
        us_rxq_append(stack, &conn->rxq, conn->rcv_nxt, seg->data, seg->len, stack->rx_block_max);

    conn->rcv_nxt += taken;
    conn->rcv_queued += taken;
    conn->bytes_in += taken;
    us_count_add(stack, US_C_TCP_RX_BYTES, taken);
    if (taken < seg->len) {
        us_count(stack, US_C_DROP_TCP_RX_MEMORY);
        recv_ack_now(stack, conn);
    } else {
        us_tcp_recv_delay_ack(stack, conn);
    }
    us_event_queue_conn(stack, conn);
    return taken;
}

/* In-order data, and stored data that is contiguous then. Returns 0 if memory ran out. */
static int recv_in_order(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    int whole = 1;
    u_u32 nxt;

    if (conn->rx_flags & US_RX_HELD || conn->rxq.head != U_NULL)
        whole = recv_queue(stack, conn, seg) == seg->len;
    else
        us_tcp_recv_slice(stack, conn, seg->data, seg->len);
    if (conn->rxq.ooo == U_NULL)
        return whole;
    /* RFC 5681 4.2: an immediate ACK when a gap is filled, in part or in whole. */
    nxt = us_rxq_advance(stack, &conn->rxq, conn->rcv_nxt);
    conn->bytes_in += nxt - conn->rcv_nxt;
    us_count_add(stack, US_C_TCP_RX_BYTES, nxt - conn->rcv_nxt);
    conn->rcv_queued += nxt - conn->rcv_nxt;
    conn->rcv_nxt = nxt;
    us_event_queue_conn(stack, conn);
    recv_ack_now(stack, conn);
    return whole;
}

static void recv_out_of_order(struct us_stack *stack, struct us_conn *conn,
                              const struct us_seg *seg)
{
    us_count(stack, US_C_TCP_RX_OUT_OF_ORDER);
    conn->quick_acks = (u_u8)stack->config.quick_acks; /* the sender's cwnd is small now */
    if (!us_rxq_store(stack, &conn->rxq, seg->seq, seg->data, seg->len, stack->rx_block_max))
        us_count(stack, US_C_DROP_TCP_OOO_MEMORY);
    if (conn->dup_acks_owed < ACKS_OWED_MAX)
        conn->dup_acks_owed++;
    us_tcp_output_schedule(stack, conn);
}

/* The peer's FIN is next in order: RFC 9293 3.10.7.4, eighth. */
static void recv_fin(struct us_stack *stack, struct us_conn *conn, const struct us_rx *rx)
{
    conn->rcv_nxt++;
    conn->rx_flags |= US_RX_FIN;
    conn->rx_flags &= (u_u8)~US_RX_FIN_OUT_OF_ORDER;
    us_rxq_clear_ooo(stack, &conn->rxq); /* data of a broken peer beyond its FIN */
    recv_ack_now(stack, conn);
    us_event_raise(stack, conn, US_EVF_PEER_CLOSED);
    if (conn->state == US_TCP_ESTABLISHED) {
        conn->state = US_TCP_CLOSE_WAIT;
    } else if (conn->state == US_TCP_FIN_WAIT_1) {
        conn->state = US_TCP_CLOSING;
    } else if (conn->state == US_TCP_FIN_WAIT_2) {
        us_tw_add(stack, conn, rx);
        us_conn_end(stack, conn, US_CLOSE_NORMAL);
    }
}

void us_tcp_note_duplicate_data(struct us_conn *conn, const struct us_seg *seg)
{
    if ((conn->opts & US_OPT_SACK) && seg->len > 0 && us_seq_lt(seg->seq, conn->rcv_nxt))
        us_rxq_note_duplicate(&conn->rxq, seg->seq, us_seq_min(seg->seq + seg->len, conn->rcv_nxt));
}

/* Cuts off duplicate data and data beyond the window. */
static void recv_trim(struct us_conn *conn, struct us_seg *seg)
{
    if (us_seq_lt(seg->seq, conn->rcv_nxt)) {
        u_u32 known = u_min32(conn->rcv_nxt - seg->seq, seg->len);
        us_tcp_note_duplicate_data(conn, seg);
        seg->seq += known;
        seg->data += known;
        seg->len -= known;
    }
    if (us_seq_gt(seg->seq + seg->len, conn->rcv_adv)) {
        u_u32 beyond = u_min32(seg->seq + seg->len - conn->rcv_adv, seg->len);
        seg->len -= beyond;
        seg->flags &= (u_u8)~US_TCP_FIN;
    }
}

void us_tcp_recv(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg)
{
    u_u32 space = seg->len + (seg->flags & US_TCP_FIN ? 1 : 0);

    if (space == 0)
        return;
    if (conn->rx_flags & US_RX_FIN || us_seq_leq(seg->seq + space, conn->rcv_nxt)) {
        us_count(stack, US_C_DROP_TCP_OLD_DATA);
        us_tcp_note_duplicate_data(conn, seg);
        recv_ack_now(stack, conn); /* our ACK was lost, or the peer sends beyond its FIN */
        return;
    }
    recv_trim(conn, seg);
    if (seg->flags & US_TCP_FIN) {
        conn->rx_flags |= US_RX_FIN_OUT_OF_ORDER;
        conn->fin_seq = seg->seq + seg->len;
    }
    if (seg->len > 0) {
        if (seg->seq != conn->rcv_nxt) {
            recv_out_of_order(stack, conn, seg);
            return;
        }
        if (!recv_in_order(stack, conn, seg))
            return;
    }
    if (conn->state == US_TCP_FIN_WAIT_2)
        us_tcp_timer_start(stack, conn, US_TCP_TIMER_FIN_WAIT_2, stack->config.fin_wait2_us);
    if (conn->rx_flags & US_RX_FIN_OUT_OF_ORDER) {
        if (conn->fin_seq == conn->rcv_nxt)
            recv_fin(stack, conn, seg->rx);
        else
            recv_ack_now(stack, conn);
    }
}
