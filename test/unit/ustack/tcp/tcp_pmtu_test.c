/* SPDX-License-Identifier: BSD-3-Clause */
/* Path MTU: minimum, fallback sizes, and complete streams with any reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp.h"

enum { PORT = 7000, BYTES = 4 << 20 };

static struct pair pair;
static struct us_conn *conn;
static struct us_conn *peer_conn;
static u_u32 sent, received;

/* Byte number `at` of the stream. */
static u_u8 pattern(u_u32 at)
{
    return (u_u8)(at * 7 + (at >> 8));
}

static void on_receiver_event(struct pair_host *host, const struct us_event *event)
{
    u_u32 i;

    (void)host;
    if (event->type == US_EV_ACCEPTED)
        peer_conn = event->conn;
    for (i = 0; event->type == US_EV_DATA && i < event->len; i++)
        assert_int_equal(event->data[i], pattern(received + i));
    received += event->type == US_EV_DATA ? event->len : 0;
}

static void on_sender_event(struct pair_host *host, const struct us_event *event)
{
    (void)host;
    assert_int_not_equal(event->type, US_EV_CLOSED);
}

/* Host 1 has connected to host 0. */
static void open_connection(unsigned mtu, int ip6)
{
    struct us_config config;
    struct us_addr to;

    pair_use_ip6(ip6);
    pair_config(&config, 0);
    config.mtu = mtu;
    config.conn_max = 4;
    config.half_open_max = 4;
    pair_open(&pair, &config);
    pair.host[0].on_event = on_receiver_event;
    pair.host[1].on_event = on_sender_event;
    pair.delay_us = 100;
    sent = received = 0;
    assert_int_equal(us_listen(pair.host[0].stack, PORT, NULL), 0);
    to = pair_addr(0);
    conn = us_connect(pair.host[1].stack, &to, PORT, 0, NULL, NULL);
    assert_non_null(conn);
    pair_run(&pair, pair.now_us + 5000000);
    assert_non_null(peer_conn);
}

static void close_connection(void)
{
    pair_close(&pair);
    pair_use_ip6(0);
}

static u_u32 path_mtu(void)
{
    struct us_conn_info info;

    us_conn_get_info(pair.host[1].stack, conn, &info);
    return info.path_mtu;
}

static void report(u_u32 mtu)
{
    us_tcp_path_mtu(pair.host[1].stack, conn, mtu);
}

static void reports_are_believed_down_to_a_floor(void **state)
{
    (void)state;
    open_connection(1500, 0);
    report(1501);
    report(0xffffffffu);
    assert_int_equal(path_mtu(), 1500);
    report(1400);
    assert_int_equal(path_mtu(), 1400);
    report(1450); /* an older one */
    assert_int_equal(path_mtu(), 1400);
    report(1);
    assert_int_equal(path_mtu(), 552);
    close_connection();

    open_connection(1500, 1);
    report(1300);
    assert_int_equal(path_mtu(), 1300);
    report(1279);
    assert_int_equal(path_mtu(), 1280);
    close_connection();
}

/* After a link that was too small for IPv6, IPv6 has the whole link again. */
static void ipv6_follows_the_link_upwards(void **state)
{
    struct us_config config;
    struct us_stack *stack;
    struct raw raw;

    (void)state;
    pair_config(&config, 0);
    config.mtu = 576;
    raw_open(&raw, &config);
    us_mtu_set(raw.stack, 1500);
    assert_int_equal(us_ip_mtu(raw.stack, 1), 1500);
    raw_close(&raw);
    open_connection(1500, 1);
    stack = pair.host[1].stack;
    us_mtu_set(stack, 576);
    us_mtu_set(stack, 1400);
    assert_int_equal(us_ip_mtu(stack, 1), 1400);
    us_mtu_set(stack, 1500);
    assert_int_equal(us_ip_mtu(stack, 1), 1500);
    close_connection();
}

