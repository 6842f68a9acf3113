/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way in and the way out of the frames that nearly all are.
 *
 * In, header prediction (Van Jacobson, 1990): from the Ethernet header to the event in one go. The
 * way through eth.c, ip4.c or ip6.c, tcp_in.c, tcp_ack.c and tcp_recv.c is what says how a
 * segment is to be treated. Each predicate here excludes one of its branches; what is left of it
 * once all hold is done in conn_take(), in its order. So a frame may go either way, with the same
 * result. Where a predicate fails nothing was changed and nothing counted.
 *
 * Some checks follow from the name: a frame that names a live connection comes from an address
 * that can have one and goes to one that is ours.
 *
 * Out: all that is queued goes into one segment, which both windows have room for. Its headers are
 * the connection's template with the numbers filled in, its checksum the template's with these
 * numbers added and the payload as it is copied. What us_tcp_plan() would decide is what the
 * predicates say, and conn_sent() is what conn_record() does then.
 */
#include "base/cksum.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"
#include "ustack/tcp_rxq.h"
#include "ustack/tcp_sendq.h"
#include "ustack/tcp_timer.h"

/* More bytes than that are summed by the functions for pieces of any length. */
enum { FAST_SUM_BYTES = 128 };

enum { FAST_PORTS_BYTES = 4 };

enum { FAST_HDR_BYTES = US_IP4_HDR_BYTES + US_TCP_HDR_BYTES };

/* RFC 7323 appendix A: two NOPs, then the timestamps' kind and length. */
enum { FAST_TS_HEAD = 0x0101080a };

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

/* Compilers leave a comparison of six bytes to the C library where they think it is seldom made. */
U_INLINE int mac_equal(const u_u8 *a, const u_u8 *b)
{
    u_u32 x[2] = {0, 0};
    u_u32 y[2] = {0, 0};

    u_copy(x, a, 4);
    u_copy(x + 1, a + 4, 2);
    u_copy(y, b, 4);
    u_copy(y + 1, b + 4, 2);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

/* Whether a header of Ethernet is for us, with the tag of the configuration or without one. */
U_INLINE int frame_is_ours(const struct us_stack *stack, const u_u8 *frame)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)frame;

    if (!mac_equal(hdr->dst, stack->config.mac) || (hdr->src[0] & 1))
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
    while (conn != U_NULL && U_UNLIKELY(!us_tcp_key_equal(&conn->key, &key)))
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
        if (frame->l4_bytes < frame->hdr_bytes || u_get_be32(words[0]) != FAST_TS_HEAD)
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
           (neighbour->id != conn->key.remote_ip || mac_equal(neighbour->l2, frame->mac));
}

/* ---- checksums ---- */

/*
 * Both addresses and both ports are those of the connection's own segments, the other way round,
 * which makes no difference to a sum.
 */
U_INLINE int frame_is_intact(const struct us_pkt *pkt, const struct us_conn *conn,
                             const struct fast_frame *frame, int is_ip6)
{
    const u_u8 *from = (const u_u8 *)frame->tcp + FAST_PORTS_BYTES;
    u_u32 bytes = frame->l4_bytes - FAST_PORTS_BYTES;
    u_u64 sum;

    if (!is_ip6 && !(pkt->flags & US_PKT_IP_CSUM_GOOD) &&
        !u_sum_is_good(u_sum_add(0, frame->l3, US_IP4_HDR_BYTES)))
        return 0;
    if (pkt->flags & US_PKT_L4_CSUM_GOOD)
        return 1;
    sum = u_sum_be32(conn->head.ports_sum, frame->l4_bytes);
    if (bytes > FAST_SUM_BYTES)
        return u_sum_is_good(u_sum_add64(sum, u_cksum_add(0, from, bytes) & 0xffff));
    sum = u_sum_add(sum, from, 16); /* the rest of the header */
    return u_sum_is_good(u_sum_add(sum, from + 16, bytes - 16));
}

/* ---- what the frame changes ---- */

/*
 * What us_tcp_ack_advance() does where, as with a request that follows a response, all that is in
 * flight is acknowledged, no more than a segment that was timed and not held back by the window.
 */
