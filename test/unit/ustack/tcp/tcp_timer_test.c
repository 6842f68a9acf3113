/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of connections, met by a caller that sleeps until us_deadline() exactly and never
 * wakes in between: each one comes at its time to the microsecond, after few wakings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_recovery.h"

/* A timer may be moved between levels of the wheel, and fire once for an earlier deadline. */
enum { WAKINGS_MAX = 24 };

enum { R2_US = 180 * 1000 * 1000 }; /* of us_config_defaults() */

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;

    pair_config(&config, 0);
    config.rto_min_us = 200000;
    config.delayed_ack_us = 40000;
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

/* Sleeps from deadline to deadline until there is a frame or an event; returns how long. */
static u_u64 sleep_until_it_stirs(struct raw *raw)
{
    u_u64 begin_us = raw->now_us;
    unsigned i;

    for (i = 0; i < WAKINGS_MAX; i++) {
        u_u64 deadline_us = us_deadline(raw->stack);
        assert_true(deadline_us != US_NEVER);
        raw_pump(raw, deadline_us > raw->now_us ? deadline_us - raw->now_us : 0);
        if (raw->frame_next < raw->frame_count || raw->event_next < raw->event_count)
            return raw->now_us - begin_us;
    }
    fail_msg("nothing happened in %d wakings", WAKINGS_MAX);
    return 0;
}

/* Runs until no deadline is left; fails if a frame is sent or an event raised. */
static void sleep_until_quiet(struct raw *raw)
{
    unsigned i;

    for (i = 0; i < WAKINGS_MAX && us_deadline(raw->stack) != US_NEVER; i++)
        raw_pump(raw, us_deadline(raw->stack) - raw->now_us);
    assert_true(us_deadline(raw->stack) == US_NEVER);
    raw_expect_nothing(raw);
    assert_null(raw_event(raw));
}

static void delayed_ack_is_met(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, "hello", 5);
    raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(sleep_until_it_stirs(raw), 40000);
    raw_expect(raw, US_TCP_ACK, snd, 1006, 0);
    sleep_until_quiet(raw);
}

static void retransmissions_are_met(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u64 wait_us;
    u_u64 at_us;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "hello", 5);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 5);
    us_conn_get_info(raw->stack, conn, &info);
    wait_us = info.rto_us;
    for (at_us = 0; at_us + wait_us < R2_US; at_us += wait_us, wait_us = info.rto_us) {
        assert_int_equal(sleep_until_it_stirs(raw), wait_us);
        raw_expect(raw, US_TCP_ACK, snd, 1001, 5);
        us_conn_get_info(raw->stack, conn, &info);
        assert_true(info.rto_us >= wait_us);
    }
    assert_int_equal(sleep_until_it_stirs(raw), R2_US - at_us);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd + 5, 1001, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_TIMEOUT);
    sleep_until_quiet(raw);
}

/*
 * Timeouts in turn for a loss and spurious: each is judged by its own echo (RFC 3522 section 3.2)
 * and undone to its own window (RFC 4015), also if nothing was sent between them.
 */
static void each_timeout_is_judged_by_itself(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info before;
    struct us_conn_info after;
    struct us_conn *conn;
    u_u32 first_val;
    u_u32 snd;
    unsigned i;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    conn = raw_accept(raw, &snd);
    raw->opts.has_ts = 1;
    for (i = 0; i < 6; i++) {
        int spurious = i & 1;
        raw_pump(raw, 10000);
        us_conn_get_info(raw->stack, conn, &before);
        assert_int_equal(us_send(raw->stack, conn, "data", 4), 4);
        raw_pump(raw, 0);
        first_val = raw_expect(raw, US_TCP_ACK, snd, 1001, 4)->opts.ts_val;
        sleep_until_it_stirs(raw);
        raw->opts.ts_ecr = raw_expect(raw, US_TCP_ACK, snd, 1001, 4)->opts.ts_val;
        assert_int_not_equal(raw->opts.ts_ecr, first_val);
        if (spurious)
            raw->opts.ts_ecr = first_val;
        snd += 4;
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        assert_int_equal(raw_counter(raw, "tcp_undos"), (i + 1) / 2);
        us_conn_get_info(raw->stack, conn, &after);
        assert_int_equal(after.ssthresh_bytes == before.ssthresh_bytes, spurious);
        assert_int_equal(after.cwnd_bytes >= before.cwnd_bytes, spurious);
        if (i < 2)
            continue;
        us_send(raw->stack, conn, "more", 4); /* arrives */
        raw_pump(raw, 10000);
        raw->opts.ts_ecr = raw_expect(raw, US_TCP_ACK, snd, 1001, 4)->opts.ts_val;
        snd += 4;
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    }
}