static void routers_that_do_not_say(void **state)
{
    static const u_u32 ip4[] = {4500, 2250, 1280, 640, 552, 552};
    static const u_u32 ip6[] = {4500, 2250, 1280, 1280};
    unsigned i;

    (void)state;
    open_connection(9000, 0);
    assert_int_equal(path_mtu(), 9000);
    for (i = 0; i < U_ARRAY_LEN(ip4); i++) {
        report(0);
        assert_int_equal(path_mtu(), ip4[i]);
    }
    close_connection();
    open_connection(9000, 1);
    for (i = 0; i < U_ARRAY_LEN(ip6); i++) {
        report(0);
        assert_int_equal(path_mtu(), ip6[i]);
    }
    close_connection();
}

/* Sends what fits, then lets a little time pass. */
static void send_some(void)
{
    u_u8 data[5000];
    u_u32 i;
    long taken;

    for (i = 0; i < sizeof(data); i++)
        data[i] = pattern(sent + i);
    taken = us_send(pair.host[1].stack, conn, data, u_min32(sizeof(data), BYTES - sent));
    assert_true(taken >= 0);
    sent += (u_u32)taken;
    pair_run(&pair, pair.now_us + 200);
}

/* Reports of all sizes at all times, losses, and probes that raise it again in between. */
static void stream_stays_whole(void **state)
{
    struct u_prng prng;
    int ip6;

    (void)state;
    for (ip6 = 0; ip6 < 2; ip6++) {
        open_connection(1500, ip6);
        u_prng_seed(&prng, 42);
        pair.lose_percent = 1;
        while (received < BYTES) {
            send_some();
            if (u_prng_below(&prng, 40) == 0)
                report(500 + u_prng_below(&prng, 1100));
            if (u_prng_below(&prng, 10) == 0) /* ten minutes later */
                conn->pmtu.raise_at = us_ts_clock(pair.now_us);
            assert_true(pair.now_us < 600u * 1000000);
        }
        assert_int_equal(received, BYTES);
        assert_true(pair_counter(pair.host[1].stack, "tcp_pmtu_lowered") > 5);
        assert_true(pair_counter(pair.host[1].stack, "tcp_pmtu_raised") > 5);
        close_connection();
    }
}

/* The link's own MTU changes: nothing that is sent afterwards is larger, probes included. */
static void the_link_is_never_exceeded(void **state)
{
    struct u_prng prng;
    u_u32 mtu, at;
    int ip6;

    (void)state;
    for (ip6 = 0; ip6 < 2; ip6++) {
        open_connection(1500, ip6);
        u_prng_seed(&prng, 43);
        pair.lose_percent = 1;
        for (at = 0; received < BYTES; at++) {
            send_some();
            if (at % 50 == 0) {
                mtu = (ip6 ? 1280u : 576u) + u_prng_below(&prng, ip6 ? 221 : 925);
                us_mtu_set(pair.host[1].stack, mtu);
                assert_true(path_mtu() <= mtu);
                assert_true(conn->pmtu.mtu_max <= mtu);
            }
            if (u_prng_below(&prng, 40) == 0)
                report(500 + u_prng_below(&prng, 1100));
            if (u_prng_below(&prng, 10) == 0) /* ten minutes later */
                conn->pmtu.raise_at = us_ts_clock(pair.now_us);
            assert_true(pair.now_us < 600u * 1000000);
        }
        assert_int_equal(received, BYTES);
        close_connection();
    }
    open_connection(1500, 1);
    us_mtu_set(pair.host[1].stack, 576); /* no link of IPv6 carries less than 1280 (RFC 8200 5) */
    assert_int_equal(path_mtu(), 1280);
    close_connection();
}

/* ---- single segments ---- */

static const u_u8 zeros[3000];

static u_u32 path_mtu_of(struct raw *raw, const struct us_conn *of)
{
    struct us_conn_info info;

    us_conn_get_info(raw->stack, of, &info);
    return info.path_mtu;
}

/* A connection whose path MTU was 1000, and may be probed again now. */
static struct us_conn *accept_reduced(struct raw *raw, u_u32 *snd)
{
    struct us_conn *of;

    raw->opts.mss = 1460;
    of = raw_accept(raw, snd);
    us_tcp_path_mtu(raw->stack, of, 1000);
    assert_int_equal(path_mtu_of(raw, of), 1000);
    of->pmtu.raise_at = us_ts_clock(raw->now_us);
    return of;
}

