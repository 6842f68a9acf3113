/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with TLS that move from one worker to another, through the records of a handover. The
 * transports are queues in memory; the peers are OpenSSL's clients, which notice nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../balance.h"
#include "../tls/tls_client.h"
#include "base/prng.h"
#include "cache_end.h"
#include "net/tls_handover.h"

#define QUEUE_MAX (1 << 20)
#define SEEDS 30

static struct cert server_cert;

/* A connection, and the client on the other end. */
struct peer {
    struct net_conn conn; /* first */
    struct net_conns *conns;
    uint8_t *queued; /* to the client */
    uint32_t queued_len;
    uint32_t full_bytes; /* from which on the queue is full */
    uint8_t *input;      /* from the client, not consumed yet */
    uint32_t input_len;
    struct tls_client client;
};

struct fixture {
    struct cache *cache;
    struct tls_context *server;
    struct net_conns conns[2]; /* of the old process and of the new one */
    struct net_handover handover;
};

/* ---- the transport ----------------------------------------------------------------------- */

static uint8_t *queue_reserve(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                              uint32_t *room)
{
    struct peer *peer = (struct peer *)conn;

    assert_true(peer->queued_len + need <= QUEUE_MAX);
    *room = QUEUE_MAX - peer->queued_len;
    return peer->queued + peer->queued_len;
}

static void queue_commit(struct net_conns *conns, struct net_conn *conn, uint32_t used)
{
    ((struct peer *)conn)->queued_len += used;
}

static bool queue_is_full(struct net_conns *conns, struct net_conn *conn)
{
    return ((struct peer *)conn)->queued_len >= ((struct peer *)conn)->full_bytes;
}

static const struct net_transport transport = {
    .reserve = queue_reserve,
    .commit = queue_commit,
    .is_full = queue_is_full,
    .resume = net_conn_resume,
};

/* ---- the fixture ------------------------------------------------------------------------- */

static struct fixture *open_fixture(uint32_t requests_per_event)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct cache_config config = {.start_us = 1000, .start_unix_s = 1700000000};
    const struct tls_server_config tls = {.chain_cert = server_cert.cert_path,
                                          .key = server_cert.key_path,
                                          .key_format = TLS_KEY_PEM,
                                          .min_version = TLS_VERSION_1_2};
    const char *why = NULL;
    char error[TLS_ERROR_MAX];
    unsigned i;

    cache_settings_defaults(&config.settings);
    config.settings.threads = 2;
    config.settings.requests_per_event = requests_per_event;
    f->cache = cache_create(&config, &why);
    assert_non_null(f->cache);
    f->server = tls_server_open(&tls, error);
    assert_non_null(f->server);
    for (i = 0; i < 2; i++) {
        net_conns_init(&f->conns[i], &transport, f->cache, 0);
        f->conns[i].cache_worker = cache_join(f->cache);
        f->conns[i].tls = net_tls_open(&f->conns[i], f->server, NULL, NULL, NULL);
        assert_non_null(f->conns[i].tls);
    }
    return f;
}

static void close_fixture(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        net_conns_free(&f->conns[i]);
        cache_leave(f->conns[i].cache_worker);
    }
    net_handover_free(&f->handover, false);
    cache_end(f->cache);
    tls_context_close(f->server);
    free(f);
}

static uint64_t counted(const struct net_conns *conns, enum net_tls_counter counter)
{
    return net_counter_read(&conns->tls->counters[counter]);
}

static bool open_conn(struct net_conns *conns, struct peer *peer)
{
    struct cache_peer from = {.transport = "tcp", .tls = CACHE_TLS_ON};

    memset(&peer->conn, 0, sizeof(peer->conn));
    u_list_init(&peer->conn.link);
    peer->conns = conns;
    return net_conn_open_session(conns, &peer->conn, &from);
}

