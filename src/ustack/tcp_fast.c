/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way in of the frames that nearly all are: header prediction (Van Jacobson, 1990), from the
 * Ethernet header to the event in one go. The way out is in tcp_fast_out.c.
 *
 * The way through eth.c, ip4.c or ip6.c, tcp_in.c, tcp_ack.c and tcp_recv.c is what says how a
 * segment is to be treated. Each predicate here, or of tcp_steady.c, excludes one of its branches;
 * what is left of it once all hold is done in conn_take(), in its order. So a frame may go either
 * way, with the same result. Where a predicate fails nothing was changed and nothing counted.
 *
 * Some checks follow from the name: a frame that names a live connection comes from an address
 * that can have one and goes to one that is ours.
 */
#include "ustack/tcp_fast.h"
#include "base/cksum.h"
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"
#include "ustack/tcp_recv.h"
#include "ustack/tcp_sendq.h"
#include "ustack/tcp_steady.h"

enum { FAST_HDR_BYTES = US_IP4_HDR_BYTES + US_TCP_HDR_BYTES };

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

U_INLINE u_u64 sum_word(u_u64 sum, const u_u8 *at)
{
    u_u64 word;

    u_copy(&word, at, sizeof(word));
    return u_sum_add64(sum, word);
}

U_INLINE u_u64 sum_half(u_u64 sum, const u_u8 *at)
{
    u_u32 half;

    u_copy(&half, at, sizeof(half));
    return u_sum_add64(sum, half);
}

