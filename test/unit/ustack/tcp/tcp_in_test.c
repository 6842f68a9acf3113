/* SPDX-License-Identifier: BSD-3-Clause */
/* Segment arrival: one test per rule of RFC 9293 3.10.7, RFC 5961, RFC 7323, RFC 1337. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"
#include "ustack/tcp/tcp.h"

static const char hello[] = "hello";

static void closed_port_answers_with_rst(void **state)
{
    struct raw *raw = *state;

    us_unlisten(raw->stack, RAW_PORT);
    raw_segment(raw, US_TCP_SYN, 100, 0, 1000, NULL, 0);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, 0, 101, 0);
    raw_segment(raw, US_TCP_ACK, 100, 5555, 1000, hello, 5);
    raw_expect(raw, US_TCP_RST, 5555, 0, 0);
    raw_segment(raw, US_TCP_FIN, 100, 0, 1000, hello, 5);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, 0, 106, 0);
    raw_segment(raw, US_TCP_RST, 100, 0, 1000, NULL, 0);
    raw_segment(raw, US_TCP_RST | US_TCP_ACK, 100, 7, 1000, NULL, 0);
    raw_expect_nothing(raw);
}

static void listen_answers_an_ack_with_rst(void **state)
{
    struct raw *raw = *state;

    raw_segment(raw, US_TCP_ACK, 100, 5555, 1000, NULL, 0);
    raw_expect(raw, US_TCP_RST, 5555, 0, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 100, 77, 1000, NULL, 0);
    raw_expect(raw, US_TCP_RST, 77, 0, 0);
    raw_segment(raw, US_TCP_RST, 100, 0, 1000, NULL, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_FIN, 100, 0, 1000, NULL, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_RST, 100, 0, 1000, NULL, 0);
    raw_segment(raw, 0, 100, 0, 1000, NULL, 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
}

static void syn_received_checks_the_ack(void **state)
{
    struct raw *raw = *state;
    u_u32 iss;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    iss = raw_frame(raw)->seq;
    raw_segment(raw, US_TCP_ACK, 1001, iss, 65535, hello, 5);
    raw_expect(raw, US_TCP_RST, iss, 0, 0);
    raw_segment(raw, US_TCP_ACK, 1001, iss + 2, 65535, hello, 5);
    raw_expect(raw, US_TCP_RST, iss + 2, 0, 0);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 1001, iss + 1, 65535, hello, 5);
    raw_expect_event(raw, US_EV_ACCEPTED);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 5);
}

static void syn_received_answers_the_syn_again(void **state)
{
    struct raw *raw = *state;
    u_u32 iss;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    iss = raw_frame(raw)->seq;
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_SYN | US_TCP_ACK, iss, 1001, 0);
    raw_segment(raw, US_TCP_RST, 1001, 0, 0, NULL, 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_int_equal(raw_counter(raw, "half_open"), 0);
}

static void syn_ack_is_sent_a_bounded_number_of_times(void **state)
{
    struct raw *raw = *state;
    unsigned times = 0;
    int i;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    for (i = 0; i < 4000; i++) {
        struct raw_frame *frame;
        raw_pump(raw, 100000);
        while ((frame = raw_frame(raw)) != NULL)
            times += frame->flags == (US_TCP_SYN | US_TCP_ACK);
    }
    assert_int_equal(times, 1 + 4);
    assert_int_equal(raw_counter(raw, "half_open"), 0);
    assert_null(raw_event(raw));
}

static void half_open_connections_are_bounded(void **state)
{
    struct raw *raw = *state;
    int i;

    for (i = 0; i < 40; i++) {
        raw->peer_port = (u_u16)(5000 + i);
        raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
        assert_int_equal(raw_frame(raw)->flags, US_TCP_SYN | US_TCP_ACK);
    }
    assert_int_equal(raw_counter(raw, "half_open"), 32);
    assert_int_equal(raw_counter(raw, "syn_cookies_sent"), 8);
}

static void options_only_if_offered(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    frame = raw_frame(raw);
    assert_int_equal(frame->opts.mss, 1460);
    assert_false(frame->opts.has_scale);
    assert_false(frame->opts.has_ts);
    assert_false(frame->opts.sack_permitted);
    raw_segment(raw, US_TCP_RST, 1001, 0, 0, NULL, 0);

    conn = raw_accept(raw, &snd);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.mss, 536);
    assert_int_equal(info.send_window_bytes, 65535);
}

static void scale_is_clamped_and_not_for_syns(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    raw->opts.has_scale = 1;
    raw->opts.scale = 14; /* the option's parser clamps; see tcp_opt_test.c */
    raw->opts.mss = 1000;
    raw->opts.has_ts = 1;
    raw->opts.ts_val = 1;
    conn = raw_accept(raw, &snd);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.mss, 1000 - 12);
    assert_int_equal(info.send_window_bytes, 65535u << 14);
}

