/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of one connection: TTL, DSCP, sizes of its queues, events of its congestion window. What
 * is exported when is in tcp_export_test.c, but for a connection that is not reported yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"

enum { IP_AT = 14, EF = 46 }; /* RFC 3246: expedited forwarding */

static void ttl_and_dscp_are_sent(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    u_u32 snd;
    struct us_conn *conn = raw_accept(raw, &snd);

    assert_int_equal(us_conn_set_ttl(conn, 0), US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_ttl(conn, 256), US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_dscp(conn, 64), US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_ttl(conn, 7), US_OK);
    assert_int_equal(us_conn_set_dscp(conn, EF), US_OK);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    frame = raw_frame(raw); /* its checksum was verified */
    assert_int_equal(frame->bytes[IP_AT + 1], EF << 2);
    assert_int_equal(frame->bytes[IP_AT + 8], 7);
}

static void hop_limit_and_traffic_class_are_sent(void **state)
{
    struct us_addr ours = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    struct us_addr peer = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    struct us_config config;
    struct raw_frame *frame;
    struct us_conn *conn;
    u_u8 label[3];
    struct raw raw;

    pair_config(&config, 0);
    config.point_to_point = 1;
    raw_open(&raw, &config);
    assert_int_equal(us_addr_add(raw.stack, &ours, 64), US_OK);
    conn = us_connect(raw.stack, &peer, 80, 0, NULL, NULL);
    raw_pump(&raw, 0);
    frame = raw_frame(&raw);
    assert_int_equal(frame->bytes[IP_AT] >> 4, 6);
    memcpy(label, frame->bytes + IP_AT + 1, 3);
    assert_int_equal(us_conn_set_ttl(conn, 255), US_OK);
    assert_int_equal(us_conn_set_dscp(conn, EF), US_OK);
    raw_pump(&raw, 10 * 1000 * 1000); /* the SYN again */
    frame = raw_frame(&raw);
    assert_int_equal(frame->bytes[IP_AT], 0x60 | EF >> 2);
    assert_int_equal(frame->bytes[IP_AT + 1] >> 4, (EF & 3) << 2);
    assert_int_equal(frame->bytes[IP_AT + 1] & 0x0f, label[0] & 0x0f);
    assert_memory_equal(frame->bytes + IP_AT + 2, label + 1, 2);
    assert_int_equal(frame->bytes[IP_AT + 7], 255);
    raw_close(&raw);
}

/* ---- sizes of the queues ---- */

enum { RECV_BYTES = 8 * 1024, SEND_BYTES = 5 * 1024, PORT = 7 };

static u_u32 kept_bytes;

static void ignore(struct pair_host *host, const struct us_event *event)
{
}

/* The server keeps what it receives. */
static void keep_all(struct pair_host *host, const struct us_event *event)
{
    if (event->type == US_EV_ACCEPTED)
        assert_int_equal(us_conn_set_buffers(host->stack, event->conn, RECV_BYTES, SEND_BYTES),
                         US_OK);
    if (event->type != US_EV_DATA)
        return;
    kept_bytes += event->len;
    assert_int_equal(us_recv_keep(host->stack, event->conn, event->data, event->len), US_OK);
}

static void a_connection_has_queues_of_its_own(void **state)
{
    static u_u8 bytes[200000];
    struct us_addr server = pair_addr(1);
    struct us_conn_info info;
    struct us_conn *conn;
    struct pair pair;
    u_u32 cursor = 0;

    pair_open(&pair, NULL);
    pair.check = 1;
    pair.host[0].on_event = ignore;
    pair.host[1].on_event = keep_all;
    us_listen(pair.host[1].stack, PORT, NULL);
    conn = us_connect(pair.host[0].stack, &server, PORT, 0, NULL, NULL);
    assert_int_equal(us_conn_set_buffers(pair.host[0].stack, conn, 1023, SEND_BYTES),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_buffers(pair.host[0].stack, conn, RECV_BYTES, 1 << 30),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_buffers(pair.host[0].stack, conn, RECV_BYTES, SEND_BYTES), US_OK);
    assert_int_equal(us_send(pair.host[0].stack, conn, bytes, sizeof(bytes)), SEND_BYTES);
    pair_run(&pair, pair.now_us + 1000 * 1000);
    us_conn_get_info(pair.host[0].stack, conn, &info);
    assert_int_equal(info.recv_window_bytes, RECV_BYTES);
    /* The SYN-ACK offered 64 KiB, which stays; then the window closes. */
    while (us_send(pair.host[0].stack, conn, bytes, sizeof(bytes)) > 0 && kept_bytes < 100000)
        pair_run(&pair, pair.now_us + 1000 * 1000);
    conn = us_conn_next(pair.host[1].stack, &cursor);
    us_conn_get_info(pair.host[1].stack, conn, &info);
    assert_int_equal(info.recv_window_bytes, 0);
    us_recv_resume(pair.host[1].stack, conn);
    assert_int_equal(us_send(pair.host[1].stack, conn, bytes, sizeof(bytes)), SEND_BYTES);
    pair_close(&pair);
}

