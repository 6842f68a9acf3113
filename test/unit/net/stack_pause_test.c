/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stack workers that come to rest: what they wait for, what then moves, and how they continue. The
 * worker runs in this thread; a second one hands over while the worker is at rest.
 */
#define _GNU_SOURCE /* syscall() in stack_device.h */
#include "net/handover.h"
#include "stack_device.h"

#define WAITS_MAX 2000

struct rest {
    struct net_worker *worker;
    struct net_handover handover;
    atomic_bool given_up;
};

static struct rest rest;

/* What happens in the waits of a pause: the clients stand still before this one. */
static unsigned clients_from;
static void (*script)(struct fixture *f);
static unsigned in_transit_until;

static void rest_wait(struct fixture *f, uint64_t timeout_us)
{
    f->now_us += timeout_us;
    if (script)
        script(f);
    if (device.waits >= clients_from)
        clients_turn(f);
    if (device.waits < WAITS_MAX)
        return;
    atomic_store(&rest.given_up, true);
    net_worker_resume(rest.worker);
}

static bool rest_in_transit(struct fixture *f)
{
    return device.waits < in_transit_until;
}

static int setup_rest(void **state)
{
    setup_device(state);
    device.wait = rest_wait;
    device.has_in_transit = rest_in_transit;
    clients_from = in_transit_until = 0;
    script = NULL;
    return 0;
}

/* ---- pauses ------------------------------------------------------------------------------ */

static void *hand_over_main(void *ctx)
{
    struct rest *r = ctx;

    while (!net_worker_wait_paused(r->worker, 100)) {
        if (atomic_load(&r->given_up))
            return NULL;
    }
    net_stack_hand_over(r->worker, true, &r->handover);
    net_worker_resume(r->worker);
    return NULL;
}

/* The worker comes to rest, hands over, which changes nothing, and continues. */
static void pause_worker(struct fixture *f)
{
    pthread_t thread;

    net_handover_free(&rest.handover, false);
    memset(&rest.handover, 0, sizeof(rest.handover));
    atomic_store(&rest.given_up, false);
    rest.worker = &f->server->worker;
    device.waits = 0;
    assert_int_equal(net_worker_pause(rest.worker), 0);
    assert_int_equal(pthread_create(&thread, NULL, hand_over_main, &rest), 0);
    assert_int_equal(net_stack_pause(f->server), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&rest.given_up));
    assert_true(net_handover_is_valid(&rest.handover));
}

static unsigned connections_moved(void)
{
    const struct net_handover_record *record;
    unsigned count = 0;
    size_t at = 0;

    while ((record = net_handover_next(&rest.handover, &at)) != NULL)
        count += record->kind == NET_HANDOVER_STACK;
    return count;
}

static int teardown_rest(void **state)
{
    net_handover_free(&rest.handover, false);
    memset(&rest.handover, 0, sizeof(rest.handover));
    return teardown_device(state);
}

/* ---- what is waited for ------------------------------------------------------------------ */

/* A handshake ends first, and its connection moves. */
static void test_handshake_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client *c;

    client_open(f);
    c = client_begin(f);
    step(f);
    assert_false(c->connected);
    clients_from = 5;
    pause_worker(f);
    assert_int_equal(connections_moved(), 2);
    ask(f, c, "get a\r\n", "END\r\n");
}

static void device_takes_later(struct fixture *f)
{
    if (device.waits == 5)
        device.takes_max = NIC_BURST_MAX;
}

/* Frames that the device has not taken are sent first. */
static void test_unsent_frames_are_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    store(f, c, "v", 'v', 5000);
    c->got_len = 0;
    device.takes_max = 0;
    client_send(c, "get v\r\n", 7);
    step(f);
    assert_true(f->server->unsent_count > 0);
    script = device_takes_later;
    clients_from = WAITS_MAX;
    pause_worker(f);
    clients_turn(f);
    assert_int_equal(c->got_len, strlen("VALUE v 0 5000\r\n") + 5000 + 2 + 5);
}

/* Frames on their way to other workers arrive first. */
static void test_frames_in_transit_are_waited_for(void **state)
{
    struct fixture *f = *state;

    client_open(f);
    in_transit_until = 7;
    pause_worker(f);
    assert_int_equal(device.waits, 7);
    assert_int_equal(connections_moved(), 1);
}

static void client_agrees(struct fixture *f)
{
    if (device.waits == 20)
        assert_int_equal(us_close(f->stack, f->clients[1].conn), 0);
}

/* A client may agree to the end of its connection, for a short time. */
static void test_closing_connections_are_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client *stays, *leaves;
    uint64_t begin_us;

    stays = client_open(f);
    leaves = client_open(f);
    client_send(leaves, "quit\r\n", 6);
    steps(f, 10);
    script = client_agrees;
    pause_worker(f);
    assert_in_range(device.waits, 20, 25);
    clients_turn(f);
    assert_null(leaves->conn);
    assert_int_equal(connections_moved(), 1);

    script = NULL;
    client_send(stays, "quit\r\n", 6);
    steps(f, 10);
    begin_us = f->now_us;
    pause_worker(f);
    assert_in_range(f->now_us - begin_us, 50000, 55000);
}

