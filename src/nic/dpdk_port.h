/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the DPDK back end: a port and its queues.
 *
 * Each mbuf carries a struct us_pkt in its private area, directly behind it, so that each is found
 * from the other by pointer arithmetic. A mempool belongs to one queue and is used by one thread.
 */
#ifndef NIC_DPDK_PORT_H
#define NIC_DPDK_PORT_H

#include <semaphore.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "base/base.h"
#include "nic/dpdk.h"
#include "nic/l4.h"
#include "nic/pool.h"
#include "nic/rss.h"

#define DPDK_XSTATS_MAX 16

#define DPDK_DEV_TEXT_MAX 1024 /* bytes of the description of a device */

#define DPDK_VLAN_BYTES 4

/* Room for data in a packet is a multiple of this. */
#define DPDK_ROOM_UNIT 2048

/* The room for frames of an MTU. */
static inline uint32_t dpdk_room_for(uint32_t mtu)
{
    uint32_t frame = NIC_ETH_HEADER_BYTES + DPDK_VLAN_BYTES + mtu;

    return (frame + DPDK_ROOM_UNIT - 1) / DPDK_ROOM_UNIT * DPDK_ROOM_UNIT;
}

/* A received chain that is being split into frames (dpdk_segment.c). */
struct dpdk_segment {
    struct rte_mbuf *rest; /* mbufs not returned yet; null: none */
    struct nic_l4 l4;      /* of the chain */
    uint32_t seq;          /* of the first byte of the rest */
    u_u32 flags;           /* enum us_pkt_flag of all frames */
    uint32_t hash;
    uint16_t header_bytes;
    uint8_t tcp_flags; /* of the chain */
    u_u8 headers[RTE_PKTMBUF_HEADROOM];
};

struct dpdk_counters {
    uint64_t rx_csum_good;    /* frames whose checksums the driver verified */
    uint64_t rx_segmented;    /* frames received as a chain and split into several */
    uint64_t rx_chain_drops;  /* chains that are not TCP, or have a wrong checksum */
    uint64_t tx_full;         /* bursts that the device did not accept completely */
    uint64_t tx_down_drops;   /* frames dropped because the link is down */
    uint64_t tx_no_memory;    /* bursts cut short for lack of a packet for a segment */
    uint64_t tx_refused;      /* frames that the driver rejects */
    uint64_t tx_zero_copy;    /* segments sent without a copy */
    uint64_t tx_offloads;     /* frames sent with checksum or segmentation offload */
    uint64_t alloc_failed;    /* allocations for which the pool had too few packets */
    uint64_t interrupt_waits; /* waits for an interrupt */
    uint64_t timed_waits;     /* waits in short sleeps, without interrupt */
    uint64_t interrupts;      /* that announced frames */
};

/* DPDK's interrupt thread, blocked while bursts run (dpdk_intr.c). */
struct dpdk_intr {
    uint16_t port_id;
    bool connects;    /* connects again after the other end has gone */
    int retry_ms;     /* the thread's: delay before the next attempt to connect; 0: none failed */
    int64_t retry_at; /* in ms, when to look at the link again; 0: it is up */
    bool pending;     /* the thread has events to handle, between two bursts; atomic */
    bool in_use;
    bool stopping; /* atomic */
    int stop_fd;   /* ends the wait of the blocked thread */
    sem_t held, let_go;
    uint64_t handled; /* times that the thread was released */
};

struct dpdk_queue;

/* A device, shared by its queues. Constant while it is open, except for the atomic fields. */
struct dpdk_port {
    uint16_t id;
    uint16_t queue_count;
    unsigned open_count; /* open queues; atomic */
    bool started;
    bool probed;        /* created by rte_dev_probe(); removed on close */
    bool connects;      /* likewise, and the other end of its link listens */
    bool zero_copy;     /* the driver copies frames before tx_burst returns */
    bool partial_csums; /* received frames may have partial checksums */
    bool interrupts;    /* the driver has receive interrupts */
    bool removed;       /* the device was unplugged; atomic */
    bool
        guest_decides_tso; /* vhost: whether the guest accepts large segments changes at run time */
    u_u32 caps;            /* enum us_cap, without guest_caps */
    u_u32 guest_caps;      /* US_CAP_TX_TSO or 0, as the connected guest accepts it; atomic */
    struct dpdk_intr intr;
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf;
    uint8_t rss_key[NIC_RSS_KEY_BYTES];
    struct dpdk_queue *queues[NIC_QUEUES_MAX];
    unsigned xstats_count;
    uint64_t xstats_ids[DPDK_XSTATS_MAX];
    char xstats_names[DPDK_XSTATS_MAX][48];
};