/* A recovery of which the numbers have wrapped since is not taken for the present one. */
static void a_timeout_is_not_of_a_recovery_long_ago(void **state)
{
    const u_u32 passed = 0x90000000u; /* bytes acknowledged since */
    struct raw *raw = *state;
    struct us_conn *conn;
    unsigned i;
    u_u32 snd;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    conn = raw_accept(raw, &snd);
    raw->opts.has_ts = 1;
    for (i = 0; i < 2; i++) {
        assert_int_equal(us_send(raw->stack, conn, "data", 4), 4);
        raw_pump(raw, 0);
        raw->opts.ts_ecr = raw_expect(raw, US_TCP_ACK, snd, 1001, 4)->opts.ts_val;
        sleep_until_it_stirs(raw);
        raw_expect(raw, US_TCP_ACK, snd, 1001, 4);
        snd += 4;
        if (i == 0)
            raw->opts.ts_ecr += 1000; /* of the retransmission */
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        assert_int_equal(raw_counter(raw, "tcp_undos"), i);
        conn->rec.undo_from -= passed;
        conn->rec.undo_to -= passed;
    }
}

/*
 * The peer may have delayed its ACK: after a spurious timeout it is not taken to acknowledge each
 * segment at once any more, and of a single segment it may delay the ACK for longer.
 */
static void a_spurious_timeout_allows_for_a_delayed_ack(void **state)
{
    static const u_u8 data[2000];
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 delay_us;
    u_u32 mss;
    u_u32 snd;
    u_u32 n;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 100;
    raw->opts.mss = 1000;
    raw->opts.sack_permitted = 1;
    conn = raw_accept(raw, &snd);
    mss = conn->cc.mss;
    delay_us = us_recovery_peer_ack_delay_us(raw->stack, conn);
    assert_true(delay_us > 0);
    for (n = 1; n <= 2; n++) {
        conn->rec.consecutive_single_acks = US_SINGLE_ACKS_UNDELAYED;
        assert_int_equal(us_recovery_peer_ack_delay_us(raw->stack, conn), 0);
        assert_int_equal(us_send(raw->stack, conn, data, n * mss), n * mss);
        raw_pump(raw, 0);
        raw->opts.ts_ecr = raw_expect(raw, US_TCP_ACK, snd, 1001, mss)->opts.ts_val;
        while (raw_counter(raw, "tcp_timeouts") < n) {
            while (raw_frame(raw) != NULL)
                continue;
            sleep_until_it_stirs(raw);
        }
        while (raw_frame(raw) != NULL)
            continue;
        snd += mss;
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        assert_int_equal(raw_counter(raw, "tcp_undos"), n);
        assert_int_equal(us_recovery_peer_ack_delay_us(raw->stack, conn), 2 * delay_us);
    }
}

/* RFC 8985 7.3: data that the application sends when a probe is due takes its place. */
static void new_data_takes_the_place_of_a_probe(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    raw->opts.mss = 1000;
    raw->opts.sack_permitted = 1;
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "one", 3);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 3);
    while (raw_counter(raw, "tcp_tail_probes") == 0) {
        raw->now_us = us_deadline(raw->stack);
        us_input(raw->stack, NULL, 0, raw->now_us);
    }
    us_send(raw->stack, conn, "two", 3);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd + 3, 1001, 3);
    raw_expect_nothing(raw);
}

static void window_probe_is_met(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_segment(raw, US_TCP_ACK, 1001, snd, 0, NULL, 0);
    us_send(raw->stack, conn, "hello", 5);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
    us_conn_get_info(raw->stack, conn, &info);
    assert_int_equal(sleep_until_it_stirs(raw), info.rto_us);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
}

