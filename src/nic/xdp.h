/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP: the queues of a network interface that goes on belonging to the kernel. A small program
 * in its receive path (xdp_filter.bpf.c) takes the frames that are meant for us.
 *
 * Whose address is it? Either ours alone: then we answer for all of it, ARP included, and the
 * kernel must not have it. Or the host's: then two ports of it are ours, and the kernel keeps all
 * the rest, ARP, ping and other services.
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
    NIC_XDP_MODE_AUTO = 0, /* in the driver if it can, else generic */
    NIC_XDP_MODE_NATIVE,   /* in the driver */
    NIC_XDP_MODE_GENERIC   /* behind the driver: any interface, slower */
};

struct nic_xdp_config {
    const char *dev;
    uint8_t mac[6]; /* ours; all zero: that of the interface */
    uint32_t mtu;   /* 0: that of the interface */
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    unsigned addr_count;
    bool host_addrs;   /* the addresses are the host's, and these ports are ours: */
    uint16_t tcp_port; /* 0: none */
    uint16_t udp_port; /* 0: none */
    enum nic_xdp_mode mode;
    bool copy;      /* no zero-copy, even where the driver can */
    bool busy_poll; /* drive the interface from rx_burst() instead of by interrupts */
};

/*
 * Opens all receive queues of an interface. If it has more than `queues`, each struct nic serves
 * several of them; if it has fewer, there are as many as it has. Returns how many, or -1 with a
 * message. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root), not any more once
 * it is open. With host_addrs the ports are claimed from the kernel, so that nobody else listens
 * there. When the last queue is closed, or the process ends in whatever way, the kernel has the
 * interface back.
 */
int nic_xdp_open(const struct nic_xdp_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX]);

/*
 * The addresses that the host has on an interface, IPv4 first and link-local ones last, at most
 * `max`. Returns how many, 0 with a message in error[] if there is none.
 */
unsigned nic_xdp_host_addrs(const char *dev, struct nic_xdp_addr *addrs, unsigned max,
                            char error[NIC_ERROR_MAX]);

#endif
