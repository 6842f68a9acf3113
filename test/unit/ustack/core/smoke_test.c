/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two stacks talk to each other through the public API only: open, transfer with and without
 * losses, half close, abort, refusal, churn. After every step all invariants are checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"

enum { PORT = 11211, SECOND = 1000000 };

/* What one side of a connection does and has seen. */
struct side {
    struct us_conn *conn;
    u_u32 to_send; /* bytes to send in all */
    u_u32 sent;
    u_u32 received;
    int closes_after; /* us_close() when all is sent */
    int closes_back;  /* us_close() when the peer has closed */
    int close_called;
    int opened;
    int peer_closed;
    int closed;
    enum us_close_reason reason;
    u_u32 references; /* 0: us_send(); n: references of n bytes */
    u_u32 released;
    u_u32 refs_sent;
    u_u8 *pattern;
};

static u_u8 pattern_byte(u_u32 offset)
{
    return (u_u8)(offset * 7 + (offset >> 8) * 13 + (offset >> 16));
}

static void side_pump(struct pair_host *host)
{
    struct side *side = host->app;

    while (side->opened && !side->closed && side->sent < side->to_send) {
        u_u8 buffer[3000];
        u_u32 n = side->to_send - side->sent;
        long taken;
        u_u32 i;

        if (side->references != 0) {
            n = n < side->references ? n : side->references;
            if (us_send_ref(host->stack, side->conn, side->pattern + side->sent, n, side) != 0)
                return;
            side->refs_sent++;
            side->sent += n;
            continue;
        }
        n = n < sizeof(buffer) ? n : (u_u32)sizeof(buffer);
        for (i = 0; i < n; i++)
            buffer[i] = pattern_byte(side->sent + i);
        taken = us_send(host->stack, side->conn, buffer, n);
        assert_true(taken >= 0);
        side->sent += (u_u32)taken;
        if ((u_u32)taken < n)
            return;
    }
    if (side->opened && !side->closed && side->closes_after && !side->close_called) {
        side->close_called = 1;
        assert_int_equal(us_close(host->stack, side->conn), 0);
    }
}

static void side_event(struct pair_host *host, const struct us_event *event)
{
    struct side *side = host->app;
    u_u32 i;

    switch (event->type) {
    case US_EV_ACCEPTED:
        assert_ptr_equal(event->user, side);
        side->conn = event->conn;
        side->opened++;
        break;
    case US_EV_CONNECTED:
        side->opened++;
        break;
    case US_EV_DATA:
        assert_true(side->opened);
        assert_false(side->peer_closed);
        for (i = 0; i < event->len; i++)
            assert_int_equal(event->data[i], pattern_byte(side->received + i));
        side->received += event->len;
        break;
    case US_EV_PEER_CLOSED:
        side->peer_closed++;
        if (side->closes_back && !side->close_called) {
            side->close_called = 1;
            assert_int_equal(us_close(host->stack, side->conn), 0);
        }
        break;
    case US_EV_SENDABLE:
        break;
    case US_EV_RELEASED:
        assert_ptr_equal(event->cookie, side);
        side->released++;
        break;
    case US_EV_CLOSED:
        side->closed++;
        side->reason = event->reason;
        break;
    case US_EV_DATAGRAM:
    case US_EV_CWND:
    case US_EV_NONE:
        fail();
    }
    side_pump(host);
}

/* Two hosts of which host 0 connects to host 1. */
struct talk {
    struct pair pair;
    struct side side[2];
};

static void talk_open(struct talk *talk, const struct us_config *config)
{
    int i;

    memset(talk, 0, sizeof(*talk));
    pair_open(&talk->pair, config);
    for (i = 0; i < 2; i++) {
        talk->pair.host[i].on_event = side_event;
        talk->pair.host[i].app = &talk->side[i];
    }
    assert_int_equal(us_listen(talk->pair.host[1].stack, PORT, &talk->side[1]), 0);
}

static void talk_connect(struct talk *talk, u_u16 port)
{
    struct us_addr remote = pair_addr(1);
    int error = 1;

    talk->side[0].conn =
        us_connect(talk->pair.host[0].stack, &remote, port, 0, &talk->side[0], &error);
    assert_non_null(talk->side[0].conn);
    assert_int_equal(error, 0);
}

