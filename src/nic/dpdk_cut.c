/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large TCP segments received as a chain of mbufs: those of a peer on the same machine that leaves
 * the cutting to the link (TSO over virtio), or of a NIC that joins segments (LRO). Each mbuf
 * becomes a frame: the headers are copied in front of its bytes, with the sequence number and the
 * lengths that it would have if the sender had cut it there. The payload stays where it is.
 */
#include "base/cksum.h"
#include "nic/dpdk_port.h"

#define ETH_BYTES 14u
#define VLAN_BYTES 4u
#define IP4_BYTES_MIN 20u
#define IP6_BYTES 40u
#define TCP_BYTES_MIN 20u
#define PROTOCOL_TCP 6

#define TYPE_AT 12
#define TYPE_VLAN 0x8100
#define TYPE_IP4 0x0800
#define TYPE_IP6 0x86dd

/* Offsets in the TCP header, and flags. */
#define TCP_SEQ_AT 4
#define TCP_OFFSET_AT 12
#define TCP_FLAGS_AT 13
#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

static unsigned get16(const u_u8 *from)
{
    return (unsigned)from[0] << 8 | from[1];
}

static void put16(u_u8 *to, unsigned value)
{
    to[0] = (u_u8)(value >> 8);
    to[1] = (u_u8)value;
}

static uint32_t get32(const u_u8 *from)
{
    return (uint32_t)get16(from) << 16 | get16(from + 2);
}

static void put32(u_u8 *to, uint32_t value)
{
    put16(to, value >> 16);
    put16(to + 2, value & 0xffff);
}

/* Where the IP header begins and what kind it is; 0 if the frame carries neither. */
static unsigned find_l3(const u_u8 *data, uint32_t bytes, uint16_t *l3_at)
{
    unsigned type = bytes >= ETH_BYTES ? get16(data + TYPE_AT) : 0;

    *l3_at = ETH_BYTES;
    if (type == TYPE_VLAN && bytes >= ETH_BYTES + VLAN_BYTES) {
        *l3_at += VLAN_BYTES;
        type = get16(data + TYPE_AT + VLAN_BYTES);
    }
    return type == TYPE_IP4 || type == TYPE_IP6 ? type : 0;
}

/* Finds the headers. The lengths of IP and of the chain have to agree: there is no padding here. */
static bool find_headers(struct dpdk_cut *cut, const u_u8 *data, uint32_t bytes, uint32_t total)
{
    unsigned type = find_l3(data, bytes, &cut->l3_at);
    const u_u8 *ip = data + cut->l3_at;
    uint32_t l3_bytes = total - cut->l3_at;

    if (type == TYPE_IP4) {
        if (bytes < cut->l3_at + IP4_BYTES_MIN || get16(ip + 2) != l3_bytes ||
            ip[9] != PROTOCOL_TCP || (get16(ip + 6) & 0x3fff) != 0 || (ip[0] & 15) < 5)
            return false;
        cut->l4_at = (uint16_t)(cut->l3_at + (ip[0] & 15) * 4);
    } else {
        if (type == 0 || bytes < cut->l3_at + IP6_BYTES || ip[6] != PROTOCOL_TCP ||
            get16(ip + 4) != l3_bytes - IP6_BYTES)
            return false;
        cut->l4_at = (uint16_t)(cut->l3_at + IP6_BYTES);
    }
    if (bytes < cut->l4_at + TCP_BYTES_MIN)
        return false;
    cut->bytes = (uint16_t)(cut->l4_at + (data[cut->l4_at + TCP_OFFSET_AT] >> 4) * 4);
    return (u_u32)cut->bytes >= cut->l4_at + TCP_BYTES_MIN && cut->bytes <= bytes &&
           cut->bytes <= sizeof(cut->headers);
}

static bool is_ip4(const u_u8 *ip)
{
    return ip[0] >> 4 == 4;
}

