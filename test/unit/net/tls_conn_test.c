/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS between a transport and sessions. The transport is a queue in memory that is full after any
 * number of bytes; the peers are OpenSSL's clients. With the argument `threads`, threads beside the
 * worker, which is this one, make the handshakes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "cache/cache_worker.h"
#include "net/stack_worker.h"
#include "tls/key_cache.h"
#include "tls_rig.h"

#define SEEDS 60

/*
 * Offers the first record as the own stack does: opened ahead, to the fast path first. Returns
 * false, without effect, if it is not there or cannot be opened ahead.
 */
static bool offer_opened(struct fixture *f, struct peer *peer)
{
    struct cache_session *session = peer->conn.session;
    uint32_t len, plain_len = 0, used;
    const uint8_t *plain;
    uint8_t *bytes;
    bool eligible;

    if (peer->input_len < 5)
        return false;
    len = 5 + ((uint32_t)peer->input[3] << 8 | peer->input[4]);
    if (peer->input_len < len)
        return false;
    bytes = malloc(len);
    memcpy(bytes, peer->input, len);
    net_tls_begin_batch(f->conns.tls);
    net_tls_prefetch(&peer->conn);
    plain = net_tls_open_ahead(&peer->conn, bytes, len, &plain_len);
    free(bytes);
    if (!plain)
        return false;
    f->opened++;
    used = plain_len;
    eligible = cache_session_prefetch_opened(session, plain, plain_len);
    cache_session_prefetch_item(session);
    if (f->opened % 7 == 0)
        used = net_tls_set_aside(&peer->conn, plain, plain_len);
    else if (eligible && net_tls_answer_fast(&peer->conn, plain, plain_len) > 0)
        f->answered_fast++;
    else
        used = net_conn_input(&f->conns, &peer->conn, plain, plain_len);
    assert_true(used == plain_len || used == plain_len - 1);
    len -= plain_len - used;
    memmove(peer->input, peer->input + len, peer->input_len - len);
    peer->input_len -= len;
    return true;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_requests(void **state)
{
    struct fixture *f = open_fixture(20);
    unsigned i;

    for (i = 0; i < 2; i++) {
        struct peer *peer = open_peer(f, i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION);

        shake(f, peer);
        assert_string_equal(ask(f, peer, "set k 0 0 2\r\nab\r\nget k\r\n"),
                            "STORED\r\nVALUE k 0 2\r\nab\r\nEND\r\n");
    }
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES), 2);
    assert_int_equal(counted(f, NET_TLS_OWN_RECORDS), 1);
    close_fixture(f);
}

/* A stream of requests and the replies that are due. */
struct script {
    char *requests;
    char *replies;
    size_t requests_len, replies_len;
};

#define SCRIPT_MAX (3 << 20)

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t *len, const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    *len += (size_t)vsnprintf(text + *len, SCRIPT_MAX - *len, format, args);
    va_end(args);
}

static void script_value(struct u_prng *prng, struct script *s, char key)
{
    static const uint32_t sizes[] = {0, 1, 100, 2000, 9000, 16384, 20000, 70000};
    uint32_t size = sizes[u_prng_below(prng, 8)];
    uint32_t gets = 1 + u_prng_below(prng, 4);

    add(s->requests, &s->requests_len, "set %c 0 0 %u\r\n", key, size);
    memset(s->requests + s->requests_len, key, size);
    s->requests_len += size;
    add(s->requests, &s->requests_len, "\r\n");
    add(s->replies, &s->replies_len, "STORED\r\n");
    while (gets-- > 0) {
        add(s->requests, &s->requests_len, "get %c\r\n", key);
        add(s->replies, &s->replies_len, "VALUE %c 0 %u\r\n", key, size);
        memset(s->replies + s->replies_len, key, size);
        s->replies_len += size;
        add(s->replies, &s->replies_len, "\r\nEND\r\n");
    }
}

