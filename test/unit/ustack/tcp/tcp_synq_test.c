/* SPDX-License-Identifier: BSD-3-Clause */
/* The SYN queue: small entries, bounded work, and what a segment does to a handshake under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/ip/reply_queue.h"
#include "ustack/tcp/tcp_synq.h"

enum { HALF_OPEN_MAX = 1000, ISN = 1000 };

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;

    pair_config(&config, 0);
    config.half_open_max = HALF_OPEN_MAX;
    raw_open(&raw, &config);
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Sends a SYN; returns the initial sequence number of the SYN-ACK. */
static u_u32 half_open(struct raw *raw, unsigned port)
{
    raw->peer_port = (u_u16)port;
    raw_segment(raw, US_TCP_SYN, ISN, 0, 65535, NULL, 0);
    assert_int_equal(raw->frame_count - raw->frame_next, 1);
    return raw_frame(raw)->seq;
}

/* Takes all frames of the stack and returns how many there were; each has to be a SYN-ACK. */
static unsigned take_syn_acks(struct raw *raw)
{
    const struct raw_frame *frame;
    unsigned n = 0;

    while ((frame = raw_frame(raw)) != NULL) {
        assert_int_equal(frame->flags, US_TCP_SYN | US_TCP_ACK);
        n++;
    }
    return n;
}

static void an_entry_is_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct us_synq_entry) * 6 <= sizeof(struct us_conn));
}

/* A pool of entries costs what it says: the entries and a bucket for each. */
static void memory_is_bounded(void **state)
{
    struct us_config config;
    unsigned long without;

    (void)state;
    pair_config(&config, 0);
    config.half_open_max = 0;
    without = us_memory_bytes(&config);
    config.half_open_max = 1024;
    assert_true(us_memory_bytes(&config) - without <= 1024 * (96 + sizeof(void *)) + 128);
}

/* All are due at the same time: a bounded number per call is retransmitted, each once. */
static void retransmissions_come_in_steps(void **state)
{
    struct raw *raw = *state;
    unsigned total = 0;
    unsigned n;
    unsigned i;

    for (i = 0; i < HALF_OPEN_MAX; i++)
        half_open(raw, 5000 + i);
    raw_pump(raw, 1000000);
    while ((n = take_syn_acks(raw)) > 0) {
        assert_true(n <= 32);
        total += n;
        raw_pump(raw, 1000);
    }
    assert_int_equal(total, HALF_OPEN_MAX);
    assert_int_equal(raw_counter(raw, "tcp_retransmits"), HALF_OPEN_MAX);
    assert_int_equal(raw_counter(raw, "half_open"), HALF_OPEN_MAX);
    for (i = 0; i < 300; i++) {
        raw_pump(raw, 1000000);
        take_syn_acks(raw);
    }
    assert_int_equal(raw_counter(raw, "half_open"), 0);
    assert_int_equal(raw_counter(raw, "half_open_timeouts"), HALF_OPEN_MAX);
    assert_true(us_deadline(raw->stack) == US_NEVER);
}

/* Unacceptable segments are replied to, a bounded number of times. */
static void answers_of_an_entry_are_bounded(void **state)
{
    struct raw *raw = *state;
    u_u32 iss = half_open(raw, 5000);
    unsigned i;

    for (i = 0; i < 10; i++) {
        raw_segment(raw, US_TCP_SYN, ISN + 7, 0, 65535, NULL, 0);
        raw_expect(raw, US_TCP_ACK, iss + 1, ISN + 1, 0);
    }
    raw_segment(raw, US_TCP_SYN, ISN + 7, 0, 65535, NULL, 0);
    raw_expect_nothing(raw);
    raw_segment(raw, US_TCP_RST, ISN + 100, 0, 0, NULL, 0); /* in the window, not exact */
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "tcp_challenge_limited"), 2);
    assert_int_equal(raw_counter(raw, "half_open"), 1);
    raw_segment(raw, US_TCP_ACK, ISN + 1, iss + 1, 65535, NULL, 0);
    raw_expect_event(raw, US_EV_ACCEPTED);
}

