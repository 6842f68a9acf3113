/* SPDX-License-Identifier: BSD-3-Clause */
/* AF_XDP: frames in both directions, the queues of an interface, and sleeps. */
#define _GNU_SOURCE /* unshare */
#include <fcntl.h>
#include <linux/if_tun.h>

#include "xdp_link.h"

#define TAP "xdp2"

/* ---- tests of frames --------------------------------------------------------------------- */

static struct {
    enum nic_xdp_mode mode;
    bool copy, busy_poll;
} modes[] = {{NIC_XDP_MODE_NATIVE, false, false},
             {NIC_XDP_MODE_GENERIC, false, false},
             {NIC_XDP_MODE_AUTO, true, false},
             {NIC_XDP_MODE_AUTO, false, true}};

/* Each buffer is used several times; all are there afterwards. */
static void frames_pass_in_both_directions(void **state)
{
    struct nic_xdp_config generic = config_make();
    struct us_pkt *none[1];
    unsigned i, round;
    struct nic *nic;

    generic.mode = NIC_XDP_MODE_GENERIC;
    if (skip_reason != NULL)
        skip();
    for (i = 0; i < U_ARRAY_LEN(modes); i++) {
        struct nic_xdp_config config = config_make();
        bool native = modes[i].mode != NIC_XDP_MODE_GENERIC;
        unsigned all;

        config.mode = modes[i].mode;
        config.copy = modes[i].copy;
        config.busy_poll = modes[i].busy_poll;
        set_gro(true);
        assert_int_equal(xdp_open(&config, 1, &nic), 1);
        assert_int_equal(stat_of(nic, "xdp_native"), native);
        assert_int_equal(stat_of(nic, "xdp_sockets"), QUEUES);
        assert_int_equal(stat_of(nic, "xdp_zero_copy"), 0);
        faults.drives = 0;
        assert_int_equal(nic_rx_burst(nic, none, 1), 0);
        assert_int_equal(faults.drives, modes[i].busy_poll ? QUEUES : 0); /* or an interrupt */
        assert_int_equal(gro(), native); /* generic: merged segments fit into no buffer */
        assert_int_equal(nic->close_needs_net_admin, !native);
        all = pkts_of(nic);
        assert_in_range(all, 2 * RING_FRAMES, 3 * RING_FRAMES);
        memset(seen, 0, sizeof(seen));
        for (round = 0; round < 60; round++) {
            peer_sends(round * NIC_BURST_MAX, NIC_BURST_MAX, FRAME_BYTES);
            receive(nic, NIC_BURST_MAX, FRAME_BYTES);
            assert_int_equal(stack_sends(nic, round * NIC_BURST_MAX, NIC_BURST_MAX), NIC_BURST_MAX);
            peer_receives(round * NIC_BURST_MAX, NIC_BURST_MAX);
        }
        assert_int_equal(stat_of(nic, "xdp_rx_frames"), 60 * NIC_BURST_MAX);
        assert_int_equal(stat_of(nic, "xdp_rx_bytes"), 60 * NIC_BURST_MAX * FRAME_BYTES);
        assert_int_equal(stat_of(nic, "xdp_tx_frames"), 60 * NIC_BURST_MAX);
        assert_int_equal(stat_of(nic, "xdp_tx_bytes"), 60 * NIC_BURST_MAX * FRAME_BYTES);
        assert_in_range(stat_of(nic, "xdp_tx_kicks"), 60, 60 * NIC_BURST_MAX);
        assert_int_equal(stat_of(nic, "xdp_rx_fill_short"), 0);
        assert_int_equal(stat_of(nic, "xdp_tx_full"), 0);
        assert_in_range(pkts_of(nic), all, all + QUEUES * 32); /* refilled in steps */
        nic_close(nic);
        assert_true(gro());
    }
    set_gro(false); /* as it was */
    assert_int_equal(xdp_open(&generic, 1, &nic), 1);
    assert_false(nic->close_needs_net_admin);
    nic_close(nic);
    assert_false(gro());
}

