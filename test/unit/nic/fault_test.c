/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault device: rates, conservation of frames, limits of reordering, and determinism by the
 * seed. Numbered frames pass through it in one direction; the other end is a loopback end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "narrow_device.h"
#include "nic_testing.h"

#define FRAMES 20000
#define DELIVERED_MAX (2 * FRAMES)
#define FRAME_BYTES 64

enum way { TX, RX };

/*
 * The received frames in order. A corrupted frame is identified by its number; its wrong bits are
 * counted.
 */
struct outcome {
    uint32_t numbers[DELIVERED_MAX];
    uint8_t wrong_bits[DELIVERED_MAX];
    unsigned count;
    uint64_t lost, duplicated, reordered, corrupted;
};

static struct nic *open_fault(struct nic *lower, const struct nic_fault_config *config)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *nic = lower;

    assert_int_equal(nic_fault_open(&nic, 1, config, error), 0);
    assert_string_equal(error, "");
    assert_ptr_not_equal(nic, lower);
    return nic;
}

static void open_pair(const struct nic_fault_config *config, struct nic **fault, struct nic **peer)
{
    struct nic_loopback_config loop_config = {0};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX];

    assert_int_equal(nic_loopback_open(&loop_config, ends, error), 0);
    *fault = open_fault(ends[0], config);
    *peer = ends[1];
}

/*
 * The number of a frame with at most one wrong bit: frames are sent in order, so it is near the
 * last number, and is the one with the fewest wrong bits.
 */
static uint32_t best_number(const struct us_pkt *pkt, uint32_t sent, unsigned *bits)
{
    uint32_t number, best = 0;

    *bits = 8 * FRAME_BYTES;
    for (number = sent > 200 ? sent - 200 : 0; number < sent; number++) {
        unsigned wrong = wrong_bits(pkt, number);

        if (wrong < *bits) {
            *bits = wrong;
            best = number;
        }
    }
    return best;
}

static void note_frames(struct outcome *outcome, struct nic *from, uint32_t sent)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n, i;

    while ((n = nic_rx_burst(from, pkts, NIC_BURST_MAX)) > 0) {
        for (i = 0; i < n; i++) {
            uint32_t number = frame_number(pkts[i]);
            unsigned bits = 0;

            assert_int_equal(pkts[i]->len, FRAME_BYTES);
            if (number >= sent || wrong_bits(pkts[i], number) > 0)
                number = best_number(pkts[i], sent, &bits);
            assert_true(outcome->count < DELIVERED_MAX);
            outcome->wrong_bits[outcome->count] = (uint8_t)bits;
            outcome->numbers[outcome->count++] = number;
        }
        nic_release(from, pkts, n);
    }
}

/* A counter of the direction under test. */
static uint64_t way_stat(struct nic *fault, enum way way, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "fault_%s_%s", way == TX ? "tx" : "rx", what);
    return stat_of(fault, name);
}

/* Sends all frames in bursts of varying size, and waits until none is held. */
static struct outcome *run(const struct nic_fault_config *config, enum way way)
{
    struct outcome *outcome = calloc(1, sizeof(*outcome));
    struct nic *fault, *peer, *from, *to;
    uint32_t sent = 0;
    unsigned burst, i;

    assert_non_null(outcome);
    open_pair(config, &fault, &peer);
    from = way == TX ? fault : peer;
    to = way == TX ? peer : fault;
    for (burst = 1; sent < FRAMES; burst = burst % 40 + 1) {
        for (i = 0; i < burst && sent < FRAMES; i++)
            assert_int_equal(send_frame(from, sent++, FRAME_BYTES), 1);
        note_frames(outcome, to, sent);
    }
    for (i = 0; i < 10; i++) {
        assert_int_equal(nic_wait(fault, 1000), 0);
        note_frames(outcome, to, sent);
    }
    assert_int_equal(stat_of(fault, "loop_pool_in_use"), 0);

    assert_int_equal(way_stat(fault, way, "frames"), FRAMES);
    outcome->lost = way_stat(fault, way, "lost");
    outcome->duplicated = way_stat(fault, way, "duplicated");
    outcome->reordered = way_stat(fault, way, "reordered");
    outcome->corrupted = way_stat(fault, way, "corrupted");
    nic_close(fault);
    nic_close(peer);
    return outcome;
}

