/* SPDX-License-Identifier: BSD-3-Clause */
/* The packets of a DPDK queue: which one is reused next, and that none is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rte_mbuf.h>

#include "base/cksum.h"
#include "nic/dpdk.h"
#include "nic/dpdk_port.h"
#include "nic_testing.h"

/* The size of a receive burst, so that no packet stays in the queue. */
#define BURST NIC_BURST_MAX

static struct nic *nic;

static struct rte_mbuf *mbuf_of(struct us_pkt *pkt)
{
    return (struct rte_mbuf *)(void *)pkt - 1;
}

static bool is_among(struct us_pkt *const *pkts, unsigned n, const struct us_pkt *pkt)
{
    unsigned i;

    for (i = 0; i < n && pkts[i] != pkt; i++)
        continue;
    return i < n;
}

/* A released received frame is reused first, with all fields reset. */
static void a_released_packet_is_reused_next(void **state)
{
    struct us_pkt *received[BURST], *empty[BURST], *before[NIC_BURST_MAX];
    unsigned all = pkts_of(nic);
    unsigned i;

    assert_int_equal(nic_alloc(nic, before, NIC_BURST_MAX), NIC_BURST_MAX); /* all that is kept */
    assert_int_equal(nic_rx_burst(nic, received, BURST), BURST);
    for (i = 0; i < BURST; i++) {
        struct rte_mbuf *mbuf = mbuf_of(received[i]);

        assert_int_not_equal(received[i]->len, 0);
        received[i]->flags = US_PKT_L4_CSUM_GOOD | US_PKT_TX_TSO;
        received[i]->next_seg = received[0];
        mbuf->ol_flags = RTE_MBUF_F_RX_RSS_HASH;
        (void)rte_pktmbuf_adj(mbuf, 14);
    }
    nic_release(nic, received, BURST);
    assert_int_equal(nic_alloc(nic, empty, BURST), BURST);
    for (i = 0; i < BURST; i++) {
        struct rte_mbuf *mbuf = mbuf_of(empty[i]);

        assert_true(is_among(received, BURST, empty[i]));
        assert_false(is_among(empty, i, empty[i]));
        assert_ptr_equal(empty[i]->data, (u_u8 *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM);
        assert_int_equal(empty[i]->room, mbuf->buf_len - RTE_PKTMBUF_HEADROOM);
        assert_int_equal(empty[i]->len, 0);
        assert_int_equal(empty[i]->flags, 0);
        assert_null(empty[i]->next_seg);
        memset(empty[i]->data, 0, empty[i]->room);
        empty[i]->len = 60;
    }
    assert_int_equal(nic_tx_burst(nic, empty, BURST), BURST);
    nic_release(nic, before, NIC_BURST_MAX);
    assert_int_equal(pkts_of(nic), all);
}

/* A reused mbuf keeps no offload flags of its previous frame. */
static void a_reused_packet_has_no_offload_flags(void **state)
{
    struct us_pkt *pkt, *before[NIC_BURST_MAX];
    struct rte_mbuf *mbuf;

    assert_int_equal(nic_alloc(nic, before, NIC_BURST_MAX), NIC_BURST_MAX); /* all that is kept */
    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    mbuf = mbuf_of(pkt);
    mbuf->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_TCP_CKSUM;
    nic_release(nic, &pkt, 1);
    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    assert_ptr_equal(mbuf_of(pkt), mbuf);
    pkt->len = 60;
    rte_mbuf_refcnt_update(mbuf, 1); /* keeps the mbuf after the send */
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    assert_int_equal(mbuf->ol_flags, 0);
    assert_int_equal(mbuf->pkt_len, 60);
    assert_int_equal(mbuf->data_len, 60);
    rte_pktmbuf_free(mbuf);
    nic_release(nic, before, NIC_BURST_MAX);
}

/* Packets that DPDK or others still reference return to the mempool. */
static void referenced_packets_return_to_the_mempool(void **state)
{
    unsigned all = pkts_of(nic);
    struct us_pkt *held[3], *lent_next[NIC_BURST_MAX];
    struct rte_mbuf *shared, *chained;
    unsigned i;

    /* First takes all kept packets: otherwise there would be no room for released ones. */
    assert_int_equal(nic_alloc(nic, lent_next, NIC_BURST_MAX), NIC_BURST_MAX);
    assert_int_equal(nic_alloc(nic, held, 3), 3);
    shared = mbuf_of(held[0]);
    chained = mbuf_of(held[1]);
    rte_mbuf_refcnt_update(shared, 1);
    assert_int_equal(rte_pktmbuf_chain(chained, mbuf_of(held[2])), 0);
    nic_release(nic, held, 2); /* the third is chained to the second */
    assert_int_equal(rte_mbuf_refcnt_read(shared), 1);
    nic_release(nic, lent_next, NIC_BURST_MAX);
    assert_int_equal(nic_alloc(nic, lent_next, NIC_BURST_MAX), NIC_BURST_MAX);
    for (i = 0; i < NIC_BURST_MAX; i++) {
        assert_ptr_not_equal(mbuf_of(lent_next[i]), shared);
        assert_int_equal(mbuf_of(lent_next[i])->nb_segs, 1);
        assert_null(mbuf_of(lent_next[i])->next);
    }
    nic_release(nic, lent_next, NIC_BURST_MAX);
    rte_pktmbuf_free(shared);
    assert_int_equal(pkts_of(nic), all);
}

static void kept_packets_count_as_free(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint64_t before = stat_of(nic, "dpdk_pool_in_use");

    assert_int_equal(nic_alloc(nic, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
    assert_int_equal(stat_of(nic, "dpdk_pool_in_use"), before + NIC_BURST_MAX);
    nic_release(nic, pkts, NIC_BURST_MAX);
    assert_int_equal(stat_of(nic, "dpdk_pool_in_use"), before);
}

/* A burst of which the pool has a part is that part, and none is lost. */
static void the_last_packets_are_handed_out(void **state)
{
    unsigned all = pkts_of(nic);
    uint64_t before = stat_of(nic, "dpdk_alloc_failed");
    struct us_pkt *pkts[3];

    assert_int_equal(nic_alloc(nic, pkts, 3), 3);
    assert_int_equal(stat_of(nic, "dpdk_alloc_failed"), before);
    assert_int_equal(pkts_of(nic), all - 3);
    assert_in_range(stat_of(nic, "dpdk_alloc_failed"), before + 1, before + 2);
    nic_release(nic, pkts, 3);
    assert_int_equal(pkts_of(nic), all);
}

static struct {
    unsigned calls;
    unsigned segments, bytes; /* of the last frame that was refused */
} refused;

static uint16_t refuse_all(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    refused.calls++;
    refused.segments = mbufs[n - 1]->nb_segs;
    refused.bytes = mbufs[n - 1]->pkt_len;
    return 0;
}

/* A busy device: with each attempt a frame of two segments is the same. */
static void a_frame_that_is_not_accepted_stays_as_it_was(void **state)
{
    struct dpdk_queue *queue = (struct dpdk_queue *)nic;
    eth_tx_burst_t *driver = &rte_eth_fp_ops[queue->port->id].tx_pkt_burst;
    eth_tx_burst_t accept = *driver;
    unsigned all = pkts_of(nic);
    u_u8 bytes[100] = {0};
    struct us_pkt rest = {.data = bytes, .len = sizeof(bytes)};
    struct us_pkt *pkt;
    unsigned i;

    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    memset(pkt->data, 0, 60);
    pkt->len = 60;
    pkt->next_seg = &rest;
    *driver = refuse_all;
    for (i = 1; i <= 2; i++) {
        assert_int_equal(nic_tx_burst(nic, &pkt, 1), 0);
        assert_int_equal(refused.calls, i);
        assert_int_equal(refused.segments, 2);
        assert_int_equal(refused.bytes, 160);
        assert_int_equal(mbuf_of(pkt)->nb_segs, 1);
        assert_null(mbuf_of(pkt)->next);
    }
    *driver = accept;
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    assert_int_equal(pkts_of(nic), all);
}

static uint16_t prepare_none(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    return 0;
}

/* The driver rejects the first frame: that one is dropped, and the one behind it stays as it is. */
static void a_frame_behind_a_rejected_one_stays_as_it_was(void **state)
{
    struct dpdk_queue *queue = (struct dpdk_queue *)nic;
    struct rte_eth_fp_ops *driver = &rte_eth_fp_ops[queue->port->id];
    eth_tx_prep_t prepare = driver->tx_pkt_prepare;
    unsigned all = pkts_of(nic);
    u_u8 bytes[100] = {0};
    struct us_pkt rest = {.data = bytes, .len = sizeof(bytes)};
    struct us_pkt *pkts[2];
    unsigned i;

    assert_int_equal(nic_alloc(nic, pkts, 2), 2);
    for (i = 0; i < 2; i++) {
        memset(pkts[i]->data, 0, 60);
        pkts[i]->len = 60;
    }
    pkts[0]->flags = US_PKT_TX_L4_CSUM;
    pkts[1]->next_seg = &rest;
    driver->tx_pkt_prepare = prepare_none;
    assert_int_equal(nic_tx_burst(nic, pkts, 2), 1);
    driver->tx_pkt_prepare = prepare;
    assert_int_equal(mbuf_of(pkts[1])->nb_segs, 1);
    assert_null(mbuf_of(pkts[1])->next);
    nic_release(nic, pkts + 1, 1);
    assert_int_equal(pkts_of(nic), all);
}

/* Of two packets that a long segment needs there is one: the frame waits, and holds none. */
static void a_frame_without_packets_for_its_segments_waits(void **state)
{
    static struct us_pkt *held[PKTS_MAX];
    static u_u8 bytes[3000];
    struct us_pkt rest = {.data = bytes, .len = sizeof(bytes)};
    unsigned all = pkts_of(nic), count = 0, left;
    struct us_pkt *pkt;

    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    while (count < all - 1)
        count += nic_alloc(nic, held + count, u_min32(all - 1 - count, NIC_BURST_MAX));
    memset(pkt->data, 0, 60);
    pkt->len = 60;
    pkt->next_seg = &rest;
    left = count - (NIC_BURST_MAX + 1); /* the queue keeps a burst of released buffers */
    nic_release(nic, held + left, NIC_BURST_MAX + 1);
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 0);
    assert_int_equal(mbuf_of(pkt)->nb_segs, 1);
    assert_null(mbuf_of(pkt)->next);
    nic_release(nic, held, left);
    nic_release(nic, &pkt, 1);
    assert_int_equal(pkts_of(nic), all);
}

/* A TCP segment in two mbufs, the first with an odd number of bytes. */
static struct rte_mbuf *chain_make(struct us_pkt *const pkts[2])
{
    static const u_u8 frame[] = {
        2,    0,   0,   0,   0,   1,   2,    0,   0,  0, 0, 2, 8,    0, /* Ethernet */
        0x45, 0,   0,   48,  0,   0,   0x40, 0,   64, 6, 0, 0, 10,   0,
        0,    1,   10,  0,   0,   2, /* IPv4 */
        0,    80,  0,   81,  0,   0,   0,    100, 0,  0, 0, 0, 0x50, 0x99,
        0,    0,   0,   0,   0,   0, /* TCP: FIN, PSH, CWR */
        'a',  'b', 'c', 'd', 'e', 'f', 'g',  'h'};
    enum { IP_AT = 14, TCP_AT = 34, FIRST_BYTES = 57 };
    struct rte_mbuf *head = mbuf_of(pkts[0]), *rest = mbuf_of(pkts[1]);
    u_u8 bytes[sizeof(frame)];
    struct u_be16 sum;
    struct u_be32 addresses[2];

    memcpy(bytes, frame, sizeof(frame));
    sum = u_be16(u_cksum_finish(u_cksum_add(0, bytes + IP_AT, 20)));
    memcpy(bytes + IP_AT + 10, &sum, 2);
    memcpy(addresses, bytes + IP_AT + 12, sizeof(addresses));
    sum = u_be16(u_cksum_finish(
        u_cksum_add(u_cksum_pseudo4(addresses[0], addresses[1], 6, 28), bytes + TCP_AT, 28)));
    memcpy(bytes + TCP_AT + 16, &sum, 2);
    memcpy(rte_pktmbuf_mtod(head, u_u8 *), bytes, FIRST_BYTES);
    memcpy(rte_pktmbuf_mtod(rest, u_u8 *), bytes + FIRST_BYTES, sizeof(bytes) - FIRST_BYTES);
    head->data_len = FIRST_BYTES;
    rest->data_len = sizeof(bytes) - FIRST_BYTES;
    head->pkt_len = sizeof(bytes);
    head->next = rest;
    head->nb_segs = 2;
    head->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN | RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN;
    return head;
}

/* As TSO hardware does it: FIN and PSH in the last frame, CWR in the first. */
static void a_chain_becomes_segments(void **state)
{
    static const struct {
        u_u8 seq, flags, bytes;
        const char *data;
    } rows[] = {{100, 0x90, 3, "abc"}, {103, 0x19, 5, "defgh"}};
    struct dpdk_segment segment = {0};
    struct us_pkt *pkts[2];
    unsigned i;

    assert_int_equal(nic_alloc(nic, pkts, 2), 2);
    assert_true(dpdk_segment_begin(&segment, chain_make(pkts)));
    for (i = 0; i < 2; i++) {
        struct rte_mbuf *piece = dpdk_segment_next(&segment);
        const u_u8 *frame = rte_pktmbuf_mtod(piece, const u_u8 *);

        assert_int_equal(piece->data_len, 54 + rows[i].bytes);
        assert_int_equal(frame[17], 40 + rows[i].bytes);
        assert_int_equal(frame[41], rows[i].seq);
        assert_int_equal(frame[47], rows[i].flags);
        assert_memory_equal(frame + 54, rows[i].data, rows[i].bytes);
    }
    assert_null(dpdk_segment_next(&segment));
    nic_release(nic, pkts, 2);
}

/* Frames that begin_chain() refuses: there is no place for the headers, or they are cut. */
static void a_chain_that_cannot_be_split_is_refused(void **state)
{
    struct dpdk_segment segment = {0};
    struct us_pkt *pkts[2];
    struct rte_mbuf *chain;

    assert_int_equal(nic_alloc(nic, pkts, 2), 2);
    chain = chain_make(pkts);
    chain->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    chain->next->data_off = 53; /* one byte less than the headers */
    assert_false(dpdk_segment_begin(&segment, chain));
    chain->next->data_off = RTE_PKTMBUF_HEADROOM;
    rte_pktmbuf_mtod(chain, u_u8 *)[46] = 0x60; /* headers of 58 bytes, in a mbuf of 57 */
    assert_false(dpdk_segment_begin(&segment, chain));
    rte_pktmbuf_mtod(chain, u_u8 *)[46] = 0x50;
    assert_true(dpdk_segment_begin(&segment, chain));
    (void)dpdk_segment_next(&segment);
    (void)dpdk_segment_next(&segment);
    nic_release(nic, pkts, 2);
}

/* A chain that fits into one packet is received as one frame, with what the NIC has verified. */
static void a_short_chain_becomes_one_frame(void **state)
{
    struct dpdk_queue *queue = (struct dpdk_queue *)nic;
    unsigned all = pkts_of(nic);
    struct us_pkt *pkts[2], *pkt;
    unsigned i;

    for (i = 0; i < 2; i++) {
        assert_int_equal(nic_alloc(nic, pkts, 2), 2);
        queue->waiting[0] = chain_make(pkts);
        queue->waiting[0]->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
        queue->waiting_at = 0;
        queue->waiting_count = 1;
        if (i == 1) { /* the queue is closed before */
            dpdk_rx_clear(queue);
            break;
        }
        assert_int_equal(nic_rx_burst(nic, &pkt, 1), 1);
        assert_int_equal(pkt->len, 62);
        assert_memory_equal(pkt->data + 54, "abcdefgh", 8);
        assert_int_equal(pkt->flags, US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD);
        nic_release(nic, &pkt, 1);
    }
    assert_int_equal(pkts_of(nic), all);
}

static int open_queue(void **state)
{
    struct nic_dpdk_config config = {.dev = "net_null0,size=64", .eal = "--no-huge"};
    char error[NIC_ERROR_MAX];

    if (nic_dpdk_open(&config, 1, &nic, error) == 1)
        return 0;
    fprintf(stderr, "%s\n", error);
    return -1;
}

static int close_queue(void **state)
{
    nic_close(nic);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_released_packet_is_reused_next),
        cmocka_unit_test(a_reused_packet_has_no_offload_flags),
        cmocka_unit_test(referenced_packets_return_to_the_mempool),
        cmocka_unit_test(kept_packets_count_as_free),
        cmocka_unit_test(a_frame_that_is_not_accepted_stays_as_it_was),
        cmocka_unit_test(the_last_packets_are_handed_out),
        cmocka_unit_test(a_frame_behind_a_rejected_one_stays_as_it_was),
        cmocka_unit_test(a_frame_without_packets_for_its_segments_waits),
        cmocka_unit_test(a_chain_becomes_segments),
        cmocka_unit_test(a_chain_that_cannot_be_split_is_refused),
        cmocka_unit_test(a_short_chain_becomes_one_frame),
    };

    return cmocka_run_group_tests(tests, open_queue, close_queue);
}
