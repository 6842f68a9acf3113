/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv6; see ip6.h. */
#include "ustack/ip/ip6.h"

#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/udp_datagram.h"
#include "ustack/tcp/tcp.h"

/* Bound of the extension headers of a packet. */
enum { EXT_HEADERS_MAX = 8 };

enum { EXT_BYTES_MIN = 8 };

enum { EXT_PAD1 = 0, EXT_PADN = 1, EXT_ROUTER_ALERT = 5 };

/* Offsets of fields, for ICMP errors: in the fixed header and in a routing header. */
enum { LENGTH_OFFSET = 4, NEXT_OFFSET = 6, ROUTING_TYPE_OFFSET = 2, ROUTING_LEFT_OFFSET = 3 };

/* Checks lengths and version. Returns 0 if the packet was dropped. */
static int ip6_check_header(struct us_stack *stack, struct us_rx *rx)
{
    const struct us_ip6_hdr *hdr = (const struct us_ip6_hdr *)rx->l3;
    u_u32 total;

    if (rx->l3_bytes < US_IP6_HDR_BYTES || hdr->first.b[0] >> 4 != 6) {
        us_count(stack, US_C_DROP_IP_HEADER);
        return 0;
    }
    total = US_IP6_HDR_BYTES + (u_u32)u_get_be16(hdr->payload_bytes);
    if (total > rx->l3_bytes) {
        us_count(stack, US_C_DROP_IP_HEADER);
        return 0;
    }
    rx->l3_bytes = total; /* the rest is padding */
    rx->tos = (u_u8)(hdr->first.b[0] << 4 | hdr->first.b[1] >> 4);
    rx->hop_limit = hdr->hop_limit;
    rx->src6 = &hdr->src;
    rx->dst6 = &hdr->dst;
    return 1;
}

/* Whether a group is joined: all nodes, or the solicited-node group of a local address. */
static int ip6_is_our_group(const struct us_stack *stack, const struct us_ip6 *dst)
{
    unsigned i;

    if (us_ip6_equal(dst, &us_ip6_all_nodes))
        return 1;
    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        struct us_ip6 group = us_ip6_solicited_node(&local->addr);
        if (local->state != US_LOCAL6_FREE && us_ip6_equal(dst, &group))
            return 1;
    }
    return 0;
}

/* Checks the destination address. Returns 0 if the packet was dropped. */
static int ip6_check_destination(struct us_stack *stack, struct us_rx *rx)
{
    if (us_ip6_is_multicast(rx->dst6)) {
        rx->dst_ip = US_LOCAL6_MAX;
        rx->cast = US_CAST_MULTICAST;
        if (ip6_is_our_group(stack, rx->dst6))
            return 1;
    } else if (rx->cast == US_CAST_UNICAST) {
        rx->dst_ip = us_local6_find(stack, rx->dst6);
        /* RFC 4862 5.4: a tentative address accepts only neighbour discovery. */
        if (rx->dst_ip < US_LOCAL6_MAX && stack->nd.locals[rx->dst_ip].state != US_LOCAL6_DUPLICATE)
            return 1;
    }
    us_count(stack, US_C_DROP_IP_ADDRESS);
    return 0;
}

/* Checks the source address: :: is valid for neighbour discovery only. */
static int ip6_check_source(struct us_stack *stack, struct us_rx *rx)
{
    struct us_ip src = us_ip6(stack, rx->src6);

    rx->src_ip = src.id;
    if (us_ip_is_unicast(stack, src) ? !us_ip_is_local(stack, src)
                                     : us_ip6_equal(rx->src6, &us_ip6_any))
        return 1;
    us_count(stack, US_C_DROP_IP_SOURCE);
    return 0;
}

/* Drops the packet for the field at `at` and reports it (RFC 4443 3.4). */
static void ip6_problem(struct us_stack *stack, const struct us_rx *rx, unsigned code,
                        const u_u8 *at)
{
    us_count(stack, US_C_DROP_IP_EXTENSION);
    us_icmp_error(stack, rx, US_ICMP6_PROBLEM, code, (u_u32)(at - rx->l3));
}

