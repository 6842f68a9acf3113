/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network link of a program: the options that describe it (--io, --dev, --ip, ...), and the
 * device queues and stack addresses that they stand for. All programs share these options.
 *
 * Each value of --io is a back end, one row of link_backends[] (backend.h).
 */
#ifndef COMMON_LINK_H
#define COMMON_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cmdline.h"
#include "net/net.h"
#include "nic/nic.h"
#include "nic/xdp.h"

#define LINK_ERROR_MAX CMDLINE_ERROR_MAX
#define LINK_DESCRIPTION_MAX 160
#define LINK_OPTIONS_MAX 24
#define LINK_IO_AUTO 0

struct link_backend;

/* All zero: no option was given. Strings point into argv. */
struct link_options {
    unsigned io;                        /* --io: LINK_IO_AUTO, or 1 + index in link_backends[] */
    const struct link_backend *backend; /* null until link_resolve() */
    const char *dev;                    /* null: none given, and the back end has no default */
    struct net_stack_addr ip[NET_STACK_ADDR_MAX];
    unsigned ip_count;
    struct us_addr gateways[NET_STACK_GATEWAY_MAX];
    unsigned gateway_count;
    uint8_t mac[6];  /* all zero: not given */
    uint32_t mtu;    /* 0: the device's default */
    uint32_t queues; /* 0: one per thread */
    const char *trace_path;
    struct nic_fault_config fault;
    bool fault_given;

    bool host_ip_given;             /* TAP: --host-ip, "none" included */
    struct net_stack_addr host_ip;  /* prefix_len 0: the host's side has no IPv4 address */
    struct net_stack_addr host_ip6; /* likewise for IPv6 */

    struct { /* AF_XDP: --xdp */
        enum nic_xdp_mode mode;
        bool copy;
        bool busy_poll;
    } xdp;
    bool host_addrs; /* AF_XDP, after link_resolve(): ip[] are the host's addresses */

    const char *eal;  /* DPDK: --eal */
    unsigned without; /* DPDK: --without, enum nic_dpdk_without */

    bool given[LINK_OPTIONS_MAX]; /* by index in link_table() */
};

/* The options of the link and of all back ends, for cmdline_parse() and the help. */
struct cmdline_table link_table(struct link_options *link);

/* Values for options that were not given. */
struct link_defaults {
    const char *dev;     /* TAP device */
    const char *ip;      /* "10.100.0.20/24" */
    const char *host_ip; /* address of the host's side of a TAP device */
};

/*
 * Chooses the back end for --io=auto, fills in defaults and checks that the options fit together.
 * The back end is DPDK if --eal is given or --dev is a port number or a DPDK virtual device; AF_XDP
 * if --dev is a network interface of this machine; TAP for any other --dev or with --ip; otherwise
 * kernel sockets. Returns 0, or -1 with a message.
 */
int link_resolve(struct link_options *link, const struct link_defaults *defaults,
                 char error[LINK_ERROR_MAX]);

/* Whether the link carries Ethernet frames for the own TCP/IP stack. After link_resolve(). */
bool link_carries_frames(const struct link_options *link);

/* The back end's name, a value of --io. After link_resolve(). */
const char *link_backend_name(const struct link_options *link);

/*
 * The queues of a device that another process has opened; the back end has nic_ops.adoptable_fd.
 * It owns the descriptors.
 */
struct link_adopted {
    int fds[NIC_QUEUES_MAX];
    unsigned count;
    uint8_t mac[6];
};

/* How the program uses the link. */
struct link_params {
    const struct link_adopted *adopted; /* null: the device is opened */
    const uint8_t *mac;                 /* of the process before, if --mac is not given; or null */
    bool keep_rss_key;                  /* opened again: flows have been distributed by the key */
    unsigned queues;                    /* wanted, 1..NIC_QUEUES_MAX: one per worker */
    uint16_t tcp_port;                  /* served; 0: none. For back ends that filter frames */
    uint16_t udp_port;
    bool verbose; /* the driver's log goes to stderr */
};

/*
 * Does what can be done while another process still has the device. Returns 0, or -1 with a
 * message.
 */
int link_prepare(const struct link_options *link, const struct link_params *params,
                 char error[LINK_ERROR_MAX]);

/*
 * Whether another process can open the device once this one has closed it, and this one again;
 * otherwise only the end of this process frees the device.
 */
bool link_close_frees(const struct link_options *link);

/*
 * Opens the device that resolved options name, with --fault and --trace wrapped around each queue
 * (the trace outermost: the file shows the frames that the stack sees). Sets a new RSS key unless
 * params->keep_rss_key. Returns the number of queues, 1..params->queues (fewer with --queues), or
 * -1 with a message.
 */
int link_open(const struct link_options *link, const struct link_params *params,
              struct nic *queue[], char error[LINK_ERROR_MAX]);

/* Copies the addresses and gateways into the stack's configuration. */
void link_configure_stack(const struct link_options *link, struct net_stack_config *config);

/* Writes a description, for instance "TAP device ucached0, host side 10.100.0.10". Returns text. */
const char *link_describe(const struct link_options *link, char text[LINK_DESCRIPTION_MAX]);

/* Whether `addr` is in the network of `network`. */
bool link_same_network(const struct net_stack_addr *network, const struct us_addr *addr);

#endif