/* A frame that ends behind the small buffers, and one that fills a page. */
static void frames_of_the_largest_size_pass(void **state)
{
    static const unsigned mtus[] = {1500, 1774, 1775, 2030, 3822};
    struct nic_xdp_config config = config_make();
    struct nic *nic;
    unsigned i;

    if (skip_reason != NULL)
        skip();
    for (i = 0; i < U_ARRAY_LEN(mtus); i++) {
        (void)end(NULL);
        make_link(mtus[i]);
        assert_int_equal(xdp_open(&config, 1, &nic), 1);
        assert_int_equal(nic->mtu, mtus[i]);
        memset(seen, 0, sizeof(seen));
        peer_sends(0, 10, mtus[i] + 14);
        receive(nic, 10, mtus[i] + 14);
        nic_close(nic);
    }
    (void)end(NULL);
    make_link(3823);
    xdp_fails(&config, 1, "mtu 3822");
}

/* The pseudo header's sum in place of the checksum: the kernel of this machine computed no more. */
static void frames_of_this_machine_may_have_partial_checksums(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic_xdp_config config;
    uint8_t frame[FRAME_BYTES];
    struct nic *nic;
    unsigned i;

    if (skip_reason != NULL)
        skip();
    for (i = 0; i < 2; i++) {
        config = config_make();
        config.mode = i == 0 ? NIC_XDP_MODE_NATIVE : NIC_XDP_MODE_GENERIC;
        assert_int_equal(xdp_open(&config, 1, &nic), 1);
        make_frame(frame, 1, FRAME_BYTES);
        frame[40] = 0x14; /* 10.0.0.10, 10.0.0.20, 17, 26 bytes: 0x1449 */
        frame[41] = 0x49;
        assert_int_equal(write(peer, frame, FRAME_BYTES), FRAME_BYTES);
        while (nic_rx_burst(nic, pkts, NIC_BURST_MAX) == 0)
            assert_int_equal(nic_wait(nic, HOUR_US), 0);
        assert_int_equal(pkts[0]->flags, US_PKT_L4_CSUM_GOOD);
        nic_release(nic, pkts, 1);
        nic_close(nic);
    }
}

