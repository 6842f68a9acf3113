/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet II frames. */
#ifndef USTACK_ETH_H
#define USTACK_ETH_H

#include "base/wire.h"

struct us_pkt;
struct us_stack;

enum { US_ETH_IP4 = 0x0800, US_ETH_ARP = 0x0806 };

struct us_eth_hdr {
    u_u8 dst[6];
    u_u8 src[6];
    struct u_be16 type;
};

enum { US_ETH_HDR_BYTES = 14 };

U_STATIC_ASSERT(sizeof(struct us_eth_hdr) == US_ETH_HDR_BYTES, eth_hdr_size);

extern const u_u8 us_eth_broadcast[6];

/* Checks the frame's destination and hands it to its protocol. */
void us_eth_input(struct us_stack *stack, const struct us_pkt *pkt);

/* Writes the header. */
void us_eth_build(const struct us_stack *stack, u_u8 *frame, const u_u8 *dst, unsigned type);

#endif
