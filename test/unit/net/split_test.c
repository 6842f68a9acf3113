/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A two-thread worker whose sessions run on their own thread, while the clients and the stack's
 * side take turns in this one; and an application side that has lagged behind. Both sides in turns
 * are tested by stack_worker_test.c.
 */
#include "../balance.h"
#include "stack_rig.h"

static int setup_threaded(void **state)
{
    rig_threaded = true;
    rig_threading = NET_THREADING_MERGE;
    return setup(state);
}

/* Not merged: the stack's side would yield in each turn to a thread that is not there. */
static int setup_in_turns(void **state)
{
    rig_threaded = false;
    rig_threading = NET_THREADING_SPLIT;
    return setup(state);
}

static void requests_are_answered(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    char request[64], reply[64];
    unsigned i;

    for (i = 0; i < 300; i++) {
        snprintf(request, sizeof(request), "set k%u 0 0 4\r\n%04u\r\nget k%u\r\n", i, i, i);
        snprintf(reply, sizeof(reply), "STORED\r\nVALUE k%u 0 4\r\n%04u\r\nEND\r\n", i, i);
        ask(f, c, request, reply);
    }
}

/* Values by reference: each cookie goes to the stack's thread and comes back. */
static void large_values_go_both_ways(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const size_t reply_len = strlen("VALUE v 0 300000\r\n") + 300000 + 2 + 5;
    unsigned i;

    store(f, c, "v", 'v', 300000);
    for (i = 0; i < 20; i++) {
        c->got_len = 0;
        client_send(c, "get v\r\n", 7);
        wait_for(f, c, reply_len);
        assert_memory_equal(c->got + reply_len - 7, "\r\nEND\r\n", 7);
    }
    assert_true(net_counter_read(&f->server->split->counters[NET_SPLIT_COMMANDS]) > 40);
}

/* Credit is exhausted while the session is blocked; kept input is neither lost nor reordered. */
static void a_client_that_reads_late_gets_all_replies(void **state)
{
    struct fixture *f = *state;
    struct client *lazy = client_open(f);
    const unsigned count = 20000;
    char *requests = repeat("get v\r\nmn\r\n", count);
    const size_t each = strlen("VALUE v 0 200\r\n") + 200 + 2 + 5 + 4;
    unsigned i;

    store(f, lazy, "v", 'v', 200);
    lazy->got_len = 0;
    lazy->reading = false;
    client_send(lazy, requests, strlen(requests));
    for (i = 0; may_step(i) && counter(f, NET_STACK_BLOCKED) == 0; i++)
        step(f);
    steps(f, 1000);
    assert_true(counter(f, NET_STACK_BLOCKED) >= 1);
    lazy->reading = true;
    us_recv_resume(f->stack, lazy->conn);
    wait_for(f, lazy, count * each);
    for (i = 0; i < count; i++)
        assert_memory_equal(lazy->got + (i + 1) * each - 11, "\r\nEND\r\nMN\r\n", 11);
    assert_true(net_counter_read(&f->server->split->counters[NET_SPLIT_CREDIT_EXHAUSTED]) >= 1);
    free(requests);
}

static void connections_come_and_go(void **state)
{
    struct fixture *f = *state;
    unsigned i, k;

    for (i = 0; i < CLIENTS_MAX; i++) {
        struct client *c = client_open(f);

        ask(f, c, "mn\r\n", "MN\r\n");
        if (i % 3 == 0) {
            us_abort(f->stack, c->conn);
        } else {
            client_send(c, "quit\r\n", 6);
            c->close_when_sent = true;
        }
        for (k = 0; may_step(k) && c->conn; k++)
            step(f);
        assert_null(c->conn);
    }
    assert_int_equal(counter(f, NET_STACK_ACCEPTED), CLIENTS_MAX);
}

/* The end resets all connections, and every reference is released before the sessions end. */
static void the_worker_ends_in_the_middle_of_replies(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    char *requests = repeat("get v\r\n", 500);
    unsigned i;

    store(f, c, "v", 'v', 50000);
    for (i = 0; i < 20; i++) {
        struct client *lazy = client_open(f);

        lazy->reading = false;
        client_send(lazy, requests, strlen(requests));
    }
    steps(f, 300);
    free(requests); /* the clients send no more */
}

/* Turns of the clients and the stack's side alone: the sessions lag. */
static void steps_without_sessions(struct fixture *f, unsigned n)
{
    while (n-- > 0) {
        f->now_us += STEP_US;
        clients_turn(f);
        net_stack_turn(f->server, f->now_us);
    }
}

/*
 * DRAINED for a part of the last reply and the next request come in one batch. The session stops,
 * since bytes are still queued, and has to request the next DRAINED.
 */
