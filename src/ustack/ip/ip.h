/* SPDX-License-Identifier: BSD-3-Clause */
/* Received packets and IP headers of both families. */
#ifndef USTACK_IP_IP_H
#define USTACK_IP_IP_H

#include "base/base.h"
#include "ustack/ip/addr.h"

struct us_pkt;
struct us_stack;

/* Protocol numbers, IPv6 extension headers included. */
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

/* The largest IP header sent, without extension headers. */
enum { US_IP_HDR_MAX = 40 };

/* A received packet. */
struct us_rx {
    const u_u8 *mac; /* source of the frame */
    const u_u8 *l3;  /* the IP header */
    u_u32 l3_bytes;  /* from there to the end of the packet */
    const u_u8 *l4;  /* first byte behind the IP header and its options */
    u_u32 l4_bytes;
    u_u32 src_ip;              /* us_ip.id of the sender */
    u_u32 dst_ip;              /* id of the local address */
    const struct us_ip6 *src6; /* null: IPv4 */
    const struct us_ip6 *dst6;
    u_u32 flags; /* enum us_pkt_flag */
    u_u8 tos;    /* type of service or traffic class: DSCP and, in the lower two bits, ECN */
    u_u8 hop_limit;
    u_u8 protocol;       /* of l4: one of the numbers above */
    u_u8 is_reassembled; /* from fragments */
    u_u8 cast;           /* enum us_cast: the wider of frame and IP address */
};

U_INLINE struct us_ip us_rx_source(const struct us_rx *rx)
{
    struct us_ip ip;
    ip.id = rx->src_ip;
    ip.six = rx->src6;
    return ip;
}

/* The MTU of the link for a family, bytes. */
u_u32 us_ip_mtu(const struct us_stack *stack, int is_ip6);

/* Sum of the pseudo-header of a received packet (cksum.h). */
u_u32 us_rx_pseudo_sum(const struct us_rx *rx, unsigned protocol, u_u32 l4_bytes);

/* The same for a packet to be sent from a local address. */
u_u32 us_ip_pseudo_sum(const struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                       unsigned protocol, u_u32 l4_bytes);

/*
 * Writes an IP header without length and checksum at `to` and returns its length. IPv4: with DF set
 * and identification 0 (RFC 6864).
 */
u_u32 us_ip_build(const struct us_stack *stack, u_u8 *to, u_u32 src_ip, struct us_ip dst,
                  unsigned protocol);

/*
 * Completes the IP header in pkt behind l2_bytes: length and IPv4 checksum, which may be offloaded.
 * l4_bytes follow the header. Sets pkt->len and the header lengths.
 */
void us_ip_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 l4_bytes);

#endif