/* Opens the host's side of a TAP device: frames that are written to it arrive there. */
static int make_tap(void)
{
    struct ifreq request = {.ifr_name = TAP, .ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0) {
        ip("link set " TAP " up");
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Frames in native mode have complete checksums; in generic mode they may be partial. */
static void frames_of_a_driver_have_complete_checksums(void **state)
{
    struct nic_xdp_config config = config_make();
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint8_t frame[FRAME_BYTES];
    struct nic *nic;
    unsigned i;
    int tap;

    if (skip_reason != NULL)
        skip();
    tap = make_tap();
    if (tap < 0)
        skip(); /* no TAP devices here */
    config.dev = TAP;
    make_frame(frame, 1, FRAME_BYTES);
    frame[40] = 0x14; /* as in the test before */
    frame[41] = 0x49;
    for (i = 0; i < 2; i++) {
        config.mode = i == 0 ? NIC_XDP_MODE_NATIVE : NIC_XDP_MODE_GENERIC;
        assert_int_equal(xdp_open(&config, 2, &nic), 1);
        assert_int_equal(stat_of(nic, "xdp_sockets"), 1);
        assert_int_equal(write(tap, frame, FRAME_BYTES), FRAME_BYTES);
        while (nic_rx_burst(nic, pkts, NIC_BURST_MAX) == 0)
            assert_int_equal(nic_wait(nic, HOUR_US), 0);
        assert_int_equal(pkts[0]->flags, i == 0 ? 0 : US_PKT_L4_CSUM_GOOD);
        nic_release(nic, pkts, 1);
        nic_close(nic);
    }
    close(tap);
}

/* More frames than there are buffers: the kernel drops and counts the others. */
static void a_flood_is_dropped_and_counted(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic_xdp_config config = config_make();
    unsigned n, received = 0, dropped;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    peer_sends(0, 4 * RING_FRAMES, FRAME_BYTES);
    assert_int_equal(nic_wait(nic, HOUR_US), 0);
    assert_in_range(stat_of(nic, "xdp_rx_dropped"), 1, 4 * RING_FRAMES);
    assert_in_range(stat_of(nic, "xdp_rx_fill_empty"), 1, 4 * RING_FRAMES);
    while ((n = nic_rx_burst(nic, pkts, NIC_BURST_MAX)) > 0) {
        nic_release(nic, pkts, n);
        received += n;
    }
    assert_in_range(received, RING_FRAMES, 4 * RING_FRAMES - 1);
    dropped = (unsigned)(stat_of(nic, "xdp_rx_dropped") + stat_of(nic, "xdp_rx_ring_full") +
                         stat_of(nic, "xdp_rx_fill_empty"));
    assert_in_range(dropped, 4 * RING_FRAMES - received, 8 * RING_FRAMES);
    memset(seen, 0, sizeof(seen));
    peer_sends(0, NIC_BURST_MAX, FRAME_BYTES);
    receive(nic, NIC_BURST_MAX, FRAME_BYTES);
    nic_close(nic);
}

/* The stack holds all buffers: frames come as long as the kernel has some, and again afterwards. */
static void held_buffers_are_missed_by_the_kernel(void **state)
{
    static struct us_pkt *held[PKTS_MAX];
    struct nic_xdp_config config = config_make();
    unsigned count = 0, n;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    while ((n = nic_alloc(nic, held + count, NIC_BURST_MAX)) > 0)
        count += n;
    memset(seen, 0, sizeof(seen));
    for (n = 0; n < 4; n++) { /* their buffers are released too late for the ring */
        peer_sends(n * NIC_BURST_MAX, NIC_BURST_MAX, FRAME_BYTES);
        receive(nic, NIC_BURST_MAX, FRAME_BYTES);
    }
    assert_in_range(stat_of(nic, "xdp_rx_fill_short"), 1, 4 * NIC_BURST_MAX);
    nic_release(nic, held, count);
    for (; n < 40 * RING_FRAMES / NIC_BURST_MAX; n++) { /* each buffer many times */
        peer_sends(n * NIC_BURST_MAX, NIC_BURST_MAX, FRAME_BYTES);
        receive(nic, NIC_BURST_MAX, FRAME_BYTES);
    }
    nic_close(nic);
}

/* Too few buffers for a step of refilling: the kernel gets these, and later as many as it may. */
static void a_shortage_of_buffers_ends(void **state)
{
    enum { ROUNDS = 4, LEFT = 5 };
    static struct us_pkt *held[PKTS_MAX];
    struct nic_xdp_config config = config_make();
    unsigned all, count, round, n;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    (void)end(NULL);
    make_link_of(1500, 1);
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    all = pkts_of(nic);
    for (round = 0; round < ROUNDS; round++) {
        for (count = 0; (n = nic_alloc(nic, held + count, NIC_BURST_MAX)) > 0; count += n)
            continue;
        count -= LEFT;
        nic_release(nic, held + count, LEFT);
        peer_sends(0, NIC_BURST_MAX, FRAME_BYTES);
        for (n = 0; n < NIC_BURST_MAX;) {
            unsigned got = nic_rx_burst(nic, held + count + n, NIC_BURST_MAX - n);

            n += got;
            if (got == 0)
                assert_int_equal(nic_wait(nic, HOUR_US), 0);
        }
        nic_release(nic, held, count + n);
    }
    memset(seen, 0, sizeof(seen));
    peer_sends(0, 1, FRAME_BYTES);
    receive(nic, 1, FRAME_BYTES);
    assert_in_range(pkts_of(nic), all, all + 31); /* the kernel has the others */
    nic_close(nic);
}

/* The interface is down: frames wait in the ring up to its size, and are sent when it is up. */
static void frames_wait_while_the_link_is_down(void **state)
{
    struct nic_xdp_config config = config_make();
    struct us_pkt *none[1];
    unsigned sent = 0, all, n;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    all = pkts_of(nic);
    ip("link set " DEVICE " down");
    while ((n = stack_sends(nic, sent, NIC_BURST_MAX - 1)) > 0)
        sent += n;
    assert_int_equal(sent, RING_FRAMES); /* of the last burst a part */
    assert_int_equal(stat_of(nic, "xdp_tx_full"), 2);
    assert_int_equal(pkts_of(nic), all - sent);
    ip("link set " DEVICE " up");
    assert_int_equal(nic_rx_burst(nic, none, 1), 0);
    assert_int_equal(nic_rx_burst(nic, none, 1), 0);
    peer_receives(0, sent);
    assert_int_equal(pkts_of(nic), all);
    assert_int_equal(stack_sends(nic, 0, 1), 1);
    peer_receives(0, 1);
    nic_close(nic);
}

/* The kernel sends nothing beyond a buffer. */
static void a_frame_beyond_its_buffer_is_counted(void **state)
{
    struct nic_xdp_config config = config_make();
    struct us_pkt *pkt;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    pkt->len = 3000;
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    assert_int_equal(stat_of(nic, "xdp_tx_invalid"), 1);
    assert_int_equal(stack_sends(nic, 7, 1), 1);
    peer_receives(7, 1);
    nic_close(nic);
}

/* A driver that sends and fills by itself says so in the rings, and asks again when it sleeps. */
static void the_kernel_is_called_when_it_asks_for_it(void **state)
{
    struct nic_xdp_config config = config_make();
    struct us_pkt *none[1];
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    *faults.tx->flags = 0;
    assert_int_equal(stack_sends(nic, 0, 1), 1);
    assert_int_equal(nic_rx_burst(nic, none, 1), 0);
    assert_int_equal(stat_of(nic, "xdp_tx_kicks"), 0);
    *faults.tx->flags = XDP_RING_NEED_WAKEUP;
    assert_int_equal(stack_sends(nic, 1, 1), 1);
    assert_in_range(stat_of(nic, "xdp_tx_kicks"), 1, 32);
    peer_receives(0, 2);
    assert_int_equal(faults.drives, 0);
    *faults.fill->flags = XDP_RING_NEED_WAKEUP;
    assert_int_equal(nic_rx_burst(nic, none, 1), 0);
    assert_int_equal(faults.drives, QUEUES - 1);
    nic_close(nic);
}

/* ---- queues ------------------------------------------------------------------------------ */

/* One thread for each queue, or fewer, which share them; never more than queues. */
static void every_queue_of_the_interface_is_served(void **state)
{
    struct nic_xdp_config config = config_make();
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic *nic[4];
    unsigned counts[QUEUES] = {0};
    unsigned i, n;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 4, nic), QUEUES);
    for (i = 0; i < QUEUES; i++) {
        assert_int_equal(nic[i]->queue, i);
        assert_int_equal(nic[i]->queues, QUEUES);
        assert_int_equal(stat_of(nic[i], "xdp_sockets"), 1);
    }
    memset(seen, 0, sizeof(seen));
    peer_sends(0, 4 * NIC_BURST_MAX, FRAME_BYTES);
    for (n = 0; n < 4 * NIC_BURST_MAX;) {
        for (i = 0; i < QUEUES; i++) {
            unsigned got = nic_rx_burst(nic[i], pkts, NIC_BURST_MAX);

            check(pkts, got, FRAME_BYTES);
            nic_release(nic[i], pkts, got);
            counts[i] += got;
            n += got;
        }
    }
    for (i = 0; i < QUEUES; i++) {
        assert_in_range(counts[i], 1, 4 * NIC_BURST_MAX - 1); /* the sender spreads the flows */
        assert_int_equal(stat_of(nic[i], "xdp_rx_frames"), counts[i]);
    }
    nic_close(nic[0]); /* not the other */
    assert_int_equal(stack_sends(nic[1], 0, 1), 1);
    peer_receives(0, 1);
    nic_close(nic[1]);
}

