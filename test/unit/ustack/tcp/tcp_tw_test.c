/* SPDX-License-Identifier: BSD-3-Clause */
/* TIME-WAIT as objects: small, bounded, forgotten in order, and back in use only by the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp_tw.h"

enum { TIME_WAIT_MAX = 8, TIME_WAIT_US = 60000000 };

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;

    pair_config(&config, 0);
    config.time_wait_max = TIME_WAIT_MAX;
    config.time_wait_us = TIME_WAIT_US;
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

/* A connection from this port that we close first; returns our sequence number behind the FIN. */
static u_u32 wait_at(struct raw *raw, unsigned port)
{
    struct us_conn *conn;
    u_u32 snd;

    raw->peer_port = (u_u16)port;
    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_FIN | US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_NORMAL);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    return snd + 1;
}

static void an_entry_is_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct us_tw) * 4 <= sizeof(struct us_conn));
}

static void the_oldest_makes_room(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < TIME_WAIT_MAX + 3; i++) {
        wait_at(raw, 5000 + i);
        raw_pump(raw, 1000);
    }
    assert_int_equal(raw_counter(raw, "time_wait"), TIME_WAIT_MAX);
    assert_int_equal(raw_counter(raw, "time_wait_recycled"), 3);
    raw->peer_port = 5002; /* freed: no connection */
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, 7, 65535, NULL, 0);
    raw_expect(raw, US_TCP_RST, 7, 0, 0);
    raw->peer_port = 5003;
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, 7, 65535, NULL, 0);
    assert_int_equal(raw_frame(raw)->flags, US_TCP_ACK);
}

static void a_fin_again_waits_anew(void **state)
{
    struct raw *raw = *state;
    u_u32 end = wait_at(raw, 5000);

    wait_at(raw, 5001);
    raw_pump(raw, TIME_WAIT_US - 1000);
    raw->peer_port = 5000;
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, end, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, end, 1002, 0);
    raw_pump(raw, 2000);
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
    raw_pump(raw, TIME_WAIT_US);
    assert_int_equal(raw_counter(raw, "time_wait"), 0);
    assert_true(us_deadline(raw->stack) > raw->now_us);
}

/* RFC 7323 7.1: the clock of the connection's timestamps continues. */
static void timestamps_continue(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 ts_val, snd;

    memset(&raw->opts, 0, sizeof(raw->opts));
    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    ts_val = raw_expect(raw, US_TCP_FIN | US_TCP_ACK, snd, 1001, 0)->opts.ts_val;
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    assert_in_range(raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0)->opts.ts_val - ts_val, 0, 1);
    raw_pump(raw, 1024 * 1000);
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    assert_in_range(raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0)->opts.ts_val - ts_val, 1000,
                    1001);
    memset(&raw->opts, 0, sizeof(raw->opts));
}

/* Only the FIN of the old connection does so, not one with another number. */
static void a_foreign_fin_does_not_wait_anew(void **state)
{
    struct raw *raw = *state;
    u_u32 end = wait_at(raw, 5000);

    raw_pump(raw, TIME_WAIT_US - 1000);
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 500000, end, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, end, 1002, 0);
    raw_segment(raw, US_TCP_FIN, 1002, 0, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, end, 1002, 0);
    assert_int_equal(raw_counter(raw, "tcp_challenge_acks"), 2);
    raw_pump(raw, 2000);
    assert_int_equal(raw_counter(raw, "time_wait"), 0);
}

/* RFC 9293 3.10.7.4: a segment that is not acceptable is answered; an ACK of our ACK is not. */
static void only_a_strange_ack_is_answered(void **state)
{
    struct raw *raw = *state;
    u_u32 end = wait_at(raw, 5000);

    raw_segment(raw, US_TCP_ACK, 1002, end, 65535, NULL, 0);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_ACK, 1001, end, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, end, 1002, 0);
    raw_segment(raw, US_TCP_ACK, 500000, end, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, end, 1002, 0);
}

/*
 * RFC 9293 3.6.1: the new connection begins beyond all numbers of the old one, also near the wrap.
 */
static void the_next_one_begins_beyond(void **state)
{
    static const u_u32 ahead[] = {5000,
                                  0}; /* the old one has sent faster than the clock, or as fast */
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < 2; i++) {
        u_u32 end = wait_at(raw, 5000 + i);
        struct us_tw *tw = U_CONTAINER_OF(raw->stack->tw_list.next, struct us_tw, link);

        assert_int_equal(tw->snd_nxt, end);
        tw->snd_nxt = us_tcp_isn(raw->stack, &tw->key) + ahead[i];
        end = tw->snd_nxt;
        raw_segment(raw, US_TCP_SYN, 2000, 0, 65535, NULL, 0);
        raw_expect(raw, US_TCP_SYN | US_TCP_ACK, end + 1, 2001, 0);
        assert_int_equal(raw_counter(raw, "time_wait"), 0);
        assert_int_equal(raw_counter(raw, "time_wait_reused"), i + 1);
    }
}

/* RFC 9293 3.6.1: we may not use the 4-tuple again ourselves. */
static void no_connect_to_the_same_peer(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct raw *raw = *state;
    int error = 0;

    wait_at(raw, 5000);
    assert_null(us_connect(raw->stack, &peer, 5000, RAW_PORT, NULL, &error));
    assert_int_equal(error, US_ERR_IN_USE);
    raw_pump(raw, TIME_WAIT_US);
    assert_non_null(us_connect(raw->stack, &peer, 5000, RAW_PORT, NULL, &error));
}

#define TW_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_small),
        TW_TEST(the_oldest_makes_room),
        TW_TEST(a_fin_again_waits_anew),
        TW_TEST(a_foreign_fin_does_not_wait_anew),
        TW_TEST(only_a_strange_ack_is_answered),
        TW_TEST(the_next_one_begins_beyond),
        TW_TEST(timestamps_continue),
        TW_TEST(no_connect_to_the_same_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
