/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segment arrival: parses a segment, finds its connection and checks it by state (RFC 9293 3.10.7
 * with RFC 5961 and RFC 7323). tcp_ack.c then processes the acknowledgment, tcp_recv.c the data.
 */
#include "base/cksum.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_synq.h"
#include "ustack/tcp/tcp_tw.h"

/* RFC 7323 5.5: after 24 idle days TS.Recent is invalid, as the clock may have wrapped. */
static const u_u32 paws_idle_ms = 24u * 24 * 3600 * 1000;

/* ---- parsing ---- */

/* Checks the segment's lengths and checksum and fills in *seg. Returns 0 if it was dropped. */
static int seg_parse(struct us_stack *stack, const struct us_rx *rx, struct us_seg *seg)
{
    const struct us_tcp_hdr *hdr = (const struct us_tcp_hdr *)rx->l4;
    u_u32 hdr_bytes;

    if (rx->l4_bytes < US_TCP_HDR_BYTES) {
        us_count(stack, US_C_DROP_TCP_HEADER);
        return 0;
    }
    hdr_bytes = (u_u32)(hdr->offset >> 4) << 2;
    if (hdr_bytes < US_TCP_HDR_BYTES || hdr_bytes > rx->l4_bytes) {
        us_count(stack, US_C_DROP_TCP_HEADER);
        return 0;
    }
    if (!(rx->flags & US_PKT_L4_CSUM_GOOD)) {
        u_u32 sum = us_rx_pseudo_sum(rx, US_IP_TCP, rx->l4_bytes);
        if ((rx->flags & US_PKT_L4_CSUM_BAD) ||
            u_cksum_finish(u_cksum_add(sum, rx->l4, rx->l4_bytes)) != 0) {
            us_count(stack, US_C_DROP_TCP_CHECKSUM);
            return 0;
        }
    }
    seg->seq = u_get_be32(hdr->seq);
    seg->ack = u_get_be32(hdr->ack);
    seg->wnd = u_get_be16(hdr->window);
    seg->flags = hdr->flags;
    seg->src_port = u_get_be16(hdr->src_port);
    seg->dst_port = u_get_be16(hdr->dst_port);
    seg->data = rx->l4 + hdr_bytes;
    seg->len = rx->l4_bytes - hdr_bytes;
    seg->rx = rx;
    us_tcp_opts_parse(&seg->opts, rx->l4 + US_TCP_HDR_BYTES, hdr_bytes - US_TCP_HDR_BYTES);
    if (seg->src_port == 0 || seg->dst_port == 0) {
        us_count(stack, US_C_DROP_TCP_HEADER);
        return 0;
    }
    return 1;
}

/* Sequence numbers that the segment occupies. */
static u_u32 seg_space(const struct us_seg *seg)
{
    return seg->len + (seg->flags & US_TCP_SYN ? 1 : 0) + (seg->flags & US_TCP_FIN ? 1 : 0);
}

/* ---- replies ---- */

struct us_reply *us_tcp_reply(struct us_stack *stack, const struct us_seg *seg)
{
    struct us_reply *reply = us_reply_add(stack, seg->rx, US_REPLY_TCP);

    if (reply == U_NULL)
        return reply;
    reply->tcp.src_port = seg->dst_port;
    reply->tcp.dst_port = seg->src_port;
    return reply;
}

void us_tcp_reply_rst(struct us_stack *stack, const struct us_seg *seg)
{
    struct us_reply *reply;

    if (seg->flags & US_TCP_RST)
        return;
    reply = us_tcp_reply(stack, seg);
    if (reply == U_NULL)
        return;
    if (seg->flags & US_TCP_ACK) {
        reply->tcp.seq = seg->ack;
        reply->tcp.flags = US_TCP_RST;
    } else {
        reply->tcp.ack = seg->seq + seg_space(seg);
        reply->tcp.flags = US_TCP_RST | US_TCP_ACK;
    }
}

