/* SPDX-License-Identifier: BSD-3-Clause */
/* What a NIC gets to send: offloads, segments, and frames that it does not accept. */
#include <pthread.h>

#include "base/base.h"
#include "dpdk_driver.h"

#define TX_L4 (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define TX_ALL                                                                                     \
    (TX_L4 | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS |                       \
     RTE_ETH_TX_OFFLOAD_TCP_TSO)

#define FRAMES 3
#define FRAME_BYTES 60
#define HELD_MAX 4096

/* What the NIC was given; it frees what it accepts, unless it holds it. */
static struct {
    unsigned prepares;
    unsigned prepared; /* how many frames of a burst are right */
    unsigned accepts;  /* how many it has room for */
    bool holds;
    unsigned bursts, frames; /* given */
    struct rte_mbuf last;    /* the first of the last burst */
    u_u8 bytes[16384];       /* of that frame, and how many */
    unsigned bytes_count, segments;
    struct rte_mbuf *held[HELD_MAX];
    unsigned held_count;
} wire;

static void look_at(const struct rte_mbuf *mbuf)
{
    wire.last = *mbuf;
    wire.bytes_count = wire.segments = 0;
    for (; mbuf != NULL; mbuf = mbuf->next) {
        assert_in_range(wire.bytes_count + mbuf->data_len, 0, sizeof(wire.bytes));
        memcpy(wire.bytes + wire.bytes_count, rte_pktmbuf_mtod(mbuf, void *), mbuf->data_len);
        wire.bytes_count += mbuf->data_len;
        wire.segments++;
    }
}

static uint16_t accept_some(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    unsigned sent = u_min32(n, wire.accepts);
    unsigned i;

    wire.bursts++;
    wire.frames += n;
    if (n > 0)
        look_at(mbufs[0]);
    for (i = 0; i < sent; i++) {
        if (!wire.holds) {
            rte_pktmbuf_free(mbufs[i]);
            continue;
        }
        assert_in_range(wire.held_count, 0, HELD_MAX - 1);
        wire.held[wire.held_count++] = mbufs[i];
    }
    return (uint16_t)sent;
}

static uint16_t prepare(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    wire.prepares++;
    return (uint16_t)u_min32(n, wire.prepared);
}

static void free_held(void)
{
    rte_pktmbuf_free_bulk(wire.held, wire.held_count);
    wire.held_count = 0;
}

static struct nic *nic;
static unsigned all; /* packets */

static void open_nic(const char *name, uint64_t offers)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;

    driver.name = name;
    driver.tx_offers = offers;
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    driver_bursts(nic)->tx_pkt_burst = accept_some;
    driver_bursts(nic)->tx_pkt_prepare = prepare;
    memset(&wire, 0, sizeof(wire));
    wire.prepared = wire.accepts = NIC_BURST_MAX;
    all = pkts_of(nic);
}

/* All packets have come back, too. */
static void close_nic(void)
{
    assert_int_equal(pkts_of(nic), all);
    driver_close(&nic, 1);
}

/* Empty frames, with these flags of the stack. */
static void make(struct us_pkt **pkts, unsigned n, u_u32 flags)
{
    unsigned i;

    assert_int_equal(nic_alloc(nic, pkts, n), n);
    for (i = 0; i < n; i++) {
        memset(pkts[i]->data, 0, FRAME_BYTES);
        pkts[i]->data[14] = 0x45;
        pkts[i]->len = FRAME_BYTES;
        pkts[i]->flags = flags;
        pkts[i]->l2_len = 14;
        pkts[i]->l3_len = 20;
        pkts[i]->l4_len = 20;
        pkts[i]->csum_offset = 16;
    }
}

/* ---- offloads ---------------------------------------------------------------------------- */