/* SENDABLE comes when half of the connection's own queue is free, or what it has asked for. */
static void a_queue_is_sendable_at_its_mark(void **state)
{
    static const u_u8 bytes[2 * SEND_BYTES];
    struct raw *raw = *state;
    struct us_conn *other;
    struct us_conn *conn;
    u_u32 other_snd;
    u_u32 snd;
    unsigned i;

    other = raw_accept(raw, &other_snd);
    raw->peer_port++;
    raw->opts.mss = 1000;
    conn = raw_accept(raw, &snd);
    assert_int_equal(us_conn_set_buffers(raw->stack, conn, RECV_BYTES, SEND_BYTES), US_OK);
    for (i = 0; i < 2; i++) {
        u_u32 room = i == 0 ? SEND_BYTES / 2 : 1;

        assert_int_equal(us_send(raw->stack, conn, bytes, sizeof(bytes)), SEND_BYTES);
        raw->peer_port--;
        us_send(raw->stack, other, bytes, 1); /* this one gives memory back */
        raw_pump(raw, 0);
        raw_segment(raw, US_TCP_ACK, 1001, ++other_snd, 65535, NULL, 0);
        raw->peer_port++;
        raw_pump(raw, 0);
        raw_segment(raw, US_TCP_ACK, 1001, snd + room - 1, 65535, NULL, 0);
        assert_null(raw_event(raw));
        raw_segment(raw, US_TCP_ACK, 1001, snd + room, 65535, NULL, 0);
        raw_expect_event(raw, US_EV_SENDABLE);
        snd += SEND_BYTES;
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        while (raw_frame(raw) != NULL)
            continue;
        us_conn_set_low_water(raw->stack, conn, ~0u);
    }
}

/* A queue of less than four segments is announced again when half of it is free. */
static void a_small_queue_is_announced_again(void **state)
{
    enum { SMALL_BYTES = 2048, HALF = SMALL_BYTES / 2 };
    static const u_u8 bytes[HALF];
    struct us_addr server = pair_addr(1);
    struct raw *raw = *state;
    struct us_event *event;
    struct us_conn *conn;
    u_u32 snd;

    conn = us_connect(raw->stack, &server, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_int_equal(us_conn_set_buffers(raw->stack, conn, SMALL_BYTES, SEND_BYTES), US_OK);
    raw_pump(raw, 0);
    snd = raw_frame(raw)->seq + 1;
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, snd, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, bytes, HALF);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    event = raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(us_recv_keep(raw->stack, conn, event->data, event->len), US_OK);
    raw_segment(raw, US_TCP_ACK, 1001 + HALF, snd, 65535, bytes, HALF);
    raw_pump(raw, 100 * 1000);
    while (raw_frame(raw) != NULL)
        continue;
    us_recv_resume(raw->stack, conn);
    raw_pump(raw, 0);
    assert_true(raw_expect(raw, US_TCP_ACK, snd, 1001 + SMALL_BYTES, 0)->window > 0);
}

