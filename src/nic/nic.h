/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet I/O: the interface of a device queue.
 *
 * One call per burst goes through the table of functions, so that back ends are chosen at run time.
 * Devices can be stacked: trace and fault wrap another device and own it.
 *
 * A struct nic is one queue of a device and is used by one thread at a time. All queues of a device
 * are opened together; each may then be used by its own thread, and is closed separately.
 *
 * Packet ownership: rx_burst() returns received packets, which the caller owns until release().
 * alloc() returns empty packets; the caller fills them and passes them to tx_burst(), or returns
 * unused ones by release().
 */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ubase/pkt.h"

#define NIC_BURST_MAX 64

struct nic;

/* Reports one counter; the prefix of its name is the layer. */
typedef void nic_stats_emit(void *emit_ctx, const char *name, uint64_t value);

struct nic_ops {
    const char *name;

    /* Receives up to n <= NIC_BURST_MAX packets, without waiting. Returns how many. */
    unsigned (*rx_burst)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /* Allocates up to n <= NIC_BURST_MAX empty packets with room >= mtu + 14. Returns how many. */
    unsigned (*alloc)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /* Releases packets that rx_burst() or alloc() returned. */
    void (*release)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /*
     * Sends up to n <= NIC_BURST_MAX packets in order. Returns how many the device accepted and
     * owns again; the caller keeps the others, to retry or release.
     */
    unsigned (*tx_burst)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /*
     * Sleeps until a frame may have arrived, `timeout_us` have passed, or wake() was called from
     * any thread or signal handler. Returns 0, or a negative errno value if the device is gone.
     */
    int (*wait)(struct nic *nic, uint64_t timeout_us);
    void (*wake)(struct nic *nic);

    /*
     * The largest IP packet that the device carries now, at most nic->mtu: for interfaces whose MTU
     * can change while they are open. From any thread. Null: always nic->mtu.
     */
    uint32_t (*mtu)(struct nic *nic);

    void (*stats)(struct nic *nic, nic_stats_emit *emit, void *emit_ctx);

    /*
     * The descriptor by which another process can open the same queue, with its frames; -1: none.
     * May be null.
     */
    int (*adoptable_fd)(struct nic *nic);

    /*
     * Whether frames of this queue are on the way to another thread, or from one. May be null:
     * never.
     */
    bool (*has_in_transit)(struct nic *nic);

    /* Releases all resources, those in the system included, and frees the nic. */
    void (*close)(struct nic *nic);
};

/* First member of each back end's struct. Read-only for callers. */
struct nic {
    const struct nic_ops *ops;
    uint32_t caps; /* enum us_cap; the transmit capabilities may change in rx_burst() */
    uint32_t mtu;  /* largest IP packet while the queue is open */
    uint8_t mac[6];
    uint16_t queue;             /* index of the queue in the device, 0..queues-1 */
    uint16_t queues;            /* 1 or more */
    int16_t numa_node;          /* of the device; NIC_NUMA_ANY if unknown */
    uint16_t burst;             /* preferred frames per burst; 0: NIC_BURST_MAX */
    bool close_needs_net_admin; /* close() restores a setting, which needs CAP_NET_ADMIN */
    bool rss_exact;             /* the device claims to use nic_rss_lane()'s queue for TCP */
};

#define NIC_NUMA_ANY (-1)

static inline unsigned nic_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic->ops->rx_burst(nic, pkts, n);
}

/* The number of frames to receive before the replies are sent. */
static inline unsigned nic_burst(const struct nic *nic)
{
    return nic->burst > 0 ? nic->burst : NIC_BURST_MAX;
}

static inline unsigned nic_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic->ops->alloc(nic, pkts, n);
}

static inline void nic_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic->ops->release(nic, pkts, n);
}

static inline unsigned nic_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic->ops->tx_burst(nic, pkts, n);
}

static inline int nic_wait(struct nic *nic, uint64_t timeout_us)
{
    return nic->ops->wait(nic, timeout_us);
}

static inline void nic_wake(struct nic *nic)
{
    nic->ops->wake(nic);
}

static inline int nic_adoptable_fd(struct nic *nic)
{
    return nic->ops->adoptable_fd ? nic->ops->adoptable_fd(nic) : -1;
}

