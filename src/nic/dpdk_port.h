/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the DPDK back end: a port and its queues.
 *
 * Each packet of DPDK (struct rte_mbuf) carries a struct us_pkt in its private area, directly
 * behind it, so that one is found from the other by arithmetic. A mempool of such packets belongs
 * to one queue and so to one thread.
 */
#ifndef NIC_DPDK_PORT_H
#define NIC_DPDK_PORT_H

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "base/base.h"
#include "nic/dpdk.h"
#include "nic/rss.h"

#define DPDK_XSTATS_MAX 16

/* A received frame of several segments that is being handed out as several frames (dpdk_cut.c). */
struct dpdk_cut {
    struct rte_mbuf *rest; /* segments not handed out yet; null: none */
    uint32_t seq;          /* of the first byte of the rest */
    u_u32 flags;           /* enum us_pkt_flag of all of them */
    uint32_t hash;
    uint16_t l3_at, l4_at; /* offsets in the headers */
    uint16_t bytes;        /* of the headers */
    uint8_t tcp_flags;     /* of the original */
    u_u8 headers[RTE_PKTMBUF_HEADROOM];
};

struct dpdk_counters {
    uint64_t rx_verdicts;    /* frames that the driver says are whole: no sum of ours */
    uint64_t rx_cut;         /* frames that came as a chain and were handed out in pieces */
    uint64_t rx_chain_drops; /* that cannot be handed out: no TCP, or a wrong checksum */
    uint64_t tx_full;        /* bursts that the device did not take in full */
    uint64_t tx_down_drops;  /* frames given up because the link is down */
    uint64_t tx_no_memory;   /* bursts cut short because there was no packet for a segment */
    uint64_t tx_refused;     /* frames that the driver finds wrong */
    uint64_t tx_zero_copy;   /* segments sent from where they lie */
    uint64_t tx_offloads;    /* frames sent whose checksums, or cutting, were left to the device */
    uint64_t alloc_failed;   /* bursts of which the pool had fewer than asked for */
    uint64_t sleeps;         /* waits with an interrupt */
    uint64_t naps;           /* waits without */
};

struct dpdk_queue;