/* Sent = delivered - duplicated + lost, frame by frame. */
static void check_conservation(const struct outcome *outcome)
{
    static uint8_t copies[FRAMES];
    uint64_t missing = 0, twice = 0, bits = 0;
    unsigned i;

    memset(copies, 0, sizeof(copies));
    for (i = 0; i < outcome->count; i++) {
        assert_true(outcome->wrong_bits[i] <= 1);
        bits += outcome->wrong_bits[i];
        copies[outcome->numbers[i]]++;
    }
    for (i = 0; i < FRAMES; i++) {
        assert_true(copies[i] <= 2);
        missing += copies[i] == 0;
        twice += copies[i] == 2;
    }
    assert_int_equal(missing, outcome->lost);
    assert_int_equal(twice, outcome->duplicated);
    assert_int_equal(bits, outcome->corrupted);
    assert_int_equal(outcome->count, FRAMES - outcome->lost + outcome->duplicated);
}

/* The position of each frame among those not lost, in send order. */
static void rank_survivors(const struct outcome *outcome, uint32_t ranks[FRAMES])
{
    uint32_t next_rank = 0;
    unsigned i;

    memset(ranks, 0, FRAMES * sizeof(*ranks));
    for (i = 0; i < outcome->count; i++)
        ranks[outcome->numbers[i]] = 1;
    for (i = 0; i < FRAMES; i++)
        if (ranks[i] == 1)
            ranks[i] = next_rank++;
}

/* No frame is overtaken by more than the next four frames. Returns how many were overtaken. */
static unsigned check_reordering(const struct outcome *outcome)
{
    static uint32_t ranks[FRAMES];
    uint32_t newest = 0;
    unsigned late = 0, i;

    rank_survivors(outcome, ranks);
    for (i = 0; i < outcome->count; i++) {
        uint32_t rank = ranks[outcome->numbers[i]];

        assert_true(rank + 4 >= newest);
        late += rank < newest;
        newest = rank > newest ? rank : newest;
    }
    return late;
}

/* Within five standard deviations of the binomial distribution, about. */
static void check_rate(uint64_t count, uint64_t of, uint32_t ppm)
{
    double expected = (double)of * ppm / 1e6;
    double difference = (double)count - expected;

    assert_true(difference * difference <= 25 * (expected + 1));
}

static void without_faults_nothing_changes(void **state)
{
    struct nic_fault_config config = {.seed = 1};
    enum way way;

    for (way = TX; way <= RX; way++) {
        struct outcome *outcome = run(&config, way);
        unsigned i;

        assert_int_equal(outcome->count, FRAMES);
        for (i = 0; i < FRAMES; i++)
            assert_int_equal(outcome->numbers[i], i);
        check_conservation(outcome);
        free(outcome);
    }
}

static void each_fault_has_its_rate(void **state)
{
    static const struct nic_fault_config configs[] = {
        {.seed = 2, .loss_ppm = 50000},
        {.seed = 3, .duplicate_ppm = 20000},
        {.seed = 4, .reorder_ppm = 50000},
        {.seed = 5, .corrupt_ppm = 10000},
        {.seed = 6, 100000, 100000, 100000, 10000},
        {.seed = 7, .reorder_ppm = 1000000},
        {.seed = 8, .duplicate_ppm = 1000000, .reorder_ppm = 500000},
    };
    unsigned i;
    enum way way;

    for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
        for (way = TX; way <= RX; way++) {
            const struct nic_fault_config *config = &configs[i];
            struct outcome *outcome = run(config, way);
            uint64_t left = FRAMES - outcome->lost;

            check_conservation(outcome);
            check_rate(outcome->lost, FRAMES, config->loss_ppm);
            check_rate(outcome->duplicated, left, config->duplicate_ppm);
            check_rate(outcome->reordered, left, config->reorder_ppm);
            check_rate(outcome->corrupted, left, config->corrupt_ppm);
            assert_true((check_reordering(outcome) > 0) == (config->reorder_ppm > 0));
            free(outcome);
        }
}

static void loss_of_all_delivers_none(void **state)
{
    struct nic_fault_config config = {.seed = 1, .loss_ppm = 1000000};
    struct outcome *outcome = run(&config, TX);

    assert_int_equal(outcome->count, 0);
    assert_int_equal(outcome->lost, FRAMES);
    free(outcome);
}

