/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: windows, losses, probes, timers, and release of the queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"

enum { MSS = 1000 };

static u_u8 bulk[200000];

static void open_with(struct raw *raw, const struct us_config *config)
{
    struct us_config defaults;
    unsigned i;

    for (i = 0; i < sizeof(bulk); i++)
        bulk[i] = (u_u8)(i * 31 + (i >> 8));
    pair_config(&defaults, 0);
    if (config == NULL)
        config = &defaults;
    defaults.neighbour_lifetime_us = 0xffffffff; /* no ARP between the segments */
    defaults.peer_ack_delay_us = 0;              /* the peer does not delay ACKs */
    raw_open(raw, config);
    raw->answer_arp = 1;
    raw->opts.mss = MSS;
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
}

static int setup(void **state)
{
    static struct raw raw;

    open_with(&raw, NULL);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Sends `len` bytes of bulk and checks that they leave as full segments from `seq` on. */
static void expect_segments(struct raw *raw, u_u32 seq, u_u32 ack, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++)
        raw_expect(raw, US_TCP_ACK, seq + i * MSS, ack, MSS);
}

static void initial_window_is_ten_segments(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    assert_int_equal(us_send(raw->stack, conn, bulk, 100000), 100000);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 10);
    raw_expect_nothing(raw);
    /* Slow start: two for each acknowledged one, in bytes. */
    raw_segment(raw, US_TCP_ACK, 1001, snd + 2 * MSS, 65535, NULL, 0);
    expect_segments(raw, snd + 10 * MSS, 1001, 4);
    raw_expect_nothing(raw);
}

static void retransmits_with_backoff_and_gives_up(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event *event;
    u_u32 snd;
    u_u64 wait_us = 200000;
    u_u64 left_us = 180000000; /* R2 */

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
    while ((event = raw_event(raw)) == NULL) {
        assert_true(us_deadline(raw->stack) <= raw->now_us + wait_us);
        raw_pump(raw, wait_us - 1);
        raw_expect_nothing(raw);
        raw_pump(raw, 1);
        left_us -= wait_us;
        wait_us = u_min64(u_min64(wait_us * 2, 4000000), left_us);
        if (left_us > 0)
            raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
    }
    assert_int_equal(event->type, US_EV_CLOSED);
    assert_int_equal(event->reason, US_CLOSE_TIMEOUT);
    assert_true(left_us == 0);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd + 1, 1001, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void first_timeout_follows_the_measurement(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_conn_info info;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    raw->now_us += 300000;
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_true(info.srtt_us > 37000 && info.srtt_us < 38000); /* 7/8 * ~0 + 1/8 * 300 ms */
    assert_true(info.rto_us > 200000);
}

static void fast_retransmit_even_in_one_burst(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_conn_info info;
    u_u32 snd;
    int i;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 10 * MSS);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 10);
    raw->no_pump = 1;
    for (i = 0; i < 9; i++)
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS); /* the first hole, once */
    raw_expect_nothing(raw);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.retransmits, 1);
    assert_int_equal(info.cwnd_bytes, 5 * MSS + 9 * MSS); /* ssthresh + one per duplicate */
    /* A partial ACK: the next hole is retransmitted immediately (RFC 6582). */
    raw_segment(raw, US_TCP_ACK, 1001, snd + 3 * MSS, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 3 * MSS, 1001, MSS);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 10 * MSS, 65535, NULL, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_in_range(info.cwnd_bytes, MSS, 5 * MSS);
    assert_int_equal(info.retransmits, 2);
}

static void limited_transmit_sends_new_data(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 20 * MSS);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 10);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 10 * MSS, 1001, MSS);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 11 * MSS, 1001, MSS);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    raw_expect_nothing(raw);
}

static void timeout_goes_back_with_one_segment(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 4 * MSS);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 4);
    raw_pump(raw, 200000);
    expect_segments(raw, snd, 1001, 1);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1001, snd + MSS, 65535, NULL, 0);
    expect_segments(raw, snd + MSS, 1001, 2);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 4 * MSS, 65535, NULL, 0);
    raw_expect_nothing(raw);
    assert_true(us_deadline(raw->stack) != 0);
}

