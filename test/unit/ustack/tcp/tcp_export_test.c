/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that move between instances: us_conn_export(), us_conn_import(). Whole streams are in
 * tcp_export_stream_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "pair.h"
#include "raw.h"

enum { QUEUE_ROOM = 1 << 20, HEIR_SECRET = 0x33 };

static u_u8 queue[QUEUE_ROOM];

/* Another instance with the same addresses and another secret, which listens. */
static void heir_open(struct raw *heir, const struct raw *old, const struct us_config *change)
{
    struct us_config config;

    pair_config(&config, 0);
    if (change != NULL)
        config = *change;
    memset(config.secret, HEIR_SECRET, sizeof(config.secret));
    raw_open(heir, &config);
    heir->answer_arp = 1;
    heir->peer_port = old->peer_port;
    heir->opts = old->opts;
    assert_int_equal(us_listen(heir->stack, RAW_PORT, NULL), 0);
}

static void accept_with_options(struct raw *raw, struct us_conn **conn, u_u32 *snd)
{
    raw->opts.has_ts = 1;
    raw->opts.ts_val = 1;
    raw->opts.sack_permitted = 1;
    raw->opts.has_scale = 1;
    raw->opts.scale = 5;
    raw->opts.mss = 1460;
    *conn = raw_accept(raw, snd);
    raw->opts.mss = 0;
    raw->opts.has_scale = 0;
    raw->opts.sack_permitted = 0;
}

static void drop_frames(struct raw *raw)
{
    while (raw_frame(raw) != NULL)
        continue;
}

static void expect_exported(struct raw *raw, struct us_conn *conn)
{
    us_conn_forget(raw->stack, conn);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_EXPORTED);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
}

static void numbers_continue(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd, clock;
    int error = 1;

    accept_with_options(raw, &conn, &snd);
    raw_segment(raw, US_TCP_ACK | US_TCP_PSH, 1001, snd, 1000, "hello", 5);
    raw_expect_event(raw, US_EV_DATA);
    drop_frames(raw);
    assert_int_equal(us_send(raw->stack, conn, "world", 5), 5);
    raw_pump(raw, 0);
    clock = raw_expect(raw, US_TCP_ACK, snd, 1006, 5)->opts.ts_val;
    raw_segment(raw, US_TCP_ACK, 1006, snd + 5, 1000, NULL, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    expect_exported(raw, conn);

    heir_open(&heir, raw, NULL);
    conn = us_conn_import(heir.stack, &moved, NULL, &heir, &error);
    assert_int_equal(error, US_OK);
    assert_non_null(conn);
    raw_pump(&heir, 0);
    raw_expect_nothing(&heir);
    us_conn_get_info(heir.stack, conn, &info);
    assert_true(info.sack && info.timestamps && info.window_scaling);
    assert_int_equal(info.send_scale, 5);
    assert_int_equal(info.send_window_bytes, 1000 << 5);
    assert_int_equal(info.mss, 1448);
    assert_true(info.srtt_us > 0);
    assert_int_equal(info.bytes_in + info.bytes_out, 10);
    assert_ptr_equal(us_conn_user(conn), &heir);

    raw_segment(&heir, US_TCP_ACK | US_TCP_PSH, 1006, snd + 5, 1000, "again", 5);
    assert_int_equal(raw_expect_event(&heir, US_EV_DATA)->len, 5);
    drop_frames(&heir);
    assert_int_equal(us_send(heir.stack, conn, "fine", 4), 4);
    raw_pump(&heir, 0);
    /* The clock of the timestamps continues (RFC 7323 section 4.1), whatever the instance's is. */
    assert_in_range(raw_expect(&heir, US_TCP_ACK, snd + 5, 1011, 4)->opts.ts_val - clock, 0, 1000);
    raw_segment(&heir, US_TCP_RST, 1011, 0, 0, NULL, 0);
    assert_int_equal(raw_expect_event(&heir, US_EV_CLOSED)->reason, US_CLOSE_RESET);
    raw_close(&heir);
}

/* What the application has set and counted is the same at the new instance. */
static void settings_go_along(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved, again;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    us_conn_set_nodelay(raw->stack, conn, 0);
    us_conn_set_user_timeout(raw->stack, conn, 12345);
    us_conn_set_keepalive(raw->stack, conn, 50000, 6000, 3);
    us_conn_set_cc(conn, US_CC_DCTCP);
    us_send(raw->stack, conn, "once more", 9);
    raw_pump(raw, 0);
    raw_pump(raw, 3000000); /* the peer is silent */
    drop_frames(raw);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 9, 1000, NULL, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    assert_int_equal(moved.flags & US_CONN_STATE_NODELAY, 0);
    expect_exported(raw, conn);
    heir_open(&heir, raw, NULL);
    moved.options |= US_CONN_STATE_ECN;
    moved.flags |= US_CONN_STATE_ECE;
    moved.ssthresh = 30000;
    moved.mss_offered = 1000;
    conn = us_conn_import(heir.stack, &moved, NULL, NULL, NULL);
    assert_int_equal(us_conn_export(heir.stack, conn, &again, NULL, 0), US_OK);
    assert_int_equal(again.flags, moved.flags);
    assert_int_equal(again.mss_offered, 1000);
    assert_int_equal(again.user_timeout_ms, 12345);
    assert_int_equal(again.keepalive_count, 3);
    assert_in_range(again.retransmits, 1, 20);
    assert_int_equal(again.cc, US_CC_DCTCP);
    assert_int_equal(again.ssthresh, 30000);
    raw_close(&heir);
}

/* Unacknowledged bytes, copied or referred to, are sent again; unsent ones follow. */
static void queued_bytes_go_along(void **state)
{
    static struct raw heir;
    static const char value[] = "a referenced value";
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd, len = 3 + sizeof(value);
    int cookie;

    accept_with_options(raw, &conn, &snd);
    us_send(raw->stack, conn, "one", 3);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 3);
    assert_int_equal(us_send_ref(raw->stack, conn, value, sizeof(value), &cookie), US_OK);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, len - 1), US_ERR_FULL);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, len), US_OK);
    assert_int_equal(moved.queued_bytes, len);
    assert_int_equal(moved.sent_bytes, 3);
    us_conn_forget(raw->stack, conn);
    raw_pump(raw, 0);
    assert_ptr_equal(raw_expect_event(raw, US_EV_RELEASED)->cookie, &cookie);
    expect_exported(raw, conn);

    heir_open(&heir, raw, NULL);
    conn = us_conn_import(heir.stack, &moved, queue, NULL, NULL);
    assert_non_null(conn);
    assert_int_equal(us_send_queued(conn), len);
    raw_pump(&heir, 0);
    assert_memory_equal(raw_expect(&heir, US_TCP_ACK, snd, 1001, len)->data,
                        "onea referenced value", len);
    raw_segment(&heir, US_TCP_ACK, 1001, snd + len, 1000, NULL, 0);
    assert_int_equal(us_send_queued(conn), 0);
    raw_close(&heir);
}

