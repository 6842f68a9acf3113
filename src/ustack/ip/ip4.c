/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4; see ip4.h. */
#include "ustack/ip/ip4.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/udp_datagram.h"
#include "ustack/tcp/tcp.h"

enum { IP_OPT_END = 0, IP_OPT_NOP = 1, IP_OPT_LOOSE_ROUTE = 131, IP_OPT_STRICT_ROUTE = 137 };

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
    if ((pkt_flags & US_PKT_IP_CSUM_BAD) || (!(pkt_flags & US_PKT_IP_CSUM_GOOD) &&
                                             u_cksum_finish(u_cksum_add(0, hdr, hdr_bytes)) != 0)) {
        us_count(stack, US_C_DROP_IP_CHECKSUM);
        return 0;
    }
    return hdr_bytes;
}

/*
 * Options are ignored, but must be well formed (RFC 1122 3.2.1.8). Source routes are refused,
 * because a remote host could use them to impersonate a neighbour. Returns 0 if the packet was
 * dropped.
 */
static int ip4_check_options(struct us_stack *stack, const u_u8 *opts, u_u32 bytes)
{
    u_u32 at = 0;

    while (at < bytes && opts[at] != IP_OPT_END) {
        if (opts[at] == IP_OPT_NOP) {
            at++;
            continue;
        }
        if (opts[at] == IP_OPT_LOOSE_ROUTE || opts[at] == IP_OPT_STRICT_ROUTE || bytes - at < 2 ||
            opts[at + 1] < 2 || opts[at + 1] > bytes - at) {
            us_count(stack, US_C_DROP_IP_OPTIONS);
            return 0;
        }
        at += opts[at + 1];
    }
    return 1;
}

/* Checks the destination address. Returns 0 if the packet was dropped. */
static int ip4_check_destination(struct us_stack *stack, struct us_rx *rx)
{
    int broadcast = us_ip4_is_broadcast(stack, rx->dst_ip);

    /* RFC 1122 3.3.6: a link-layer broadcast must be an IP broadcast. */
    if (broadcast ? rx->cast != US_CAST_UNICAST
                  : rx->cast == US_CAST_UNICAST && us_ip4_is_local(stack, rx->dst_ip))
        return 1;
    us_count(stack, US_C_DROP_IP_ADDRESS);
    return 0;
}

static int ip4_check_source(struct us_stack *stack, const struct us_rx *rx)
{
    if (us_ip_is_unicast(stack, us_ip4(rx->src_ip)) && !us_ip4_is_local(stack, rx->src_ip))
        return 1;
    us_count(stack, US_C_DROP_IP_SOURCE);
    return 0;
}

/* Passes the packet to its protocol; broadcasts to UDP only. */
static void ip4_deliver(struct us_stack *stack, const struct us_rx *rx, unsigned protocol)
{
    if (protocol == US_IP_UDP) {
        us_udp_input(stack, rx);
        return;
    }
    if (rx->cast != US_CAST_UNICAST) {
        us_count(stack, US_C_DROP_IP_ADDRESS);
        return;
    }
    switch (protocol) {
    case US_IP_TCP:
        us_tcp_input(stack, rx);
        break;
    case US_IP_ICMP:
        us_icmp4_input(stack, rx);
        break;
    default: /* RFC 1122 3.2.2.1 */
        us_count(stack, US_C_DROP_IP_PROTOCOL);
        us_icmp_error(stack, rx, US_ICMP4_UNREACHABLE, US_ICMP4_PROTOCOL, 0);
        break;
    }
}

/* Adds a fragment. Returns 1 if *rx is a complete packet now. */
static int ip4_reassemble(struct us_stack *stack, struct us_rx *rx, u_u32 hdr_bytes)
{
    const struct us_ip4_hdr *hdr = (const struct us_ip4_hdr *)rx->l3;
    unsigned field = u_get_be16(hdr->fragment);
    struct us_fragment fragment;

    fragment.ident = u_get_be16(hdr->id);
    fragment.offset = (u_u32)(field & US_IP4_OFFSET_MASK) << 3;
    fragment.more = (field & US_IP4_MORE_FRAGMENTS) != 0;
    fragment.head_bytes = (u_u16)hdr_bytes;
    fragment.next_at = 0;
    if (rx->l4_bytes == 0 || (fragment.more && (rx->l4_bytes & 7) != 0)) {
        us_count(stack, US_C_DROP_IP_FRAGMENT);
        return 0;
    }
    return us_frag_input(stack, rx, &fragment);
}

void us_ip4_input(struct us_stack *stack, struct us_rx *rx)
{
    const struct us_ip4_hdr *hdr = (const struct us_ip4_hdr *)rx->l3;
    u_u32 hdr_bytes = ip4_check_header(stack, hdr, rx->l3_bytes, rx->flags);

    if (hdr_bytes == 0)
        return;
    if (U_UNLIKELY(hdr_bytes > US_IP4_HDR_BYTES) &&
        !ip4_check_options(stack, rx->l3 + US_IP4_HDR_BYTES, hdr_bytes - US_IP4_HDR_BYTES))
        return;
    rx->l3_bytes = u_get_be16(hdr->total_bytes); /* the rest is padding */
    rx->l4 = rx->l3 + hdr_bytes;
    rx->l4_bytes = rx->l3_bytes - hdr_bytes;
    rx->src_ip = u_get_be32(hdr->src);
    rx->dst_ip = u_get_be32(hdr->dst);
    rx->src6 = (const struct us_ip6 *)U_NULL;
    rx->dst6 = (const struct us_ip6 *)U_NULL;
    rx->tos = hdr->tos;
    rx->hop_limit = hdr->ttl;
    rx->protocol = hdr->protocol;
    if (!ip4_check_destination(stack, rx) || !ip4_check_source(stack, rx))
        return;
    if ((u_get_be16(hdr->fragment) & (US_IP4_MORE_FRAGMENTS | US_IP4_OFFSET_MASK)) &&
        !ip4_reassemble(stack, rx, hdr_bytes))
        return;
    ip4_deliver(stack, rx, rx->protocol);
}

void us_ip4_build(u_u8 *to, u_u32 src_ip, u_u32 dst_ip, unsigned protocol)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)to;

    hdr->version_ihl = US_IP4_PLAIN;
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

void us_ip4_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 total_bytes, u_u32 sum)
{
    struct us_ip4_hdr *hdr = (struct us_ip4_hdr *)(pkt->data + stack->l2_bytes);

    hdr->total_bytes = u_be16(total_bytes);
    if (stack->config.caps & US_CAP_TX_IP_CSUM)
        pkt->flags |= US_PKT_TX_IP_CSUM;
    else
        hdr->checksum =
            u_be16(u_cksum_finish(u_cksum_add(sum, &hdr->total_bytes, sizeof(hdr->total_bytes))));
    pkt->l2_len = stack->l2_bytes;
    pkt->l3_len = US_IP4_HDR_BYTES;
    pkt->len = stack->l2_bytes + total_bytes;
}