/* What the client has to send comes in, and what is queued goes to it, once. */
static void carry(struct peer *peer, uint32_t step)
{
    enum cache_session_state state = net_conn_state(&peer->conn);
    uint32_t len, used;
    int n = BIO_read(peer->client.out, peer->input + peer->input_len,
                     (int)(QUEUE_MAX - peer->input_len));

    peer->input_len += n > 0 ? (uint32_t)n : 0;
    len = u_min32(step, peer->input_len);
    if (len > 0 && (state == CACHE_SESSION_OPEN || state == CACHE_SESSION_YIELDED)) {
        used = net_conn_input(peer->conns, &peer->conn, peer->input, len);
        memmove(peer->input, peer->input + used, peer->input_len - used);
        peer->input_len -= used;
    }
    len = u_min32(step, peer->queued_len);
    if (len > 0) {
        BIO_write(peer->client.in, peer->queued, (int)len);
        memmove(peer->queued, peer->queued + len, peer->queued_len - len);
        peer->queued_len -= len;
    }
    if (net_conn_state(&peer->conn) == CACHE_SESSION_BLOCKED &&
        peer->queued_len <= peer->full_bytes / 2)
        net_conn_resume(peer->conns, &peer->conn);
    net_conns_flush_pending(peer->conns);
    net_conns_tick_tls(peer->conns, 2000);
}

static struct peer *open_peer(struct fixture *f, int version)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    unsigned round;

    peer->queued = malloc(QUEUE_MAX);
    peer->input = malloc(QUEUE_MAX);
    peer->full_bytes = QUEUE_MAX / 2;
    assert_true(open_conn(&f->conns[0], peer));
    ssl_client_open(&peer->client, version, NULL, NULL);
    for (round = 0; round < 20 && !SSL_is_init_finished(peer->client.ssl); round++) {
        ssl_client_step(&peer->client);
        carry(peer, QUEUE_MAX);
        carry(peer, QUEUE_MAX);
    }
    carry(peer, QUEUE_MAX); /* the last message */
    assert_true(SSL_is_init_finished(peer->client.ssl));
    return peer;
}

static void close_peer(struct peer *peer)
{
    net_conn_close_session(&peer->conn);
    ssl_client_close(&peer->client);
    free(peer->queued);
    free(peer->input);
    free(peer);
}

/* ---- moving ------------------------------------------------------------------------------ */

/* Makes the record of a connection at rest, the only one of the handover. Returns it. */
static const struct net_handover_record *hand_over(struct fixture *f, const struct peer *peer,
                                                   struct cache_session_saved *saved)
{
    struct net_handover_record record = {.kind = NET_HANDOVER_SOCKET};
    struct net_tls_moving moving;
    size_t at = 0;

    net_handover_free(&f->handover, false);
    net_tls_export(&peer->conn, saved, &moving, &record);
    record.input_bytes = saved->line_bytes + peer->input_len;
    record.fd = net_handover_add_fd(&f->handover, -1);
    net_handover_begin(&f->handover, &record);
    net_handover_add(&f->handover, saved->line, saved->line_bytes);
    net_handover_add(&f->handover, peer->input, peer->input_len);
    net_tls_hand_over(&moving, &record, &f->handover);
    net_handover_end(&f->handover, &record);
    assert_int_equal(moving.state.session.magic, 0); /* it is zeroed */
    assert_true(net_handover_is_valid(&f->handover));
    return net_handover_next(&f->handover, &at);
}

/* The other worker continues. Returns whether it can. */
static bool take_over(struct fixture *f, struct peer *peer,
                      const struct net_handover_record *record,
                      const struct cache_session_saved *saved)
{
    struct net_conns *to = peer->conns == &f->conns[0] ? &f->conns[1] : &f->conns[0];
    uint32_t begun =
        u_min32(saved->line_bytes, record->input_bytes); /* of a record, taken before */
    const uint8_t *input = net_handover_input(record);
    bool open;

    net_conn_close_session(&peer->conn);
    to->taken = record;
    open = open_conn(to, peer) && net_conn_continue(&peer->conn, saved);
    to->taken = NULL;
    if (open && begun > 0)
        assert_int_equal(net_conn_input(to, &peer->conn, input, begun), begun);
    peer->input_len = record->input_bytes - begun;
    memcpy(peer->input, input + begun, peer->input_len);
    return open;
}