/* An IPv4 header without options, its checksum included. */
U_INLINE u_u64 sum_ip4(const u_u8 *l3)
{
    return sum_half(sum_word(sum_word(0, l3), l3 + 8), l3 + 16);
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
           ((frame->pkt->flags & US_PKT_IP_CSUM_GOOD) || u_sum_is_good(sum_ip4(frame->l3)));
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

/* Whether these are the names of the connection in what it receives over IPv4. */
U_INLINE int conn_has_names(const struct us_conn *conn, const u_u8 *names)
{
    const u_u8 *known = conn->head.ip + US_TCP_NAMES_AT;

    return u_equal(known, names, 8) && u_equal(known + 8, names + 8, US_TCP_NAMES_BYTES - 8);
}

/*
 * The connection of an IPv4 packet without options, by its addresses and ports as they stand there.
 * The template of one over IPv6 can look like that; its next hop tells.
 */
U_INLINE struct us_conn *find4(const struct us_stack *stack, const u_u8 *l3)
{
    const u_u8 *names = l3 + U_OFFSET_OF(struct us_ip4_hdr, src);
    struct us_conn *conn;
    u_u32 remote_ip;
    u_u32 ports;

    u_copy(&remote_ip, names, sizeof(remote_ip));
    u_copy(&ports, names + 8, sizeof(ports));
    conn = stack->conn_table[us_tcp_hash_words(stack, remote_ip, ports) & stack->conn_mask];
    while (conn != U_NULL && U_UNLIKELY(!conn_has_names(conn, names)))
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

    if (U_UNLIKELY(hop->serial != conn->hop_serial))
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
    return u_get_be32(*(const struct u_be32 *)(const void *)(tcp + 1)) == US_FAST_TS_HEAD &&
           us_seq_geq(tcp_ts_val(tcp), conn->ts_recent);
}

/* The length of the header, flags and window. */
U_INLINE u_u32 tcp_shape(const struct us_tcp_hdr *tcp)
{
    return u_get_be32(*(const struct u_be32 *)(const void *)&tcp->offset);
}

/* Whether the header is so long and has no flags but ACK and perhaps PSH. */
U_INLINE int tcp_shape_is_plain(u_u32 shape, u_u32 hdr_bytes)
{
    return (shape & ~((u_u32)US_TCP_PSH << 16 | 0xffff)) ==
           (hdr_bytes << 26 | (u_u32)US_TCP_ACK << 16);
}

/*
 * Both addresses and both ports are those of the connection's own segments, the other way round,
 * which makes no difference to a sum.
 */
U_ALWAYS_INLINE int segment_is_intact(const struct us_conn *conn, const struct us_tcp_hdr *tcp,
                                      u_u32 hdr_bytes, u_u32 len)
{
    const u_u8 *hdr = (const u_u8 *)tcp;
    u_u64 sum = conn->head.ports_sum + (u_u64)u_be32_word(hdr_bytes + len);

    sum = u_sum_add(sum, hdr + US_FAST_PORTS_BYTES, hdr_bytes - US_FAST_PORTS_BYTES);
    return u_sum_is_good(u_sum_short(sum, (u_u8 *)U_NULL, hdr + hdr_bytes, len));
}

/* ---- what the frame changes ---- */

/* The round-trip time is not what it was. */
static U_NOINLINE void conn_take_rtt(struct us_stack *stack, struct us_conn *conn)
{
    us_rtt_sample(&conn->rtt, stack->now_us - conn->sent_us);
    us_conn_steady_retime(stack, conn);
}

/* The one segment of a steady connection was acknowledged: its round trip is a sample. */
U_INLINE void conn_timed(struct us_stack *stack, struct us_conn *conn)
{
    if (U_UNLIKELY(!us_rtt_is_settled(&conn->rtt, stack->now_us - conn->sent_us)))
        conn_take_rtt(stack, conn);
}

/* Some of what is in flight is acknowledged, or more goes with it than with a request. */
static U_NOINLINE void conn_acked_some(struct us_stack *stack, struct us_conn *conn, u_u32 ack,
                                       u_u32 ts_ecr)
{
    if (conn->steady >= US_STEADY_ALL)
        us_conn_settle(conn);
    us_tcp_ack_advance(stack, conn, ack, ts_ecr, 0);
}

/*
 * What us_tcp_ack_advance() does on a steady connection whose one segment is acknowledged, but for
 * conn_timed().
 */
U_INLINE void conn_acked(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 len)
{
    conn->bytes_out += ack - conn->snd_una;
    conn->snd_una = ack;
    if (U_LIKELY(len > 0 && ack == conn->snd_end))
        us_sendq_rest(stack, &conn->sendq, ack);
    else
        us_sendq_drop(stack, &conn->sendq, ack);
}

/* Takes over its window. */
U_INLINE void conn_take_window(struct us_conn *conn, const struct us_tcp_hdr *tcp)
{
    conn->snd_wl1 = conn->rcv_nxt;
    conn->snd_wnd = (tcp_shape(tcp) & 0xffff) << conn->snd_scale;
    if (U_UNLIKELY(conn->snd_wnd > conn->snd_wnd_max))
        conn->snd_wnd_max = conn->snd_wnd;
}

/*
 * What sync_input(), us_tcp_ack_process() and us_tcp_recv() do with such a segment. Its numbers are
 * read again rather than kept: there are too many of them for the registers.
 */
U_ALWAYS_INLINE void conn_take(struct us_stack *stack, struct us_conn *conn,
                               const struct us_tcp_hdr *tcp, u_u32 hdr_bytes, u_u32 len)
{
    int has_ts = hdr_bytes > US_TCP_HDR_BYTES;
    u_u32 ack = u_get_be32(tcp->ack);

    conn->heard_us = stack->now_us;
    if (has_ts)
        us_tcp_take_timestamp(conn, conn->rcv_nxt, tcp_ts_val(tcp));
    if (U_LIKELY(ack != conn->snd_una)) {
        if (U_LIKELY(ack == conn->snd_max && conn->steady >= US_STEADY_ALL)) {
            conn_acked(stack, conn, ack, len);
            conn_timed(stack, conn);
        } else {
            conn_acked_some(stack, conn, ack, has_ts ? tcp_ts_ecr(tcp) : 0);
        }
    }
    conn_take_window(conn, tcp);
    conn->snd_wl2 = ack;
    if (U_UNLIKELY(conn->snd_wnd < conn->cc.mss && conn->steady == US_STEADY_USUAL))
        us_conn_leave_usual(conn);
    if (U_LIKELY(len > 0))
        us_tcp_recv_slice(stack, conn, (const u_u8 *)tcp + hdr_bytes, len);
    else if (conn->snd_nxt != conn->snd_end)
        us_tcp_out_want(stack, conn);
}

/*
 * Handles a segment of a steady connection with so long a header, a constant, or returns 0: unless
 * it is the next one, or acknowledges something, and brings no news but that. What us_conn_look()
 * has seen is not asked again.
 */
U_ALWAYS_INLINE int conn_input(struct us_stack *stack, struct us_conn *conn,
                               const struct fast_frame *frame, u_u32 hdr_bytes)
{
    const struct us_tcp_hdr *tcp = frame->tcp;
    u_u32 len = frame->l4_bytes - hdr_bytes;
    u_u32 ack = u_get_be32(tcp->ack);

    if (U_UNLIKELY(frame->l4_bytes < hdr_bytes ||
                   (hdr_bytes > US_TCP_HDR_BYTES && !conn_expects_ts(conn, tcp)) ||
                   !tcp_shape_is_plain(tcp_shape(tcp), hdr_bytes) ||
                   (tcp_shape(tcp) & 0xffff) == 0 || /* probes decide */
                   u_get_be32(tcp->seq) != conn->rcv_nxt || len > conn->rcv_adv - conn->rcv_nxt ||
                   ack - conn->snd_una > conn->snd_max - conn->snd_una ||
                   (len == 0 && ack == conn->snd_una)))
        return 0;
    if (U_UNLIKELY(!(frame->pkt->flags & US_PKT_L4_CSUM_GOOD) &&
                   !segment_is_intact(conn, tcp, hdr_bytes, len)))
        return 0;
    conn_take(stack, conn, tcp, hdr_bytes, len);
    return 1;
}

/* Handles a frame, or returns 0. */
static U_NOINLINE int frame_input(struct us_stack *stack, const struct us_pkt *pkt)
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
        conn = find4(stack, frame.l3);
    } else {
        if (!frame_has_type(frame.l3, US_ETH_IP6) || !frame_is_tcp6(&frame, pkt->len - l2_bytes))
            return 0;
        conn = find6(stack, &frame);
    }
    if (U_UNLIKELY(conn == U_NULL ||
                   (conn->steady == US_STEADY_NOT && !us_conn_look(stack, conn)) ||
                   !conn_knows_hop(stack, conn, pkt->data)))
        return 0;
    if (U_LIKELY(conn->opts & US_OPT_TS))
        return conn_input(stack, conn, &frame, US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES);
    return conn_input(stack, conn, &frame, US_TCP_HDR_BYTES);
}