static void faults_are_determined_by_the_seed(void **state)
{
    struct nic_fault_config config = {11, 50000, 50000, 50000, 10000};
    struct outcome *first, *again, *other, *back;

    first = run(&config, TX);
    again = run(&config, TX);
    back = run(&config, RX);
    config.seed = 12;
    other = run(&config, TX);
    assert_memory_equal(first, again, sizeof(*first));
    assert_memory_not_equal(first, other, sizeof(*first));
    assert_memory_not_equal(first, back, sizeof(*first));
    free(first);
    free(again);
    free(back);
    free(other);
}

/* The queues of a device have sequences of their own. */
static void queues_have_different_faults(void **state)
{
    struct nic_fault_config config = {.seed = 1, .loss_ppm = 500000};
    uint64_t delivered[2] = {0, 0};
    unsigned queue, i;

    for (queue = 0; queue < 2; queue++) {
        struct nic_loopback_config loop_config = {0};
        struct nic *ends[2];
        struct us_pkt *pkt;
        char error[NIC_ERROR_MAX];

        assert_int_equal(nic_loopback_open(&loop_config, ends, error), 0);
        ends[0]->queue = (uint16_t)queue;
        ends[0] = open_fault(ends[0], &config);
        for (i = 0; i < 64; i++) {
            send_frame(ends[0], i, 60);
            if (nic_rx_burst(ends[1], &pkt, 1) == 0)
                continue;
            delivered[queue] |= UINT64_C(1) << i;
            nic_release(ends[1], &pkt, 1);
        }
        nic_close(ends[0]);
        nic_close(ends[1]);
    }
    assert_true(delivered[0] != delivered[1]);
}

/* Every bit of a frame can be flipped. */
static void corruption_reaches_every_bit(void **state)
{
    struct nic_fault_config config = {.seed = 3, .corrupt_ppm = 1000000};
    static unsigned hits[8 * FRAME_MIN_BYTES];
    struct nic *fault, *peer;
    unsigned i, bit;

    open_pair(&config, &fault, &peer);
    for (i = 0; i < 20000; i++) {
        struct us_pkt *pkt;

        send_frame(fault, 0, FRAME_MIN_BYTES);
        assert_int_equal(nic_rx_burst(peer, &pkt, 1), 1);
        assert_int_equal(wrong_bits(pkt, 0), 1);
        for (bit = 0; bit < 8 * FRAME_MIN_BYTES; bit++) {
            uint8_t good = bit / 8 >= 14 ? 0 : frame_byte(0, bit / 8);

            hits[bit] += (unsigned)((pkt->data[bit / 8] ^ good) >> bit % 8 & 1);
        }
        nic_release(peer, &pkt, 1);
    }
    for (bit = 0; bit < 8 * FRAME_MIN_BYTES; bit++)
        assert_true(hits[bit] > 50);
    nic_close(fault);
    nic_close(peer);
}

/* A held frame is released without later frames: by polls alone, and by waits alone. */
static void a_held_frame_is_released(void **state)
{
    struct nic_fault_config config = {.seed = 1, .reorder_ppm = 1000000};
    struct nic *fault, *peer;
    struct us_pkt *pkt;
    unsigned i, n;

    open_pair(&config, &fault, &peer);
    send_frame(fault, 1, 60);
    for (i = n = 0; n == 0 && i < 1000; i++) {
        assert_int_equal(nic_rx_burst(fault, &pkt, 1), 0);
        n = nic_rx_burst(peer, &pkt, 1);
    }
    assert_int_equal(n, 1);
    assert_true(i > 10);
    nic_release(peer, &pkt, 1);

    send_frame(peer, 2, 60);
    assert_int_equal(nic_rx_burst(fault, &pkt, 1), 0);
    for (i = n = 0; n == 0 && i < 20; i++) {
        nic_wait(fault, 1000000);
        n = nic_rx_burst(fault, &pkt, 1);
    }
    assert_int_equal(n, 1);
    nic_release(fault, &pkt, 1);
    nic_close(fault);
    nic_close(peer);
}

