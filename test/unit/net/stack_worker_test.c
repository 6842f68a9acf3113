/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack worker from the wire to the cache and back. No root, no thread, no waiting. With the
 * argument "split" the worker has two sides (net/split.h).
 */
#include "cache/watch.h"
#include "net/handover.h"
#include "stack_rig.h"

static void test_set_and_get(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    ask(f, c, "get a\r\n", "END\r\n");
    ask(f, c, "set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    ask(f, c, "get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    ask(f, c, "set a 0 0 1 noreply\r\nx\r\nget a\r\ndelete a\r\n",
        "VALUE a 0 1\r\nx\r\nEND\r\nDELETED\r\n");
}

/* Thousands of requests in one stream, cut wherever the segments end. */
static void test_pipeline(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    static char request[400000], reply[400000];
    size_t request_len = 0;
    size_t reply_len = 0;
    unsigned i;

    for (i = 0; i < 5000; i++)
        request_len +=
            (size_t)snprintf(request + request_len, sizeof(request) - request_len,
                             "set k%u %u 0 4\r\n%04u\r\nget k%u\r\n", i % 97, i, i, i % 97);
    for (i = 0; i < 5000; i++)
        reply_len += (size_t)snprintf(reply + reply_len, sizeof(reply) - reply_len,
                                      "STORED\r\nVALUE k%u %u 4\r\n%04u\r\nEND\r\n", i % 97, i, i);
    client_send(c, request, request_len);
    wait_for(f, c, reply_len);
    assert_string_equal(c->got, reply);
}

static void test_large_values(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const size_t len = 900000;
    const char *head = "VALUE big 0 900000\r\n";
    size_t i;

    store(f, c, "big", 'B', len);
    c->got_len = 0;
    client_send(c, "get big big big\r\n", 17);
    wait_for(f, c, 3 * (strlen(head) + len + 2) + 5);
    for (i = 0; i < 3; i++) {
        const char *at = c->got + i * (strlen(head) + len + 2);

        assert_memory_equal(at, head, strlen(head));
        assert_int_equal(at[strlen(head)], 'B');
        assert_int_equal(at[strlen(head) + len - 1], 'B');
        assert_memory_equal(at + strlen(head) + len, "\r\n", 2);
    }
    assert_string_equal(c->got + c->got_len - 5, "END\r\n");
}

/* A client that does not read is bounded, does not disturb others, and loses no reply. */
static void never_reading(struct fixture *f, size_t value_len)
{
    struct client *lazy = client_open(f);
    struct client *busy = client_open(f);
    const unsigned count = 3000;
    char *requests = repeat("get v\r\n", count);
    char head[40];
    size_t reply_len =
        (size_t)snprintf(head, sizeof(head), "VALUE v 0 %zu\r\n", value_len) + value_len + 2 + 5;
    unsigned i;

    store(f, busy, "v", 'v', value_len);
    lazy->reading = false;
    client_send(lazy, requests, strlen(requests));
    steps(f, 3000);
    assert_true(counter(f, NET_STACK_BLOCKED) >= 1);
    assert_true(us_counter_named(f, "buffer_bytes_used") < 2 * NET_STACK_SEND_QUEUE_BYTES);
    for (i = 0; i < 50; i++)
        ask(f, busy, "get nothing\r\n", "END\r\n");

    lazy->reading = true;
    us_recv_resume(f->stack, lazy->conn);
    wait_for(f, lazy, count * reply_len);
    for (i = 0; i < count; i++) {
        assert_memory_equal(lazy->got + i * reply_len, head, strlen(head));
        assert_memory_equal(lazy->got + (i + 1) * reply_len - 7, "\r\nEND\r\n", 7);
    }
    assert_true(counter(f, NET_STACK_RESUMED) >= 1);
    assert_int_equal(f->sessions->blocked_count, 0);
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 0);
    if (f->server->split)
        assert_int_equal(f->server->split->kept_bytes, 0);
    /* Nothing of its input is left: its end is the connection's. */
    assert_int_equal(us_close(f->stack, lazy->conn), 0);
    steps(f, 100);
    assert_true(lazy->eof);
    free(requests);
}

