/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path in: header prediction for received frames; see tcp_fast.h.
 *
 * Each predicate here, or of tcp_fast_state.c, excludes a branch of the general code, in the order
 * of eth.c, ip4.c or ip6.c, tcp_in.c, tcp_ack.c and tcp_recv.c; conn_take_segment() does what these
 * do where all predicates hold. Addresses need no check of their own: a frame with the 4-tuple of a
 * live connection comes from a host and goes to an address of ours.
 */
#include "ustack/tcp/tcp_fast.h"

#include "base/cksum.h"
#include "base/cksum_raw.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_local_queue.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_recv.h"
#include "ustack/tcp/tcp_sendq.h"

/* ---- the connection of a frame ---- */

/* The first connection in the bucket of a packet, whose headers are long enough for IPv4. */
U_INLINE struct us_conn *first4(const struct us_stack *stack, const u_u8 *l3)
{
    u_u32 remote_ip;
    u_u32 ports;

    u_copy(&remote_ip, l3 + U_OFFSET_OF(struct us_ip4_hdr, src), sizeof(remote_ip));
    u_copy(&ports, l3 + US_IP4_HDR_BYTES, sizeof(ports));
    return stack->conn_table[us_tcp_hash_words(stack, remote_ip, ports) & stack->conn_mask];
}

/*
 * The connection of a packet if it is IPv4 without options, otherwise any connection or null, from
 * the first one of its bucket on. The template of a connection over IPv6 can match by chance;
 * conn_expects_ethernet() tells.
 */
U_INLINE struct us_conn *find4(struct us_conn *conn, const u_u8 *l3)
{
    const u_u8 *tuple = l3 + U_OFFSET_OF(struct us_ip4_hdr, src);

    while (conn != U_NULL && U_UNLIKELY(!(u_equal(conn->head.ip + US_TCP_TUPLE_AT, tuple, 8) &&
                                          u_equal(conn->head.ip + US_TCP_TUPLE_AT + 8, tuple + 8,
                                                  US_TCP_TUPLE_BYTES - 8))))
        conn = conn->hash_next;
    return conn;
}

/* The connection of an IPv6 packet without extension headers, otherwise any connection or null. */
static struct us_conn *find6(const struct us_stack *stack, const u_u8 *l3)
{
    const struct us_ip6_hdr *ip = (const struct us_ip6_hdr *)l3;
    const struct us_tcp_hdr *tcp = (const struct us_tcp_hdr *)(l3 + US_IP6_HDR_BYTES);
    struct us_tcp_key key;

    key.local_ip = us_local6_find(stack, &ip->dst);
    key.remote_ip = us_ip6_id(stack, &ip->src);
    key.local_port = u_get_be16(tcp->dst_port);
    key.remote_port = u_get_be16(tcp->src_port);
    return us_tcp_find(stack, &key, &ip->src);
}

/* ---- headers ---- */

/* The type in the Ethernet header, or tag, that ends before `l3`. */
U_INLINE unsigned ethernet_type(const u_u8 *l3)
{
    struct u_be16 field;

    u_copy(&field, l3 - sizeof(field), sizeof(field));
    return u_get_be16(field);
}

/*
 * Whether an Ethernet header is for us and from a host, with the VLAN tag of the configuration or
 * without one, and the connection's next hop need not be learned from it: a gateway may send from
 * another MAC address than it receives at.
 */
static U_NOINLINE int ethernet_is_plain(const struct us_stack *stack, const struct us_conn *conn,
                                        const u_u8 *frame)
{
    const struct us_neighbour *hop = conn->neighbour;
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)frame;

    if (!u_equal(hdr->dst, stack->config.mac, sizeof(hdr->dst)) || (hdr->src[0] & 1) ||
        ethernet_type(frame + stack->l2_bytes) !=
            (hop->is_ip6 ? (unsigned)US_ETH_IP6 : (unsigned)US_ETH_IP4))
        return 0;
    if (stack->l2_bytes != US_ETH_HDR_BYTES &&
        (u_get_be16(hdr->type) != US_ETH_VLAN ||
         frame[US_ETH_HDR_BYTES + 1] != (stack->config.vlan_id & 0xff) ||
         (frame[US_ETH_HDR_BYTES] & 15u) != stack->config.vlan_id >> 8))
        return 0;
    return hop->id != conn->key.remote_ip || u_equal(hop->l2, hdr->src, sizeof(hdr->src));
}