static void a_session_that_stops_behind_drained_is_resumed(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const size_t reply_len = strlen("VALUE v 0 900000\r\n") + 900000 + 2 + 5;

    store(f, c, "v", 'v', 900000);
    c->got_len = 0;
    client_send(c, "get v\r\n", 7);
    steps_without_sessions(f, 10);
    net_stack_turn(f->sessions, f->now_us);
    steps_without_sessions(f, 20000);
    assert_int_equal(c->got_len, reply_len);

    client_send(c, "get v\r\n", 7);
    steps_without_sessions(f, 10);
    net_stack_turn(f->sessions, f->now_us);
    assert_int_equal(counter(f, NET_STACK_BLOCKED), 1);
    wait_for(f, c, 2 * reply_len);
}

/* More input than there is room for on the way to the sessions: it waits in the stack. */
static void events_wait_for_room(void **state)
{
    enum { CLIENTS = 30, VALUE = 60000 };
    struct fixture *f = *state;
    char *request = malloc(VALUE + 100);
    struct client *clients[CLIENTS];
    int head = snprintf(request, 100, "set v 0 0 %d\r\n", VALUE);
    unsigned i;

    memset(request + head, 'v', VALUE);
    memcpy(request + head + VALUE, "\r\n", 2);
    for (i = 0; i < CLIENTS; i++)
        clients[i] = client_open(f);
    for (i = 0; i < CLIENTS; i++)
        client_send(clients[i], request, (size_t)head + VALUE + 2);
    steps_without_sessions(f, 1000);
    assert_true(net_counter_read(&f->server->split->counters[NET_SPLIT_EVENTS_FULL]) > 0);
    assert_int_equal(f->server->app->sleep_us_max(f->server), 0);
    for (i = 0; i < CLIENTS; i++) {
        wait_for(f, clients[i], strlen("STORED\r\n"));
        assert_string_equal(clients[i]->got, "STORED\r\n");
    }
    free(request);
}

/* The sessions have used input of a connection that ends before the stack's thread knows it. */
static void a_client_resets_with_its_input_under_way(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    struct client *other = client_open(f);
    char *requests = repeat("mn\r\n", 100000);

    client_send(c, requests, strlen(requests));
    steps_without_sessions(f, 2000);
    assert_true(net_counter_read(&f->server->split->counters[NET_SPLIT_CREDIT_EXHAUSTED]) >= 1);
    net_stack_turn(f->sessions, f->now_us);
    us_abort(f->stack, c->conn);
    steps_without_sessions(f, 1);
    steps(f, 100);
    ask(f, other, "get a\r\n", "END\r\n");
    free(requests);
}

/* Input kept for a stopped session is freed when its connection ends. */
static void kept_input_ends_with_its_connection(void **state)
{
    struct fixture *f = *state;
    struct client *lazy = client_open(f);
    char *requests = repeat("get v\r\n", 5000);

    store(f, lazy, "v", 'v', 2000);
    lazy->reading = false;
    client_send(lazy, requests, strlen(requests));
    steps(f, 2000);
    assert_true(counter(f, NET_STACK_BLOCKED) >= 1);
    assert_true(f->server->split->kept_bytes > 0);
    us_abort(f->stack, lazy->conn);
    steps(f, 100);
    assert_int_equal(f->server->split->kept_bytes, 0);
    free(requests);
}

/* The stack's thread learns of the reset before it gets the reply: the value is given back. */
static void a_client_resets_with_a_reply_under_way(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    store(f, c, "v", 'v', 50000);
    client_send(c, "get v\r\n", 7);
    steps_without_sessions(f, 10);
    us_abort(f->stack, c->conn);
    clients_turn(f);
    net_stack_turn(f->sessions, f->now_us);
    assert_true(f->server->split->refs > 0);
    steps(f, 100);
    assert_int_equal(f->server->split->refs, 0);
}

/* Connections that cannot be begun use nothing up. */
static void addresses_without_a_route(void **state)
{
    struct fixture *f = *state;
    struct net_split *split = f->server->split;
    const struct us_addr nowhere = {.family = US_IP4};
    unsigned i;

    for (i = 0; i <= split->link_count; i++)
        assert_int_equal(net_split_connect(split, &nowhere, 11211), US_ERR_ARGUMENT);
}

static uint64_t split_counter(const struct fixture *f, enum net_split_counter index)
{
    return net_counter_read(&f->server->split->counters[index]);
}

/* A connection that gets no link is reset; a connection that ends frees its link. */
static void connections_beyond_the_links(void **state)
{
    struct fixture *f = *state;
    struct client *first, *refused;

    f->server->split->link_count = 2;
    first = client_open(f);
    (void)client_open(f);
    refused = client_begin(f);
    steps(f, 100);
    assert_null(refused->conn);
    assert_int_equal(refused->reason, US_CLOSE_RESET);
    assert_int_equal(split_counter(f, NET_SPLIT_LINKS_NONE), 1);
    us_abort(f->stack, first->conn);
    steps(f, 100);
    ask(f, client_open(f), "mn\r\n", "MN\r\n");
}

