/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Header prediction (Van Jacobson, 1990): the way in of the frame that nearly all are, from the
 * Ethernet header to the event in one go.
 *
 * The way through eth.c, ip4.c or ip6.c, tcp_in.c, tcp_ack.c and tcp_recv.c is what says how a
 * segment is to be treated. Each predicate here excludes one of its branches; what is left of it
 * once all hold is done in conn_take(), in its order. So a frame may go either way, with the same
 * result. Where a predicate fails nothing was changed and nothing counted.
 *
 * Some checks follow from the name: a frame that names a live connection comes from an address
 * that can have one and goes to one that is ours.
 */
#include "base/cksum.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"

enum { FAST_HDR_BYTES = US_IP4_HDR_BYTES + US_TCP_HDR_BYTES };

/* RFC 7323 appendix A: two NOPs, then the timestamps' kind and length. */
static const u_u32 fast_ts_head = 0x0101080a;

/* What a frame consists of, as far as it was looked at. */
struct fast_frame {
    const u_u8 *mac; /* of the sender */
    const u_u8 *l3;
    const struct us_tcp_hdr *tcp;
    u_u32 l4_bytes;
    u_u32 hdr_bytes; /* of TCP, options included */
    u_u32 len;       /* payload */
    u_u32 seq;
    u_u32 ack;
    u_u32 wnd; /* as in the header */
    u_u32 ts_val;
    u_u32 ts_ecr;
};

/* ---- the frame ---- */

/* Whether a header of Ethernet is for us, with the tag of the configuration or without one. */
U_INLINE int frame_is_ours(const struct us_stack *stack, const u_u8 *frame)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)frame;

    if (!u_equal(hdr->dst, stack->config.mac, sizeof(hdr->dst)) || (hdr->src[0] & 1))
        return 0;
    if (U_LIKELY(stack->l2_bytes == US_ETH_HDR_BYTES))
        return 1;
    return u_get_be16(hdr->type) == US_ETH_VLAN &&
           frame[US_ETH_HDR_BYTES + 1] == (stack->config.vlan_id & 0xff) &&
           (frame[US_ETH_HDR_BYTES] & 15u) == stack->config.vlan_id >> 8;
}

/* Whether `bytes` bytes hold an IPv4 packet of TCP that is whole, not marked and without options.
 */
U_INLINE int frame_is_tcp4(struct fast_frame *frame, u_u32 bytes)
{
    const struct us_ip4_hdr *ip = (const struct us_ip4_hdr *)frame->l3;
    u_u32 total = u_get_be16(ip->total_bytes);

    frame->tcp = (const struct us_tcp_hdr *)(frame->l3 + US_IP4_HDR_BYTES);
    frame->l4_bytes = total - US_IP4_HDR_BYTES;
    return ip->version_ihl == 0x45 && (ip->tos & US_ECN_MASK) != US_ECN_CE && total <= bytes &&
           total >= FAST_HDR_BYTES && ip->protocol == US_IP_TCP &&
           (u_get_be16(ip->fragment) & (US_IP4_MORE_FRAGMENTS | US_IP4_OFFSET_MASK)) == 0;
}

/* The same of an IPv6 packet without extension headers. */
U_INLINE int frame_is_tcp6(struct fast_frame *frame, u_u32 bytes)
{
    const struct us_ip6_hdr *ip = (const struct us_ip6_hdr *)frame->l3;

    frame->tcp = (const struct us_tcp_hdr *)(frame->l3 + US_IP6_HDR_BYTES);
    frame->l4_bytes = u_get_be16(ip->payload_bytes);
    return ip->first.b[0] >> 4 == 6 && (ip->first.b[1] >> 4 & US_ECN_MASK) != US_ECN_CE &&
           US_IP6_HDR_BYTES + frame->l4_bytes <= bytes && frame->l4_bytes >= US_TCP_HDR_BYTES &&
           ip->next == US_IP_TCP;
}

/* ---- the connection ---- */

