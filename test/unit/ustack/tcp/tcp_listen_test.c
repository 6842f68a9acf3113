/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening: the table, limits, and SYN floods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"

static void ports_are_found_again(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    unsigned n = 1;

    pair_config(&config, 0);
    assert_int_equal(us_listen(raw->stack, 0, NULL), US_ERR_ARGUMENT);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), US_ERR_IN_USE);
    /* Ports of the same bucket. */
    while (n < config.listen_max) {
        assert_int_equal(us_listen(raw->stack, (u_u16)(RAW_PORT + 64 * n), NULL), 0);
        n++;
    }
    assert_int_equal(us_listen(raw->stack, 9, NULL), US_ERR_NO_MEMORY);
    assert_int_equal(us_unlisten(raw->stack, (u_u16)(RAW_PORT + 64)), 0);
    assert_int_equal(us_unlisten(raw->stack, (u_u16)(RAW_PORT + 64)), US_ERR_ARGUMENT);
    assert_int_equal(us_listen_limit(raw->stack, (u_u16)(RAW_PORT + 64), 1, US_LISTEN_DROP),
                     US_ERR_ARGUMENT);
    assert_int_equal(us_listen(raw->stack, 9, NULL), 0);
    assert_int_equal(us_unlisten(raw->stack, RAW_PORT), 0);
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, 0, 1001, 0);
}

static void no_event(struct pair_host *host, const struct us_event *event)
{
    (void)host;
    (void)event;
}

/* us_listen_address(): a port is closed at all other addresses. */
static void port_of_one_address(void **state)
{
    struct raw *raw = *state;
    struct us_addr ours = pair_addr(0);
    struct us_addr other = pair_addr(0);
    u_u32 snd;

    other.bytes[3] = 77;
    assert_int_equal(us_listen_address(raw->stack, RAW_PORT, &other), US_ERR_ARGUMENT);
    assert_int_equal(us_listen_address(raw->stack, 9, &ours), US_ERR_ARGUMENT);
    assert_int_equal(us_addr_add(raw->stack, &other, 24), 0);
    assert_int_equal(us_listen_address(raw->stack, RAW_PORT, &other), 0);
    raw_pump(raw, 0);
    while (raw_frame(raw) != NULL) /* the announcement */
        continue;
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, 0, 1001, 0);
    assert_int_equal(us_listen_address(raw->stack, RAW_PORT, &ours), 0);
    raw_accept(raw, &snd);
    assert_int_equal(us_unlisten(raw->stack, RAW_PORT), 0);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    assert_int_equal(us_listen_address(raw->stack, RAW_PORT, &other), 0);
    assert_int_equal(us_unlisten(raw->stack, RAW_PORT), 0);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0); /* at all addresses again */
    raw->peer_port++;
    raw_accept(raw, &snd);
}

/* The same of an IPv6 address. */
static void port_of_one_ip6_address(void **state)
{
    static struct pair pair;
    struct us_addr to;
    struct us_conn *conn;

    pair_use_ip6(1);
    to = pair_addr(0);
    pair_open(&pair, NULL);
    pair.host[0].on_event = no_event;
    pair.host[1].on_event = no_event;
    assert_int_equal(us_listen(pair.host[0].stack, RAW_PORT, NULL), 0);
    assert_int_equal(us_listen_address(pair.host[0].stack, RAW_PORT, &to), 0);
    conn = us_connect(pair.host[1].stack, &to, RAW_PORT, 0, NULL, NULL);
    assert_non_null(conn);
    pair_run(&pair, pair.now_us + 10000000);
    assert_int_equal(pair_counter(pair.host[0].stack, "tcp_accepted"), 1);
    pair_close(&pair);
    pair_use_ip6(0);
    (void)state;
}

