/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of a stack worker whose sessions are stopped, and ends of connections. With the
 * argument "split" the worker has two sides (net/split.h).
 */
#include "stack_rig.h"

/* Lets a client ask for more than it reads, until its session stops. */
static struct client *client_blocked(struct fixture *f, const char *requests)
{
    uint64_t blocked = counter(f, NET_STACK_BLOCKED);
    struct client *c = client_open(f);

    c->reading = false;
    client_send(c, requests, strlen(requests));
    steps(f, 2000);
    assert_true(counter(f, NET_STACK_BLOCKED) > blocked);
    return c;
}

static void client_continue(struct fixture *f, struct client *c)
{
    c->reading = true;
    us_recv_resume(f->stack, c->conn);
}

/* Many that do not read end at once: the worker has nothing to look after any more. */
static void test_blocked_clients_vanish(void **state)
{
    enum { CLIENTS = 60 };
    struct fixture *f = *state;
    char *requests = repeat("get v\r\n", 2000);
    struct client *clients[CLIENTS];
    struct client *busy = client_open(f);
    unsigned i;

    store(f, busy, "v", 'v', 2000);
    for (i = 0; i < CLIENTS; i++)
        clients[i] = client_blocked(f, requests);
    client_send(busy, "mn\r\n", 4); /* which has the worker look at some of them */
    step(f);
    for (i = 0; i < CLIENTS; i++)
        us_abort(f->stack, clients[i]->conn);
    steps(f, 20);
    assert_int_equal(f->sessions->blocked_count, 0);
    assert_true(f->sessions->app->sleep_us_max(f->sessions) > 0);
    clients[0] = client_blocked(f, requests); /* in the place of an earlier one */
    client_continue(f, clients[0]);
    wait_for(f, clients[0], 2000 * (strlen("VALUE v 0 2000\r\n") + 2000 + 2 + 5));
    free(requests);
}

/* How long a client may leave its side open after the end of its connection: ten seconds. */
static void test_client_that_does_not_close(void **state)
{
    struct fixture *f = *state;
    struct client *c;
    unsigned i;

    f->now_us = net_clock_us(); /* the clock that the server's timers have begun with */
    c = client_open(f);
    client_send(c, "quit\r\n", 6);
    steps(f, 100);
    assert_true(c->eof);
    for (i = 0; i < 12; i++) {
        assert_int_equal(us_counter_named(f, "conns_open"), i < 10);
        f->now_us += 1000000;
        steps(f, 2);
    }
    assert_int_equal(us_counter_named(f, "conns_open"), 0);
}

/* How long a client may leave its window closed while replies wait for it: ten minutes. */
static void test_client_that_does_not_read(void **state)
{
    struct fixture *f = *state;
    char *requests = repeat("get v\r\n", 2000);
    struct client *c;
    unsigned i;

    f->now_us = net_clock_us(); /* the clock that the server's timers have begun with */
    store(f, client_open(f), "v", 'v', 2000);
    c = client_blocked(f, requests);
    for (i = 0; i < 11 * 60; i++) {
        if (i < 9 * 60)
            assert_non_null(c->conn);
        f->now_us += 1000000;
        steps(f, 3);
    }
    assert_null(c->conn);
    assert_int_equal(c->reason, US_CLOSE_RESET);
    free(requests);
}

/* Sends quit, and then leaves its side open. */
static struct client *client_quits(struct fixture *f)
{
    struct client *c = client_open(f);

    client_send(c, "quit\r\n", 6);
    steps(f, 20);
    assert_true(c->eof);
    return c;
}

/* Of many such clients those that came first are reset, before the ten seconds have passed. */
static void test_many_clients_do_not_close(void **state)
{
    struct fixture *f = *state;
    struct client *first;
    unsigned i;

    f->now_us = net_clock_us(); /* the clock that the server's timers have begun with */
    first = client_quits(f);
    for (i = 0; i < 30; i++)
        client_quits(f);
    f->now_us += 3000000;
    steps(f, 20);
    assert_non_null(first->conn);
    client_quits(f);
    assert_null(first->conn);
    assert_int_equal(first->reason, US_CLOSE_RESET);
    assert_int_equal(us_counter_named(f, "orphans_dropped"), 1);
}

