/* SPDX-License-Identifier: BSD-3-Clause */
/* What IPv4 and IPv6 have in common: packets on their way up, and headers to be sent. */
#ifndef USTACK_IP_H
#define USTACK_IP_H

#include "base/base.h"
#include "ustack/addr.h"

struct us_pkt;
struct us_stack;

/* Protocol numbers, and those of IPv6's extension headers. */
enum {
    US_IP_HOP_OPTIONS = 0,
    US_IP_ICMP = 1,
    US_IP_TCP = 6,
    US_IP_UDP = 17,
    US_IP_ROUTING = 43,
    US_IP_FRAGMENT = 44,
    US_IP_ICMP6 = 58,
    US_IP_NOTHING = 59,
    US_IP_DST_OPTIONS = 60
};

/* The largest IP header that we send, without extension headers. */
enum { US_IP_HDR_MAX = 40 };

/* A received packet on its way up. */
struct us_rx {
    const u_u8 *mac; /* of the sender */
    const u_u8 *l3;  /* the IP header */
    u_u32 l3_bytes;  /* from there to the end of the packet */
    const u_u8 *l4;  /* first byte behind the IP header and its options */
    u_u32 l4_bytes;
    u_u32 src_ip;              /* us_ip.id of the sender */
    u_u32 dst_ip;              /* our address: IPv4, or a place in the table (addr.h) */
    const struct us_ip6 *src6; /* null: IPv4 */
    const struct us_ip6 *dst6;
    u_u32 flags; /* enum us_pkt_flag */
    u_u8 tos;    /* type of service or traffic class: DSCP and, in the lower two bits, ECN */
    u_u8 hop_limit;
    u_u8 protocol;       /* what l4 is: one of the numbers above */
    u_u8 is_reassembled; /* it came in fragments */
    u_u8 cast;           /* enum us_cast: of the frame, and of the IP address if that is more */
};

U_INLINE struct us_ip us_rx_source(const struct us_rx *rx)
{
    struct us_ip ip;
    ip.id = rx->src_ip;
    ip.six = rx->src6;
    return ip;
}

/* The largest packet of this family that the link carries. */
u_u32 us_ip_mtu(const struct us_stack *stack, int is_ip6);

/* The sum over the pseudo-header of what a packet carries. */
u_u32 us_rx_pseudo_sum(const struct us_rx *rx, unsigned protocol, u_u32 l4_bytes);

/* The same for a packet that we send from an address of ours. */
u_u32 us_ip_pseudo_sum(const struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                       unsigned protocol, u_u32 l4_bytes);

/*
 * Writes an IP header without length and checksum at `to`. Returns its length. IPv4's has
 * don't-fragment set (RFC 6864: so the identification can be 0).
 */
u_u32 us_ip_build(const struct us_stack *stack, u_u8 *to, u_u32 src_ip, struct us_ip dst,
                  unsigned protocol);

/*
 * Completes the IP header that stands in pkt behind l2_bytes: length, checksum of IPv4 over
 * whatever the header says now. l4_bytes: what follows the header. Sets pkt->len and the lengths
 * of the headers.
 */
void us_ip_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 l4_bytes);

#endif
