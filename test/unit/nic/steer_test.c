/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Software flow steering in one thread: each frame reaches the lane of its flow, packets return to
 * their queue, and a lane without a queue sends through another one.
 */
#include "nic/frag_steer.h"
#include "steer_rig.h"

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

static void send_part(struct fixture *f, uint16_t port, unsigned ident, bool is_first)
{
    struct us_pkt *pkt;

    assert_int_equal(nic_alloc(f->peer, &pkt, 1), 1);
    fill(pkt, port);
    pkt->data[19] = (uint8_t)ident;
    if (is_first)
        pkt->data[20] = 0x20; /* more fragments */
    else
        pkt->data[21] = 1; /* the second eight bytes */
    assert_int_equal(nic_tx_burst(f->peer, &pkt, 1), 1);
}

/* A fragment that is not the first one of its datagram. */
static void send_fragment(struct fixture *f, unsigned ident)
{
    send_part(f, 1, ident, false);
}

/* The lane of the first fragment gets all of the datagram, whichever comes first. */
static void fragments_get_to_the_lane_of_the_first_one(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct fixture f;
    uint16_t port = 1;
    unsigned i;

    while (lane_of_port(port, 2) != 1)
        port++;
    open_fixture(&f, 2, 0);
    for (i = 0; i < 2; i++) {
        send_part(&f, port, i, i == 0);
        send_part(&f, port, i, i == 1);
        assert_int_equal(receive(f.lane[0], pkts), 0);
        assert_int_equal(receive(f.lane[1], pkts), 2);
        nic_release(f.lane[1], pkts, 2);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_forwarded"), 4);
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
        send_fragment(&f, 0);
        assert_int_equal(receive(f.lane[0], pkts), 0);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_fragments_lost"), 3);
    for (i = 1; i <= NIC_FRAG_DATAGRAMS_MAX; i++) { /* other datagrams end the first one */
        send_fragment(&f, i);
        assert_int_equal(receive(f.lane[0], pkts), 0);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_fragments_lost"), NIC_FRAG_WAITING_MAX + 3);
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
    send_fragment(&f, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_get_to_their_lanes),
        cmocka_unit_test(discovery_is_copied_to_all_lanes),
        cmocka_unit_test(a_lane_without_a_queue_sends_through_another_lane),
        cmocka_unit_test(frames_between_lanes_are_in_transit),
        cmocka_unit_test(a_full_ring_drops_frames_of_its_lane_only),
        cmocka_unit_test(fragments_get_to_the_lane_of_the_first_one),
        cmocka_unit_test(lost_fragments_are_counted),
        cmocka_unit_test(closing_empties_the_rings),
        cmocka_unit_test(frames_that_a_lane_holds_are_bounded),
        cmocka_unit_test(more_than_a_burst_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
