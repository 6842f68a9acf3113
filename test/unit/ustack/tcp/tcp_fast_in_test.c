/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Header prediction in cases that the random traffic of tcp_fast_test.c rarely reaches. All
 * segments are predicted ones but for one property.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/core/instance.h"
#include "ustack/ip/neighbour.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"

enum { WINDOW = 5000, ROUNDS = 4 };

struct peer {
    struct us_conn *conn;
    u_u16 port;
};

static u_u8 bytes[1400];

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;

    pair_config(&config, 0);
    config.recv_window_bytes = WINDOW;
    raw_open(&raw, &config);
    raw.answer_arp = 1;
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static void forget_output(struct raw *raw)
{
    while (raw_event(raw) != NULL || raw_frame(raw) != NULL)
        continue;
}

/* The next segment of the peer; acknowledges all data. */
static void peer_sends(struct raw *raw, const struct peer *peer, u_u32 len)
{
    raw->peer_port = peer->port;
    raw_segment(raw, US_TCP_ACK, peer->conn->rcv_nxt, peer->conn->snd_max, 65535, bytes, len);
}

/* Some requests and responses; the last response is unacknowledged. */
static void talk(struct raw *raw, const struct peer *peer)
{
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        peer_sends(raw, peer, 14);
        assert_int_equal(us_send(raw->stack, peer->conn, bytes, 35), 35);
        raw_pump(raw, 50);
        forget_output(raw);
    }
}

/* A connection after some requests and responses. */
static struct peer open_peer(struct raw *raw, u_u16 port, int timestamps)
{
    struct peer peer;
    u_u32 snd;

    memset(&raw->opts, 0, sizeof(raw->opts));
    raw->opts.mss = 1460;
    raw->opts.sack_permitted = 1;
    raw->opts.has_scale = 1;
    raw->opts.has_ts = (u_u8)timestamps;
    raw->opts.ts_val = 1000;
    raw->peer_port = port;
    peer.port = port;
    peer.conn = raw_accept(raw, &snd);
    talk(raw, &peer);
    assert_int_equal(peer.conn->fast_path, US_FAST_RXTX);
    return peer;
}

static void a_frame_is_matched_by_its_whole_tuple(void **state)
{
    struct raw *raw = *state;
    struct peer first = open_peer(raw, 4000, 1);
    struct peer second = open_peer(raw, 4001, 1);
    u_u32 nxt;
    unsigned i;

    raw->no_pump = 1;
    for (i = 0; i < ROUNDS; i++)
        peer_sends(raw, &first, 14);
    assert_int_equal(first.conn->fast_path, US_FAST_RXTX);
    nxt = first.conn->rcv_nxt;
    raw->rx_flags = US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD; /* or the checksum would fail */
    raw->peer_port = second.port;
    raw_segment(raw, US_TCP_ACK, nxt, first.conn->snd_max, 65535, bytes, 14);
    assert_int_equal(first.conn->rcv_nxt, nxt);
    raw->rx_flags = 0;
    raw->no_pump = 0;
    raw_pump(raw, 0);
}

static void connections_may_send_in_any_order(void **state)
{
    struct raw *raw = *state;
    static const u_u8 order[] = {0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 2, 1, 1, 0};
    struct peer peers[3];
    struct us_event *event;
    unsigned i;

    for (i = 0; i < 3; i++)
        peers[i] = open_peer(raw, (u_u16)(4000 + i), 1);
    for (i = 0; i < sizeof(order); i++) {
        u_u64 before = raw_counter(raw, "tcp_fast_path");
        peer_sends(raw, &peers[order[i]], 14 + i);
        event = raw_expect_event(raw, US_EV_DATA);
        assert_ptr_equal(event->conn, peers[order[i]].conn);
        assert_int_equal(event->len, 14 + i);
        assert_int_equal(raw_counter(raw, "tcp_fast_path"), before + 1);
        forget_output(raw);
    }
}

static void frames_of_an_ended_connection_are_not_predicted(void **state)
{
    struct raw *raw = *state;
    struct peer first = open_peer(raw, 4000, 1);
    struct peer second = open_peer(raw, 4001, 1);
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        peer_sends(raw, &second, 14);
        peer_sends(raw, &first, 14);
    }
    forget_output(raw);
    us_abort(raw->stack, second.conn);
    raw_pump(raw, 0);
    forget_output(raw);
    raw->peer_port = second.port;
    raw_segment(raw, US_TCP_ACK, 2000, 1, 65535, bytes, 14);
    assert_int_equal(raw_frame(raw)->flags & US_TCP_RST, US_TCP_RST);
    assert_null(raw_event(raw));
    second = open_peer(raw, 4001, 1); /* in the same memory */
    peer_sends(raw, &second, 14);
    raw_expect_event(raw, US_EV_DATA);
}