/* An unknown option: RFC 8200 4.2. Returns 0 if the packet was dropped. */
static int ip6_unknown_option(struct us_stack *stack, const struct us_rx *rx, const u_u8 *option)
{
    switch (option[0] >> 6) {
    case 0:
        return 1;
    case 1:
        us_count(stack, US_C_DROP_IP_EXTENSION);
        return 0;
    case 2:
        ip6_problem(stack, rx, US_ICMP6_PROBLEM_OPTION, option);
        return 0;
    default:
        if (rx->cast == US_CAST_UNICAST)
            ip6_problem(stack, rx, US_ICMP6_PROBLEM_OPTION, option);
        else
            us_count(stack, US_C_DROP_IP_EXTENSION);
        return 0;
    }
}

/* An options header of hdr_bytes bytes. Returns 0 if the packet was dropped. */
static int ip6_options(struct us_stack *stack, const struct us_rx *rx, const u_u8 *hdr,
                       u_u32 hdr_bytes)
{
    u_u32 at = 2;

    while (at < hdr_bytes) {
        const u_u8 *option = hdr + at;

        if (option[0] == EXT_PAD1) {
            at++;
            continue;
        }
        if (at + 2 > hdr_bytes || option[1] > hdr_bytes - at - 2) {
            ip6_problem(stack, rx, US_ICMP6_PROBLEM_FIELD, option);
            return 0;
        }
        if (option[0] != EXT_PADN && option[0] != EXT_ROUTER_ALERT &&
            !ip6_unknown_option(stack, rx, option))
            return 0;
        at += 2 + (u_u32)option[1];
    }
    return 1;
}

/* RFC 8200 4.4, RFC 5095: no forwarding. Returns 0 if the packet was dropped. */
static int ip6_routing(struct us_stack *stack, const struct us_rx *rx, const u_u8 *hdr)
{
    if (hdr[ROUTING_LEFT_OFFSET] == 0)
        return 1;
    ip6_problem(stack, rx, US_ICMP6_PROBLEM_FIELD, hdr + ROUTING_TYPE_OFFSET);
    return 0;
}

/* Passes the packet to its protocol. next_at: the field with the protocol number. */
static void ip6_deliver(struct us_stack *stack, const struct us_rx *rx, const u_u8 *next_at)
{
    int for_protocols = rx->cast == US_CAST_UNICAST && !us_ip6_equal(rx->src6, &us_ip6_any) &&
                        us_local6_is_usable(&stack->nd.locals[rx->dst_ip]);

    switch (*next_at) {
    case US_IP_TCP:
    case US_IP_UDP:
        if (!for_protocols)
            us_count(stack, US_C_DROP_IP_ADDRESS);
        else if (*next_at == US_IP_TCP)
            us_tcp_input(stack, rx);
        else
            us_udp_input(stack, rx);
        break;
    case US_IP_ICMP6:
        us_icmp6_input(stack, rx, for_protocols);
        break;
    case US_IP_NOTHING:
        us_count(stack, US_C_DROP_IP_PROTOCOL);
        break;
    default: /* RFC 8200 section 4 */
        us_count(stack, US_C_DROP_IP_PROTOCOL);
        us_icmp_error(stack, rx, US_ICMP6_PROBLEM, US_ICMP6_PROBLEM_NEXT,
                      (u_u32)(next_at - rx->l3));
        break;
    }
}

/*
 * A fragment header at rx->l4 (RFC 8200 4.5). Returns 1 if *rx is a complete packet now: the
 * datagram is reassembled, or was not fragmented (an atomic fragment, RFC 6946).
 */
static int ip6_fragment(struct us_stack *stack, struct us_rx *rx, const u_u8 **next_at)
{
    const u_u8 *hdr = rx->l4;
    struct us_fragment fragment;
    struct u_be16 field;
    struct u_be32 ident;

    u_copy(&field, hdr + 2, sizeof(field));
    u_copy(&ident, hdr + 4, sizeof(ident));
    rx->l4 += US_IP6_FRAGMENT_HDR_BYTES;
    rx->l4_bytes -= US_IP6_FRAGMENT_HDR_BYTES;
    rx->protocol = hdr[0];
    fragment.ident = u_get_be32(ident);
    fragment.offset = u_get_be16(field) & ~7u;
    fragment.more = u_get_be16(field) & 1;
    fragment.head_bytes = (u_u16)u_min32((u_u32)(rx->l4 - rx->l3), 0xffff);
    fragment.next_at = (u_u16)(*next_at - rx->l3);
    if (fragment.offset == 0 && !fragment.more) {
        *next_at = hdr;
        return 1;
    }
    if (rx->is_reassembled || rx->l4_bytes == 0) {
        us_count(stack, US_C_DROP_IP_FRAGMENT);
        return 0;
    }
    if (fragment.more && (rx->l4_bytes & 7) != 0) {
        ip6_problem(stack, rx, US_ICMP6_PROBLEM_FIELD, rx->l3 + LENGTH_OFFSET);
        return 0;
    }
    if (fragment.offset + rx->l4_bytes > 0xffff) {
        ip6_problem(stack, rx, US_ICMP6_PROBLEM_FIELD, hdr + 2);
        return 0;
    }
    if (!us_frag_input(stack, rx, &fragment))
        return 0;
    *next_at = rx->l3 + fragment.next_at;
    return 1;
}