U_INLINE void conn_acked(struct us_stack *stack, struct us_conn *conn,
                         const struct fast_frame *frame)
{
    u_u32 ack = frame->ack;
    u_u32 acked = ack - conn->snd_una;

    if (U_UNLIKELY(ack != conn->snd_max || acked > conn->cc.mss ||
                   (conn->flags & (US_CF_RTT_TIMED | US_CF_WANT_SENDABLE)) != US_CF_RTT_TIMED ||
                   us_seq_lt(conn->snd_una, conn->limited) || conn->cc.kind == US_CC_DCTCP ||
                   conn->pmtu.probing)) {
        us_tcp_ack_advance(stack, conn, ack, frame->ts_ecr, 0);
        return;
    }
    us_rtt_sample(&conn->rtt, stack->now_us - conn->rtt_from_us);
    conn->flags &= (u_u8)~US_CF_RTT_TIMED;
    us_cc_not_limited(&conn->cc);
    conn->limited = ack;
    if (us_seq_gt(ack, conn->recover))
        conn->recover = ack - 1;
    conn->bytes_out += acked;
    conn->snd_una = ack;
    conn->snd_nxt = ack;
    us_sendq_acked(stack, &conn->sendq, ack);
    us_tcp_timer_idle(stack, conn);
}

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
        conn_acked(stack, conn, frame);
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

    if (U_UNLIKELY(pkt->next_seg != U_NULL || pkt->len < l2_bytes + FAST_HDR_BYTES ||
                   (pkt->flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD)) ||
                   !frame_is_ours(stack, pkt->data)))
        return 0;
    frame.mac = pkt->data + 6;
    frame.l3 = pkt->data + l2_bytes;
    is_ip6 = frame.l3[-2] == US_ETH_IP6 >> 8;
    if (U_UNLIKELY(frame.l3[-1] != (is_ip6 ? US_ETH_IP6 & 0xff : US_ETH_IP4 & 0xff)))
        return 0;
    if (U_LIKELY(frame.l3[-2] == US_ETH_IP4 >> 8)) {
        if (U_UNLIKELY(!frame_is_tcp4(&frame, pkt->len - l2_bytes)))
            return 0;
        conn = find4(stack, &frame);
    } else {
        if (!is_ip6 || !frame_is_tcp6(&frame, pkt->len - l2_bytes))
            return 0;
        conn = find6(stack, &frame);
    }
    if (U_UNLIKELY(conn == U_NULL || !us_conn_is_quiet(conn) || !frame_has_options(&frame, conn) ||
                   !conn_expects(conn, &frame) || !conn_knows_mac(conn, &frame)))
        return 0;
    if (U_UNLIKELY(!frame_is_intact(pkt, conn, &frame, is_ip6)))
        return 0;
    conn_take(stack, conn, &frame);
    return 1;
}

/* ---- out: what is sent ---- */

/* The next hop, if frames can be sent there without ado. */
U_INLINE struct us_neighbour *conn_hop(struct us_stack *stack, const struct us_conn *conn)
{
    struct us_neighbour *neighbour = conn->neighbour;

    if (neighbour == U_NULL || neighbour->serial != conn->hop_serial ||
        (!us_neighbour_is_fresh(stack, neighbour) && !us_neighbour_use(stack, neighbour)))
        return (struct us_neighbour *)U_NULL;
    return neighbour;
}

/* The chunk that holds the `len` bytes behind what was sent; null if it is more than one. */
U_INLINE struct us_chunk *conn_chunk(const struct us_conn *conn, u_u32 len)
{
    struct us_chunk *chunk = conn->sendq.head;

    return chunk->len >= len && conn->snd_nxt - chunk->seq <= chunk->len - len
               ? chunk
               : (struct us_chunk *)U_NULL;
}

/* Whether `len` bytes of new data are all there is to send, and may go now. */
U_INLINE int conn_sends_all(const struct us_conn *conn, u_u32 len)
{
    u_u32 flight = conn->snd_nxt - conn->snd_una;

    return len - 1 < conn->cc.mss && conn->snd_nxt == conn->snd_max &&
           flight + len <= conn->cc.cwnd && flight + len <= conn->snd_wnd &&
           !(conn->out_flags & ~(US_OUT_ACK | US_OUT_ACK_LATER)) && conn->acks_owed == 0 &&
           !(conn->opts & US_OPT_ECN) && !(conn->nagle && flight != 0) && conn->sack == U_NULL &&
           conn->sendq.refs == 0 && !us_rxq_has_sack(&conn->rxq) && !us_pmtu_is_low(conn) &&
           conn->pmtu.probe_bytes == 0;
}

