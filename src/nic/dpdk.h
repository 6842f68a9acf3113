/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet I/O through DPDK and any of its poll-mode drivers, physical or virtual. */
#ifndef NIC_DPDK_H
#define NIC_DPDK_H

#include "nic/nic.h"

/* Device features that are not used: for measurements, and for faulty devices. */
enum nic_dpdk_without {
    NIC_DPDK_WITHOUT_CSUM = 1 << 0,      /* checksums in both directions */
    NIC_DPDK_WITHOUT_TSO = 1 << 1,       /* large segments, sent and received */
    NIC_DPDK_WITHOUT_SG = 1 << 2,        /* frames of several segments, and so TSO too */
    NIC_DPDK_WITHOUT_ZERO_COPY = 1 << 3, /* segments are copied into packets of DPDK */
    NIC_DPDK_WITHOUT_RSS = 1 << 4        /* hash key and indirection table */
};

struct nic_dpdk_config {
    /*
     * The device: a port number, a PCI address, the name of a device in `eal`, or a virtual device
     * to create, for instance "net_memif0,role=client". Null: the only port.
     */
    const char *dev;
    const char *eal;  /* arguments of EAL, as on a command line; null: none */
    uint8_t mac[6];   /* all zero: the device's */
    uint32_t mtu;     /* 0: 1500 */
    unsigned without; /* enum nic_dpdk_without */
    bool verbose;     /* DPDK's log goes to stderr */
};

/*
 * Opens up to `queues` queues of a device; see nic.h. Returns how many, or -1 with a message.
 *
 * The first call of a process starts EAL with `eal`. EAL starts two threads, with all signals
 * blocked; the caller's affinity, signal mask and standard streams are preserved. Without huge
 * pages DPDK works more slowly; a note on stderr says so once.
 *
 * Must not be called before a fork() whose child continues: the threads exist only in the parent.
 */
int nic_dpdk_open(const struct nic_dpdk_config *config, unsigned queues, struct nic *queue[],
                  char error[NIC_ERROR_MAX]);

/*
 * Starts EAL while another process still has the device. Nothing is done if EAL would open a device
 * itself, or if huge pages are missing that the other process may free. Returns 0, or -1 with a
 * message.
 */
int nic_dpdk_prepare(const struct nic_dpdk_config *config, unsigned queues,
                     char error[NIC_ERROR_MAX]);

/*
 * Whether another process can open the device once nic_close() has closed it here, and this one
 * again; otherwise only the end of the process frees it.
 */
bool nic_dpdk_close_frees(const struct nic_dpdk_config *config);

#endif