static void rst_rules(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_RST, 1001 + 70000000, 0, 0, NULL, 0); /* outside */
    raw_segment(raw, US_TCP_RST, 1000, 0, 0, NULL, 0);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_RST, 1002, 0, 0, NULL, 0); /* in the window */
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_RST, 1001, 0, 0, NULL, 0); /* exact */
    raw_expect_nothing(raw);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_RESET);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
}

static void syn_on_a_connection_gets_a_challenge(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;
    int i;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_SYN, 1001, 0, 1000, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_SYN, 999999, 0, 1000, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_RST, 1001, 0, 1000, NULL, 0);
    raw_expect_nothing(raw);
    for (i = 0; i < 8; i++) {
        raw_segment(raw, US_TCP_SYN | US_TCP_FIN, 1001, 0, 1000, NULL, 0);
        raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    }
    raw_segment(raw, US_TCP_SYN, 1001, 0, 1000, NULL, 0); /* RFC 5961 section 7: ten in 5 s */
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "tcp_challenge_limited"), 1);
    raw_pump(raw, 6000000);
    raw_segment(raw, US_TCP_SYN, 1001, 0, 1000, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_null(raw_event(raw));
}

static void data_needs_an_acceptable_ack(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, hello, 5); /* never sent */
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd - 65536, 65535, hello, 5); /* older than any window */
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, 0, 1001, snd, 65535, hello, 5); /* no ACK bit */
    raw_expect_nothing(raw);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 1001, snd - 65535, 65535, hello, 5);
    raw_expect_event(raw, US_EV_DATA);
}

static void data_outside_the_window_is_answered(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001 + 65535, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 900, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1000, snd, 65535, NULL, 0); /* a keepalive */
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 999, snd, 65535, hello, 5); /* 2 old bytes, 3 new ones */
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 3);
}

static void second_segment_is_acknowledged_at_once(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1006, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1011, 0);
    raw_segment(raw, US_TCP_ACK, 1011, snd, 65535, hello, 5);
    raw_expect_nothing(raw);
    raw_pump(raw, 39999);
    raw_expect_nothing(raw);
    raw_pump(raw, 1);
    raw_expect(raw, US_TCP_ACK, snd, 1016, 0);
    raw_pump(raw, 1000000);
    raw_expect_nothing(raw);
    assert_true(us_deadline(raw->stack) == US_NEVER);
}

static void ack_rides_on_the_reply(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    assert_int_equal(us_send(raw->stack, conn, "reply", 5), 5);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1006, 5);
    raw_expect_nothing(raw);
}

static void out_of_order_data_waits_for_the_gap(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    u_u32 snd;

    raw->opts.sack_permitted = 1;
    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1006, snd, 65535, "world", 5);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_int_equal(frame->opts.sack_blocks, 1);
    assert_int_equal(frame->opts.sack[0].start, 1006);
    assert_int_equal(frame->opts.sack[0].end, 1011);
    raw_segment(raw, US_TCP_ACK, 1021, snd, 65535, "world", 5);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_int_equal(frame->opts.sack_blocks, 2);
    assert_int_equal(frame->opts.sack[0].start, 1021); /* the most recent one first */
    assert_int_equal(frame->opts.sack[1].start, 1006);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1011, 0);
    assert_int_equal(frame->opts.sack_blocks, 1);
    raw_expect_event(raw, US_EV_DATA);
    assert_memory_equal(raw_expect_event(raw, US_EV_DATA)->data, "world", 5);
    raw_segment(raw, US_TCP_ACK, 1011, snd, 65535, "0123456789", 10);
    raw_expect(raw, US_TCP_ACK, snd, 1026, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 10);
    assert_memory_equal(raw_expect_event(raw, US_EV_DATA)->data, "world", 5);
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