/* ---- the usual frame ---- */

/*
 * What nearly all are of these frames: a request over IPv4, with timestamps, that acknowledges all
 * of the response before, on a connection that is steady. There are no lengths to be told apart, so
 * fewer and larger words are compared. What is not that is frame_input()'s, from its beginning.
 */
enum { GUESS_SHIFT = 6 }; /* log2 of MEMORY_ALIGN of stack.c */

/*
 * The steady connection with these names, or null. Connections that ask in one burst often do so in
 * the next as well, and in the same order: so the one that came last after the one before is looked
 * at first, as long as that is right; where the order changes none is touched in vain. A guess is a
 * place in the pool, in units of what that is aligned to: any is memory of the pool, and where no
 * connection is, or not this one, it is not steady, or has other names. So the end of a connection
 * needs no thought.
 */
U_INLINE struct us_conn *usual_find(const struct us_stack *stack, struct us_guess *guess,
                                    const u_u8 *l3)
{
    u_u8 *base = stack->conn_pool.base;
    struct us_conn *conn;
    u_u32 place;

    if (U_LIKELY(guess->holds)) {
        conn = (struct us_conn *)(void *)(base + ((u_u64)*guess->at << GUESS_SHIFT));
        if (U_LIKELY(conn->steady == US_STEADY_USUAL &&
                     conn_has_names(conn, l3 + U_OFFSET_OF(struct us_ip4_hdr, src))))
            return conn;
    }
    conn = find4(stack, l3);
    if (conn == U_NULL || conn->steady != US_STEADY_USUAL)
        return (struct us_conn *)U_NULL;
    place = (u_u32)((unsigned long)((u_u8 *)conn - base) >> GUESS_SHIFT);
    guess->holds = *guess->at == place;
    *guess->at = place;
    return conn;
}

/* frame_has_type(), conn_knows_hop() and the first two bytes of frame_is_tcp4(). */
U_INLINE int usual_has_hop(const struct us_conn *conn, const u_u8 *frame)
{
    static const u_u8 mask[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, US_TOS_COMPARED};
    const struct us_neighbour *hop = conn->neighbour;

    return hop->serial == conn->hop_serial && u_equal(frame, hop->l2_in, 8) &&
           bytes_match(frame + 8, mask, hop->l2_in + 8);
}

/* No fragment, and TCP: the rest of frame_is_tcp4() but for the length and the checksum. */
U_INLINE int usual_is_tcp(const u_u8 *l3)
{
    static const u_u8 mask[8] = {0, 0, 0, 0, 0x3f, 0xff, 0, 0xff};
    static const u_u8 want[8] = {0, 0, 0, 0, 0, 0, 0, US_IP_TCP};

    return bytes_match(l3 + U_OFFSET_OF(struct us_ip4_hdr, total_bytes), mask, want);
}