static const struct {
    u_u8 l2_bytes, l3_bytes, l4_bytes, version;
    uint16_t csum_offset, mss;
    u_u32 flags;
    uint64_t wanted;
} frames[] = {
    {14, 20, 20, 4, 16, 0, US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM,
     RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM},
    {14, 20, 32, 4, 16, 0, US_PKT_TX_L4_CSUM, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM},
    {14, 20, 8, 4, 6, 0, US_PKT_TX_L4_CSUM, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM},
    {14, 20, 20, 4, 16, 0, US_PKT_TX_IP_CSUM, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM},
    {14, 40, 32, 6, 16, 0, US_PKT_TX_L4_CSUM, RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_CKSUM},
    {18, 40, 8, 6, 6, 0, US_PKT_TX_L4_CSUM, RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM},
    {18, 24, 32, 4, 16, 1448, US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM | US_PKT_TX_TSO,
     RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_TCP_SEG},
    {14, 40, 20, 6, 16, 1440, US_PKT_TX_L4_CSUM | US_PKT_TX_TSO,
     RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_TCP_SEG},
};

static void offloads_are_those_of_the_frame(void **state)
{
    struct us_pkt *pkt;
    size_t i;

    open_nic("net_test", TX_ALL);
    for (i = 0; i < U_ARRAY_LEN(frames); i++) {
        make(&pkt, 1, frames[i].flags);
        pkt->data[14] = pkt->data[18] = 0;
        pkt->data[frames[i].l2_bytes] = (u_u8)(frames[i].version << 4 | 5);
        pkt->l2_len = frames[i].l2_bytes;
        pkt->l3_len = frames[i].l3_bytes;
        pkt->l4_len = frames[i].l4_bytes;
        pkt->csum_offset = frames[i].csum_offset;
        pkt->tso_mss = frames[i].mss;
        assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
        assert_int_equal(wire.last.ol_flags, frames[i].wanted);
        assert_int_equal(wire.last.l2_len, frames[i].l2_bytes);
        assert_int_equal(wire.last.l3_len, frames[i].l3_bytes);
        assert_int_equal(wire.last.l4_len, frames[i].l4_bytes);
        assert_int_equal(wire.last.tso_segsz, frames[i].mss);
        assert_int_equal(wire.prepares, i + 1); /* the driver checks, and may change the frame */
    }
    assert_int_equal(stat_of(nic, "dpdk_tx_offloads"), U_ARRAY_LEN(frames));
    make(&pkt, 1, 0); /* nothing to check */
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    assert_int_equal(wire.last.ol_flags, 0);
    assert_int_equal(wire.prepares, U_ARRAY_LEN(frames));
    assert_int_equal(stat_of(nic, "dpdk_tx_offloads"), U_ARRAY_LEN(frames));
    close_nic();
}

