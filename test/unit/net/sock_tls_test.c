/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS over a connection of a sock worker. The socket is one of the kernel; the client is OpenSSL's.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "../tls/tls_client.h"
#include "cache_end.h"
#include "net/sock_worker.h"
#include "net/tls_conn.h"

static struct cert server_cert;

struct fixture {
    struct net_sock_worker worker; /* first */
    struct net_sock_conn *conn;
    struct tls_context *server;
    struct tls_client client;
    int fd; /* the client's end */
};

/* ---- the socket -------------------------------------------------------------------------- */

static int begin(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    return 0;
}

static int want(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest)
{
    conn->interest = interest;
    return 0;
}

static enum net_sendq_result flush(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    uint64_t writes = 0;

    return net_sendq_flush(&conn->out, &worker->out_pool, conn->source.fd, &writes);
}

static const struct net_sock_io io = {
    .conn_bytes = sizeof(struct net_sock_conn),
    .conn_begin = begin,
    .conn_want = want,
    .conn_flush = flush,
    .conn_end = net_sock_conn_free,
};

/* ---- the fixture ------------------------------------------------------------------------- */

static void release_ref(void *worker, void *cookie)
{
    cache_release(((struct net_sock_worker *)worker)->conns.cache_worker, cookie);
}

static void open_conn(struct fixture *f)
{
    static const struct net_sock_listener listener = {
        .kind = NET_ENDPOINT_UNIX, .peer = {.transport = "unix", .tls = CACHE_TLS_ON}};
    struct net_sock_worker *worker = &f->worker;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_true(net_sock_conn_open(worker, fds[0], &listener, NULL));
    f->conn = net_sock_conn_of(U_CONTAINER_OF(worker->conns.open.next, struct net_conn, link));
    f->fd = fds[1];
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct net_sock_worker *worker = &f->worker;
    struct cache_config config = {.start_us = 1, .start_unix_s = 1700000000};
    const struct tls_server_config tls = {.chain_cert = server_cert.cert_path,
                                          .key = server_cert.key_path,
                                          .key_format = TLS_KEY_PEM,
                                          .min_version = TLS_VERSION_1_2};
    const char *why = NULL;
    char error[TLS_ERROR_MAX];

    cache_settings_defaults(&config.settings);
    config.settings.threads = 1;
    worker->io = &io;
    net_conns_init(&worker->conns, &net_sock_transport, cache_create(&config, &why), 0);
    assert_non_null(worker->conns.cache);
    worker->conns.cache_worker = cache_join(worker->conns.cache);
    u_list_init(&worker->ready);
    net_sendq_pool_init(&worker->out_pool, release_ref, worker);
    f->server = tls_server_open(&tls, error);
    assert_non_null(f->server);
    worker->conns.tls = net_tls_open(&worker->conns, f->server, NULL, NULL, NULL);
    assert_non_null(worker->conns.tls);
    open_conn(f);
    ssl_client_open(&f->client, 0, NULL, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    net_sock_conns_close(&f->worker);
    net_conns_free(&f->worker.conns);
    net_sendq_pool_free(&f->worker.out_pool);
    cache_leave(f->worker.conns.cache_worker);
    cache_end(f->worker.conns.cache);
    tls_context_close(f->server);
    ssl_client_close(&f->client);
    close(f->fd);
    free(f);
    return 0;
}

static bool is_open(const struct fixture *f)
{
    return !u_list_is_empty(&f->worker.conns.open);
}

/* What the client has to send comes in, and what the socket has goes to the client. */
static void carry(struct fixture *f)
{
    uint8_t bytes[16384];
    ssize_t n = BIO_read(f->client.out, bytes, (int)sizeof(bytes));

    if (n > 0) {
        assert_true(net_sock_conn_input(&f->worker, f->conn, bytes, (uint32_t)n) >= 0);
        net_sock_conn_update(&f->worker, f->conn);
    }
    net_conns_flush_pending(&f->worker.conns);
    net_conns_tick_tls(&f->worker.conns, 2000);
    while ((n = recv(f->fd, bytes, sizeof(bytes), 0)) > 0)
        BIO_write(f->client.in, bytes, (int)n);
}

static void shake(struct fixture *f)
{
    unsigned round;

    for (round = 0; round < 20 && !SSL_is_init_finished(f->client.ssl); round++) {
        ssl_client_step(&f->client);
        carry(f);
    }
    assert_false(f->client.failed);
    assert_true(SSL_is_init_finished(f->client.ssl));
}

static void request(struct fixture *f, const char *text)
{
    assert_int_equal(SSL_write(f->client.ssl, text, (int)strlen(text)), (int)strlen(text));
    carry(f);
}

/* The client has this reply, then the server's close_notify. */
static void expect_reply_and_end(struct fixture *f, const char *reply)
{
    char got[100] = "";
    int n = SSL_read(f->client.ssl, got, (int)sizeof(got) - 1);

    assert_string_equal(n > 0 ? got : "", reply);
    n = SSL_read(f->client.ssl, got, (int)sizeof(got));
    assert_int_equal(SSL_get_error(f->client.ssl, n), SSL_ERROR_ZERO_RETURN);
    assert_false(is_open(f));
}

/* ---- tests ------------------------------------------------------------------------------- */

/* A session that ends tells its client so, behind the replies (RFC 8446 6.1). */
static void test_quit_ends_in_order(void **state)
{
    struct fixture *f = *state;

    shake(f);
    request(f, "get a\r\nquit\r\n");
    expect_reply_and_end(f, "END\r\n");
}

/* So does the end of the client's stream, without a close_notify of the client. */
static void test_end_of_input_ends_in_order(void **state)
{
    struct fixture *f = *state;

    shake(f);
    request(f, "get a\r\n");
    assert_true(is_open(f));
    f->conn->eof = true;
    net_sock_conn_update(&f->worker, f->conn);
    carry(f);
    expect_reply_and_end(f, "END\r\n");
}

/* And a connection that is closed for being idle. */
static void test_idle_connection_ends_in_order(void **state)
{
    struct fixture *f = *state;
    struct net_conns *conns = &f->worker.conns;
    struct net_counter closed = {0};

    shake(f);
    conns->idle_timeout_s = 10;
    f->conn->conn.timed = true;
    cache_tick(conns->cache_worker, 30 * 1000000);
    net_conns_check_idle(conns, 30 * 1000000, &closed);
    assert_int_equal(net_counter_read(&closed), 1);
    carry(f);
    expect_reply_and_end(f, "");
}

/* A worker that is opened with TLS and closed keeps nothing; balance.c looks for it. */
static void test_worker_with_tls(void **state)
{
    struct fixture *f = *state;
    struct net_endpoints none = {0};
    struct net_sock_config config = {
        .cache = f->worker.conns.cache, .endpoints = &none, .tls = f->server, .workers = 1};
    char error[NET_ERROR_MAX];
    struct net_worker *worker = net_sock_worker_open(&config, error);

    assert_non_null(worker);
    net_worker_close(worker);
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
        cmocka_unit_test_setup_teardown(test_quit_ends_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_of_input_ends_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_connection_ends_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_with_tls, setup, teardown),
    };

    return cmocka_run_group_tests(tests, make_cert, free_cert);
}
