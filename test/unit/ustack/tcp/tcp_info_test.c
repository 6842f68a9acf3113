/* SPDX-License-Identifier: BSD-3-Clause */
/* Information on connections: the walk, us_conn_get_info() and the low-water mark. */
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

/* Opens a connection from this port of the peer. */
static struct us_conn *open_from(struct raw *raw, unsigned port)
{
    u_u32 snd;

    raw->peer_port = (u_u16)port;
    return raw_accept(raw, &snd);
}

static void walk_without_connections_ends(void **state)
{
    struct raw *raw = *state;
    u_u32 cursor = 0;

    assert_null(us_conn_next(raw->stack, &cursor));
    assert_int_equal(cursor, 0);
}

static void walk_finds_all_connections(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conns[40];
    struct us_conn *conn;
    u_u32 cursor = 0;
    unsigned i, found = 0;

    for (i = 0; i < 40; i++) {
        conns[i] = open_from(raw, 5000 + i);
        us_conn_set_user(conns[i], &conns[i]);
    }
    for (i = 0; i < 40; i += 2)
        us_abort(raw->stack, conns[i]);
    raw_pump(raw, 0);
    do {
        conn = us_conn_next(raw->stack, &cursor);
        if (conn == NULL)
            continue;
        i = (unsigned)((struct us_conn **)us_conn_user(conn) - conns);
        assert_ptr_equal(conns[i], conn);
        assert_int_equal(i % 2, 1);
        conns[i] = NULL; /* once only */
        found++;
    } while (cursor != 0);
    assert_int_equal(found, 20);
}

/* Connections begin and end between the steps; those that stay are returned exactly once. */
static void walk_survives_churn(void **state)
{
    struct us_config config;
    struct raw *raw = *state;
    struct us_conn *staying[50];
    struct us_conn *passing[50];
    unsigned met[50];
    struct us_conn *conn;
    struct u_prng prng;
    u_u32 cursor = 0;
    unsigned i, steps = 0;

    raw_close(raw);
    pair_config(&config, 0);
    config.conn_max = 400;
    raw_open(raw, &config);
    raw->answer_arp = 1;
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    u_prng_seed(&prng, 1);
    memset(met, 0, sizeof(met));
    for (i = 0; i < 50; i++) {
        staying[i] = open_from(raw, 5000 + i);
        us_conn_set_user(staying[i], &met[i]);
        passing[i] = open_from(raw, 6000 + i);
    }
    do {
        conn = us_conn_next(raw->stack, &cursor);
        if (conn != NULL && us_conn_user(conn) != NULL)
            ++*(unsigned *)us_conn_user(conn);
        i = u_prng_below(&prng, 50);
        if (passing[i] != NULL) {
            us_abort(raw->stack, passing[i]);
            raw_pump(raw, 0);
            passing[i] = NULL;
            while (raw_event(raw) != NULL || raw_frame(raw) != NULL)
                continue;
        } else {
            passing[i] = open_from(raw, 7000 + steps);
        }
        steps++;
    } while (cursor != 0);
    assert_true(steps < 1000);
    for (i = 0; i < 50; i++)
        assert_int_equal(met[i], 1);
}

/* A handshake of a listener is no connection before it is completed. */
static void half_open_connections_are_not_listed(void **state)
{
    struct raw *raw = *state;
    u_u32 cursor = 0;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    assert_int_equal(raw_counter(raw, "half_open"), 1);
    assert_int_equal(raw_counter(raw, "conns_open"), 0);
    assert_null(us_conn_next(raw->stack, &cursor));
    assert_int_equal(cursor, 0);
}

