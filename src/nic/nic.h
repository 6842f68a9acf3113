/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet I/O behind one table of functions: the seam of frames.
 *
 * A back end is reached once per burst, so it is chosen at run time by one pointer. Devices can be
 * stacked: trace and fault wrap another one and own it.
 *
 * A struct nic is one queue of a device and belongs to one thread at a time. A device with several
 * queues is opened as a whole: each may then go to a thread of its own, and is closed by itself.
 *
 * Packets: rx_burst() lends received packets to the caller, who gives each back by release().
 * alloc() lends empty ones; the caller fills them and hands them to tx_burst(), or gives those it
 * did not need back by release().
 */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ubase/pkt.h"

#define NIC_BURST_MAX 64

struct nic;

/* Emits one counter of a device; layers are told apart by the prefix in the name. */
typedef void nic_stats_emit(void *emit_ctx, const char *name, uint64_t value);

struct nic_ops {
    const char *name;

    /* Lends up to n received packets, without waiting. Returns how many. */
    unsigned (*rx_burst)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /* Lends up to n empty packets with room >= mtu + 14. Returns how many. */
    unsigned (*alloc)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /* Gives packets back, received or empty ones. */
    void (*release)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /*
     * Sends packets in order. Returns how many were taken; these are the device's again. The rest
     * stays the caller's, to be tried again or released.
     */
    unsigned (*tx_burst)(struct nic *nic, struct us_pkt **pkts, unsigned n);

    /*
     * Sleeps until a frame may be there, `timeout_us` have passed, or nic_wake() was called from
     * any thread or signal handler. Returns 0 or a negative errno value when the device is gone.
     */
    int (*wait)(struct nic *nic, uint64_t timeout_us);
    void (*wake)(struct nic *nic);

    void (*stats)(struct nic *nic, nic_stats_emit *emit, void *emit_ctx);

    /* Gives everything back, what the device made in the system included, and frees the nic. */
    void (*close)(struct nic *nic);
};

/* First member of each back end's own struct. Read-only for callers. */
struct nic {
    const struct nic_ops *ops;
    uint32_t caps; /* enum us_cap; what is done for frames to send may change in rx_burst() */
    uint32_t mtu;  /* largest IP packet */
    uint8_t mac[6];
    uint16_t queue;    /* which of the device's queues this is, 0..queues-1 */
    uint16_t queues;   /* 1 or more */
    int16_t numa_node; /* of the device; NIC_NUMA_ANY if it has none or does not say */
    uint16_t burst;    /* frames that are best taken and answered at once; 0: no wish */
    bool rss_exact;    /* says that TCP's frames come to the queue of nic_rss_lane() (nic/rss.h) */
};

#define NIC_NUMA_ANY (-1)

static inline unsigned nic_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic->ops->rx_burst(nic, pkts, n);
}

/* How many frames a loop best takes before it sends what they led to. */
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
 * Each opens all queues of a device, 1..NIC_QUEUES_MAX of them, or none: 0 with queue[0..queues)
 * filled in, or -1 with a message in error[] that says what failed and what to do. Those that wrap
 * queues replace each in queue[] by its wrapper, or leave them as they were. DPDK's and AF_XDP's
 * have headers of their own, nic/dpdk.h and nic/xdp.h.
 */
#define NIC_ERROR_MAX 256
#define NIC_QUEUES_MAX 64

struct nic_tap_config {
    const char *name;     /* device to create, at most 15 characters; it must not exist */
    uint8_t mac[6];       /* of our side; all zero: a random, locally administered one */
    uint32_t mtu;         /* 0: 1500 */
    uint8_t host_addr[4]; /* IPv4 address of the host's side; all zero: leave it without one */
    unsigned host_prefix_len;
    uint8_t host_addr6[16]; /* the same for IPv6 */
    unsigned host_prefix6_len;
};

/*
 * A TAP device: a virtual Ethernet link to the kernel of this machine. Creates it, gives the
 * host's side its addresses and brings it up, without IPv6 if it has no address of that, so that an
 * unused link is silent; close()
 * of the last queue (or the end of the process) removes it. Needs CAP_NET_ADMIN and /dev/net/tun.
 * Of several queues the kernel uses for a flow the one that we sent its last frame to, and before
 * that any; while one is closed, the others go on.
 */
int nic_tap_open(const struct nic_tap_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX]);

struct nic_loop_config {
    uint32_t mtu;          /* 0: 1500 */
    unsigned queue_frames; /* per direction; further frames are dropped and counted. 0: 1024 */
};

/*
 * A link in memory: what one end sends the other receives. Both ends belong to one thread, so
 * wait() returns at once. Each end is closed by itself.
 */
int nic_loop_open(const struct nic_loop_config *config, struct nic *ends[2],
                  char error[NIC_ERROR_MAX]);

/*
 * Writes every frame that passes to one pcap file (microsecond time stamps). Buffered by queue, so
 * of several queues the records are in order only for each; written when a loop waits or idles. A
 * write error ends the trace, is counted, and no more.
 */
int nic_trace_open(struct nic *queue[], unsigned queues, const char *path,
                   char error[NIC_ERROR_MAX]);

/* Probabilities in parts per million, in each direction. */
struct nic_fault_config {
    uint64_t seed;
    uint32_t loss_ppm;
    uint32_t duplicate_ppm;
    uint32_t reorder_ppm; /* the frame is held back behind a few later ones (or some time) */
    uint32_t corrupt_ppm; /* one bit is flipped */
};

/*
 * Parses "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7" (any subset but none, any order; what is
 * left out is 0, the seed 1). Returns 0, or -1 with a message that names the wrong part and what is
 * allowed; *config is then untouched.
 */
int nic_fault_parse(const char *spec, struct nic_fault_config *config, char error[NIC_ERROR_MAX]);

/*
 * Does seeded harm to what passes in both directions, on each queue with a seed of its own (the
 * configured one plus the queue's number). Offers none of the offloads to send: a checksum that is
 * filled in afterwards would hide the harm. Ethernet's own checksum is not there to catch a flipped
 * bit, so one in an ARP packet can misdirect the peer for a while.
 */
int nic_fault_open(struct nic *queue[], unsigned queues, const struct nic_fault_config *config,
                   char error[NIC_ERROR_MAX]);

#endif
