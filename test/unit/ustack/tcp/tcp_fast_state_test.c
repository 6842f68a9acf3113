/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast-path state of a connection: what leads to it, which calls end it, and the fields that
 * are filled in then. That fast path and general code give the same results: tcp_fast_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_recovery.h"

enum { CLIENT, SERVER, PORT = 7, ROUNDS = 20, SETTLING = 200 };

static struct pair pair;
static struct us_conn *client;
static struct us_conn *server;
static unsigned answered;
static int wants_room;    /* the server, after its next response */
static unsigned sendable; /* events of the server */
static int answers;       /* whether the server does */
static u_u8 text[1000];

static void on_server_event(struct pair_host *host, const struct us_event *event)
{
    u_u32 room;

    if (event->type == US_EV_DATA)
        assert_null(us_reserve(host->stack, event->conn, 0, 0, &room)); /* on no path */
    if (event->type == US_EV_ACCEPTED)
        server = event->conn;
    else if (event->type == US_EV_SENDABLE)
        sendable++;
    else if (event->type == US_EV_DATA && answers)
        assert_int_equal(us_send(host->stack, event->conn, text, 35), 35);
    if (event->type == US_EV_DATA && wants_room)
        us_request_sendable(host->stack, event->conn);
    wants_room = 0;
}

static void on_client_event(struct pair_host *host, const struct us_event *event)
{
    (void)host;
    if (event->type == US_EV_DATA)
        answered += event->len / 35;
}

static void run(void)
{
    pair_run(&pair, pair.now_us + 400);
}

static void ask(void)
{
    assert_int_equal(us_send(pair.host[CLIENT].stack, client, text, 14), 14);
    run();
}