/* After the end of the sessions the stack resets new connections, and counts no missing link. */
static void a_connection_after_the_end(void **state)
{
    struct fixture *f = *state;
    struct client *late;

    ask(f, client_open(f), "mn\r\n", "MN\r\n");
    net_stack_abort(f->sessions);
    steps(f, 10);
    assert_true(net_stack_has_ended(f->sessions));
    late = client_begin(f);
    steps(f, 100);
    assert_null(late->conn);
    assert_int_equal(late->reason, US_CLOSE_RESET);
    assert_int_equal(split_counter(f, NET_SPLIT_LINKS_NONE), 0);
}

/* The only connection of a fixture. */
static struct net_stack_conn *session_conn(const struct fixture *f)
{
    return U_CONTAINER_OF(f->sessions->conns.open.next, struct net_stack_conn, conn.link);
}

/*
 * A reply that does not fit into the send queue resets the connection, which is counted once; no
 * data behind the gap is sent.
 */
static void replies_that_cannot_be_queued(void **state)
{
    enum { RECORDS = 20, BYTES = 60000 };
    struct fixture *f = *state;
    struct net_conns *conns = &f->sessions->conns;
    struct client *c = client_open(f);
    struct net_stack_conn *conn = session_conn(f);
    char *bytes = repeat("v", BYTES);
    unsigned i;

    assert_true(RECORDS * BYTES > 2 * NET_STACK_SEND_QUEUE_BYTES);
    c->reading = false;
    for (i = 0; i < RECORDS; i++)
        assert_int_equal(net_split_send(f->server->split, f->server->split->links, bytes, BYTES),
                         BYTES);
    assert_int_equal(conns->transport->send_ref(conns, &conn->conn, bytes, 10, NULL), 1);
    steps(f, 100);
    assert_null(c->conn);
    assert_int_equal(c->reason, US_CLOSE_RESET);
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 1);
    assert_true(u_list_is_empty(&conns->open));
    free(bytes);
}

/* References beyond NET_STACK_REFS_MAX are copied, and released. */
static void references_beyond_those_of_the_stack(void **state)
{
    static const char value[] = "0123456789";
    enum { REFS = NET_STACK_REFS_MAX + 10, BYTES = sizeof(value) - 1 };
    struct fixture *f = *state;
    struct net_conns *conns = &f->sessions->conns;
    struct client *c = client_open(f);
    struct net_stack_conn *conn = session_conn(f);
    char *due = repeat(value, REFS);
    unsigned i;

    for (i = 0; i < REFS; i++)
        assert_int_equal(conns->transport->send_ref(conns, &conn->conn, value, BYTES, NULL), 1);
    assert_int_equal(conn->refs, REFS);
    wait_for(f, c, (size_t)REFS * BYTES);
    assert_string_equal(c->got, due);
    assert_int_equal(conn->refs, 0);
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 0);
    free(due);
}

/* Datagrams are dropped while the command ring is full. */
static void datagrams_wait_for_no_room(void **state)
{
    static const uint8_t reply[1000];
    const struct us_datagram request = {.local = addr4(server_ip), .remote = addr4(client_ip)};
    struct fixture *f = *state;
    struct net_split *split = f->server->split;
    unsigned sent = 0, i;

    while (net_split_send_datagram(split, &request, reply, sizeof(reply)))
        sent++;
    assert_in_range(sent, 1000, NET_SPLIT_COMMANDS_BYTES / sizeof(reply));
    for (i = 0; i < 10; i++)
        assert_false(net_split_send_datagram(split, &request, reply, sizeof(reply)));
    assert_int_equal(split_counter(f, NET_SPLIT_COMMANDS_FULL), 1); /* not each time */
    steps(f, 10);
    assert_true(net_split_send_datagram(split, &request, reply, sizeof(reply)));
}

/* The stack's side does not sleep while connections are left that it has not checked. */
static void acknowledgments_of_many(void **state)
{
    enum { CLIENTS = 40 };
    struct fixture *f = *state;
    struct net_stack_worker *stack = f->server;
    unsigned i;

    for (i = 0; i < CLIENTS; i++)
        (void)client_open(f);
    steps(f, 1000);
    assert_true(stack->app->sleep_us_max(stack) > 0);
    for (i = 0; i < CLIENTS; i++)
        net_split_post(stack->split, &stack->split->links[i], NET_SPLIT_PENDING_WATCH);
    net_stack_turn(f->sessions, f->now_us);
    net_stack_turn(stack, f->now_us);
    assert_int_equal(stack->split->watched_count, 8);
    assert_int_equal(stack->app->sleep_us_max(stack), 0);
    net_stack_turn(stack, f->now_us);
    assert_int_equal(stack->split->watched_count, 0);
    assert_true(stack->app->sleep_us_max(stack) > 0);
}