static void info_reports_the_state(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;
    unsigned i;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 1;
    raw->opts.sack_permitted = 1;
    raw->opts.has_scale = 1;
    raw->opts.scale = 5;
    raw->opts.mss = 1000;
    conn = raw_accept(raw, &snd);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.state, US_TCP_ESTABLISHED);
    assert_true(info.sack && info.timestamps && info.window_scaling && !info.ecn);
    assert_int_equal(info.send_scale, 5);
    assert_int_equal(info.mss, 988);
    assert_int_equal(info.path_mtu, 1040);
    assert_int_equal(info.bytes_in + info.bytes_out + info.retransmits, 0);

    raw_segment(raw, US_TCP_ACK, 1001, snd, 1000, "hello", 5);
    us_send(raw->stack, conn, "0123456789", 10);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.bytes_in, 5);
    assert_int_equal(info.bytes_out, 0);
    assert_int_equal(info.queued_bytes, 10);
    assert_int_equal(info.silent_us, 0);
    for (i = 1; i <= 5; i++) { /* the tail is probed, then the timer expires */
        raw_pump(raw, 1500000);
        us_conn_get_info(raw->stack, conn, &info);
        assert_int_equal(info.silent_us, i * 1500000);
    }
    assert_true(info.retransmits > 0 && info.retries > 0);
    raw->opts.ts_ecr = 0;
    raw_segment(raw, US_TCP_ACK, 1006, snd + 10, 1000, NULL, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.bytes_out, 10);
    raw_segment(raw, US_TCP_ACK, 1006, snd + 11, 1000, NULL, 0);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(info.state, US_TCP_FIN_WAIT_2);
    assert_int_equal(info.bytes_out, 10);
    assert_int_equal(info.retries, 0);
}

/* Acknowledges all, and expects SENDABLE or nothing. */
static void ack_up_to(struct raw *raw, u_u32 ack, int sendable)
{
    struct us_event *event;

    raw_segment(raw, US_TCP_ACK, 1001, ack, 65535, NULL, 0);
    while (raw_frame(raw) != NULL)
        continue;
    event = raw_event(raw);
    assert_int_equal(event != NULL && event->type == US_EV_SENDABLE, sendable);
}

static void low_water_is_the_connections_own(void **state)
{
    static u_u8 data[4000];
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_conn_set_low_water(raw->stack, conn, 1000);
    assert_int_equal(us_send(raw->stack, conn, data, sizeof(data)), sizeof(data));
    us_request_sendable(raw->stack, conn);
    raw_pump(raw, 0);
    assert_null(raw_event(raw));
    ack_up_to(raw, snd + 2000, 0);
    ack_up_to(raw, snd + 2900, 0);
    ack_up_to(raw, snd + 3500, 1);
    ack_up_to(raw, snd + 4000, 0); /* raised once */
    us_request_sendable(raw->stack, conn);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_SENDABLE)->len, 0);
    us_close(raw->stack, conn);
    us_request_sendable(raw->stack, conn); /* not raised again */
    raw_pump(raw, 0);
    assert_null(raw_event(raw));
}

/* A mark above the limit does not prevent SENDABLE for a full queue. */
static void low_water_has_a_limit(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    struct us_conn *conn;
    u_u32 snd;
    u_u32 taken = 0;
    long n;

    pair_config(&config, 0);
    conn = raw_accept(raw, &snd);
    us_conn_set_low_water(raw->stack, conn, 0xffffffffu);
    do {
        static u_u8 data[65536];
        n = us_send(raw->stack, conn, data, sizeof(data));
        assert_true(n >= 0);
        taken += (u_u32)n;
    } while (n > 0);
    assert_int_equal(taken, config.send_queue_bytes);
    assert_null(raw_event(raw));
    raw_pump(raw, 0);
    while (raw_frame(raw) != NULL)
        continue;
    assert_null(raw_event(raw));
    ack_up_to(raw, snd + 2000, 1);
}

static void reasons_have_names(void **state)
{
    int reason;

    (void)state;
    for (reason = US_CLOSE_NONE; reason <= US_CLOSE_EXPORTED; reason++) {
        int other;
        const char *name = us_close_reason_name((enum us_close_reason)reason);
        assert_true(strcmp(name, "unknown") != 0);
        for (other = US_CLOSE_NONE; other < reason; other++)
            assert_string_not_equal(name, us_close_reason_name((enum us_close_reason)other));
    }
    assert_string_equal(us_close_reason_name((enum us_close_reason)99), "unknown");
}

#define INFO_TEST(function) cmocka_unit_test_setup_teardown(function, raw_setup, raw_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INFO_TEST(walk_without_connections_ends), INFO_TEST(walk_finds_all_connections),
        INFO_TEST(walk_survives_churn),           INFO_TEST(half_open_connections_are_not_listed),
        INFO_TEST(info_reports_the_state),        INFO_TEST(low_water_is_the_connections_own),
        INFO_TEST(low_water_has_a_limit),         cmocka_unit_test(reasons_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