static void wait_is_short_while_frames_are_held(void **state)
{
    struct nic_fault_config config = {.seed = 1, .reorder_ppm = 1000000};
    struct narrow narrow = {.allowance = 100};
    struct nic *fault, *peer;
    struct us_pkt *pkt;
    unsigned i;

    narrow_open(&narrow, &peer);
    fault = open_fault(&narrow.nic, &config);
    nic_wait(fault, 1000000);
    assert_int_equal(narrow.waited_us, 1000000);
    send_frame(fault, 1, 60);
    nic_wait(fault, 1000000);
    assert_true(narrow.waited_us <= 1000);
    nic_wait(fault, 7);
    assert_int_equal(narrow.waited_us, 7);
    for (i = 0; i < 10; i++)
        nic_wait(fault, 1000000);
    assert_int_equal(narrow.waited_us, 1000000);
    assert_int_equal(nic_rx_burst(peer, &pkt, 1), 1);
    nic_release(peer, &pkt, 1);
    send_frame(peer, 2, 60); /* one in the other direction */
    assert_int_equal(nic_rx_burst(fault, &pkt, 1), 0);
    nic_wait(fault, 1000000);
    assert_true(narrow.waited_us <= 1000);
    nic_close(fault);
    nic_close(peer);
}

/* A received frame that did not fit into the last burst prevents a sleep. */
static void wait_does_not_sleep_on_ready_frames(void **state)
{
    struct nic_fault_config config = {.seed = 1, .duplicate_ppm = 1000000};
    struct narrow narrow = {.waited_us = 99};
    struct nic *fault, *peer;
    struct us_pkt *pkts[2];

    narrow_open(&narrow, &peer);
    fault = open_fault(&narrow.nic, &config);
    send_frame(peer, 1, 60);
    assert_int_equal(nic_rx_burst(fault, &pkts[0], 1), 1);
    assert_int_equal(nic_wait(fault, 1000000), 0);
    assert_int_equal(narrow.waited_us, 99);
    assert_int_equal(nic_rx_burst(fault, &pkts[1], 1), 1);
    assert_int_equal(frame_number(pkts[1]), 1);
    nic_release(fault, pkts, 2);
    nic_wait(fault, 1000000);
    assert_int_equal(narrow.waited_us, 1000000);
    nic_close(fault);
    nic_close(peer);
}

/*
 * While the lower device accepts nothing, the fault device accepts a limited number of frames and
 * loses none.
 */
static void a_full_device_limits_accepted_frames(void **state)
{
    struct nic_fault_config config = {.seed = 1, .duplicate_ppm = 500000, .reorder_ppm = 500000};
    struct narrow narrow = {.allowance = 0};
    struct nic *fault, *peer;
    struct us_pkt *pkt;
    unsigned sent = 0, delivered = 0, i;

    narrow_open(&narrow, &peer);
    fault = open_fault(&narrow.nic, &config);
    while (sent < 10000 && send_frame(fault, sent, 60) == 1)
        sent++;
    assert_true(sent >= 2 * NIC_BURST_MAX && sent < 1000);
    assert_int_equal(nic_rx_burst(peer, &pkt, 1), 0);
    assert_int_equal(stat_of(fault, "fault_tx_frames"), sent);
    for (i = 0; i < 10; i++) /* frames that wait for the device are tried again soon */
        nic_wait(fault, 1000000);
    assert_true(narrow.waited_us <= 1000);
    narrow.allowance = 3;
    assert_int_equal(nic_rx_burst(fault, &pkt, 1), 0);
    assert_int_equal(stat_of(peer, "loop_rx_frames"), 0);
    assert_int_equal(narrow.allowance, 0);
    narrow.allowance = 10000;
    for (i = 0; i < 10; i++)
        nic_wait(fault, 1);
    while (nic_rx_burst(peer, &pkt, 1) == 1) {
        delivered++;
        nic_release(peer, &pkt, 1);
    }
    assert_int_equal(delivered, sent + stat_of(fault, "fault_tx_duplicated"));
    assert_int_equal(stat_of(fault, "loop_pool_in_use"), 0);
    nic_close(fault);
    nic_close(peer);
}

