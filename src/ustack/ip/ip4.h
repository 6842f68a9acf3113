/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 (RFC 791, RFC 1122 section 3). Reassembly is in frag.h. */
#ifndef USTACK_IP_IP4_H
#define USTACK_IP_IP4_H

#include "base/wire.h"
#include "ustack/ip/ip.h"

enum { US_IP4_HDR_BYTES = 20, US_IP4_TTL = 64 };

enum { US_IP4_PLAIN = 0x45 }; /* version 4, no options */

/* The fragment field: flags, and the offset in units of eight bytes. */
enum { US_IP4_DONT_FRAGMENT = 0x4000, US_IP4_MORE_FRAGMENTS = 0x2000, US_IP4_OFFSET_MASK = 0x1fff };

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

/* Processes a received packet; mac, l3, l3_bytes, flags and cast of *rx are set. */
void us_ip4_input(struct us_stack *stack, struct us_rx *rx);

/* us_ip_build() for IPv4. */
void us_ip4_build(u_u8 *to, u_u32 src_ip, u_u32 dst_ip, unsigned protocol);

/*
 * us_ip_finish() for IPv4; total_bytes includes the header, `sum` is u_cksum_add() over the header
 * without a length.
 */
void us_ip4_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 total_bytes, u_u32 sum);

#endif
