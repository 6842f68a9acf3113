/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 (RFC 791, RFC 1122 section 3). Reassembly is in frag.h. */
#ifndef USTACK_IP4_H
#define USTACK_IP4_H

#include "base/wire.h"
#include "ustack/ip.h"

enum { US_IP4_HDR_BYTES = 20, US_IP4_TTL = 64 };

enum { US_IP4_PLAIN = 0x45 }; /* version 4, no options */

/* The fragment field: two flags and the offset in units of eight bytes. */
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

/* Handles a received packet, of which mac, l3, l3_bytes, flags and cast are known. */
void us_ip4_input(struct us_stack *stack, struct us_rx *rx);

/*
 * Writes a header with don't-fragment set (RFC 6864: so the identification can be 0) and checksum
 * 0, and without a length: us_ip4_finish() completes it.
 */
void us_ip4_build(u_u8 *to, u_u32 src_ip, u_u32 dst_ip, unsigned protocol);

/*
 * Completes a header that us_ip4_build() wrote behind the Ethernet header of pkt->data: sets the
 * length of the packet and the checksum, or marks the packet so that the NIC does that. `sum` is
 * u_cksum_add() over the header as it stands there.
 */
void us_ip4_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 total_bytes, u_u32 sum);

#endif
