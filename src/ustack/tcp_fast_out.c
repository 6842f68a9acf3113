/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way out of the segments that nearly all are: all that is queued goes into one, which both
 * windows have room for. Its headers are the connection's template with the numbers filled in, its
 * checksum the template's with these numbers added and the payload as it is copied. What
 * us_tcp_plan() would decide is what the predicates say, and conn_sent() is what conn_record() does
 * then. The segments of a steady connection (tcp_steady.h) have a shorter way yet.
 */
#include "base/cksum.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_fast.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"
#include "ustack/tcp_rxq.h"
#include "ustack/tcp_sendq.h"
#include "ustack/tcp_steady.h"
#include "ustack/tcp_timer.h"

/* ---- the frame ---- */

/* Puts a word of a header in its place and adds it to the sum. */
U_INLINE u_u64 put_word(u_u8 *at, u_u32 value, u_u64 sum)
{
    u_u32 word = u_be32_word(value);

    u_copy(at, &word, sizeof(word));
    return sum + word; /* a few of them reach no carry out of 64 bits */
}

/* The same of two words that lie behind each other. */
U_INLINE u_u64 put_words(u_u8 *at, u_u32 first, u_u32 second, u_u64 sum)
{
    u_u64 words = u_be64_word(first, second);

    u_copy(at, &words, sizeof(words));
    return u_sum_add64(sum, words);
}

/*
 * Writes the TCP header and returns the sum of it, of its segment's length and of what the template
 * stands for. SND.NXT and RCV.NXT lie behind each other in the connection as well, turned round:
 * where bytes have to be swapped, both are one load. Words of which no sum can carry come first.
 */
U_INLINE u_u64 build_tcp(const struct us_stack *stack, const struct us_conn *conn, u_u8 *l4,
                         u_u32 hdr_bytes, u_u32 len, u_u32 window)
{
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u32 shape = hdr_bytes << 26 | (u_u32)(US_TCP_ACK | US_TCP_PSH) << 16 | window;
    u_u64 sum = (u_u64)conn->head.ports_sum + u_be32_word(hdr_bytes + len);

    hdr->urgent = u_be16(0);
    sum = put_word(l4 + 12, shape, sum);
    if (hdr_bytes > US_TCP_HDR_BYTES) {
        u_u32 ts_val = us_ts_clock(stack->now_us) + conn->ts_offset;
        sum = put_word(l4 + 20, US_FAST_TS_HEAD, sum);
        sum = put_words(l4 + 24, ts_val, conn->ts_recent, sum);
    }
    return put_words(l4 + 4, conn->snd_nxt, conn->rcv_nxt, sum);
}

/* Stores a sum of 16 bits, as it stands in memory already, in a field of a header. */
U_INLINE void put_sum(struct u_be16 *field, u_u32 folded)
{
    u_u16 word = (u_u16)folded;

    u_copy(field, &word, sizeof(*field));
}