/* A flood from many ports uses no more than the bound, for no longer than its retries last. */
static void flood_holds_bounded_state_for_a_short_time(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < 2000; i++) {
        raw->peer_port = (u_u16)(5000 + i);
        raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
        raw->frame_count = raw->frame_next = 0;
        assert_int_equal(raw_counter(raw, "conns_open"), 0);
    }
    assert_int_equal(raw_counter(raw, "half_open"), 32);
    assert_int_equal(raw_counter(raw, "syn_cookies_sent"), 2000 - 32);
    for (i = 0; i < 1 + 2 + 4 + 8 + 16 + 5; i++) { /* each step takes a bounded number of timers */
        raw_pump(raw, 1000000);
        raw->frame_count = raw->frame_next = 0;
    }
    assert_int_equal(raw_counter(raw, "half_open"), 0);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_null(raw_event(raw));
}

/* The pool is empty when the ACK arrives: a cookie leaves no state, so the peer gets a RST. */
static void cookie_without_a_connection_is_refused(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    u_u32 snd;
    u_u32 iss;

    pair_config(&config, 0);
    config.half_open_max = 0;
    config.conn_max = 1;
    raw_close(raw);
    raw_open(raw, &config);
    raw->answer_arp = 1;
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    raw_accept(raw, &snd);
    raw->peer_port++;
    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    iss = raw_frame(raw)->seq;
    raw_segment(raw, US_TCP_ACK, 1001, iss + 1, 65535, "hello", 5);
    raw_expect(raw, US_TCP_RST, iss + 1, 0, 0);
    assert_int_equal(raw_counter(raw, "pool_empty_conns"), 1);
    assert_int_equal(raw_counter(raw, "tcp_listen_overflows"), 1);
    raw->peer_port--;
    raw_segment(raw, US_TCP_RST, 1001, 0, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_CLOSED);
    raw->peer_port++;
    raw_segment(raw, US_TCP_ACK, 1001, iss + 1, 65535, "hello", 5);
    raw_expect_event(raw, US_EV_ACCEPTED);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 5);
}

/* The options of a client connected to a server with or without room for half-open connections. */
static void learn(struct us_conn_info *info, int cookies)
{
    static struct pair pair;
    struct us_addr to = pair_addr(0);
    struct us_config config;
    struct us_conn *conn;

    pair_config(&config, 0);
    config.half_open_max = cookies ? 0 : 32;
    config.recv_window_bytes = 1 << 20;
    config.ecn = US_ECN_REQUEST;
    pair_open(&pair, &config);
    pair.host[0].on_event = no_event;
    pair.host[1].on_event = no_event;
    assert_int_equal(us_listen(pair.host[0].stack, RAW_PORT, NULL), 0);
    conn = us_connect(pair.host[1].stack, &to, RAW_PORT, 0, NULL, NULL);
    assert_non_null(conn);
    pair_run(&pair, pair.now_us + 10000000);
    us_conn_get_info(pair.host[1].stack, conn, info);
    assert_int_equal(pair_counter(pair.host[0].stack, "syn_cookies_accepted"), cookies);
    assert_int_equal(pair_counter(pair.host[0].stack, "tcp_accepted"), 1);
    pair_close(&pair);
}

/* By cookie two stacks negotiate the same options as without. */
static void cookies_cost_a_pair_nothing(void **state)
{
    struct us_conn_info info[2];
    int ip6;

    (void)state;
    for (ip6 = 0; ip6 < 2; ip6++) {
        pair_use_ip6(ip6);
        learn(&info[0], 0);
        learn(&info[1], 1);
        assert_int_equal(info[0].state, US_TCP_ESTABLISHED);
        assert_int_equal(info[1].state, US_TCP_ESTABLISHED);
        assert_int_equal(info[0].mss, info[1].mss);
        assert_int_equal(info[0].ecn, 1);
        assert_int_equal(info[1].ecn, 1);
        assert_int_equal(info[0].send_window_bytes, info[1].send_window_bytes);
        assert_int_equal(info[0].recv_window_bytes, info[1].recv_window_bytes);
    }
    pair_use_ip6(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ports_are_found_again, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(port_of_one_address, raw_setup, raw_teardown),
        cmocka_unit_test(port_of_one_ip6_address),
        cmocka_unit_test_setup_teardown(flood_holds_bounded_state_for_a_short_time, raw_setup,
                                        raw_teardown),
        cmocka_unit_test_setup_teardown(cookie_without_a_connection_is_refused, raw_setup,
                                        raw_teardown),
        cmocka_unit_test(cookies_cost_a_pair_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