/* A failed handover is undone by an import into the same instance. */
static void import_undoes_an_export(void **state)
{
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    us_conn_forget(raw->stack, conn);
    conn = us_conn_import(raw->stack, &moved, NULL, NULL, NULL);
    assert_non_null(conn);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_EXPORTED);
    raw_segment(raw, US_TCP_ACK | US_TCP_PSH, 1001, snd, 1000, "hello", 5);
    assert_ptr_equal(raw_expect_event(raw, US_EV_DATA)->conn, conn);
}

static void states_that_stay(void **state)
{
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK | US_TCP_PSH, 1001, snd, 1000, "hello", 5);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_ERR_UNREAD);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect_event(raw, US_EV_DATA);
    us_close(raw->stack, conn);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_ERR_STATE);
    assert_int_equal(raw_counter(raw, "tcp_exported"), 0);
}

/* Bytes that the application holds back, and the end of the stream, come at the new instance. */
static void unread_bytes_go_along(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_event *event;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK | US_TCP_PSH, 1001, snd, 1000, "hello", 5);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    event = raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(us_recv_keep(raw->stack, conn, event->data + 2, 3), US_OK);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1006, snd, 1000, " world", 6);
    assert_null(raw_event(raw));
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, 8), US_ERR_FULL);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, 9), US_OK);
    assert_int_equal(moved.unread_bytes, 9);
    assert_true(moved.flags & US_CONN_STATE_PEER_CLOSED);
    drop_frames(raw);
    expect_exported(raw, conn);

    heir_open(&heir, raw, NULL);
    conn = us_conn_import(heir.stack, &moved, queue, NULL, NULL);
    assert_non_null(conn);
    raw_pump(&heir, 0);
    assert_null(raw_event(&heir));
    us_recv_resume(heir.stack, conn);
    raw_pump(&heir, 0);
    event = raw_expect_event(&heir, US_EV_DATA);
    assert_int_equal(event->len, 9);
    assert_memory_equal(event->data, "llo world", 9);
    raw_expect_event(&heir, US_EV_PEER_CLOSED);
    us_close(heir.stack, conn);
    drop_frames(&heir);
    raw_pump(&heir, 0);
    raw_expect(&heir, US_TCP_ACK | US_TCP_FIN, snd, 1013, 0);
    raw_segment(&heir, US_TCP_ACK, 1013, snd + 1, 1000, NULL, 0);
    assert_int_equal(raw_expect_event(&heir, US_EV_CLOSED)->reason, US_CLOSE_NORMAL);
    raw_close(&heir);
}

