/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP messages (RFC 826, RFC 5227); neighbour.h has the table that they fill. */
#ifndef USTACK_IP_ARP_H
#define USTACK_IP_ARP_H

#include "base/base.h"

struct us_pkt;
struct us_stack;

/* Processes a received ARP packet; `data` is behind the Ethernet header. */
void us_arp_input(struct us_stack *stack, const u_u8 *data, u_u32 bytes);

/* Builds a request for a neighbour's MAC address; mac: its destination, null for broadcast. */
void us_arp_build_request(struct us_stack *stack, struct us_pkt *pkt, u_u32 ip, const u_u8 *mac);

/* Builds a reply from src_ip to dst_ip at dst_mac. */
void us_arp_build_reply(struct us_stack *stack, struct us_pkt *pkt, u_u32 src_ip, u_u32 dst_ip,
                        const u_u8 *dst_mac);

/* Builds one pending announcement of a local address (RFC 5227 section 3). Returns 0 if none. */
int us_arp_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
