/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: their order, their bounds, and data that the application gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"

static int setup(void **state)
{
    static struct raw raw;

    raw_open(&raw, NULL);
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Takes the stack's next event, which must be DATA with these bytes. */
static void expect_data(struct raw *raw, const char *bytes)
{
    struct us_event event;

    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_DATA);
    assert_int_equal(event.len, strlen(bytes));
    assert_memory_equal(event.data, bytes, event.len);
}

static void expect_none(struct raw *raw)
{
    struct us_event event;

    assert_int_equal(us_next_event(raw->stack, &event), 0);
}

/* Fields that an event does not have are null, whatever the structure held before. */
static void an_event_has_nothing_of_the_one_before(void **state)
{
    struct raw *raw = *state;
    struct us_event event;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd, 65535, NULL, 0);
    memset(&event, 0xff, sizeof(event));
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_PEER_CLOSED);
    assert_null(event.cookie);
    assert_null(event.data);
    assert_int_equal(event.len, 0);
    assert_null(event.datagram);
    raw->no_pump = 0;
}

static void kept_bytes_come_again_in_order(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event event;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abcde", 5);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"cde", 3), 0);
    raw_segment(raw, US_TCP_ACK, 1006, snd, 65535, "fgh", 3); /* while it is held */
    expect_none(raw);
    us_recv_resume(raw->stack, conn);
    expect_data(raw, "cde");
    expect_data(raw, "fgh");
    expect_none(raw);
    raw_segment(raw, US_TCP_ACK, 1009, snd, 65535, "i", 1);
    expect_data(raw, "i");
    raw->no_pump = 0;
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

/* Bytes of more than one block come again in several events, of which one may be kept once more. */
static void bytes_are_kept_twice(void **state)
{
    enum { EVENTS = 4, BYTES = 4000, TAKEN = 100 };
    struct raw *raw = *state;
    struct us_event events[EVENTS];
    struct us_conn *conn;
    struct us_event event;
    u_u8 bytes[BYTES];
    u_u32 snd;
    u_u32 at;
    int i;

    for (at = 0; at < BYTES; at++)
        bytes[at] = (u_u8)(at * 7 >> 3);
    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    for (at = 0; at < BYTES; at += BYTES / EVENTS)
        raw_segment(raw, US_TCP_ACK, 1001 + at, snd, 65535, bytes + at, BYTES / EVENTS);
    for (i = 0; i < EVENTS; i++)
        assert_int_equal(us_next_event(raw->stack, &events[i]), 1);
    for (i = 0; i < EVENTS; i++)
        assert_int_equal(us_recv_keep(raw->stack, conn, events[i].data, events[i].len), 0);
    us_recv_resume(raw->stack, conn);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_true(event.len < BYTES);
    assert_int_equal(us_recv_keep(raw->stack, conn, event.data + TAKEN, event.len - TAKEN), 0);
    us_recv_resume(raw->stack, conn);
    for (at = TAKEN; us_next_event(raw->stack, &event); at += event.len) {
        assert_true(event.len <= BYTES - at);
        assert_memory_equal(event.data, bytes + at, event.len);
    }
    assert_int_equal(at, BYTES);
    raw->no_pump = 0;
}

/* Two events are taken before the first is kept; a third is in the ring. */
static void keeping_several_events_keeps_their_order(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event first;
    struct us_event second;
    static char data[3][1] = {{'a'}, {'b'}, {'c'}};
    u_u32 snd;
    int i;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    for (i = 0; i < 3; i++)
        raw_segment(raw, US_TCP_ACK, 1001 + (u_u32)i, snd, 65535, data[i], 1);
    assert_int_equal(us_next_event(raw->stack, &first), 1);
    assert_int_equal(us_next_event(raw->stack, &second), 1);
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"A", 1), 0);
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"B", 1), 0);
    us_recv_resume(raw->stack, conn);
    assert_int_equal(us_next_event(raw->stack, &first), 1);
    assert_memory_equal(first.data, "AB", 2);
    assert_int_equal(us_next_event(raw->stack, &first), 1);
    assert_memory_equal(first.data, "c", 1);
    expect_none(raw);
}

/* The last of two events is all that is left to tell, and yet it has to wait. */
static void what_is_behind_a_kept_event_waits(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event event;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_segment(raw, US_TCP_ACK, 1004, snd, 65535, "de", 2);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.len, 3);
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"bc", 2), 0);
    expect_none(raw);
    us_recv_resume(raw->stack, conn);
    expect_data(raw, "bc");
    expect_data(raw, "de");
    expect_none(raw);
}