struct dpdk_queue {
    struct nic nic;
    struct dpdk_port *port;
    struct rte_mempool *pool;
    struct rte_mempool *views; /* mbufs without buffers, to send external memory */
    struct rte_mbuf_ext_shared_info view_info;
    unsigned lcore;   /* lcore id of the thread that uses it; LCORE_ID_ANY: none */
    int wake_fd;      /* eventfd */
    int epoll_fd;     /* of the receive interrupt; -1: none */
    uint64_t link_us; /* when the link state was last read */
    bool link_up;     /* at that time */
    struct dpdk_segment segment;
    struct rte_mbuf *waiting[NIC_BURST_MAX]; /* received, not returned yet */
    unsigned waiting_count, waiting_at;
    struct us_pkt *kept[NIC_BURST_MAX]; /* released packets, reused before the pool's */
    unsigned kept_count;
    struct dpdk_counters counters;
};

static inline struct us_pkt *dpdk_pkt_of(struct rte_mbuf *mbuf)
{
    return (struct us_pkt *)(void *)(mbuf + 1);
}

static inline struct rte_mbuf *dpdk_mbuf_of(struct us_pkt *pkt)
{
    return (struct rte_mbuf *)(void *)pkt - 1;
}

/* ---- dpdk_port.c ------------------------------------------------------------------------- */

/*
 * Finds or creates the device that the configuration names. Returns 0 with id and probed set, or -1
 * with a message.
 */
int dpdk_port_find(struct dpdk_port *port, const struct nic_dpdk_config *config,
                   char error[NIC_ERROR_MAX]);

/*
 * Configures and starts the device with all features that it has and the configuration does not
 * disable. Fills in the queues up to nic.mtu. Returns 0, or -1 with a message.
 */
int dpdk_port_start(struct dpdk_port *port, const struct nic_dpdk_config *config,
                    char error[NIC_ERROR_MAX]);

/*
 * Stops and closes the device, removes it if it was created here, and frees the pools. Drivers that
 * cannot be closed safely are stopped only; the end of the process frees the rest.
 */
void dpdk_port_stop(struct dpdk_port *port);

/* Maximum memory for the packets of `queues` queues. */
uint64_t dpdk_port_memory_bytes(uint32_t mtu, unsigned queues);

/* ---- dpdk_vdev.c ------------------------------------------------------------------------- */

/*
 * Completes the description of a virtual device by the arguments for queues and frame size. The
 * queues of vhost and virtio-user are not set, because both ends must use the same number. Returns
 * false if the result is too long.
 */
bool dpdk_vdev_describe(const char *dev, unsigned queues, uint32_t mtu,
                        char text[DPDK_DEV_TEXT_MAX]);

/* Whether this end of the link listens for the other one. */
bool dpdk_vdev_listens(const char *dev);

/*
 * Whether no process listens where this end of the link will. Removes the socket file that a killed
 * server has left behind, with which the driver would not start. Only the listening end looks: a
 * connecting end would be taken for the peer. Once its driver has failed a device cannot be created
 * under the same name again.
 */
bool dpdk_vdev_is_free(const char *dev);

/* Whether the device is a virtual one that is created when it is opened, not when EAL starts. */
bool dpdk_vdev_is_ours(const struct nic_dpdk_config *config);

/* ---- dpdk_rss.c -------------------------------------------------------------------------- */

/* Configures RSS with nic/rss.h's key if there are several queues and the device supports it. */
void dpdk_rss_choose(struct dpdk_port *port, const struct nic_dpdk_config *config);

/*
 * Programs the indirection table of a started device. Returns whether the device then reports
 * exactly the key and table of nic/rss.h.
 */
bool dpdk_rss_is_exact(const struct dpdk_port *port);

