/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames from DPDK: a burst of mbufs becomes a burst of packets, without a copy. */
#include "nic/dpdk_port.h"
#include "nic/xdp_csum.h"

/* All that dpdk_rx_flags() looks at. The drivers of links mostly say nothing. */
#define FLAGS_OF_INTEREST                                                                          \
    (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_RSS_HASH)

u_u32 dpdk_rx_flags(uint64_t ol_flags)
{
    u_u32 flags = 0;

    /* NONE says that the field is not filled in and that the bytes are known to be whole. */
    switch (ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) {
    case RTE_MBUF_F_RX_IP_CKSUM_GOOD:
    case RTE_MBUF_F_RX_IP_CKSUM_NONE:
        flags |= US_PKT_IP_CSUM_GOOD;
        break;
    case RTE_MBUF_F_RX_IP_CKSUM_BAD:
        flags |= US_PKT_IP_CSUM_BAD;
        break;
    }
    switch (ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
    case RTE_MBUF_F_RX_L4_CKSUM_NONE:
        flags |= US_PKT_L4_CSUM_GOOD;
        break;
    case RTE_MBUF_F_RX_L4_CKSUM_BAD:
        flags |= US_PKT_L4_CSUM_BAD;
        break;
    }
    if (ol_flags & RTE_MBUF_F_RX_RSS_HASH)
        flags |= US_PKT_HASH_VALID;
    return flags;
}

static inline struct us_pkt *pkt_received(struct rte_mbuf *mbuf, u_u32 flags, uint32_t hash)
{
    struct us_pkt *pkt = dpdk_pkt_of(mbuf);

    pkt->data = rte_pktmbuf_mtod(mbuf, u_u8 *);
    pkt->next_seg = NULL;
    pkt->len = rte_pktmbuf_data_len(mbuf);
    pkt->flags = flags;
    pkt->rss_hash = hash;
    return pkt;
}

/* A frame of several segments: in one piece if it fits, else in several. */
static bool begin_chain(struct dpdk_queue *queue, struct rte_mbuf *mbuf)
{
    if (rte_pktmbuf_linearize(mbuf) == 0)
        return false;
    if (dpdk_cut_begin(&queue->cut, mbuf)) {
        queue->counters.rx_cut++;
        return true;
    }
    queue->counters.rx_chain_drops++;
    rte_pktmbuf_free(mbuf);
    return true;
}

/* Hands out mbufs as they are, up to one that is a chain. Returns how many. */
static inline unsigned take_plain(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    struct rte_mbuf *const *waiting = queue->waiting + queue->waiting_at;
    unsigned left = queue->waiting_count - queue->waiting_at;
    unsigned verdicts = 0;
    unsigned i;

    n = u_min32(n, left);
    for (i = 0; i < n; i++) {
        struct rte_mbuf *mbuf = waiting[i];
        u_u32 flags = 0;

        if (i + 1 < left)
            rte_prefetch0(rte_pktmbuf_mtod(waiting[i + 1], void *));
        if (U_UNLIKELY(mbuf->nb_segs > 1))
            break;
        if (U_UNLIKELY((mbuf->ol_flags & FLAGS_OF_INTEREST) != 0)) {
            flags = dpdk_rx_flags(mbuf->ol_flags);
            verdicts += (flags & US_PKT_L4_CSUM_GOOD) != 0;
        }
        pkts[i] = pkt_received(mbuf, flags, mbuf->hash.rss);
    }
    queue->waiting_at += i;
    queue->counters.rx_verdicts += verdicts;
    return i;
}

/* The same of a chain that comes next. Returns 0 or 1. */
static unsigned take_chain(struct dpdk_queue *queue, struct us_pkt **pkt)
{
    struct rte_mbuf *mbuf = queue->waiting[queue->waiting_at++];
    u_u32 flags = dpdk_rx_flags(mbuf->ol_flags);

    queue->counters.rx_verdicts += (flags & US_PKT_L4_CSUM_GOOD) != 0;
    if (begin_chain(queue, mbuf))
        return 0;
    *pkt = pkt_received(mbuf, flags, mbuf->hash.rss);
    return 1;
}

/* Pieces of a frame that is being cut. */
static unsigned take_pieces(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    for (i = 0; i < n && queue->cut.rest != NULL; i++)
        pkts[i] = pkt_received(dpdk_cut_next(&queue->cut), queue->cut.flags, queue->cut.hash);
    return i;
}

/* Hands out what waits: the pieces of a frame that is being cut, then the mbufs behind it. */
static unsigned take_waiting(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    unsigned taken = 0;

    while (taken < n) {
        if (U_UNLIKELY(queue->cut.rest != NULL)) {
            taken += take_pieces(queue, pkts + taken, n - taken);
            continue;
        }
        taken += take_plain(queue, pkts + taken, n - taken);
        if (U_LIKELY(taken == n || queue->waiting_at == queue->waiting_count))
            break;
        taken += take_chain(queue, pkts + taken);
    }
    return taken;
}

static void finish_csums(struct us_pkt *const *pkts, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++)
        nic_xdp_csum_partial(pkts[i]);
}

unsigned dpdk_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);

    dpdk_thread_enter(queue);
    nic->caps = dpdk_port_caps(queue->port);
    if (queue->waiting_at == queue->waiting_count && queue->cut.rest == NULL) {
        queue->waiting_at = 0;
        queue->waiting_count =
            rte_eth_rx_burst(queue->port->id, nic->queue, queue->waiting, NIC_BURST_MAX);
    }
    n = take_waiting(queue, pkts, n);
    if (U_UNLIKELY(queue->port->partial_csums))
        finish_csums(pkts, n);
    return n;
}

void dpdk_rx_clear(struct dpdk_queue *queue)
{
    rte_pktmbuf_free(queue->cut.rest);
    queue->cut.rest = NULL;
    rte_pktmbuf_free_bulk(queue->waiting + queue->waiting_at,
                          queue->waiting_count - queue->waiting_at);
    queue->waiting_at = queue->waiting_count = 0;
}
