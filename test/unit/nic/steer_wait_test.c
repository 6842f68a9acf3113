/* SPDX-License-Identifier: BSD-3-Clause */
/* Software flow steering over a device whose waits are recorded. */
#include "narrow_device.h"
#include "steer_rig.h"

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

/* The first fragment comes last, and its receiver has room for one frame: two are left. */
static void defer_two(struct fixture *f)
{
    struct us_pkt *pkt;
    unsigned i;

    for (i = 3; i-- > 0;) {
        assert_int_equal(nic_alloc(f->peer, &pkt, 1), 1);
        fill(pkt, 1);
        pkt->data[20] = 0x20;       /* more fragments */
        pkt->data[21] = (uint8_t)i; /* the offset */
        assert_int_equal(nic_tx_burst(f->peer, &pkt, 1), 1);
        assert_int_equal(nic_rx_burst(f->lane[0], &pkt, 1), i == 0);
    }
    nic_release(f->lane[0], &pkt, 1);
}

/* No lane sleeps before it has received all that its fragments have released. */
static void no_lane_sleeps_before_deferred_frames(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;

    open_narrow(&f, &narrow, 1);
    defer_two(&f);
    assert_true(nic_has_in_transit(f.lane[0]));
    narrow.waited_us = 0;
    assert_int_equal(nic_wait(f.lane[0], 5), 0);
    assert_int_equal(narrow.waited_us, 0);
    assert_int_equal(nic_rx_burst(f.lane[0], pkts, 1), 1); /* one at a time: both, in order */
    assert_int_equal(nic_rx_burst(f.lane[0], pkts + 1, 1), 1);
    assert_int_equal(pkts[0]->data[21], 1);
    assert_int_equal(pkts[1]->data[21], 0);
    assert_false(nic_has_in_transit(f.lane[0]));
    nic_release(f.lane[0], pkts, 2);
    assert_int_equal(nic_wait(f.lane[0], 5), 0);
    assert_int_equal(narrow.waited_us, 5);
    close_fixture(&f);
}

/* A device that verifies checksums. */
static unsigned receive_verified(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    n = narrow_rx_burst(nic, pkts, n);
    for (i = 0; i < n; i++)
        pkts[i]->flags = US_PKT_L4_CSUM_GOOD;
    return n;
}

/* A frame for all lanes is copied whole, with what the device knows of it, or not at all. */
static void a_copy_is_like_the_frame(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct nic_ops ops;
    struct fixture f;
    unsigned fits;

    for (fits = 0; fits < 2; fits++) {
        open_narrow(&f, &narrow, 2);
        ops = *narrow.nic.ops;
        ops.rx_burst = receive_verified;
        narrow.nic.ops = &ops;
        narrow.room = FRAME_LEN - 1 + fits;
        assert_true(send_port(f.peer, 0));
        assert_int_equal(receive(f.lane[0], pkts), 1);
        nic_release(f.lane[0], pkts, 1);
        assert_int_equal(receive(f.lane[1], pkts), fits);
        if (fits == 1) {
            assert_int_equal(pkts[0]->flags, US_PKT_L4_CSUM_GOOD);
            nic_release(f.lane[1], pkts, 1);
        }
        assert_int_equal(stat_of(f.lane[0], "lane_copies_lost"), 1 - fits);
        close_fixture(&f);
    }
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

/* When the device accepts a part of the waiting frames the rest follows in order, once. */
static void frames_that_wait_for_the_device_stay_in_order(void **state)
{
    enum { FRAMES = 9, ACCEPTED = 2 };
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;
    unsigned sent, i;

    open_narrow(&f, &narrow, 2);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
    for (i = 1; i <= FRAMES; i++)
        assert_true(send_port(f.lane[1], (uint16_t)i));
    for (sent = 0; sent < FRAMES; sent += i) {
        narrow.allowance = ACCEPTED;
        assert_int_equal(receive(f.lane[0], pkts), 0);
        i = u_min32(ACCEPTED, FRAMES - sent);
        assert_int_equal(receive(f.peer, pkts), i);
        assert_int_equal(port_of(pkts[0]), sent + 1);
        assert_int_equal(port_of(pkts[i - 1]), sent + i);
        nic_release(f.peer, pkts, i);
    }
    assert_int_equal(stat_of(f.lane[0], "lane_sent_for_others"), FRAMES);
    close_fixture(&f);
}

/* A lane holds as many frames and empty packets as it can get, and returns all before a turn. */
static void a_lane_can_return_all_that_it_holds(void **state)
{
    static struct us_pkt *held[PKTS_MAX];
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned frames = 0, count, n, i;
    struct narrow narrow;
    struct fixture f;
    uint16_t port = 1;

    open_narrow(&f, &narrow, 2);
    narrow.alloc_refused = UINT32_MAX;
    for (; stat_of(f.lane[0], "lane_ring_full") == 0; port++) {
        if (lane_of_port(port, 2) != 1)
            continue;
        assert_true(send_port(f.peer, port));
        assert_int_equal(receive(f.lane[0], pkts), 0);
        frames += nic_rx_burst(f.lane[1], held + frames, 1);
    }
    assert_true(frames > NIC_STEER_RING_FRAMES);
    narrow.alloc_refused = 0;
    for (count = frames; count < frames + 2 * NIC_BURST_MAX; count += n) {
        assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
        n = nic_alloc(f.lane[1], held + count, NIC_BURST_MAX);
        assert_true(n > 0);
    }
    for (i = 0; i < count; i += n) {
        n = u_min32(count - i, NIC_BURST_MAX);
        nic_release(f.lane[1], held + i, n);
    }
    assert_int_equal(receive(f.lane[0], pkts), 0); /* collects them */
    assert_true(send_port(f.peer, port) && send_port(f.lane[1], port));
    close_fixture(&f);
}

/* Close with frames that the device has not accepted, and with ones beyond the last burst. */
static void closing_releases_what_waits_in_a_lane(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct narrow narrow;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    assert_int_equal(receive(f.lane[0], pkts), 0); /* supplies empties */
    assert_true(send_port(f.lane[1], 1));
    assert_int_equal(receive(f.lane[0], pkts), 0); /* the device accepts nothing */
    close_fixture(&f);

    open_narrow(&f, &narrow, 1);
    defer_two(&f);
    close_fixture(&f);
}

/* The MTU of the interface may change while it is open. */
static void lanes_have_the_mtu_of_the_device(void **state)
{
    struct narrow narrow;
    struct fixture f;

    open_narrow(&f, &narrow, 2);
    narrow.mtu_now = 1400;
    assert_int_equal(nic_mtu(f.lane[0]), 1400);
    assert_int_equal(nic_mtu(f.lane[1]), 1400);
    close_fixture(&f);
}

static struct fixture shared; /* with the functions of the device */

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
        cmocka_unit_test(no_lane_sleeps_before_deferred_frames),
        cmocka_unit_test(a_copy_is_like_the_frame),
        cmocka_unit_test(a_sleep_is_short_while_frames_wait_for_the_device),
        cmocka_unit_test(frames_that_wait_for_the_device_are_bounded),
        cmocka_unit_test(frames_that_wait_for_the_device_stay_in_order),
        cmocka_unit_test(a_lane_can_return_all_that_it_holds),
        cmocka_unit_test(closing_releases_what_waits_in_a_lane),
        cmocka_unit_test(lanes_have_the_mtu_of_the_device),
        cmocka_unit_test(empties_supplied_at_once_are_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