/* Moves the connection, if it is at rest. Returns whether it has. */
static bool move(struct fixture *f, struct peer *peer)
{
    struct cache_session_saved saved;
    const struct net_handover_record *record;

    if (net_conn_rest(&peer->conn, &saved) != CACHE_REST_MOVES)
        return false;
    record = hand_over(f, peer, &saved);
    assert_true(take_over(f, peer, record, &saved));
    return true;
}

/* Sends a request, and moves before or after each piece. Returns all that is answered. */
static const char *ask(struct fixture *f, struct peer *peer, const char *request, uint32_t step)
{
    static char got[65536];
    int len = 0, n, quiet = 0;

    if (request[0] != '\0')
        assert_int_equal(SSL_write(peer->client.ssl, request, (int)strlen(request)),
                         (int)strlen(request));
    while (quiet < 3) {
        carry(peer, step);
        n = ssl_client_read(&peer->client, got + len, (int)sizeof(got) - 1 - len);
        assert_false(peer->client.failed || peer->conn.failed);
        len += n;
        quiet = n > 0 || peer->input_len > 0 || peer->queued_len > 0 ? 0 : quiet + 1;
        if (step < QUEUE_MAX)
            (void)move(f, peer);
    }
    got[len] = '\0';
    return got;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_session_continues_behind_each_byte(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    uint32_t step;

    for (step = 1; step < 40; step += 3) {
        assert_string_equal(ask(f, peer, "set k 0 0 2\r\nab\r\n", step), "STORED\r\n");
        assert_string_equal(ask(f, peer, "get k\r\nget k\r\nge", step),
                            "VALUE k 0 2\r\nab\r\nEND\r\nVALUE k 0 2\r\nab\r\nEND\r\n");
        assert_string_equal(ask(f, peer, "t k\r\n", step), "VALUE k 0 2\r\nab\r\nEND\r\n");
    }
    assert_true(counted(&f->conns[0], NET_TLS_TAKEN_OVER) > 100);
    assert_true(counted(&f->conns[1], NET_TLS_TAKEN_OVER) > 100);
    close_peer(peer);
    close_fixture(f);
}

static void add(char *text, size_t *len, const char *more)
{
    memcpy(text + *len, more, strlen(more) + 1);
    *len += strlen(more);
}

/* A record of which the session has used a part: what is left moves, and the bytes behind it. */
static void test_plaintext_that_is_left_moves(void **state)
{
    struct fixture *f = open_fixture(1); /* the session stops after each request */
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    char request[2000], reply[4000];
    size_t request_len = 0, reply_len = 0;
    unsigned i, before;

    assert_string_equal(ask(f, peer, "set k 0 0 2\r\nab\r\n", 65536), "STORED\r\n");
    for (i = 0; i < 60; i++) {
        add(request, &request_len, "get k\r\n");
        add(reply, &reply_len, "VALUE k 0 2\r\nab\r\nEND\r\n");
    }
    before = (unsigned)counted(&f->conns[0], NET_TLS_TAKEN_OVER);
    assert_string_equal(ask(f, peer, request, 65536), reply);
    assert_true(counted(&f->conns[0], NET_TLS_TAKEN_OVER) > before + 10);
    close_peer(peer);
    close_fixture(f);
}

static void test_key_updates_after_a_move(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    unsigned i;

    for (i = 0; i < 10; i++) {
        assert_true(move(f, peer));
        assert_int_equal(SSL_key_update(peer->client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_string_equal(ask(f, peer, "get k\r\n", 7 + i), "END\r\n");
    }
    close_peer(peer);
    close_fixture(f);
}

/* TLS 1.2, whose records stay with OpenSSL, and handshakes do not move. */
static void test_connections_that_end(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_2_VERSION);
    struct peer other = {.queued = NULL};
    struct cache_session_saved saved;

    assert_string_equal(ask(f, peer, "get k\r\n", QUEUE_MAX), "END\r\n");
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_ENDS);
    assert_true(open_conn(&f->conns[0], &other));
    assert_int_equal(net_conn_rest(&other.conn, &saved), CACHE_REST_ENDS);
    net_tls_count_left_out(&other.conn);
    assert_int_equal(counted(&f->conns[0], NET_TLS_TAKEOVER_CLOSED), 1);
    net_conn_close_session(&other.conn);
    close_peer(peer);
    close_fixture(f);
}

/* One that had not begun its handshake, as it waited for a session, begins it. */
static void test_handshake_that_had_not_begun(void **state)
{
    const struct net_handover_record record = {.kind = NET_HANDOVER_SOCKET, .tls = CACHE_TLS_ON};
    struct fixture *f = open_fixture(20);
    struct peer peer = {.queued = NULL};

    f->conns[1].taken = &record;
    assert_true(open_conn(&f->conns[1], &peer));
    f->conns[1].taken = NULL;
    assert_non_null(peer.conn.tls->handshake);
    assert_int_equal(counted(&f->conns[1], NET_TLS_CONNECTIONS), 1);
    net_conn_close_session(&peer.conn);
    close_fixture(f);
}

/* The bytes of TLS cut anywhere, or changed: no session, or one that serves or fails cleanly. */
static void test_malformed_state_is_refused(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    struct cache_session_saved saved;
    struct net_handover_record *record;
    uint32_t bytes, refused = 0;
    uint8_t *copy;
    size_t len;

    assert_string_equal(ask(f, peer, "get", QUEUE_MAX), "");
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_MOVES);
    (void)hand_over(f, peer, &saved);
    len = f->handover.len;
    record = calloc(1, len);
    for (bytes = 1; bytes <= sizeof(struct net_tls_state) + 3; bytes++) {
        copy = memcpy(record, f->handover.bytes, len);
        record->tls_bytes = bytes;
        refused += !take_over(f, peer, record, &saved);
        if (bytes < sizeof(struct net_tls_state))
            assert_int_equal(refused, bytes);
        net_conn_close_session(&peer->conn);
        copy[sizeof(*record) + record->input_bytes + bytes - 1] ^= 0xff;
        (void)take_over(f, peer, record, &saved);
        if (peer->conn.session && record->input_bytes > 0)
            carry(peer, QUEUE_MAX);
    }
    assert_int_equal(refused, sizeof(struct net_tls_state) - 1);
    /* More than the byte that the transport offers again. */
    memcpy(record, f->handover.bytes, len);
    net_conn_close_session(&peer->conn);
    record->tls_bytes = sizeof(struct net_tls_state);
    ((uint8_t *)
         record)[sizeof(*record) + record->input_bytes + offsetof(struct net_tls_state, skip)] = 2;
    assert_false(take_over(f, peer, record, &saved));
    free(record);
    close_peer(peer);
    close_fixture(f);
}