/* The client sends, the transport offers and delivers, in an order and in pieces of chance. */
static void run_script(struct fixture *f, struct peer *peer, struct u_prng *prng,
                       const struct script *s, uint32_t step_max)
{
    char *got = malloc(SCRIPT_MAX);
    size_t sent = 0, got_len = 0;
    unsigned idle = 0;
    int n;

    while (got_len < s->replies_len && idle < 1000) {
        bool moved = false;

        if (sent < s->requests_len && peer->input_len < INPUT_MAX / 4) {
            n = (int)u_min32(1 + u_prng_below(prng, step_max), (uint32_t)(s->requests_len - sent));
            assert_int_equal(SSL_write(peer->client.ssl, s->requests + sent, n), n);
            sent += (size_t)n;
            receive(peer);
            moved = true;
        }
        if (u_prng_below(prng, 2) == 0 || !offer_opened(f, peer))
            moved |= offer(f, peer, 1 + u_prng_below(prng, step_max));
        else
            moved = true;
        if (u_prng_below(prng, 3) > 0)
            moved |= deliver(f, peer, 1 + u_prng_below(prng, step_max));
        while ((n = ssl_client_read(&peer->client, got + got_len, SCRIPT_MAX - (int)got_len)) > 0)
            got_len += (size_t)n;
        turn(f, 2000);
        assert_false(peer->conn.failed);
        assert_false(peer->client.failed);
        idle = moved ? 0 : idle + 1;
    }
    assert_int_equal(got_len, s->replies_len);
    assert_memory_equal(got, s->replies, got_len);
    free(got);
}

static void test_streams_in_any_pieces(void **state)
{
    static const uint32_t limits[] = {1, 3000, 20000, 256 * 1024};
    static const uint32_t steps[] = {50, 1500, 17000, 65536};
    struct script s = {.requests = malloc(SCRIPT_MAX), .replies = malloc(SCRIPT_MAX)};
    unsigned opened = 0;
    uint32_t seed;
    unsigned i;

    for (seed = 0; seed < SEEDS; seed++) {
        struct u_prng prng;
        struct fixture *f;
        struct peer *peer;

        u_prng_seed(&prng, seed);
        f = open_fixture(seed % 3 == 0 ? 1 : 20);
        peer = open_peer(f, seed % 2 == 0 ? TLS1_2_VERSION : TLS1_3_VERSION);
        shake(f, peer);
        peer->full_bytes = limits[u_prng_below(&prng, 4)];
        s.requests_len = s.replies_len = 0;
        for (i = 0; i < 8; i++)
            script_value(&prng, &s, (char)('a' + i));
        run_script(f, peer, &prng, &s, steps[u_prng_below(&prng, 4)]);
        opened += f->opened;
        close_fixture(f);
    }
    assert_true(opened > 100);
    free(s.requests);
    free(s.replies);
}

/* A record with one short request takes the fast path; one with a part of it does not. */
static void test_requests_that_are_opened_ahead(void **state)
{
    static const struct {
        const char *request, *reply;
        bool fast;
    } rows[] = {
        {"set k 0 0 2\r\nab\r\n", "STORED\r\n", false}, /* a new key */
        {"set k 0 0 2\r\nxy\r\n", "STORED\r\n", true},
        {"get k\r\n", "VALUE k 0 2\r\nxy\r\nEND\r\n", true},
        {"get none\r\n", "END\r\n", false},
        {"get k\r\nget k\r\n", "VALUE k 0 2\r\nxy\r\nEND\r\nVALUE k 0 2\r\nxy\r\nEND\r\n", false},
        {"ge", "", false},
        {"t k\r\n", "VALUE k 0 2\r\nxy\r\nEND\r\n", false},
    };
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    unsigned i, fast = 0, records = 0;

    shake(f, peer);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        f->opened = 0; /* set none aside */
        fast += rows[i].fast;
        records += rows[i].reply[0] != '\0';
        SSL_write(peer->client.ssl, rows[i].request, (int)strlen(rows[i].request));
        receive(peer);
        assert_true(offer_opened(f, peer));
        assert_string_equal(ask(f, peer, ""), rows[i].reply);
        assert_int_equal(f->answered_fast, fast);
        assert_int_equal(counted(f, NET_TLS_RECORDS_IN), i + 1);
        assert_int_equal(counted(f, NET_TLS_RECORDS_OUT), records);
    }
    /* Not while replies cannot be sent: the record stays unopened. */
    peer->full_bytes = 0;
    SSL_write(peer->client.ssl, "get k\r\n", 7);
    receive(peer);
    assert_false(offer_opened(f, peer));
    close_fixture(f);
}