/* Of a segment that is not acceptable neither its ACK nor its data counts. */
static void segments_are_checked(void **state)
{
    struct raw *raw = *state;
    u_u32 iss;

    raw->opts.has_ts = 1;
    raw->opts.ts_val = 5000;
    iss = half_open(raw, 5000);
    raw_segment(raw, US_TCP_ACK, ISN + 1 + 65536, iss + 1, 65535, "x", 1);
    raw_expect(raw, US_TCP_ACK, iss + 1, ISN + 1, 0);
    assert_int_equal(raw_counter(raw, "drop_tcp_window"), 1);
    raw->opts.ts_val = 4999;
    raw_segment(raw, US_TCP_ACK, ISN + 1, iss + 1, 65535, "x", 1);
    raw_expect(raw, US_TCP_ACK, iss + 1, ISN + 1, 0);
    assert_int_equal(raw_counter(raw, "drop_tcp_paws"), 1);
    raw->opts.has_ts = 0;
    raw_segment(raw, US_TCP_ACK, ISN + 1, iss + 1, 65535, "x", 1);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_tcp_no_timestamp"), 1);
    raw_segment(raw, US_TCP_RST, ISN + 1 + 65536, 0, 0, NULL, 0);
    raw_expect_nothing(raw);
    raw_segment(raw, 0, ISN + 1, 0, 65535, "x", 1);
    raw_expect_nothing(raw);
    assert_null(raw_event(raw));
    assert_int_equal(raw_counter(raw, "half_open"), 1);
    raw->opts.has_ts = 1;
    raw->opts.ts_val = 5000;
    raw_segment(raw, US_TCP_ACK, ISN + 1, iss + 1, 65535, "x", 1);
    raw_expect_event(raw, US_EV_ACCEPTED);
    assert_int_equal(raw_expect_event(raw, US_EV_DATA)->len, 1);
}

/* The handshake gives a round-trip time, unless the SYN-ACK was sent twice (Karn). */
static void handshake_is_timed(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    u_u32 iss;
    int again;

    for (again = 0; again < 2; again++) {
        iss = half_open(raw, 5000u + (unsigned)again);
        raw_pump(raw, 20000);
        if (again)
            raw_segment(raw, US_TCP_SYN, ISN, 0, 65535, NULL, 0);
        take_syn_acks(raw);
        raw_segment(raw, US_TCP_ACK, ISN + 1, iss + 1, 65535, NULL, 0);
        us_conn_get_info(raw->stack, raw_expect_event(raw, US_EV_ACCEPTED)->conn, &info);
        assert_int_equal(info.srtt_us, again ? 0 : 20000);
    }
}

/* A 4-tuple is one handshake or one connection. */
static void tuple_is_in_use(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct raw *raw = *state;
    int error = 0;

    half_open(raw, 5000);
    assert_null(us_connect(raw->stack, &peer, 5000, RAW_PORT, NULL, &error));
    assert_int_equal(error, US_ERR_IN_USE);
    raw_segment(raw, US_TCP_RST, ISN + 1, 0, 0, NULL, 0);
    assert_int_equal(raw_counter(raw, "half_open_resets"), 1);
    assert_non_null(us_connect(raw->stack, &peer, 5000, RAW_PORT, NULL, &error));
}

