/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with TLS whose server finds no memory for one of its allocations, each in turn: they
 * end, or are served as if nothing had been, and keep nothing (balance.c). With the argument
 * `threads`, threads beside the worker make the handshakes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls_rig.h"

#define VALUE 50000
#define INPUT_STEP 30
#define OUTPUT_STEP 900
#define QUIET_ROUNDS 5
#define GOT_MAX (8 * VALUE)

/* Whether the server serves the connection, or has not noticed that it cannot. */
static bool is_served(const struct peer *peer)
{
    return peer->conn.session && !peer->conn.failed &&
           net_conn_state(&peer->conn) != CACHE_SESSION_CLOSING;
}

/* Carries bytes in both directions, a few at a time, until none are left. Appends the replies. */
static void carry(struct fixture *f, struct peer *peer, char *got, size_t *got_len)
{
    unsigned quiet = 0;
    bool moved;
    int n;

    while (quiet < QUIET_ROUNDS && is_served(peer)) {
        if (!SSL_is_init_finished(peer->client.ssl))
            ssl_client_step(&peer->client);
        receive(peer);
        moved = offer(f, peer, INPUT_STEP);
        if (is_served(peer))
            moved |= deliver(f, peer, OUTPUT_STEP);
        while ((n = ssl_client_read(&peer->client, got + *got_len, (int)(GOT_MAX - *got_len))) > 0)
            *got_len += (size_t)n;
        turn(f, 2000);
        quiet = moved ? 0 : quiet + 1;
    }
}

static void add(char *text, size_t *len, const char *more)
{
    memcpy(text + *len, more, strlen(more));
    *len += strlen(more);
}

static void add_value(char *text, size_t *len)
{
    char head[32];

    snprintf(head, sizeof(head), "VALUE v 0 %d\r\n", VALUE);
    add(text, len, head);
    memset(text + *len, 'v', VALUE);
    *len += VALUE;
    add(text, len, "\r\nEND\r\n");
}

static void store(struct fixture *f)
{
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    char *request = malloc(VALUE + 100);
    int n = snprintf(request, 100, "set v 0 0 %d\r\n", VALUE);

    shake(f, peer);
    memset(request + n, 'v', VALUE);
    memcpy(request + n + VALUE, "\r\n", 3);
    assert_string_equal(ask(f, peer, request), "STORED\r\n");
    free(request);
}

/*
 * A handshake, short and long requests, of which one is cut, and replies that wait. Without this
 * allocation, which is one after the handshake, or with threads one from its begin on. Returns
 * whether all was answered; if not, the connection has ended.
 */
static bool live(struct fixture *f, int version, unsigned number)
{
    static const char requests[] = "get v\r\nmn\r\nget none\r\nget v\r\nmn\r\nget v\r\nme";
    static const char last[] = " none\r\n";
    char *due = malloc(GOT_MAX), *got = malloc(GOT_MAX);
    size_t due_len = 0, got_len = 0;
    struct peer *peer;
    bool answered;

    add_value(due, &due_len);
    add(due, &due_len, "MN\r\nEND\r\n");
    add_value(due, &due_len);
    add(due, &due_len, "MN\r\n");
    add_value(due, &due_len);
    add(due, &due_len, "EN\r\n");
    f->to_fail = with_threads ? number : 0;
    peer = open_peer_if(f, version);
    peer->full_bytes = 3000;
    carry(f, peer, got, &got_len);
    f->to_fail = with_threads ? f->to_fail : number;
    if (is_served(peer)) {
        SSL_write(peer->client.ssl, requests, (int)strlen(requests));
        carry(f, peer, got, &got_len);
        SSL_write(peer->client.ssl, last, (int)strlen(last));
        carry(f, peer, got, &got_len);
    }
    answered = got_len == due_len && memcmp(got, due, due_len) == 0;
    assert_true(answered || !is_served(peer));
    assert_true(got_len <= due_len && memcmp(got, due, got_len) == 0);
    free(due);
    free(got);
    return answered;
}

static void live_without_memory(int version)
{
    struct fixture *f;
    unsigned number = 0, ended = 0, left;

    do {
        f = open_fixture(1); /* the session stops after each request */
        store(f);
        ended += !live(f, version, ++number);
        left = f->to_fail;
        f->to_fail = 0;
        close_fixture(f);
    } while (left == 0);
    assert_true(ended > 3);
}

static void test_connections_without_memory(void **state)
{
    live_without_memory(TLS1_3_VERSION);
    live_without_memory(TLS1_2_VERSION);
}

/* One that cannot be opened is counted, and others are served. */
static void test_opening_without_memory(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer;
    unsigned refused = 0;
    bool opened;

    (void)open_peer(f, TLS1_3_VERSION); /* now the cache has memory for more sessions */
    do {
        f->to_fail = refused + 1;
        peer = open_peer_if(f, TLS1_3_VERSION);
        opened = peer->conn.session != NULL;
        assert_true(opened || f->to_fail == 0);
        refused += !opened;
        f->to_fail = 0;
        assert_int_equal(counted(f, NET_TLS_NO_MEMORY), refused);
    } while (!opened);
    assert_true(refused > 2);
    shake(f, peer);
    assert_string_equal(ask(f, peer, "get none\r\n"), "END\r\n");
    close_fixture(f);
}

/* The TLS of a worker. */
static void test_worker_without_memory(void **state)
{
    struct fixture *f = open_fixture(20);
    struct net_tls *tls;
    unsigned number = 0, left;

    do {
        (void)balance_fail(++number);
        tls = net_tls_open(&f->conns, f->server, NULL, wake, f);
        left = balance_fail(0);
        assert_int_equal(tls != NULL, left > 0);
    } while (!tls);
    assert_true(number > 1);
    net_tls_close(tls);
    close_fixture(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_without_memory),
        cmocka_unit_test(test_opening_without_memory),
        cmocka_unit_test(test_worker_without_memory),
    };

    with_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    return cmocka_run_group_tests(tests, make_cert, free_cert);
}