/* Replies to others of the batch may use up the room after a request was opened: it waits. */
static void test_opened_request_without_room(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    uint32_t plain_len = 0;
    const uint8_t *plain;

    shake(f, peer);
    assert_string_equal(ask(f, peer, "set k 0 0 2\r\nab\r\n"), "STORED\r\n");
    assert_int_equal(SSL_write(peer->client.ssl, "get k\r\n", 7), 7);
    receive(peer);
    net_tls_begin_batch(f->conns.tls);
    plain = net_tls_open_ahead(&peer->conn, peer->input, peer->input_len, &plain_len);
    assert_int_equal(plain_len, 7);
    assert_true(cache_session_prefetch_opened(peer->conn.session, plain, plain_len));
    cache_session_prefetch_item(peer->conn.session);
    peer->full_bytes = 0;
    assert_int_equal(net_tls_answer_fast(&peer->conn, plain, plain_len), 0);
    assert_int_equal(peer->queued_len, 0);
    /* Kept: the transport offers what counts as not consumed once more. */
    peer->input_len = plain_len - net_conn_input(&f->conns, &peer->conn, plain, plain_len);
    assert_int_equal(peer->queued_len, 0);
    peer->full_bytes = 64 * 1024;
    net_conn_resume(&f->conns, &peer->conn);
    assert_string_equal(ask(f, peer, ""), "VALUE k 0 2\r\nab\r\nEND\r\n");
    close_fixture(f);
}

/* The fast path needs room for the longest reply beside the record's own bytes. */
static void test_opened_request_with_little_room(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    shake(f, peer);
    assert_string_equal(ask(f, peer, "set k 0 0 2\r\nab\r\n"), "STORED\r\n");
    peer->exact = true;
    assert_int_equal(SSL_write(peer->client.ssl, "get k\r\n", 7), 7);
    receive(peer);
    assert_true(offer_opened(f, peer));
    assert_int_equal(f->answered_fast, 0);
    assert_string_equal(ask(f, peer, ""), "VALUE k 0 2\r\nab\r\nEND\r\n");
    close_fixture(f);
}

/* The records of a batch that are opened ahead fit their memory: further ones are opened later. */
static void test_batch_has_a_bound_of_plaintext(void **state)
{
    enum { RECORDS = NET_TLS_OPENED_BYTES / TLS_RECORD_MAX };
    struct fixture *f = open_fixture(20);
    const uint8_t *plain[RECORDS];
    uint32_t plain_len[RECORDS];
    char request[TLS_RECORD_MAX];
    int head = snprintf(request, sizeof(request), "set k 0 0 %d\r\n", TLS_RECORD_MAX - 19);
    struct peer *peer;
    unsigned i;

    assert_int_equal(head, 17);
    memset(request + head, 'v', sizeof(request) - (size_t)head);
    memcpy(request + sizeof(request) - 2, "\r\n", 2);
    for (i = 0; i < RECORDS; i++) {
        peer = open_peer(f, TLS1_3_VERSION);
        shake(f, peer);
        assert_int_equal(SSL_write(peer->client.ssl, request, sizeof(request)), sizeof(request));
        receive(peer);
        assert_int_equal(peer->input_len, TLS_RECORD_MAX + TLS_RECORD_OVERHEAD);
    }
    net_tls_begin_batch(f->conns.tls);
    for (i = 0; i < RECORDS; i++) {
        peer = &f->peers[i];
        plain[i] = net_tls_open_ahead(&peer->conn, peer->input, peer->input_len, &plain_len[i]);
        assert_int_equal(plain[i] != NULL, i < RECORDS - 1);
    }
    for (i = 0; i < RECORDS - 1; i++) {
        peer = &f->peers[i];
        assert_int_equal(plain_len[i], TLS_RECORD_MAX);
        assert_memory_equal(plain[i], request, TLS_RECORD_MAX);
        assert_int_equal(net_conn_input(&f->conns, &peer->conn, plain[i], plain_len[i]),
                         plain_len[i]);
        peer->input_len = 0;
    }
    for (i = 0; i < RECORDS; i++)
        assert_string_equal(ask(f, &f->peers[i], ""), "STORED\r\n");
    close_fixture(f);
}