/* RFC 4821 7.6: no probe while duplicate ACKs may report a loss. */
static void duplicate_acks_put_a_probe_off(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    us_send(raw->stack, of, zeros, 100);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 100);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    us_send(raw->stack, of, zeros, 1460);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd + 100, 1001, 960);
    raw_expect(raw, US_TCP_ACK, snd + 1060, 1001, 500);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1560, 65535, NULL, 0);
    us_send(raw->stack, of, zeros, 1460);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1560, 1001, 1460);
}

/* A probe that arrives when the link has become smaller says nothing about the link. */
static void a_probe_of_the_old_link_is_void(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    us_send(raw->stack, of, zeros, 1460);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1460);
    us_mtu_set(raw->stack, 1400);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1460, 65535, NULL, 0);
    assert_int_equal(path_mtu_of(raw, of), 1000);
    assert_int_equal(raw_counter(raw, "tcp_pmtu_raised"), 0);
}

/* A probe that the smaller link carries, too, still counts. */
static void a_probe_that_fits_the_new_link_counts(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    of->pmtu.high = 1499; /* the largest size has failed */
    us_send(raw->stack, of, zeros, 1210);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1210);
    us_mtu_set(raw->stack, 1400);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1210, 65535, NULL, 0);
    assert_int_equal(path_mtu_of(raw, of), 1250);
}

/* The next probe is no larger than a link that shrank below the sizes that have not failed. */
static void a_probe_fits_the_new_link(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    of->pmtu.high = 1499; /* the largest size has failed */
    us_mtu_set(raw->stack, 1100);
    us_send(raw->stack, of, zeros, 1210);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1060);
}

/* A size that the peer's window has no room for is not probed, and no segment exceeds the path. */
static void a_small_window_puts_a_probe_off(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 1200, NULL, 0);
    us_send(raw->stack, of, zeros, 1460);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 960);
}

/* Nor one that the congestion window has no room for. */
static void a_small_congestion_window_puts_a_probe_off(void **state)
{
    struct raw *raw = *state;
    struct us_conn *of;
    u_u32 snd;

    of = accept_reduced(raw, &snd);
    of->cc.cwnd = 1200;
    us_send(raw->stack, of, zeros, 1460);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 960);
}

/* The link shrinks between the SYNs of a simultaneous open and its end. */
static void a_link_shrinks_in_a_handshake(void **state)
{
    struct us_addr to = pair_addr(1);
    struct us_conn *of;
    struct raw raw;
    u_u32 snd;

    raw_open(&raw, NULL);
    raw.answer_arp = 1;
    of = us_connect(raw.stack, &to, RAW_PEER_PORT, RAW_PORT, NULL, NULL);
    assert_non_null(of);
    raw_pump(&raw, 0);
    snd = raw_frame(&raw)->seq + 1;
    raw.opts.mss = 1460;
    raw_segment(&raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(&raw, US_TCP_SYN | US_TCP_ACK, snd - 1, 1001, 0);
    us_mtu_set(raw.stack, 1000);
    raw.opts.mss = 0;
    raw_segment(&raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    raw_expect_event(&raw, US_EV_CONNECTED);
    us_send(raw.stack, of, zeros, 961);
    raw_pump(&raw, 0);
    raw_expect(&raw, US_TCP_ACK, snd, 1001, 960);
    raw_expect(&raw, US_TCP_ACK, snd + 960, 1001, 1);
    raw_close(&raw);
    (void)state;
}

#define PMTU_RAW_TEST(f) cmocka_unit_test_setup_teardown(f, raw_setup, raw_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_believed_down_to_a_floor),
        cmocka_unit_test(routers_that_do_not_say),
        cmocka_unit_test(stream_stays_whole),
        cmocka_unit_test(the_link_is_never_exceeded),
        cmocka_unit_test(ipv6_follows_the_link_upwards),
        cmocka_unit_test(a_link_shrinks_in_a_handshake),
        PMTU_RAW_TEST(duplicate_acks_put_a_probe_off),
        PMTU_RAW_TEST(a_probe_of_the_old_link_is_void),
        PMTU_RAW_TEST(a_probe_that_fits_the_new_link_counts),
        PMTU_RAW_TEST(a_probe_fits_the_new_link),
        PMTU_RAW_TEST(a_small_window_puts_a_probe_off),
        PMTU_RAW_TEST(a_small_congestion_window_puts_a_probe_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