/* Frames in the receive ring of a queue. */
static unsigned waiting(unsigned queue)
{
    return *faults.rx[queue]->producer - *faults.rx[queue]->consumer;
}

/* Bursts begin with each queue in turn. */
static void queues_take_turns(void **state)
{
    enum { FRAMES = 4 * NIC_BURST_MAX, BURST = 4 };
    struct nic_xdp_config config = config_make();
    unsigned before[QUEUES], taken[QUEUES] = {0};
    struct us_pkt *pkts[BURST];
    struct nic *nic;
    unsigned i, queue;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    peer_sends(0, FRAMES, FRAME_BYTES); /* the sender spreads the flows */
    while (waiting(0) + waiting(1) < FRAMES)
        sched_yield();
    for (i = 0; i < QUEUES; i++) {
        for (queue = 0; queue < QUEUES; queue++)
            before[queue] = waiting(queue);
        assert_int_equal(nic_rx_burst(nic, pkts, BURST), BURST);
        nic_release(nic, pkts, BURST);
        for (queue = 0; queue < QUEUES; queue++)
            taken[queue] += before[queue] - waiting(queue);
    }
    for (queue = 0; queue < QUEUES; queue++)
        assert_int_equal(taken[queue], BURST);
    nic_close(nic);
}

/* ---- sleeping ---------------------------------------------------------------------------- */