/* Many records of one connection: others have their turn in between. */
static void test_turn_has_a_bound_of_records(void **state)
{
    enum { RECORDS = 100 };
    struct fixture *f = open_fixture(1000000);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    unsigned turns = 0, i;

    shake(f, peer);
    for (i = 0; i < RECORDS; i++)
        assert_int_equal(SSL_write(peer->client.ssl, "mn\r\n", 4), 4);
    receive(peer);
    while (offer(f, peer, 65536))
        turns++;
    assert_in_range(turns, 4, 10);
    assert_int_equal(strlen(ask(f, peer, "")), RECORDS * strlen("MN\r\n"));
    close_fixture(f);
}

/* A connection has memory for plaintext while some waits, and not longer. */
static void test_memory_of_plaintext(void **state)
{
    enum { VALUE = 50000 };
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    char request[VALUE + 100];
    int n = snprintf(request, 100, "set k 0 0 %d\r\n", VALUE);

    shake(f, peer);
    memset(request + n, 'v', VALUE);
    memcpy(request + n + VALUE, "\r\n", 3);
    assert_string_equal(ask(f, peer, request), "STORED\r\n");
    peer->full_bytes = 20000;
    assert_int_equal(SSL_write(peer->client.ssl, "get k\r\n", 7), 7);
    receive(peer);
    assert_true(offer(f, peer, 65536));
    assert_ptr_not_equal(peer->conn.tls->out, &f->conns.tls->no_output);
    assert_int_equal(strlen(ask(f, peer, "")), strlen("VALUE k 0 50000\r\n") + VALUE + 7);
    assert_ptr_equal(peer->conn.tls->out, &f->conns.tls->no_output);
    close_fixture(f);
}

/* A connection that ends while references to a value wait gives them back. */
static void test_end_with_plaintext_waiting(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    enum { ROOM = 600000, VALUE = 500000 };
    char *request = malloc(ROOM);
    int n;

    shake(f, peer);
    n = snprintf(request, ROOM, "set k 0 0 %d\r\n", VALUE);
    memset(request + n, 'v', VALUE);
    snprintf(request + n + VALUE, (size_t)(ROOM - n - VALUE), "\r\n");
    assert_string_equal(ask(f, peer, request), "STORED\r\n");
    peer->full_bytes = 1000;
    assert_int_equal(SSL_write(peer->client.ssl, "get k\r\n", 7), 7);
    receive(peer);
    assert_true(offer(f, peer, 65536));
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_BLOCKED);
    assert_true(peer->queued_len < 20000);      /* one record beyond the limit */
    assert_false(net_conn_finish(&peer->conn)); /* close_notify would cut the reply off */
    close_fixture(f);
    free(request);
}