static void the_peers_window_is_respected(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 2500, NULL, 0);
    us_send(raw->stack, conn, bulk, 5000);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 2);
    raw_expect_nothing(raw); /* silly window syndrome avoidance */
    raw_segment(raw, US_TCP_ACK, 1001, snd + 2000, 500, NULL, 0);
    raw_expect_nothing(raw);
    raw_pump(raw, 1000000); /* RFC 9293 3.8.6.2.1: the override timer */
    raw_expect(raw, US_TCP_ACK, snd + 2000, 1001, 500);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 2500, 65535, NULL, 0);
    expect_segments(raw, snd + 2500, 1001, 2);
    raw_expect(raw, US_TCP_ACK, snd + 4500, 1001, 500);
}

static void zero_window_is_probed(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    u_u64 wait_us = 200000;
    int i;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
    us_send(raw->stack, conn, bulk, 5000);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
    for (i = 0; i < 100; i++) { /* for longer than R2: a peer that answers lives */
        raw_pump(raw, wait_us - 1);
        raw_expect_nothing(raw);
        raw_pump(raw, 1);
        raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
        raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
        raw_expect_nothing(raw);
        wait_us = u_min64(wait_us * 2, 4000000);
    }
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 0, NULL, 0); /* it took the byte */
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    expect_segments(raw, snd + 1, 1001, 4);
    raw_expect(raw, US_TCP_ACK, snd + 4001, 1001, 999);
    assert_null(raw_event(raw));
}

static void zero_window_without_answers_ends(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    int i;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
    us_send(raw->stack, conn, bulk, 5000);
    for (i = 0; i < 1000 && raw->event_count == raw->event_next; i++) {
        raw_pump(raw, 1000000);
        while (raw_frame(raw) != NULL)
            continue;
    }
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_TIMEOUT);
    assert_int_equal(raw_counter(raw, "tcp_r2_timeouts"), 1);
}

static void fin_waits_for_a_closed_window(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
    raw_pump(raw, 200000);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 0, NULL, 0);
    raw_expect_nothing(raw);
    raw_pump(raw, 60000000);
    raw_expect(raw, US_TCP_ACK | US_TCP_RST, snd + 1, 1001, 0); /* FIN-WAIT-2 has timed out */
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_TIMEOUT);
}

static void fin_rides_on_the_last_data(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 1500);
    us_close(raw->stack, conn);
    assert_int_equal(us_send(raw->stack, conn, bulk, 1), US_ERR_STATE);
    assert_int_equal(us_close(raw->stack, conn), US_ERR_STATE);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 1);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd + MSS, 1001, 500);
    raw_pump(raw, 200000); /* both lost */
    expect_segments(raw, snd, 1001, 1);
    raw_segment(raw, US_TCP_ACK, 1001, snd + MSS, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd + MSS, 1001, 500);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1501, 65535, NULL, 0);
    raw_expect_nothing(raw);
}

static void nothing_is_an_rtt_sample_after_a_retransmission(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_conn_info before, after;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    us_conn_get_info(raw->stack, conn, &before);
    raw_pump(raw, 200000);
    raw->now_us += 100000;
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    us_conn_get_info(raw->stack, conn, &after);
    assert_int_equal(before.srtt_us, after.srtt_us);
    assert_int_equal(after.rto_us, 400000); /* the backoff stays until there is a sample */
}

