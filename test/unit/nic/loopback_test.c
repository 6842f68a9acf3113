/* SPDX-License-Identifier: BSD-3-Clause */
/* The loopback link: order, limits, and the return of all packets. */
#include <stdlib.h>

#include "nic/pool.h"
#include "nic_testing.h"

static void open_loop(uint32_t mtu, unsigned queue_frames, struct nic *ends[2])
{
    struct nic_loopback_config config = {.mtu = mtu, .queue_frames = queue_frames};
    char error[NIC_ERROR_MAX];

    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
}

static void close_loop(struct nic *ends[2])
{
    nic_close(ends[0]);
    nic_close(ends[1]);
}

static void has_defaults(void **state)
{
    struct nic *ends[2];

    open_loop(0, 0, ends);
    assert_int_equal(ends[0]->mtu, 1500);
    assert_int_equal(ends[1]->mtu, 1500);
    assert_int_equal(ends[0]->caps, 0);
    assert_memory_not_equal(ends[0]->mac, ends[1]->mac, 6);
    assert_int_equal(ends[0]->mac[0], 0x02);
    assert_int_equal(nic_wait(ends[0], UINT64_MAX), 0);
    nic_wake(ends[0]);
    close_loop(ends);
}

static void refuses_what_is_out_of_range(void **state)
{
    static const struct nic_loopback_config configs[] = {
        {.mtu = NIC_MTU_MIN - 1}, {.mtu = NIC_MTU_MAX + 1}, {.queue_frames = 65537}};
    struct nic *ends[2];
    unsigned i;

    for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        char error[NIC_ERROR_MAX] = "";

        assert_int_equal(nic_loopback_open(&configs[i], ends, error), -1);
        assert_non_null(strstr(error, "loop: "));
    }
}

static void keeps_order_and_bytes_both_ways(void **state)
{
    struct nic *ends[2];
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint32_t sent = 0, received = 0;
    unsigned round, i, n;

    open_loop(0, 0, ends);
    for (round = 0; round < 100; round++) {
        struct nic *from = ends[round / 50];
        struct nic *to = ends[1 - round / 50];

        for (i = 0; i < 1 + round % 50; i++) {
            assert_int_equal(send_frame(from, sent, FRAME_MIN_BYTES + sent % 1400), 1);
            sent++;
        }
        assert_int_equal(nic_rx_burst(from, pkts, NIC_BURST_MAX), 0);
        while ((n = nic_rx_burst(to, pkts, 7)) > 0) {
            for (i = 0; i < n; i++, received++) {
                assert_int_equal(frame_number(pkts[i]), received);
                assert_int_equal(pkts[i]->len, FRAME_MIN_BYTES + received % 1400);
                assert_int_equal(wrong_bits(pkts[i], received), 0);
            }
            nic_release(to, pkts, n);
        }
    }
    assert_int_equal(received, sent);
    assert_int_equal(stat_of(ends[0], "loop_tx_frames") + stat_of(ends[1], "loop_tx_frames"), sent);
    assert_int_equal(stat_of(ends[0], "loop_rx_bytes"), stat_of(ends[1], "loop_tx_bytes"));
    assert_int_equal(stat_of(ends[0], "loop_pool_in_use"), 0);
    close_loop(ends);
}

static void a_full_queue_drops_and_counts(void **state)
{
    struct nic *ends[2];
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint32_t i;

    open_loop(0, 3, ends);
    for (i = 0; i < 10; i++)
        assert_int_equal(send_frame(ends[0], i, 60), 1);
    assert_int_equal(stat_of(ends[0], "loop_tx_frames"), 3);
    assert_int_equal(stat_of(ends[0], "loop_tx_drops"), 7);
    assert_int_equal(nic_rx_burst(ends[1], pkts, NIC_BURST_MAX), 3);
    for (i = 0; i < 3; i++)
        assert_int_equal(frame_number(pkts[i]), i);
    nic_release(ends[1], pkts, 3);
    assert_int_equal(send_frame(ends[0], 10, 60), 1);
    assert_int_equal(nic_rx_burst(ends[1], pkts, NIC_BURST_MAX), 1);
    nic_release(ends[1], pkts, 1);
    assert_int_equal(stat_of(ends[1], "loop_pool_in_use"), 0);
    close_loop(ends);
}