/*
 * Without one of its allocations, each in turn, a connection ends, or OpenSSL does without it; with
 * all of them it continues.
 */
static void test_take_over_without_memory(void **state)
{
    struct fixture *f = open_fixture(20);
    struct peer *peer = open_peer(f, TLS1_3_VERSION);
    const struct net_handover_record *record;
    unsigned number = 0, unopened = 0;
    struct cache_session_saved saved;
    struct peer other = {.queued = NULL};
    bool open;

    assert_true(open_conn(&f->conns[1], &other)); /* now the cache has memory for sessions */
    net_conn_close_session(&other.conn);
    assert_string_equal(ask(f, peer, "get", QUEUE_MAX), "");
    assert_int_equal(net_conn_rest(&peer->conn, &saved), CACHE_REST_MOVES);
    record = hand_over(f, peer, &saved);
    for (;;) {
        peer->conns = &f->conns[0];
        (void)balance_fail(++number);
        open = take_over(f, peer, record, &saved);
        if (balance_fail(0) > 0)
            break;
        unopened += peer->conn.session == NULL;
        assert_int_equal(counted(&f->conns[1], NET_TLS_TAKEOVER_CLOSED), unopened);
        net_conn_close_session(&peer->conn);
    }
    assert_true(open);
    assert_true(unopened > 2);
    assert_string_equal(ask(f, peer, " k\r\n", QUEUE_MAX), "END\r\n");
    close_peer(peer);
    close_fixture(f);
}