static void send_queue_has_a_limit(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn *conn;
    u_u32 snd;
    u_u32 room;

    raw_close(raw);
    pair_config(&config, 0);
    config.send_queue_bytes = 4000;
    open_with(raw, &config);
    conn = raw_accept(raw, &snd);
    assert_int_equal(us_send_room(raw->stack, conn), 4000);
    assert_int_equal(us_send(raw->stack, conn, bulk, 3000), 3000);
    assert_int_equal(us_send(raw->stack, conn, bulk + 3000, 3000), 1000);
    assert_int_equal(us_send(raw->stack, conn, bulk, 1), 0);
    assert_null(us_reserve(raw->stack, conn, 1, 0, &room));
    assert_int_equal(us_send_queued(conn), 4000);
    raw_pump(raw, 0);
    expect_segments(raw, snd, 1001, 4);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1000, 65535, NULL, 0);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 1001, snd + 2000, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_SENDABLE);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 4000, 65535, NULL, 0);
    assert_null(raw_event(raw));
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void reserve_gives_contiguous_room(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct raw_frame *frame;
    u_u32 snd;
    u_u32 room = 0;
    u_u8 *p;

    conn = raw_accept(raw, &snd);
    assert_null(us_reserve(raw->stack, conn, US_RESERVE_MAX + 1, 0, &room));
    p = us_reserve(raw->stack, conn, 10, 0, &room);
    assert_non_null(p);
    assert_true(room >= 10);
    us_commit(raw->stack, conn, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
    p = us_reserve(raw->stack, conn, 1024, 0, &room);
    memcpy(p, bulk, 1000);
    us_commit(raw->stack, conn, 1000);
    p = us_reserve(raw->stack, conn, 1024, 0, &room); /* doesn't fit behind: another block or not */
    assert_true(room >= 1024);
    memcpy(p, bulk + 1000, 1024);
    us_commit(raw->stack, conn, 1024);
    raw_pump(raw, 0);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    assert_memory_equal(frame->data, bulk, MSS);
    frame = raw_expect(raw, US_TCP_ACK, snd + MSS, 1001, MSS);
    assert_memory_equal(frame->data, bulk + MSS, MSS);
    frame = raw_expect(raw, US_TCP_ACK, snd + 2 * MSS, 1001, 24);
    assert_memory_equal(frame->data, bulk + 2 * MSS, 24);
}

static void references_are_released_once(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event *event;
    u_u32 snd;
    char cookie[3];

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 100);
    assert_int_equal(us_send_ref(raw->stack, conn, bulk + 100, 1000, &cookie[0]), 0);
    us_send(raw->stack, conn, bulk + 1100, 100);
    assert_int_equal(us_send_ref(raw->stack, conn, bulk + 1200, 50, &cookie[1]), 0);
    assert_int_equal(us_send_ref(raw->stack, conn, bulk + 1250, 50, &cookie[2]), 0);
    assert_int_equal(us_send_queued(conn), 1300);
    raw_pump(raw, 0);
    assert_memory_equal(raw_expect(raw, US_TCP_ACK, snd, 1001, MSS)->data, bulk, MSS);
    assert_memory_equal(raw_expect(raw, US_TCP_ACK, snd + MSS, 1001, 300)->data, bulk + MSS, 300);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1099, 65535, NULL, 0);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1250, 65535, NULL, 0);
    event = raw_expect_event(raw, US_EV_RELEASED);
    assert_ptr_equal(event->cookie, &cookie[0]);
    event = raw_expect_event(raw, US_EV_RELEASED);
    assert_ptr_equal(event->cookie, &cookie[1]);
    us_abort(raw->stack, conn);
    raw_pump(raw, 0);
    event = raw_expect_event(raw, US_EV_RELEASED);
    assert_ptr_equal(event->cookie, &cookie[2]);
    raw_expect_event(raw, US_EV_CLOSED);
    assert_null(raw_event(raw));
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd + 1300, 1001, 0);
}

static void offloads_leave_the_checksum_to_the_nic(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn *conn;
    struct raw_frame *frame;
    u_u32 snd;

    raw_close(raw);
    pair_config(&config, 0);
    config.caps = US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM;
    open_with(raw, &config);
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bulk, 100);
    raw_pump(raw, 0);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1001, 100);
    assert_int_equal(frame->pkt_flags, US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM);
    assert_int_equal(frame->bytes[24] << 8 | frame->bytes[25], 0);
    /* 10.0.0.1, 10.0.0.2, protocol 6, 120 bytes, not inverted */
    assert_int_equal(frame->bytes[50] << 8 | frame->bytes[51],
                     0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 6 + 120);
}