/* The same; first compares with the untagged header that frames of the next hop begin with. */
U_ALWAYS_INLINE int conn_expects_ethernet(const struct us_stack *stack, const struct us_conn *conn,
                                          const u_u8 *frame, u_u32 l2_bytes)
{
    const struct us_neighbour *hop = conn->neighbour;

    if (U_UNLIKELY(hop->serial != conn->hop_serial))
        return 0;
    return (l2_bytes == US_ETH_HDR_BYTES && hop->has_l2_in &&
            U_LIKELY(u_equal(frame, hop->l2_in, US_ETH_HDR_BYTES))) ||
           ethernet_is_plain(stack, conn, frame);
}

/*
 * Whether a packet is TCP, not a fragment, without options, and not marked: an ECN field of CE or
 * ECT(1) is left to general code.
 */
U_ALWAYS_INLINE int ip_is_plain(const u_u8 *l3, u_u32 l3_bytes)
{
    const struct us_ip4_hdr *ip4 = (const struct us_ip4_hdr *)l3;
    const struct us_ip6_hdr *ip6 = (const struct us_ip6_hdr *)l3;

    if (l3_bytes == US_IP4_HDR_BYTES)
        return ip4->version_ihl == US_IP4_PLAIN && !(ip4->tos & 1) &&
               !(u_get_be16(ip4->fragment) & 0x3fff) && ip4->protocol == US_IP_TCP;
    return ip6->first.b[0] >> 4 == 6 && (ip6->first.b[1] >> 4 & US_ECN_MASK) != US_ECN_CE &&
           ip6->next == US_IP_TCP;
}

U_ALWAYS_INLINE u_u32 ip_payload_bytes(const u_u8 *l3, u_u32 l3_bytes)
{
    if (l3_bytes == US_IP4_HDR_BYTES)
        return u_get_be16(((const struct us_ip4_hdr *)l3)->total_bytes) - US_IP4_HDR_BYTES;
    return u_get_be16(((const struct us_ip6_hdr *)l3)->payload_bytes);
}

/* ---- the segment ---- */

U_INLINE u_u32 tcp_word(const struct us_tcp_hdr *tcp, u_u32 at)
{
    struct u_be32 word;

    u_copy(&word, (const u_u8 *)tcp + at, sizeof(word));
    return u_get_be32(word);
}

U_INLINE u_u32 tcp_ts_val(const struct us_tcp_hdr *tcp)
{
    return tcp_word(tcp, US_TCP_HDR_BYTES + 4);
}

/* Whether there are timestamps, no other options, and the timestamp passes PAWS (RFC 7323 5.3). */
U_INLINE int conn_expects_ts(const struct us_conn *conn, const struct us_tcp_hdr *tcp)
{
    return tcp_word(tcp, US_TCP_HDR_BYTES) == US_TCP_OPT_TS_WORD &&
           us_seq_geq(tcp_ts_val(tcp), conn->ts_recent);
}

/* A received segment: its header, and what of it is used several times. */
struct received_segment {
    const struct us_tcp_hdr *tcp;
    u_u32 len; /* of the payload */
    u_u32 ack;
    u_u32 wnd; /* scaled */
};

/*
 * The prediction: the header has the shape's length and no flags but ACK and perhaps PSH, the
 * peer's window has room for a segment, the payload is next in order and within our window, and the
 * segment has payload, or acknowledges data in flight, or both. With the common headers it has
 * payload and acknowledges all that is in flight. Sets seg->ack and seg->wnd.
 */
U_ALWAYS_INLINE int conn_expects_segment(const struct us_conn *conn, struct received_segment *seg,
                                         struct us_fast_shape shape)
{
    u_u32 word = tcp_word(seg->tcp, U_OFFSET_OF(struct us_tcp_hdr, offset));

    seg->ack = u_get_be32(seg->tcp->ack);
    seg->wnd = (word & 0xffff) << conn->snd_scale;
    return (shape.tcp_bytes == US_TCP_HDR_BYTES || conn_expects_ts(conn, seg->tcp)) &&
           (word & ~((u_u32)US_TCP_PSH << 16 | 0xffff)) ==
               (shape.tcp_bytes << 26 | (u_u32)US_TCP_ACK << 16) &&
           seg->wnd >= conn->cc.mss && u_get_be32(seg->tcp->seq) == conn->rcv_nxt &&
           seg->len <= conn->rcv_adv - conn->rcv_nxt &&
           (shape.is_common ? seg->len != 0 && seg->ack == conn->snd_max
                            : seg->ack - conn->snd_una <= conn->snd_max - conn->snd_una &&
                                  (seg->len != 0 || seg->ack != conn->snd_una));
}

