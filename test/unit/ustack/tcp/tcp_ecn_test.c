/* SPDX-License-Identifier: BSD-3-Clause */
/* ECN functions one by one; complete exchanges are packet scripts (rfc3168-*). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp_ecn.h"

enum { BOTH = US_TCP_ECE | US_TCP_CWR };

static int start(void **state)
{
    struct raw *raw = (struct raw *)calloc(1, sizeof(*raw));

    raw_open(raw, NULL);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    *state = raw;
    return 0;
}

static int stop(void **state)
{
    raw_close((struct raw *)*state);
    free(*state);
    return 0;
}

/*
 * Processes a SYN with these flags on a connection with these bits; returns whether ECN was
 * negotiated.
 */
static int agreed(struct raw *raw, unsigned flags, unsigned ecn)
{
    struct us_conn conn;
    struct us_seg seg;

    memset(&conn, 0, sizeof(conn));
    memset(&seg, 0, sizeof(seg));
    conn.ecn = (u_u8)ecn;
    seg.flags = (u_u8)flags;
    us_ecn_take_syn(raw->stack, &conn, &seg);
    assert_int_equal(conn.ecn, 0);
    return (conn.opts & US_OPT_ECN) != 0;
}

static void handshake_agrees_on_the_right_flags_only(void **state)
{
    struct raw *raw = *state;

    assert_true(agreed(raw, US_TCP_SYN | BOTH, 0));
    assert_false(agreed(raw, US_TCP_SYN | US_TCP_ECE, 0));
    assert_false(agreed(raw, US_TCP_SYN | US_TCP_CWR, 0));
    assert_false(agreed(raw, US_TCP_SYN, US_EF_REQUESTED));
    assert_true(agreed(raw, US_TCP_SYN | US_TCP_ACK | US_TCP_ECE, US_EF_REQUESTED));
    assert_false(
        agreed(raw, US_TCP_SYN | US_TCP_ACK | BOTH, US_EF_REQUESTED)); /* a copy of our flags */
    assert_false(agreed(raw, US_TCP_SYN | US_TCP_ACK, US_EF_REQUESTED));
    assert_false(agreed(raw, US_TCP_SYN | US_TCP_ACK | US_TCP_ECE, 0)); /* not requested */
}

static void switched_off_agrees_to_nothing(void **state)
{
    struct raw *raw = *state;

    raw->stack->config.ecn = US_ECN_OFF;
    assert_false(agreed(raw, US_TCP_SYN | BOTH, 0));
}

/* The flags and the ECN field of a segment of `len` bytes; above: it is new data. */
static void fill(const struct us_conn *conn, struct us_tcp_desc *desc, u_u32 len, int above,
                 enum us_send_kind kind)
{
    memset(desc, 0, sizeof(*desc));
    desc->flags = US_TCP_ACK;
    desc->len = len;
    desc->seq = above ? conn->snd_max : conn->snd_max - 1000;
    desc->kind = (u_u8)kind;
    us_ecn_fill(conn, desc);
}

static void only_new_data_is_capable(void **state)
{
    struct us_conn conn;
    struct us_tcp_desc desc;

    memset(&conn, 0, sizeof(conn));
    conn.opts = US_OPT_ECN;
    conn.ecn = US_EF_SEND_CWR;
    conn.snd_max = 5000;
    fill(&conn, &desc, 100, 1, US_SEND_DATA);
    assert_int_equal(desc.ecn, US_ECN_ECT0);
    assert_int_equal(desc.flags, US_TCP_ACK | US_TCP_CWR);
    fill(&conn, &desc, 100, 0, US_SEND_RETRANSMIT);
    assert_int_equal(desc.ecn, 0);
    assert_int_equal(desc.flags, US_TCP_ACK);
    fill(&conn, &desc, 0, 1, US_SEND_ACK);
    assert_int_equal(desc.ecn, 0);
    fill(&conn, &desc, 1, 1, US_SEND_PROBE);
    assert_int_equal(desc.ecn, 0);
}