/* ---- SYN-SENT, RFC 9293 3.10.7.3 ---- */

static void syn_sent_input(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg)
{
    int has_ack = (seg->flags & US_TCP_ACK) != 0;

    if (has_ack && (us_seq_leq(seg->ack, conn->iss) || us_seq_gt(seg->ack, conn->snd_max))) {
        us_count(stack, US_C_DROP_TCP_BAD_ACK);
        us_tcp_reply_rst(stack, seg);
        return;
    }
    if (seg->flags & US_TCP_RST) {
        us_count(stack, has_ack ? US_C_TCP_RX_RST : US_C_DROP_TCP_RST);
        if (has_ack)
            us_conn_end(stack, conn, US_CLOSE_REFUSED);
        return;
    }
    if (!(seg->flags & US_TCP_SYN) || (seg->flags & US_TCP_FIN)) {
        us_count(stack, US_C_DROP_TCP_NO_ACK);
        return;
    }
    us_conn_take_syn(stack, conn, seg);
    if (!has_ack) { /* simultaneous open */
        conn->state = US_TCP_SYN_RECEIVED;
        conn->out_flags |= US_OUT_SYN;
        us_tcp_output_schedule(stack, conn);
        return;
    }
    conn->last_rx_us = stack->now_us;
    us_tcp_ack_advance(stack, conn, seg->ack, 0, 0);
    conn->out_flags &= (u_u8)~US_OUT_SYN;
    conn->out_flags |= US_OUT_ACK;
    us_conn_establish(stack, conn);
    if (seg->len > 0) {
        seg->seq++;
        us_tcp_recv(stack, conn, seg);
    }
}

/* ---- synchronised states, RFC 9293 3.10.7.4 ---- */

/*
 * Updates the neighbour entry from the source MAC of an acceptable segment, unless it came by a
 * gateway.
 */
static void conn_learn_mac(struct us_stack *stack, const struct us_conn *conn,
                           const struct us_rx *rx)
{
    const struct us_neighbour *neighbour = conn->neighbour;

    if (U_LIKELY(neighbour != U_NULL && neighbour->serial == conn->hop_serial) &&
        (neighbour->id != conn->key.remote_ip || u_equal(neighbour->l2, rx->mac, 6)))
        return;
    us_neighbour_learn(stack, us_rx_source(rx), rx->mac, 1);
}

/* RFC 7323 4.3 and 5.3. Returns 0 if the segment was dropped. */
static int sync_check_timestamp(struct us_stack *stack, struct us_conn *conn,
                                const struct us_seg *seg)
{
    u_u32 now_ms = us_ts_clock(stack->now_us);

    if (!(conn->opts & US_OPT_TS) || (seg->flags & US_TCP_RST))
        return 1;
    if (!seg->opts.has_ts) {
        us_count(stack, US_C_DROP_TCP_NO_TIMESTAMP);
        return 0;
    }
    if (us_seq_lt(seg->opts.ts_val, conn->ts_recent) &&
        now_ms - us_ts_clock(conn->last_rx_us) < paws_idle_ms) {
        us_count(stack, US_C_DROP_TCP_PAWS);
        us_tcp_ack_unacceptable(stack, conn, seg);
        return 0;
    }
    return 1;
}

int us_seg_is_acceptable(const struct us_seg *seg, u_u32 rcv_nxt, u_u32 wnd)
{
    u_u32 space = seg_space(seg);
    u_u32 last = seg->seq + space - 1;

    if (seg->flags & US_TCP_RST) /* RFC 5961 3.2: by its sequence number alone */
        return seg->seq == rcv_nxt || seg->seq - rcv_nxt < wnd;
    /* The right edge is acceptable: a peer that has filled the window acknowledges from there. */
    if (space == 0)
        return seg->seq - rcv_nxt <= wnd;
    return seg->seq - rcv_nxt < wnd || last - rcv_nxt < wnd;
}