/*
 * Whether the checksum of a segment is valid. Addresses and ports are those of the connection's own
 * segments in reverse order, which makes no difference to a sum: the template has it.
 */
U_ALWAYS_INLINE int tcp_sum_is_valid(const struct us_conn *conn, const u_u8 *l4, u_u32 l4_bytes)
{
    u_u64 sum = conn->head.ports_sum + (u_u64)u_be32_word(l4_bytes);

    return u_cksum_raw_is_valid(u_cksum_raw_short(sum, (u_u8 *)U_NULL, l4 + US_TCP_PORTS_BYTES,
                                                  l4_bytes - US_TCP_PORTS_BYTES));
}

/* Whether the checksums are valid, those that the device has checked included. */
U_ALWAYS_INLINE int sums_are_valid(const struct us_conn *conn, u_u32 flags, const u_u8 *l3,
                                   u_u32 l3_bytes, u_u32 l4_bytes)
{
    if (U_LIKELY(!(flags & (US_PKT_IP_CSUM_GOOD | US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_GOOD |
                            US_PKT_L4_CSUM_BAD))))
        flags = 0; /* one test instead of four below */
    return !(flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD)) &&
           (l3_bytes != US_IP4_HDR_BYTES || (flags & US_PKT_IP_CSUM_GOOD) ||
            u_cksum_raw_is_valid(u_cksum_raw_add(0, l3, US_IP4_HDR_BYTES))) &&
           ((flags & US_PKT_L4_CSUM_GOOD) || tcp_sum_is_valid(conn, l3 + l3_bytes, l4_bytes));
}

/* ---- what the segment changes ---- */

/* A round-trip time that changes the estimate: the deadline of the next probe changes, too. */
static U_NOINLINE void conn_take_rtt(struct us_stack *stack, struct us_conn *conn)
{
    u_u64 rtt_us = stack->now_us - conn->sent_us;

    us_rtt_sample(&conn->rtt, rtt_us);
    us_queueing_sample(stack, conn, conn->sent_us);
    us_recovery_lower_ack_delay(stack, conn, rtt_us);
    us_conn_update_pto(stack, conn);
}

/*
 * What us_tcp_ack_advance() does if fast_path is US_FAST_RXTX and the one segment in flight is
 * acknowledged, but for the round-trip time.
 */
U_INLINE void conn_acked_all(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 len)
{
    conn->bytes_out += ack - conn->snd_una;
    conn->snd_una = ack;
    if (U_LIKELY(len > 0 && ack == conn->snd_end))
        us_sendq_park_block(stack, &conn->sendq, ack);
    else
        us_sendq_drop(stack, &conn->sendq, ack);
}

/*
 * What sync_input(), us_tcp_ack_process() and us_tcp_recv() do with a predicted segment. The round
 * trip comes last, as it is a call for some connections and the registers are free then.
 */
U_ALWAYS_INLINE void conn_take_segment(struct us_stack *stack, struct us_conn *conn,
                                       const struct received_segment *seg,
                                       struct us_fast_shape shape)
{
    const struct us_tcp_hdr *tcp = seg->tcp;
    u_u32 ack = seg->ack;
    int has_ts = shape.tcp_bytes > US_TCP_HDR_BYTES;
    int all_acked = 0;

    conn->last_rx_us = stack->now_us;
    if (has_ts)
        us_tcp_take_timestamp(conn, conn->rcv_nxt, tcp_ts_val(tcp));
    if (U_LIKELY(ack != conn->snd_una)) {
        all_acked = shape.is_common || (ack == conn->snd_max && conn->fast_path == US_FAST_RXTX);
        if (all_acked) {
            conn_acked_all(stack, conn, ack, seg->len);
        } else {
            if (conn->fast_path == US_FAST_RXTX)
                us_conn_leave_fast_path(conn);
            us_tcp_ack_advance(stack, conn, ack, has_ts ? tcp_word(tcp, US_TCP_HDR_BYTES + 8) : 0,
                               0);
        }
    }
    conn->snd_wl1 = conn->rcv_nxt;
    conn->snd_wl2 = ack;
    conn->snd_wnd = seg->wnd;
    if (U_UNLIKELY(seg->wnd > conn->snd_wnd_max))
        conn->snd_wnd_max = seg->wnd;
    if (U_LIKELY(seg->len > 0))
        us_tcp_recv_slice(stack, conn, (const u_u8 *)tcp + shape.tcp_bytes, seg->len);
    else if (conn->snd_nxt != conn->snd_end)
        us_tcp_output_schedule(stack, conn);
    if (all_acked && U_UNLIKELY(!us_rtt_is_converged(&conn->rtt, stack->now_us - conn->sent_us)))
        conn_take_rtt(stack, conn);
}