/* Nothing may be left in the pools of either host. */
static void talk_finish(struct talk *talk)
{
    int i;

    pair_run(&talk->pair, talk->pair.now_us + 300 * (u_u64)SECOND);
    for (i = 0; i < 2; i++) {
        struct us_stack *stack = talk->pair.host[i].stack;
        assert_int_equal(pair_counter(stack, "conns_open"), 0);
        assert_int_equal(pair_counter(stack, "half_open"), 0);
        assert_int_equal(pair_counter(stack, "time_wait"), 0);
        assert_int_equal(pair_counter(stack, "buffer_bytes_used"), 0);
        assert_int_equal(pair_counter(stack, "refs_used"), 0);
        assert_int_equal(talk->side[i].released, talk->side[i].refs_sent);
    }
    pair_close(&talk->pair);
}

static void opens_and_closes(void **state)
{
    struct talk talk;

    talk_open(&talk, NULL);
    talk.side[0].closes_after = 1;
    talk.side[1].closes_back = 1;
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[0].opened, 1);
    assert_int_equal(talk.side[1].opened, 1);
    assert_int_equal(talk.side[0].closed, 1);
    assert_int_equal(talk.side[0].reason, US_CLOSE_NORMAL);
    assert_int_equal(talk.side[1].peer_closed, 1);
    assert_int_equal(talk.side[1].closed, 1);
    assert_int_equal(talk.side[1].reason, US_CLOSE_NORMAL);
    assert_int_equal(pair_counter(talk.pair.host[0].stack, "time_wait"), 1);
    assert_int_equal(pair_counter(talk.pair.host[0].stack, "tcp_retransmits"), 0);
    talk_finish(&talk);
}

/* lose: each lose-th frame gets lost if it is positive, -lose percent of them if it is negative. */
static void transfer(const struct us_config *config, u_u32 bytes0, u_u32 bytes1, int lose,
                     u_u32 references)
{
    struct talk talk;
    u_u8 *pattern = malloc(bytes0 + bytes1 + 1);
    u_u32 i;

    for (i = 0; i < bytes0 + bytes1; i++)
        pattern[i] = pattern_byte(i);
    talk_open(&talk, config);
    talk.pair.lose_every = lose > 0 ? (u_u32)lose : 0;
    talk.pair.lose_percent = lose < 0 ? (u_u32)-lose : 0;
    talk.side[0].to_send = bytes0;
    talk.side[1].to_send = bytes1;
    talk.side[0].closes_after = 1;
    talk.side[1].closes_after = 1;
    talk.side[0].references = references;
    talk.side[0].pattern = pattern;
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + 600 * (u_u64)SECOND);
    for (i = 0; i < 2; i++) {
        assert_int_equal(talk.side[i].received, i == 0 ? bytes1 : bytes0);
        assert_int_equal(talk.side[i].peer_closed, 1);
        assert_int_equal(talk.side[i].closed, 1);
        assert_int_equal(talk.side[i].reason, US_CLOSE_NORMAL);
    }
    talk_finish(&talk);
    free(pattern);
}

static void transfers_a_megabyte_each_way(void **state)
{
    transfer(NULL, 1 << 20, 1 << 20, 0, 0);
}

static void transfers_despite_losses(void **state)
{
    static const int lose[] = {3, 5, 7, 10, 23, 101, -1, -3, -10, -20, -30};
    unsigned i;

    for (i = 0; i < sizeof(lose) / sizeof(lose[0]); i++)
        transfer(NULL, 100000, 100000, lose[i], 0);
    transfer(NULL, 1 << 20, 1 << 20, 50, 0);
}

static void transfers_references(void **state)
{
    transfer(NULL, 300000, 0, 0, 5000);
    transfer(NULL, 300000, 100000, 13, 5000);
    transfer(NULL, 3000, 0, 7, 1);
}

static void transfers_with_tiny_bounds(void **state)
{
    struct us_config config;

    pair_config(&config, 0);
    config.mtu = pair_addr(0).family == US_IP6 ? 1280 : 576;
    config.recv_window_bytes = 1024;
    config.send_queue_bytes = 700;
    config.buffer_bytes = 4 * 2048;
    transfer(&config, 20000, 20000, 0, 0);
    transfer(&config, 20000, 20000, 11, 0);
}