static void a_reused_neighbour_entry_is_not_trusted(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    u_u64 before = raw_counter(raw, "tcp_fast_path");

    raw->no_pump = 1;
    peer_sends(raw, &peer, 14);
    assert_int_equal(raw_counter(raw, "tcp_fast_path"), before + 1);
    assert_int_equal(peer.conn->fast_path, US_FAST_RXTX);
    us_neighbour_release(raw->stack, peer.conn->neighbour);
    peer.conn->hop_serial++; /* as if the entry had become another neighbour's */
    peer_sends(raw, &peer, 14);
    assert_int_equal(raw_counter(raw, "tcp_fast_path"), before + 1);
}

static void data_beyond_the_window_is_not_taken(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    u_u32 edge;
    u_u32 left;

    raw->no_pump = 1;
    edge = peer.conn->rcv_adv;
    while ((left = edge - peer.conn->rcv_nxt) >= sizeof(bytes))
        peer_sends(raw, &peer, sizeof(bytes));
    peer_sends(raw, &peer, left + 1);
    assert_int_equal(peer.conn->rcv_nxt, edge);
    raw->no_pump = 0;
    raw_pump(raw, 0);
}

static void timestamps_not_negotiated_are_ignored(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 0);

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 77;
    peer_sends(raw, &peer, 14);
    raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(peer.conn->ts_recent, 0);
}

static void reserve_if_empty_gives_room_for_the_first_response_only(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    u_u32 room = 0;
    unsigned i;

    peer_sends(raw, &peer, 14);
    forget_output(raw);
    for (i = 0; i < ROUNDS; i++) {
        u_u8 *at = us_reserve(raw->stack, peer.conn, 100, US_RESERVE_IF_EMPTY, &room);
        assert_non_null(at);
        assert_true(room >= 100);
        memset(at, 'a', 35);
        us_commit(raw->stack, peer.conn, 35);
        assert_int_equal(us_send_queued(peer.conn), 35);
        assert_null(us_reserve(raw->stack, peer.conn, 100, US_RESERVE_IF_EMPTY, &room));
        raw_pump(raw, 50);
        assert_null(us_reserve(raw->stack, peer.conn, 100, US_RESERVE_IF_EMPTY,
                               &room)); /* not acknowledged */
        forget_output(raw);
        peer_sends(raw, &peer, 14);
        forget_output(raw);
        assert_int_equal(us_send_queued(peer.conn), 0);
    }
    assert_null(us_reserve(raw->stack, peer.conn, 0, US_RESERVE_IF_EMPTY, &room));
    assert_null(us_reserve(raw->stack, peer.conn, US_RESERVE_MAX + 1, US_RESERVE_IF_EMPTY, &room));
    us_close(raw->stack, peer.conn);
    assert_null(us_reserve(raw->stack, peer.conn, 100, US_RESERVE_IF_EMPTY, &room));
}

/* Once announced by a pure ACK, once with a request. */
static void a_peer_window_below_the_response_is_respected(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    struct raw_frame *frame;
    u_u32 len;

    for (len = 0; len <= 14; len += 14) {
        struct us_conn *conn = peer.conn;
        u_u32 edge = conn->snd_max + 20;

        assert_int_equal(conn->fast_path, US_FAST_RXTX);
        raw_segment(raw, US_TCP_ACK, conn->rcv_nxt, conn->snd_max, 20, bytes, len);
        forget_output(raw);
        assert_int_not_equal(conn->fast_path, US_FAST_RXTX);
        assert_int_equal(us_send(raw->stack, conn, bytes, 35), 35);
        raw_pump(raw, 50);
        while ((frame = raw_frame(raw)) != NULL)
            assert_true((int)(frame->seq + frame->data_len - edge) <= 0);
        assert_true((int)(conn->snd_max - edge) <= 0);
        peer_sends(raw, &peer, 0);
        talk(raw, &peer);
        talk(raw, &peer);
    }
}

/* A segment that fills cwnd must be recorded: its acknowledgment may enlarge cwnd. */
static void a_cwnd_limited_segment_is_recorded(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    struct us_conn *conn = peer.conn;

    us_conn_leave_fast_path(conn);
    conn->cc.cwnd = conn->cc.mss;
    peer_sends(raw, &peer, 14);
    forget_output(raw);
    talk(raw, &peer);
    assert_int_not_equal(conn->fast_path, US_FAST_RXTX);
    peer_sends(raw, &peer, 14);
    assert_int_equal(us_send(raw->stack, conn, bytes, 1000), 1000);
    raw_pump(raw, 50);
    us_conn_leave_fast_path(conn);
    assert_int_equal(us_conn_lazy(conn)->cwnd_limited_end, conn->snd_max);
    conn->cc.cwnd = 4 * conn->cc.mss;
    talk(raw, &peer);
    assert_int_equal(conn->fast_path, US_FAST_RXTX);
}

