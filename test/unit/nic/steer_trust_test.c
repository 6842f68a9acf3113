/* SPDX-License-Identifier: BSD-3-Clause */
/* Software flow steering behind a device that spreads flows itself. */
#include "steer_rig.h"

/* A device of four queues, each a loopback link, that claims to steer as nic/rss.h does. */
struct promise {
    struct nic *wire[LANES_MAX]; /* frames sent here arrive in the queue with this index */
    struct nic *lane[LANES_MAX];
};

static void open_promise(struct promise *p, bool promised)
{
    struct nic_loopback_config config = {.queue_frames = 0};
    struct nic *queue[LANES_MAX], *ends[2];
    char error[NIC_ERROR_MAX];
    unsigned i;

    for (i = 0; i < LANES_MAX; i++) {
        assert_int_equal(nic_loopback_open(&config, ends, error), 0);
        p->wire[i] = ends[0];
        queue[i] = ends[1];
        queue[i]->rss_exact = promised;
    }
    assert_int_equal(nic_steer_open(queue, LANES_MAX, LANES_MAX, p->lane, error), 0);
}

static void close_promise(struct promise *p)
{
    unsigned i;

    for (i = 0; i < LANES_MAX; i++)
        nic_close(p->lane[i]);
    for (i = 0; i < LANES_MAX; i++)
        nic_close(p->wire[i]);
}

/* Receives on a lane; every frame must belong to the lane. Returns how many there were. */
static unsigned take_own(struct promise *p, unsigned lane)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n = receive(p->lane[lane], pkts);
    unsigned i;

    for (i = 0; i < n; i++)
        assert_int_equal(lane_of_port(port_of(pkts[i]), LANES_MAX), lane);
    nic_release(p->lane[lane], pkts, n);
    return n;
}

static uint64_t sum_of(struct promise *p, const char *name)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < LANES_MAX; i++)
        sum += stat_of(p->lane[i], name);
    return sum;
}

/* Flows for every queue: each frame is checked at first, then one per burst. */
static void right_placement_is_verified_and_trusted(void **state)
{
    struct promise p;
    unsigned got = 0, lane;
    uint16_t port;
    uint64_t verified;

    open_promise(&p, true);
    for (port = 1; port <= 128; port++)
        assert_true(send_port(p.wire[lane_of_port(port, LANES_MAX)], port));
    for (lane = 0; lane < LANES_MAX; lane++)
        got += take_own(&p, lane);
    assert_int_equal(got, 128);
    verified = sum_of(&p, "rss_verified");
    assert_true(verified >= 8 * LANES_MAX && verified < 128);
    for (port = 1; port <= 128; port++)
        assert_true(send_port(p.wire[lane_of_port(port, LANES_MAX)], port));
    for (lane = 0; lane < LANES_MAX; lane++)
        got += take_own(&p, lane);
    assert_int_equal(got, 256);
    assert_int_equal(sum_of(&p, "rss_verified"), verified + LANES_MAX);
    assert_int_equal(sum_of(&p, "rss_mismatches"), 0);
    assert_int_equal(sum_of(&p, "lane_forwarded"), 0);
    close_promise(&p);
}

/* A device that uses the next queue for each flow: every frame is forwarded, none is lost. */
static void wrong_placement_is_detected_and_corrected(void **state)
{
    struct promise p;
    unsigned got = 0, lane, round;
    uint16_t port;

    open_promise(&p, true);
    for (round = 0; round < 3; round++) {
        for (port = 1; port <= 100; port++)
            assert_true(send_port(p.wire[(lane_of_port(port, LANES_MAX) + 1) % LANES_MAX], port));
        for (lane = 0; lane < 2 * LANES_MAX; lane++)
            got += take_own(&p, lane % LANES_MAX);
    }
    assert_int_equal(got, 300);
    assert_int_equal(sum_of(&p, "lane_forwarded"), 300);
    assert_int_equal(sum_of(&p, "rss_mismatches"), 300);
    assert_int_equal(sum_of(&p, "rss_verified"), 0);
    close_promise(&p);
}