/* Requests and replies in pieces of chance, with moves whenever the connection is at rest. */
static void test_streams_with_moves_anywhere(void **state)
{
    static const uint32_t limits[] = {1, 3000, 20000};
    static char requests[65536], replies[65536], value[2100];
    uint32_t seed, moves = 0;

    for (seed = 0; seed < SEEDS; seed++) {
        size_t requests_len = 0, replies_len = 0, sent = 0, got_len = 0;
        struct fixture *f = open_fixture(seed % 3 == 0 ? 1 : 20);
        struct peer *peer = open_peer(f, TLS1_3_VERSION);
        static char got[65536];
        struct u_prng prng;
        unsigned i, idle;
        int n;

        u_prng_seed(&prng, seed);
        peer->full_bytes = limits[seed % 3];
        for (i = 0; i < 10; i++) {
            snprintf(value, sizeof(value), "%0*u\r\n", (int)(1 + u_prng_below(&prng, 2000)), i);
            n = snprintf(requests + requests_len, 100, "set k 0 0 %u\r\n",
                         (unsigned)strlen(value) - 2);
            requests_len += (size_t)n;
            add(requests, &requests_len, value);
            add(requests, &requests_len, "get k\r\n");
            n = snprintf(replies + replies_len, 100, "STORED\r\nVALUE k 0 %u\r\n",
                         (unsigned)strlen(value) - 2);
            replies_len += (size_t)n;
            add(replies, &replies_len, value);
            add(replies, &replies_len, "END\r\n");
        }
        for (idle = 0; idle < 2000 && got_len < replies_len; idle++) {
            n = (int)u_min64(1 + u_prng_below(&prng, 3000), requests_len - sent);
            if (n > 0 && u_prng_below(&prng, 3) == 0) {
                assert_int_equal(SSL_write(peer->client.ssl, requests + sent, n), n);
                sent += (size_t)n;
            }
            carry(peer, 1 + u_prng_below(&prng, 4000));
            moves += u_prng_below(&prng, 2) == 0 && move(f, peer);
            while ((n = ssl_client_read(&peer->client, got + got_len,
                                        (int)(sizeof(got) - got_len))) > 0)
                got_len += (size_t)n;
            assert_false(peer->conn.failed || peer->client.failed);
        }
        assert_int_equal(got_len, replies_len);
        assert_memory_equal(got, replies, got_len);
        close_peer(peer);
        close_fixture(f);
    }
    assert_true(moves > SEEDS);
}

static int make_cert(void **state)
{
    cert_make(&server_cert, "server", NULL);
    return 0;
}

static int free_cert(void **state)
{
    cert_free(&server_cert);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_continues_behind_each_byte),
        cmocka_unit_test(test_plaintext_that_is_left_moves),
        cmocka_unit_test(test_key_updates_after_a_move),
        cmocka_unit_test(test_connections_that_end),
        cmocka_unit_test(test_handshake_that_had_not_begun),
        cmocka_unit_test(test_malformed_state_is_refused),
        cmocka_unit_test(test_take_over_without_memory),
        cmocka_unit_test(test_streams_with_moves_anywhere),
    };

    return cmocka_run_group_tests(tests, make_cert, free_cert);
}
