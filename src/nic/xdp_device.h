/* SPDX-License-Identifier: BSD-3-Clause */
/* A network interface of the kernel: its properties, and the settings that AF_XDP needs. */
#ifndef NIC_XDP_DEVICE_H
#define NIC_XDP_DEVICE_H

#include "nic/xdp.h"

struct nic_xdp_device {
    char name[16];
    int ifindex;
    uint32_t mtu;
    uint8_t mac[6];
    bool is_veth;   /* its peer is on this machine */
    bool gro_off;   /* generic receive offload was turned off here */
    int control_fd; /* for ioctl() */
    int member_fd;  /* while open, the interface accepts further MAC addresses */
    int port_fds[4];
};

/*
 * Reads the properties of an interface. Returns 0, or -1 with a message; nic_xdp_device_close() is
 * required in both cases.
 */
int nic_xdp_device_open(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX]);

/*
 * Makes the interface accept frames to the MAC address of the configuration, if it is not the
 * interface's, and to the multicast groups of its IPv6 addresses. Returns 0, or -1 with a message.
 */
int nic_xdp_device_join(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                        char error[NIC_ERROR_MAX]);

/*
 * Binds the ports in the kernel: while the device is open, no process can listen on them, and the
 * kernel does not choose them for outgoing connections. Returns 0, or -1 with a message.
 */
int nic_xdp_device_claim(struct nic_xdp_device *device, const struct nic_xdp_config *config,
                         char error[NIC_ERROR_MAX]);

/*
 * Turns generic receive offload off until nic_xdp_device_close(): in generic mode it delivers
 * packets of up to 64 KiB, which do not fit into a buffer.
 */
void nic_xdp_device_gro_off(struct nic_xdp_device *device);

/* The present MTU; 0 with errno if it cannot be read. */
uint32_t nic_xdp_device_mtu(const struct nic_xdp_device *device);

/*
 * The receive queues in use; interfaces that do not report a number have one. An attached XDP
 * program may change it: virtio-net then uses more, if it has them.
 */
unsigned nic_xdp_device_queues(const struct nic_xdp_device *device);

/* Whether the interface still exists. */
bool nic_xdp_device_exists(const struct nic_xdp_device *device);

void nic_xdp_device_close(struct nic_xdp_device *device);

#endif