static void without_a_packet_there_is_no_copy(void **state)
{
    struct nic_fault_config config = {.seed = 1, .duplicate_ppm = 1000000};
    struct narrow narrow = {.allowance = 100};
    struct nic *fault, *peer;
    struct us_pkt *pkts[4];

    narrow_open(&narrow, &peer);
    fault = open_fault(&narrow.nic, &config);
    assert_int_equal(nic_alloc(fault, pkts, 1), 1);
    fill_frame(pkts[0], 5, 60);
    narrow.alloc_refused = 1;
    assert_int_equal(nic_tx_burst(fault, pkts, 1), 1);
    assert_int_equal(stat_of(fault, "fault_tx_not_duplicated"), 1);
    assert_int_equal(stat_of(fault, "fault_tx_duplicated"), 0);
    assert_int_equal(nic_alloc(fault, pkts, 1), 1);
    fill_frame(pkts[0], 6, 60);
    narrow.room = 59;
    assert_int_equal(nic_tx_burst(fault, pkts, 1), 1);
    assert_int_equal(stat_of(fault, "fault_tx_not_duplicated"), 2);
    assert_int_equal(nic_rx_burst(peer, pkts, 4), 2);
    nic_release(peer, pkts, 2);
    assert_int_equal(stat_of(peer, "loop_pool_in_use"), 0);
    nic_close(fault);
    nic_close(peer);
}

static void close_releases_held_frames(void **state)
{
    struct nic_fault_config config = {.seed = 1, .duplicate_ppm = 1000000, .reorder_ppm = 1000000};
    struct nic *fault, *peer;
    struct us_pkt *pkt;
    unsigned i;

    open_pair(&config, &fault, &peer);
    for (i = 0; i < 3; i++) {
        send_frame(fault, i, 60);
        send_frame(peer, i, 60);
    }
    if (nic_rx_burst(fault, &pkt, 1) == 1)
        nic_release(fault, &pkt, 1);
    nic_close(fault);
    while (nic_rx_burst(peer, &pkt, 1) == 1)
        nic_release(peer, &pkt, 1);
    assert_int_equal(stat_of(peer, "loop_pool_in_use"), 0);
    nic_close(peer);
}

/* A checksum offload would hide the fault. */
static void offloads_that_hide_faults_are_not_offered(void **state)
{
    const u_u32 rx_caps = US_CAP_RX_CSUM | US_CAP_RX_HASH;
    struct nic_fault_config config = {.seed = 1, .corrupt_ppm = 1000000};
    struct narrow narrow = {.allowance = 100};
    struct nic *fault, *peer;
    struct us_pkt *pkt;

    narrow_open(&narrow, &peer);
    narrow.nic.caps = US_CAP_TX_L4_CSUM | US_CAP_TX_TSO | US_CAP_TX_SG | rx_caps;
    fault = open_fault(&narrow.nic, &config);
    assert_int_equal(fault->caps, rx_caps);
    assert_int_equal(fault->mtu, narrow.nic.mtu);
    narrow.mtu_now = 1400; /* the MTU of an interface may change */
    assert_int_equal(nic_mtu(fault), 1400);
    assert_memory_equal(fault->mac, narrow.nic.mac, 6);
    assert_int_equal(nic_alloc(fault, &pkt, 1), 1);
    fill_frame(pkt, 1, 60);
    pkt->flags = US_PKT_L4_CSUM_GOOD;
    assert_int_equal(nic_tx_burst(fault, &pkt, 1), 1);
    assert_int_equal(nic_rx_burst(peer, &pkt, 1), 1);
    assert_int_equal(pkt->flags, 0);
    nic_release(peer, &pkt, 1);
    nic_close(fault);
    nic_close(peer);
}

static void impossible_probabilities_are_refused(void **state)
{
    static const struct nic_fault_config configs[] = {{.loss_ppm = 1000001},
                                                      {.duplicate_ppm = 1000001},
                                                      {.reorder_ppm = 1000001},
                                                      {.corrupt_ppm = UINT32_MAX}};
    struct nic_loopback_config loop_config = {0};
    struct nic *ends[2];
    char error[NIC_ERROR_MAX];
    unsigned i;

    assert_int_equal(nic_loopback_open(&loop_config, ends, error), 0);
    for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        struct nic *nic = ends[0];

        assert_int_equal(nic_fault_open(&nic, 1, &configs[i], error), -1);
        assert_ptr_equal(nic, ends[0]);
        assert_non_null(strstr(error, "fault: "));
    }
    nic_close(ends[0]);
    nic_close(ends[1]);
}

