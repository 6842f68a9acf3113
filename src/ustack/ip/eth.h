/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet II frames, with the VLAN tag of config.vlan_id (IEEE 802.1Q) or without. */
#ifndef USTACK_IP_ETH_H
#define USTACK_IP_ETH_H

#include "base/wire.h"

struct us_ip6;
struct us_pkt;
struct us_stack;

enum { US_ETH_IP4 = 0x0800, US_ETH_ARP = 0x0806, US_ETH_VLAN = 0x8100, US_ETH_IP6 = 0x86dd };

struct us_eth_hdr {
    u_u8 dst[6];
    u_u8 src[6];
    struct u_be16 type;
};

enum { US_ETH_HDR_BYTES = 14, US_VLAN_TAG_BYTES = 4 };

/* The longest header sent; us_stack.l2_bytes is its actual length. */
enum { US_L2_HDR_MAX = US_ETH_HDR_BYTES + US_VLAN_TAG_BYTES };

U_STATIC_ASSERT(sizeof(struct us_eth_hdr) == US_ETH_HDR_BYTES, eth_hdr_size);

/* Kind of destination of a frame or packet. */
enum us_cast { US_CAST_UNICAST, US_CAST_MULTICAST, US_CAST_BROADCAST };

extern const u_u8 us_eth_broadcast[6];

/* Checks the VLAN tag and destination of a received frame and passes it to its protocol. */
void us_eth_input(struct us_stack *stack, const struct us_pkt *pkt);

/* Writes a header of us_stack.l2_bytes bytes at `frame`. */
void us_eth_build(const struct us_stack *stack, u_u8 *frame, const u_u8 *dst, unsigned type);

/* The MAC address of an IPv6 multicast group (RFC 2464 section 7). */
void us_eth_multicast_mac(u_u8 *mac, const struct us_ip6 *group);

#endif