static void test_never_reading_small(void **state)
{
    never_reading(*state, 200);
}

static void test_never_reading_references(void **state)
{
    never_reading(*state, 20000);
}

/* All replies come although the client shuts down its sending side with the last request. */
static void half_close(struct fixture *f, bool read_late)
{
    struct client *c = client_open(f);
    const unsigned count = 2000;
    char *requests = repeat("get v\r\n", count);
    size_t reply_len = strlen("VALUE v 0 1000\r\n") + 1000 + 2 + 5;

    store(f, c, "v", 'v', 1000);
    c->got_len = 0;
    c->reading = !read_late;
    c->close_when_sent = true;
    client_send(c, requests, strlen(requests));
    if (read_late) {
        steps(f, 5000);
        assert_int_equal(c->got_len, 0);
        assert_false(c->eof);
        c->reading = true;
        us_recv_resume(f->stack, c->conn);
    }
    wait_for(f, c, count * reply_len);
    assert_true(c->eof);
    assert_string_equal(c->got + c->got_len - 7, "\r\nEND\r\n");
    steps(f, 100);
    assert_true(u_list_is_empty(&f->sessions->conns.open));
    free(requests);
}

static void test_half_close(void **state)
{
    half_close(*state, false);
}

static void test_half_close_blocked(void **state)
{
    half_close(*state, true);
}

static void test_quit(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    client_send(c, "get a\r\nquit\r\nget a\r\n", 20);
    wait_for(f, c, 5);
    assert_true(c->eof);
    assert_string_equal(c->got, "END\r\n");
    assert_int_equal(us_close(f->stack, c->conn), 0);
    steps(f, 100);
    assert_true(u_list_is_empty(&f->sessions->conns.open));
}

static void test_too_many_connections(void **state)
{
    static const struct shape two = {.connections_max = 2};
    struct fixture *f = fixture_open(&two);
    struct client *first = client_open(f);
    struct client *second = client_open(f);
    struct client *third = client_open(f);

    *state = f;
    wait_for(f, third, strlen("ERROR Too many open connections\r\n"));
    assert_string_equal(third->got, "ERROR Too many open connections\r\n");
    assert_true(third->eof);
    assert_int_equal(counter(f, NET_STACK_REJECTED), 1);
    ask(f, first, "get a\r\n", "END\r\n");
    us_close(f->stack, second->conn);
    steps(f, 100);
    ask(f, client_open(f), "get a\r\n", "END\r\n");
    teardown(state);
}

/* So many handshakes have an entry each (-b); further clients connect by cookies. */
static void test_handshakes_are_bounded(void **state)
{
    enum { HALF_OPEN = 3, CLIENTS = 10 };
    static const struct shape shape = {.connections_max = 64, .half_open_max = HALF_OPEN};
    struct fixture *f = fixture_open(&shape);
    unsigned i;

    ask(f, client_open(f), "get a\r\n", "END\r\n"); /* now both ends know their MAC addresses */
    for (i = 0; i < CLIENTS; i++)
        client_begin(f);
    clients_turn(f);
    server_turn(f);
    assert_int_equal(us_counter_named(f, "half_open"), HALF_OPEN);
    steps(f, 50);
    for (i = 0; i <= CLIENTS; i++)
        assert_true(f->clients[i].connected);
    assert_int_equal(us_counter_named(f, "half_open"), 0);
    *state = f;
    teardown(state);
}

/* Input after the end of the session is thrown away up to a bound. */
/* With turns of one and three requests all of the above is the same. */
static void test_turns(void **state)
{
    static const struct shape shapes[] = {{.connections_max = 64, .requests_per_event = 1},
                                          {.connections_max = 64, .requests_per_event = 3}};
    void (*const tests[])(void **) = {
        test_set_and_get,
        test_pipeline,
        test_large_values,
        test_never_reading_small,
        test_never_reading_references,
        test_half_close,
        test_half_close_blocked,
        test_quit,
    };
    size_t shape, i;

    for (shape = 0; shape < 2; shape++) {
        for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
            *state = fixture_open(&shapes[shape]);
            tests[i](state);
            teardown(state);
        }
    }
}