/* The transmit capabilities at this time. */
static inline u_u32 dpdk_port_caps(const struct dpdk_port *port)
{
    return port->caps | __atomic_load_n(&port->guest_caps, __ATOMIC_RELAXED);
}

/* ---- dpdk_vhost.c ------------------------------------------------------------------------ */

/* Whether the connected guest of a vhost device accepts segments of up to 64 KiB. */
bool dpdk_vhost_takes_large(uint16_t port_id);

/* ---- dpdk_thread.c ----------------------------------------------------------------------- */

/* Moves the queue to the calling thread. */
void dpdk_thread_change(struct dpdk_queue *queue);

/* Called whenever a thread uses a queue. */
static inline void dpdk_thread_enter(struct dpdk_queue *queue)
{
    if (U_UNLIKELY(queue->lcore != rte_lcore_id()))
        dpdk_thread_change(queue);
}

/* ---- dpdk_intr.c ------------------------------------------------------------------------- */

/*
 * Blocks DPDK's interrupt thread from now on, so that a driver that maps memory in that thread does
 * so only between bursts. For a device with one queue. An end of the link that `connects` connects
 * again whenever the other end has gone. Returns 0, or -1 with a message.
 */
int dpdk_intr_hold(struct dpdk_intr *intr, uint16_t port_id, bool connects,
                   char error[NIC_ERROR_MAX]);

/* Unblocks the thread permanently, after the device was closed. No effect if it is not blocked. */
void dpdk_intr_release(struct dpdk_intr *intr);

/* Lets the thread handle the pending events and waits until it is blocked again. */
void dpdk_intr_handle_pending(struct dpdk_intr *intr);

/* ---- dpdk_rx.c --------------------------------------------------------------------------- */

/* Receives a burst into `waiting`, which must be empty. Returns how many. */
static inline unsigned dpdk_rx_more(struct dpdk_queue *queue)
{
    struct dpdk_port *port = queue->port;

    if (U_UNLIKELY(__atomic_load_n(&port->intr.pending, __ATOMIC_ACQUIRE)))
        dpdk_intr_handle_pending(&port->intr);
    queue->waiting_at = 0;
    queue->waiting_count =
        rte_eth_rx_burst(port->id, queue->nic.queue, queue->waiting, NIC_BURST_MAX);
    return queue->waiting_count;
}

/* Converts the checksum and hash flags of a received mbuf to enum us_pkt_flag. */
u_u32 dpdk_rx_flags(uint64_t ol_flags);

/* nic_ops.rx_burst */
unsigned dpdk_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n);

/* Frees received packets that were not returned. */
void dpdk_rx_clear(struct dpdk_queue *queue);

/* ---- dpdk_segment.c -------------------------------------------------------------------------- */

/*
 * Starts to split a chain. Returns false, without taking it, unless it is TCP in IPv4 or IPv6 with
 * all headers in the first mbuf and correct checksums.
 */
bool dpdk_segment_begin(struct dpdk_segment *segment, struct rte_mbuf *frame);

/* The next piece as a frame; null when there is none left. */
struct rte_mbuf *dpdk_segment_next(struct dpdk_segment *segment);

/* ---- dpdk_tx.c --------------------------------------------------------------------------- */

/* nic_ops.tx_burst */
unsigned dpdk_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n);

/* ---- dpdk_unplug.c ----------------------------------------------------------------------- */

/* Sets `removed` and wakes all queues when a started device is removed. */
void dpdk_unplug_watch(struct dpdk_port *port);
void dpdk_unplug_ignore(struct dpdk_port *port);

/* ---- dpdk_wait.c ------------------------------------------------------------------------- */

/* Sets up the receive interrupt of a started queue if there is one. Returns 0 or -1. */
int dpdk_wait_open(struct dpdk_queue *queue, char error[NIC_ERROR_MAX]);
void dpdk_wait_close(struct dpdk_queue *queue);

/* nic_ops.wait, nic_ops.wake */
int dpdk_wait(struct nic *nic, uint64_t timeout_us);
void dpdk_wake(struct nic *nic);

/* ---- dpdk_stats.c ------------------------------------------------------------------------ */

/* Selects the extended statistics of a started port that count drops and errors. */
void dpdk_stats_choose(struct dpdk_port *port);

/* nic_ops.stats */
void dpdk_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx);

#endif