/* Puts a word of a header in its place and adds it to the sum. */
U_INLINE u_u64 put_word(u_u8 *at, u_u32 value, u_u64 sum)
{
    u_u32 word = u_be32_word(value);

    u_copy(at, &word, sizeof(word));
    return sum + word; /* a few of them reach no carry out of 64 bits */
}

/* Writes the TCP header and returns the sum of it and of what the template stands for. */
U_INLINE u_u64 build_tcp(const struct us_stack *stack, const struct us_conn *conn, u_u8 *l4,
                         u_u32 hdr_bytes, u_u32 window)
{
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u32 shape = hdr_bytes << 26 | (u_u32)(US_TCP_ACK | US_TCP_PSH) << 16 | window;
    u_u64 sum = conn->head.ports_sum;

    sum = put_word(l4 + 4, conn->snd_nxt, sum);
    sum = put_word(l4 + 8, conn->rcv_nxt, sum);
    sum = put_word(l4 + 12, shape, sum);
    hdr->urgent = u_be16(0);
    if (hdr_bytes > US_TCP_HDR_BYTES) {
        sum = put_word(l4 + 20, FAST_TS_HEAD, sum);
        sum = put_word(l4 + 24, us_ts_clock(stack->now_us) + conn->ts_offset, sum);
        sum = put_word(l4 + 28, conn->ts_recent, sum);
    }
    return sum;
}

/* Stores a folded sum, as it stands in memory already, in a field of a header. */
U_INLINE void put_sum(struct u_be16 *field, u_u32 folded)
{
    u_u16 word = (u_u16)folded;

    u_copy(field, &word, sizeof(*field));
}

/* Fills in what is left of the IP header. */
U_INLINE void build_ip(const struct us_stack *stack, const struct us_conn *conn, struct us_pkt *pkt,
                       u_u32 l3_bytes, u_u32 l4_bytes)
{
    u_u8 *l3 = pkt->data + stack->l2_bytes;

    if (U_LIKELY(l3_bytes == US_IP4_HDR_BYTES)) {
        struct us_ip4_hdr *ip = (struct us_ip4_hdr *)l3;
        u_u32 total = US_IP4_HDR_BYTES + l4_bytes;
        ip->total_bytes = u_be16(total);
        if (stack->config.caps & US_CAP_TX_IP_CSUM)
            pkt->flags |= US_PKT_TX_IP_CSUM;
        else
            put_sum(&ip->checksum, ~u_sum_fold(u_sum_be32(conn->head.ip_sum, total)));
    } else {
        ((struct us_ip6_hdr *)l3)->payload_bytes = u_be16(l4_bytes);
    }
    pkt->l2_len = stack->l2_bytes;
    pkt->l3_len = (u_u8)l3_bytes;
    pkt->len = stack->l2_bytes + l3_bytes + l4_bytes;
}

/* What a segment is made of besides the connection's template and numbers. */
struct fast_out {
    const u_u8 *l2;
    const u_u8 *from; /* payload */
    u_u32 len;
    u_u32 window;
};

