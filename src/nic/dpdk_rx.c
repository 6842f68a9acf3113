/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving from DPDK: a burst of mbufs becomes a burst of packets, without a copy. */
#include "nic/dpdk_port.h"
#include "nic/partial_csum.h"

/* The flags that dpdk_rx_flags() evaluates. Drivers of virtual links mostly set none. */
#define FLAGS_OF_INTEREST                                                                          \
    (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_RSS_HASH)

u_u32 dpdk_rx_flags(uint64_t ol_flags)
{
    u_u32 flags = 0;

    /* NONE: the checksum field is not filled in, and the data is known to be correct. */
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

/*
 * Handles a chain. Returns false if it was linearized and is now a single mbuf; true if it is being
 * split, or was dropped.
 */
static bool begin_chain(struct dpdk_queue *queue, struct rte_mbuf *mbuf)
{
    if (rte_pktmbuf_linearize(mbuf) == 0)
        return false;
    if (dpdk_segment_begin(&queue->segment, mbuf)) {
        queue->counters.rx_segmented++;
        return true;
    }
    queue->counters.rx_chain_drops++;
    rte_pktmbuf_free(mbuf);
    return true;
}

/* Returns received mbufs up to the first chain. Returns how many. */
static inline unsigned take_plain(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    struct rte_mbuf *const *waiting = queue->waiting + queue->waiting_at;
    unsigned left = queue->waiting_count - queue->waiting_at;
    unsigned csum_good = 0;
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
            csum_good += (flags & US_PKT_L4_CSUM_GOOD) != 0;
        }
        pkts[i] = pkt_received(mbuf, flags, mbuf->hash.rss);
    }
    queue->waiting_at += i;
    queue->counters.rx_csum_good += csum_good;
    return i;
}

/* Takes the chain that comes next. Returns the number of frames that are ready, 0 or 1. */
static unsigned take_chain(struct dpdk_queue *queue, struct us_pkt **pkt)
{
    struct rte_mbuf *mbuf = queue->waiting[queue->waiting_at++];
    u_u32 flags = dpdk_rx_flags(mbuf->ol_flags);

    queue->counters.rx_csum_good += (flags & US_PKT_L4_CSUM_GOOD) != 0;
    if (begin_chain(queue, mbuf))
        return 0;
    *pkt = pkt_received(mbuf, flags, mbuf->hash.rss);
    return 1;
}

/* Takes frames of the chain that is being split. */
static unsigned take_pieces(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    for (i = 0; i < n && queue->segment.rest != NULL; i++)
        pkts[i] = pkt_received(dpdk_segment_next(&queue->segment), queue->segment.flags,
                               queue->segment.hash);
    return i;
}

/* Takes frames of the chain that is being split, then the mbufs behind it. */
static unsigned take_waiting(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    unsigned taken = 0;

    while (taken < n) {
        if (U_UNLIKELY(queue->segment.rest != NULL)) {
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
        nic_partial_csum_mark(pkts[i]);
}

unsigned dpdk_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);

    dpdk_thread_enter(queue);
    nic->caps = dpdk_port_caps(queue->port);
    if (queue->waiting_at == queue->waiting_count && queue->segment.rest == NULL)
        (void)dpdk_rx_more(queue);
    n = take_waiting(queue, pkts, n);
    if (U_UNLIKELY(queue->port->partial_csums))
        finish_csums(pkts, n);
    return n;
}

void dpdk_rx_clear(struct dpdk_queue *queue)
{
    rte_pktmbuf_free(queue->segment.rest);
    queue->segment.rest = NULL;
    rte_pktmbuf_free_bulk(queue->waiting + queue->waiting_at,
                          queue->waiting_count - queue->waiting_at);
    queue->waiting_at = queue->waiting_count = 0;
}
