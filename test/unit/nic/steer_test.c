/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Software flow steering: each frame reaches the lane of its flow, packets return to their queue,
 * and a lane without a queue sends through another one. First in one thread, then with a thread per
 * lane.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "narrow_device.h"
#include "nic/frag_steer.h"
#include "nic/rss.h"
#include "nic/steer.h"
#include "nic_testing.h"

#define FRAME_LEN 60
#define LANES_MAX 4

struct fixture {
    struct nic *peer;
    struct nic *lane[LANES_MAX];
    unsigned lanes;
};

/* One queue, used by lane 0. */
static void open_fixture(struct fixture *f, unsigned lanes, unsigned queue_frames)
{
    struct nic_loopback_config config = {.queue_frames = queue_frames};
    char error[NIC_ERROR_MAX];
    struct nic *ends[2];

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    f->peer = ends[0];
    f->lanes = lanes;
    assert_int_equal(nic_steer_open(&ends[1], 1, lanes, f->lane, error), 0);
}

static void close_fixture(struct fixture *f)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned i, n;

    for (i = 0; i < f->lanes; i++)
        nic_close(f->lane[i]);
    while ((n = nic_rx_burst(f->peer, pkts, NIC_BURST_MAX)) > 0)
        nic_release(f->peer, pkts, n);
    assert_int_equal(stat_of(f->peer, "loop_pool_in_use"), 0); /* all packets are back */
    nic_close(f->peer);
}

/* A TCP segment of 10.0.0.1:port to 10.0.0.2:11211; port 0: an ARP request. */
static void fill(struct us_pkt *pkt, uint16_t port)
{
    static const uint8_t ip[20] = {0x45, 0, 0,  46, 0, 0, 0,  0, 64, 6,
                                   0,    0, 10, 0,  0, 1, 10, 0, 0,  2};

    memset(pkt->data, 0, FRAME_LEN);
    pkt->len = FRAME_LEN;
    pkt->data[12] = 8;
    pkt->data[13] = port == 0 ? 6 : 0;
    if (port == 0)
        return;
    memcpy(pkt->data + 14, ip, sizeof(ip));
    pkt->data[34] = (uint8_t)(port >> 8);
    pkt->data[35] = (uint8_t)port;
    pkt->data[36] = 11211 >> 8;
    pkt->data[37] = (uint8_t)(11211 & 255);
}

static unsigned lane_of_port(uint16_t port, unsigned lanes)
{
    struct nic_rss_flow flow = {.has_ports = true,
                                .from = {.addr = {10, 0, 0, 1}, .port = port},
                                .to = {.addr = {10, 0, 0, 2}, .port = 11211}};

    return nic_rss_lane(nic_rss_hash(&flow), lanes);
}

static uint16_t port_of(const struct us_pkt *pkt)
{
    return (uint16_t)(pkt->data[34] << 8 | pkt->data[35]);
}

/* Sends one frame. Returns false if there is no packet, or the nic does not accept it. */
static bool send_port(struct nic *nic, uint16_t port)
{
    struct us_pkt *pkt;

    if (nic_alloc(nic, &pkt, 1) == 0)
        return false;
    fill(pkt, port);
    if (nic_tx_burst(nic, &pkt, 1) == 1)
        return true;
    nic_release(nic, &pkt, 1);
    return false;
}

static unsigned receive(struct nic *nic, struct us_pkt **pkts)
{
    return nic_rx_burst(nic, pkts, NIC_BURST_MAX);
}