/* In one burst the requests of two connections alternate, turn by turn. */
static void test_turns_alternate(void **state)
{
    static const struct shape one = {.connections_max = 64, .requests_per_event = 1};
    struct fixture *f = fixture_open(&one);
    struct client *first = client_open(f);
    struct client *second = client_open(f);

    *state = f;
    store(f, first, "n", '1', 1);
    first->got_len = 0;
    client_send(first, "incr n 1\r\nincr n 1\r\nincr n 1\r\n", 30);
    client_send(second, "incr n 10\r\nincr n 10\r\nincr n 10\r\n", 33);
    wait_for(f, first, 11);
    wait_for(f, second, 12);
    assert_string_equal(first->got, "2\r\n13\r\n24\r\n");
    assert_string_equal(second->got, "12\r\n23\r\n34\r\n");
    teardown(state);
}

static void stat_take(void *ctx, const char *name, const char *value)
{
    if (strcmp(name, "accepting_conns") == 0)
        assert_string_equal(value, "1");
    if (strcmp(name, "listen_disabled_num") == 0)
        *(unsigned long *)ctx = strtoul(value, NULL, 10);
    if (strcmp(name, "time_in_listen_disabled_us") == 0)
        assert_in_range(strtoul(value, NULL, 10), 100 * STEP_US, 1000 * STEP_US);
}

static void test_connections_wait(void **state)
{
    static const struct shape two = {.connections_max = 2, .accept_waits = true};
    struct fixture *f = fixture_open(&two);
    struct client *first = client_open(f);
    struct client *second = client_open(f);
    struct client *third = client_open(f);
    struct client *fourth = client_open(f);
    struct client *fifth = client_open(f);
    struct client *sixth = client_open(f);
    unsigned long stops = 0;

    *state = f;
    client_send(third, "get a\r\nget a\r\n", 14);
    client_send(fourth, "get a\r\nquit\r\n", 13);
    steps(f, 100);
    assert_int_equal(third->got_len + fourth->got_len, 0);
    ask(f, first, "get a\r\n", "END\r\n");
    sixth->close_when_sent = true; /* without a request */
    /* One that waits may go away. */
    us_abort(f->stack, fifth->conn);
    steps(f, 10);
    us_close(f->stack, first->conn);
    wait_for(f, third, 10);
    assert_string_equal(third->got, "END\r\nEND\r\n");
    ask(f, second, "get a\r\n", "END\r\n");
    assert_int_equal(fourth->got_len, 0);
    us_close(f->stack, second->conn);
    wait_for(f, fourth, 5);
    assert_true(fourth->eof);
    assert_int_equal(counter(f, NET_STACK_REJECTED), 0);
    steps(f, 20);
    assert_true(sixth->eof);
    assert_true(u_list_is_empty(&f->sessions->waiting_conns));
    assert_true(cache_stats_read(f->cache, f->now_us, NULL, stat_take, &stops));
    assert_int_equal(stops, 1); /* all of them waited in the same time */
    teardown(state);
}

static void test_idle_timeout(void **state)
{
    static const struct shape idle = {.connections_max = 64, .idle_timeout_s = 5};
    struct fixture *f = fixture_open(&idle);
    struct client *quiet = client_open(f);
    struct client *busy = client_open(f);
    struct client *slow = client_open(f);
    unsigned i;

    *state = f;
    ask(f, quiet, "get a\r\n", "END\r\n");
    client_send(slow, "set s 0 0 2\r\n1", 14);
    for (i = 0; i < 9; i++) {
        f->now_us += 1000000;
        ask(f, busy, "get a\r\n", "END\r\n");
        steps(f, 10);
        assert_int_equal(quiet->eof, i >= 5);
    }
    ask(f, slow, "2\r\n", "STORED\r\n");
    assert_int_equal(counter(f, NET_STACK_IDLE_CLOSED), 1);
    teardown(state);
}

/*
 * A request of either path makes its connection the last to be checked, so that a busy one does not
 * hide idle ones behind it. The checks, each behind the turn of a second, see none of the requests
 * in their own second.
 */