/* What conn_input() asks of a segment, and that its window has room for one of ours. */
U_INLINE int usual_is_next(const struct us_conn *conn, const struct us_tcp_hdr *tcp, u_u32 len)
{
    u_u32 shape = tcp_shape(tcp);

    return conn_expects_ts(conn, tcp) && tcp_shape_is_plain(shape, US_USUAL_TCP_BYTES) &&
           (shape & 0xffff) << conn->snd_scale >= conn->cc.mss &&
           u_get_be32(tcp->seq) == conn->rcv_nxt && u_get_be32(tcp->ack) == conn->snd_max &&
           len <= conn->rcv_adv - conn->rcv_nxt;
}

/* Both checksums. */
U_ALWAYS_INLINE int usual_is_intact(const struct us_conn *conn, const u_u8 *l3, u_u32 len)
{
    const u_u8 *l4 = l3 + US_IP4_HDR_BYTES;
    const u_u8 *data = l4 + US_USUAL_TCP_BYTES;
    u_u64 sum = conn->head.ports_sum + (u_u64)u_be32_word(US_USUAL_TCP_BYTES + len);

    sum = sum_half(sum, l4 + 4);
    sum = sum_word(sum, l4 + 8);
    sum = sum_word(sum, l4 + 16);
    sum = sum_word(sum, l4 + 24);
    sum = u_sum_short(sum, (u_u8 *)U_NULL, data, len);
    return u_sum_is_good(sum_ip4(l3)) && u_sum_is_good(sum);
}

/*
 * What conn_take() does with such a segment. The round trip comes last: it has nothing to do with
 * the rest, and then nothing has to outlast the call that it may be.
 */
U_INLINE void usual_take(struct us_stack *stack, struct us_conn *conn, const struct us_tcp_hdr *tcp,
                         u_u32 len)
{
    u_u32 ack = conn->snd_max;
    int timed = ack != conn->snd_una;

    conn->heard_us = stack->now_us;
    if (U_LIKELY(conn->last_ack == conn->rcv_nxt)) /* it can't be beyond that */
        conn->ts_recent = tcp_ts_val(tcp);
    if (U_LIKELY(timed))
        conn_acked(stack, conn, ack, len);
    conn_take_window(conn, tcp);
    us_tcp_recv_slice(stack, conn, (const u_u8 *)tcp + US_USUAL_TCP_BYTES, len);
    if (U_LIKELY(timed))
        conn_timed(stack, conn);
}

/* Handles a frame that is one of these, or returns 0. The next guess is its connection's. */
U_INLINE int usual_input(struct us_stack *stack, const struct us_pkt *pkt, struct us_guess *guess)
{
    const u_u8 *l3 = pkt->data + US_ETH_HDR_BYTES;
    const struct us_tcp_hdr *tcp = (const struct us_tcp_hdr *)(l3 + US_IP4_HDR_BYTES);
    struct us_conn *conn;
    u_u32 verdict;
    u_u32 len;

    if (U_UNLIKELY(pkt->next_seg != U_NULL || pkt->len <= US_USUAL_BYTES))
        return 0;
    conn = usual_find(stack, guess, l3);
    if (U_UNLIKELY(conn == U_NULL || !usual_has_hop(conn, pkt->data) || !usual_is_tcp(l3)))
        return 0;
    len = u_get_be16(((const struct us_ip4_hdr *)l3)->total_bytes) -
          (US_IP4_HDR_BYTES + US_USUAL_TCP_BYTES);
    if (U_UNLIKELY(len - 1 >= pkt->len - US_USUAL_BYTES || !usual_is_next(conn, tcp, len)))
        return 0;
    verdict = pkt->flags &
              (US_PKT_IP_CSUM_GOOD | US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_GOOD | US_PKT_L4_CSUM_BAD);
    if (verdict == 0 ? U_UNLIKELY(!usual_is_intact(conn, l3, len))
                     : verdict != (US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD))
        return 0;
    usual_take(stack, conn, tcp, len);
    guess->at = &conn->heard_next;
    return 1;
}

unsigned us_tcp_fast_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n)
{
    struct us_guess guess = stack->guess;
    struct us_pkt *const *end = pkts + n;
    struct us_pkt *const *at;
    u_u64 bytes = 0;

    for (at = pkts; at != end; at++) {
        if (U_UNLIKELY(!usual_input(stack, *at, &guess)) && !frame_input(stack, *at))
            break;
        bytes += (*at)->len;
    }
    n = (unsigned)(at - pkts);
    stack->guess = guess;
    stack->counters[US_C_RX_BYTES] += bytes;
    us_count_add(stack, US_C_TCP_RX_SEGMENTS, n);
    us_count_add(stack, US_C_TCP_FAST_PATH, n);
    return n;
}
