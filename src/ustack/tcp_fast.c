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
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"
#include "ustack/tcp_recv.h"
#include "ustack/tcp_rxq.h"
#include "ustack/tcp_sendq.h"
#include "ustack/tcp_timer.h"

/* More bytes than that are summed by the functions for pieces of any length. */
enum { FAST_SUM_BYTES = 128 };

enum { FAST_PORTS_BYTES = 4 };

enum { FAST_HDR_BYTES = US_IP4_HDR_BYTES + US_TCP_HDR_BYTES };

/* RFC 7323 appendix A: two NOPs, then the timestamps' kind and length. */
enum { FAST_TS_HEAD = 0x0101080a };

/* A frame, as far as it was looked at. */
struct fast_frame {
    const struct us_pkt *pkt;
    const u_u8 *l3;
    const struct us_tcp_hdr *tcp;
    u_u32 l4_bytes;
};

/* ---- the frame ---- */

/* Whether eight bytes are `want` where `mask` has bits. */
U_INLINE int bytes_match(const u_u8 *bytes, const u_u8 *mask, const u_u8 *want)
{
    u_u64 word;
    u_u64 bits;
    u_u64 wanted;

    u_copy(&word, bytes, sizeof(word));
    u_copy(&bits, mask, sizeof(bits));
    u_copy(&wanted, want, sizeof(wanted));
    return (word & bits) == wanted;
}

/* Whether what ends before `l3` is an Ethernet header of this type. */
U_INLINE int frame_has_type(const u_u8 *l3, unsigned type)
{
    struct u_be16 field;

    u_copy(&field, l3 - sizeof(field), sizeof(field));
    return u_get_be16(field) == type;
}

/*
 * Whether `bytes` bytes hold an IPv4 packet of TCP that is whole, not marked and without options.
 * What has the lower bit of ECN goes the long way: CE, and ECT(1), for which there is no use here.
 */
U_INLINE int frame_is_tcp4(struct fast_frame *frame, u_u32 bytes)
{
    /* Version and length of the header, ECN, then the fields of fragments. */
    static const u_u8 mask[8] = {0xff, 0x01, 0, 0, 0, 0, 0x3f, 0xff};
    static const u_u8 want[8] = {0x45, 0, 0, 0, 0, 0, 0, 0};
    const struct us_ip4_hdr *ip = (const struct us_ip4_hdr *)frame->l3;
    u_u32 total = u_get_be16(ip->total_bytes);

    frame->tcp = (const struct us_tcp_hdr *)(frame->l3 + US_IP4_HDR_BYTES);
    frame->l4_bytes = total - US_IP4_HDR_BYTES;
    return bytes_match(frame->l3, mask, want) && ip->protocol == US_IP_TCP && total <= bytes &&
           total >= FAST_HDR_BYTES &&
           ((frame->pkt->flags & US_PKT_IP_CSUM_GOOD) ||
            u_sum_is_good(u_sum_add(0, frame->l3, US_IP4_HDR_BYTES)));
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

/* Whether an IPv4 template has these names, of which the peer's are the destination there. */
U_INLINE int head_has_names(const struct us_tcp_template *head, u_u32 remote_ip, u_u32 local_ip,
                            u_u32 ports)
{
    u_u32 src;
    u_u32 dst;
    u_u32 head_ports;

    u_copy(&src, head->ip + U_OFFSET_OF(struct us_ip4_hdr, src), sizeof(src));
    u_copy(&dst, head->ip + U_OFFSET_OF(struct us_ip4_hdr, dst), sizeof(dst));
    u_copy(&head_ports, head->ip + US_IP4_HDR_BYTES, sizeof(head_ports));
    return dst == remote_ip && src == local_ip && head_ports == (ports << 16 | ports >> 16);
}

/*
 * The connection of an IPv4 packet without options, by its addresses and ports as they stand there.
 * The template of one over IPv6 can look like that; its next hop tells.
 */
U_INLINE struct us_conn *find4(const struct us_stack *stack, const struct fast_frame *frame)
{
    struct us_conn *conn;
    u_u32 remote_ip;
    u_u32 local_ip;
    u_u32 ports;

    u_copy(&remote_ip, frame->l3 + U_OFFSET_OF(struct us_ip4_hdr, src), sizeof(remote_ip));
    u_copy(&local_ip, frame->l3 + U_OFFSET_OF(struct us_ip4_hdr, dst), sizeof(local_ip));
    u_copy(&ports, frame->tcp, sizeof(ports));
    conn = stack->conn_table[us_tcp_hash_words(stack, remote_ip, ports) & stack->conn_mask];
    while (conn != U_NULL && U_UNLIKELY(!head_has_names(&conn->head, remote_ip, local_ip, ports)))
        conn = conn->hash_next;
    return conn;
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

/*
 * Whether a header of Ethernet is for us and from a host, with the tag of the configuration or
 * without one, and the connection's next hop need not be learnt from it.
 */
static int hop_is_known(const struct us_stack *stack, const struct us_neighbour *hop,
                        const struct us_conn *conn, const u_u8 *frame)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)frame;

    if (!u_equal(hdr->dst, stack->config.mac, sizeof(hdr->dst)) || (hdr->src[0] & 1) ||
        !frame_has_type(frame + stack->l2_bytes, hop->is_ip6 ? US_ETH_IP6 : US_ETH_IP4))
        return 0;
    if (stack->l2_bytes != US_ETH_HDR_BYTES &&
        (u_get_be16(hdr->type) != US_ETH_VLAN ||
         frame[US_ETH_HDR_BYTES + 1] != (stack->config.vlan_id & 0xff) ||
         (frame[US_ETH_HDR_BYTES] & 15u) != stack->config.vlan_id >> 8))
        return 0;
    return hop->id != conn->key.remote_ip || u_equal(hop->l2, hdr->src, sizeof(hdr->src));
}