static inline bool nic_has_in_transit(struct nic *nic)
{
    return nic->ops->has_in_transit != NULL && nic->ops->has_in_transit(nic);
}

static inline uint32_t nic_mtu(struct nic *nic)
{
    return nic->ops->mtu != NULL ? nic->ops->mtu(nic) : nic->mtu;
}

static inline void nic_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    nic->ops->stats(nic, emit, emit_ctx);
}

static inline void nic_close(struct nic *nic)
{
    nic->ops->close(nic);
}

/* ---- back ends --------------------------------------------------------------------------- */

/*
 * Each function opens all queues of a device, 1..NIC_QUEUES_MAX, or none: it returns 0 with
 * queue[0..queues) filled in, or -1 with a message in error[] that says what failed and what to do.
 * Wrappers replace each queue[] entry by its wrapper, or leave all as they were. DPDK and AF_XDP
 * have their own headers, nic/dpdk.h and nic/xdp.h.
 */
#define NIC_ERROR_MAX 256
#define NIC_QUEUES_MAX 64

struct nic_tap_config {
    const char *name;     /* device to create, at most 15 characters; it must not exist */
    uint8_t mac[6];       /* of the stack's side; all zero: random, locally administered */
    uint32_t mtu;         /* 0: 1500 */
    uint8_t host_addr[4]; /* IPv4 address of the host's side; all zero: leave it without one */
    unsigned host_prefix_len;
    uint8_t host_addr6[16]; /* the same for IPv6 */
    unsigned host_prefix6_len;
    const int *adopted_fds; /* null, or the device exists: its queues, and mac is as it was */
};

/*
 * A TAP device: a virtual Ethernet link to the kernel of this machine. Creates the device,
 * configures the addresses of the host's side and brings it up, without IPv6 unless it has an IPv6
 * address. close() of the last queue, or the end of the process, removes the device. Needs
 * CAP_NET_ADMIN and /dev/net/tun.
 *
 * The kernel sends a flow to the queue that last sent a frame of the flow, and to any queue before
 * that. Closing one queue does not affect the others.
 */
int nic_tap_open(const struct nic_tap_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX]);

struct nic_loopback_config {
    uint32_t mtu;          /* 0: 1500 */
    unsigned queue_frames; /* per direction; further frames are dropped and counted. 0: 1024 */
};

/*
 * A link in memory: each end receives the frames that the other one sends. Both ends belong to one
 * thread, so wait() returns immediately. The ends are closed separately.
 */
int nic_loopback_open(const struct nic_loopback_config *config, struct nic *ends[2],
                      char error[NIC_ERROR_MAX]);

/*
 * Wraps queues to write every received and sent frame to a pcap file with microsecond time stamps.
 * Each queue has a buffer, so records are in order per queue only. The buffer is written when it is
 * full, when the thread sleeps, and when it is idle. A write error ends the trace and is counted.
 */
int nic_trace_open(struct nic *queue[], unsigned queues, const char *path,
                   char error[NIC_ERROR_MAX]);

/* Fault probabilities in parts per million, for each direction. */
struct nic_fault_config {
    uint64_t seed;
    uint32_t loss_ppm;
    uint32_t duplicate_ppm;
    uint32_t reorder_ppm; /* the frame is delayed behind up to 4 later frames, or for a time */
    uint32_t corrupt_ppm; /* one bit is flipped */
};

/*
 * Parses "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7": any non-empty subset in any order;
 * omitted probabilities are 0, the seed is 1. Returns 0, or -1 with a message that names the wrong
 * part; *config is then unchanged.
 */
int nic_fault_parse(const char *spec, struct nic_fault_config *config, char error[NIC_ERROR_MAX]);

/*
 * Wraps queues to inject faults in both directions, with the seed config->seed plus the queue's
 * number. Offers no transmit offloads: a checksum computed after the fault would hide it. The
 * loopback and TAP devices have no Ethernet CRC, so a flipped bit in an ARP packet can misdirect
 * the peer for a while.
 */
int nic_fault_open(struct nic *queue[], unsigned queues, const struct nic_fault_config *config,
                   char error[NIC_ERROR_MAX]);

#endif
