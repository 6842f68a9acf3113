/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the XDP program is told about an address: the entry of its table. The program is compiled
 * for the kernel's virtual machine, so this is all that it shares with the rest.
 */
#ifndef NIC_XDP_RULE_H
#define NIC_XDP_RULE_H

#include <linux/types.h>

/* An address of ours: IPv6, or IPv4 as ::ffff:a.b.c.d (RFC 4291 2.5.5.2). */
struct nic_xdp_key {
    __u8 bytes[16];
};

struct nic_xdp_rule {
    __u8 whole; /* 1: the address is ours alone; 0: it is the host's, and two ports are ours */
    __u8 unused;
    __be16 tcp_port; /* 0: none */
    __be16 udp_port;
};

/* The most addresses, and the most queues of a device. */
#define NIC_XDP_RULES_MAX 32
#define NIC_XDP_QUEUES_MAX 128

#endif
