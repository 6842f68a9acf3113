/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 (RFC 791, RFC 1122 section 3). Fragments are dropped and counted. */
#ifndef USTACK_IP4_H
#define USTACK_IP4_H

#include "base/wire.h"

struct us_pkt;
struct us_stack;

enum { US_IP_ICMP = 1, US_IP_TCP = 6, US_IP_UDP = 17 };

enum {
    US_IP4_HDR_BYTES = 20,
    US_IP4_TTL = 64,
    US_IP4_DONT_FRAGMENT = 0x4000,
    US_IP4_OFFSET_MASK = 0x1fff
};

struct us_ip4_hdr {
    u_u8 version_ihl;
    u_u8 tos;
    struct u_be16 total_bytes;
    struct u_be16 id;
    struct u_be16 fragment;
    u_u8 ttl;
    u_u8 protocol;
    struct u_be16 checksum;
    struct u_be32 src;
    struct u_be32 dst;
};

U_STATIC_ASSERT(sizeof(struct us_ip4_hdr) == US_IP4_HDR_BYTES, ip4_hdr_size);

/* Handles a received packet; data and bytes are those behind the Ethernet header. */
void us_ip4_input(struct us_stack *stack, const u_u8 *src_mac, const u_u8 *data, u_u32 bytes,
                  u_u32 pkt_flags);

/*
 * Writes a header with don't-fragment set (RFC 6864: so the identification can be 0) and checksum
 * 0, and without a length: us_ip4_finish() completes it.
 */
void us_ip4_build(u_u8 *to, u_u32 src_ip, u_u32 dst_ip, unsigned protocol);

/* Sets the ECN field (0..3) of a header behind pkt's Ethernet header; returns the new sum. */
u_u32 us_ip4_set_ecn(struct us_pkt *pkt, unsigned ecn, u_u32 sum);

/*
 * Completes a header that us_ip4_build() wrote behind the Ethernet header of pkt->data: sets the
 * length of the packet and the checksum, or marks the packet so that the NIC does that. `sum` is
 * u_cksum_add() over the header as us_ip4_build() left it.
 */
void us_ip4_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 total_bytes, u_u32 sum);

#endif