/* An options or routing header at rx->l4. Returns 0 if the packet was dropped. */
static int ip6_extension(struct us_stack *stack, struct us_rx *rx, unsigned kind)
{
    const u_u8 *hdr = rx->l4;
    u_u32 hdr_bytes = ((u_u32)hdr[1] + 1) << 3;

    if (hdr_bytes > rx->l4_bytes) {
        us_count(stack, US_C_DROP_IP_HEADER);
        return 0;
    }
    if (kind == US_IP_ROUTING ? !ip6_routing(stack, rx, hdr)
                              : !ip6_options(stack, rx, hdr, hdr_bytes))
        return 0;
    rx->l4 += hdr_bytes;
    rx->l4_bytes -= hdr_bytes;
    return 1;
}

/*
 * Processes the extension headers and passes the packet on. next_at: the field with the type of the
 * header at rx->l4.
 */
static void ip6_walk(struct us_stack *stack, struct us_rx *rx, const u_u8 *next_at)
{
    unsigned headers;

    for (headers = 0; headers < EXT_HEADERS_MAX; headers++) {
        const u_u8 *hdr = rx->l4;

        rx->protocol = *next_at;
        /* RFC 8200 4.1: hop-by-hop options only as the first header. */
        if (!(*next_at == US_IP_HOP_OPTIONS && headers == 0) && *next_at != US_IP_DST_OPTIONS &&
            *next_at != US_IP_ROUTING && *next_at != US_IP_FRAGMENT) {
            ip6_deliver(stack, rx, next_at);
            return;
        }
        if (rx->l4_bytes < EXT_BYTES_MIN) {
            us_count(stack, US_C_DROP_IP_HEADER);
            return;
        }
        if (*next_at == US_IP_FRAGMENT) {
            if (!ip6_fragment(stack, rx, &next_at))
                return;
            continue;
        }
        if (!ip6_extension(stack, rx, *next_at))
            return;
        next_at = hdr;
    }
    us_count(stack, US_C_DROP_IP_EXTENSION);
}

void us_ip6_input(struct us_stack *stack, struct us_rx *rx)
{
    if (!stack->nd.enabled) {
        us_count(stack, US_C_DROP_ETH_TYPE);
        return;
    }
    if (!ip6_check_header(stack, rx) || !ip6_check_destination(stack, rx) ||
        !ip6_check_source(stack, rx))
        return;
    rx->l4 = rx->l3 + US_IP6_HDR_BYTES;
    rx->l4_bytes = rx->l3_bytes - US_IP6_HDR_BYTES;
    ip6_walk(stack, rx, rx->l3 + NEXT_OFFSET);
}

void us_ip6_build(u_u8 *to, const struct us_ip6 *src, const struct us_ip6 *dst, unsigned next,
                  unsigned hop_limit)
{
    struct us_ip6_hdr *hdr = (struct us_ip6_hdr *)to;

    hdr->first = u_be32((u_u32)6 << 28);
    hdr->payload_bytes = u_be16(0);
    hdr->next = (u_u8)next;
    hdr->hop_limit = (u_u8)hop_limit;
    hdr->src = *src;
    hdr->dst = *dst;
}

void us_ip6_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 payload_bytes)
{
    struct us_ip6_hdr *hdr = (struct us_ip6_hdr *)(pkt->data + stack->l2_bytes);

    hdr->payload_bytes = u_be16(payload_bytes);
    pkt->l2_len = stack->l2_bytes;
    pkt->l3_len = US_IP6_HDR_BYTES;
    pkt->len = stack->l2_bytes + US_IP6_HDR_BYTES + payload_bytes;
}