/* Connects, and exchanges data until both sides know the round-trip time. */
static int setup(void **state)
{
    struct us_addr addr;
    int error;
    unsigned i;

    (void)state;
    pair_open(&pair, NULL);
    pair.check = 1;
    pair.delay_us = 50;
    pair.host[CLIENT].on_event = on_client_event;
    pair.host[SERVER].on_event = on_server_event;
    answers = 1;
    answered = 0;
    wants_room = 0;
    assert_int_equal(us_listen(pair.host[SERVER].stack, PORT, NULL), 0);
    addr = pair_addr(SERVER);
    client = us_connect(pair.host[CLIENT].stack, &addr, PORT, 0, NULL, &error);
    assert_non_null(client);
    run();
    for (i = 0; i < ROUNDS; i++)
        ask();
    assert_int_equal(answered, ROUNDS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_close(&pair);
    return 0;
}

static void requests_and_responses_lead_to_rxtx(void **state)
{
    assert_int_equal(server->fast_path, US_FAST_RXTX);
    assert_true(us_conn_fast_path_is_valid(pair.host[SERVER].stack, server));
}

/* The response is in flight, and its acknowledgment comes later. */
static void leaving_fills_in_the_lazy_fields(void **state)
{
    u_u64 sent_us = server->sent_us;

    us_conn_leave_fast_path(server);
    assert_int_equal(server->fast_path, US_FAST_NONE);
    assert_int_equal(us_conn_lazy(server)->cwnd_limited_end, server->snd_una);
    assert_int_equal(us_conn_lazy(server)->recover, server->snd_una - 1);
    assert_int_equal(server->snd_max - server->snd_una, 35);
    assert_int_equal(us_conn_lazy(server)->main_timer, US_TCP_TIMER_TLP);
    assert_true(us_conn_lazy(server)->rtt_timed);
    assert_true(us_conn_lazy(server)->no_progress_since_us == sent_us);
    assert_true(us_conn_lazy(server)->main_deadline_us > sent_us);
    us_conn_leave_fast_path(server); /* once more changes nothing */
    assert_int_equal(us_conn_lazy(server)->main_timer, US_TCP_TIMER_TLP);
}

static void leaving_an_idle_connection_starts_keepalives(void **state)
{
    struct us_stack *stack = pair.host[SERVER].stack;
    unsigned i;

    assert_int_equal(us_conn_set_keepalive(stack, server, 5000, 1000, 3), 0);
    for (i = 0; i < 3; i++)
        ask();
    answers = 0;
    ask();
    assert_int_equal(server->snd_una, server->snd_max);
    us_conn_leave_fast_path(server);
    assert_int_equal(us_conn_lazy(server)->main_timer, US_TCP_TIMER_KEEPALIVE);
    assert_true(us_conn_lazy(server)->main_deadline_us == server->last_rx_us + 5000 * 1000);
    assert_true(us_conn_lazy(server)->no_progress_since_us == 0);
    assert_false(us_conn_lazy(server)->rtt_timed);
    assert_null(us_check(stack));
}

/* The wheel's entry for the PTO would be too late for such a keepalive. */
static void a_keepalive_before_the_pto_prevents_rxtx(void **state)
{
    unsigned i;

    assert_int_equal(us_conn_set_keepalive(pair.host[SERVER].stack, server, 1, 1000, 100), 0);
    for (i = 0; i < 4; i++)
        ask();
    assert_true(server->fast_path < US_FAST_RXTX);
    assert_int_equal(answered, ROUNDS + 4);
}

/* RFC 9438 5.8: CUBIC's time stops when cwnd is no limit any more, before US_FAST_RXTX. */
static void time_of_cubic_stops_before_rxtx(void **state)
{
    unsigned i;

    answers = 0;
    ask();
    assert_int_equal(server->snd_una, server->snd_max);
    assert_int_equal(us_conn_set_cc(server, US_CC_CUBIC), US_OK);
    server->cc.of.cubic.running = 1; /* as the ACK of a full window leaves it */
    answers = 1;
    for (i = 0; i < 3; i++)
        ask();
    assert_int_equal(server->fast_path, US_FAST_RXTX);
    assert_false(server->cc.of.cubic.running);
}

/* Whatever the packet held before, the frame has one segment and asks the device for nothing. */
static void a_used_packet_is_filled_anew(void **state)
{
    static u_u8 frame[2048];
    struct us_stack *stack = pair.host[SERVER].stack;
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;

    answers = 0;
    ask();
    assert_int_equal(us_send(stack, server, text, 35), 35);
    memset(&pkt, 0xff, sizeof(pkt));
    pkt.data = frame;
    pkt.room = sizeof(frame);
    assert_int_equal(us_output(stack, &list, 1, pair.now_us), 1);
    assert_int_equal(server->fast_path, US_FAST_RXTX);
    assert_null(pkt.next_seg);
    assert_int_equal(pkt.flags, 0);
}

/* A connection that is never idle verifies its next hop as any other does (RFC 1122 2.3.2.1). */
static void the_next_hop_of_a_busy_connection_is_verified(void **state)
{
    struct us_stack *stack = pair.host[SERVER].stack;
    u_u64 requests = pair_counter(stack, "arp_tx_requests");
    unsigned i;

    stack->config.neighbour_lifetime_us = 2000;
    for (i = 0; i < ROUNDS; i++)
        ask();
    assert_int_equal(server->fast_path, US_FAST_RXTX);
    assert_true(pair_counter(stack, "arp_tx_requests") > requests);
}

/* A response alone is in flight until the next request acknowledges it. */
static void room_is_announced_once_a_response_is_acknowledged(void **state)
{
    struct us_stack *stack = pair.host[SERVER].stack;

    us_conn_set_low_water(stack, server, 0);
    sendable = 0;
    wants_room = 1;
    ask();
    assert_int_equal(sendable, 0);
    ask();
    assert_int_equal(sendable, 1);
    assert_int_equal(answered, ROUNDS + 2);
}

/*
 * Prompt ACKs take back what late ACKs have added to the allowed delay, also where the round trip
 * has settled at the shortest one that counts.
 */
static void a_longer_ack_delay_is_taken_back(void **state)
{
    unsigned i;

    pair.host[SERVER].stack->config.peer_ack_delay_us = 40000;
    pair.delay_us = US_RTT_MIN_US / 4;
    for (i = 0; i < 2 * SETTLING; i++) {
        assert_int_equal(us_send(pair.host[CLIENT].stack, client, text, 14), 14);
        pair_run(&pair, pair.now_us + US_RTT_MIN_US);
        if (i == SETTLING) {
            assert_true(server->rtt.settled);
            us_recovery_raise_ack_delay(server);
            us_recovery_raise_ack_delay(server);
        }
    }
    assert_int_equal(server->rec.ack_delay_doublings, 0);
    assert_int_equal(server->fast_path, US_FAST_RXTX);
}

static void calls_of_the_application_leave_the_fast_path(void **state)
{
    struct us_stack *stack = pair.host[SERVER].stack;
    unsigned call;

    for (call = 0; call < 8; call++) {
        answered = 0;
        ask();
        ask();
        ask();
        assert_int_equal(answered, 3);
        assert_int_equal(server->fast_path, US_FAST_RXTX);
        switch (call) {
        case 0:
            assert_int_equal(us_conn_set_cc(server, US_CC_RENO), US_OK);
            break;
        case 1:
            us_conn_set_nodelay(stack, server, 1);
            break;
        case 2:
            assert_int_equal(us_conn_set_keepalive(stack, server, 100000, 1000, 3), US_OK);
            break;
        case 3:
            us_conn_set_user_timeout(stack, server, 100000);
            break;
        case 4:
            assert_int_equal(us_send_ref(stack, server, text, 600, NULL), US_OK);
            break;
        case 5:
            us_request_sendable(stack, server);
            break;
        case 6:
            us_tcp_path_mtu(stack, server, 9000);
            break;
        default:
            assert_int_equal(us_close(stack, server), US_OK);
            break;
        }
        assert_int_equal(server->fast_path, US_FAST_NONE);
        assert_null(us_check(stack));
        run();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_and_responses_lead_to_rxtx, setup, teardown),
        cmocka_unit_test_setup_teardown(leaving_fills_in_the_lazy_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(leaving_an_idle_connection_starts_keepalives, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_keepalive_before_the_pto_prevents_rxtx, setup, teardown),
        cmocka_unit_test_setup_teardown(time_of_cubic_stops_before_rxtx, setup, teardown),
        cmocka_unit_test_setup_teardown(a_used_packet_is_filled_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_hop_of_a_busy_connection_is_verified, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(room_is_announced_once_a_response_is_acknowledged, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_longer_ack_delay_is_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_of_the_application_leave_the_fast_path, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
