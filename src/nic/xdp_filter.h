/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads the XDP program (xdp_filter.bpf.c), configures its addresses, and attaches it to an
 * interface.
 */
#ifndef NIC_XDP_FILTER_H
#define NIC_XDP_FILTER_H

#include "nic/xdp.h"
#include "nic/xdp_rule.h"

struct bpf_object;

struct nic_xdp_filter {
    struct bpf_object *object; /* null: not loaded */
    int program_fd;
    int rules_fd;
    int sockets_fd; /* the map from queue to socket */
    int link_fd; /* -1: not attached; closing it, or the end of the process, detaches the program */
    bool generic; /* attached in generic mode */
};

/*
 * Loads the program. Returns 0, or -1 with a message; nic_xdp_filter_close() is required in both
 * cases.
 */
int nic_xdp_filter_load(struct nic_xdp_filter *filter, char error[NIC_ERROR_MAX]);

/* Configures the addresses and ports. Returns 0, or -1 with a message. */
int nic_xdp_filter_allow(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX]);

/* Attaches the program to an interface. Returns 0, or -1 with a message. */
int nic_xdp_filter_attach(struct nic_xdp_filter *filter, const struct nic_xdp_config *config,
                          int ifindex, char error[NIC_ERROR_MAX]);

/* Detaches and unloads it. */
void nic_xdp_filter_close(struct nic_xdp_filter *filter);

#endif
