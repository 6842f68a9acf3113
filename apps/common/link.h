/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link that a program's own TCP/IP stack uses: the options that describe it, the same for every
 * program here, and what they are turned into, which is the queues of a device and the addresses of
 * the stack. Kernel sockets are chosen by the same option (--io) and need nothing of the rest.
 */
#ifndef COMMON_LINK_H
#define COMMON_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/net.h"
#include "nic/nic.h"
#include "nic/xdp.h"

#define LINK_ERROR_MAX 400
#define LINK_TEXT_MAX 160

enum link_io {
    LINK_IO_AUTO = 0,
    LINK_IO_SOCK,
    LINK_IO_URING,
    LINK_IO_TAP,
    LINK_IO_XDP,
    LINK_IO_DPDK
};

/* All zero: nothing was given. Strings point into argv. */
struct link_options {
    enum link_io io; /* not AUTO any more after link_settle() */
    bool io_chosen;  /* by link_settle(): nobody has asked for it */
    const char *dev; /* null: none given, and none that goes without saying */
    struct net_stack_addr ip[NET_STACK_ADDR_MAX];
    unsigned ip_count;
    struct net_stack_addr host_ip; /* prefix_len 0: none of that family */
    struct net_stack_addr host_ip6;
    bool host_ip_given;
    struct us_addr gateways[NET_STACK_GATEWAY_MAX];
    unsigned gateway_count;
    uint8_t mac[6];
    bool mac_given;
    uint32_t mtu;    /* 0: the device's default */
    unsigned queues; /* 0: as many as threads */
    const char *eal;
    struct {
        enum nic_xdp_mode mode;
        bool copy;
        bool busy_poll;
    } xdp;
    bool xdp_given;
    bool host_addrs;  /* after link_settle(): ip[] are the host's, which lets us have the ports */
    unsigned without; /* enum nic_dpdk_without */
    const char *trace_path;
    struct nic_fault_config fault;
    bool fault_given;
};

/* ---- the command line -------------------------------------------------------------------- */

/* One long option with an argument. Lines of the help after the first are not indented. */
struct link_option {
    const char *name;
    const char *arg; /* what the argument is called in the help */
    /* Returns 0, or -1 with a message in error[] that names the option and what is allowed. */
    int (*set)(struct link_options *link, const char *arg, char error[LINK_ERROR_MAX]);
    const char *help;
};

struct link_option_table {
    const struct link_option *options;
    size_t count;
};

/*
 * --io --dev --ip --host-ip --gw --mac --mtu --queues --eal --xdp --without --trace --fault, in the
 * order of the help.
 */
struct link_option_table link_option_table(void);

/* Sets the option of this name, which is in the table. Returns 0, or -1 with a message. */
int link_set(struct link_options *link, const char *name, const char *arg,
             char error[LINK_ERROR_MAX]);

/* What goes without saying. */
struct link_defaults {
    const char *dev;     /* TAP device */
    const char *ip;      /* "10.100.0.20/24" */
    const char *host_ip; /* of the host's side of a TAP */
};

/*
 * Decides where --io=auto leads (DPDK if --eal is given or --dev is a number or the
 * name of a virtual device; AF_XDP if --dev is an
 * interface of this machine; TAP if there is any other --dev or an --ip; else sock), fills in what
 * goes without saying and checks what fits together. Returns 0, or -1 with a message.
 */
int link_settle(struct link_options *link, const struct link_defaults *defaults,
                char error[LINK_ERROR_MAX]);

/* Whether frames come in, and so the own TCP/IP stack is used. Not for AUTO. */
bool link_is_stack(enum link_io io);

/* The word of --io. */
const char *link_io_name(enum link_io io);

/* ---- the device -------------------------------------------------------------------------- */

/* What the link is for. */
struct link_use {
    unsigned queues;   /* wanted, 1..NIC_QUEUES_MAX: one for each worker */
    uint16_t tcp_port; /* listened on; 0: none. For devices that filter */
    uint16_t udp_port;
    bool verbose; /* what the device's driver logs may go to the standard error stream */
};

/*
 * Opens the device that settled options name, with --fault and --trace wrapped around each queue
 * (the trace outermost, so that the file shows what the stack sees). May complete the addresses in
 * *link with those that the device has. Returns how many queues there are, 1..use->queues (fewer
 * with --queues), or -1 with a message.
 */
int link_open(struct link_options *link, const struct link_use *use, struct nic *queue[],
              char error[LINK_ERROR_MAX]);

/* Puts the addresses and gateways of the stack where they belong. */
void link_configure_stack(const struct link_options *link, struct net_stack_config *config);

/* Writes what the link is, for instance "TAP device ucached0, host side 10.100.0.10". */
const char *link_text(const struct link_options *link, char text[LINK_TEXT_MAX]);

/* Whether `addr` is in the network of `network`. */
bool link_same_network(const struct net_stack_addr *network, const struct us_addr *addr);

#endif