static void a_wake_a_frame_or_the_end_of_the_device_ends_a_sleep(void **state)
{
    struct nic_xdp_config config = config_make();
    unsigned i;
    struct nic *nic;

    if (skip_reason != NULL)
        skip();
    assert_int_equal(xdp_open(&config, 1, &nic), 1);
    nic_wake(nic);
    assert_int_equal(nic_wait(nic, HOUR_US), 0);
    memset(seen, 0, sizeof(seen));
    for (i = 0; i < 20; i++) { /* of either queue */
        peer_sends(i, 1, FRAME_BYTES);
        assert_int_equal(nic_wait(nic, HOUR_US), 0);
        receive(nic, 1, FRAME_BYTES);
    }
    ip("link del " DEVICE);
    assert_int_equal(nic_wait(nic, 0), 0); /* looks once per second */
    faults.now_us += 999999;
    assert_int_equal(nic_wait(nic, 0), 0);
    faults.now_us += 1;
    assert_int_equal(nic_wait(nic, 0), -ENODEV);
    assert_int_equal(nic_wait(nic, 0), -ENODEV);
    assert_int_equal(nic_mtu(nic), 1500); /* the last known */
    nic_close(nic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frames_pass_in_both_directions),
        TEST(frames_of_the_largest_size_pass),
        TEST(frames_of_this_machine_may_have_partial_checksums),
        TEST(frames_of_a_driver_have_complete_checksums),
        TEST(a_flood_is_dropped_and_counted),
        TEST(held_buffers_are_missed_by_the_kernel),
        TEST(a_shortage_of_buffers_ends),
        TEST(frames_wait_while_the_link_is_down),
        TEST(a_frame_beyond_its_buffer_is_counted),
        TEST(the_kernel_is_called_when_it_asks_for_it),
        TEST(every_queue_of_the_interface_is_served),
        TEST(queues_take_turns),
        TEST(a_wake_a_frame_or_the_end_of_the_device_ends_a_sleep),
    };

    return RUN_TESTS(tests);
}