/* A device. Shared by its queues; changes only while it is opened and closed. */
struct dpdk_port {
    uint16_t id;
    uint16_t queue_count;
    unsigned open_count; /* queues that are not closed yet; atomic */
    bool started;
    bool probed;        /* made by us: it is removed at the end */
    bool connects;      /* so is it, and the other end of its link listens */
    bool zero_copy;     /* the driver copies what it sends before it returns */
    bool partial_csums; /* received frames may have unfinished checksums */
    bool interrupts;    /* the driver has them for received frames */
    bool removed;       /* by somebody else; atomic */
    bool asks_guest;    /* a link without TSO of its own, whose other end may take large segments */
    u_u32 caps;         /* enum us_cap, whoever the other end is */
    u_u32 guest_caps;   /* US_CAP_TX_TSO or none, as the other end has it now; atomic */
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
    struct rte_mempool *views; /* packets without memory, to send what lies elsewhere */
    struct rte_mbuf_ext_shared_info view_info;
    unsigned lcore;   /* DPDK's number of the thread that it belongs to; LCORE_ID_ANY: none */
    int wake_fd;      /* eventfd */
    int epoll_fd;     /* of the interrupt; -1: none */
    uint64_t link_us; /* when the link was last asked for */
    bool link_up;     /* then */
    struct dpdk_cut cut;
    struct rte_mbuf *waiting[NIC_BURST_MAX]; /* received, not handed out yet */
    unsigned waiting_count, waiting_at;
    struct us_pkt *kept[NIC_BURST_MAX]; /* given back, to be lent next; the pool's are not needed */
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
 * Finds or makes the device that the configuration names. Returns 0 with id and probed set, or -1
 * with a message.
 */
int dpdk_port_find(struct dpdk_port *port, const struct nic_dpdk_config *config,
                   char error[NIC_ERROR_MAX]);

/*
 * Configures and starts the device, with all that it can do and the configuration does not leave
 * out. The queues are filled in as far as `nic.mtu`. Returns 0 or -1 with a message.
 */
int dpdk_port_start(struct dpdk_port *port, const struct nic_dpdk_config *config,
                    char error[NIC_ERROR_MAX]);

/*
 * Stops and closes the device, removes it if we have made it, and frees the pools; or, with drivers
 * that can't be closed safely, stops it and leaves the rest to the end of the process.
 */
void dpdk_port_stop(struct dpdk_port *port);

/* Bytes of memory that the packets of so many queues take, at most. */
uint64_t dpdk_port_memory_bytes(uint32_t mtu, unsigned queues);

/* ---- dpdk_rss.c -------------------------------------------------------------------------- */

/* Asks for our way to spread flows, if there are several queues and the device can. */
void dpdk_rss_choose(struct dpdk_port *port, const struct nic_dpdk_config *config);

/* Fills the table of a started device; whether it then spreads TCP exactly as nic/rss.h does. */
bool dpdk_rss_is_exact(const struct dpdk_port *port);

/* What can be done for frames to send now. */
static inline u_u32 dpdk_port_caps(const struct dpdk_port *port)
{
    return port->caps | __atomic_load_n(&port->guest_caps, __ATOMIC_RELAXED);
}

/* ---- dpdk_vhost.c ------------------------------------------------------------------------ */

/* Whether the guest that a vhost device has now takes segments of up to 64 KiB. */
bool dpdk_vhost_takes_large(uint16_t port_id);

/* ---- dpdk_thread.c ----------------------------------------------------------------------- */

/* The calling thread is another one than that which had the queue before. */
void dpdk_thread_change(struct dpdk_queue *queue);

/* To be called before a thread uses a queue. */
static inline void dpdk_thread_enter(struct dpdk_queue *queue)
{
    if (U_UNLIKELY(queue->lcore != rte_lcore_id()))
        dpdk_thread_change(queue);
}

/* ---- dpdk_rx.c --------------------------------------------------------------------------- */

/* The verdicts of a received packet's flags, as bits of enum us_pkt_flag. */
u_u32 dpdk_rx_flags(uint64_t ol_flags);

/* nic_ops.rx_burst */
unsigned dpdk_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n);

/* Gives back what was received and not handed out. */
void dpdk_rx_clear(struct dpdk_queue *queue);

/* ---- dpdk_cut.c -------------------------------------------------------------------------- */

/*
 * Begins to hand out a frame of several segments. Returns false, with nothing taken, if it is not
 * TCP in IPv4 or IPv6 with all headers in its first segment, or its checksum is wrong.
 */
bool dpdk_cut_begin(struct dpdk_cut *cut, struct rte_mbuf *frame);

/* The next piece as a frame of its own; null when there is none left. */
struct rte_mbuf *dpdk_cut_next(struct dpdk_cut *cut);

/* ---- dpdk_tx.c --------------------------------------------------------------------------- */

/* nic_ops.tx_burst */
unsigned dpdk_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n);

/* ---- dpdk_wait.c ------------------------------------------------------------------------- */

/* Gets the interrupt of a started queue ready if there is one. Returns 0 or -1. */
int dpdk_wait_open(struct dpdk_queue *queue, char error[NIC_ERROR_MAX]);
void dpdk_wait_close(struct dpdk_queue *queue);

/* nic_ops.wait, nic_ops.wake */
int dpdk_wait(struct nic *nic, uint64_t timeout_us);
void dpdk_wake(struct nic *nic);

/* ---- dpdk_stats.c ------------------------------------------------------------------------ */

/* Chooses the extended statistics of a started port that tell of drops and errors. */
void dpdk_stats_choose(struct dpdk_port *port);

/* nic_ops.stats */
void dpdk_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx);

#endif