/* Half of the frames are sent twice: those accepted have room, whichever of them these are. */
static void accepted_frames_have_room_for_copies(void **state)
{
    const struct nic_fault_config half = {.duplicate_ppm = 500000};
    struct us_pkt *pkt;
    struct nic *fault, *peer;
    unsigned taken, seed;

    for (seed = 1; seed <= 20; seed++) {
        struct nic_fault_config config = half;
        struct narrow narrow = {.allowance = 0};

        config.seed = seed;
        narrow_open(&narrow, &peer);
        fault = open_fault(&narrow.nic, &config);
        do {
            assert_int_equal(nic_alloc(fault, &pkt, 1), 1);
            fill_frame(pkt, seed, FRAME_BYTES);
            taken = nic_tx_burst(fault, &pkt, 1);
        } while (taken == 1);
        nic_release(fault, &pkt, 1);
        assert_int_equal(stat_of(fault, "fault_tx_not_duplicated"), 0);
        nic_close(fault);
        nic_close(peer);
    }
}

/* As a NIC does that has verified the checksums. */
static unsigned rx_verified(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    n = narrow_rx_burst(nic, pkts, n);
    for (i = 0; i < n; i++)
        pkts[i]->flags = US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
    for (i = 0; i < n; i++)
        pkts[i]->rss_hash = 77;
    return n;
}

/* A copy is like the frame: with what the NIC found out about it. */
static void a_copy_has_what_the_nic_has_verified(void **state)
{
    struct nic_fault_config config = {.seed = 1, .duplicate_ppm = 1000000};
    struct narrow narrow = {.allowance = 0};
    struct nic *fault, *peer;
    struct us_pkt *pkts[2];
    struct nic_ops ops;
    unsigned i;

    narrow_open(&narrow, &peer);
    ops = *narrow.nic.ops;
    ops.rx_burst = rx_verified;
    narrow.nic.ops = &ops;
    fault = open_fault(&narrow.nic, &config);
    assert_int_equal(send_frame(peer, 1, FRAME_BYTES), 1);
    assert_int_equal(nic_rx_burst(fault, pkts, 2), 2);
    for (i = 0; i < 2; i++) {
        assert_int_equal(wrong_bits(pkts[i], 1), 0);
        assert_int_equal(pkts[i]->flags, US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD);
        assert_int_equal(pkts[i]->rss_hash, 77);
    }
    nic_release(fault, pkts, 2);
    nic_close(fault);
    nic_close(peer);
}

/* A fault behind the NIC: what that has verified is not the frame that is received. */
static void checksums_of_a_corrupted_frame_are_not_verified(void **state)
{
    struct nic_fault_config config = {.seed = 1};
    struct narrow narrow;
    struct nic *fault, *peer;
    struct us_pkt *pkt;
    struct nic_ops ops;
    unsigned i;

    for (i = 0; i < 2; i++) {
        memset(&narrow, 0, sizeof(narrow));
        narrow_open(&narrow, &peer);
        ops = *narrow.nic.ops;
        ops.rx_burst = rx_verified;
        narrow.nic.ops = &ops;
        config.corrupt_ppm = i * 1000000;
        fault = open_fault(&narrow.nic, &config);
        assert_int_equal(send_frame(peer, 1, FRAME_BYTES), 1);
        assert_int_equal(nic_rx_burst(fault, &pkt, 1), 1);
        assert_int_equal(pkt->flags, i == 0 ? US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD : 0);
        nic_release(fault, &pkt, 1);
        nic_close(fault);
        nic_close(peer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_nothing_changes),
        cmocka_unit_test(each_fault_has_its_rate),
        cmocka_unit_test(loss_of_all_delivers_none),
        cmocka_unit_test(faults_are_determined_by_the_seed),
        cmocka_unit_test(queues_have_different_faults),
        cmocka_unit_test(corruption_reaches_every_bit),
        cmocka_unit_test(a_held_frame_is_released),
        cmocka_unit_test(wait_is_short_while_frames_are_held),
        cmocka_unit_test(wait_does_not_sleep_on_ready_frames),
        cmocka_unit_test(a_full_device_limits_accepted_frames),
        cmocka_unit_test(without_a_packet_there_is_no_copy),
        cmocka_unit_test(accepted_frames_have_room_for_copies),
        cmocka_unit_test(checksums_of_a_corrupted_frame_are_not_verified),
        cmocka_unit_test(a_copy_has_what_the_nic_has_verified),
        cmocka_unit_test(close_releases_held_frames),
        cmocka_unit_test(offloads_that_hide_faults_are_not_offered),
        cmocka_unit_test(impossible_probabilities_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