/* The one that was retransmitted most often goes first, of these the oldest. */
static void eviction_takes_the_most_silent(void **state)
{
    struct raw *raw = *state;
    u_u32 iss[3];
    unsigned i;

    for (i = 0; i < 2; i++)
        iss[i] = half_open(raw, 5000 + i);
    raw_pump(raw, 1000000);
    assert_int_equal(take_syn_acks(raw), 2);
    iss[2] = half_open(raw, 5002);
    assert_true(us_synq_evict(raw->stack));
    for (i = 0; i < 3; i++) {
        raw->peer_port = (u_u16)(5000 + i);
        raw_segment(raw, US_TCP_ACK, ISN + 1, iss[i] + 1, 65535, NULL, 0);
        if (i == 0)
            raw_expect(raw, US_TCP_RST, iss[0] + 1, 0, 0);
        else
            raw_expect_event(raw, US_EV_ACCEPTED);
    }
    assert_false(us_synq_evict(raw->stack));
    assert_int_equal(raw_counter(raw, "half_open_evictions"), 1);
}

/*
 * The first SYN is answered with a cookie, the same SYN again by an entry. The peer acknowledges
 * whichever SYN-ACK arrives first: both are good for the connection, and its options are those of
 * that SYN-ACK.
 */
static void cookie_beside_an_entry_is_accepted(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info info;
    u_u32 cookie, iss;
    unsigned i;

    for (i = 0; i < HALF_OPEN_MAX; i++)
        half_open(raw, 5000 + i);
    raw->opts.has_scale = 1;
    raw->opts.scale = 7;
    cookie = half_open(raw, 4000);
    assert_int_equal(raw_counter(raw, "syn_cookies_sent"), 1);
    assert_true(us_synq_evict(raw->stack));
    iss = half_open(raw, 4000);
    assert_int_not_equal(iss, cookie);
    assert_int_equal(raw_counter(raw, "half_open"), HALF_OPEN_MAX);
    raw->opts.has_scale = 0;
    raw_segment(raw, US_TCP_ACK, ISN + 1, cookie + 2, 1000, NULL, 0); /* neither */
    raw_expect(raw, US_TCP_RST, cookie + 2, 0, 0);
    raw_segment(raw, US_TCP_ACK, ISN + 1, cookie + 1, 1000, "x", 1);
    us_conn_get_info(raw->stack, raw_expect_event(raw, US_EV_ACCEPTED)->conn, &info);
    assert_int_equal(info.send_window_bytes, 1000);
    raw_expect_event(raw, US_EV_DATA);
    assert_int_equal(raw_counter(raw, "syn_cookies_accepted"), 1);
    assert_int_equal(raw_counter(raw, "half_open"), HALF_OPEN_MAX - 1);
}

/* A local address that is removed takes its handshakes with it, and no others. */
static void entries_go_with_their_address(void **state)
{
    struct raw *raw = *state;

    half_open(raw, 5000);
    us_synq_remove_local(raw->stack, RAW_LOCAL_IP + 1);
    assert_int_equal(raw_counter(raw, "half_open"), 1);
    us_synq_remove_local(raw->stack, RAW_LOCAL_IP);
    assert_int_equal(raw_counter(raw, "half_open"), 0);
    assert_null(us_check(raw->stack));
}

/* Many SYN-ACKs with options, then a RST in the place of one of them: it has none. */
static void a_reset_has_no_options_of_an_earlier_reply(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    raw->opts.mss = 1460;
    raw->opts.has_scale = 1;
    raw->opts.sack_permitted = 1;
    raw->opts.has_ts = 1;
    for (i = 0; i < US_REPLIES_MAX; i++)
        half_open(raw, 5000 + i);
    memset(&raw->opts, 0, sizeof(raw->opts));
    raw->peer_port = 4999;
    raw_segment(raw, US_TCP_ACK, ISN, 5555, 65535, NULL, 0);
    assert_int_equal(raw_expect(raw, US_TCP_RST, 5555, 0, 0)->len, 14 + 20 + 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_small),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test_setup_teardown(retransmissions_come_in_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_of_an_entry_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(handshake_is_timed, setup, teardown),
        cmocka_unit_test_setup_teardown(tuple_is_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(eviction_takes_the_most_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(cookie_beside_an_entry_is_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(entries_go_with_their_address, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reset_has_no_options_of_an_earlier_reply, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