/* The driver finds the second frame wrong: the first is sent, and the next attempt drops it. */
static void a_frame_that_the_driver_refuses_is_dropped_when_it_is_first(void **state)
{
    struct us_pkt *pkts[FRAMES];

    open_nic("net_test", TX_ALL);
    make(pkts, FRAMES, US_PKT_TX_L4_CSUM);
    wire.prepared = 1;
    assert_int_equal(nic_tx_burst(nic, pkts, FRAMES), 1);
    assert_int_equal(wire.frames, 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_offloads"), 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_full"), 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_refused"), 0);
    wire.prepared = 0;
    assert_int_equal(nic_tx_burst(nic, pkts + 1, FRAMES - 1), 1);
    assert_int_equal(wire.frames, 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_refused"), 1);
    wire.prepared = NIC_BURST_MAX;
    assert_int_equal(nic_tx_burst(nic, pkts + 2, FRAMES - 2), 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_offloads"), 2);
    close_nic();
}

/* ---- a guest that decides ---------------------------------------------------------------- */

static bool takes_large(void)
{
    struct us_pkt *none[1];

    (void)nic_rx_burst(nic, none, 1);
    assert_int_equal(nic->caps & US_CAP_TX_SG, US_CAP_TX_SG);
    return (nic->caps & US_CAP_TX_TSO) != 0;
}

static void guest(bool takes)
{
    driver.guest_takes_large = takes;
    (void)driver.on_link(0, RTE_ETH_EVENT_INTR_LSC, driver.ctx, NULL);
}

/* Large segments are made while the guest accepts them; those on the way to another are dropped. */
static void large_segments_are_for_guests_that_take_them(void **state)
{
    struct us_pkt *pkts[2];

    open_nic("net_vhost", TX_L4 | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    assert_false(takes_large());
    guest(true);
    assert_true(takes_large());
    make(pkts, 2, 0);
    pkts[1]->flags = US_PKT_TX_L4_CSUM | US_PKT_TX_TSO;
    assert_int_equal(nic_tx_burst(nic, pkts, 2), 2);
    make(pkts, 2, 0);
    pkts[1]->flags = US_PKT_TX_L4_CSUM | US_PKT_TX_TSO;
    guest(false);
    assert_int_equal(nic_tx_burst(nic, pkts, 2), 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_refused"), 0);
    assert_int_equal(nic_tx_burst(nic, pkts + 1, 1), 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_refused"), 1);
    assert_int_equal(wire.frames, 3);
    assert_false(takes_large());
    close_nic();
}

/* The guest is not asked where the link could not carry them, or they are not wanted. */
static void a_guest_is_asked_only_where_it_matters(void **state)
{
    static const uint64_t offers[] = {TX_L4, RTE_ETH_TX_OFFLOAD_MULTI_SEGS, TX_ALL, TX_ALL};
    static const unsigned without[] = {0, 0, NIC_DPDK_WITHOUT_TSO, NIC_DPDK_WITHOUT_ZERO_COPY};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(offers); i++) {
        driver_reset();
        driver.name = "net_vhost";
        driver.tx_offers = offers[i];
        config.without = without[i];
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_null(driver.on_link);
        driver_close(&nic, 1);
    }
}

/* ---- a link that is down ----------------------------------------------------------------- */

/* A burst that the device does not accept at all. Returns how many of the frames are gone. */
static unsigned try(unsigned n)
{
    struct us_pkt *pkts[FRAMES];
    unsigned sent;

    make(pkts, n, 0);
    sent = nic_tx_burst(nic, pkts, n);
    nic_release(nic, pkts + sent, n - sent);
    return sent;
}

static void frames_for_a_link_that_is_down_are_dropped(void **state)
{
    open_nic("net_test", 0);
    driver.now_us = 1000000;
    assert_int_equal(try(FRAMES), FRAMES);
    assert_int_equal(driver.link_reads, 0); /* as long as frames are accepted */
    wire.accepts = 0;
    assert_int_equal(try(FRAMES), 0); /* busy: the frames are tried again */
    assert_int_equal(driver.link_reads, 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_full"), 1);
    driver.link_reads = 0;
    driver.link_down = true;
    driver.now_us += 999; /* reading it takes time: once per ms */
    assert_int_equal(try(FRAMES), 0);
    assert_int_equal(driver.link_reads, 0);
    driver.now_us += 1;
    assert_int_equal(try(FRAMES), FRAMES);
    assert_int_equal(try(1), 1);
    assert_int_equal(driver.link_reads, 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_down_drops"), FRAMES + 1);
    assert_int_equal(stat_of(nic, "dpdk_tx_full"), 2);
    driver.now_us += 1000;
    driver.link_result = -EIO; /* not known: the device is taken for busy */
    assert_int_equal(try(1), 0);
    driver.now_us += 1000;
    driver.link_result = 0;
    driver.link_down = false;
    assert_int_equal(try(1), 0);
    wire.accepts = NIC_BURST_MAX;
    assert_int_equal(try(FRAMES), FRAMES);
    close_nic();
}

/* ---- segments ---------------------------------------------------------------------------- */

/* The bytes of a large frame; its segments are made of them. */
static u_u8 payload[5000];

static void make_large(struct us_pkt **pkt, struct us_pkt rest[2])
{
    make(pkt, 1, 0);
    rest[0] = (struct us_pkt){.data = payload, .len = 1, .next_seg = &rest[1]};
    rest[1] = (struct us_pkt){.data = payload + 1, .len = sizeof(payload) - 1};
    (*pkt)->next_seg = &rest[0];
}

/* In place if the driver copies before it returns; otherwise the memory may change afterwards. */
static void segments_are_sent_in_place_or_copied(void **state)
{
    struct us_pkt *pkt, rest[2];
    unsigned i;
    size_t j;

    for (j = 0; j < sizeof(payload); j++)
        payload[j] = (u_u8)(j * 7 + j / 256);
    for (i = 0; i < 2; i++) {
        bool in_place = i == 0;

        driver_reset();
        open_nic(in_place ? "net_tap" : "net_test", TX_ALL);
        make_large(&pkt, rest);
        assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
        assert_int_equal(wire.last.data_len, FRAME_BYTES);
        assert_int_equal(wire.last.pkt_len, FRAME_BYTES + sizeof(payload));
        assert_int_equal(wire.bytes_count, FRAME_BYTES + sizeof(payload));
        assert_memory_equal(wire.bytes + FRAME_BYTES, payload, sizeof(payload));
        assert_int_equal(wire.last.nb_segs, wire.segments);
        assert_int_equal(wire.segments, in_place ? 3 : 4); /* copies: in packets of 2048 */
        assert_int_equal(stat_of(nic, "dpdk_tx_zero_copy"), in_place ? 2 : 0);
        close_nic();
    }
}

/* More segments than the link has descriptions for: frames wait until it has sent some. */
static void segments_in_place_are_bounded(void **state)
{
    const struct dpdk_queue *queue;
    struct us_pkt *pkt, rest[2];
    unsigned round, count;

    open_nic("net_tap", TX_ALL);
    queue = (struct dpdk_queue *)nic;
    for (round = 0; round < 2; round++) {
        wire.holds = true;
        for (count = 0;; count++) {
            make_large(&pkt, rest);
            if (nic_tx_burst(nic, &pkt, 1) == 0)
                break;
        }
        assert_in_range(count, 256, 1024);
        assert_int_equal(stat_of(nic, "dpdk_tx_no_memory"), round + 1);
        free_held();
        assert_int_equal(rte_mempool_in_use_count(queue->views), 0);
        assert_int_equal(rte_mbuf_ext_refcnt_read(&queue->view_info), 1);
        wire.holds = false;
        assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    }
    close_nic();
}

/* Sends frames until all descriptions of segments are in use. Returns how many. */
static unsigned use_all_segments(void)
{
    struct us_pkt *pkt, rest[2];
    unsigned count = 0;

    (void)nic_rx_burst(nic, &pkt, 1); /* the queue is this thread's now */
    wire.holds = true;
    make_large(&pkt, rest);
    while (nic_tx_burst(nic, &pkt, 1) == 1) {
        count++;
        make_large(&pkt, rest);
    }
    nic_release(nic, &pkt, 1);
    free_held();
    wire.holds = false;
    return count;
}

static void *use_in_thread(void *count)
{
    *(unsigned *)count = use_all_segments();
    return NULL;
}

/* A thread that ends keeps none of them. */
static void an_ended_thread_leaves_all_segments(void **state)
{
    unsigned before, count = 0;
    pthread_t thread;

    open_nic("net_tap", TX_ALL);
    before = use_all_segments();
    assert_int_equal(pthread_create(&thread, NULL, use_in_thread, &count), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count, before);
    assert_int_equal(use_all_segments(), before);
    close_nic();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(offloads_are_those_of_the_frame, driver_setup),
        cmocka_unit_test_setup(a_frame_that_the_driver_refuses_is_dropped_when_it_is_first,
                               driver_setup),
        cmocka_unit_test_setup(large_segments_are_for_guests_that_take_them, driver_setup),
        cmocka_unit_test_setup(a_guest_is_asked_only_where_it_matters, driver_setup),
        cmocka_unit_test_setup(frames_for_a_link_that_is_down_are_dropped, driver_setup),
        cmocka_unit_test_setup(segments_are_sent_in_place_or_copied, driver_setup),
        cmocka_unit_test_setup(segments_in_place_are_bounded, driver_setup),
        cmocka_unit_test_setup(an_ended_thread_leaves_all_segments, driver_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
