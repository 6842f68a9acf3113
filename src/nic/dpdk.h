/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet I/O by DPDK: any of its poll-mode drivers, physical or virtual. */
#ifndef NIC_DPDK_H
#define NIC_DPDK_H

#include "nic/nic.h"

/* What of a device is left unused, for measurements and for devices that err. */
enum nic_dpdk_without {
    NIC_DPDK_WITHOUT_CSUM = 1 << 0,      /* checksums in both directions */
    NIC_DPDK_WITHOUT_TSO = 1 << 1,       /* large segments, sent and received */
    NIC_DPDK_WITHOUT_SG = 1 << 2,        /* frames of several segments, and so TSO too */
    NIC_DPDK_WITHOUT_ZERO_COPY = 1 << 3, /* segments are copied into packets of DPDK */
    NIC_DPDK_WITHOUT_RSS = 1 << 4        /* our key and table of queues */
};

struct nic_dpdk_config {
    /*
     * Which device: a port number, a PCI address, the name of a device that `eal` asks for, or a
     * virtual one to make, for instance "net_memif0,role=client". Null: the only one there is.
     */
    const char *dev;
    const char *eal;  /* arguments for DPDK's environment, as on a command line; null: none */
    uint8_t mac[6];   /* all zero: the device's */
    uint32_t mtu;     /* 0: 1500 */
    unsigned without; /* enum nic_dpdk_without */
    bool verbose;     /* DPDK's log goes to the standard error stream */
};

/*
 * Opens as many queues of a device as are wanted and as it has, or none; see nic.h. Returns how
 * many, or -1 with a message. The first call of a process starts DPDK's environment,
 * with what that call's `eal` says. It starts two threads, which have all signals blocked; the
 * caller's affinity, signal mask and standard streams stay as they were. Without huge pages it
 * works too, more slowly, and says so once on the standard error stream.
 *
 * Not before a fork() whose child goes on: the threads would stay behind.
 */
int nic_dpdk_open(const struct nic_dpdk_config *config, unsigned queues, struct nic *queue[],
                  char error[NIC_ERROR_MAX]);

#endif
