/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sock workers that find no memory for one of their allocations, each in turn: they are not opened,
 * do not begin, or end a connection, and keep nothing (balance.c). The worker runs in this thread.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <fcntl.h>
#include <sys/socket.h>

#include "../balance.h"
#include "sock_rig.h"

#define VALUE 2000
#define REQUESTS 2000
#define WAIT_MS 1

static const struct shape shape = {.connections_max = 64, .requests_per_event = 20, .udp = true};

/* With a socket for TCP and one for UDP. */
static void test_open_without_memory(void **state)
{
    static const uint8_t key[16] = {1};
    struct net_udp_limit *limit = net_udp_limit_create(NET_UDP_REPLY_BYTES_MAX, 0, key);
    struct fixture *f = fixture_idle(&shape);
    struct net_endpoints endpoints = {0};
    struct net_sock_config config = {.cache = f->cache,
                                     .endpoints = &endpoints,
                                     .workers = 1,
                                     .backlog = 64,
                                     .uring = by_uring,
                                     .udp_limit = limit};
    char error[NET_ERROR_MAX];
    struct net_worker *worker;
    unsigned number = 0, left;

    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_TCP, &endpoints, error), 0);
    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_UDP, &endpoints, error), 0);
    do {
        error[0] = '\0';
        (void)balance_fail(++number);
        worker = net_sock_worker_open(&config, error);
        left = balance_fail(0);
        assert_int_equal(worker != NULL, left > 0);
        assert_int_equal(error[0] == '\0', worker != NULL);
    } while (!worker);
    assert_true(number > 3);
    net_worker_close(worker);
    net_udp_limit_destroy(limit);
    fixture_close_idle(f);
}

/* A worker that does not begin has left the cache, and may begin again. */
static void test_begin_without_memory(void **state)
{
    struct fixture *f = fixture_idle(&shape);
    unsigned number = 0, left, failed = 0;
    int rc;

    net_worker_stop(f->workers[0]); /* it ends as soon as it has begun */
    do {
        (void)balance_fail(++number);
        rc = net_worker_run(f->workers[0]);
        left = balance_fail(0);
        failed += rc < 0;
        assert_null(((struct net_sock_worker *)f->workers[0])->conns.cache_worker);
    } while (left == 0);
    assert_int_equal(rc, 0);
    assert_true(failed > 1); /* without a ring it takes epoll */
    fixture_close_idle(f);
}

/* ---- connections ------------------------------------------------------------------------- */

struct life {
    struct net_sock_worker *worker;
    int client;
    bool ended; /* by the server */
    size_t got_len;
};

static void begin_worker(struct net_sock_worker *worker)
{
    worker->conns.cache_worker = cache_join(worker->conns.cache);
    assert_int_equal(worker->io->begin(worker), 0);
    assert_int_equal(net_sock_udp_begin(worker), 0);
}

static void end_worker(struct net_sock_worker *worker)
{
    net_sock_conns_close(worker);
    worker->io->end(worker);
    net_sock_udp_end(worker);
    cache_leave(worker->conns.cache_worker);
    worker->conns.cache_worker = NULL;
}

/* A connection of the worker, with no accept: the kernel would choose the worker. */
static struct life connect_to(struct net_sock_worker *worker)
{
    static const struct net_sock_listener listener = {.kind = NET_ENDPOINT_UNIX,
                                                      .peer = {.transport = "unix"}};
    struct life l = {.worker = worker};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    if (worker->io->accept_flags & SOCK_NONBLOCK)
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    l.client = fds[1];
    if (!net_sock_conn_open(worker, fds[0], &listener, NULL))
        net_sock_conn_refuse(worker, fds[0], &listener, NULL);
    l.ended = fcntl(fds[0], F_GETFD) < 0;
    return l;
}

/* Reads what the server has sent, up to `room` bytes in total. */
static void take(struct life *l, char *got, size_t room)
{
    unsigned number = balance_fail(0);
    ssize_t n = receive(l->client, got + l->got_len, room - l->got_len);

    if (n > 0)
        l->got_len += (size_t)n;
    l->ended = n == 0 || (n < 0 && errno != EAGAIN);
    (void)balance_fail(number);
}

/* Sends, and lets the worker run until so many bytes have come or the connection has ended. */
static void exchange(struct life *l, const char *request, size_t request_len, char *got, size_t due)
{
    if (!l->ended)
        must_send(l->client, request, request_len);
    while (!l->ended && l->got_len < due) {
        assert_int_equal(net_sock_turn(l->worker, WAIT_MS), 0);
        take(l, got, due);
    }
}

/*
 * Sends many requests before it reads, so that replies queue in the server. Returns whether all
 * were answered; if not, the connection has ended.
 */
static bool live(struct net_sock_worker *worker, unsigned *number)
{
    char *requests = repeat("get v\r\n", REQUESTS), *value = repeat("v", VALUE);
    char reply[VALUE + 100];
    size_t each =
        (size_t)snprintf(reply, sizeof(reply), "VALUE v 0 %d\r\n%s\r\nEND\r\n", VALUE, value);
    char *due = repeat(reply, REQUESTS), *got = malloc(each * REQUESTS);
    struct life l;

    (void)balance_fail(*number);
    l = connect_to(worker);
    exchange(&l, requests, strlen(requests), got, each * REQUESTS);
    *number = balance_fail(0);
    assert_true(l.ended || l.got_len == each * REQUESTS);
    assert_memory_equal(got, due, l.got_len);
    close(l.client);
    free(requests);
    free(value);
    free(due);
    free(got);
    return !l.ended;
}

static void test_connections_without_memory(void **state)
{
    unsigned number = 0, left, ended = 0;

    do {
        struct fixture *f = fixture_idle(&shape);
        struct net_sock_worker *worker = (struct net_sock_worker *)f->workers[0];
        struct life l;
        char got[8];
        char request[VALUE + 100];
        int head = snprintf(request, sizeof(request), "set v 0 0 %d\r\n", VALUE);

        memset(request + head, 'v', VALUE);
        memcpy(request + head + VALUE, "\r\n", 2);
        begin_worker(worker);
        l = connect_to(worker);
        exchange(&l, request, (size_t)head + VALUE + 2, got, strlen("STORED\r\n"));
        assert_memory_equal(got, "STORED\r\n", 8);
        left = ++number;
        ended += !live(worker, &left);
        close(l.client);
        end_worker(worker);
        fixture_close_idle(f);
    } while (left == 0);
    assert_true(ended > 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_begin_without_memory),
        cmocka_unit_test(test_connections_without_memory),
    };
    int skipped = rig_begin(argc, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
