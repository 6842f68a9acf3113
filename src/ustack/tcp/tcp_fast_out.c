/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path out: one segment with all that is queued, sent while nothing is in flight; see
 * tcp_fast.h. Its headers are the connection's template with the numbers filled in, its checksum
 * that of the template with these numbers and the payload added. What us_tcp_plan() decides follows
 * from the predicates, and conn_record_single() does what conn_record() in tcp_out.c does then.
 */
#include "ustack/tcp/tcp_fast.h"

#include "base/cksum.h"
#include "base/cksum_raw.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_sendq.h"

/* ---- the frame ---- */

/* Stores a word of a header and adds it to the sum. */
U_INLINE u_u64 put_word(u_u8 *at, u_u32 value, u_u64 sum)
{
    u_u32 word = u_be32_word(value);

    u_copy(at, &word, sizeof(word));
    return sum + word; /* no carry out of 64 bits from a few of them */
}

/* Stores two words that lie behind each other and adds both. */
U_INLINE u_u64 put_words(u_u8 *at, u_u32 first, u_u32 second, u_u64 sum)
{
    u_u64 words = u_be64_word(first, second);

    u_copy(at, &words, sizeof(words));
    return u_cksum_raw_word(sum, words);
}

/* Stores a sum of 16 bits, in network byte order already, in a field of a header. */
U_INLINE void put_sum(struct u_be16 *field, u_u32 folded)
{
    u_u16 word = (u_u16)folded;

    u_copy(field, &word, sizeof(*field));
}

/*
 * Writes the TCP header; returns the sum of it, of the segment's length and of what the template
 * stands for. The words whose sum cannot carry come first. SND.NXT and RCV.NXT lie side by side in
 * struct us_conn in reverse order, so that one load gets both where bytes have to be swapped.
 */
U_INLINE u_u64 build_tcp(const struct us_stack *stack, const struct us_conn *conn, u_u8 *l4,
                         u_u32 tcp_bytes, u_u32 len, u_u32 window)
{
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    u_u32 word = tcp_bytes << 26 | (u_u32)(US_TCP_ACK | US_TCP_PSH) << 16 | window;
    u_u64 sum = (u_u64)conn->head.ports_sum + u_be32_word(tcp_bytes + len);

    hdr->urgent = u_be16(0);
    sum = put_word(l4 + 12, word, sum);
    if (tcp_bytes > US_TCP_HDR_BYTES) {
        u_u32 ts_val = us_ts_clock(stack->now_us) + conn->ts_offset;
        sum = put_word(l4 + 20, US_TCP_OPT_TS_WORD, sum);
        sum = put_words(l4 + 24, ts_val, conn->ts_recent, sum);
    }
    return put_words(l4 + 4, conn->snd_nxt, conn->rcv_nxt, sum);
}

/* Fills in what the template leaves open in the IP header; `caps` are those of the device. */
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
            put_sum(&ip->checksum, u_cksum16_sub((u_u32)conn->head.ip_sum ^ 0xffff, total));
    } else {
        ((struct us_ip6_hdr *)l3)->payload_bytes = u_be16(l4_bytes);
    }
}

/*
 * Builds the frame. Of the Ethernet header a whole number of words is copied; the IP header
 * overwrites what is too much.
 */
U_ALWAYS_INLINE void conn_build(struct us_stack *stack, const struct us_conn *conn,
                                struct us_pkt *pkt, u_u32 len, u_u32 window,
                                struct us_fast_shape shape, u_u32 caps)
{
    u_u8 *frame = pkt->data;
    u_u8 *l3 = frame + shape.l2_bytes;
    u_u8 *l4 = l3 + shape.l3_bytes;
    struct us_tcp_hdr *hdr = (struct us_tcp_hdr *)l4;
    const u_u8 *payload = conn->sendq.head->data;
    u_u32 l4_bytes = shape.tcp_bytes + len;
    u_u64 sum;

    u_copy(frame, conn->neighbour->l2, shape.l2_bytes == US_ETH_HDR_BYTES ? 16 : US_L2_HDR_MAX);
    u_copy(l3, conn->head.ip, shape.l3_bytes + US_TCP_PORTS_BYTES);
    sum = build_tcp(stack, conn, l4, shape.tcp_bytes, len, window);
    pkt->next_seg = (struct us_pkt *)U_NULL;
    if (caps & US_CAP_TX_L4_CSUM) {
        u_copy_short(l4 + shape.tcp_bytes, payload, len);
        put_sum(&hdr->checksum, u_cksum16_add(conn->head.pseudo_sum, u_be16_word(l4_bytes)));
        pkt->flags = US_PKT_TX_L4_CSUM;
        pkt->csum_start = (u_u16)(shape.l2_bytes + shape.l3_bytes);
        pkt->csum_offset = 16;
    } else {
        sum = u_cksum_raw_short(sum, l4 + shape.tcp_bytes, payload, len);
        put_sum(&hdr->checksum, ~u_cksum_raw_fold(sum));
        pkt->flags = 0;
    }
    build_ip(conn, pkt, l3, shape.l3_bytes, l4_bytes, caps);
    pkt->tso_mss = 0;
    pkt->l2_len = (u_u8)shape.l2_bytes;
    pkt->l3_len = (u_u8)shape.l3_bytes;
    pkt->l4_len = (u_u8)shape.tcp_bytes;
    pkt->len = shape.l2_bytes + shape.l3_bytes + l4_bytes;
}