/* A FIN has no room in a window, so it may be the number behind a full one. */
static void a_fin_behind_a_full_window_goes_along(void **state)
{
    enum { WINDOW = 2048, PIECE = WINDOW / 2 };
    static const u_u8 bytes[PIECE];
    static struct raw raw;
    static struct raw heir;
    struct us_conn_state moved;
    struct us_config config;
    struct us_event *event;
    struct us_conn *conn;
    u_u32 got = 0;
    u_u32 snd;

    pair_config(&config, 0);
    config.recv_window_bytes = WINDOW;
    raw_open(&raw, &config);
    raw.answer_arp = 1;
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    conn = raw_accept(&raw, &snd);
    raw.no_pump = 1;
    raw_segment(&raw, US_TCP_ACK, 1001, snd, 1000, bytes, PIECE);
    raw.no_pump = 0;
    raw_pump(&raw, 0);
    event = raw_expect_event(&raw, US_EV_DATA);
    assert_int_equal(us_recv_keep(raw.stack, conn, event->data, PIECE), US_OK);
    raw.no_pump = 1; /* no ACK has said yet that the window is full */
    raw_segment(&raw, US_TCP_ACK | US_TCP_FIN, 1001 + PIECE, snd, 1000, bytes, PIECE);
    assert_int_equal(us_conn_export(raw.stack, conn, &moved, queue, WINDOW), US_OK);
    raw.no_pump = 0;
    drop_frames(&raw);
    assert_int_equal(moved.rcv_nxt, 1001 + WINDOW + 1);
    expect_exported(&raw, conn);
    heir_open(&heir, &raw, &config);
    conn = us_conn_import(heir.stack, &moved, queue, NULL, NULL);
    assert_non_null(conn);
    us_recv_resume(heir.stack, conn);
    raw_pump(&heir, 0);
    while (got < WINDOW)
        got += raw_expect_event(&heir, US_EV_DATA)->len;
    raw_expect_event(&heir, US_EV_PEER_CLOSED);
    raw_close(&heir);
    raw_close(&raw);
    (void)state;
}

/* A peer that knows a closed window learns that it is open; a delayed ACK is sent. */
static void ack_that_is_owed_is_sent(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    const struct raw_frame *frame;
    struct us_conn_state moved;
    struct us_event event;
    struct us_conn *conn;
    u_u32 snd;
    u_u32 i;

    accept_with_options(raw, &conn, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 1000, "hello", 5); /* whose ACK offers all */
    for (i = 1; i <= 2; i++) {
        raw->no_pump = 1;
        raw_segment(raw, US_TCP_ACK | US_TCP_PSH, 1001 + 5 * i, snd, 1000, "hello", 5);
        raw->no_pump = 0;
        assert_int_equal(us_next_event(raw->stack, &event), 1);
        assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
        if (i == 1) {
            assert_int_not_equal(moved.last_ack, moved.rcv_nxt);
        } else {
            moved.last_ack = moved.rcv_nxt;
            moved.rcv_adv = moved.rcv_nxt;
        }
        heir_open(&heir, raw, NULL);
        assert_non_null(us_conn_import(heir.stack, &moved, NULL, NULL, NULL));
        raw_pump(&heir, 0);
        frame = raw_expect(&heir, US_TCP_ACK, snd, 1006 + 5 * i, 0);
        assert_true(frame->window > 0);
        assert_int_equal(frame->opts.ts_ecr, raw->opts.ts_val);
        raw_close(&heir);
    }
}