/* A client in the middle of a request has a second to end it, and one that takes no reply, too. */
static void test_late_connections_are_reset(void **state)
{
    struct fixture *f = *state;
    struct client *first = client_open(f);
    struct client *slow = client_open(f);
    struct client *lazy = client_open(f);
    uint64_t begin_us;

    store(f, first, "v", 'v', 20000);
    client_send(slow, "set s 0 0 2\r\n1", 14);
    steps(f, 100);
    client_send(lazy, "get v\r\nquit\r\n", 13);
    step(f);
    clients_from = WAITS_MAX;
    begin_us = f->now_us;
    pause_worker(f);
    assert_in_range(f->now_us - begin_us, 1000000, 1010000);
    steps(f, 10);
    assert_null(slow->conn);
    assert_int_equal(slow->reason, US_CLOSE_RESET);
    assert_null(lazy->conn);
    assert_int_equal(lazy->reason, US_CLOSE_RESET);
    assert_int_equal(counter(f, NET_STACK_REST_CLOSED), 2);
    assert_int_equal(connections_moved(), 1);
    assert_int_equal(rest.handover.left_out, 2);
    ask(f, first, "mn\r\n", "MN\r\n");
}

/* ---- requests that come meanwhile -------------------------------------------------------- */

static void client_asks(struct fixture *f)
{
    if (device.waits == 2)
        client_send(&f->clients[0], "get a\r\n", 7);
}

/* Requests that come while the worker comes to rest are left for the next process. */
static void test_requests_move(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const struct net_handover_record *record;

    ask(f, c, "set a 0 0 1\r\n1\r\n", "STORED\r\n");
    c->got_len = 0;
    script = client_asks;
    in_transit_until = 10;
    pause_worker(f);
    record = net_handover_find(&rest.handover, NET_HANDOVER_STACK);
    assert_non_null(record);
    assert_int_equal(record->state.unread_bytes, 7);
    assert_int_equal(c->got_len, 0);
    wait_for(f, c, 21);
    assert_string_equal(c->got, "VALUE a 0 1\r\n1\r\nEND\r\n");
}

static void client_asks_and_closes(struct fixture *f)
{
    client_asks(f);
    f->clients[0].close_when_sent |= device.waits == 2;
}

/* So do those of a client that closes its side with its request. */
static void test_client_that_closes_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const struct net_handover_record *record;

    script = client_asks_and_closes;
    in_transit_until = 20;
    pause_worker(f);
    record = net_handover_find(&rest.handover, NET_HANDOVER_STACK);
    assert_non_null(record);
    assert_int_equal(record->state.unread_bytes, 7);
    assert_true(record->state.flags & US_CONN_STATE_PEER_CLOSED);
    wait_for(f, c, 5);
    assert_string_equal(c->got, "END\r\n");
    assert_true(c->eof);
}

/* ---- several pauses ---------------------------------------------------------------------- */

/* The pause is given up when the worker has just come to rest. */
static bool give_up(struct fixture *f)
{
    if (net_worker_is_pausing(&f->server->worker))
        net_worker_resume(&f->server->worker);
    return false;
}

static void test_pause_is_given_up_at_the_end(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    unsigned i;

    device.has_in_transit = give_up;
    for (i = 0; i < 2; i++) {
        assert_int_equal(net_worker_pause(&f->server->worker), 0);
        assert_int_equal(net_stack_pause(f->server), 0);
        ask(f, c, "get a\r\n", "END\r\n");
    }
    device.has_in_transit = NULL;
    pause_worker(f);
    assert_int_equal(connections_moved(), 1);
    ask(f, c, "get a\r\n", "END\r\n");
}

/* A connection that cannot move is closed and counted, once. */
static void test_connection_that_cannot_move(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    client_open(f);
    ask(f, c, "watch evictions\r\n", "OK\r\n");
    pause_worker(f);
    assert_true(c->eof);
    assert_int_equal(connections_moved(), 1);
    assert_int_equal(rest.handover.left_out, 1);
    assert_int_equal(us_close(f->stack, c->conn), 0);
    steps(f, 10);
    pause_worker(f);
    assert_int_equal(connections_moved(), 1);
    assert_int_equal(rest.handover.left_out, 0);
}

/* ---- taking over ------------------------------------------------------------------------- */

/* Ends the worker, without its connections, and opens one that takes these over. */
static void replace_worker(struct fixture *f, const struct shape *shape)
{
    struct nic_loopback_config loop = {0};
    struct net_stack_worker *old = f->server;
    char error[NIC_ERROR_MAX];
    struct nic *ends[2]; /* on which the old worker resets them */

    assert_int_equal(nic_loopback_open(&loop, ends, error), 0);
    net_stack_release_packets(old);
    old->nic = ends[1];
    net_stack_end(old, f->now_us);
    net_worker_close(&old->worker);
    nic_close(ends[0]);
    cache_end(f->cache);
    f->handover = &rest.handover;
    open_server(f, shape);
}