U_INLINE struct us_conn *find4(const struct us_stack *stack, const struct fast_frame *frame)
{
    const struct us_ip4_hdr *ip = (const struct us_ip4_hdr *)frame->l3;
    struct us_tcp_key key;
    struct us_conn *conn;

    key.local_ip = u_get_be32(ip->dst);
    key.remote_ip = u_get_be32(ip->src);
    key.local_port = u_get_be16(frame->tcp->dst_port);
    key.remote_port = u_get_be16(frame->tcp->src_port);
    conn = *us_tcp_bucket(stack, &key);
    while (conn != U_NULL && !us_tcp_key_equal(&conn->key, &key))
        conn = conn->hash_next;
    return us_local_is_ip6(key.local_ip) ? (struct us_conn *)U_NULL : conn;
}

/* Our address is compared with the template's, so that its place in the table is of no matter. */
static struct us_conn *find6(const struct us_stack *stack, const struct fast_frame *frame)
{
    const struct us_ip6_hdr *ip = (const struct us_ip6_hdr *)frame->l3;
    struct us_tcp_key key;
    struct us_conn *conn;

    key.local_ip = 0; /* not looked at */
    key.remote_ip = us_ip6_id(stack, &ip->src);
    key.local_port = u_get_be16(frame->tcp->dst_port);
    key.remote_port = u_get_be16(frame->tcp->src_port);
    for (conn = *us_tcp_bucket(stack, &key); conn != U_NULL; conn = conn->hash_next) {
        const struct us_ip6_hdr *head = (const struct us_ip6_hdr *)conn->head.ip;
        if (conn->key.remote_ip == key.remote_ip && conn->key.remote_port == key.remote_port &&
            conn->key.local_port == key.local_port && us_local_is_ip6(conn->key.local_ip) &&
            us_ip6_equal(&head->dst, &ip->src) && us_ip6_equal(&head->src, &ip->dst))
            return conn;
    }
    return (struct us_conn *)U_NULL;
}

/* Reads the options: of a connection with timestamps these alone, of one without none. */
U_INLINE int frame_has_options(struct fast_frame *frame, const struct us_conn *conn)
{
    const struct u_be32 *words = (const struct u_be32 *)(const void *)(frame->tcp + 1);

    frame->ts_val = 0;
    frame->ts_ecr = 0;
    frame->hdr_bytes = US_TCP_HDR_BYTES;
    if (conn->opts & US_OPT_TS) {
        frame->hdr_bytes = US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES;
        if (frame->l4_bytes < frame->hdr_bytes || u_get_be32(words[0]) != fast_ts_head)
            return 0;
        frame->ts_val = u_get_be32(words[1]);
        frame->ts_ecr = u_get_be32(words[2]);
        if (us_seq_lt(frame->ts_val, conn->ts_recent))
            return 0;
    }
    frame->len = frame->l4_bytes - frame->hdr_bytes;
    return frame->tcp->offset == frame->hdr_bytes << 2;
}

/* Whether the segment is the next one, or acknowledges something, and brings no news but that. */
U_INLINE int conn_expects(const struct us_conn *conn, struct fast_frame *frame)
{
    frame->seq = u_get_be32(frame->tcp->seq);
    frame->ack = u_get_be32(frame->tcp->ack);
    frame->wnd = u_get_be16(frame->tcp->window);
    return frame->seq == conn->rcv_nxt && frame->len <= conn->rcv_adv - conn->rcv_nxt &&
           (frame->tcp->flags & ~US_TCP_PSH) == US_TCP_ACK &&
           frame->ack - conn->snd_una <= conn->snd_max - conn->snd_una &&
           (frame->ack != conn->snd_una || frame->len != 0) && frame->wnd != 0 &&
           us_seq_leq(conn->snd_wl1, frame->seq) && conn->rxq.blocks == 0 && conn->sack == U_NULL;
}

/* Whether the frame comes from where the next hop is known to be. */
U_INLINE int conn_knows_mac(const struct us_conn *conn, const struct fast_frame *frame)
{
    const struct us_neighbour *neighbour = conn->neighbour;

    return neighbour != U_NULL && neighbour->serial == conn->hop_serial &&
           (neighbour->id != conn->key.remote_ip || u_equal(neighbour->l2, frame->mac, 6));
}