static void echo_is_on_every_ack(void **state)
{
    struct us_conn conn;
    struct us_tcp_desc desc;

    memset(&conn, 0, sizeof(conn));
    conn.opts = US_OPT_ECN;
    conn.ecn = US_EF_SEND_ECE;
    fill(&conn, &desc, 0, 1, US_SEND_ACK);
    assert_int_equal(desc.flags, US_TCP_ACK | US_TCP_ECE);
    conn.cc.kind = US_CC_DCTCP; /* there the last segment counts */
    fill(&conn, &desc, 0, 1, US_SEND_ACK);
    assert_int_equal(desc.flags, US_TCP_ACK);
    conn.ecn = US_EF_LAST_CE;
    fill(&conn, &desc, 0, 1, US_SEND_ACK);
    assert_int_equal(desc.flags, US_TCP_ACK | US_TCP_ECE);
}

static void mark_is_answered_once_per_round_trip(void **state)
{
    struct raw *raw = *state;
    struct us_seg seg;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    memset(&seg, 0, sizeof(seg));
    seg.flags = US_TCP_ACK | US_TCP_ECE;
    us_ecn_ack(raw->stack, conn, &seg); /* not negotiated */
    assert_int_equal(conn->ecn, 0);
    conn->opts |= US_OPT_ECN;
    us_ecn_ack(raw->stack, conn, &seg);
    assert_int_equal(conn->ecn, US_EF_SEND_CWR | US_EF_REDUCED);
    us_ecn_ack(raw->stack, conn, &seg);
    assert_int_equal(raw_counter(raw, "tcp_ecn_reductions"), 1);
    assert_int_equal(raw_counter(raw, "tcp_ecn_rx_ece"), 2);
    conn->rec.cwr_end = conn->snd_una - 1; /* the data with CWR was acknowledged */
    us_ecn_ack(raw->stack, conn, &seg);
    assert_int_equal(raw_counter(raw, "tcp_ecn_reductions"), 2);
    conn->opts &= (u_u8)~US_OPT_ECN;
    conn->ecn = 0;
}

/* A router on the path of IPv6 marks all packets that may be marked. */
static void mark_ip6(struct pair_host *host)
{
    unsigned i;

    for (i = host->head; i != host->tail; i++) {
        u_u8 *traffic_class = &host->ring[i % PAIR_FLIGHT_MAX].bytes[15]; /* its lower half */

        if ((*traffic_class & 0x30) == 0x20)
            *traffic_class |= 0x30;
    }
}

static void send_if_connected(struct pair_host *host, const struct us_event *event)
{
    if (event->type == US_EV_CONNECTED)
        assert_int_equal(us_send(host->stack, event->conn, "0123456789", 10), 10);
}

static void marks_of_ip6_are_echoed(void **state)
{
    static struct pair pair;
    struct us_config config;
    struct us_addr to;

    (void)state;
    pair_use_ip6(1);
    to = pair_addr(1);
    pair_config(&config, 0);
    config.ecn = US_ECN_REQUEST;
    pair_open(&pair, &config);
    pair.host[1].on_idle = mark_ip6;
    pair.host[0].on_event = pair.host[1].on_event = send_if_connected;
    assert_int_equal(us_listen(pair.host[1].stack, RAW_PORT, NULL), 0);
    assert_non_null(us_connect(pair.host[0].stack, &to, RAW_PORT, 0, NULL, NULL));
    pair_run(&pair, pair.now_us + 1000000);
    assert_int_equal(pair_counter(pair.host[1].stack, "tcp_ecn_rx_ce"), 1);
    assert_int_equal(pair_counter(pair.host[0].stack, "tcp_ecn_rx_ece"), 1);
    pair_close(&pair);
    pair_use_ip6(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(handshake_agrees_on_the_right_flags_only, start, stop),
        cmocka_unit_test_setup_teardown(switched_off_agrees_to_nothing, start, stop),
        cmocka_unit_test(only_new_data_is_capable),
        cmocka_unit_test(echo_is_on_every_ack),
        cmocka_unit_test_setup_teardown(mark_is_answered_once_per_round_trip, start, stop),
        cmocka_unit_test(marks_of_ip6_are_echoed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