/* An attack: every other byte of the window, each in its own segment. */
static void single_bytes_hold_bounded_memory(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    u_u32 snd;
    u_u32 i;

    raw_accept(raw, &snd);
    for (i = 0; i < 2000; i++) {
        raw_segment(raw, US_TCP_ACK, 1002 + 2 * i, snd, 65535, "x", 1);
        while ((frame = raw_frame(raw)) != NULL)
            assert_int_equal(frame->ack, 1001);
    }
    assert_true(raw_counter(raw, "buffer_bytes_used") <= (2 * 262144 / 2016 + 8) * 2048);
    assert_true(raw_counter(raw, "drop_tcp_ooo_memory") > 0);
    for (i = 0; i < 2000; i++) {
        struct us_event *event;
        raw_segment(raw, US_TCP_ACK, 1001 + 2 * i, snd, 65535, "yx", 2);
        while (raw_frame(raw) != NULL)
            continue;
        while ((event = raw_event(raw)) != NULL)
            assert_int_equal(event->type, US_EV_DATA);
    }
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
    assert_int_equal(raw_counter(raw, "tcp_rx_bytes"), 4000);
}

static void fin_before_the_data_waits(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1006, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1012, 0);
    raw_expect_event(raw, US_EV_DATA);
    raw_expect_event(raw, US_EV_DATA);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    assert_int_equal(us_close(raw->stack, conn), 0);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd, 1012, 0);
    raw_segment(raw, US_TCP_ACK, 1012, snd + 1, 65535, NULL, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_NORMAL);
    assert_int_equal(raw_counter(raw, "time_wait"), 0);
}

static void simultaneous_close_ends_in_time_wait(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_conn_info info;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.state, US_TCP_CLOSING);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    raw_segment(raw, US_TCP_ACK, 1002, snd + 1, 65535, NULL, 0);
    raw_expect_nothing(raw);
    raw_expect_event(raw, US_EV_CLOSED);
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
}

/* Brings a connection into TIME-WAIT. */
static u_u32 enter_time_wait(struct raw *raw)
{
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd + 1, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    raw_expect_event(raw, US_EV_CLOSED);
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
    return snd;
}

static void time_wait_answers_and_expires(void **state)
{
    struct raw *raw = *state;
    u_u32 snd = enter_time_wait(raw);

    raw_segment(raw, US_TCP_RST, 1002, 0, 0, NULL, 0); /* RFC 1337 */
    raw_segment(raw, US_TCP_ACK, 1002, snd + 1, 65535, NULL, 0);
    raw_expect_nothing(raw);
    raw_pump(raw, 30000000);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd + 1, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    raw_pump(raw, 59999999); /* the FIN has started 2 MSL anew */
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
    assert_true(us_deadline(raw->stack) == raw->now_us + 1);
    raw_pump(raw, 1);
    assert_int_equal(raw_counter(raw, "time_wait"), 0);
}

static void time_wait_gives_way_to_a_newer_syn(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;
    struct raw_frame *frame;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    snd = enter_time_wait(raw);
    raw->opts.ts_val = 99;
    raw_segment(raw, US_TCP_SYN, 5000, 0, 65535, NULL, 0); /* old timestamp */
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    raw->opts.ts_val = 101;
    raw_segment(raw, US_TCP_SYN, 500, 0, 65535, NULL, 0); /* new timestamp, lower number */
    frame = raw_frame(raw);
    assert_int_equal(frame->flags, US_TCP_SYN | US_TCP_ACK);
    assert_int_equal(frame->ack, 501);
    assert_true((u_s32)(frame->seq - (snd + 1)) > 0);
    assert_int_equal(raw_counter(raw, "time_wait"), 0);
}