/* ---- checksums ---- */

U_INLINE int frame_is_intact(const struct us_pkt *pkt, const struct fast_frame *frame, int is_ip6)
{
    const u_u8 *addresses = frame->l3 + (is_ip6 ? 8 : 12);
    u_u64 sum;

    if (!is_ip6 && !(pkt->flags & US_PKT_IP_CSUM_GOOD) &&
        !u_sum_is_good(u_sum_add(0, frame->l3, US_IP4_HDR_BYTES)))
        return 0;
    if (pkt->flags & US_PKT_L4_CSUM_GOOD)
        return 1;
    sum = u_sum_be32(0, (u_u32)US_IP_TCP << 16 | frame->l4_bytes);
    sum = is_ip6 ? u_sum_add(sum, addresses, 32) : u_sum_add(sum, addresses, 8);
    sum = u_sum_add(sum, frame->tcp, US_TCP_HDR_BYTES);
    return u_sum_is_good(u_sum_add(sum, frame->tcp + 1, frame->l4_bytes - (u_u32)US_TCP_HDR_BYTES));
}

/* ---- what the frame changes ---- */

/* What sync_input(), us_tcp_ack_process() and us_tcp_recv() do with such a segment. */
U_INLINE void conn_take(struct us_stack *stack, struct us_conn *conn,
                        const struct fast_frame *frame)
{
    us_count(stack, US_C_TCP_RX_SEGMENTS);
    us_count(stack, US_C_TCP_FAST_PATH);
    conn->heard_us = stack->now_us;
    if (conn->opts & US_OPT_TS)
        us_tcp_take_timestamp(stack, conn, frame->seq, frame->ts_val);
    if (frame->ack != conn->snd_una)
        us_tcp_ack_advance(stack, conn, frame->ack, frame->ts_ecr, 0);
    conn->snd_wl1 = frame->seq;
    conn->snd_wl2 = frame->ack;
    conn->snd_wnd = frame->wnd << conn->snd_scale;
    conn->snd_wnd_max = u_max32(conn->snd_wnd_max, conn->snd_wnd);
    if (us_conn_has_unsent(conn))
        us_tcp_out_want(stack, conn);
    if (frame->len > 0)
        us_tcp_recv_slice(stack, conn, (const u_u8 *)frame->tcp + frame->hdr_bytes, frame->len);
}

int us_tcp_fast_input(struct us_stack *stack, const struct us_pkt *pkt)
{
    u_u32 l2_bytes = stack->l2_bytes;
    struct fast_frame frame;
    struct us_conn *conn;
    int is_ip6;

    if (pkt->next_seg != U_NULL || pkt->len < l2_bytes + FAST_HDR_BYTES ||
        (pkt->flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD)) ||
        !frame_is_ours(stack, pkt->data))
        return 0;
    frame.mac = pkt->data + 6;
    frame.l3 = pkt->data + l2_bytes;
    is_ip6 = frame.l3[-2] == US_ETH_IP6 >> 8 && frame.l3[-1] == (US_ETH_IP6 & 0xff);
    if (U_LIKELY(frame.l3[-2] == US_ETH_IP4 >> 8 && frame.l3[-1] == (US_ETH_IP4 & 0xff))) {
        if (!frame_is_tcp4(&frame, pkt->len - l2_bytes))
            return 0;
        conn = find4(stack, &frame);
    } else {
        if (!is_ip6 || !frame_is_tcp6(&frame, pkt->len - l2_bytes))
            return 0;
        conn = find6(stack, &frame);
    }
    if (conn == U_NULL || !us_conn_is_quiet(conn) || !frame_has_options(&frame, conn) ||
        !conn_expects(conn, &frame) || !conn_knows_mac(conn, &frame) ||
        !frame_is_intact(pkt, &frame, is_ip6))
        return 0;
    conn_take(stack, conn, &frame);
    return 1;
}