static void test_idle_behind_a_busy_one(void **state)
{
    static const struct shape idle = {.connections_max = 64, .idle_timeout_s = 5};
    static const char *const rows[][2] = {{"get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"},
                                          {"mn\r\n", "MN\r\n"}};
    unsigned i, k;

    for (i = 0; i < 2; i++) {
        struct fixture *f = fixture_open(&idle);
        struct client *busy = client_open(f);
        struct client *quiet = client_open(f);

        *state = f;
        ask(f, busy, "set a 0 0 1\r\n1\r\n", "STORED\r\n");
        ask(f, quiet, "mn\r\n", "MN\r\n");
        for (k = 0; k < 8; k++) {
            f->now_us = (f->now_us / 1000000 + 1) * 1000000 + 700000;
            steps(f, 10);
            f->now_us += 200000;
            ask(f, busy, rows[i][0], rows[i][1]);
        }
        assert_true(quiet->eof);
        assert_false(busy->eof);
        teardown(state);
    }
}

/* A connection that has been idle before a takeover is so behind it, too. */
static void test_idle_connection_is_handed_over(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    struct net_handover handover = {0};
    const struct net_handover_record *record;

    if (f->server->split)
        return; /* two-thread workers do not hand over */
    ask(f, c, "get a\r\n", "END\r\n");
    client_send(c, "ge", 2);
    steps(f, 20);
    f->now_us += 7000000;
    steps(f, 10);
    net_stack_hand_over(&f->server->worker, true, &handover);
    assert_true(net_handover_is_valid(&handover));
    record = net_handover_find(&handover, NET_HANDOVER_STACK);
    assert_non_null(record);
    assert_int_equal(record->idle_s, 7);
    assert_int_equal(record->input_bytes, 2);
    assert_memory_equal(net_handover_input(record), "ge", 2);
    net_handover_free(&handover, false);
}

/* Sends a request by UDP; its reply is in datagram_text afterwards. */
static void ask_udp(struct fixture *f, const char *request, size_t reply_len)
{
    uint8_t datagram[1400] = {0, 5, 0, 0, 0, 1, 0, 0};
    struct us_addr to = addr4(server_ip);
    unsigned i;

    memcpy(datagram + 8, request, strlen(request));
    f->datagrams = 0;
    f->datagram_len = 0;
    assert_int_equal(us_udp_send(f->stack, NULL, CLIENT_UDP_PORT, &to, PORT, datagram,
                                 (u_u32)(8 + strlen(request))),
                     0);
    for (i = 0; i < 100 && f->datagram_len < reply_len; i++)
        step(f);
    assert_int_equal(f->datagram_len, reply_len);
    f->datagram_text[reply_len] = '\0';
}

/* UDP beside TCP on the same port, in frames of the same stack. */
static void test_datagrams(void **state)
{
    static const struct shape udp = {.connections_max = 4, .udp_port = PORT};
    struct fixture *f = fixture_open(&udp);
    struct us_addr to = addr4(server_ip);
    struct client *c = client_open(f);
    unsigned i;

    *state = f;
    assert_int_equal(us_udp_bind(f->stack, CLIENT_UDP_PORT, NULL), 0);
    ask_udp(f, "set u 3 0 2\r\nab\r\n", 8);
    assert_string_equal(f->datagram_text, "STORED\r\n");
    ask(f, c, "get u\r\n", "VALUE u 3 2\r\nab\r\nEND\r\n");
    for (i = 0; i < 3; i++) {
        ask_udp(f, "get u none\r\n", 22);
        assert_string_equal(f->datagram_text, "VALUE u 3 2\r\nab\r\nEND\r\n");
        assert_int_equal(f->datagrams, 1);
    }
    store(f, c, "big", 'v', 500000);
    for (i = 0; i < 6; i++) /* more than the worker has room for at a time */
        ask_udp(f, "get big\r\n", 500000 + 27);
    assert_int_equal(f->datagrams, (500027 + 1391) / 1392);
    assert_memory_equal(f->datagram_text, "VALUE big 0 500000\r\nvv", 22);
    assert_string_equal(f->datagram_text + 500027 - 8, "v\r\nEND\r\n");

    assert_int_equal(us_udp_send(f->stack, NULL, CLIENT_UDP_PORT, &to, PORT, "nonsense", 8), 0);
    steps(f, 10);
    assert_int_equal(counter(f, NET_STACK_UDP_MALFORMED), 1);
    assert_int_equal(counter(f, NET_STACK_UDP_REQUESTS), 10);
    assert_int_equal(counter(f, NET_STACK_UDP_UNSENT), 0);
    teardown(state);
}