/* An instance may have larger queues than a connection can be given. */
static void the_largest_queues_of_a_connection(void **state)
{
    struct us_config config;
    struct us_conn *conn;
    struct raw raw;
    u_u32 snd;

    pair_config(&config, 0);
    config.recv_window_bytes = config.send_queue_bytes = 1 << 27;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    conn = raw_accept(&raw, &snd);
    assert_int_equal(us_conn_set_buffers(raw.stack, conn, US_CONN_BUFFER_MAX + 1, SEND_BYTES),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_buffers(raw.stack, conn, RECV_BYTES, US_CONN_BUFFER_MAX + 1),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_buffers(raw.stack, conn, US_CONN_BUFFER_MAX, US_CONN_BUFFER_MAX),
                     US_OK);
    assert_int_equal(us_send_room(raw.stack, conn), US_CONN_BUFFER_MAX);
    raw_close(&raw);
    (void)state;
}

/* No more than 1 GiB may be unacknowledged, so that sequence numbers can be compared. */
static void references_are_bounded_in_bytes(void **state)
{
    enum { QUEUED_MAX = 1 << 30 };
    static const u_u8 bytes[1];
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 room;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    /* The window is closed, so that nothing is read there. */
    raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
    assert_int_equal(us_send_ref(raw->stack, conn, bytes, QUEUED_MAX + 1, NULL), US_ERR_FULL);
    assert_int_equal(us_send_ref(raw->stack, conn, bytes, QUEUED_MAX - 1, NULL), US_OK);
    assert_int_equal(us_send_ref(raw->stack, conn, bytes, 2, NULL), US_ERR_FULL);
    assert_int_equal(us_send_ref(raw->stack, conn, bytes, 1, NULL), US_OK);
    assert_int_equal(us_send_queued(conn), QUEUED_MAX);
    assert_int_equal(us_send_room(raw->stack, conn), 0);
    assert_int_equal(us_send(raw->stack, conn, bytes, 1), 0);
    assert_null(us_reserve(raw->stack, conn, 1, 0, &room));
}

/* What us_send() would refuse has no room. */
static void a_closed_connection_has_no_room(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    assert_true(us_send_room(raw->stack, conn) > 0);
    assert_int_equal(us_close(raw->stack, conn), US_OK);
    assert_int_equal(us_send_room(raw->stack, conn), 0);
    assert_int_equal(us_send(raw->stack, conn, "x", 1), US_ERR_STATE);
}

/* Data before the connection is established is queued; the SYN is no data. */
static void data_waits_for_the_handshake(void **state)
{
    struct us_addr server = pair_addr(1);
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = us_connect(raw->stack, &server, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_int_equal(us_send_queued(conn), 0);
    assert_int_equal(us_send(raw->stack, conn, "data", 4), 4);
    assert_int_equal(us_send_queued(conn), 4);
    raw_pump(raw, 0);
    assert_int_equal(us_send_queued(conn), 4);
    snd = raw_frame(raw)->seq + 1;
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, snd, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    assert_int_equal(us_send_queued(conn), 4);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 4, 65535, NULL, 0);
    assert_int_equal(us_send_queued(conn), 0);
}

