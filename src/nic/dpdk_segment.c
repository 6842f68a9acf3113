/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits large received TCP segments into frames.
 *
 * A chain of mbufs is received from a peer on the same machine that leaves segmentation to the link
 * (TSO over virtio), or from a NIC with LRO. Each mbuf becomes a frame: the headers are copied in
 * front of its bytes, with the sequence number, length and flags that a sender would have set that
 * segments at this place. The payload is not copied.
 */
#include "base/cksum.h"
#include "nic/dpdk_port.h"

#define TCP_BYTES_MIN 20u

/* Offsets in the TCP header, and flags. */
#define TCP_SEQ_AT 4
#define TCP_OFFSET_AT 12
#define TCP_FLAGS_AT 13
#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

static uint32_t get32(const u_u8 *from)
{
    return (uint32_t)nic_get16(from) << 16 | nic_get16(from + 2);
}

static void put32(u_u8 *to, uint32_t value)
{
    nic_put16(to, value >> 16);
    nic_put16(to + 2, value & 0xffff);
}

/* Finds the headers. The IP length must match the length of the chain: TCP data has no padding. */
static bool find_headers(struct dpdk_segment *segment, const struct rte_mbuf *frame)
{
    const u_u8 *data = rte_pktmbuf_mtod(frame, const u_u8 *);
    struct nic_l4 *l4 = &segment->l4;

    if (!nic_l4_find(data, frame->data_len, l4) || l4->protocol != NIC_PROTOCOL_TCP ||
        l4->bytes != frame->pkt_len - l4->l4_at ||
        (uint32_t)frame->data_len < l4->l4_at + TCP_BYTES_MIN)
        return false;
    segment->header_bytes = (uint16_t)(l4->l4_at + (data[l4->l4_at + TCP_OFFSET_AT] >> 4) * 4);
    return segment->header_bytes >= l4->l4_at + TCP_BYTES_MIN &&
           segment->header_bytes <= frame->data_len &&
           segment->header_bytes <= sizeof(segment->headers);
}

static bool checksums_are_good(const struct dpdk_segment *segment, const struct rte_mbuf *frame)
{
    const u_u8 *data = rte_pktmbuf_mtod(frame, const u_u8 *);
    const struct nic_l4 *l4 = &segment->l4;
    uint32_t skip = l4->l4_at;
    u_u32 sum;

    if (!(segment->flags & US_PKT_IP_CSUM_GOOD) && !l4->is_ip6 &&
        u_cksum_finish(u_cksum_add(0, data + l4->l3_at, (u_u32)(l4->l4_at - l4->l3_at))) != 0)
        return false;
    if (segment->flags & US_PKT_L4_CSUM_GOOD)
        return true;
    sum = nic_l4_pseudo_sum(data, l4);
    for (; frame != NULL; frame = frame->next) {
        sum = u_cksum_add(sum, rte_pktmbuf_mtod_offset(frame, const u_u8 *, skip),
                          frame->data_len - skip);
        skip = 0;
    }
    return u_cksum_finish(sum) == 0;
}

/* Whether every further mbuf has room for the headers in front of its bytes. */
static bool has_headroom(const struct dpdk_segment *segment, const struct rte_mbuf *frame)
{
    for (frame = frame->next; frame != NULL; frame = frame->next) {
        if (rte_pktmbuf_headroom(frame) < segment->header_bytes)
            return false;
    }
    return true;
}

bool dpdk_segment_begin(struct dpdk_segment *segment, struct rte_mbuf *frame)
{
    const u_u8 *tcp;

    U_ASSERT(segment->rest == NULL);
    segment->flags = dpdk_rx_flags(frame->ol_flags);
    if ((segment->flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD)) != 0 ||
        !find_headers(segment, frame) || !has_headroom(segment, frame) ||
        !checksums_are_good(segment, frame))
        return false;
    segment->flags |= US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
    segment->hash = frame->hash.rss;
    tcp = rte_pktmbuf_mtod_offset(frame, const u_u8 *, segment->l4.l4_at);
    segment->seq = get32(tcp + TCP_SEQ_AT);
    segment->tcp_flags = tcp[TCP_FLAGS_AT];
    u_copy(segment->headers, rte_pktmbuf_mtod(frame, const u_u8 *), segment->header_bytes);
    /* Cuts the headers off, so that the first mbuf is like the others. */
    frame->data_off = (uint16_t)(frame->data_off + segment->header_bytes);
    frame->data_len = (uint16_t)(frame->data_len - segment->header_bytes);
    segment->rest = frame;
    return true;
}

struct rte_mbuf *dpdk_segment_next(struct dpdk_segment *segment)
{
    const struct nic_l4 *l4 = &segment->l4;
    struct rte_mbuf *piece = segment->rest;
    unsigned payload_bytes;
    u_u8 *data, *ip, *tcp;
    u_u8 flags;

    if (piece == NULL)
        return NULL;
    segment->rest = piece->next;
    piece->next = NULL;
    piece->nb_segs = 1;
    payload_bytes = piece->data_len;
    piece->data_off = (uint16_t)(piece->data_off - segment->header_bytes);
    piece->data_len = (uint16_t)(payload_bytes + segment->header_bytes);
    piece->pkt_len = piece->data_len;

    data = rte_pktmbuf_mtod(piece, u_u8 *);
    u_copy(data, segment->headers, segment->header_bytes);
    ip = data + l4->l3_at;
    tcp = data + l4->l4_at;
    if (l4->is_ip6) {
        nic_put16(ip + 4, (unsigned)(piece->data_len - l4->l4_at));
    } else {
        nic_put16(ip + 2, (unsigned)(piece->data_len - l4->l3_at));
        nic_put16(ip + 10, 0);
        nic_put16(ip + 10, u_cksum_finish(u_cksum_add(0, ip, (u_u32)(l4->l4_at - l4->l3_at))));
    }
    put32(tcp + TCP_SEQ_AT, segment->seq);
    /* As TSO hardware does: FIN and PSH only in the last frame, CWR only in the first. */
    flags = segment->tcp_flags;
    if (segment->rest != NULL)
        flags &= (u_u8) ~(TCP_FIN | TCP_PSH);
    tcp[TCP_FLAGS_AT] = flags;
    segment->tcp_flags &= (u_u8)~TCP_CWR;
    segment->seq += payload_bytes;
    return piece;
}