/* Bytes that are no TLS reach no session, before the handshake and after it. */
static void test_plaintext_is_not_executed(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer;
    unsigned i;

    for (i = 0; i < 2; i++) {
        peer = open_peer(f, TLS1_3_VERSION);
        if (i == 1) {
            shake(f, peer);
            assert_string_equal(ask(f, peer, "set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        }
        memcpy(peer->input, "get k\r\n", 7);
        peer->input_len = 7;
        assert_false(cache_session_prefetch_bucket(peer->conn.session, peer->input, 7));
        assert_true(offer(f, peer, 65536));
        turn(f, 2000);
        assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
        /* An alert; to what is no TLS at all OpenSSL sends none. */
        assert_true(peer->queued_len > 0 || i == 0);
        /* A record, and not a reply; its ciphertext may have any letters. */
        assert_true(peer->queued_len == 0 || peer->queued[0] == 21 || peer->queued[0] == 23);
        assert_false(peer->conn.failed);
    }
    close_fixture(f);
}

static void test_ends_in_order(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    shake(f, peer);
    (void)ask(f, peer, "quit\r\n");
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
    assert_int_equal(SSL_get_shutdown(peer->client.ssl), SSL_RECEIVED_SHUTDOWN);
    assert_false(net_conn_finish(&peer->conn)); /* once */
    /* The client ends its stream behind a request, which is answered first. */
    peer = open_peer(f, TLS1_3_VERSION);
    shake(f, peer);
    assert_int_equal(SSL_write(peer->client.ssl, "get none\r\n", 10), 10);
    (void)SSL_shutdown(peer->client.ssl);
    assert_string_equal(ask(f, peer, ""), "END\r\n");
    assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
    assert_true(SSL_get_shutdown(peer->client.ssl) & SSL_RECEIVED_SHUTDOWN);
    /* The server ends. */
    peer = open_peer(f, TLS1_3_VERSION);
    shake(f, peer);
    assert_true(net_conn_finish(&peer->conn));
    (void)ask(f, peer, "");
    assert_true(SSL_get_shutdown(peer->client.ssl) & SSL_RECEIVED_SHUTDOWN);
    close_fixture(f);
}

static void test_handshakes_wait_for_their_turn(void **state)
{
    enum { PEERS = 12 };
    struct fixture *f = open_idle(20, false);
    unsigned i, waiting = 0, last = 0;

    for (i = 0; i < PEERS; i++) {
        struct peer *peer = open_peer(f, TLS1_3_VERSION);

        ssl_client_step(&peer->client);
        receive(peer);
        (void)offer(f, peer, 65536);
        waiting += net_conn_state(&peer->conn) == CACHE_SESSION_BLOCKED;
        assert_int_equal(peer->queued_len == 0, i >= NET_TLS_HANDSHAKES_PER_TURN);
    }
    assert_int_equal(waiting, PEERS - NET_TLS_HANDSHAKES_PER_TURN);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_WAITS), waiting);
    assert_true(net_conns_are_busy(&f->conns));
    net_conns_flush_pending(&f->conns); /* no more in this turn */
    assert_int_equal(f->resumes, 0);
    while (net_conns_are_busy(&f->conns)) {
        net_conns_tick_tls(&f->conns, 2000);
        net_conns_flush_pending(&f->conns);
        assert_true(f->resumes - last <= NET_TLS_HANDSHAKES_PER_TURN);
        last = f->resumes;
        for (i = 0; i < PEERS; i++)
            (void)offer(f, &f->peers[i], 65536);
    }
    for (i = 0; i < PEERS; i++) {
        assert_true(f->peers[i].queued_len > 0);
        if (i >= NET_TLS_HANDSHAKES_PER_TURN)
            assert_int_equal(f->peers[i].resumed, i + 1 - NET_TLS_HANDSHAKES_PER_TURN);
    }
    close_fixture(f);
}

/* With many that wait, the newest is served until the others are few enough to go in order. */
static void test_newest_handshake_first_when_many_wait(void **state)
{
    enum { NEWEST = PEERS_MAX - NET_TLS_HANDSHAKES_PER_TURN - NET_TLS_WAITING_IN_ORDER };
    struct fixture *f = open_idle(20, false);
    unsigned i;

    for (i = 0; i < PEERS_MAX; i++) {
        struct peer *peer = open_peer(f, TLS1_3_VERSION);

        ssl_client_step(&peer->client);
        receive(peer);
        (void)offer(f, peer, 65536);
    }
    /* One that waits ends: it does not count any more. */
    net_conn_close_session(&f->peers[PEERS_MAX - 1].conn);
    while (net_conns_are_busy(&f->conns)) {
        net_conns_tick_tls(&f->conns, 2000);
        net_conns_flush_pending(&f->conns);
    }
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES_NEWEST), NEWEST - 1);
    for (i = 1; i < NEWEST; i++)
        assert_int_equal(f->peers[PEERS_MAX - 1 - i].resumed, i);
    assert_int_equal(f->peers[NET_TLS_HANDSHAKES_PER_TURN].resumed, NEWEST);
    close_fixture(f);
}

