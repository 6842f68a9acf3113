/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's part of handshakes on threads: connections that end, bounds, and what follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tls_handover.h"
#include "tls_rig.h"

/* A connection whose first step waits. */
static struct peer *open_waiting(struct fixture *f)
{
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    ssl_client_step(&peer->client);
    receive(peer);
    assert_true(offer(f, peer, 65536));
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_BLOCKED);
    assert_true(net_conn_awaits_step(&peer->conn));
    return peer;
}

/* The request behind the client's last message is neither lost nor executed too early. */
static void test_step_takes_no_request(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct peer *peer = open_waiting(f);

    assert_int_equal(peer->queued_len, 0);
    net_conns_tick_tls(&f->conns, 2000);
    assert_false(net_conns_are_busy(&f->conns)); /* the worker may sleep */
    start_threads(f);
    turn(f, 2000);
    assert_false(net_conn_awaits_step(&peer->conn));
    while (deliver(f, peer, 65536))
        continue;
    ssl_client_step(&peer->client);
    assert_true(SSL_is_init_finished(peer->client.ssl));
    assert_int_equal(SSL_write(peer->client.ssl, "get none\r\n", 10), 10);
    receive(peer);
    while (offer(f, peer, 65536))
        turn(f, 2000);
    assert_int_equal(peer->input_len, 0);
    assert_string_equal(ask(f, peer, ""), "END\r\n");
    assert_true(counted(f, NET_TLS_STEPS) >= 2);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES), 1);
    close_fixture(f);
}

/* The transport has yet to release the input of the last step: the connection cannot move. */
static void test_connection_moves_behind_its_handshake(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct peer *peer = open_waiting(f);
    struct cache_session_saved saved;

    start_threads(f);
    turn(f, 2000);
    while (offer(f, peer, 65536) || deliver(f, peer, 65536))
        continue;
    ssl_client_step(&peer->client);
    receive(peer);
    assert_true(offer(f, peer, 65536));
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_ENDS);
    turn(f, 2000);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES), 1);
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_BUSY);
    while (offer(f, peer, 65536))
        continue;
    assert_int_equal(peer->input_len, 0);
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_MOVES);
    close_fixture(f);
}

/* The alert is the last output of a handshake that has failed. */
static void test_failed_step_sends_its_alert(void **state)
{
    static const uint8_t bytes[] = "\x16\x03\x01\0\5hello";
    struct fixture *f = open_idle(20, true);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    memcpy(peer->input, bytes, 10);
    peer->input_len = 10;
    assert_true(offer(f, peer, 65536));
    start_threads(f);
    turn(f, 2000);
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
    assert_int_equal(peer->queued_len, 7);
    assert_int_equal(peer->queued[0], 21); /* an alert */
    close_fixture(f);
}

/* Without memory for a step its connection fails, which is counted. */
static void test_step_without_memory(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    ssl_client_step(&peer->client);
    receive(peer);
    f->to_fail = 1;
    assert_true(offer(f, peer, 65536));
    assert_int_equal(f->to_fail, 0);
    assert_true(peer->conn.failed);
    assert_int_equal(counted(f, NET_TLS_NO_MEMORY), 1);
    close_fixture(f);
}

/* Connections end while their steps wait, are made, or have results. */
static void test_ends_of_connections_with_steps(void **state)
{
    enum { PEERS = 20 };
    struct fixture *f = open_idle(20, true);
    unsigned i;

    for (i = 0; i < PEERS; i++)
        (void)open_waiting(f);
    net_conn_close_session(&f->peers[0].conn); /* nothing was made of it */
    start_threads(f);
    for (i = 1; i < PEERS / 2; i++)
        net_conn_close_session(&f->peers[i].conn);
    while (!net_tls_results_wait(&f->conns.tls->results))
        sched_yield();
    for (i = PEERS / 2; i < PEERS - 1; i++)
        net_conn_close_session(&f->peers[i].conn);
    turn(f, 2000);
    assert_true(counted(f, NET_TLS_STEPS_LATE) > 0);
    assert_true(counted(f, NET_TLS_STEPS) < PEERS);
    assert_true(f->peers[PEERS - 1].queued_len > 0);
    /* The last ones end with the fixture. */
    net_conn_close_session(&f->peers[PEERS - 1].conn);
    f->peer_count = 0;
    for (i = 0; i < PEERS; i++) {
        ssl_client_close(&f->peers[i].client);
        free(f->peers[i].queued);
        free(f->peers[i].input);
        memset(&f->peers[i], 0, sizeof(f->peers[i]));
    }
    (void)open_waiting(f);
    (void)open_waiting(f);
    close_fixture(f);
}