/* RFC 9293 3.8.6.2.2: of a queue of less than two segments half is free, so the window opens. */
static void a_small_window_opens_with_a_response(void **state)
{
    enum { SMALL_BYTES = 2048, REQUEST_BYTES = 1100 };
    struct us_config config;
    struct raw_frame *frame;
    struct us_conn *conn;
    struct raw raw;
    unsigned i;
    u_u32 snd;

    pair_config(&config, 0);
    config.recv_window_bytes = SMALL_BYTES;
    raw_open(&raw, &config);
    raw.answer_arp = 1;
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), US_OK);
    raw.opts.sack_permitted = 1;
    raw.opts.mss = 1460;
    conn = raw_accept(&raw, &snd);
    for (i = 0; i < 2 * ROUNDS; i++) {
        raw.no_pump = 1; /* the ACK rides on the response */
        raw_segment(&raw, US_TCP_ACK, conn->rcv_nxt, conn->snd_max, 65535, bytes,
                    i < ROUNDS ? 14 : REQUEST_BYTES);
        raw.no_pump = 0;
        assert_int_equal(us_send(raw.stack, conn, bytes, 35), 35);
        raw_pump(&raw, 50);
        frame = raw_frame(&raw);
        assert_int_equal(frame->data_len, 35);
        assert_true(i < ROUNDS || frame->window == SMALL_BYTES);
        forget_output(&raw);
    }
    raw_close(&raw);
    (void)state;
}

/* RFC 5681 4.2: the duplicate ACK is sent also if the gap has been filled since. */
static void an_owed_duplicate_ack_precedes_a_response(void **state)
{
    struct raw *raw = *state;
    struct peer peer = open_peer(raw, 4000, 1);
    struct us_event event;
    u_u32 nxt = peer.conn->rcv_nxt;
    u_u32 snd = peer.conn->snd_max;
    u_u32 taken = 0;

    raw->no_pump = 1;
    raw_segment(raw, US_TCP_ACK, nxt + 14, snd, 65535, bytes, 14);
    raw_segment(raw, US_TCP_ACK, nxt, snd, 65535, bytes, 14);
    raw->no_pump = 0;
    while (us_next_event(raw->stack, &event))
        taken += event.len;
    assert_int_equal(taken, 28);
    assert_int_equal(us_send(raw->stack, peer.conn, bytes, 35), 35);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, nxt + 28, 0);
    raw_expect(raw, US_TCP_ACK, snd, nxt + 28, 35);
    raw_expect_nothing(raw);
}

/* The window is closed in a response that is sent before the application has read. */
static void a_response_announces_a_closed_window(void **state)
{
    enum { LARGE_BYTES = 140000, TCP_AT = 34 }; /* a window that is scaled by 2 bits */
    static u_u8 frame[RAW_FRAME_BYTES];
    const struct us_tcp_hdr *tcp = (const void *)(frame + TCP_AT);
    struct us_pkt pkt = {0};
    struct us_pkt *list = &pkt;
    struct us_config config;
    struct peer peer;
    struct raw raw;
    u_u32 left;
    u_u64 fast;

    pair_config(&config, 0);
    config.recv_window_bytes = LARGE_BYTES;
    raw_open(&raw, &config);
    raw.answer_arp = 1;
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), US_OK);
    peer = open_peer(&raw, 4000, 1);
    raw.no_pump = 1;
    while ((left = peer.conn->rcv_adv - peer.conn->rcv_nxt) > 0)
        peer_sends(&raw, &peer, left < sizeof(bytes) ? left : sizeof(bytes));
    assert_int_equal(peer.conn->fast_path, US_FAST_RXTX);
    fast = raw_counter(&raw, "tcp_fast_sent");
    assert_int_equal(us_send(raw.stack, peer.conn, bytes, 35), 35);
    pkt.data = frame;
    pkt.room = sizeof(frame);
    assert_int_equal(us_output(raw.stack, &list, 1, raw.now_us), 1);
    assert_int_equal(raw_counter(&raw, "tcp_fast_sent"), fast + 1);
    assert_int_equal(u_get_be16(tcp->window), 0);
    assert_int_equal(tcp->offset, 32 << 2);
    assert_int_equal(tcp->flags, US_TCP_ACK | US_TCP_PSH);
    raw_close(&raw);
    (void)state;
}

int main(void)
{
#define FAST_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        FAST_TEST(a_frame_is_matched_by_its_whole_tuple),
        FAST_TEST(connections_may_send_in_any_order),
        FAST_TEST(frames_of_an_ended_connection_are_not_predicted),
        FAST_TEST(a_reused_neighbour_entry_is_not_trusted),
        FAST_TEST(data_beyond_the_window_is_not_taken),
        FAST_TEST(timestamps_not_negotiated_are_ignored),
        FAST_TEST(reserve_if_empty_gives_room_for_the_first_response_only),
        FAST_TEST(a_peer_window_below_the_response_is_respected),
        FAST_TEST(a_cwnd_limited_segment_is_recorded),
        FAST_TEST(an_owed_duplicate_ack_precedes_a_response),
        cmocka_unit_test(a_small_window_opens_with_a_response),
        cmocka_unit_test(a_response_announces_a_closed_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