static void flows_get_to_their_lanes(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned got = 0;
    unsigned lane, i, n;
    uint16_t port;

    open_fixture(&f, 4, 0);
    for (port = 1; port <= 60; port++)
        assert_true(send_port(f.peer, port));
    for (lane = 0; lane < 4; lane++) { /* lane 0 receives for all */
        n = receive(f.lane[lane], pkts);
        assert_true(n > 0);
        for (i = 0; i < n; i++)
            assert_int_equal(lane_of_port(port_of(pkts[i]), 4), lane);
        nic_release(f.lane[lane], pkts, n);
        got += n;
        if (lane > 0)
            assert_int_equal(stat_of(f.lane[lane], "lane_received"), n);
        else
            assert_int_equal(stat_of(f.lane[0], "lane_forwarded"), 60 - n);
    }
    assert_int_equal(got, 60);
    assert_int_equal(receive(f.lane[0], pkts),
                     0); /* collects the packets that the others returned */
    close_fixture(&f);
}

static void discovery_is_copied_to_all_lanes(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned lane;

    open_fixture(&f, 4, 0);
    assert_true(send_port(f.peer, 0));
    for (lane = 0; lane < 4; lane++) {
        assert_int_equal(receive(f.lane[lane], pkts), 1);
        assert_int_equal(pkts[0]->len, FRAME_LEN);
        assert_int_equal(pkts[0]->data[13], 6);
        nic_release(f.lane[lane], pkts, 1);
        assert_int_equal(receive(f.lane[lane], pkts), 0);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_copies"), 3);
    close_fixture(&f);
}

static void a_lane_without_a_queue_sends_through_another_lane(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned round;
    uint16_t port = 1;

    open_fixture(&f, 3, 0);
    assert_false(send_port(f.lane[2], 1)); /* no empties yet: requests some */
    assert_int_equal(stat_of(f.lane[2], "lane_tx_no_packet"), 1);
    for (round = 0; round < 300; round++) {
        assert_int_equal(receive(f.lane[0], pkts), 0);
        assert_int_equal(receive(f.lane[2], pkts), 0);
        assert_true(send_port(f.lane[2], port));
        assert_int_equal(receive(f.lane[0], pkts), 0);
        assert_int_equal(receive(f.peer, pkts), 1);
        assert_int_equal(port_of(pkts[0]), port);
        nic_release(f.peer, pkts, 1);
        port++;
    }
    assert_int_equal(stat_of(f.lane[0], "lane_sent_for_others"), 300);
    close_fixture(&f);
}

/* A frame for another lane is in transit until its buffer is back or it is with the device. */
static void frames_between_lanes_are_in_transit(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct fixture f;
    uint16_t port = 1;

    while (lane_of_port(port, 2) != 1)
        port++;
    open_fixture(&f, 2, 0);
    assert_false(nic_has_in_transit(f.lane[0]) || nic_has_in_transit(f.lane[1]));
    assert_true(send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_true(nic_has_in_transit(f.lane[0]));
    assert_int_equal(receive(f.lane[1], pkts), 1);
    assert_true(nic_has_in_transit(f.lane[0]));
    nic_release(f.lane[1], pkts, 1);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* and supplies empties */
    assert_false(nic_has_in_transit(f.lane[0]) || nic_has_in_transit(f.lane[1]));
    assert_true(send_port(f.lane[1], 1));
    assert_true(nic_has_in_transit(f.lane[1]));
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_false(nic_has_in_transit(f.lane[0]) || nic_has_in_transit(f.lane[1]));
    assert_int_equal(receive(f.peer, pkts), 1);
    nic_release(f.peer, pkts, 1);
    close_fixture(&f);
}

/*
 * A lane that does not receive: the ring to it fills up and further frames are dropped; other lanes
 * are not affected.
 */
static void a_full_ring_drops_frames_of_its_lane_only(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned own = 0, other = 0, sent_other = 0;
    unsigned n, i, round;
    uint16_t port = 1;

    open_fixture(&f, 2, 1024);
    for (round = 0; round < 20; round++) {
        for (i = 0; i < 40; i++, port++) {
            assert_true(send_port(f.peer, port));
            sent_other += lane_of_port(port, 2) == 1;
        }
        while ((n = receive(f.lane[0], pkts)) > 0) {
            own += n;
            nic_release(f.lane[0], pkts, n);
        }
    }
    assert_int_equal(own + sent_other, 800);
    assert_int_equal(stat_of(f.lane[0], "lane_forwarded"), NIC_STEER_RING_FRAMES);
    assert_int_equal(stat_of(f.lane[0], "lane_ring_full"), sent_other - NIC_STEER_RING_FRAMES);
    while ((n = receive(f.lane[1], pkts)) > 0) {
        for (i = 0; i < n; i++)
            assert_int_equal(lane_of_port(port_of(pkts[i]), 2), 1);
        other += n;
        nic_release(f.lane[1], pkts, n);
    }
    assert_int_equal(other, NIC_STEER_RING_FRAMES);
    for (i = 0; i < 100; i++) { /* and gets new empties */
        assert_true(send_port(f.peer, port));
        if (lane_of_port(port++, 2) == 1)
            break;
    }
    while ((n = receive(f.lane[0], pkts)) > 0)
        nic_release(f.lane[0], pkts, n);
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    close_fixture(&f);
}

/* Fragments without a first one, more than may wait for it. */
static void lost_fragments_are_counted(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned i;

    open_fixture(&f, 2, 0);
    for (i = 0; i < NIC_FRAG_WAITING_MAX + 3; i++) {
        assert_int_equal(nic_alloc(f.peer, pkts, 1), 1);
        fill(pkts[0], 1);
        pkts[0]->data[21] = 1; /* the second eight bytes of a datagram */
        assert_int_equal(nic_tx_burst(f.peer, pkts, 1), 1);
        assert_int_equal(receive(f.lane[0], pkts), 0);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_fragments_lost"), 3);
    close_fixture(&f);
}

/* Closing releases the packets in all rings, and fragments that wait for a first one. */
static void closing_empties_the_rings(void **state)
{
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n;
    uint16_t port;

    open_fixture(&f, 4, 0);
    for (port = 1; port <= 64; port++)
        assert_true(send_port(f.peer, port));
    n = receive(f.lane[0], pkts);
    nic_release(f.lane[0], pkts, n);
    n = receive(f.lane[1], pkts);
    nic_release(f.lane[1], pkts, n);
    assert_true(send_port(f.lane[1], 7));
    assert_int_equal(nic_alloc(f.lane[2], pkts, 5), 5);
    nic_release(f.lane[2], pkts, 5);
    assert_int_equal(nic_alloc(f.peer, pkts, 1), 1);
    fill(pkts[0], 1);
    pkts[0]->data[21] = 1; /* the second eight bytes of a datagram */
    assert_int_equal(nic_tx_burst(f.peer, pkts, 1), 1);
    n = receive(f.lane[0], pkts);
    nic_release(f.lane[0], pkts, n);
    close_fixture(&f);
}

/* A lane may hold many frames: further ones are dropped, so that all of those can be returned. */
static void frames_that_a_lane_holds_are_bounded(void **state)
{
    static struct us_pkt *held[1000];
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned count = 0, i, n;
    struct fixture f;
    uint16_t port;

    open_fixture(&f, 2, 1024);
    for (port = 1; port <= 2000; port++) {
        if (lane_of_port(port, 2) != 1)
            continue;
        assert_true(send_port(f.peer, port));
        assert_int_equal(receive(f.lane[0], pkts), 0);
        count += nic_rx_burst(f.lane[1], held + count, 1);
    }
    assert_true(count >= NIC_STEER_RING_FRAMES);
    assert_int_equal(count, stat_of(f.lane[0], "lane_forwarded"));
    assert_true(stat_of(f.lane[0], "lane_ring_full") > 0);
    for (i = 0; i < count; i += n) {
        n = u_min32(count - i, NIC_BURST_MAX);
        nic_release(f.lane[1], held + i, n);
    }
    while (lane_of_port(port, 2) != 1)
        port++;
    assert_int_equal(receive(f.lane[0], pkts), 0); /* which collects them */
    assert_true(send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    close_fixture(&f);
}

static void more_than_a_burst_is_released(void **state)
{
    struct us_pkt *pkts[3 * NIC_BURST_MAX];
    struct fixture f;
    unsigned i;

    open_fixture(&f, 1, 0);
    for (i = 0; i < 3; i++)
        assert_int_equal(nic_alloc(f.lane[0], pkts + i * NIC_BURST_MAX, NIC_BURST_MAX),
                         NIC_BURST_MAX);
    nic_release(f.lane[0], pkts, 3 * NIC_BURST_MAX);
    assert_int_equal(stat_of(f.peer, "loop_pool_in_use"), 0);
    close_fixture(&f);
}

/* ---- a device that spreads flows itself -------------------------------------------------- */

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

/* ---- threads ----------------------------------------------------------------------------- */

#define THREAD_FRAMES 30000

static struct fixture shared;
static atomic_bool stopping;
static atomic_uint echoed;
static uint64_t sleep_us;

/* Sends received frames back, and sleeps without frames. */
static void *echo_loop(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct nic *nic = shared.lane[number];
    struct us_pkt *pkts[NIC_BURST_MAX], *out;
    unsigned i, n;

    while (!atomic_load(&stopping)) {
        n = receive(nic, pkts);
        for (i = 0; i < n; i++) {
            uint16_t port = port_of(pkts[i]);

            assert_int_equal(lane_of_port(port, shared.lanes), number);
            if (nic_alloc(nic, &out, 1) == 1) {
                fill(out, port);
                if (nic_tx_burst(nic, &out, 1) == 1)
                    atomic_fetch_add(&echoed, 1);
                else
                    nic_release(nic, &out, 1);
            }
        }
        nic_release(nic, pkts, n);
        if (n == 0)
            assert_int_equal(nic_wait(nic, sleep_us), 0);
    }
    return NULL;
}

/*
 * This thread runs lane 0 and the peer, since a loopback link is used by one thread. The other
 * lanes sleep in between and must be woken; no frame is lost uncounted.
 */
static void threads_forward_frames_and_return_packets(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    pthread_t threads[3];
    unsigned back = 0, own = 0, sent = 0, idle = 0;
    unsigned i, n;

    open_fixture(&shared, 4, 1024);
    sleep_us = 20000;
    atomic_store(&stopping, false);
    atomic_store(&echoed, 0);
    for (i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, echo_loop, (void *)(uintptr_t)(i + 1)),
                         0);
    while (sent < THREAD_FRAMES || idle < 2000) {
        for (i = 0; i < 8 && sent < THREAD_FRAMES && send_port(shared.peer, (uint16_t)(1 + sent));
             i++)
            sent++;
        n = receive(shared.lane[0], pkts);
        own += n;
        nic_release(shared.lane[0], pkts, n);
        idle = n > 0 ? 0 : idle + 1;
        n = receive(shared.peer, pkts);
        back += n;
        nic_release(shared.peer, pkts, n);
        if (n > 0)
            idle = 0;
        else
            sched_yield();
    }
    atomic_store(&stopping, true);
    for (i = 0; i < 3; i++) {
        nic_wake(shared.lane[i + 1]);
        pthread_join(threads[i], NULL);
    }
    for (idle = 0; idle < 4; idle++) { /* frames sent last */
        n = receive(shared.lane[0], pkts);
        nic_release(shared.lane[0], pkts, n);
        n = receive(shared.peer, pkts);
        back += n;
        nic_release(shared.peer, pkts, n);
    }
    assert_int_equal(back, atomic_load(&echoed));
    assert_int_equal(own + stat_of(shared.lane[0], "lane_forwarded") +
                         stat_of(shared.lane[0], "lane_ring_full"),
                     THREAD_FRAMES);
    assert_true(back > THREAD_FRAMES / 10);
    close_fixture(&shared);
}

/* Two threads sleep in turns: after a lost wakeup the test does not end in time. */
static void a_sleeper_is_always_woken(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    pthread_t thread;
    unsigned round, n;
    uint16_t port = 1;

    while (lane_of_port(port, 2) != 1)
        port++;
    open_fixture(&shared, 2, 64);
    sleep_us = UINT64_C(3600000000);
    atomic_store(&stopping, false);
    assert_int_equal(pthread_create(&thread, NULL, echo_loop, (void *)(uintptr_t)1), 0);
    for (round = 0; round < 500; round++) {
        assert_true(send_port(shared.peer, port));
        for (n = 0; n == 0; n = receive(shared.peer, pkts)) {
            struct us_pkt *none[NIC_BURST_MAX];

            assert_int_equal(receive(shared.lane[0], none), 0);
            sched_yield();
        }
        nic_release(shared.peer, pkts, n);
    }
    atomic_store(&stopping, true);
    nic_wake(shared.lane[1]);
    pthread_join(thread, NULL);
    close_fixture(&shared);
}

/* What came before a sleep ends it: a frame, and an empty packet for a lane that had none. */
static void no_lane_sleeps_on_what_it_waits_for(void **state)
{
    const uint64_t hour_us = UINT64_C(3600000000); /* a lost wakeup outlasts the test */
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint16_t port = 1;

    while (lane_of_port(port, 3) != 1)
        port++;
    open_fixture(&f, 3, 0);
    assert_true(send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0); /* forwards it */
    assert_int_equal(nic_wait(f.lane[1], hour_us), 0);
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    assert_true(send_port(f.peer, port) && send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_int_equal(nic_rx_burst(f.lane[1], pkts, 1), 1);
    nic_release(f.lane[1], pkts, 1);
    assert_int_equal(nic_wait(f.lane[1], hour_us), 0); /* for the other one */
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    while (send_port(f.lane[2], port)) /* until there are no empty packets */
        continue;
    assert_int_equal(receive(f.lane[0], pkts), 0); /* sends, and supplies empty packets */
    assert_int_equal(nic_wait(f.lane[2], hour_us), 0);
    assert_true(send_port(f.lane[2], port));
    close_fixture(&f);
}

/* ---- a device whose waits are recorded --------------------------------------------------- */

/* One queue, used by lane 0. */
static void open_narrow(struct fixture *f, struct narrow *narrow, unsigned lanes)
{
    struct nic *queue = &narrow->nic;
    char error[NIC_ERROR_MAX];

    memset(narrow, 0, sizeof(*narrow));
    narrow_open(narrow, &f->peer);
    f->lanes = lanes;
    assert_int_equal(nic_steer_open(&queue, 1, lanes, f->lane, error), 0);
}

/* A first fragment releases more frames than the caller has room for: no sleep before those. */
static void no_lane_sleeps_before_deferred_frames(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;
    unsigned i;

    open_narrow(&f, &narrow, 1);
    for (i = 3; i-- > 0;) { /* the first fragment last */
        assert_int_equal(nic_alloc(f.peer, pkts, 1), 1);
        fill(pkts[0], 1);
        pkts[0]->data[20] = 0x20;       /* more fragments */
        pkts[0]->data[21] = (uint8_t)i; /* the offset */
        assert_int_equal(nic_tx_burst(f.peer, pkts, 1), 1);
        assert_int_equal(nic_rx_burst(f.lane[0], pkts, 1), i == 0);
    }
    nic_release(f.lane[0], pkts, 1);
    assert_true(nic_has_in_transit(f.lane[0]));
    narrow.waited_us = 0;
    assert_int_equal(nic_wait(f.lane[0], 5), 0);
    assert_int_equal(narrow.waited_us, 0);
    assert_int_equal(receive(f.lane[0], pkts), 2);
    assert_false(nic_has_in_transit(f.lane[0]));
    nic_release(f.lane[0], pkts, 2);
    assert_int_equal(nic_wait(f.lane[0], 5), 0);
    assert_int_equal(narrow.waited_us, 5);
    close_fixture(&f);
}

/* Packets that are shorter than the frame just received. */
static unsigned alloc_short(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    n = narrow_alloc(nic, pkts, n);
    for (i = 0; i < n; i++)
        pkts[i]->room = FRAME_LEN - 1;
    return n;
}

static void a_copy_without_room_is_not_made(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct nic_ops ops;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    ops = *narrow.nic.ops;
    ops.alloc = alloc_short;
    narrow.nic.ops = &ops;
    assert_true(send_port(f.peer, 0));
    assert_int_equal(receive(f.lane[0], pkts), 1);
    nic_release(f.lane[0], pkts, 1);
    assert_int_equal(receive(f.lane[1], pkts), 0);
    assert_int_equal(stat_of(f.lane[0], "lane_copies_lost"), 1);
    close_fixture(&f);
}

/* Frames of other lanes that the device does not accept: the lane tries again soon. */
static void a_sleep_is_short_while_frames_wait_for_the_device(void **state)
{
    const uint64_t hour_us = UINT64_C(3600000000);
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
    assert_true(send_port(f.lane[1], 1));
    assert_int_equal(receive(f.lane[0], pkts), 0); /* sends, but the device accepts nothing */
    assert_int_equal(nic_wait(f.lane[0], hour_us), 0);
    assert_in_range(narrow.waited_us, 1, 1000);
    narrow.allowance = 1;
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_int_equal(receive(f.peer, pkts), 1);
    nic_release(f.peer, pkts, 1);
    assert_int_equal(nic_wait(f.lane[0], hour_us), 0);
    assert_int_equal(narrow.waited_us, hour_us);
    close_fixture(&f);
}

/* Frames of a lane without a queue are bounded while the device accepts none, and none is lost. */
static void frames_that_wait_for_the_device_are_bounded(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned sent = 0, got = 0, idle, n;
    struct narrow narrow;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
    assert_true(send_port(f.lane[1], 1));
    for (sent = 1, idle = 0; idle < 4; idle++) {
        assert_int_equal(receive(f.lane[0], pkts), 0);
        for (n = 0; n < 50 && send_port(f.lane[1], (uint16_t)(1 + sent)); n++) {
            sent++;
            idle = 0;
            assert_true(sent < 2000);
        }
    }
    assert_true(nic_has_in_transit(f.lane[0]));
    narrow.allowance = 10000;
    for (idle = 0; idle < 4; idle++) {
        assert_int_equal(receive(f.lane[0], pkts), 0);
        for (; (n = receive(f.peer, pkts)) > 0; nic_release(f.peer, pkts, n)) {
            assert_int_equal(port_of(pkts[0]), 1 + got);
            got += n;
        }
    }
    assert_int_equal(got, sent);
    assert_int_equal(stat_of(f.lane[0], "lane_sent_for_others"), sent);
    close_fixture(&f);
}

/* Close with frames that the device has not accepted, and with ones beyond the last burst. */
static void closing_releases_what_waits_in_a_lane(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;
    unsigned i;

    open_narrow(&f, &narrow, 2);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
    assert_true(send_port(f.lane[1], 1));
    assert_int_equal(receive(f.lane[0], pkts), 0); /* the device accepts nothing */
    close_fixture(&f);

    open_narrow(&f, &narrow, 1);
    for (i = 3; i-- > 0;) { /* the first fragment last */
        assert_int_equal(nic_alloc(f.peer, pkts, 1), 1);
        fill(pkts[0], 1);
        pkts[0]->data[20] = 0x20;       /* more fragments */
        pkts[0]->data[21] = (uint8_t)i; /* the offset */
        assert_int_equal(nic_tx_burst(f.peer, pkts, 1), 1);
        assert_int_equal(nic_rx_burst(f.lane[0], pkts, 1), i == 0);
    }
    nic_release(f.lane[0], pkts, 1);
    close_fixture(&f);
}

static uint32_t mtu_now(struct nic *nic)
{
    return 1400;
}

/* The MTU of the interface may change while it is open. */
static void lanes_have_the_mtu_of_the_device(void **state)
{
    struct narrow narrow;
    struct nic_ops ops;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    ops = *narrow.nic.ops;
    ops.mtu = mtu_now;
    narrow.nic.ops = &ops;
    assert_int_equal(nic_mtu(f.lane[0]), 1400);
    assert_int_equal(nic_mtu(f.lane[1]), 1400);
    close_fixture(&f);
}

/* Lane 1 requests a packet while lane 0 sleeps. */
static int request_in_sleep(struct nic *nic, uint64_t timeout_us)
{
    assert_true(send_port(shared.lane[1], 1));
    return 0;
}

static void supply_at_once(struct nic *nic)
{
    struct us_pkt *pkts[NIC_BURST_MAX];

    assert_int_equal(receive(shared.lane[0], pkts), 0);
}

/* A request for empty packets is answered before the requesting lane looks again: it gets them. */
static void empties_supplied_at_once_are_used(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct nic_ops ops;

    open_narrow(&shared, &narrow, 2);
    ops = *narrow.nic.ops;
    ops.wait = request_in_sleep;
    ops.wake = supply_at_once;
    narrow.nic.ops = &ops;
    narrow.allowance = 1;
    assert_int_equal(nic_wait(shared.lane[0], 5), 0);
    assert_int_equal(stat_of(shared.lane[1], "lane_wakes"), 1);
    assert_int_equal(receive(shared.lane[0], pkts), 0);
    assert_int_equal(receive(shared.peer, pkts), 1);
    nic_release(shared.peer, pkts, 1);
    narrow.allowance = 1; /* a frame wakes the sleeper as well */
    assert_int_equal(nic_wait(shared.lane[0], 5), 0);
    assert_int_equal(stat_of(shared.lane[1], "lane_wakes"), 2);
    assert_int_equal(receive(shared.peer, pkts), 1);
    nic_release(shared.peer, pkts, 1);
    close_fixture(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_get_to_their_lanes),
        cmocka_unit_test(discovery_is_copied_to_all_lanes),
        cmocka_unit_test(a_lane_without_a_queue_sends_through_another_lane),
        cmocka_unit_test(frames_between_lanes_are_in_transit),
        cmocka_unit_test(a_full_ring_drops_frames_of_its_lane_only),
        cmocka_unit_test(lost_fragments_are_counted),
        cmocka_unit_test(closing_empties_the_rings),
        cmocka_unit_test(frames_that_a_lane_holds_are_bounded),
        cmocka_unit_test(more_than_a_burst_is_released),
        cmocka_unit_test(right_placement_is_verified_and_trusted),
        cmocka_unit_test(wrong_placement_is_detected_and_corrected),
        cmocka_unit_test(trust_ends_in_all_queues),
        cmocka_unit_test(a_device_without_rss_is_not_verified),
        cmocka_unit_test(each_returned_frame_is_collected),
        cmocka_unit_test(other_protocols_are_verified_apart),
        cmocka_unit_test(a_device_with_fewer_queues_is_not_verified),
        cmocka_unit_test(a_lane_takes_from_both_its_sources),
        cmocka_unit_test(fragments_are_steered_together),
        cmocka_unit_test(threads_forward_frames_and_return_packets),
        cmocka_unit_test(a_sleeper_is_always_woken),
        cmocka_unit_test(no_lane_sleeps_on_what_it_waits_for),
        cmocka_unit_test(no_lane_sleeps_before_deferred_frames),
        cmocka_unit_test(a_copy_without_room_is_not_made),
        cmocka_unit_test(a_sleep_is_short_while_frames_wait_for_the_device),
        cmocka_unit_test(frames_that_wait_for_the_device_are_bounded),
        cmocka_unit_test(closing_releases_what_waits_in_a_lane),
        cmocka_unit_test(lanes_have_the_mtu_of_the_device),
        cmocka_unit_test(empties_supplied_at_once_are_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