/* Fills in what is left of the IP header; `caps` are those of the device, or 0. */
U_INLINE void build_ip(const struct us_conn *conn, struct us_pkt *pkt, u_u8 *l3, u_u32 l3_bytes,
                       u_u32 l4_bytes, u_u32 caps)
{
    if (U_LIKELY(l3_bytes == US_IP4_HDR_BYTES)) {
        struct us_ip4_hdr *ip = (struct us_ip4_hdr *)l3;
        u_u32 total = u_be16_word(US_IP4_HDR_BYTES + l4_bytes);
        put_sum(&ip->total_bytes, total);
        if (caps & US_CAP_TX_IP_CSUM)
            pkt->flags |= US_PKT_TX_IP_CSUM;
        else
            put_sum(&ip->checksum, u_sum_less((u_u32)conn->head.ip_sum ^ 0xffff, total));
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
 * Builds the segment; returns the length of the frame. More of the Ethernet header is copied than
 * there is, in one word: what is too much is overwritten. `caps` are those of the device, a
 * constant 0 to the caller that knows that it sums nothing.
 */
U_ALWAYS_INLINE u_u32 conn_build(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt,
                                 const struct fast_out *out, struct fast_shape shape, u_u32 caps)
{
    u_u8 *frame = pkt->data;
    u_u8 *l3 = frame + shape.l2_bytes;
    u_u8 *l4 = l3 + shape.l3_bytes;
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u32 len = out->len;
    u_u32 l4_bytes = shape.hdr_bytes + len;
    u_u32 frame_bytes = shape.l2_bytes + shape.l3_bytes + l4_bytes;
    u_u64 sum;

    u_copy(frame, out->l2, shape.l2_bytes == US_ETH_HDR_BYTES ? 16 : US_L2_HDR_MAX);
    u_copy(l3, conn->head.ip, shape.l3_bytes + US_FAST_PORTS_BYTES);
    sum = build_tcp(stack, conn, l4, shape.hdr_bytes, len, out->window);
    pkt->next_seg = (struct us_pkt *)U_NULL;
    if (caps & US_CAP_TX_L4_CSUM) {
        u_copy_short(l4 + shape.hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, u_sum_join(conn->head.pseudo_sum, u_be16_word(l4_bytes)));
        pkt->flags = US_PKT_TX_L4_CSUM;
        pkt->csum_start = (u_u16)(shape.l2_bytes + shape.l3_bytes);
        pkt->csum_offset = 16;
    } else {
        sum = u_sum_short(sum, l4 + shape.hdr_bytes, out->from, len);
        put_sum(&hdr->checksum, ~u_sum_fold(sum));
        pkt->flags = 0;
    }
    build_ip(conn, pkt, l3, shape.l3_bytes, l4_bytes, caps);
    pkt->tso_mss = 0; /* four bytes in one, with the next two */
    pkt->l2_len = (u_u8)shape.l2_bytes;
    pkt->l3_len = (u_u8)shape.l3_bytes;
    pkt->l4_len = (u_u8)shape.hdr_bytes;
    pkt->len = frame_bytes;
    return frame_bytes;
}

/* Builds it with any headers that a connection's segments have. */
static U_NOINLINE u_u32 conn_build_any(struct us_stack *stack, struct us_conn *conn,
                                       struct us_pkt *pkt, const struct fast_out *out)
{
    struct fast_shape shape;

    shape.l2_bytes = stack->l2_bytes;
    shape.l3_bytes = us_tcp_template_l3_bytes(&conn->head);
    shape.hdr_bytes = US_TCP_HDR_BYTES + (conn->opts & US_OPT_TS ? (u_u32)US_TCP_OPT_TS_BYTES : 0);
    return conn_build(stack, conn, pkt, out, shape, stack->config.caps);
}

/* The same where they are what most have, of constant lengths; `caps` as in conn_build(). */
U_ALWAYS_INLINE void conn_build_usual(struct us_stack *stack, struct us_conn *conn,
                                      struct us_pkt *pkt, const struct fast_out *out, u_u32 caps)
{
    struct fast_shape shape;

    shape.l2_bytes = US_ETH_HDR_BYTES;
    shape.l3_bytes = US_IP4_HDR_BYTES;
    shape.hdr_bytes = US_USUAL_TCP_BYTES;
    conn_build(stack, conn, pkt, out, shape, caps);
}

/* ---- any segment of new data ---- */

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

/* What conn_record() does with such a segment. */
static void conn_sent(struct us_stack *stack, struct us_conn *conn, u_u32 len, u_u32 edge)
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
    if (seq - conn->snd_una <= conn->cc.mss || conn->main_timer != US_TT_RESEND)
        us_recovery_timer(stack, conn);
}

/* Fills the packet with what the connection has to send; returns its length, or 0. */
static U_NOINLINE u_u32 conn_send_all(struct us_stack *stack, struct us_conn *conn,
                                      struct us_pkt *pkt)
{
    u_u32 len = conn->snd_end - conn->snd_nxt;
    u_u32 frame_bytes;
    struct us_neighbour *hop;
    struct us_chunk *chunk;
    struct fast_out out;
    u_u32 edge;

    if (!us_conn_is_quiet(conn) || !conn_sends_all(conn, len) ||
        stack->l2_bytes + US_IP_HDR_MAX + US_TCP_HDR_MAX + len > pkt->room)
        return 0;
    chunk = conn_chunk(conn, len);
    if (chunk == U_NULL)
        return 0;
    hop = conn_hop(stack, conn);
    if (hop == U_NULL)
        return 0;
    if (conn->steady >= US_STEADY_ALL)
        us_conn_settle(conn);
    if (conn->snd_una == conn->snd_max && stack->now_us - conn->sent_us > conn->rtt.rto_us)
        us_cc_idle(&conn->cc, stack->now_us - conn->sent_us, conn->rtt.rto_us);
    out.l2 = hop->l2;
    out.from = chunk->data + (conn->snd_nxt - chunk->seq);
    out.len = len;
    out.window = us_tcp_window(stack, conn, &edge);
    frame_bytes = conn_build_any(stack, conn, pkt, &out);
    conn->sendq.cursor = chunk;
    conn_sent(stack, conn, len, edge);
    return frame_bytes;
}

/* ---- the one segment of a steady connection ---- */

/* Whether nothing is to be sent but data and what rides on it. */
U_INLINE int conn_owes_no_more(const struct us_conn *conn)
{
    /* out_flags, segs_unacked, quick_acks, acks_owed */
    static const u_u8 mask[4] = {(u_u8) ~(US_OUT_ACK | US_OUT_ACK_LATER), 0, 0, 0xff};
    u_u32 owed;
    u_u32 bits;

    u_copy(&owed, (const u_u8 *)conn + U_OFFSET_OF(struct us_conn, out_flags), sizeof(owed));
    u_copy(&bits, mask, sizeof(bits));
    return (owed & bits) == 0;
}

/*
 * us_tcp_window() where the right edge stays, all that was received is within it, and a segment is
 * no more than half of the window. Returns 0 if the edge is to move.
 */
U_INLINE int conn_window_stays(const struct us_stack *stack, const struct us_conn *conn,
                               u_u32 *window)
{
    u_u32 open = conn->rcv_adv - conn->rcv_nxt;

    *window = ((open - 1) >> conn->rcv_scale) + 1; /* of a closed one too large */
    return stack->config.recv_window_bytes - conn->rcv_queued - open < conn->mss_sent &&
           *window <= 0xffff;
}

/*
 * What conn_record() does with such a segment, as far as tcp_steady.h leaves it to do: of a usual
 * connection, neither timers nor the congestion window.
 */
U_INLINE void conn_sent_lone(struct us_conn *conn, u_u32 len, u_u32 window, u_u64 now_us)
{
    u_u32 end = conn->snd_nxt + len;

    u_zero((u_u8 *)conn + U_OFFSET_OF(struct us_conn, out_flags), 2); /* and segs_unacked */
    conn->last_ack = conn->rcv_nxt;
    conn->rcv_adv = conn->rcv_nxt + (window << conn->rcv_scale);
    conn->sent_us = now_us;
    conn->snd_max = end;
    conn->snd_nxt = end;
}

/* The same of any steady connection, which may be a usual one afterwards. */
static void conn_sent_lone_any(struct us_stack *stack, struct us_conn *conn, u_u32 len,
                               u_u32 window)
{
    conn->main_us += stack->now_us - conn->sent_us;
    conn->ack_us = US_NEVER;
    conn_sent_lone(conn, len, window, stack->now_us);
    if (conn->timer.at_us > conn->main_us)
        us_tcp_timer_arm(stack, conn);
    if (!us_cc_is_roomy(&conn->cc, len) && us_cc_is_limit(&conn->cc, len)) {
        us_conn_settle(conn);
        conn->limited = conn->snd_max;
        return;
    }
    us_conn_look_usual(stack, conn);
}

/*
 * Whether frames can be sent to the connection's next hop without ado. *fresh is the one that was
 * looked at last: of a burst most go to the same.
 */
U_INLINE int conn_hop_is_fresh(const struct us_stack *stack, const struct us_conn *conn,
                               const struct us_neighbour **fresh)
{
    const struct us_neighbour *hop = conn->neighbour;

    if (U_UNLIKELY(hop->serial != conn->hop_serial))
        return 0;
    if (U_UNLIKELY(hop != *fresh)) {
        if (!us_neighbour_is_fresh(stack, hop))
            return 0;
        *fresh = hop;
    }
    return 1;
}

/*
 * What a steady connection has to send is all that it has queued, and nothing is in flight: fills
 * in what the segment is made of. Returns 0 if that is not so, or something else has to be
 * considered.
 */
U_ALWAYS_INLINE int conn_has_lone(const struct us_stack *stack, const struct us_conn *conn,
                                  const struct us_neighbour **fresh, struct fast_out *out)
{
    const struct us_chunk *chunk = conn->sendq.head;

    out->len = conn->snd_end - conn->snd_una;
    if (U_UNLIKELY(conn->snd_una != conn->snd_nxt || out->len - 1 >= conn->cc.mss ||
                   chunk->len != out->len || !conn_owes_no_more(conn) ||
                   !conn_hop_is_fresh(stack, conn, fresh) ||
                   stack->now_us - conn->sent_us > conn->rtt.rto_us ||
                   !conn_window_stays(stack, conn, &out->window)))
        return 0;
    out->l2 = conn->neighbour->l2;
    out->from = chunk->data;
    return 1;
}

/*
 * Fills the packet with what a usual connection has queued; returns how many bytes of payload these
 * are, or 0. They fit into the peer's window, which has room for a segment, and into the packet,
 * which has room for the MTU.
 */
U_ALWAYS_INLINE u_u32 conn_send_usual(struct us_stack *stack, struct us_conn *conn,
                                      struct us_pkt *pkt, const struct us_neighbour **fresh,
                                      u_u32 caps)
{
    struct fast_out out;

    if (U_UNLIKELY(!conn_has_lone(stack, conn, fresh, &out)))
        return 0;
    conn_build_usual(stack, conn, pkt, &out, caps);
    conn_sent_lone(conn, out.len, out.window, stack->now_us);
    return out.len;
}

/* The same of any steady connection; returns the length of the frame, or 0. */
static U_NOINLINE u_u32 conn_send_lone(struct us_stack *stack, struct us_conn *conn,
                                       struct us_pkt *pkt)
{
    const struct us_neighbour *fresh = (const struct us_neighbour *)U_NULL;
    struct fast_out out;
    u_u32 frame_bytes;

    if (!conn_has_lone(stack, conn, &fresh, &out) || out.len > conn->snd_wnd ||
        stack->l2_bytes + US_IP_HDR_MAX + US_TCP_HDR_MAX + out.len > pkt->room)
        return 0;
    frame_bytes = conn_build_any(stack, conn, pkt, &out);
    us_count_add(stack, US_C_TCP_TX_BYTES, out.len);
    conn_sent_lone_any(stack, conn, out.len, out.window);
    return frame_bytes;
}

/* Any of the above; returns the length of the frame, or 0. */
static U_NOINLINE u_u32 conn_send_unusual(struct us_stack *stack, struct us_conn *conn,
                                          struct us_pkt *pkt)
{
    u_u32 frame_bytes = 0;

    if (conn->steady < US_STEADY_IN)
        us_conn_look(stack, conn);
    if (conn->steady == US_STEADY_USUAL)
        us_conn_leave_usual(conn); /* and come back when the segment was sent */
    if (conn->steady == US_STEADY_ALL)
        frame_bytes = conn_send_lone(stack, conn, pkt);
    return frame_bytes != 0 ? frame_bytes : conn_send_all(stack, conn, pkt);
}

/* ---- the list ---- */

/* us_tcp_fast_output() for a device that does `caps`, as in conn_build(). */
U_ALWAYS_INLINE unsigned list_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n,
                                     u_u32 caps)
{
    const struct us_neighbour *fresh = (const struct us_neighbour *)U_NULL;
    struct u_list *link = stack->out_list.next;
    struct us_pkt **at = pkts;
    u_u64 payload = 0; /* of usual frames */
    u_u32 unusual = 0;
    u_u32 i;

    for (; at < pkts + n && link != &stack->out_list; at++) {
        struct us_conn *conn = U_CONTAINER_OF(link, struct us_conn, out_link);
        u_u32 len = 0;

        if (U_LIKELY(conn->steady == US_STEADY_USUAL))
            len = conn_send_usual(stack, conn, *at, &fresh, caps);
        payload += len;
        if (U_UNLIKELY(len == 0)) {
            u_u32 frame_bytes = conn_send_unusual(stack, conn, *at);
            if (frame_bytes == 0)
                break;
            us_count_add(stack, US_C_TX_BYTES, frame_bytes);
            unusual++;
        }
        link = link->next;
        u_list_init(&conn->out_link);
    }
    u_list_begin_with(&stack->out_list, link);
    i = (u_u32)(at - pkts);
    stack->counters[US_C_TX_BYTES] += payload + (u_u64)(i - unusual) * US_USUAL_BYTES;
    stack->counters[US_C_TCP_TX_BYTES] += payload;
    us_count_add(stack, US_C_TCP_TX_SEGMENTS, i);
    us_count_add(stack, US_C_TCP_FAST_SENT, i);
    return i;
}

unsigned us_tcp_fast_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    if (!(stack->config.caps & (US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM)))
        return list_output(stack, pkts, n, 0);
    return list_output(stack, pkts, n, stack->config.caps);
}
