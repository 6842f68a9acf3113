/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP: receive queues of a network interface that remains the kernel's. An XDP program in its
 * receive path (xdp_filter.bpf.c) redirects frames for the stack.
 *
 * The stack's addresses are either its own (it handles all frames to them, ARP included, and the
 * kernel must not have them), or the host's (the stack handles two ports, and the kernel everything
 * else: ARP, ping, other services).
 */
#ifndef NIC_XDP_H
#define NIC_XDP_H

#include "nic/nic.h"

#define NIC_XDP_ADDRS_MAX 8

struct nic_xdp_addr {
    bool is_ip6;
    uint8_t bytes[16]; /* network byte order; IPv4 uses the first four */
};

enum nic_xdp_mode {
    NIC_XDP_MODE_AUTO = 0, /* native if the driver supports it, else generic */
    NIC_XDP_MODE_NATIVE,   /* in the driver */
    NIC_XDP_MODE_GENERIC   /* behind the driver: any interface, slower */
};

struct nic_xdp_config {
    const char *dev;
    uint8_t mac[6]; /* of the stack; all zero: that of the interface */
    uint32_t mtu;   /* 0: that of the interface */
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    unsigned addr_count;
    bool host_addrs;   /* the addresses are the host's, and the stack serves these ports: */
    uint16_t tcp_port; /* 0: none */
    uint16_t udp_port; /* 0: none */
    enum nic_xdp_mode mode;
    bool copy;      /* no zero-copy, even if the driver supports it */
    bool busy_poll; /* rx_burst() drives the interface instead of interrupts */
};

/*
 * Opens all receive queues of an interface. If it has more than `queues`, each struct nic serves
 * several of them; if fewer, the number is reduced. Returns the number, or -1 with a message.
 *
 * Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root) until it returns. With host_addrs the
 * ports are bound in the kernel, so that no other process can listen on them. Closing the last
 * queue, or the end of the process, returns the interface to the kernel.
 */
int nic_xdp_open(const struct nic_xdp_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX]);

/*
 * Lists the host's addresses on an interface: IPv4 first, link-local ones last, at most `max`.
 * Returns how many, or 0 with a message in error[].
 */
unsigned nic_xdp_host_addrs(const char *dev, struct nic_xdp_addr *addrs, unsigned max,
                            char error[NIC_ERROR_MAX]);

#endif
