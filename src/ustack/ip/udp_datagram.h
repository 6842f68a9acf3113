/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP (RFC 768, RFC 1122 section 4.1). The public calls are in ustack/ustack.h. */
#ifndef USTACK_IP_UDP_DATAGRAM_H
#define USTACK_IP_UDP_DATAGRAM_H

#include "base/wire.h"

struct us_rx;
struct us_stack;

struct us_udp_hdr {
    struct u_be16 src_port;
    struct u_be16 dst_port;
    struct u_be16 bytes; /* header and data */
    struct u_be16 checksum;
};

enum { US_UDP_HDR_BYTES = 8, US_UDP_CSUM_OFFSET = 6 };

U_STATIC_ASSERT(sizeof(struct us_udp_hdr) == US_UDP_HDR_BYTES, udp_hdr_size);

/* Processes a received datagram; rx->l4 is its header. */
void us_udp_input(struct us_stack *stack, const struct us_rx *rx);

#endif