/* One that has waited may make one step: the next one has its own turn. */
static void test_turn_is_for_one_step(void **state)
{
    enum { PEERS = 2 * NET_TLS_HANDSHAKES_PER_TURN };
    struct fixture *f = open_idle(20, false);
    struct peer *waited = &f->peers[NET_TLS_HANDSHAKES_PER_TURN];
    unsigned i;

    for (i = 0; i < PEERS; i++) {
        struct peer *peer = open_peer(f, TLS1_3_VERSION);

        ssl_client_step(&peer->client);
        receive(peer);
        if (i <= NET_TLS_HANDSHAKES_PER_TURN)
            (void)offer(f, peer, 65536);
    }
    net_conns_tick_tls(&f->conns, 2000);
    net_conns_flush_pending(&f->conns);
    assert_int_equal(waited->resumed, 1);
    for (i = NET_TLS_HANDSHAKES_PER_TURN; i < PEERS; i++)
        assert_true(offer(f, &f->peers[i], 65536));
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_WAITS), 1);
    while (deliver(f, waited, 65536))
        continue;
    ssl_client_step(&waited->client);
    receive(waited);
    (void)offer(f, waited, 65536);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_WAITS), 2);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKES), 0);
    close_fixture(f);
}

static void test_handshake_timeout(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *slow = open_peer(f, TLS1_3_VERSION);
    struct peer *quick;

    memcpy(slow->input, "\x16\x03\x01", 3);
    slow->input_len = 3;
    (void)offer(f, slow, 65536);
    quick = open_peer(f, TLS1_3_VERSION);
    shake(f, quick);
    turn(f, NET_TLS_HANDSHAKE_US + 1999); /* it began in the turn of 2000 */
    assert_int_equal(net_conn_state(&slow->conn), CACHE_SESSION_OPEN);
    turn(f, NET_TLS_HANDSHAKE_US + 2000);
    assert_int_equal(net_conn_state(&slow->conn), CACHE_SESSION_CLOSING);
    assert_true(slow->resumed > 0);
    assert_int_equal(net_conn_state(&quick->conn), CACHE_SESSION_OPEN);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_TIMEOUTS), 1);
    close_fixture(f);
}

/* Of many that have begun at the same time some are ended in a turn, the others in later ones. */
static void test_timeouts_of_a_turn(void **state)
{
    enum { PEERS = 40, BATCH = 16 };
    struct fixture *f = open_idle(20, false);
    unsigned i;

    for (i = 0; i < PEERS; i++)
        (void)open_peer(f, TLS1_3_VERSION);
    net_conns_tick_tls(&f->conns, 2000);
    for (i = 1; i <= PEERS / BATCH; i++) {
        net_conns_tick_tls(&f->conns, NET_TLS_HANDSHAKE_US + 2000);
        assert_int_equal(counted(f, NET_TLS_HANDSHAKE_TIMEOUTS), i * BATCH);
    }
    net_conns_tick_tls(&f->conns, NET_TLS_HANDSHAKE_US + 2000);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_TIMEOUTS), PEERS);
    close_fixture(f);
}

/* Handshakes that end while they wait for their turn wait no more, and the worker may sleep. */
static void test_timeout_of_handshakes_that_wait(void **state)
{
    enum { PEERS = 12 };
    static struct net_stack_worker worker;
    struct fixture *f = open_idle(20, false);
    unsigned i;

    for (i = 0; i < PEERS; i++) {
        struct peer *peer = open_peer(f, TLS1_3_VERSION);

        ssl_client_step(&peer->client);
        receive(peer);
        (void)offer(f, peer, 65536);
    }
    worker.conns = f->conns;
    assert_int_equal(net_session_app_ops.sleep_us_max(&worker), 0);
    net_conns_tick_tls(&f->conns, 2000);
    assert_true(net_conns_are_busy(&f->conns));
    net_conns_tick_tls(&f->conns, NET_TLS_HANDSHAKE_US + 2000);
    assert_int_equal(counted(f, NET_TLS_HANDSHAKE_TIMEOUTS), PEERS);
    assert_false(net_conns_are_busy(&f->conns));
    assert_true(net_session_app_ops.sleep_us_max(&worker) > 0);
    close_fixture(f);
}

