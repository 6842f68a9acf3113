/* SPDX-License-Identifier: BSD-3-Clause */
/* The map entry of an address, shared by the XDP program and xdp_filter.c. */
#ifndef NIC_XDP_RULE_H
#define NIC_XDP_RULE_H

#include <linux/types.h>

/* A key: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (RFC 4291 2.5.5.2). */
struct nic_xdp_key {
    __u8 bytes[16];
};

struct nic_xdp_rule {
    __u8 whole; /* 1: all frames to the address; 0: only to these ports */
    __u8 unused;
    __be16 tcp_port; /* 0: none */
    __be16 udp_port;
};

/* Maximum number of addresses, and of queues of a device. */
#define NIC_XDP_RULES_MAX 32
#define NIC_XDP_QUEUES_MAX 128

#endif