/* Builds the segment. The lengths of its headers are constants to most callers. */
U_ALWAYS_INLINE void conn_build(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt,
                                const struct fast_out *out, u_u32 l3_bytes, u_u32 hdr_bytes)
{
    u_u32 l4_at = stack->l2_bytes + l3_bytes;
    u_u32 len = out->len;
    u_u8 *l4 = pkt->data + l4_at;
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u64 sum;

    u_copy(pkt->data, out->l2, US_L2_HDR_MAX);
    u_copy(pkt->data + stack->l2_bytes, conn->head.ip, US_TCP_TEMPLATE_BYTES);
    sum = build_tcp(stack, conn, l4, hdr_bytes, out->window);
    pkt->next_seg = (struct us_pkt *)U_NULL;
    if (stack->config.caps & US_CAP_TX_L4_CSUM) {
        u_copy(l4 + hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, u_sum_fold(u_sum_be32(conn->head.pseudo_sum, hdr_bytes + len)));
        pkt->flags = US_PKT_TX_L4_CSUM;
        pkt->csum_start = (u_u16)l4_at;
        pkt->csum_offset = 16;
    } else {
        sum = u_sum_be32(sum, hdr_bytes + len);
        if (len > FAST_SUM_BYTES)
            sum = u_sum_add64(sum, u_cksum_copy(0, l4 + hdr_bytes, out->from, len) & 0xffff);
        else
            sum = u_sum_copy(sum, l4 + hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, ~u_sum_fold(sum));
        pkt->flags = 0;
    }
    pkt->l4_len = (u_u8)hdr_bytes;
    build_ip(stack, conn, pkt, l3_bytes, hdr_bytes + len);
    us_count_add(stack, US_C_TX_BYTES, pkt->len);
    us_count(stack, US_C_TCP_TX_SEGMENTS);
    us_count(stack, US_C_TCP_FAST_SENT);
}

/* What conn_record() does with such a segment. */
U_INLINE void conn_sent(struct us_stack *stack, struct us_conn *conn, u_u32 len, u_u32 edge)
{
    u_u32 seq = conn->snd_nxt;
    u_u32 end = seq + len;

    conn->out_flags = 0;
    conn->segs_unacked = 0;
    conn->ack_us = US_NEVER;
    conn->last_ack = conn->rcv_nxt;
    conn->rcv_adv = us_seq_max(conn->rcv_adv, edge);
    if (!(conn->flags & US_CF_RTT_TIMED)) {
        conn->flags |= US_CF_RTT_TIMED;
        conn->rtt_seq = end;
        conn->rtt_from_us = stack->now_us;
    }
    us_count_add(stack, US_C_TCP_TX_BYTES, len);
    conn->snd_max = end;
    conn->snd_nxt = end;
    conn->sent_us = stack->now_us;
    if (us_cc_is_limit(&conn->cc, end - conn->snd_una))
        conn->limited = us_seq_max(conn->limited, end);
    if (seq == conn->snd_una)
        us_recovery_timer_lone(stack, conn);
    else if (seq - conn->snd_una <= conn->cc.mss || conn->main_timer != US_TT_RESEND)
        us_recovery_timer(stack, conn);
}

int us_tcp_fast_output(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt)
{
    u_u32 l3_bytes = us_tcp_template_l3_bytes(&conn->head);
    u_u32 len = conn->snd_end - conn->snd_nxt;
    struct us_neighbour *hop;
    struct us_chunk *chunk;
    struct fast_out out;
    u_u32 edge;

    if (U_UNLIKELY(!us_conn_is_quiet(conn) || !conn_sends_all(conn, len) ||
                   stack->l2_bytes + US_IP_HDR_MAX + US_TCP_HDR_MAX + len > pkt->room))
        return 0;
    chunk = conn_chunk(conn, len);
    if (U_UNLIKELY(chunk == U_NULL))
        return 0;
    hop = conn_hop(stack, conn);
    if (U_UNLIKELY(hop == U_NULL))
        return 0;
    if (conn->snd_una == conn->snd_max && stack->now_us - conn->sent_us > conn->rtt.rto_us)
        us_cc_idle(&conn->cc, stack->now_us - conn->sent_us, conn->rtt.rto_us);
    out.l2 = hop->l2;
    out.from = chunk->data + (conn->snd_nxt - chunk->seq);
    out.len = len;
    out.window = us_tcp_window(stack, conn, &edge);
    if (!(conn->opts & US_OPT_TS))
        conn_build(stack, conn, pkt, &out, l3_bytes, US_TCP_HDR_BYTES);
    else if (U_LIKELY(l3_bytes == US_IP4_HDR_BYTES))
        conn_build(stack, conn, pkt, &out, US_IP4_HDR_BYTES,
                   US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES);
    else
        conn_build(stack, conn, pkt, &out, US_IP6_HDR_BYTES,
                   US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES);
    conn->sendq.cursor = chunk;
    conn_sent(stack, conn, len, edge);
    return 1;
}