static void the_largest_frame_passes_and_no_larger(void **state)
{
    struct nic *ends[2];
    struct us_pkt *pkt;
    uint32_t mtu = NIC_MTU_MAX;

    open_loop(mtu, 0, ends);
    assert_int_equal(send_frame(ends[0], 1, mtu + 14), 1);
    assert_int_equal(send_frame(ends[0], 2, mtu + 15), 1);
    assert_int_equal(nic_alloc(ends[0], &pkt, 1), 1);
    pkt->len = 13;
    assert_int_equal(nic_tx_burst(ends[0], &pkt, 1), 1);
    assert_int_equal(stat_of(ends[0], "loop_tx_errors"), 2);
    assert_int_equal(nic_rx_burst(ends[1], &pkt, 1), 1);
    assert_int_equal(pkt->len, mtu + 14);
    assert_int_equal(wrong_bits(pkt, 1), 0);
    nic_release(ends[1], &pkt, 1);
    assert_int_equal(nic_rx_burst(ends[1], &pkt, 1), 0);
    close_loop(ends);
}

static void flags_do_not_travel(void **state)
{
    struct nic *ends[2];
    struct us_pkt *pkt;

    open_loop(0, 0, ends);
    assert_int_equal(nic_alloc(ends[0], &pkt, 1), 1);
    fill_frame(pkt, 1, 60);
    pkt->flags = US_PKT_TX_L4_CSUM | US_PKT_L4_CSUM_GOOD;
    nic_tx_burst(ends[0], &pkt, 1);
    assert_int_equal(nic_rx_burst(ends[1], &pkt, 1), 1);
    assert_int_equal(pkt->flags, 0);
    nic_release(ends[1], &pkt, 1);
    close_loop(ends);
}

/* With both queues full, each end can still allocate a burst, and no more. */
static void exhaustion_is_counted(void **state)
{
    enum { QUEUE = 64, ALL = 2 * QUEUE + 4 * NIC_BURST_MAX };
    struct nic *ends[2];
    struct us_pkt *pkts[ALL + 1];
    unsigned i;

    open_loop(0, QUEUE, ends);
    for (i = 0; i < QUEUE; i++) {
        send_frame(ends[0], i, 60);
        send_frame(ends[1], i, 60);
    }
    assert_int_equal(nic_alloc(ends[0], pkts, ALL - 2 * QUEUE), ALL - 2 * QUEUE);
    assert_int_equal(stat_of(ends[0], "loop_pool_exhausted"), 0);
    assert_int_equal(nic_alloc(ends[1], pkts + ALL - 2 * QUEUE, 1), 0);
    assert_int_equal(stat_of(ends[0], "loop_pool_exhausted"), 1);
    nic_release(ends[1], pkts, ALL - 2 * QUEUE);
    assert_int_equal(stat_of(ends[0], "loop_pool_in_use"), 2 * QUEUE);
    close_loop(ends);
}

static void sending_to_a_closed_end_drops(void **state)
{
    struct nic *ends[2];

    open_loop(0, 0, ends);
    assert_int_equal(send_frame(ends[0], 1, 60), 1);
    nic_close(ends[1]);
    assert_int_equal(stat_of(ends[0], "loop_pool_in_use"), 0);
    assert_int_equal(send_frame(ends[0], 2, 60), 1);
    assert_int_equal(stat_of(ends[0], "loop_tx_drops"), 1);
    assert_int_equal(stat_of(ends[0], "loop_pool_in_use"), 0);
    nic_close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_defaults),
        cmocka_unit_test(refuses_what_is_out_of_range),
        cmocka_unit_test(keeps_order_and_bytes_both_ways),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(the_largest_frame_passes_and_no_larger),
        cmocka_unit_test(flags_do_not_travel),
        cmocka_unit_test(exhaustion_is_counted),
        cmocka_unit_test(sending_to_a_closed_end_drops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