/* An ACK that was overtaken does not set the window of a moved connection, the latest one does. */
static void the_latest_ack_sets_the_window(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    us_send(raw->stack, conn, "hello", 5);
    raw_pump(raw, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 5, 1000, NULL, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    heir_open(&heir, raw, NULL);
    conn = us_conn_import(heir.stack, &moved, NULL, NULL, NULL);
    raw_segment(&heir, US_TCP_ACK, 1001, snd, 900, NULL, 0);
    us_conn_get_info(heir.stack, conn, &info);
    assert_int_equal(info.send_window_bytes, 1000 << 5);
    raw_segment(&heir, US_TCP_ACK, 1001, snd + 5, 2000, NULL, 0);
    us_conn_get_info(heir.stack, conn, &info);
    assert_int_equal(info.send_window_bytes, 2000 << 5);
    raw_close(&heir);
}

/* The end of the peer's stream has come: data behind it is ignored at the new instance, too. */
static void the_end_of_a_stream_goes_along(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd, 1000, NULL, 0);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    drop_frames(raw);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    heir_open(&heir, raw, NULL);
    assert_non_null(us_conn_import(heir.stack, &moved, NULL, NULL, NULL));
    raw_pump(&heir, 0);
    raw_expect_event(&heir, US_EV_PEER_CLOSED);
    raw_segment(&heir, US_TCP_ACK, 1002, snd, 1000, "late", 4);
    assert_null(raw_event(&heir));
    raw_expect(&heir, US_TCP_ACK, snd, 1002, 0);
    raw_close(&heir);
}

/* An imported connection counts for the listener that the port has now. */
static void listeners_count_imported_connections(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    heir_open(&heir, raw, NULL);
    assert_int_equal(us_unlisten(heir.stack, RAW_PORT), US_OK);
    assert_int_equal(us_listen(heir.stack, RAW_PORT, NULL), US_OK);
    assert_int_equal(us_listen_limit(heir.stack, RAW_PORT, 1, US_LISTEN_REFUSE), US_OK);
    assert_non_null(us_conn_import(heir.stack, &moved, NULL, NULL, NULL));
    raw_pump(&heir, 0);
    drop_frames(&heir);
    heir.peer_port++;
    raw_segment(&heir, US_TCP_SYN, 1000, 0, 1000, NULL, 0);
    raw_expect(&heir, US_TCP_RST | US_TCP_ACK, 0, 1001, 0);
    heir.peer_port--;
    raw_segment(&heir, US_TCP_RST, 1001, 0, 0, NULL, 0);
    raw_expect_event(&heir, US_EV_CLOSED);
    heir.peer_port++;
    raw_accept(&heir, &snd);
    raw_close(&heir);
}

/* RFC 5681 4.1: a connection that was idle before the move restarts with a small window. */
static void a_pause_goes_along(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    raw->opts.mss = 1000;
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    raw_pump(raw, 5000000);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    moved.cwnd = 60000;
    heir_open(&heir, raw, NULL);
    raw_pump(&heir, 10000000);
    conn = us_conn_import(heir.stack, &moved, NULL, NULL, NULL);
    us_send(heir.stack, conn, "y", 1);
    raw_pump(&heir, 0);
    us_conn_get_info(heir.stack, conn, &info);
    assert_int_equal(info.cwnd_bytes, 10000);
    raw_close(&heir);
}

/* How long the peer is silent does not depend on what was sent to it. */
static void a_silence_goes_along(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    raw_pump(raw, 5000000);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, QUEUE_ROOM), US_OK);
    heir_open(&heir, raw, NULL);
    raw_pump(&heir, 10000000);
    conn = us_conn_import(heir.stack, &moved, queue, NULL, NULL);
    us_conn_get_info(heir.stack, conn, &info);
    assert_in_range(info.silent_us, 4998000, 5000000); /* in ticks */
    raw_close(&heir);
}

/* What was in flight is sent again, so duplicate ACKs of it report no loss (RFC 6582 3.2). */
static void duplicate_acks_after_a_move(void **state)
{
    static const u_u8 bytes[3000];
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    unsigned i;
    u_u32 snd;

    raw->opts.mss = 1000;
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, bytes, sizeof(bytes));
    raw_pump(raw, 0);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, QUEUE_ROOM), US_OK);
    heir_open(&heir, raw, NULL);
    assert_non_null(us_conn_import(heir.stack, &moved, queue, NULL, NULL));
    raw_pump(&heir, 0);
    drop_frames(&heir);
    for (i = 0; i < 4; i++)
        raw_segment(&heir, US_TCP_ACK, 1001, snd, moved.snd_wnd, NULL, 0);
    raw_expect_nothing(&heir);
    assert_int_equal(raw_counter(&heir, "tcp_fast_retransmits"), 0);
    raw_close(&heir);
}