static void peer_closed_waits_for_kept_bytes(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event event;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1001, snd, 65535, "abc", 3);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    us_recv_keep(raw->stack, conn, (const u_u8 *)"abc", 3);
    expect_none(raw);
    us_close(raw->stack, conn);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, snd, 1005, 0);
    raw_segment(raw, US_TCP_ACK, 1005, snd + 1, 65535, NULL, 0);
    assert_null(raw_event(raw));
    us_recv_resume(raw->stack, conn);
    expect_data(raw, "abc");
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_PEER_CLOSED);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_CLOSED);
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

/* SENDABLE was pending when the connection ended: CLOSED comes alone. */
static void an_ended_connection_is_not_sendable(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event event;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_request_sendable(raw->stack, conn);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_RST, 1001, 0, 0, NULL, 0);
    raw->no_pump = 0;
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_CLOSED);
    assert_int_equal(event.reason, US_CLOSE_RESET);
    expect_none(raw);
}

/* Data, FIN and RST in one burst: kept data is lost, so PEER_CLOSED must not come. */
static void no_end_of_stream_after_lost_bytes(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_event event;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1004, snd, 65535, "def", 3);
    raw_segment(raw, US_TCP_RST, 1008, snd, 65535, NULL, 0);
    expect_data(raw, "abc");
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"bc", 2), 0);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_CLOSED);
    assert_int_equal(event.reason, US_CLOSE_RESET);
    expect_none(raw);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void reset_discards_kept_bytes(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_expect_event(raw, US_EV_DATA);
    us_recv_keep(raw->stack, conn, (const u_u8 *)"abc", 3);
    raw_segment(raw, US_TCP_RST, 1004, 0, 0, NULL, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_RESET);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void held_window_closes_and_opens(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn *conn;
    struct raw_frame *frame;
    struct us_event event;
    static u_u8 data[1000];
    u_u32 edge;
    u_u32 snd;
    u_u32 seq = 1001;
    u_u32 got = 0;

    raw_close(raw);
    pair_config(&config, 0);
    config.recv_window_bytes = 4000;
    raw_open(raw, &config);
    us_listen(raw->stack, RAW_PORT, NULL);
    conn = raw_accept(raw, &snd);
    edge = 1001 + 4000;
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, seq, snd, 65535, data, 1000);
    seq += 1000;
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    us_recv_keep(raw->stack, conn, data, 1000);
    raw->no_pump = 0;
    while (seq != edge) {
        raw_segment(raw, US_TCP_ACK, seq, snd, 65535, data, 1000);
        seq += 1000;
        while ((frame = raw_frame(raw)) != NULL)
            assert_int_equal(frame->ack + frame->window, edge); /* the edge stays */
    }
    raw_pump(raw, 100000);
    while ((frame = raw_frame(raw)) != NULL)
        assert_int_equal(frame->window, 0);
    raw_segment(raw, US_TCP_ACK, seq, snd, 65535, data, 1000); /* beyond the window */
    raw_expect(raw, US_TCP_ACK, snd, edge, 0);
    us_recv_resume(raw->stack, conn);
    while (us_next_event(raw->stack, &event))
        got += event.len;
    assert_int_equal(got, 4000);
    raw_pump(raw, 0);
    frame = raw_expect(raw, US_TCP_ACK, snd, edge, 0); /* the window update */
    assert_int_equal(frame->window, 4000);
}

/*
 * A window of less than two segments has grown by half of it once one segment is read: no delayed
 * ACK is waited for (RFC 9293 3.8.6.2.2).
 */
static void reading_one_segment_opens_a_small_window(void **state)
{
    static const u_u8 data[1200];
    struct raw *raw = *state;
    struct us_config config;
    unsigned general;
    u_u32 snd;

    for (general = 0; general < 2; general++) {
        raw_close(raw);
        pair_config(&config, 0);
        config.recv_window_bytes = 2000;
        config.quick_acks = 0;
        config.no_fast_path = general;
        raw_open(raw, &config);
        us_listen(raw->stack, RAW_PORT, NULL);
        raw_accept(raw, &snd);
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, data, 100);
        raw_expect_nothing(raw);
        raw_pump(raw, 100000);
        raw_expect(raw, US_TCP_ACK, snd, 1101, 0);
        raw_segment(raw, US_TCP_ACK, 1101, snd, 65535, data, 1200);
        assert_int_equal(raw_expect(raw, US_TCP_ACK, snd, 2301, 0)->window, 2000);
        assert_int_equal(raw_counter(raw, "tcp_fast_path"), !general);
    }
}

/*
 * A larger window is announced by an ACK of its own once it has grown by two segments (RFC 9293
 * 3.8.6.2.2), not for the first of some blocks.
 */