static void refuses_a_port_without_a_listener(void **state)
{
    struct talk talk;

    talk_open(&talk, NULL);
    talk_connect(&talk, PORT + 1);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[0].closed, 1);
    assert_int_equal(talk.side[0].reason, US_CLOSE_REFUSED);
    talk_finish(&talk);
}

static void aborts(void **state)
{
    struct talk talk;

    talk_open(&talk, NULL);
    talk.side[0].to_send = 10000;
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[1].received, 10000);
    us_abort(talk.pair.host[0].stack, talk.side[0].conn);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[0].reason, US_CLOSE_ABORTED);
    assert_int_equal(talk.side[1].closed, 1);
    assert_int_equal(talk.side[1].reason, US_CLOSE_RESET);
    talk_finish(&talk);
}

static void half_closes(void **state)
{
    struct talk talk;

    talk_open(&talk, NULL);
    talk.side[0].to_send = 100;
    talk.side[0].closes_after = 1;
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[1].peer_closed, 1);
    assert_int_equal(talk.side[0].closed, 0);
    talk.side[1].to_send = 200000;
    talk.side[1].closes_after = 1;
    side_pump(&talk.pair.host[1]);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    assert_int_equal(talk.side[0].received, 200000);
    assert_int_equal(talk.side[0].reason, US_CLOSE_NORMAL);
    assert_int_equal(talk.side[1].reason, US_CLOSE_NORMAL);
    talk_finish(&talk);
}

static void gives_up_when_nobody_answers(void **state)
{
    struct talk talk;

    talk_open(&talk, NULL);
    talk.pair.partitioned = 1;
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + 20 * (u_u64)SECOND);
    assert_int_equal(talk.side[0].closed, 1);
    assert_int_equal(talk.side[0].reason, US_CLOSE_UNREACHABLE);
    talk_finish(&talk);

    talk_open(&talk, NULL);
    talk_connect(&talk, PORT);
    pair_run(&talk.pair, talk.pair.now_us + SECOND);
    talk.side[0].to_send = 5000;
    talk.pair.partitioned = 1;
    side_pump(&talk.pair.host[0]);
    pair_run(&talk.pair, talk.pair.now_us + 3000 * (u_u64)SECOND);
    assert_int_equal(talk.side[0].closed, 1);
    assert_true(talk.side[0].reason == US_CLOSE_TIMEOUT ||
                talk.side[0].reason == US_CLOSE_UNREACHABLE);
    us_abort(talk.pair.host[1].stack, talk.side[1].conn);
    talk.pair.partitioned = 0;
    talk_finish(&talk);
}

/* Ten thousand connections, one after another, leave nothing behind. */
static void churns(void **state)
{
    struct us_config config;
    struct talk talk;
    int i;

    pair_config(&config, 0);
    config.time_wait_max = 16;
    talk_open(&talk, &config);
    for (i = 0; i < 10000; i++) {
        talk.pair.check = i % 500 == 0;
        memset(talk.side, 0, sizeof(talk.side));
        talk.side[0].to_send = 10;
        talk.side[1].to_send = 10;
        talk.side[i & 1].closes_after = 1;
        talk.side[1 - (i & 1)].closes_back = 1;
        talk_connect(&talk, PORT);
        pair_run(&talk.pair, talk.pair.now_us + 1000);
        assert_int_equal(talk.side[0].closed, 1);
        assert_int_equal(talk.side[1].closed, 1);
        assert_int_equal(talk.side[0].received, 10);
        assert_int_equal(talk.side[1].received, 10);
    }
    talk_finish(&talk);
}

static int over_ip4(void **state)
{
    pair_use_ip6(0);
    return 0;
}

static int over_ip6(void **state)
{
    pair_use_ip6(1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_and_closes),
        cmocka_unit_test(transfers_a_megabyte_each_way),
        cmocka_unit_test(transfers_despite_losses),
        cmocka_unit_test(transfers_references),
        cmocka_unit_test(transfers_with_tiny_bounds),
        cmocka_unit_test(refuses_a_port_without_a_listener),
        cmocka_unit_test(aborts),
        cmocka_unit_test(half_closes),
        cmocka_unit_test(gives_up_when_nobody_answers),
        cmocka_unit_test(churns),
    };

    return cmocka_run_group_tests(tests, over_ip4, NULL) +
           cmocka_run_group_tests(tests, over_ip6, NULL);
}