/* Two hours and two months: through all the levels that the wheel has for them. */
static void keepalives_are_met(void **state)
{
    static const u_u32 idles_ms[] = {1, 63, 64, 65, 5000, 7200000, 0xffffffffu};
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    unsigned i;

    conn = raw_accept(raw, &snd);
    for (i = 0; i < sizeof(idles_ms) / sizeof(idles_ms[0]); i++) {
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        assert_int_equal(us_conn_set_keepalive(raw->stack, conn, idles_ms[i], 777, 2), 0);
        assert_int_equal(sleep_until_it_stirs(raw), (u_u64)idles_ms[i] * 1000);
        raw_expect(raw, US_TCP_ACK, snd - 1, 1001, 0);
    }
    assert_int_equal(sleep_until_it_stirs(raw), 777000);
    raw_expect(raw, US_TCP_ACK, snd - 1, 1001, 0);
    assert_int_equal(sleep_until_it_stirs(raw), 777000);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd, 1001, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_KEEPALIVE);
    sleep_until_quiet(raw);
}

static void keepalive_arguments_are_checked(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    assert_int_equal(us_conn_set_keepalive(raw->stack, conn, 1, 0, 1), US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_keepalive(raw->stack, conn, 1, 1, 0), US_ERR_ARGUMENT);
    assert_int_equal(us_conn_set_keepalive(raw->stack, conn, 1, 1, 201), US_ERR_ARGUMENT);
    sleep_until_quiet(raw);
    assert_int_equal(us_conn_set_keepalive(raw->stack, conn, 0, 0, 0), US_OK);
    sleep_until_quiet(raw);
}

static void user_timeout_is_met(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u64 begin_us;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_pump(raw, 12345);
    us_send(raw->stack, conn, "hello", 5);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 5);
    begin_us = raw->now_us;
    us_conn_set_user_timeout(raw->stack, conn, 1001); /* while the timer of the data runs already */
    while (raw->event_next == raw->event_count) {
        sleep_until_it_stirs(raw);
        (void)raw_frame(raw);
    }
    assert_int_equal(raw->now_us - begin_us, 1001000);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_TIMEOUT);
}

static void closing_times_are_met(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    assert_int_equal(us_close_within(raw->stack, conn, 33), 0);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_FIN | US_TCP_ACK, snd, 1001, 0);
    assert_int_equal(sleep_until_it_stirs(raw), 33000);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd + 1, 1001, 0);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_TIMEOUT);

    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_FIN | US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    assert_int_equal(sleep_until_it_stirs(raw), 60000000);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, snd + 1, 1001, 0);
    raw_expect_event(raw, US_EV_CLOSED);
}

static void time_wait_ends(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u64 begin_us;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_close(raw->stack, conn);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_FIN | US_TCP_ACK, snd, 1001, 0);
    raw_segment(raw, US_TCP_FIN | US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1002, 0);
    raw_expect_event(raw, US_EV_PEER_CLOSED);
    raw_expect_event(raw, US_EV_CLOSED);
    begin_us = raw->now_us;
    while (raw_counter(raw, "time_wait") > 0)
        raw_pump(raw, us_deadline(raw->stack) - raw->now_us);
    assert_int_equal(raw->now_us - begin_us, 60000000);
}

#define TIMER_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TIMER_TEST(delayed_ack_is_met),
        TIMER_TEST(retransmissions_are_met),
        TIMER_TEST(each_timeout_is_judged_by_itself),
        TIMER_TEST(a_timeout_is_not_of_a_recovery_long_ago),
        TIMER_TEST(a_spurious_timeout_allows_for_a_delayed_ack),
        TIMER_TEST(new_data_takes_the_place_of_a_probe),
        TIMER_TEST(window_probe_is_met),
        TIMER_TEST(keepalives_are_met),
        TIMER_TEST(keepalive_arguments_are_checked),
        TIMER_TEST(user_timeout_is_met),
        TIMER_TEST(closing_times_are_met),
        TIMER_TEST(time_wait_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