static void paws_drops_old_segments_but_not_rsts(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    raw_accept(raw, &snd);
    raw->opts.ts_val = 99;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 0);
    assert_null(raw_event(raw));
    raw->opts.has_ts = 0;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5); /* RFC 7323 3.2 */
    assert_null(raw_event(raw));
    raw->opts.has_ts = 1;
    raw->opts.ts_val = 101;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw_expect_event(raw, US_EV_DATA);
    raw_pump(raw, 50000);
    assert_int_equal(raw_expect(raw, US_TCP_ACK, snd, 1006, 0)->opts.ts_ecr, 101);
    raw->opts.ts_val = 3;
    raw_segment(raw, US_TCP_RST, 1006, 0, 0, NULL, 0);
    raw_expect_event(raw, US_EV_CLOSED);
}

/* RFC 7323 5.5: nor does it count again when what comes first after such a silence is not next. */
static void paws_forgets_a_timestamp_older_than_24_days(void **state)
{
    const u_u32 days_ms = 30u * 24 * 3600 * 1000;
    struct raw *raw = *state;
    u_u32 snd;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw_expect_event(raw, US_EV_DATA);
    raw_pump(raw, 50000);
    raw_expect(raw, US_TCP_ACK, snd, 1006, 0);
    raw_pump(raw, (u_u64)days_ms * 1000);
    raw->opts.ts_val += days_ms; /* less than 100, modulo 2^32 */
    raw_segment(raw, US_TCP_ACK, 1011, snd, 65535, hello, 5);
    raw_expect(raw, US_TCP_ACK, snd, 1006, 0);
    raw_pump(raw, 200000);
    raw->opts.ts_val += 200;
    raw_segment(raw, US_TCP_ACK, 1006, snd, 65535, hello, 5); /* sent again */
    raw_expect(raw, US_TCP_ACK, snd, 1016, 0);
    raw_expect_event(raw, US_EV_DATA);
    raw_expect_event(raw, US_EV_DATA);
}

static void timestamp_of_the_first_unacknowledged_segment_is_echoed(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    u_u32 snd;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    raw_accept(raw, &snd);
    raw->opts.ts_val = 110;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, hello, 5);
    raw->opts.ts_val = 120;
    raw_segment(raw, US_TCP_ACK, 1006, snd, 65535, hello, 5);
    frame = raw_expect(raw, US_TCP_ACK, snd, 1011, 0);
    assert_int_equal(frame->opts.ts_ecr, 110); /* RFC 7323 4.3 case A */
    raw->opts.ts_val = 140;
    raw_segment(raw, US_TCP_ACK, 1016, snd, 65535, hello, 5); /* a hole before it: case B */
    frame = raw_expect(raw, US_TCP_ACK, snd, 1011, 0);
    assert_int_equal(frame->opts.ts_ecr, 110);
}

static struct us_conn *start_connect(struct raw *raw, u_u32 *iss)
{
    struct us_addr remote;
    struct us_conn *conn;
    struct raw_frame *frame;

    memset(&remote, 0, sizeof(remote));
    remote.family = US_IP4;
    remote.bytes[0] = 10;
    remote.bytes[3] = 2;
    us_unlisten(raw->stack, RAW_PORT);
    conn = us_connect(raw->stack, &remote, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_non_null(conn);
    raw_pump(raw, 0);
    frame = raw_frame(raw);
    assert_int_equal(frame->flags, US_TCP_SYN);
    assert_int_equal(frame->opts.mss, 1460);
    assert_true(frame->opts.has_ts && frame->opts.has_scale && frame->opts.sack_permitted);
    *iss = frame->seq;
    return conn;
}

static void syn_sent_checks_the_ack(void **state)
{
    struct raw *raw = *state;
    u_u32 iss;

    start_connect(raw, &iss);
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss, 65535, NULL, 0);
    raw_expect(raw, US_TCP_RST, iss, 0, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss + 2, 65535, NULL, 0);
    raw_expect(raw, US_TCP_RST, iss + 2, 0, 0);
    raw_segment(raw, US_TCP_RST | US_TCP_ACK, 1000, iss, 65535, NULL, 0);
    raw_segment(raw, US_TCP_RST, 1000, 0, 65535, NULL, 0);
    raw_segment(raw, US_TCP_ACK, 1000, iss + 1, 65535, NULL, 0);
    raw_expect_nothing(raw);
    assert_null(raw_event(raw));
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss + 1, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, iss + 1, 1001, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
}

static void simultaneous_open(void **state)
{
    struct raw *raw = *state;
    u_u32 iss;

    start_connect(raw, &iss);
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_SYN | US_TCP_ACK, iss, 1001, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss + 1, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    raw_expect(raw, US_TCP_ACK, iss + 1, 1001, 0);
}

