/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending through DPDK.
 *
 * A frame of several segments refers to memory outside of DPDK. If the driver copies frames before
 * tx_burst returns, as drivers of links within a machine do, each segment is sent in place.
 * Otherwise the device reads the memory later, so segments are copied into packets of the pool; the
 * frame stays one large segment, which the device splits.
 */
#include <time.h>

#include <rte_malloc.h>

#include "nic/dpdk_port.h"

#define TCP_CSUM_AT 16 /* us_pkt.csum_offset of TCP; UDP has another one */

/* Offloads that are requested from the device. */
#define OFFLOADS (US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM | US_PKT_TX_TSO)

/* Interval for reading the link state while the device accepts no frames. */
#define LINK_READ_US 1000

static uint64_t offloads_of(const struct us_pkt *pkt)
{
    uint64_t ol_flags = 0;

    if ((pkt->flags & OFFLOADS) == 0)
        return 0;
    if (pkt->data[pkt->l2_len] >> 4 == 4)
        ol_flags |= RTE_MBUF_F_TX_IPV4;
    else
        ol_flags |= RTE_MBUF_F_TX_IPV6;
    if (pkt->flags & US_PKT_TX_IP_CSUM)
        ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    if (pkt->flags & US_PKT_TX_L4_CSUM)
        ol_flags |=
            pkt->csum_offset == TCP_CSUM_AT ? RTE_MBUF_F_TX_TCP_CKSUM : RTE_MBUF_F_TX_UDP_CKSUM;
    if (pkt->flags & US_PKT_TX_TSO)
        ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
    return ol_flags;
}

static struct rte_mbuf *view_of(struct dpdk_queue *queue, const struct us_pkt *seg)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(queue->views);

    if (mbuf == NULL)
        return NULL;
    U_ASSERT(seg->len <= UINT16_MAX);
    rte_mbuf_ext_refcnt_update(&queue->view_info, 1);
    rte_pktmbuf_attach_extbuf(mbuf, seg->data, RTE_BAD_IOVA, (uint16_t)seg->len, &queue->view_info);
    mbuf->data_off = 0;
    mbuf->data_len = (uint16_t)seg->len;
    queue->counters.tx_zero_copy++;
    return mbuf;
}

/*
 * Appends the segments to a head. Returns false, with those so far appended, if the pool is empty.
 */
static bool link_views(struct dpdk_queue *queue, struct rte_mbuf *head, const struct us_pkt *seg)
{
    struct rte_mbuf *last = head;

    for (; seg != NULL; seg = seg->next_seg) {
        struct rte_mbuf *mbuf = view_of(queue, seg);

        if (mbuf == NULL)
            return false;
        last->next = mbuf;
        last = mbuf;
        head->nb_segs++;
        head->pkt_len += seg->len;
    }
    return true;
}

static bool link_copies(struct dpdk_queue *queue, struct rte_mbuf *head, const struct us_pkt *seg)
{
    struct rte_mbuf *last = head;

    for (; seg != NULL; seg = seg->next_seg) {
        const u_u8 *from = seg->data;
        uint32_t left = seg->len;

        while (left > 0) {
            uint16_t room = last == head ? 0 : rte_pktmbuf_tailroom(last);

            if (room == 0) {
                struct rte_mbuf *mbuf = rte_pktmbuf_alloc(queue->pool);

                if (mbuf == NULL)
                    return false;
                last->next = mbuf;
                last = mbuf;
                head->nb_segs++;
                room = rte_pktmbuf_tailroom(last);
            }
            room = (uint16_t)u_min32(room, left);
            u_copy(rte_pktmbuf_mtod_offset(last, u_u8 *, last->data_len), from, room);
            last->data_len = (uint16_t)(last->data_len + room);
            head->pkt_len += room;
            from += room;
            left -= room;
        }
    }
    return true;
}

/* Frees all segments but the first. */
static void unlink_segments(struct rte_mbuf *head)
{
    rte_pktmbuf_free(head->next);
    head->next = NULL;
    head->nb_segs = 1;
}

/* A single-segment frame without offloads. */
static inline bool is_plain(const struct us_pkt *pkt)
{
    return (pkt->flags & OFFLOADS) == 0 && pkt->next_seg == NULL;
}