static void one_block_is_no_news_of_a_window(void **state)
{
    static const u_u8 data[1460];
    struct raw *raw = *state;
    struct us_config config;
    struct us_event event;
    struct us_conn *conn;
    u_u32 read = 0;
    u_u32 snd;
    unsigned i;

    raw_close(raw);
    pair_config(&config, 0);
    config.recv_window_bytes = 8000;
    raw_open(raw, &config);
    us_listen(raw->stack, RAW_PORT, NULL);
    conn = raw_accept(raw, &snd);
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, data, 1460);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(us_recv_keep(raw->stack, conn, data, 1460), US_OK);
    for (i = 1; i < 4; i++)
        raw_segment(raw, US_TCP_ACK, 1001 + i * 1460, snd, 65535, data, 1460);
    raw_pump(raw, 100000);
    while (raw_frame(raw) != NULL)
        continue;
    us_recv_resume(raw->stack, conn);
    while (us_next_event(raw->stack, &event)) {
        read += event.len;
        assert_int_equal(us_deadline(raw->stack) <= raw->now_us, read >= 2 * 1460);
        if (read >= 2 * 1460)
            break;
    }
    assert_in_range(read, 2 * 1460, 4 * 1460 - 1);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001 + 4 * 1460, 0);
}

static void input_stops_when_events_would_not_fit(void **state)
{
    struct raw *raw = *state;
    struct us_event event;
    u_u32 snd;
    unsigned taken = 0;
    u_u64 before;
    unsigned i;

    raw_accept(raw, &snd);
    raw->no_pump = 1;
    for (i = 0; i < 512; i++)
        raw_segment(raw, US_TCP_ACK, 1001 + i, snd, 65535, "x", 1);
    {
        u_u8 bytes[60] = {0};
        struct us_pkt pkt;
        struct us_pkt *list = &pkt;

        memset(&pkt, 0, sizeof(pkt));
        pkt.data = bytes;
        pkt.len = sizeof(bytes);
        before = raw_counter(raw, "rx_frames");
        assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 0);
        assert_int_equal(raw_counter(raw, "rx_frames"), before);
        while (us_next_event(raw->stack, &event))
            taken += event.type == US_EV_DATA;
        assert_int_equal(taken, 512);
        assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 1);
    }
    assert_int_equal(raw_counter(raw, "input_cut_short"), 1);
}

/* A listening stack with memory for few bytes. */
static void reopen_with_few_buffers(struct raw *raw)
{
    struct us_config config;

    raw_close(raw);
    pair_config(&config, 0);
    config.buffer_bytes = 4 * 2048;
    raw_open(raw, &config);
    us_listen(raw->stack, RAW_PORT, NULL);
}

/* Two connections with few buffers: the peer's, with its next sequence number, and another one. */
static struct us_conn *accept_two(struct raw *raw, u_u32 *snd, struct us_conn **other)
{
    u_u32 unused;

    reopen_with_few_buffers(raw);
    raw->peer_port++;
    *other = raw_accept(raw, &unused);
    raw->peer_port--;
    return raw_accept(raw, snd);
}

/* Data that cannot be stored is not acknowledged: the peer gets a duplicate ACK. */
static void data_behind_kept_bytes_needs_memory(void **state)
{
    static const u_u8 data[10000];
    struct raw *raw = *state;
    struct us_conn *other;
    struct us_conn *conn;
    u_u32 snd;

    conn = accept_two(raw, &snd, &other);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"abc", 3), US_OK);
    assert_true(us_send(raw->stack, other, data, sizeof(data)) < (long)sizeof(data));
    raw_pump(raw, 100000);
    while (raw_frame(raw) != NULL)
        continue;
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1004, snd, 65535, data, 1400);
    raw_expect(raw, US_TCP_ACK, snd, 1004, 0);
    assert_int_equal(raw_counter(raw, "drop_tcp_rx_memory"), 1);
    us_recv_resume(raw->stack, conn);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 3);
    assert_null(raw_event(raw)); /* nor was the end of the stream taken */
    raw_pump(raw, 0);
    assert_ptr_equal(raw_expect_event(raw, US_EV_SENDABLE)->conn, other);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1004, snd, 65535, data, 1400);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 1400);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
}

static void keep_without_memory_aborts(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct us_conn *other;
    static u_u8 data[10000];
    u_u32 snd;

    reopen_with_few_buffers(raw);
    conn = raw_accept(raw, &snd);
    raw->peer_port++;
    other = raw_accept(raw, &snd);
    assert_true(us_send(raw->stack, other, data, sizeof(data)) < (long)sizeof(data));
    raw->peer_port--;
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw->no_pump = 0;
    raw_pump(raw, 0);
    while (raw_frame(raw) != NULL)
        continue;
    assert_int_equal(us_recv_keep(raw->stack, conn, data, 3), US_ERR_NO_MEMORY);
    while (raw_event(raw) != NULL)
        continue;
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_NO_MEMORY);
    assert_true(raw_frame(raw)->flags & US_TCP_RST);
}

