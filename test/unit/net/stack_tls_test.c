/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS over the own TCP/IP stack: clients of OpenSSL on connections of the rig. Requests that come
 * as a record of their own take the fast path. With the argument "split" the worker has two sides.
 */
#include "stack_rig.h"

#include "../tls/tls_client.h"

#define ROUNDS_MAX 40

struct secured {
    struct client *client;
    struct tls_client tls;
    char bytes[4096]; /* to be sent */
};

static struct cert server_cert;
static struct tls_context *server;

/* ---- the rig ----------------------------------------------------------------------------- */

static int setup_tls(void **state)
{
    struct tls_server_config config = {.key_format = TLS_KEY_PEM, .min_version = TLS_VERSION_1_2};
    char error[TLS_ERROR_MAX];

    cert_make(&server_cert, "server", NULL);
    config.chain_cert = server_cert.cert_path;
    config.key = server_cert.key_path;
    server = tls_server_open(&config, error);
    assert_non_null(server);
    return 0;
}

static int teardown_tls(void **state)
{
    tls_context_close(server);
    cert_free(&server_cert);
    return 0;
}

static struct fixture *open_secured_server(uint32_t connections_max, uint32_t idle_timeout_s)
{
    const struct shape shape = {
        .connections_max = connections_max, .idle_timeout_s = idle_timeout_s, .tls = server};

    return fixture_open(&shape);
}

/* What both have to say reaches the other end. */
static void exchange(struct fixture *f, struct secured *s)
{
    int n = BIO_read(s->tls.out, s->bytes, sizeof(s->bytes));

    if (n > 0)
        client_send(s->client, s->bytes, (size_t)n);
    steps(f, 20);
    if (s->client->got_len > 0)
        BIO_write(s->tls.in, s->client->got, (int)s->client->got_len);
    s->client->got_len = 0;
}

static void secured_open(struct fixture *f, struct secured *s)
{
    unsigned i;

    s->client = client_open(f);
    ssl_client_open(&s->tls, TLS1_3_VERSION, NULL, NULL);
    for (i = 0; i < ROUNDS_MAX && !SSL_is_init_finished(s->tls.ssl); i++) {
        ssl_client_step(&s->tls);
        exchange(f, s);
    }
    assert_true(SSL_is_init_finished(s->tls.ssl));
    exchange(f, s); /* the last message */
}

static void secured_ask(struct fixture *f, struct secured *s, const char *request,
                        const char *reply)
{
    char got[100] = "";
    int len = 0, more;
    unsigned i;

    assert_int_equal(SSL_write(s->tls.ssl, request, (int)strlen(request)), strlen(request));
    for (i = 0; i < ROUNDS_MAX && len < (int)strlen(reply); i++) {
        exchange(f, s);
        while ((more = ssl_client_read(&s->tls, got + len, (int)sizeof(got) - 1 - len)) > 0)
            len += more;
    }
    assert_string_equal(got, reply);
}

/* ---- tests ------------------------------------------------------------------------------- */

struct bytes {
    unsigned long read, written;
};

static void take_bytes(void *ctx, const char *name, const char *value)
{
    struct bytes *bytes = ctx;

    if (strcmp(name, "bytes_read") == 0)
        bytes->read = strtoul(value, NULL, 10);
    if (strcmp(name, "bytes_written") == 0)
        bytes->written = strtoul(value, NULL, 10);
}

/* The bytes of a request and its reply are counted as without TLS. */
static void test_bytes_are_counted(void **state)
{
    static const char reply[] = "VALUE a 0 1\r\n1\r\nEND\r\n";
    struct fixture *f = open_secured_server(64, 0);
    struct secured client;
    struct bytes before, after;

    *state = f;
    secured_open(f, &client);
    secured_ask(f, &client, "set a 0 0 1\r\n1\r\n", "STORED\r\n");
    assert_true(cache_stats_read(f->cache, f->now_us, NULL, take_bytes, &before));
    secured_ask(f, &client, "get a\r\n", reply);
    assert_true(cache_stats_read(f->cache, f->now_us, NULL, take_bytes, &after));
    assert_int_equal(after.read - before.read, strlen("get a\r\n"));
    assert_int_equal(after.written - before.written, strlen(reply));
    ssl_client_close(&client.tls);
    teardown(state);
}

/* As test_idle_behind_a_busy_one() of stack_worker_test.c. */
static void test_idle_behind_a_busy_one(void **state)
{
    struct fixture *f = open_secured_server(64, 5);
    struct secured busy, quiet;
    unsigned i;

    *state = f;
    secured_open(f, &busy);
    secured_open(f, &quiet);
    secured_ask(f, &busy, "set a 0 0 1\r\n1\r\n", "STORED\r\n");
    secured_ask(f, &quiet, "mn\r\n", "MN\r\n");
    for (i = 0; i < 8; i++) {
        f->now_us = (f->now_us / 1000000 + 1) * 1000000 + 700000;
        steps(f, 10);
        f->now_us += 200000;
        secured_ask(f, &busy, "get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    }
    assert_true(quiet.client->eof);
    assert_false(busy.client->eof);
    exchange(f, &quiet);
    (void)ssl_client_read(&quiet.tls, quiet.bytes, sizeof(quiet.bytes));
    assert_true(SSL_get_shutdown(quiet.tls.ssl) & SSL_RECEIVED_SHUTDOWN);
    ssl_client_close(&busy.tls);
    ssl_client_close(&quiet.tls);
    teardown(state);
}

/* A client that is one too many is not sent a text that it could not read. */
static void test_refusal_has_no_words(void **state)
{
    struct fixture *f = open_secured_server(1, 0);
    struct secured client;
    struct client *refused;

    *state = f;
    secured_open(f, &client);
    refused = client_open(f);
    steps(f, 20);
    assert_true(refused->eof);
    assert_int_equal(refused->got_len, 0);
    assert_int_equal(counter(f, NET_STACK_REJECTED), 1);
    secured_ask(f, &client, "mn\r\n", "MN\r\n");
    ssl_client_close(&client.tls);
    teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_counted),
        cmocka_unit_test(test_idle_behind_a_busy_one),
        cmocka_unit_test(test_refusal_has_no_words),
    };

    if (argc > 1 && strcmp(argv[1], "split") == 0)
        rig_threading = NET_THREADING_SPLIT;
    return cmocka_run_group_tests(tests, setup_tls, teardown_tls);
}