/* ---- the connection ---- */

/* The field of us_tcp_window(), with less work where the right edge of the window stays. */
U_INLINE u_u32 conn_window(const struct us_stack *stack, const struct us_conn *conn)
{
    u_u32 open = conn->rcv_adv - conn->rcv_nxt;
    u_u32 window = ((open - 1) >> conn->rcv_scale) + 1; /* beyond 0xffff if `open` is 0 */
    u_u32 edge;

    if (U_LIKELY(stack->config.recv_window_bytes - conn->rcv_queued - open < conn->mss_sent &&
                 window <= 0xffff))
        return window;
    return us_tcp_window(stack, conn, &edge);
}

/*
 * Whether all `len` bytes that the connection has to send, and what rides on them, are one segment,
 * nothing is in flight, and the congestion window need not be reduced after a pause (us_cc_idle()).
 */
U_ALWAYS_INLINE int conn_has_single_segment(const struct us_stack *stack,
                                            const struct us_conn *conn, u_u32 len)
{
    const struct us_neighbour *hop = conn->neighbour;

    return conn->snd_una == conn->snd_nxt && len - 1 < conn->cc.mss &&
           conn->sendq.head->len == len &&
           !(conn->out_flags & ~(US_OUT_ACK | US_OUT_DELAYED_ACK)) && conn->dup_acks_owed == 0 &&
           hop->serial == conn->hop_serial && us_neighbour_is_fresh(stack, hop) &&
           stack->now_us - conn->sent_us <= conn->rtt.rto_us;
}

/* What conn_record() does with such a segment. */
U_INLINE void conn_record_single(const struct us_stack *stack, struct us_conn *conn, u_u32 len,
                                 u_u32 window)
{
    conn->out_flags = 0;
    conn->last_ack = conn->rcv_nxt;
    conn->rcv_adv = conn->rcv_nxt + (window << conn->rcv_scale);
    conn->sent_us = stack->now_us;
    conn->snd_nxt += len;
    conn->snd_max = conn->snd_nxt;
}

/* ---- the instances ---- */

/* Sends the single segment. Returns its length, 0 if the connection needs general code. */
U_ALWAYS_INLINE u_u32 conn_send(struct us_stack *stack, struct us_conn *conn, struct us_pkt *pkt,
                                struct us_fast_shape shape, u_u32 caps)
{
    u_u32 len = conn->snd_end - conn->snd_una;
    u_u32 window;

    if (U_UNLIKELY(!conn_has_single_segment(stack, conn, len)))
        return 0;
    window = conn_window(stack, conn);
    conn_build(stack, conn, pkt, len, window, shape, caps);
    conn_record_single(stack, conn, len, window);
    return len;
}

/* The same for any connection, which becomes US_FAST_RXTX if it may. */
static U_NOINLINE u_u32 conn_send_any(struct us_stack *stack, struct us_conn *conn,
                                      struct us_pkt *pkt)
{
    u_u32 len;

    if (conn->fast_path != US_FAST_RXTX && !us_conn_may_be_rxtx(stack, conn))
        return 0;
    len = conn_send(stack, conn, pkt, us_fast_shape_of(stack, conn), stack->config.caps);
    if (len != 0 && conn->fast_path != US_FAST_RXTX)
        us_conn_enter_rxtx(stack, conn);
    return len;
}

/* us_tcp_fast_output() for a device with these capabilities. */
U_ALWAYS_INLINE unsigned output_list(struct us_stack *stack, struct us_pkt **pkts, unsigned n,
                                     u_u32 caps)
{
    struct u_list *link = stack->out_list.next;
    u_u64 payload_bytes = 0;
    u_u64 bytes = 0;
    unsigned i;

    for (i = 0; i < n && link != &stack->out_list; i++) {
        struct us_conn *conn = U_CONTAINER_OF(link, struct us_conn, out_link);
        u_u32 len = U_LIKELY(conn->is_common_rxtx)
                        ? conn_send(stack, conn, pkts[i], us_fast_shape_common, caps)
                        : conn_send_any(stack, conn, pkts[i]);

        if (U_UNLIKELY(len == 0))
            break;
        payload_bytes += len;
        bytes += pkts[i]->len;
        link = link->next;
        u_list_init(&conn->out_link);
    }
    u_list_begin_with(&stack->out_list, link);
    stack->counters[US_C_TX_BYTES] += bytes;
    stack->counters[US_C_TCP_TX_BYTES] += payload_bytes;
    us_count_add(stack, US_C_TCP_TX_SEGMENTS, i);
    us_count_add(stack, US_C_TCP_FAST_SENT, i);
    return i;
}

unsigned us_tcp_fast_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    if (!(stack->config.caps & (US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM)))
        return output_list(stack, pkts, n, 0);
    return output_list(stack, pkts, n, stack->config.caps);
}