static void test_flood_after_quit(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    char *flood = repeat("get aaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 60000);

    client_send(c, "quit\r\n", 6);
    wait_for(f, c, 0);
    client_send(c, flood, strlen(flood));
    steps(f, 3000);
    assert_null(c->conn);
    assert_int_equal(c->reason, US_CLOSE_RESET);
    assert_int_equal(counter(f, NET_STACK_ABORTED_AFTER_END), 1);
    assert_true(u_list_is_empty(&f->sessions->conns.open));
    free(flood);
}

/* What came before a reset is executed, and the session is gone afterwards. */
static void test_reset_after_request(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    struct client *other = client_open(f);

    client_send(c, "set r 0 0 1 noreply\r\n1\r\nget r\r\n", 31);
    client_push(f, c);
    f->now_us += STEP_US;
    clients_turn(f);
    us_abort(f->stack, c->conn);
    steps(f, 10);
    ask(f, other, "get r\r\n", "VALUE r 0 1\r\n1\r\nEND\r\n");
    us_close(f->stack, other->conn);
    steps(f, 100);
    assert_true(u_list_is_empty(&f->sessions->conns.open));
}

/* Clients that vanish in the middle of large values, with input on its way and just used. */
static void test_reset_in_an_upload(void **state)
{
    static const size_t sizes[] = {1, 1000, 20000, 60000, 200000};
    struct fixture *f = *state;
    struct client *busy = client_open(f);
    char *upload = malloc(300000);
    unsigned i;

    memset(upload, 'x', 300000);
    memcpy(upload, "set k 0 0 500000\r\n", 18);
    for (i = 0; i < 40; i++) {
        struct client *c = client_open(f);

        client_send(c, upload, sizes[i % 5]);
        steps(f, i / 5 % 8);
        clients_turn(f); /* what this sends, and the reset, come in one burst */
        us_abort(f->stack, c->conn);
        clients_turn(f);
        steps(f, 1 + i % 3);
        ask(f, busy, "mn\r\n", "MN\r\n");
    }
    steps(f, 10);
    assert_int_equal(us_counter_named(f, "conns_open"), 1);
    free(upload);
}

/* A client that is idle keeps its connection; one whose host has gone does not keep it long. */
static void test_vanished_client(void **state)
{
    struct fixture *f = *state;
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct client *c;
    unsigned i;

    f->now_us = net_clock_us(); /* the clock that the server's timers have begun with */
    c = client_open(f);
    ask(f, c, "get r\r\n", "END\r\n");
    for (i = 0; i < 1000; i++) {
        f->now_us += 1000000;
        clients_turn(f);
        server_turn(f);
    }
    ask(f, c, "get r\r\n", "END\r\n");
    steps(f, 1000); /* the reply is acknowledged: what follows is silence */
    for (i = 0; i < 250; i++) {
        f->now_us += 1000000;
        server_turn(f);
        nic_release(f->ends[0], pkts, nic_rx_burst(f->ends[0], pkts, NIC_BURST_MAX));
        if (i < 230)
            assert_false(u_list_is_empty(&f->sessions->conns.open));
    }
    assert_true(u_list_is_empty(&f->sessions->conns.open));
}

/* Many clients that do not read share a small pool; one that reads is still served. */
static void test_pool_is_shared(void **state)
{
    static const struct shape small = {.connections_max = 64, .buffer_bytes = 2 << 20};
    struct fixture *f = fixture_open(&small);
    char *requests = repeat("get v\r\n", 2000);
    struct client *busy = client_open(f);
    struct client *lazy;
    unsigned i;

    *state = f;
    store(f, busy, "v", 'v', 500);
    for (i = 0; i < 40; i++) {
        lazy = client_open(f);
        lazy->reading = false;
        client_send(lazy, requests, strlen(requests));
    }
    steps(f, 2000);
    assert_true(us_counter_named(f, "buffer_bytes_used") <= small.buffer_bytes);
    for (i = 0; i < 50; i++)
        ask(f, busy, "get nothing\r\n", "END\r\n");
    for (i = 1; i < f->client_count; i++) {
        f->clients[i].reading = true;
        us_recv_resume(f->stack, f->clients[i].conn);
    }
    for (i = 1; i < f->client_count; i++)
        wait_for(f, &f->clients[i], 2000 * (strlen("VALUE v 0 500\r\n") + 500 + 2 + 5));
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 0);
    free(requests);
    teardown(state);
}