/* The end of the worker frees a result that it has not taken. */
static void test_end_with_a_result(void **state)
{
    struct fixture *f = open_idle(20, true);

    (void)open_waiting(f);
    start_threads(f);
    while (!net_tls_results_wait(&f->conns.tls->results))
        sched_yield();
    close_fixture(f);
}

static unsigned count_results(struct net_tls_results *results)
{
    const struct net_tls_step *step = atomic_load(&results->pushed);
    unsigned count = 0;

    for (; step; step = step->next)
        count++;
    return count;
}

/* Of many results some are taken in a turn, and the others in the next one. */
static void test_results_of_a_turn(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct net_tls *tls = f->conns.tls;
    struct net_tls_step *step;
    unsigned i;

    for (i = 0; i <= NET_TLS_RESULTS_PER_TURN; i++) { /* of connections that have ended */
        step =
            net_tls_step_new(tls_session_open(f->server, NULL, TLS_PEER_NONE, net_tls_emit, NULL),
                             (const uint8_t *)"x", 1, false);
        u_list_push_back(&tls->steps_out, &step->own_link);
        net_tls_steps_submit(f->steps, &tls->results, step);
    }
    start_threads(f);
    while (count_results(&tls->results) <= NET_TLS_RESULTS_PER_TURN)
        sched_yield();
    net_conns_tick_tls(&f->conns, 2000);
    assert_int_equal(counted(f, NET_TLS_STEPS), NET_TLS_RESULTS_PER_TURN);
    net_conns_tick_tls(&f->conns, 2000);
    assert_int_equal(counted(f, NET_TLS_STEPS), NET_TLS_RESULTS_PER_TURN + 1);
    assert_int_equal(counted(f, NET_TLS_STEPS_LATE), NET_TLS_RESULTS_PER_TURN + 1);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES_NEWEST),
                     NET_TLS_RESULTS_PER_TURN + 1 - NET_TLS_WAITING_IN_ORDER);
    close_fixture(f);
}

static void test_handshake_timeout_with_a_step(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct peer *peer = open_waiting(f);

    net_conns_tick_tls(&f->conns, 2000);
    net_conns_tick_tls(&f->conns, NET_TLS_HANDSHAKE_US + 2000);
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_TIMEOUTS), 1);
    /* The result comes all the same, and does not matter. */
    start_threads(f);
    turn(f, NET_TLS_HANDSHAKE_US + 3000);
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
    assert_int_equal(peer->queued_len, 0);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES), 0);
    close_fixture(f);
}

/* With too many steps that wait, the oldest one's connection is closed. */
static void test_refused_step(void **state)
{
    struct fixture *f = open_idle(20, true);
    struct peer *oldest = open_waiting(f);
    struct net_tls_results others;
    struct tls_session *session;
    struct net_tls_step **steps = calloc(NET_TLS_STEPS_MAX, sizeof(steps[0]));
    unsigned i;

    net_tls_results_init(&others, wake, NULL);
    session = tls_session_open(f->server, NULL, TLS_PEER_NONE, net_tls_emit, NULL);
    for (i = 0; i < NET_TLS_STEPS_MAX; i++) {
        assert_int_equal(counted(f, NET_TLS_STEPS_REFUSED), 0);
        steps[i] = net_tls_step_new(session, (const uint8_t *)"x", 1, false);
        net_tls_steps_submit(f->steps, &others, steps[i]);
    }
    assert_true(net_conns_are_busy(&f->conns));
    net_conns_tick_tls(&f->conns, 2000);
    assert_int_equal(counted(f, NET_TLS_STEPS_REFUSED), 1);
    assert_int_equal(net_conn_state(&oldest->conn), CACHE_SESSION_CLOSING);
    assert_int_equal(counted(f, NET_TLS_STEPS), 0);
    for (i = 0; i < NET_TLS_STEPS_MAX; i++) {
        assert_true(net_tls_steps_cancel(f->steps, steps[i]));
        net_tls_step_free(steps[i]);
    }
    tls_session_close(session);
    free(steps);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_takes_no_request),
        cmocka_unit_test(test_connection_moves_behind_its_handshake),
        cmocka_unit_test(test_failed_step_sends_its_alert),
        cmocka_unit_test(test_step_without_memory),
        cmocka_unit_test(test_ends_of_connections_with_steps),
        cmocka_unit_test(test_end_with_a_result),
        cmocka_unit_test(test_results_of_a_turn),
        cmocka_unit_test(test_handshake_timeout_with_a_step),
        cmocka_unit_test(test_refused_step),
    };

    return cmocka_run_group_tests(tests, make_cert, free_cert);
}