/* A mismatch in one queue ends the trust in all queues. */
static void trust_ends_in_all_queues(void **state)
{
    struct promise p;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned lane, wrong = 0, n;
    uint16_t port, first = 0;

    open_promise(&p, true);
    for (port = 1; port <= 128; port++)
        assert_true(send_port(p.wire[lane_of_port(port, LANES_MAX)], port));
    for (lane = 0; lane < LANES_MAX; lane++)
        assert_true(take_own(&p, lane) > 0);
    /*
     * Queue 1 is trusted. The first frame of the burst is checked and correct, so the second one is
     * not checked.
     */
    for (port = 1; wrong == 0; port++) {
        if (first == 0 && lane_of_port(port, LANES_MAX) == 1)
            first = port;
        else if (first != 0 && lane_of_port(port, LANES_MAX) == 2)
            wrong = port;
    }
    assert_true(send_port(p.wire[1], first) && send_port(p.wire[1], (uint16_t)wrong));
    n = receive(p.lane[1], pkts);
    assert_int_equal(n, 2);
    nic_release(p.lane[1], pkts, n);
    assert_int_equal(sum_of(&p, "rss_mismatches"), 0);
    /* In queue 3 the checked frame is wrong: from here on every frame is checked in all queues. */
    assert_true(send_port(p.wire[3], (uint16_t)wrong));
    assert_int_equal(receive(p.lane[3], pkts), 0);
    assert_int_equal(take_own(&p, 2), 1);
    assert_true(send_port(p.wire[1], first) && send_port(p.wire[1], (uint16_t)wrong));
    assert_int_equal(take_own(&p, 1), 1);
    assert_int_equal(take_own(&p, 2), 1);
    assert_int_equal(sum_of(&p, "rss_mismatches"), 2);
    close_promise(&p);
}

static void a_device_without_rss_is_not_verified(void **state)
{
    struct promise p;
    unsigned got = 0, lane;
    uint16_t port;

    open_promise(&p, false);
    for (port = 1; port <= 100; port++)
        assert_true(send_port(p.wire[port % LANES_MAX], port));
    for (lane = 0; lane < 2 * LANES_MAX; lane++)
        got += take_own(&p, lane % LANES_MAX);
    assert_int_equal(got, 100);
    assert_int_equal(sum_of(&p, "rss_verified") + sum_of(&p, "rss_mismatches"), 0);
    close_promise(&p);
}

/* A lane may return frames one by one: the last one is collected, too. */
static void each_returned_frame_is_collected(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX], *none[NIC_BURST_MAX];
    struct promise p;
    uint16_t port = 1;
    unsigned i;

    while (lane_of_port(port, LANES_MAX) != 0)
        port++;
    open_promise(&p, false);
    assert_true(send_port(p.wire[1], port) && send_port(p.wire[1], port));
    assert_int_equal(receive(p.lane[1], none), 0);
    assert_int_equal(receive(p.lane[0], pkts), 2);
    for (i = 0; i < 2; i++) {
        nic_release(p.lane[0], pkts + i, 1);
        assert_int_equal(receive(p.lane[1], none), 0);
        assert_int_equal(stat_of(p.wire[1], "loop_pool_in_use"), 1 - i);
    }
    close_promise(&p);
}

/* Frames for all lanes: their copies return to the queue that they came from. */
static void copies_return_to_their_queue(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct promise p;
    unsigned queue, lane, n;

    open_promise(&p, false);
    for (queue = 0; queue < LANES_MAX; queue++) {
        assert_true(send_port(p.wire[queue], 0));
        for (lane = 0; lane < 2 * LANES_MAX; lane++) {
            n = receive(p.lane[(queue + lane) % LANES_MAX], pkts);
            assert_int_equal(n, lane < LANES_MAX);
            nic_release(p.lane[(queue + lane) % LANES_MAX], pkts, n);
        }
        assert_int_equal(stat_of(p.wire[queue], "loop_pool_in_use"), 0);
    }
    close_promise(&p);
}

/* A TCP segment or UDP datagram over IPv6, without addresses. */
static void send_ip6(struct nic *nic, unsigned protocol, uint16_t port)
{
    struct us_pkt *pkt;

    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    memset(pkt->data, 0, FRAME_LEN);
    pkt->len = FRAME_LEN;
    pkt->data[12] = 0x86;
    pkt->data[13] = 0xdd;
    pkt->data[14] = 0x60;
    pkt->data[20] = (uint8_t)protocol;
    pkt->data[54] = (uint8_t)(port >> 8);
    pkt->data[55] = (uint8_t)port;
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
}

