/* SPDX-License-Identifier: BSD-3-Clause */
/* The XDP program (xdp_filter.bpf.c): loaded, told what is ours, attached to an interface. */
#ifndef NIC_XDP_FILTER_H
#define NIC_XDP_FILTER_H

#include "nic/xdp.h"
#include "nic/xdp_rule.h"

struct bpf_object;

struct nic_xdp_filter {
    struct bpf_object *object; /* null: not loaded */
    int program_fd;
    int rules_fd;
    int sockets_fd; /* the map from a queue to its socket */
    int link_fd;    /* -1: not attached. The kernel detaches when it is closed, however */
    bool generic;   /* attached behind the driver */
};

/* Loads the program. Returns 0, or -1 with a message. nic_xdp_filter_close() is due in any case. */
int nic_xdp_filter_load(struct nic_xdp_filter *filter, char error[NIC_ERROR_MAX]);

/* Tells it the addresses and ports of a configuration. Returns 0, or -1 with a message. */
int nic_xdp_filter_allow(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX]);

/* Puts it in the way of all frames of an interface. Returns 0, or -1 with a message. */
int nic_xdp_filter_attach(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                          int ifindex, char error[NIC_ERROR_MAX]);

/* Detaches and unloads it. */
void nic_xdp_filter_close(struct nic_xdp_filter *filter);

#endif