/* The worker looks at each stopped session once, and then sleeps: with two sides not for long. */
static void test_many_sessions_are_stopped(void **state)
{
    enum { CLIENTS = 60 };
    struct fixture *f = *state;
    char *requests = repeat("get v\r\n", 2000);
    struct client *busy = client_open(f);
    unsigned i;

    store(f, busy, "v", 'v', 2000);
    for (i = 0; i < CLIENTS; i++)
        (void)client_blocked(f, requests);
    assert_int_equal(f->sessions->blocked_count, CLIENTS);
    f->now_us += 2000; /* for what is due after a time */
    for (i = 0; i < 3; i++)
        net_stack_turn(f->sessions, f->now_us);
    if (f->server == f->sessions)
        assert_true(f->sessions->app->sleep_us_max(f->sessions) > 2000);
    else
        assert_in_range(f->sessions->app->sleep_us_max(f->sessions), 1, 1000);
    free(requests);
}

/*
 * A session that stops for want of memory is resumed when there is some, although no event says so:
 * with two sides the other one frees it. With one side a frame does.
 */
static void test_memory_comes_back(void **state)
{
    struct fixture *f = *state;
    struct net_stack_worker *sessions = f->sessions;
    struct client *c = client_open(f);

    if (f->server == sessions)
        return;
    steps(f, 100);
    client_send(c, "mn\r\n", 4);
    f->now_us += STEP_US;
    clients_turn(f);
    net_stack_turn(f->server, f->now_us);
    atomic_store(&f->server->split->buffer_used, sessions->buffer_bytes);
    net_stack_turn(sessions, f->now_us);
    assert_int_equal(counter(f, NET_STACK_BLOCKED), 1);
    atomic_store(&f->server->split->buffer_used, 0);
    f->now_us += sessions->app->sleep_us_max(sessions);
    net_stack_turn(sessions, f->now_us);
    assert_int_equal(counter(f, NET_STACK_RESUMED), 1);
    wait_for(f, c, 4);
}

/*
 * When the worker ends, a client whose session is stopped gets the replies that are queued. What it
 * has not sent yet is taken and thrown away, so that its connection ends in order.
 */
static void test_end_of_a_stopped_session(void **state)
{
    struct fixture *f = *state;
    char *requests = repeat("get v\r\n", 50000);
    struct client *c;

    store(f, client_open(f), "v", 'v', 2000);
    c = client_blocked(f, requests);
    assert_true(us_send_queued(c->conn) > 0);
    f->sessions->app->finish_all(f->sessions);
    assert_int_equal(f->sessions->blocked_count, 0);
    c->close_when_sent = true;
    client_continue(f, c);
    steps(f, 5000);
    assert_true(c->eof);
    assert_null(c->conn);
    assert_int_equal(c->reason, US_CLOSE_NORMAL);
    free(requests);
}

static uint8_t *no_room(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                        uint32_t *room)
{
    return NULL;
}

/* A client whose reply finds no room is reset, and counted, and others are not. */
static void test_reply_without_room(void **state)
{
    struct fixture *f = *state;
    const struct net_transport *transport = f->sessions->conns.transport;
    struct net_transport full = *transport;
    struct client *c = client_open(f);
    struct client *other = client_open(f);

    full.reserve = no_room;
    f->sessions->conns.transport = &full;
    client_send(c, "mn\r\n", 4);
    steps(f, 20);
    f->sessions->conns.transport = transport;
    assert_null(c->conn);
    assert_int_equal(c->reason, US_CLOSE_RESET);
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 1);
    ask(f, other, "mn\r\n", "MN\r\n");
}

/* Lines for a watcher come without input: its session was not stopped, and is not resumed. */
static void test_watcher_is_not_stopped(void **state)
{
    struct fixture *f = *state;
    struct client *watcher = client_open(f);

    ask(f, watcher, "watch fetchers\r\n", "OK\r\n");
    watcher->got_len = 0;
    ask(f, client_open(f), "get a\r\n", "END\r\n");
    steps(f, 2000);
    assert_true(watcher->got_len > 0);
    assert_int_equal(counter(f, NET_STACK_BLOCKED), 0);
    assert_int_equal(counter(f, NET_STACK_RESUMED), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocked_clients_vanish, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_sessions_are_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_of_a_stopped_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reply_without_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watcher_is_not_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_does_not_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_clients_do_not_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_does_not_read, setup, teardown),
    };

    if (argc > 1 && strcmp(argv[1], "split") == 0)
        rig_threading = NET_THREADING_SPLIT;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