static unsigned lane_of_ip6(uint16_t port)
{
    struct nic_rss_flow flow = {.is_ip6 = true, .has_ports = true, .from = {.port = port}};

    return nic_rss_lane(nic_rss_hash(&flow), LANES_MAX);
}

/* Trust in the placement of IPv4 is none in that of IPv6, and UDP is not promised. */
static void other_protocols_are_verified_apart(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct promise p;
    unsigned lane, i;
    uint64_t judged;
    uint16_t port;

    open_promise(&p, true);
    for (port = 1; port <= 128; port++)
        assert_true(send_port(p.wire[lane_of_port(port, LANES_MAX)], port));
    for (lane = 0; lane < LANES_MAX; lane++)
        assert_true(take_own(&p, lane) > 0);
    judged = sum_of(&p, "rss_verified");
    for (port = 1; lane_of_ip6(port) != 0; port++)
        continue;
    for (i = 0; i < 3; i++)
        send_ip6(p.wire[0], i < 2 ? 6 : 17, port);
    assert_int_equal(receive(p.lane[0], pkts), 3);
    nic_release(p.lane[0], pkts, 3);
    assert_int_equal(sum_of(&p, "rss_verified"), judged + 2);
    assert_int_equal(sum_of(&p, "rss_mismatches"), 0);
    close_promise(&p);
}

/* A device spreads over its queues: with more lanes it cannot know the lane. */
static void a_device_with_fewer_queues_is_not_verified(void **state)
{
    struct nic_loopback_config config = {.queue_frames = 0};
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic *ends[2], *lane[LANES_MAX];
    char error[NIC_ERROR_MAX];
    unsigned i, n, got = 0;
    uint16_t port;

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    ends[1]->rss_exact = true;
    ends[1]->caps = US_CAP_TX_SG | US_CAP_RX_CSUM;
    assert_int_equal(nic_steer_open(&ends[1], 1, LANES_MAX, lane, error), 0);
    for (port = 1; port <= 40; port++)
        assert_true(send_port(ends[0], port));
    for (i = 0; i < LANES_MAX; i++) {
        assert_true(lane[i]->rss_exact); /* what comes out is steered */
        /* a lane without a queue gets single packets from the other one, and no chains */
        assert_int_equal(lane[i]->caps, US_CAP_RX_CSUM | (i == 0 ? US_CAP_TX_SG : 0));
        n = receive(lane[i], pkts);
        nic_release(lane[i], pkts, n);
        got += n;
    }
    assert_int_equal(got, 40);
    assert_int_equal(stat_of(lane[0], "rss_verified") + stat_of(lane[0], "rss_mismatches"), 0);
    for (i = 0; i < LANES_MAX; i++)
        nic_close(lane[i]);
    nic_close(ends[0]);
}

/* Packets that are released unsent return to the pool of their own queue immediately. */
static void unsent_packets_return_to_their_own_queue(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct promise p;
    unsigned i;

    open_promise(&p, false);
    for (i = 0; i < LANES_MAX; i++) {
        assert_int_equal(nic_alloc(p.lane[i], pkts, 2), 2);
        assert_int_equal(stat_of(p.wire[i], "loop_pool_in_use"), 2);
        nic_release(p.lane[i], pkts, 2);
        assert_int_equal(stat_of(p.wire[i], "loop_pool_in_use"), 0);
    }
    close_promise(&p);
}