/* Their requests do not fit into the pool: some of these clients are reset, and no others. */
static void test_pool_is_too_small(void **state)
{
    static const struct shape tiny = {.connections_max = 64, .buffer_bytes = 256 << 10};
    struct fixture *f = fixture_open(&tiny);
    char *requests = repeat("get v\r\n", 4000);
    struct client *busy = client_open(f);
    unsigned i;

    *state = f;
    store(f, busy, "v", 'v', 500);
    for (i = 0; i < 40; i++) {
        struct client *lazy = client_open(f);

        lazy->reading = false;
        client_send(lazy, requests, strlen(requests));
        ask(f, busy, "get nothing\r\n", "END\r\n");
    }
    for (i = 0; i < 500; i++)
        ask(f, busy, "get nothing\r\n", "END\r\n");
    assert_true(counter(f, NET_STACK_ABORTED_KEPT) > 0);
    assert_int_equal(counter(f, NET_STACK_ABORTED_FULL), 0);
    free(requests);
    teardown(state);
}

/* A link with room for four frames: what the device does not take is retried or sent again. */
static void test_narrow_link(void **state)
{
    static const struct shape narrow = {.connections_max = 4, .queue_frames = 4};
    struct fixture *f = fixture_open(&narrow);
    struct client *c = client_open(f);

    *state = f;
    store(f, c, "v", 'v', 100000);
    c->got_len = 0;
    client_send(c, "get v\r\n", 7);
    wait_for(f, c, strlen("VALUE v 0 100000\r\n") + 100000 + 2 + 5);
    teardown(state);
}

static void test_stats(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    char line[64];

    c->got_len = 0;
    client_send(c, "stats ustack\r\n", 14);
    steps(f, 50);
    snprintf(line, sizeof(line), "STAT threading %s\r\n", net_threading_name(rig_threading));
    assert_non_null(strstr(c->got, line));
    assert_non_null(strstr(c->got, "STAT sessions_accepted 1\r\n"));
    assert_non_null(strstr(c->got, "STAT buffer_bytes_used "));
    assert_string_equal(c->got + c->got_len - 5, "END\r\n");
    c->got_len = 0;
    client_send(c, "stats conns\r\n", 13);
    steps(f, 50);
    assert_non_null(strstr(c->got, ":listen_addr tcp:10.0.0.1:11211\r\n"));
    c->got_len = 0;
    client_send(c, "stats nic\r\n", 11);
    steps(f, 50);
    assert_non_null(strstr(c->got, "STAT backend "));
    assert_non_null(strstr(c->got, "STAT log_lines_dropped "));
    assert_string_equal(c->got + c->got_len - 5, "END\r\n");
}