/* The same against the window that the connection has advertised. */
static int sync_seq_acceptable(const struct us_conn *conn, const struct us_seg *seg)
{
    u_u32 wnd = conn->rcv_adv - conn->rcv_nxt;

    if (us_seq_gt(conn->rcv_nxt, conn->rcv_adv))
        wnd = 0; /* a FIN just behind the window */
    return us_seg_is_acceptable(seg, conn->rcv_nxt, wnd);
}

/*
 * A segment outside the window is replied to with an ACK. Its acknowledgment is processed
 * nevertheless if it starts at RCV.NXT and the window is closed (3.10.7.4: "special allowance").
 * Returns 1 if the caller continues, with a segment without data.
 */
static int sync_unacceptable(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg)
{
    if (seg->flags & US_TCP_RST) {
        us_count(stack, US_C_DROP_TCP_RST);
        return 0;
    }
    us_count(stack, US_C_DROP_TCP_WINDOW);
    us_tcp_ack_unacceptable(stack, conn, seg);
    if (seg_space(seg) == 0)
        return 0;
    us_tcp_note_duplicate_data(conn, seg);
    if (seg->seq != conn->rcv_nxt)
        return 0;
    seg->len = 0;
    seg->flags &= (u_u8)~US_TCP_FIN;
    return 1;
}

/* RFC 5961 section 3; in SYN-RECEIVED RFC 9293 3.10.7.4. */
static void sync_rst(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    us_count(stack, US_C_TCP_RX_RST);
    if (seg->seq != conn->rcv_nxt) {
        us_tcp_challenge(stack, conn);
        return;
    }
    us_conn_end(stack, conn,
                conn->state == US_TCP_SYN_RECEIVED ? US_CLOSE_REFUSED : US_CLOSE_RESET);
}

/*
 * RFC 5961 section 4: a SYN never changes a connection. In SYN-RECEIVED the peer's own SYN,
 * retransmitted, is replied to again; with an ACK it is the other half of a simultaneous open (RFC
 * 9293 figure 7). Returns 1 if the caller continues, with a segment without SYN.
 */
static int sync_syn(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg)
{
    if (seg->flags & US_TCP_RST) {
        us_count(stack, US_C_DROP_TCP_RST);
        return 0;
    }
    if (conn->state != US_TCP_SYN_RECEIVED || seg->seq != conn->rcv_nxt - 1) {
        us_tcp_challenge(stack, conn);
        return 0;
    }
    if (!(seg->flags & US_TCP_ACK)) {
        us_ecn_syn_retransmitted(conn, seg);
        conn->out_flags |= US_OUT_SYN;
        us_tcp_output_schedule(stack, conn);
        return 0;
    }
    seg->flags &= (u_u8)~US_TCP_SYN;
    seg->seq++;
    seg->wnd >>= conn->snd_scale; /* RFC 7323 2.2: not scaled; general code scales it */
    us_tcp_challenge(stack, conn);
    return 1;
}

/* The ACK that completes the handshake. Returns 0 if the segment was dropped. */
static int syn_received_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    if (us_seq_leq(seg->ack, conn->iss) || us_seq_gt(seg->ack, conn->snd_max)) {
        us_count(stack, US_C_DROP_TCP_BAD_ACK);
        us_tcp_reply_rst(stack, seg);
        return 0;
    }
    us_tcp_ack_advance(stack, conn, seg->ack, 0, 0);
    conn->snd_wnd = seg->wnd << conn->snd_scale;
    conn->snd_wnd_max = u_max32(conn->snd_wnd_max, conn->snd_wnd);
    conn->snd_wl1 = seg->seq;
    conn->snd_wl2 = seg->ack;
    conn->out_flags &= (u_u8)~US_OUT_SYN;
    us_conn_establish(stack, conn);
    return 1;
}

