/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv6 (RFC 8200). */
#ifndef USTACK_IP_IP6_H
#define USTACK_IP_IP6_H

#include "base/wire.h"
#include "ustack/ip/ip.h"

enum { US_IP6_HDR_BYTES = 40, US_IP6_HOP_LIMIT = 64, US_IP6_MTU_MIN = 1280 };

enum { US_IP6_FRAGMENT_HDR_BYTES = 8 };

struct us_ip6_hdr {
    struct u_be32 first; /* version, traffic class, flow label */
    struct u_be16 payload_bytes;
    u_u8 next;
    u_u8 hop_limit;
    struct us_ip6 src;
    struct us_ip6 dst;
};

U_STATIC_ASSERT(sizeof(struct us_ip6_hdr) == US_IP6_HDR_BYTES, ip6_hdr_size);

/* Processes a received packet; mac, l3, l3_bytes, flags and cast of *rx are set. */
void us_ip6_input(struct us_stack *stack, struct us_rx *rx);

/* us_ip_build() for IPv6, with flow label 0. */
void us_ip6_build(u_u8 *to, const struct us_ip6 *src, const struct us_ip6 *dst, unsigned next,
                  unsigned hop_limit);

/* us_ip_finish() for IPv6; payload_bytes includes extension headers. */
void us_ip6_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 payload_bytes);

#endif