/* RFC 7323 2.2: the window of the SYN-ACK is not scaled there either; units of 128 bytes count. */
static void window_of_a_simultaneous_open(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 iss;

    raw->opts.has_scale = 1;
    raw->opts.scale = 7;
    conn = start_connect(raw, &iss);
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_SYN | US_TCP_ACK, iss, 1001, 0);
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss + 1, 1001, NULL, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.send_window_bytes, 1001 >> 7 << 7);
    raw->opts.has_scale = 0;
    raw_segment(raw, US_TCP_ACK, 1001, iss + 1, 1001, NULL, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.send_window_bytes, 1001 << 7);
}

/* RFC 9293 3.10.7.3: data with the SYN-ACK follows its number; the silence of the peer ends. */
static void data_on_a_syn_ack(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 iss;

    conn = start_connect(raw, &iss);
    raw->now_us += 500 * 1000;
    raw->no_pump = 1; /* the bytes are looked at before the packet is given back */
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, iss + 1, 65535, hello, 5);
    raw->no_pump = 0;
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.silent_us, 0);
    assert_int_equal(info.bytes_in, 5);
    raw_pump(raw, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    assert_memory_equal(raw_expect_event(raw, US_EV_DATA)->data, hello, 5);
    raw_expect(raw, US_TCP_ACK, iss + 1, 1006, 0);
}

/* Of many segments out of order, 64 get a duplicate ACK: more are of no use to the sender. */
static void duplicate_acks_are_bounded(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd, i;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    for (i = 0; i < 300; i++) {
        raw_segment(raw, US_TCP_ACK, 1011 + 20 * i, snd, 65535, hello, 5);
        assert_int_equal(conn->dup_acks_owed, i < 64 ? i + 1 : 64);
    }
}

/* RFC 9438 5.8: CUBIC's time does not run while the application is the limit, not cwnd. */
static void cubic_stands_still_without_data(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    assert_int_equal(us_conn_set_cc(conn, US_CC_CUBIC), US_OK);
    conn->cc.of.cubic.running = 1;
    us_send(raw->stack, conn, hello, 5);
    raw_pump(raw, 1000);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 5);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 5, 65535, NULL, 0);
    assert_false(conn->cc.of.cubic.running);
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, raw_setup, raw_teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(closed_port_answers_with_rst),
        RAW_TEST(listen_answers_an_ack_with_rst),
        RAW_TEST(syn_received_checks_the_ack),
        RAW_TEST(syn_received_answers_the_syn_again),
        RAW_TEST(syn_ack_is_sent_a_bounded_number_of_times),
        RAW_TEST(half_open_connections_are_bounded),
        RAW_TEST(options_only_if_offered),
        RAW_TEST(scale_is_clamped_and_not_for_syns),
        RAW_TEST(rst_rules),
        RAW_TEST(syn_on_a_connection_gets_a_challenge),
        RAW_TEST(data_needs_an_acceptable_ack),
        RAW_TEST(data_outside_the_window_is_answered),
        RAW_TEST(second_segment_is_acknowledged_at_once),
        RAW_TEST(ack_rides_on_the_reply),
        RAW_TEST(out_of_order_data_waits_for_the_gap),
        RAW_TEST(single_bytes_hold_bounded_memory),
        RAW_TEST(fin_before_the_data_waits),
        RAW_TEST(simultaneous_close_ends_in_time_wait),
        RAW_TEST(time_wait_answers_and_expires),
        RAW_TEST(time_wait_gives_way_to_a_newer_syn),
        RAW_TEST(paws_drops_old_segments_but_not_rsts),
        RAW_TEST(paws_forgets_a_timestamp_older_than_24_days),
        RAW_TEST(timestamp_of_the_first_unacknowledged_segment_is_echoed),
        RAW_TEST(syn_sent_checks_the_ack),
        RAW_TEST(simultaneous_open),
        RAW_TEST(window_of_a_simultaneous_open),
        RAW_TEST(data_on_a_syn_ack),
        RAW_TEST(duplicate_acks_are_bounded),
        RAW_TEST(cubic_stands_still_without_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