/* Lanes without a queue are spread over the queues. The last close closes the queues. */
static void lanes_share_the_queues(void **state)
{
    enum { QUEUES = LANES_MAX / 2 };
    struct nic_loopback_config config = {.queue_frames = 0};
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic *wire[QUEUES], *queue[QUEUES], *lane[LANES_MAX], *ends[2];
    char error[NIC_ERROR_MAX];
    unsigned before = descriptors(), round, i;

    for (i = 0; i < QUEUES; i++) {
        assert_int_equal(nic_loopback_open(&config, ends, error), 0);
        wire[i] = ends[0];
        queue[i] = ends[1];
    }
    assert_int_equal(nic_steer_open(queue, QUEUES, LANES_MAX, lane, error), 0);
    for (round = 1; round < 200; round++) { /* more than there are empties at a time */
        for (i = 0; i < QUEUES; i++)
            assert_int_equal(receive(lane[i], pkts), 0);
        for (i = QUEUES; i < LANES_MAX; i++) {
            assert_true(send_port(lane[i], (uint16_t)(1000 * i + round)));
            assert_true(nic_has_in_transit(lane[i]));
        }
        for (i = 0; i < QUEUES; i++) {
            assert_int_equal(receive(lane[i], pkts), 0);
            assert_int_equal(receive(wire[i], pkts), 1);
            assert_int_equal(port_of(pkts[0]), 1000 * (QUEUES + i) + round);
            nic_release(wire[i], pkts, 1);
        }
    }
    for (i = 0; i < LANES_MAX; i++)
        nic_close(lane[i]);
    assert_int_equal(descriptors(), before);
    for (i = 0; i < QUEUES; i++) {
        assert_int_equal(stat_of(wire[i], "loop_pool_in_use"), 0);
        assert_true(send_port(wire[i], 1));
        assert_int_equal(stat_of(wire[i], "loop_tx_drops"), 1); /* there is no other end */
        nic_close(wire[i]);
    }
}

/* Frames from other lanes are half of a burst: those of the own queue do not wait for all. */
static void a_lane_takes_from_both_its_sources(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct promise p;
    uint16_t port = 1;
    unsigned i;

    while (lane_of_port(port, LANES_MAX) != 0)
        port++;
    open_promise(&p, false);
    for (i = 0; i < NIC_BURST_MAX; i++)
        assert_true(send_port(p.wire[0], port) && send_port(p.wire[1], port));
    assert_int_equal(receive(p.lane[1], pkts), 0); /* forwards them */
    for (i = 1; i <= 2; i++) {
        assert_int_equal(take_own(&p, 0), NIC_BURST_MAX);
        assert_int_equal(stat_of(p.lane[0], "lane_received"), i * NIC_BURST_MAX / 2);
    }
    assert_true(send_port(p.wire[0], port) && send_port(p.wire[1], port));
    assert_int_equal(receive(p.lane[1], pkts), 0);
    assert_int_equal(nic_rx_burst(p.lane[0], pkts, 1), 1); /* the larger half of one is one */
    assert_int_equal(stat_of(p.lane[0], "lane_received"), NIC_BURST_MAX + 1);
    nic_release(p.lane[0], pkts, 1);
    assert_int_equal(take_own(&p, 0), 1);
    close_promise(&p);
}

/* Fragments do not count as placed by the device: the later ones follow the first to its lane. */
static void fragments_are_steered_together(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct promise p;
    unsigned lane = lane_of_port(1, LANES_MAX), i;

    open_promise(&p, true);
    for (i = 0; i < 2; i++) {
        assert_int_equal(nic_alloc(p.wire[lane], pkts, 1), 1);
        fill(pkts[0], 1);
        pkts[0]->data[20] = i == 0 ? 0x20 : 0; /* more fragments */
        pkts[0]->data[21] = (uint8_t)i;        /* the offset */
        assert_int_equal(nic_tx_burst(p.wire[lane], pkts, 1), 1);
    }
    assert_int_equal(receive(p.lane[lane], pkts), 2);
    nic_release(p.lane[lane], pkts, 2);
    assert_int_equal(sum_of(&p, "rss_verified") + sum_of(&p, "rss_mismatches"), 0);
    close_promise(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_placement_is_verified_and_trusted),
        cmocka_unit_test(wrong_placement_is_detected_and_corrected),
        cmocka_unit_test(trust_ends_in_all_queues),
        cmocka_unit_test(a_device_without_rss_is_not_verified),
        cmocka_unit_test(each_returned_frame_is_collected),
        cmocka_unit_test(copies_return_to_their_queue),
        cmocka_unit_test(other_protocols_are_verified_apart),
        cmocka_unit_test(a_device_with_fewer_queues_is_not_verified),
        cmocka_unit_test(unsent_packets_return_to_their_own_queue),
        cmocka_unit_test(lanes_share_the_queues),
        cmocka_unit_test(a_lane_takes_from_both_its_sources),
        cmocka_unit_test(fragments_are_steered_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
