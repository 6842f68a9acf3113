/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4; see ip4.h. */
#include "ustack/ip4.h"

#include "base/cksum.h"
#include "ustack/eth.h"
#include "ustack/icmp4.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"
#include "ustack/udp.h"

enum { IP4_FRAGMENT_BITS = 0x3fff }; /* more-fragments flag and offset */

/* Checks lengths and checksum. Returns the header's length, 0 if the packet was dropped. */
static u_u32 ip4_check_header(struct us_stack *stack, const struct us_ip4_hdr *hdr, u_u32 bytes,
                              u_u32 pkt_flags)
{
    u_u32 hdr_bytes;
    u_u32 total;

    if (bytes < US_IP4_HDR_BYTES || hdr->version_ihl >> 4 != 4) {
        us_count(stack, US_C_DROP_IP_HEADER);
        return 0;
    }
    hdr_bytes = (u_u32)(hdr->version_ihl & 15) << 2;
    total = u_get_be16(hdr->total_bytes);
    if (hdr_bytes < US_IP4_HDR_BYTES || hdr_bytes > total || total > bytes) {
        us_count(stack, US_C_DROP_IP_HEADER);
        return 0;
    }
    if ((pkt_flags & US_PKT_IP_CSUM_BAD) ||
        (!(pkt_flags & US_PKT_IP_CSUM_GOOD) && u_cksum_fold(u_cksum_add(0, hdr, hdr_bytes)) != 0)) {
        us_count(stack, US_C_DROP_IP_CHECKSUM);
        return 0;
    }
    return hdr_bytes;
}

/* Checks where the packet comes from and goes to. Returns 0 if it was dropped. */
static int ip4_check_addresses(struct us_stack *stack, const struct us_rx *rx)
{
    if (!us_local_is(stack, rx->dst_ip)) {
        us_count(stack, US_C_DROP_IP_ADDRESS);
        return 0;
    }
    if (!us_ip_is_unicast(stack, rx->src_ip) || us_local_is(stack, rx->src_ip)) {
        us_count(stack, US_C_DROP_IP_SOURCE);
        return 0;
    }
    return 1;
}

void us_ip4_input(struct us_stack *stack, const u_u8 *src_mac, const u_u8 *data, u_u32 bytes,
                  u_u32 pkt_flags)
{
    const struct us_ip4_hdr *hdr = (const struct us_ip4_hdr *)data;
    u_u32 hdr_bytes = ip4_check_header(stack, hdr, bytes, pkt_flags);
    struct us_rx rx;

    if (hdr_bytes == 0)
        return;
    rx.mac = src_mac;
    rx.l4 = data + hdr_bytes;
    rx.l4_bytes = u_get_be16(hdr->total_bytes) - hdr_bytes; /* what follows is padding */
    rx.src_ip = u_get_be32(hdr->src);
    rx.dst_ip = u_get_be32(hdr->dst);
    rx.flags = pkt_flags;
    rx.tos = hdr->tos;
    if (!ip4_check_addresses(stack, &rx))
        return;
    if (u_get_be16(hdr->fragment) & IP4_FRAGMENT_BITS) {
        us_count(stack, US_C_DROP_IP_FRAGMENT);
        return;
    }
    if (hdr->protocol == US_IP_TCP)
        us_tcp_input(stack, &rx);
    else if (hdr->protocol == US_IP_UDP)
        us_udp_input(stack, &rx);
    else if (hdr->protocol == US_IP_ICMP)
        us_icmp4_input(stack, &rx);
    else
        us_count(stack, US_C_DROP_IP_PROTOCOL);
}

void us_ip4_build(u_u8 *to, u_u32 src_ip, u_u32 dst_ip, unsigned protocol)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)to;

    hdr->version_ihl = 0x45;
    hdr->tos = 0;
    hdr->total_bytes = u_be16(0);
    hdr->id = u_be16(0);
    hdr->fragment = u_be16(US_IP4_DONT_FRAGMENT);
    hdr->ttl = US_IP4_TTL;
    hdr->protocol = (u_u8)protocol;
    hdr->checksum = u_be16(0);
    hdr->src = u_be32(src_ip);
    hdr->dst = u_be32(dst_ip);
}

u_u32 us_ip4_set_ecn(struct us_pkt *pkt, unsigned ecn, u_u32 sum)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)(pkt->data + US_ETH_HDR_BYTES);
    struct u_be16 word = u_be16(ecn);

    hdr->tos = (u_u8)(hdr->tos | ecn);
    return u_cksum_add(sum, &word, sizeof(word));
}

void us_ip4_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 total_bytes, u_u32 sum)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)(pkt->data + US_ETH_HDR_BYTES);

    hdr->total_bytes = u_be16(total_bytes);
    if (stack->config.caps & US_CAP_TX_IP_CSUM)
        pkt->flags |= US_PKT_TX_IP_CSUM;
    else
        hdr->checksum =
            u_be16(u_cksum_fold(u_cksum_add(sum, &hdr->total_bytes, sizeof(hdr->total_bytes))));
    pkt->l2_len = US_ETH_HDR_BYTES;
    pkt->l3_len = US_IP4_HDR_BYTES;
    pkt->len = US_ETH_HDR_BYTES + total_bytes;
}