static void test_transport_without_memory(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);

    shake(f, peer);
    peer->no_memory = true;
    assert_int_equal(SSL_write(peer->client.ssl, "version\r\n", 9), 9);
    receive(peer);
    (void)offer(f, peer, 65536);
    assert_true(peer->conn.failed);
    close_fixture(f);
}

/* A client that only has its keys updated, and reads nothing, fills no memory. */
static void test_key_updates_are_bounded(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    unsigned i;

    shake(f, peer);
    (void)ask(f, peer, "version\r\n");
    peer->full_bytes = 2000;
    for (i = 0; i < 1000; i++) {
        assert_int_equal(SSL_key_update(peer->client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        ssl_client_step(&peer->client);
        receive(peer);
        (void)offer(f, peer, 65536);
    }
    assert_true(peer->queued_len < 3000);
    close_fixture(f);
}

/* ---- a library that fails ---------------------------------------------------------------- */

static bool sealing_fails;

static bool seal_or_fail(void *expanded, const uint8_t nonce[TLS_AEAD_NONCE],
                         const uint8_t header[TLS_RECORD_HEADER], uint8_t *data, uint32_t len)
{
    return !sealing_fails && tls_aead_evp.seal(expanded, nonce, header, data, len);
}

/* A connection whose reply cannot be encrypted is closed, and counted: short and long replies. */
static void test_replies_that_cannot_be_encrypted(void **state)
{
    static const char *const gets[] = {"get none\r\n", "get k\r\n"};
    enum { VALUE = 50000 };
    struct fixture *f = open_fixture(20);
    struct tls_aead aead = tls_aead_evp;
    char *request = malloc(VALUE + 100);
    int n = snprintf(request, 100, "set k 0 0 %d\r\n", VALUE);
    struct peer *peer;
    unsigned i;

    memset(request + n, 'v', VALUE);
    memcpy(request + n + VALUE, "\r\n", 3);
    aead.seal = seal_or_fail;
    tls_key_cache_close(f->conns.tls->keys);
    f->conns.tls->keys = tls_key_cache_new(&aead);
    for (i = 0; i < 2; i++) {
        peer = open_peer(f, TLS1_3_VERSION);
        shake(f, peer);
        assert_string_equal(ask(f, peer, request), "STORED\r\n");
        sealing_fails = true;
        assert_string_equal(ask(f, peer, gets[i]), "");
        sealing_fails = false;
        assert_int_equal(net_conn_state(&peer->conn), CACHE_SESSION_CLOSING);
        assert_false(peer->conn.failed);
        assert_int_equal(counted(f, NET_TLS_RECORDS_OUT), i + 1);
        assert_int_equal(cache_counter(f->conns.cache_worker, CACHE_SSL_PROTO_ERRORS), i + 1);
    }
    free(request);
    close_fixture(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_streams_in_any_pieces),
        cmocka_unit_test(test_requests_that_are_opened_ahead),
        cmocka_unit_test(test_opened_request_without_room),
        cmocka_unit_test(test_opened_request_with_little_room),
        cmocka_unit_test(test_batch_has_a_bound_of_plaintext),
        cmocka_unit_test(test_turn_has_a_bound_of_records),
        cmocka_unit_test(test_memory_of_plaintext),
        cmocka_unit_test(test_end_with_plaintext_waiting),
        cmocka_unit_test(test_plaintext_is_not_executed),
        cmocka_unit_test(test_ends_in_order),
        cmocka_unit_test(test_handshakes_wait_for_their_turn),
        cmocka_unit_test(test_newest_handshake_first_when_many_wait),
        cmocka_unit_test(test_turn_is_for_one_step),
        cmocka_unit_test(test_handshake_timeout),
        cmocka_unit_test(test_timeouts_of_a_turn),
        cmocka_unit_test(test_timeout_of_handshakes_that_wait),
        cmocka_unit_test(test_transport_without_memory),
        cmocka_unit_test(test_key_updates_are_bounded),
        cmocka_unit_test(test_replies_that_cannot_be_encrypted),
    };

    with_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    return cmocka_run_group_tests(tests, make_cert, free_cert);
}