/* A path MTU that was lowered may be probed at once, however long the new instance has run. */
static void a_small_path_is_probed_again(void **state)
{
    static const u_u8 bytes[1460];
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    raw->opts.mss = 1460;
    conn = raw_accept(raw, &snd);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, NULL, 0), US_OK);
    moved.path_mtu = 1000;
    heir_open(&heir, raw, NULL);
    raw_pump(&heir, (u_u64)30 * 24 * 3600 * 1000 * 1000);
    conn = us_conn_import(heir.stack, &moved, NULL, NULL, NULL);
    us_send(heir.stack, conn, bytes, sizeof(bytes));
    raw_pump(&heir, 0);
    raw_expect(&heir, US_TCP_ACK, snd, 1001, sizeof(bytes));
    raw_close(&heir);
}

/* The peer's MAC address goes along: its first segment needs no resolution. */
static void peers_are_reached_without_resolution(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    us_send(raw->stack, conn, "x", 1);
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, QUEUE_ROOM), US_OK);
    assert_memory_equal(moved.remote_mac, raw_peer_mac, 6);
    heir_open(&heir, raw, NULL);
    heir.answer_arp = 0;
    assert_non_null(us_conn_import(heir.stack, &moved, queue, NULL, NULL));
    raw_pump(&heir, 0);
    raw_expect(&heir, US_TCP_ACK, snd, 1001, 1);
    raw_close(&heir);
}

static void expect_refusal(struct raw *raw, const struct us_conn_state *moved, int expected)
{
    int error = US_OK;

    assert_null(us_conn_import(raw->stack, moved, queue, NULL, &error));
    assert_int_equal(error, expected);
    assert_null(us_check(raw->stack));
}

static void bad_states_are_refused(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn_state good, bad;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    assert_int_equal(us_conn_export(raw->stack, conn, &good, NULL, 0), US_OK);
    pair_config(&config, 0);
    config.conn_max = 1;
    heir_open(&heir, raw, &config);
#define REFUSED(change, expected)                                                                  \
    do {                                                                                           \
        bad = good;                                                                                \
        change;                                                                                    \
        expect_refusal(&heir, &bad, expected);                                                     \
    } while (0)
    REFUSED(bad.magic = 0x53434355, US_ERR_VERSION);
    REFUSED(bad.version++, US_ERR_VERSION);
    REFUSED(bad.bytes--, US_ERR_VERSION);
    REFUSED(bad.local.family = 5, US_ERR_ARGUMENT);
    REFUSED(bad.local.family = US_IP6, US_ERR_ARGUMENT);
    REFUSED(bad.local.bytes[3] = 77, US_ERR_NO_ROUTE);
    REFUSED(bad.remote = bad.local, US_ERR_ARGUMENT);
    REFUSED(bad.remote_port = 0, US_ERR_ARGUMENT);
    REFUSED(bad.send_scale = 15, US_ERR_ARGUMENT);
    REFUSED(bad.options = 0, US_ERR_ARGUMENT);
    REFUSED(bad.cc = 9, US_ERR_ARGUMENT);
    REFUSED(bad.path_mtu = 100, US_ERR_ARGUMENT);
    REFUSED(bad.sent_bytes = 1, US_ERR_ARGUMENT);
    REFUSED(bad.queued_bytes = config.send_queue_bytes + 1, US_ERR_FULL);
    REFUSED(bad.rcv_adv = bad.rcv_nxt - 1, US_ERR_ARGUMENT);
    REFUSED(bad.recv_scale = 15, US_ERR_ARGUMENT);
    REFUSED(bad.mss_offered = 0, US_ERR_ARGUMENT);
    REFUSED(bad.path_mtu = (u_u16)(bad.path_mtu_max + 1), US_ERR_ARGUMENT);
    REFUSED(bad.snd_wnd = bad.snd_wnd_max + 1, US_ERR_ARGUMENT);
    REFUSED(bad.snd_wnd_max = 0x80000000u, US_ERR_ARGUMENT);
    REFUSED(bad.last_ack = bad.rcv_nxt + 1, US_ERR_ARGUMENT);
    REFUSED(bad.unread_bytes = config.recv_window_bytes + 1, US_ERR_FULL);
    REFUSED(bad.unread_bytes = 0x80000000u, US_ERR_ARGUMENT);
    REFUSED(bad.srtt8_us = 0x80000000u, US_ERR_ARGUMENT);
    REFUSED(bad.srtt8_us = 7, US_ERR_ARGUMENT);
    REFUSED(bad.rttvar4_us = 0x80000000u, US_ERR_ARGUMENT);
    REFUSED(bad.min_rtt_us = 0x80000000u, US_ERR_ARGUMENT);
    REFUSED(bad.keepalive_count = 0, US_ERR_ARGUMENT);
    REFUSED(bad.keepalive_count = 201, US_ERR_ARGUMENT);
    REFUSED((bad.keepalive_idle_ms = 1, bad.keepalive_interval_ms = 0), US_ERR_ARGUMENT);
    assert_non_null(us_conn_import(heir.stack, &good, NULL, NULL, NULL));
    expect_refusal(&heir, &good, US_ERR_IN_USE);
    REFUSED(bad.remote_port++, US_ERR_NO_MEMORY);
    raw_close(&heir);
}