/*
 * Whether the frame comes from where the next hop is known to be: mostly, whether its header is the
 * one that such frames have. A gateway may have another address to send from.
 */
U_INLINE int conn_knows_hop(const struct us_stack *stack, const struct us_conn *conn,
                            const u_u8 *frame)
{
    const struct us_neighbour *hop = conn->neighbour;
    u_u64 theirs[2];
    u_u64 known[2];

    if (U_UNLIKELY(hop == U_NULL || hop->serial != conn->hop_serial))
        return 0;
    /* Two words that overlap. */
    u_copy(theirs, frame, 8);
    u_copy(theirs + 1, frame + US_ETH_HDR_BYTES - 8, 8);
    u_copy(known, hop->l2_in, 8);
    u_copy(known + 1, hop->l2_in + US_ETH_HDR_BYTES - 8, 8);
    return U_LIKELY(((theirs[0] ^ known[0]) | (theirs[1] ^ known[1])) == 0 &&
                    stack->l2_bytes == US_ETH_HDR_BYTES) ||
           hop_is_known(stack, hop, conn, frame);
}

/* ---- the segment ---- */

U_INLINE u_u32 tcp_ts_val(const struct us_tcp_hdr *tcp)
{
    return u_get_be32(((const struct u_be32 *)(const void *)(tcp + 1))[1]);
}

U_INLINE u_u32 tcp_ts_ecr(const struct us_tcp_hdr *tcp)
{
    return u_get_be32(((const struct u_be32 *)(const void *)(tcp + 1))[2]);
}

/* Whether there are timestamps, alone and not older than the last ones. */
U_INLINE int conn_expects_ts(const struct us_conn *conn, const struct us_tcp_hdr *tcp)
{
    return u_get_be32(*(const struct u_be32 *)(const void *)(tcp + 1)) == FAST_TS_HEAD &&
           us_seq_geq(tcp_ts_val(tcp), conn->ts_recent);
}