static bool checksums_hold(const struct dpdk_cut *cut, const struct rte_mbuf *frame)
{
    const u_u8 *ip = rte_pktmbuf_mtod_offset(frame, const u_u8 *, cut->l3_at);
    uint32_t l4_bytes = frame->pkt_len - cut->l4_at;
    uint32_t skip = cut->l4_at;
    struct u_be32 addrs[2];
    u_u32 sum;

    if (!(cut->flags & US_PKT_IP_CSUM_GOOD) && is_ip4(ip) &&
        u_cksum_fold(u_cksum_add(0, ip, (u_u32)(cut->l4_at - cut->l3_at))) != 0)
        return false;
    if (cut->flags & US_PKT_L4_CSUM_GOOD)
        return true;
    u_copy(addrs, ip + 12, sizeof(addrs));
    sum = is_ip4(ip) ? u_cksum_pseudo4(addrs[0], addrs[1], PROTOCOL_TCP, l4_bytes)
                     : u_cksum_pseudo6(ip + 8, ip + 24, PROTOCOL_TCP, l4_bytes);
    for (; frame != NULL; frame = frame->next) {
        sum = u_cksum_add(sum, rte_pktmbuf_mtod_offset(frame, const u_u8 *, skip),
                          frame->data_len - skip);
        skip = 0;
    }
    return u_cksum_fold(sum) == 0;
}

/* Every further segment needs room for the headers in front of its bytes. */
static bool has_headroom(const struct dpdk_cut *cut, const struct rte_mbuf *frame)
{
    for (frame = frame->next; frame != NULL; frame = frame->next) {
        if (rte_pktmbuf_headroom(frame) < cut->bytes)
            return false;
    }
    return true;
}

bool dpdk_cut_begin(struct dpdk_cut *cut, struct rte_mbuf *frame)
{
    const u_u8 *data = rte_pktmbuf_mtod(frame, const u_u8 *);

    U_ASSERT(cut->rest == NULL);
    cut->flags = dpdk_rx_flags(frame->ol_flags);
    if ((cut->flags & (US_PKT_IP_CSUM_BAD | US_PKT_L4_CSUM_BAD)) != 0 ||
        !find_headers(cut, data, frame->data_len, frame->pkt_len) || !has_headroom(cut, frame) ||
        !checksums_hold(cut, frame))
        return false;
    cut->flags |= US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
    cut->hash = frame->hash.rss;
    cut->seq = get32(data + cut->l4_at + TCP_SEQ_AT);
    cut->tcp_flags = data[cut->l4_at + TCP_FLAGS_AT];
    u_copy(cut->headers, data, cut->bytes);
    /* From here on the first segment is like the others: it gets its headers back in front. */
    frame->data_off = (uint16_t)(frame->data_off + cut->bytes);
    frame->data_len = (uint16_t)(frame->data_len - cut->bytes);
    cut->rest = frame;
    return true;
}

struct rte_mbuf *dpdk_cut_next(struct dpdk_cut *cut)
{
    struct rte_mbuf *piece = cut->rest;
    unsigned payload_bytes;
    u_u8 *data, *ip, *tcp;
    u_u8 flags;

    if (piece == NULL)
        return NULL;
    cut->rest = piece->next;
    piece->next = NULL;
    piece->nb_segs = 1;
    payload_bytes = piece->data_len;
    piece->data_off = (uint16_t)(piece->data_off - cut->bytes);
    piece->data_len = (uint16_t)(payload_bytes + cut->bytes);
    piece->pkt_len = piece->data_len;

    data = rte_pktmbuf_mtod(piece, u_u8 *);
    u_copy(data, cut->headers, cut->bytes);
    ip = data + cut->l3_at;
    tcp = data + cut->l4_at;
    if (is_ip4(ip)) {
        put16(ip + 2, piece->data_len - cut->l3_at);
        put16(ip + 10, 0);
        put16(ip + 10, u_cksum_fold(u_cksum_add(0, ip, (u_u32)(cut->l4_at - cut->l3_at))));
    } else {
        put16(ip + 4, piece->data_len - cut->l4_at);
    }
    put32(tcp + TCP_SEQ_AT, cut->seq);
    /* As a NIC cuts: what ends something belongs to the last, the answer to congestion first. */
    flags = cut->tcp_flags;
    if (cut->rest != NULL)
        flags &= (u_u8) ~(TCP_FIN | TCP_PSH);
    tcp[TCP_FLAGS_AT] = flags;
    cut->tcp_flags &= (u_u8)~TCP_CWR;
    cut->seq += payload_bytes;
    return piece;
}