/* A request that has come, and was not used, is answered by the next worker. */
static void test_request_is_taken_over(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    script = client_asks;
    in_transit_until = 10;
    pause_worker(f);
    replace_worker(f, &plain);
    wait_for(f, c, 5);
    assert_string_equal(c->got, "END\r\n");
    ask(f, c, "mn\r\n", "MN\r\n");
}

/* A connection waits for a session, unless the new one would lack the begin of its request. */
static void test_taken_over_without_session(void **state)
{
    static const struct shape one = {.connections_max = 1, .accept_waits = true};
    struct fixture *f = *state;
    struct client *first = client_open(f);
    struct client *second = client_open(f);
    struct client *third = client_open(f);

    client_send(first, "ge", 2);
    client_send(second, "ge", 2);
    steps(f, 10);
    pause_worker(f);
    assert_int_equal(connections_moved(), 3);
    replace_worker(f, &one);
    assert_int_equal(counter(f, NET_STACK_TAKEN_OVER), 3);
    ask(f, first, "t a\r\n", "END\r\n");
    assert_null(second->conn);
    assert_int_equal(second->reason, US_CLOSE_RESET);
    client_send(third, "get a\r\n", 7);
    steps(f, 100);
    assert_int_equal(third->got_len, 0);
    assert_int_equal(us_close(f->stack, first->conn), 0);
    wait_for(f, third, 5);
}

/* Nothing is left of the secrets of a connection, also if it cannot be continued. */
static void test_secrets_are_zeroed(void **state)
{
    struct net_handover_record record = {
        .kind = NET_HANDOVER_STACK, .tls = CACHE_TLS_ON, .tls_bytes = 8};
    struct fixture *f = *state;

    net_handover_begin(&rest.handover, &record);
    net_handover_add(&rest.handover, "key of 8", 8);
    net_handover_end(&rest.handover, &record);
    assert_true(net_handover_is_valid(&rest.handover));
    f->server->handover = &rest.handover;
    net_stack_take_over(f->server);
    assert_memory_equal(rest.handover.bytes + rest.handover.len - 8, "\0\0\0\0\0\0\0", 8);
    assert_null(f->server->conns.taken);
    assert_int_equal(counter(f, NET_STACK_TAKEN_OVER), 0);
}

#define ETH_BYTES 14
#define IP6_NEXT (ETH_BYTES + 6)
#define IP6_SOURCE (ETH_BYTES + 8)
#define IP6_PAYLOAD (ETH_BYTES + 40)
#define ICMP6 58
#define NEIGHBOUR_SOLICITATION 135

static bool is_probe(const struct us_pkt *pkt)
{
    static const uint8_t unspecified[16];

    return pkt->len > IP6_PAYLOAD && pkt->data[ETH_BYTES - 2] == 0x86 &&
           pkt->data[IP6_NEXT] == ICMP6 && pkt->data[IP6_PAYLOAD] == NEIGHBOUR_SOLICITATION &&
           memcmp(pkt->data + IP6_SOURCE, unspecified, sizeof(unspecified)) == 0;
}

/* How many times a new worker looks for others that have its IPv6 address (RFC 4862 5.4.2). */
static unsigned count_probes(struct net_handover *handover)
{
    struct fixture *f = fixture_link(&plain);
    struct net_stack_config config = make_cache(f, &plain);
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned probes = 0, i, k, n;

    config.addrs[1].addr = (struct us_addr){.family = US_IP6, .bytes = {0xfd, [15] = 1}};
    config.addrs[1].prefix_len = 64;
    config.addr_count = 2;
    config.handover = handover;
    open_worker(f, &config);
    for (i = 0; i < 100; i++) {
        f->now_us += 100000;
        server_turn(f);
        n = nic_rx_burst(f->ends[0], pkts, NIC_BURST_MAX);
        for (k = 0; k < n; k++)
            probes += is_probe(pkts[k]);
        nic_release(f->ends[0], pkts, n);
    }
    teardown((void **)&f);
    return probes;
}

/* A worker that takes over addresses uses them without duplicate address detection. */
static void test_addresses_are_not_probed(void **state)
{
    struct net_handover handover = {0};

    assert_true(count_probes(NULL) > 0);
    assert_int_equal(count_probes(&handover), 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_handshake_is_waited_for, setup_rest, teardown_rest),
        cmocka_unit_test_setup_teardown(test_unsent_frames_are_waited_for, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_frames_in_transit_are_waited_for, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_closing_connections_are_waited_for, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_late_connections_are_reset, setup_rest, teardown_rest),
        cmocka_unit_test_setup_teardown(test_requests_move, setup_rest, teardown_rest),
        cmocka_unit_test_setup_teardown(test_client_that_closes_meanwhile, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_pause_is_given_up_at_the_end, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_connection_that_cannot_move, setup_rest,
                                        teardown_rest),
        cmocka_unit_test_setup_teardown(test_request_is_taken_over, setup_rest, teardown_rest),
        cmocka_unit_test_setup_teardown(test_taken_over_without_session, setup_rest, teardown_rest),
        cmocka_unit_test_setup_teardown(test_secrets_are_zeroed, setup_rest, teardown_rest),
        cmocka_unit_test(test_addresses_are_not_probed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