/* ---- the frame ---- */

/*
 * Takes a frame of a connection that has headers of this shape if its contents are as predicted.
 * Returns 0 if they are not.
 */
U_ALWAYS_INLINE int conn_take_frame(struct us_stack *stack, struct us_conn *conn,
                                    const struct us_pkt *pkt, struct us_fast_shape shape)
{
    const u_u8 *l3 = pkt->data + shape.l2_bytes;
    u_u32 hdr_bytes = shape.l2_bytes + shape.l3_bytes + shape.tcp_bytes;
    struct received_segment seg;

    seg.tcp = (const struct us_tcp_hdr *)(l3 + shape.l3_bytes);
    seg.len = ip_payload_bytes(l3, shape.l3_bytes) - shape.tcp_bytes;
    if (U_UNLIKELY(
            pkt->next_seg != U_NULL || pkt->len < hdr_bytes || seg.len > pkt->len - hdr_bytes ||
            !conn_expects_ethernet(stack, conn, pkt->data, shape.l2_bytes) ||
            !ip_is_plain(l3, shape.l3_bytes) || !conn_expects_segment(conn, &seg, shape) ||
            !sums_are_valid(conn, pkt->flags, l3, shape.l3_bytes, shape.tcp_bytes + seg.len)))
        return 0;
    conn_take_segment(stack, conn, &seg, shape);
    return 1;
}

/* Takes a frame with any headers, or returns 0. */
static U_NOINLINE int take_frame_any(struct us_stack *stack, const struct us_pkt *pkt)
{
    u_u32 l2_bytes = stack->l2_bytes;
    const u_u8 *l3 = pkt->data + l2_bytes;
    struct us_conn *conn = (struct us_conn *)U_NULL;

    if (pkt->len >= l2_bytes + US_IP4_HDR_BYTES + US_TCP_HDR_BYTES &&
        ethernet_type(l3) == US_ETH_IP4)
        conn = find4(first4(stack, l3), l3);
    else if (pkt->len >= l2_bytes + US_IP6_HDR_BYTES + US_TCP_HDR_BYTES &&
             ethernet_type(l3) == US_ETH_IP6)
        conn = find6(stack, l3);
    if (conn == U_NULL || (conn->fast_path == US_FAST_NONE && !us_conn_classify_rx(conn)))
        return 0;
    return conn_take_frame(stack, conn, pkt, us_fast_shape_of(stack, conn));
}

/* The first connection in the bucket of a frame that may have the common headers, or null. */
U_INLINE struct us_conn *first_common(const struct us_stack *stack, const struct us_pkt *pkt)
{
    return U_LIKELY(pkt->len >= US_COMMON_HDR_BYTES) ? first4(stack, pkt->data + US_ETH_HDR_BYTES)
                                                     : (struct us_conn *)U_NULL;
}

/* Takes a frame, or returns 0. `first` is its first_common(). */
U_INLINE int take_frame(struct us_stack *stack, const struct us_pkt *pkt, struct us_conn *first)
{
    struct us_conn *conn = find4(first, pkt->data + US_ETH_HDR_BYTES);

    if (U_LIKELY(conn != U_NULL && conn->is_common_rxtx))
        return conn_take_frame(stack, conn, pkt, us_fast_shape_common);
    return take_frame_any(stack, pkt);
}

unsigned us_tcp_fast_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n)
{
    struct us_conn *next = first_common(stack, pkts[0]);
    u_u64 bytes = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        struct us_conn *first = next;

        if (U_LIKELY(i + 1 < n)) {
            next = first_common(stack, pkts[i + 1]);
            U_PREFETCH(next);
        }
        if (!take_frame(stack, pkts[i], first))
            break;
        bytes += pkts[i]->len;
    }
    stack->counters[US_C_RX_BYTES] += bytes;
    us_count_add(stack, US_C_TCP_RX_SEGMENTS, i);
    us_count_add(stack, US_C_TCP_FAST_PATH, i);
    return i;
}
