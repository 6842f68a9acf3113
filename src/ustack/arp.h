/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP on the wire (RFC 826, RFC 5227). What it learns goes into the neighbour cache. */
#ifndef USTACK_ARP_H
#define USTACK_ARP_H

#include "base/base.h"

struct us_pkt;
struct us_stack;

/* Handles a received ARP packet of `bytes` bytes behind the Ethernet header. */
void us_arp_input(struct us_stack *stack, const u_u8 *data, u_u32 bytes);

/* Builds a request for a neighbour's MAC address, to that MAC address or, if null, to everybody. */
void us_arp_build_request(struct us_stack *stack, struct us_pkt *pkt, u_u32 ip, const u_u8 *mac);

/* Builds an ARP reply from src_ip to the host with this pair of addresses. */
void us_arp_build_reply(struct us_stack *stack, struct us_pkt *pkt, u_u32 src_ip, u_u32 dst_ip,
                        const u_u8 *dst_mac);

/*
 * Builds the announcement of an address that was added, or defended (RFC 5227 section 3). Returns
 * 0 if there is none.
 */
int us_arp_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