/* A connection whose input cannot be kept for lack of memory is reset, and counted. */
static void kept_input_finds_no_memory(void **state)
{
    struct fixture *f = *state;
    struct client *busy = client_open(f);
    struct client *lazy = client_open(f);
    char *requests = repeat("get v\r\n", 4000);

    store(f, busy, "v", 'v', 2000);
    lazy->reading = false;
    client_send(lazy, requests, strlen(requests));
    steps(f, 2000);
    assert_true(f->server->split->kept_bytes > 0);
    (void)balance_fail(1);
    client_send(lazy, requests, strlen(requests));
    steps(f, 100);
    assert_int_equal(balance_fail(0), 0); /* it was asked for */
    assert_null(lazy->conn);
    assert_int_equal(lazy->reason, US_CLOSE_RESET);
    assert_int_equal(counter(f, NET_STACK_ABORTED_KEPT), 1);
    assert_int_equal(f->server->split->kept_bytes, 0);
    ask(f, busy, "mn\r\n", "MN\r\n");
    free(requests);
}

/* Input that has to wait until the sessions have used some is counted once each time. */
static void waits_for_credit_are_counted(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    char *requests = repeat("mn\r\n", 100000);
    unsigned i;

    client_send(c, requests, strlen(requests));
    for (i = 1; i <= 3; i++) {
        steps_without_sessions(f, 2000);
        assert_int_equal(split_counter(f, NET_SPLIT_CREDIT_EXHAUSTED), i);
        net_stack_turn(f->sessions, f->now_us);
    }
    wait_for(f, c, strlen(requests));
    free(requests);
}

struct wanted {
    const char *name;
    uint64_t value;
};

static void match(void *ctx, const char *name, const char *value)
{
    struct wanted *wanted = ctx;

    if (strcmp(name, wanted->name) == 0)
        wanted->value = strtoull(value, NULL, 10);
}

/* `stats ustack` has the sums over all workers, and over both sides of each. */
static void statistics_are_sums(void **state)
{
    struct fixture *f = *state;
    struct fixture *other = fixture_open(&plain);
    struct net_worker *workers[] = {&f->server->worker, &other->server->worker};
    struct wanted accepted = {.name = "sessions_accepted"};
    struct wanted commands = {.name = "split_commands"};
    unsigned i;

    ask(f, client_open(f), "mn\r\n", "MN\r\n");
    for (i = 0; i < 2; i++)
        ask(other, client_open(other), "mn\r\n", "MN\r\n");
    assert_int_equal(net_stack_link_workers(f->cache, workers, 2), 0);
    net_stack_fill_ustack(f->server, match, &accepted);
    net_stack_fill_ustack(f->server, match, &commands);
    assert_int_equal(accepted.value, 3);
    assert_true(split_counter(other, NET_SPLIT_COMMANDS) >= 2);
    assert_int_equal(commands.value, split_counter(f, NET_SPLIT_COMMANDS) +
                                         split_counter(other, NET_SPLIT_COMMANDS));
    teardown((void **)&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_are_answered, setup_threaded, teardown),
        cmocka_unit_test_setup_teardown(large_values_go_both_ways, setup_threaded, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_reads_late_gets_all_replies, setup_threaded,
                                        teardown),
        cmocka_unit_test_setup_teardown(connections_come_and_go, setup_threaded, teardown),
        cmocka_unit_test_setup_teardown(the_worker_ends_in_the_middle_of_replies, setup_threaded,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_session_that_stops_behind_drained_is_resumed,
                                        setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(events_wait_for_room, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(a_client_resets_with_its_input_under_way, setup_in_turns,
                                        teardown),
        cmocka_unit_test_setup_teardown(kept_input_ends_with_its_connection, setup_in_turns,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_client_resets_with_a_reply_under_way, setup_in_turns,
                                        teardown),
        cmocka_unit_test_setup_teardown(addresses_without_a_route, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(connections_beyond_the_links, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(a_connection_after_the_end, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(replies_that_cannot_be_queued, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(references_beyond_those_of_the_stack, setup_in_turns,
                                        teardown),
        cmocka_unit_test_setup_teardown(datagrams_wait_for_no_room, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(acknowledgments_of_many, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(kept_input_finds_no_memory, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(waits_for_credit_are_counted, setup_in_turns, teardown),
        cmocka_unit_test_setup_teardown(statistics_are_sums, setup_in_turns, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