static unsigned long stat_of(const struct client *c, const char *name)
{
    const char *at = strstr(c->got, name);

    assert_non_null(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* Fast-path requests are counted before a later `stats` of the same burst. */
static void test_stats_of_the_same_burst(void **state)
{
    struct fixture *f = *state;
    struct client *first = client_open(f);
    struct client *second = client_open(f);
    unsigned long read_bytes, written_bytes, gets;

    store(f, first, "n", '1', 1);
    second->got_len = 0;
    client_send(second, "stats\r\n", 7);
    steps(f, 50);
    read_bytes = stat_of(second, "STAT bytes_read ");
    written_bytes = stat_of(second, "STAT bytes_written ") + second->got_len;
    gets = stat_of(second, "STAT cmd_get ");
    second->got_len = 0;
    client_send(first, "get n\r\n", 7);
    client_send(second, "stats\r\n", 7);
    steps(f, 50);
    assert_int_equal(stat_of(second, "STAT cmd_get ") - gets, 1);
    assert_int_equal(stat_of(second, "STAT bytes_read ") - read_bytes, 14);
    assert_int_equal(stat_of(second, "STAT bytes_written ") - written_bytes,
                     strlen("VALUE n 0 1\r\n1\r\nEND\r\n"));
}

/* A worker whose rest was given up uses the input that it has held back, as before. */
static void test_rest_is_given_up(void **state)
{
    struct fixture *f = *state;
    struct client *c;

    if (f->server != f->sessions)
        return; /* a worker of two threads has no rest */
    c = client_open(f);
    ask(f, c, "get a\r\n", "END\r\n");
    f->server->resting = true;
    c->got_len = 0;
    client_send(c, "mn\r\nget a\r\n", 11);
    steps(f, 100);
    assert_int_equal(c->got_len, 0);
    assert_int_equal(net_stack_pause(f->server), 0); /* for which there is no reason any more */
    wait_for(f, c, strlen("MN\r\nEND\r\n"));
    assert_string_equal(c->got, "MN\r\nEND\r\n");
    assert_false(f->server->general_only);
}

/* A timer of the stack ends a sleep: here that of a reply that is not acknowledged yet. */
static void test_sleep_lasts_until_the_next_timer(void **state)
{
    struct fixture *f = *state;
    enum net_idle idle = f->server->idle;
    uint64_t deadline_us;

    ask(f, client_open(f), "get a\r\n", "END\r\n");
    deadline_us = us_deadline(f->server->stack);
    assert_in_range(deadline_us, f->now_us + 2, f->now_us + 2000000);
    f->server->idle = NET_IDLE_INTERRUPT;
    assert_in_range(net_stack_sleep_us_max(f->server, deadline_us - 1), 0, 1);
    assert_int_equal(net_stack_sleep_us_max(f->server, deadline_us), 0);
    f->server->idle = idle;
}

/* With a watcher the sessions sleep at most CACHE_WATCH_POLL_US. */
static void test_watcher_bounds_the_sleep(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    steps(f, 100);
    assert_true(f->sessions->app->sleep_us_max(f->sessions) > CACHE_WATCH_POLL_US);
    ask(f, c, "watch fetchers\r\n", "OK\r\n");
    assert_int_equal(f->sessions->app->sleep_us_max(f->sessions), CACHE_WATCH_POLL_US);
    us_abort(f->stack, c->conn);
    steps(f, 100);
    assert_true(f->sessions->app->sleep_us_max(f->sessions) > CACHE_WATCH_POLL_US);
}

/* The end resets all connections, with replies and references in flight. */
static void test_end_with_open_connections(void **state)
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
    free(requests); /* teardown() ends the server without another step of the clients */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipeline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_references, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_close_blocked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quit, setup, teardown),
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_handshakes_are_bounded),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_alternate),
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_connections_wait),
        cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_idle_behind_a_busy_one),
        cmocka_unit_test_setup_teardown(test_idle_connection_is_handed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flood_after_quit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset_after_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset_in_an_upload, setup, teardown),
        cmocka_unit_test_setup_teardown(test_vanished_client, setup, teardown),
        cmocka_unit_test(test_pool_is_shared),
        cmocka_unit_test(test_pool_is_too_small),
        cmocka_unit_test(test_narrow_link),
        cmocka_unit_test_setup_teardown(test_stats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stats_of_the_same_burst, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sleep_lasts_until_the_next_timer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watcher_bounds_the_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_with_open_connections, setup, teardown),
    };

    if (argc > 1 && strcmp(argv[1], "split") == 0)
        rig_threading = NET_THREADING_SPLIT;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