/*
 * Whether the segment with `len` bytes of payload behind so long a header is the next one, or
 * acknowledges something, and brings no news but that.
 */
U_INLINE int conn_expects(const struct us_conn *conn, const struct us_tcp_hdr *tcp, u_u32 hdr_bytes,
                          u_u32 len)
{
    /* The length of the header, flags and window. */
    u_u32 shape = u_get_be32(*(const struct u_be32 *)(const void *)&tcp->offset);
    u_u32 ack = u_get_be32(tcp->ack);
    u_u32 seq = u_get_be32(tcp->seq);

    return (shape & ~((u_u32)US_TCP_PSH << 16 | 0xffff)) ==
               (hdr_bytes << 26 | (u_u32)US_TCP_ACK << 16) &&
           (shape & 0xffff) != 0 && seq == conn->rcv_nxt && len <= conn->rcv_adv - seq &&
           ack - conn->snd_una <= conn->snd_max - conn->snd_una &&
           (ack != conn->snd_una || len != 0) && us_seq_leq(conn->snd_wl1, seq) &&
           conn->rxq.blocks == 0 && conn->sack == U_NULL;
}

/*
 * Both addresses and both ports are those of the connection's own segments, the other way round,
 * which makes no difference to a sum.
 */
U_INLINE int segment_is_intact(const struct us_conn *conn, const struct us_tcp_hdr *tcp,
                               u_u32 l4_bytes)
{
    const u_u8 *from = (const u_u8 *)tcp + FAST_PORTS_BYTES;
    u_u32 bytes = l4_bytes - FAST_PORTS_BYTES;
    u_u64 sum = u_sum_be32(conn->head.ports_sum, l4_bytes);

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
U_INLINE void conn_acked(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr)
{
    u_u32 acked = ack - conn->snd_una;

    if (U_UNLIKELY(ack != conn->snd_max || acked > conn->cc.mss ||
                   (conn->flags & (US_CF_RTT_TIMED | US_CF_WANT_SENDABLE)) != US_CF_RTT_TIMED ||
                   us_seq_lt(conn->snd_una, conn->limited) || conn->cc.kind == US_CC_DCTCP ||
                   conn->pmtu.probing)) {
        us_tcp_ack_advance(stack, conn, ack, ts_ecr, 0);
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

/*
 * What sync_input(), us_tcp_ack_process() and us_tcp_recv() do with such a segment. Its numbers are
 * read again rather than kept: there are too many of them for the registers.
 */
U_ALWAYS_INLINE void conn_take(struct us_stack *stack, struct us_conn *conn,
                               const struct us_tcp_hdr *tcp, u_u32 hdr_bytes, u_u32 len)
{
    int has_ts = hdr_bytes > US_TCP_HDR_BYTES;
    u_u32 seq = conn->rcv_nxt;

    conn->heard_us = stack->now_us;
    if (has_ts)
        us_tcp_take_timestamp(stack, conn, seq, tcp_ts_val(tcp));
    if (u_get_be32(tcp->ack) != conn->snd_una)
        conn_acked(stack, conn, u_get_be32(tcp->ack), has_ts ? tcp_ts_ecr(tcp) : 0);
    conn->snd_wl1 = seq;
    conn->snd_wl2 = u_get_be32(tcp->ack);
    conn->snd_wnd = (u_u32)u_get_be16(tcp->window) << conn->snd_scale;
    conn->snd_wnd_max = u_max32(conn->snd_wnd_max, conn->snd_wnd);
    if (us_conn_has_unsent(conn))
        us_tcp_out_want(stack, conn);
    if (len > 0)
        us_tcp_recv_slice(stack, conn, (const u_u8 *)tcp + hdr_bytes, len);
}

/* Handles a segment of the connection with so long a header, a constant, or returns 0. */
U_ALWAYS_INLINE int conn_input(struct us_stack *stack, struct us_conn *conn,
                               const struct fast_frame *frame, u_u32 hdr_bytes)
{
    const struct us_tcp_hdr *tcp = frame->tcp;
    u_u32 len = frame->l4_bytes - hdr_bytes;

    if (U_UNLIKELY(frame->l4_bytes < hdr_bytes ||
                   (hdr_bytes > US_TCP_HDR_BYTES && !conn_expects_ts(conn, tcp)) ||
                   !conn_expects(conn, tcp, hdr_bytes, len)))
        return 0;
    if (U_UNLIKELY(!(frame->pkt->flags & US_PKT_L4_CSUM_GOOD) &&
                   !segment_is_intact(conn, tcp, frame->l4_bytes)))
        return 0;
    conn_take(stack, conn, tcp, hdr_bytes, len);
    return 1;
}

/* Handles a frame, or returns 0. */
U_INLINE int frame_input(struct us_stack *stack, const struct us_pkt *pkt)
{
    u_u32 l2_bytes = stack->l2_bytes;
    struct fast_frame frame;
    struct us_conn *conn;

    if (U_UNLIKELY(pkt->next_seg != U_NULL || pkt->len < l2_bytes + FAST_HDR_BYTES ||
                   (pkt->flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD))))
        return 0;
    frame.pkt = pkt;
    frame.l3 = pkt->data + l2_bytes;
    if (U_LIKELY(frame_has_type(frame.l3, US_ETH_IP4))) {
        if (U_UNLIKELY(!frame_is_tcp4(&frame, pkt->len - l2_bytes)))
            return 0;
        conn = find4(stack, &frame);
    } else {
        if (!frame_has_type(frame.l3, US_ETH_IP6) || !frame_is_tcp6(&frame, pkt->len - l2_bytes))
            return 0;
        conn = find6(stack, &frame);
    }
    if (U_UNLIKELY(conn == U_NULL || !us_conn_is_quiet(conn) ||
                   !conn_knows_hop(stack, conn, pkt->data)))
        return 0;
    if (U_LIKELY(conn->opts & US_OPT_TS))
        return conn_input(stack, conn, &frame, US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES);
    return conn_input(stack, conn, &frame, US_TCP_HDR_BYTES);
}

unsigned us_tcp_fast_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n)
{
    u_u64 bytes = 0;
    unsigned i;

    for (i = 0; i < n && frame_input(stack, pkts[i]); i++)
        bytes += pkts[i]->len;
    stack->counters[US_C_RX_BYTES] += bytes;
    us_count_add(stack, US_C_TCP_RX_SEGMENTS, i);
    us_count_add(stack, US_C_TCP_FAST_PATH, i);
    return i;
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
                       u_u8 *l3, u_u32 l3_bytes, u_u32 l4_bytes)
{
    if (U_LIKELY(l3_bytes == US_IP4_HDR_BYTES)) {
        struct us_ip4_hdr *ip = (struct us_ip4_hdr *)l3;
        u_u32 total = US_IP4_HDR_BYTES + l4_bytes;
        ip->total_bytes = u_be16(total);
        if (stack->config.caps & US_CAP_TX_IP_CSUM)
            pkt->flags |= US_PKT_TX_IP_CSUM;
        else
            put_sum(&ip->checksum, ~u_sum_join(conn->head.ip_sum, u_be16_word(total)));
    } else {
        ((struct us_ip6_hdr *)l3)->payload_bytes = u_be16(l4_bytes);
    }
}

/* What a segment is made of besides the connection's template and numbers. */
struct fast_out {
    const u_u8 *l2;
    const u_u8 *from; /* payload */
    u_u32 len;
    u_u32 window;
};

/* Lengths of headers, all three constants to the caller that most segments have. */
struct fast_shape {
    u_u32 l2_bytes;
    u_u32 l3_bytes;
    u_u32 hdr_bytes; /* of TCP */
};

/*
 * Builds the segment. More of the Ethernet header is copied than there is, in one word: what is too
 * much is overwritten.
 */
U_ALWAYS_INLINE void conn_build(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt,
                                const struct fast_out *out, struct fast_shape shape)
{
    u_u8 *frame = pkt->data;
    u_u8 *l3 = frame + shape.l2_bytes;
    u_u8 *l4 = l3 + shape.l3_bytes;
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u32 len = out->len;
    u_u32 l4_bytes = shape.hdr_bytes + len;
    u_u64 sum;

    u_copy(frame, out->l2, shape.l2_bytes == US_ETH_HDR_BYTES ? 16 : US_L2_HDR_MAX);
    u_copy(l3, conn->head.ip, shape.l3_bytes + FAST_PORTS_BYTES);
    sum = build_tcp(stack, conn, l4, shape.hdr_bytes, out->window);
    pkt->next_seg = (struct us_pkt *)U_NULL;
    if (stack->config.caps & US_CAP_TX_L4_CSUM) {
        u_copy(l4 + shape.hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, u_sum_join(conn->head.pseudo_sum, u_be16_word(l4_bytes)));
        pkt->flags = US_PKT_TX_L4_CSUM;
        pkt->csum_start = (u_u16)(shape.l2_bytes + shape.l3_bytes);
        pkt->csum_offset = 16;
    } else {
        sum = u_sum_be32(sum, l4_bytes);
        if (len > FAST_SUM_BYTES)
            sum = u_sum_add64(sum, u_cksum_copy(0, l4 + shape.hdr_bytes, out->from, len) & 0xffff);
        else
            sum = u_sum_copy(sum, l4 + shape.hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, ~u_sum_fold(sum));
        pkt->flags = 0;
    }
    build_ip(stack, conn, pkt, l3, shape.l3_bytes, l4_bytes);
    pkt->l2_len = (u_u8)shape.l2_bytes;
    pkt->l3_len = (u_u8)shape.l3_bytes;
    pkt->l4_len = (u_u8)shape.hdr_bytes;
    pkt->len = shape.l2_bytes + shape.l3_bytes + l4_bytes;
}

/* Builds it with the headers that the connection's segments have. */
U_INLINE void conn_build_any(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt,
                             const struct fast_out *out)
{
    struct fast_shape shape;
    int has_ts = (conn->opts & US_OPT_TS) != 0;

    if (U_LIKELY(stack->l2_bytes == US_ETH_HDR_BYTES && has_ts && conn->head.ip[0] >> 4 == 4)) {
        shape.l2_bytes = US_ETH_HDR_BYTES;
        shape.l3_bytes = US_IP4_HDR_BYTES;
        shape.hdr_bytes = US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES;
        conn_build(stack, conn, pkt, out, shape);
    } else {
        shape.l2_bytes = stack->l2_bytes;
        shape.l3_bytes = us_tcp_template_l3_bytes(&conn->head);
        shape.hdr_bytes = US_TCP_HDR_BYTES + (has_ts ? (u_u32)US_TCP_OPT_TS_BYTES : 0);
        conn_build(stack, conn, pkt, out, shape);
    }
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

/* Fills the packet with what the connection has to send, or returns 0. */
U_INLINE int conn_send_all(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt)
{
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
    conn_build_any(stack, conn, pkt, &out);
    conn->sendq.cursor = chunk;
    conn_sent(stack, conn, len, edge);
    return 1;
}

unsigned us_tcp_fast_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    u_u64 bytes = 0;
    unsigned i;

    for (i = 0; i < n && !u_list_is_empty(&stack->out_list); i++) {
        struct us_conn *conn = U_CONTAINER_OF(stack->out_list.next, struct us_conn, out_link);

        if (!conn_send_all(stack, conn, pkts[i]))
            break;
        u_list_pop_front(&stack->out_list);
        bytes += pkts[i]->len;
    }
    stack->counters[US_C_TX_BYTES] += bytes;
    us_count_add(stack, US_C_TCP_TX_SEGMENTS, i);
    us_count_add(stack, US_C_TCP_FAST_SENT, i);
    return i;
}