/* RFC 5961 section 5. Returns 0 if the segment was dropped. */
static int sync_check_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    if (U_LIKELY(us_seq_leq(seg->ack, conn->snd_max) &&
                 us_seq_geq(seg->ack, conn->snd_una - conn->snd_wnd_max)))
        return 1;
    us_count(stack, US_C_DROP_TCP_BAD_ACK);
    us_tcp_challenge(stack, conn);
    return 0;
}

static void sync_input(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg)
{
    /* Before the window check: a SYN need not be within the window. */
    if ((seg->flags & US_TCP_SYN) && !sync_syn(stack, conn, seg))
        return;
    if (!sync_check_timestamp(stack, conn, seg))
        return;
    if (!sync_seq_acceptable(conn, seg)) {
        if (!sync_unacceptable(stack, conn, seg))
            return;
    }
    if (seg->flags & US_TCP_RST) {
        sync_rst(stack, conn, seg);
        return;
    }
    if (!(seg->flags & US_TCP_ACK)) {
        us_count(stack, US_C_DROP_TCP_NO_ACK);
        return;
    }
    if (conn->state == US_TCP_SYN_RECEIVED) {
        if (!syn_received_ack(stack, conn, seg))
            return;
    } else if (!sync_check_ack(stack, conn, seg)) {
        return;
    }
    conn->last_rx_us = stack->now_us;
    conn_learn_mac(stack, conn, seg->rx);
    if (conn->opts & US_OPT_TS) {
        /* A TS.Recent that is invalid (RFC 7323 5.5) is replaced. */
        if (us_seq_lt(seg->opts.ts_val, conn->ts_recent))
            conn->ts_recent = seg->opts.ts_val;
        us_tcp_take_timestamp(conn, seg->seq, seg->opts.ts_val);
    }
    us_tcp_ack_process(stack, conn, seg);
    if (conn->state == US_TCP_CLOSED)
        return;
    us_ecn_data(stack, conn, seg);
    us_tcp_recv(stack, conn, seg);
}

void us_tcp_input(struct us_stack *stack, const struct us_rx *rx)
{
    struct us_tcp_key key;
    struct us_seg seg;
    struct us_synq_entry *entry;
    struct us_conn *conn;
    struct us_tw *tw;
    struct us_listener *listener;
    const u_u32 *isn_min = (const u_u32 *)U_NULL;
    u_u32 isn_used = 0;

    if (!seg_parse(stack, rx, &seg))
        return;
    us_count(stack, US_C_TCP_RX_SEGMENTS);
    key.local_ip = rx->dst_ip;
    key.remote_ip = rx->src_ip;
    key.local_port = seg.dst_port;
    key.remote_port = seg.src_port;
    conn = us_tcp_find(stack, &key, rx->src6);
    if (U_LIKELY(conn != U_NULL)) {
        us_conn_leave_fast_path(conn);
        if (conn->state == US_TCP_SYN_SENT)
            syn_sent_input(stack, conn, &seg);
        else
            sync_input(stack, conn, &seg);
        return;
    }
    entry = us_synq_find(stack, &key, rx->src6);
    if (entry != U_NULL) {
        conn = us_tcp_listen_complete(stack, entry, &seg);
        if (conn != U_NULL)
            sync_input(stack, conn, &seg);
        return;
    }
    listener = us_tcp_listener_find(stack, key.local_port);
    if (listener != U_NULL && listener->one_address && listener->local != key.local_ip)
        listener = (struct us_listener *)U_NULL;
    tw = us_tw_find(stack, &key, rx->src6);
    if (tw != U_NULL) {
        if (!us_tw_input(stack, tw, &seg, listener != U_NULL, &isn_used))
            return;
        isn_min = &isn_used;
    }
    if (listener == U_NULL) {
        us_count(stack, US_C_DROP_TCP_NO_PORT);
        us_tcp_reply_rst(stack, &seg);
        return;
    }
    conn = us_tcp_listen_input(stack, &key, listener, &seg, isn_min);
    if (conn != U_NULL)
        sync_input(stack, conn, &seg);
}