/* Copies offloads and segments to the mbuf. Returns false if there is no memory for a segment. */
static U_NOINLINE bool prepare(struct dpdk_queue *queue, struct us_pkt *pkt, struct rte_mbuf *mbuf)
{
    mbuf->ol_flags = offloads_of(pkt);
    if (mbuf->ol_flags != 0)
        mbuf->tx_offload =
            rte_mbuf_tx_offload(pkt->l2_len, pkt->l3_len, pkt->l4_len, pkt->tso_mss, 0, 0, 0);
    if (U_LIKELY(pkt->next_seg == NULL))
        return true;
    if (queue->port->zero_copy ? link_views(queue, mbuf, pkt->next_seg)
                               : link_copies(queue, mbuf, pkt->next_seg))
        return true;
    unlink_segments(mbuf);
    queue->counters.tx_no_memory++;
    return false;
}

/* Whether the frame needs TSO that the present guest does not accept. */
static bool is_stale(const struct dpdk_queue *queue, const struct us_pkt *pkt)
{
    return (pkt->flags & US_PKT_TX_TSO) != 0 && (dpdk_port_caps(queue->port) & US_CAP_TX_TSO) == 0;
}

/*
 * Drops the first frame, which the driver would always reject. The segments of the others are
 * appended again on the next attempt.
 */
static unsigned refuse_first(struct dpdk_queue *queue, struct rte_mbuf **mbufs, unsigned ready)
{
    unsigned i;

    rte_pktmbuf_free(mbufs[0]);
    for (i = 1; i < ready; i++)
        unlink_segments(mbufs[i]);
    queue->counters.tx_refused++;
    return 1;
}

static uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Whether the link is up; if so, a device that accepts no frames is only busy. */
static bool link_is_up(struct dpdk_queue *queue)
{
    uint64_t now_us = clock_us();
    struct rte_eth_link link;

    if (now_us - queue->link_us >= LINK_READ_US) {
        queue->link_us = now_us;
        queue->link_up = rte_eth_link_get_nowait(queue->port->id, &link) < 0 ||
                         link.link_status == RTE_ETH_LINK_UP;
    }
    return queue->link_up;
}

/*
 * Drops frames while the link is down, so that no old frames are sent when it comes up again. TCP
 * retransmits them.
 */
static unsigned give_up(struct dpdk_queue *queue, struct rte_mbuf **mbufs, unsigned n)
{
    rte_pktmbuf_free_bulk(mbufs, n);
    queue->counters.tx_down_drops += n;
    return n;
}

unsigned dpdk_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);
    struct rte_mbuf *mbufs[NIC_BURST_MAX];
    unsigned ready, sent, i;
    unsigned offloads = 0;

    U_ASSERT(n <= NIC_BURST_MAX);
    for (ready = 0; ready < n; ready++) {
        struct us_pkt *pkt = pkts[ready];
        struct rte_mbuf *mbuf = dpdk_mbuf_of(pkt);

        mbufs[ready] = mbuf;
        mbuf->data_len = (uint16_t)pkt->len;
        mbuf->pkt_len = pkt->len;
        mbuf->ol_flags = 0;
        if (U_LIKELY(is_plain(pkt)))
            continue;
        if (U_UNLIKELY(is_stale(queue, pkt))) {
            if (ready == 0)
                return refuse_first(queue, mbufs, 1);
            break;
        }
        if (!prepare(queue, pkt, mbuf))
            break;
        offloads += mbuf->ol_flags != 0;
    }
    sent = ready;
    if (offloads > 0) {
        sent = rte_eth_tx_prepare(queue->port->id, nic->queue, mbufs, (uint16_t)ready);
        if (U_UNLIKELY(sent == 0 && ready > 0))
            return refuse_first(queue, mbufs, ready);
    }
    sent = rte_eth_tx_burst(queue->port->id, nic->queue, mbufs, (uint16_t)sent);
    if (U_LIKELY(sent == n)) {
        queue->counters.tx_offloads += offloads;
        return sent;
    }
    if (sent == 0 && ready > 0 && !link_is_up(queue))
        return give_up(queue, mbufs, ready);
    queue->counters.tx_full++;
    for (i = sent; i < ready; i++) {
        offloads -= mbufs[i]->ol_flags != 0;
        unlink_segments(mbufs[i]);
    }
    queue->counters.tx_offloads += offloads;
    return sent;
}