/* Buffers that do not suffice leave nothing behind. */
static void import_without_buffers(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn_state moved;
    struct us_conn *conn;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    while (us_send(raw->stack, conn, queue, 1000) == 1000)
        continue;
    assert_int_equal(us_conn_export(raw->stack, conn, &moved, queue, QUEUE_ROOM), US_OK);
    pair_config(&config, 0);
    config.buffer_bytes = 64 * 1024;
    heir_open(&heir, raw, &config);
    expect_refusal(&heir, &moved, US_ERR_NO_MEMORY);
    assert_int_equal(raw_counter(&heir, "conns_open"), 0);
    assert_int_equal(raw_counter(&heir, "buffer_bytes_used"), 0);
    raw_close(&heir);
}

/* Whatever a state says: it is refused, or the instance stays sound. */
static void any_bytes_are_safe(void **state)
{
    static struct raw heir;
    struct raw *raw = *state;
    struct us_conn_state good, bad;
    struct us_conn *conn;
    struct u_prng prng;
    unsigned i, n, accepted = 0;
    u_u32 snd;

    accept_with_options(raw, &conn, &snd);
    us_send(raw->stack, conn, "some bytes", 10);
    assert_int_equal(us_conn_export(raw->stack, conn, &good, queue, QUEUE_ROOM), US_OK);
    u_prng_seed(&prng, 7);
    for (i = 0; i < 3000; i++) {
        bad = good;
        for (n = u_prng_below(&prng, 4); n > 0; n--)
            ((u_u8 *)&bad)[8 + u_prng_below(&prng, sizeof(bad) - 8)] =
                (u_u8)u_prng_below(&prng, 256);
        if (i % 500 == 0)
            heir_open(&heir, raw, NULL);
        conn = us_conn_import(heir.stack, &bad, queue, NULL, NULL);
        if (conn != NULL) {
            accepted++;
            raw_pump(&heir, 1000);
            raw_segment(&heir, US_TCP_ACK, bad.rcv_nxt, bad.snd_una + 1, 1000, "data", 4);
            raw_pump(&heir, 400000);
            us_abort(heir.stack, conn);
            raw_pump(&heir, 0);
        }
        while (raw_event(&heir) != NULL || raw_frame(&heir) != NULL)
            continue;
        assert_null(us_check(heir.stack));
        if (i % 500 == 499)
            raw_close(&heir);
    }
    assert_in_range(accepted, 500, 2900);
}

#define EXPORT_TEST(function) cmocka_unit_test_setup_teardown(function, raw_setup, raw_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXPORT_TEST(numbers_continue),
        EXPORT_TEST(settings_go_along),
        EXPORT_TEST(queued_bytes_go_along),
        EXPORT_TEST(import_undoes_an_export),
        EXPORT_TEST(states_that_stay),
        EXPORT_TEST(unread_bytes_go_along),
        cmocka_unit_test(a_fin_behind_a_full_window_goes_along),
        EXPORT_TEST(ack_that_is_owed_is_sent),
        EXPORT_TEST(the_latest_ack_sets_the_window),
        EXPORT_TEST(peers_are_reached_without_resolution),
        EXPORT_TEST(the_end_of_a_stream_goes_along),
        EXPORT_TEST(listeners_count_imported_connections),
        EXPORT_TEST(a_pause_goes_along),
        EXPORT_TEST(a_silence_goes_along),
        EXPORT_TEST(duplicate_acks_after_a_move),
        EXPORT_TEST(a_small_path_is_probed_again),
        EXPORT_TEST(bad_states_are_refused),
        EXPORT_TEST(import_without_buffers),
        EXPORT_TEST(any_bytes_are_safe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