/* So it is when both ends send a SYN. */
static void data_waits_for_a_simultaneous_open(void **state)
{
    struct us_addr server = pair_addr(1);
    struct raw *raw = *state;
    struct us_conn *conn;

    conn = us_connect(raw->stack, &server, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_int_equal(us_send(raw->stack, conn, "data", 4), 4);
    raw_pump(raw, 0);
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    assert_int_equal(us_send_queued(conn), 4);
}

/* ---- the congestion window ---- */

struct watch {
    unsigned events;
    u_u32 cwnd_bytes;
};

static void watch_window(struct pair_host *host, const struct us_event *event)
{
    static u_u8 bytes[100000];
    struct watch *watch = host->app;
    struct us_conn_info info;

    if (event->type == US_EV_CONNECTED || event->type == US_EV_SENDABLE)
        while (us_send(host->stack, event->conn, bytes, sizeof(bytes)) == (long)sizeof(bytes))
            continue;
    if (event->type != US_EV_CWND)
        return;
    us_conn_get_info(host->stack, event->conn, &info);
    assert_int_not_equal(info.cwnd_bytes, watch->cwnd_bytes);
    watch->cwnd_bytes = info.cwnd_bytes;
    watch->events++;
}

/* Each event has another window, and after the last one it stays; without watching none comes. */
static void changes_of_the_window_are_events(void **state)
{
    int on;

    for (on = 0; on <= 1; on++) {
        struct us_addr server = pair_addr(1);
        struct watch watch = {0, 0};
        struct us_conn_info info;
        struct us_conn *conn;
        struct pair pair;

        pair_open(&pair, NULL);
        pair.check = 1;
        pair.lose_every = 97;
        pair.host[0].on_event = watch_window;
        pair.host[1].on_event = ignore;
        pair.host[0].app = &watch;
        us_listen(pair.host[1].stack, PORT, NULL);
        conn = us_connect(pair.host[0].stack, &server, PORT, 0, NULL, NULL);
        us_conn_watch_cwnd(pair.host[0].stack, conn, on);
        pair_run(&pair, pair.now_us + 200 * 1000);
        us_conn_get_info(pair.host[0].stack, conn, &info);
        if (on) {
            assert_true(watch.events > 10);
            assert_int_equal(watch.cwnd_bytes, info.cwnd_bytes);
        } else {
            assert_int_equal(watch.events, 0);
        }
        us_abort(pair.host[0].stack, conn);
        pair_run(&pair, pair.now_us + 1000 * 1000);
        pair_close(&pair);
    }
}

/* CLOSED is the only event of a connection that has ended. */
static void an_ended_connection_has_no_window(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_conn_watch_cwnd(raw->stack, conn, 1);
    us_abort(raw->stack, conn);
    us_conn_watch_cwnd(raw->stack, conn, 1);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_ABORTED);
}

/* The next event is CWND, and the window is this. */
static void expect_window(struct raw *raw, const struct us_conn *conn, u_u32 cwnd_bytes)
{
    struct us_conn_info info;

    raw_expect_event(raw, US_EV_CWND);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.cwnd_bytes, cwnd_bytes);
}

/* A timeout and a pause change the window without any segment of the peer. */
static void changes_without_an_ack_are_events(void **state)
{
    static const u_u8 bytes[20000];
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    unsigned i;

    raw->opts.mss = 1000;
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bytes, 10000);
    raw_pump(raw, 0);
    for (i = 1; i <= 10; i++)
        raw_segment(raw, US_TCP_ACK, 1001, snd + i * 1000, 65535, NULL, 0);
    us_conn_watch_cwnd(raw->stack, conn, 1);
    raw_pump(raw, 10 * 1000 * 1000);
    expect_window(raw, conn, 20000);
    assert_null(raw_event(raw));
    us_send(raw->stack, conn, bytes, 100);
    raw_pump(raw, 0);
    raw_pump(raw, 0);
    expect_window(raw, conn, 10000);
    raw_pump(raw, 10 * 1000 * 1000);
    raw_pump(raw, 0);
    expect_window(raw, conn, 1000);
}

/* The application has to know of a connection before it moves. */
static void no_export_before_connected(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;

    conn = us_connect(raw->stack, &peer, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_non_null(conn);
    raw_pump(raw, 0);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_SYN | US_TCP_ACK, 1000, raw_frame(raw)->seq + 1, 65535, NULL, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_ERR_UNREAD);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect_event(raw, US_EV_CONNECTED);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ttl_and_dscp_are_sent, raw_setup, raw_teardown),
        cmocka_unit_test(hop_limit_and_traffic_class_are_sent),
        cmocka_unit_test(a_connection_has_queues_of_its_own),
        cmocka_unit_test_setup_teardown(a_small_queue_is_announced_again, raw_setup, raw_teardown),
        cmocka_unit_test(the_largest_queues_of_a_connection),
        cmocka_unit_test_setup_teardown(references_are_bounded_in_bytes, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(a_closed_connection_has_no_room, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(data_waits_for_the_handshake, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(data_waits_for_a_simultaneous_open, raw_setup,
                                        raw_teardown),
        cmocka_unit_test_setup_teardown(a_queue_is_sendable_at_its_mark, raw_setup, raw_teardown),
        cmocka_unit_test(changes_of_the_window_are_events),
        cmocka_unit_test_setup_teardown(an_ended_connection_has_no_window, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(changes_without_an_ack_are_events, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(no_export_before_connected, raw_setup, raw_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