/* Opens a connection whose FIN the peer has acknowledged, beside `other`, with few buffers. */
static struct us_conn *open_half_closed(struct raw *raw, struct us_conn **other, u_u32 *snd)
{
    struct us_conn *conn = accept_two(raw, snd, other);

    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK | US_TCP_FIN, *snd, 1001, 0);
    ++*snd;
    raw_segment(raw, US_TCP_ACK, 1001, *snd, 65535, NULL, 0);
    raw->no_pump = 1;
    return conn;
}

/* CLOSED says that bytes are missing, and nothing pretends that the stream is complete. */
static void expect_end_without_memory(struct raw *raw)
{
    struct us_event event;

    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_CLOSED);
    assert_int_equal(event.reason, US_CLOSE_NO_MEMORY);
    assert_int_equal(raw_counter(raw, "tcp_no_memory"), 1);
    expect_none(raw);
    raw_pump(raw, 0); /* the connection may have a RST to send */
    assert_int_equal(raw_counter(raw, "conns_open"), 1);
}

/* The second of two segments cannot be stored behind the first, which the application holds. */
static void data_behind_a_kept_event_needs_memory(void **state)
{
    static const u_u8 data[5000];
    struct raw *raw = *state;
    struct us_conn *other;
    struct us_conn *conn;
    u_u32 snd;

    conn = accept_two(raw, &snd, &other);
    assert_int_equal(us_send(raw->stack, other, data, sizeof(data)), sizeof(data));
    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_segment(raw, US_TCP_ACK, 1004, snd, 65535, "def", 3);
    expect_data(raw, "abc");
    assert_int_equal(us_recv_keep(raw->stack, conn, (const u_u8 *)"abc", 3), US_OK);
    expect_end_without_memory(raw);
}

/* Both sides have closed: the last data and the FIN have come in a burst. */
static void keep_without_memory_after_the_end(void **state)
{
    static const u_u8 data[10000];
    struct raw *raw = *state;
    struct us_conn *other;
    struct us_conn *conn;
    u_u32 snd;

    conn = open_half_closed(raw, &other, &snd);
    assert_true(us_send(raw->stack, other, data, sizeof(data)) < (long)sizeof(data));
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "abc", 3);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 1004, snd, 65535, "def", 3);
    expect_data(raw, "abc");
    assert_int_equal(us_recv_keep(raw->stack, conn, data, 3), US_ERR_NO_MEMORY);
    expect_end_without_memory(raw);
}

/* The second of two events cannot be kept, when CLOSED waits for the first already. */
static void keep_without_memory_behind_kept_bytes(void **state)
{
    static const u_u8 data[10000];
    struct raw *raw = *state;
    struct us_conn *other;
    struct us_event event;
    struct us_conn *conn;
    u_u32 snd;

    conn = open_half_closed(raw, &other, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, data, 1400);
    raw_segment(raw, US_TCP_ACK | US_TCP_FIN, 2401, snd, 65535, data, 1400);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(us_recv_keep(raw->stack, conn, data, 1400), US_OK);
    expect_none(raw);
    assert_true(us_send(raw->stack, other, data, sizeof(data)) < (long)sizeof(data));
    assert_int_equal(us_recv_keep(raw->stack, conn, data, 1400), US_ERR_NO_MEMORY);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.type, US_EV_SENDABLE); /* what was kept has made room */
    assert_ptr_equal(event.conn, other);
    expect_end_without_memory(raw);
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(an_event_has_nothing_of_the_one_before),
        RAW_TEST(kept_bytes_come_again_in_order),
        RAW_TEST(bytes_are_kept_twice),
        RAW_TEST(keeping_several_events_keeps_their_order),
        RAW_TEST(what_is_behind_a_kept_event_waits),
        RAW_TEST(peer_closed_waits_for_kept_bytes),
        RAW_TEST(an_ended_connection_is_not_sendable),
        RAW_TEST(no_end_of_stream_after_lost_bytes),
        RAW_TEST(reset_discards_kept_bytes),
        RAW_TEST(held_window_closes_and_opens),
        RAW_TEST(reading_one_segment_opens_a_small_window),
        RAW_TEST(one_block_is_no_news_of_a_window),
        RAW_TEST(input_stops_when_events_would_not_fit),
        RAW_TEST(data_behind_kept_bytes_needs_memory),
        RAW_TEST(keep_without_memory_aborts),
        RAW_TEST(data_behind_a_kept_event_needs_memory),
        RAW_TEST(keep_without_memory_after_the_end),
        RAW_TEST(keep_without_memory_behind_kept_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
