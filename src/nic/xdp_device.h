/* SPDX-License-Identifier: BSD-3-Clause */
/* A network interface of the kernel as AF_XDP needs it: what it is like, and small changes. */
#ifndef NIC_XDP_DEVICE_H
#define NIC_XDP_DEVICE_H

#include "nic/xdp.h"

struct nic_xdp_device {
    char name[16];
    int ifindex;
    uint32_t mtu;
    uint8_t mac[6];
    unsigned rx_queues;
    bool is_veth;   /* its other end is in this machine */
    bool gro_off;   /* we have turned generic receive offload off */
    int control_fd; /* for questions */
    int member_fd;  /* while open, the interface takes frames to further MAC addresses */
    int port_fds[4];
};

/* Looks at an interface. Returns 0, or -1 with a message. nic_xdp_device_close() is due in any
 * case. */
int nic_xdp_device_open(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX]);

/*
 * Has the interface take the frames that the configuration's own addresses need: to their groups,
 * and to our MAC address if it is not that of the interface. Returns 0, or -1 with a message.
 */
int nic_xdp_device_join(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX]);

/*
 * Takes the ports from the kernel: nobody can listen there while the device is open, and it does
 * not choose them for connections of its own. Returns 0, or -1 with a message.
 */
int nic_xdp_device_claim(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX]);

/*
 * Generic mode sees what the kernel has joined to packets of up to 64 KiB, which no buffer holds:
 * turns that off until nic_xdp_device_close().
 */
void nic_xdp_device_gro_off(struct nic_xdp_device *device);

/* Whether the interface still exists. */
bool nic_xdp_device_exists(const struct nic_xdp_device *device);

void nic_xdp_device_close(struct nic_xdp_device *device);

#endif