static void output_is_round_robin(void **state)
{
    struct raw *raw = *state;
    struct us_conn *a;
    struct us_conn *b;
    u_u32 snd_a;
    u_u32 snd_b;
    unsigned i;
    unsigned last_a = 0;
    unsigned first_b = 0;

    a = raw_accept(raw, &snd_a);
    raw->peer_port = 4001;
    raw->opts.mss = MSS;
    b = raw_accept(raw, &snd_b);
    us_send(raw->stack, a, bulk, 10 * MSS);
    us_send(raw->stack, b, bulk, 10 * MSS);
    raw_pump(raw, 0);
    for (i = 0; i < 20; i++) {
        struct raw_frame *frame = raw_frame(raw);
        if (frame->dst_port == RAW_PEER_PORT)
            last_a = i;
        else if (first_b == 0)
            first_b = i;
    }
    assert_true(first_b < last_a);
}

/*
 * A loss is seen and proves to be none before anything was sent again: then nothing is, neither
 * old data nor the next new one twice.
 */
static void a_loss_that_was_none_resends_nothing(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    u_u32 i;
    unsigned with_sack;

    for (with_sack = 0; with_sack < 2; with_sack++) {
        raw->peer_port++;
        raw->opts.mss = MSS;
        raw->opts.sack_permitted = (u_u8)with_sack;
        conn = raw_accept(raw, &snd);
        raw->opts.sack_permitted = 0;
        us_send(raw->stack, conn, bulk, 5 * MSS);
        raw_pump(raw, 0);
        expect_segments(raw, snd, 1001, 5);
        raw->no_pump = 1;
        for (i = 2; i <= 4; i++) {
            raw->opts.sack_blocks = (u_u8)with_sack;
            raw->opts.sack[0].start = snd + MSS;
            raw->opts.sack[0].end = snd + i * MSS;
            raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        }
        raw->opts.sack_blocks = 0;
        raw_segment(raw, US_TCP_ACK, 1001, snd + 5 * MSS, 65535, NULL, 0);
        assert_int_equal(raw_counter(raw, "tcp_fast_retransmits"), 1 + with_sack);
        raw->no_pump = 0;
        raw_pump(raw, 0);
        raw_expect_nothing(raw);
        us_send(raw->stack, conn, bulk, MSS);
        raw_pump(raw, 0);
        raw_expect(raw, US_TCP_ACK, snd + 5 * MSS, 1001, MSS);
        raw_expect_nothing(raw);
        assert_int_equal(raw_counter(raw, "tcp_retransmits"), 0);
    }
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(initial_window_is_ten_segments),
        RAW_TEST(retransmits_with_backoff_and_gives_up),
        RAW_TEST(first_timeout_follows_the_measurement),
        RAW_TEST(fast_retransmit_even_in_one_burst),
        RAW_TEST(a_loss_that_was_none_resends_nothing),
        RAW_TEST(limited_transmit_sends_new_data),
        RAW_TEST(timeout_goes_back_with_one_segment),
        RAW_TEST(the_peers_window_is_respected),
        RAW_TEST(zero_window_is_probed),
        RAW_TEST(zero_window_without_answers_ends),
        RAW_TEST(fin_waits_for_a_closed_window),
        RAW_TEST(fin_rides_on_the_last_data),
        RAW_TEST(nothing_is_an_rtt_sample_after_a_retransmission),
        RAW_TEST(send_queue_has_a_limit),
        RAW_TEST(reserve_gives_contiguous_room),
        RAW_TEST(references_are_released_once),
        RAW_TEST(offloads_leave_the_checksum_to_the_nic),
        RAW_TEST(output_is_round_robin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
