/* SPDX-License-Identifier: BSD-3-Clause */
/* Where sock workers listen, and connections that they cannot accept, or not yet. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "sock_rig.h"

/* Descriptors that a test without enough of them may have. */
#define FILES_MAX 128

/* No program that is started later has the sockets. */
static void expect_close_on_exec(const struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        assert_int_equal(
            fcntl(((struct net_sock_worker *)f->workers[i])->listeners[0].source.fd, F_GETFD),
            FD_CLOEXEC);
}

static void test_too_many_connections(void **state)
{
    struct fixture *f = fixture_open(2);
    int first = client_open(f);
    int second = client_open(f);
    int third;

    expect_close_on_exec(f);
    ask(first, "get a\r\n", "END\r\n");
    ask(second, "get a\r\n", "END\r\n");
    third = client_open(f);
    expect(third, "ERROR Too many open connections\r\n");
    expect_end(third);
    close(first);
    close(second);
    close(third);
    fixture_close(f);
}

/* Without descriptors to accept with, the server waits instead of spinning, and recovers. */
static void test_no_descriptors(void **state)
{
    int clients[CLIENTS_MAX];
    int fillers[FILES_MAX];
    unsigned client_count;
    struct rlimit limit, low;
    struct fixture *f;
    unsigned n = 0;
    uint64_t begin_us;
    int fd;

    if (getenv("UCACHED_VALGRIND")) {
        print_message("skipped: valgrind closes accepted descriptors above the limit\n");
        skip();
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = FILES_MAX;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    f = fixture_open(64);
    client_count = meet_workers(f, clients);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    while ((fillers[n] = dup(fd)) >= 0)
        n++;
    begin_us = net_clock_us();
    must_connect(f, fd);
    wait_for_count(f, NET_SOCK_ACCEPT_PAUSES, 1);
    while (n > 0)
        close(fillers[--n]);
    /* Each pause lasts longer than 2 ms, which bounds their number. */
    assert_true(counter(f, NET_SOCK_ACCEPT_PAUSES) <= 10 + (net_clock_us() - begin_us) / 2000);
    ask(fd, "get a\r\n", "END\r\n");
    close(fd);
    while (client_count > 0)
        close(clients[--client_count]);
    fixture_close(f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A worker's end shuts its own listeners down, but not those it shares with other workers. */
static void test_shared_socket_outlasts_a_worker(void **state)
{
    struct net_sock_worker *worker = calloc(1, sizeof(*worker));
    int shared, fd, listens;
    socklen_t len = sizeof(listens);

    for (shared = 0; shared < 2; shared++) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(listen(fd, 1), 0);
        worker->listener_count = 1;
        worker->listeners[0].kind = NET_ENDPOINT_TCP;
        worker->listeners[0].shared = shared;
        worker->listeners[0].source.fd = dup(fd);
        net_sock_accept_close(worker);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len), 0);
        assert_int_equal(listens, shared);
        close(fd);
    }
    free(worker);
}

/* Without maxconns_fast: a connection beyond the limit waits until another one is closed. */
static void test_connections_wait(void **state)
{
    struct shape shape = {.connections_max = 2, .accept_waits = true};
    struct fixture *f = fixture_shaped(&shape);
    char stats[STATS_MAX];
    int fds[5];
    char byte;
    unsigned i;

    for (i = 0; i < 2; i++) {
        fds[i] = client_open(f);
        ask(fds[i], "get a\r\n", "END\r\n");
    }
    for (i = 2; i < 5; i++) {
        fds[i] = client_open(f);
        must_send(fds[i], "get a\r\nquit\r\n", 13);
    }
    for (i = 0; i < NAPS_MAX; i++) { /* until a worker has stopped accepting */
        read_stats(fds[0], "stats\r\n", stats);
        if (strstr(stats, "STAT accepting_conns 0\r\n"))
            break;
        nap();
    }
    assert_true(i < NAPS_MAX);
    for (i = 2; i < 5; i++)
        assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), -1);
    close(fds[0]);
    close(fds[1]);
    /* In which order depends on whose listening socket each came to. */
    for (i = 2; i < 5; i++) {
        expect(fds[i], "END\r\n");
        expect_end(fds[i]);
        close(fds[i]);
    }
    assert_int_equal(counter(f, NET_SOCK_REJECTED), 0);
    fixture_close(f);
}

static void test_unix_socket(void **state)
{
    struct shape shape = {.connections_max = 20, .idle_timeout_s = 1};
    char path[] = "/tmp/ucached-worker-test-XXXXXX";
    char name[64];
    struct fixture *f;
    int fds[8];
    unsigned i;

    assert_non_null(mkdtemp(path));
    snprintf(name, sizeof(name), "%s/u", path);
    shape.unix_path = name;
    f = fixture_shaped(&shape);
    expect_close_on_exec(f);
    for (i = 0; i < 8; i++)
        fds[i] = client_open(f);
    for (i = 0; i < 8; i++)
        ask(fds[i], "set u 0 0 1\r\n1\r\nget u\r\n", "STORED\r\nVALUE u 0 1\r\n1\r\nEND\r\n");
    for (i = 0; i < 8; i++)
        close(fds[i]);
    fixture_close(f);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(path), 0);
}

#define INHERITED 3

/* Opens sockets as of the workers of an earlier process. */
static void open_sockets(int flags, int sockets[INHERITED],
                         struct sockaddr_storage addrs[INHERITED])
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned i;

    for (i = 0; i < INHERITED; i++) {
        socklen_t len = sizeof(addrs[i]);

        sockets[i] = socket(AF_INET, SOCK_STREAM | flags, 0);
        assert_int_equal(bind(sockets[i], (const struct sockaddr *)&any, sizeof(any)), 0);
        assert_int_equal(getsockname(sockets[i], (struct sockaddr *)&addrs[i], &len), 0);
    }
}

/* Each is served by one worker. */
static void test_inherited_sockets(void **state)
{
    struct sockaddr_storage addrs[INHERITED];
    int sockets[INHERITED], fd;
    struct shape shape = {.connections_max = 4, .inherited_count = INHERITED, .inherited = sockets};
    struct fixture *f;
    unsigned i;

    open_sockets(SOCK_NONBLOCK, sockets, addrs);
    f = fixture_shaped(&shape);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(((struct net_sock_worker *)f->workers[i])->listener_count, 2 - i);
    for (i = 0; i < INHERITED; i++) {
        f->addr = addrs[i];
        fd = client_open(f);
        ask(fd, "get a\r\n", "END\r\n");
        close(fd);
    }
    fixture_close(f);
}

/* Sockets of io_uring's accept requests block. No worker waits for a client in accept4(). */
static void test_inherited_sockets_that_block(void **state)
{
    struct sockaddr_storage addrs[INHERITED];
    int sockets[INHERITED], fds[INHERITED];
    struct shape shape = {.connections_max = 4, .inherited_count = INHERITED, .inherited = sockets};
    struct fixture *f;
    unsigned i, waits;

    for (waits = 0; waits < 2; waits++) {
        shape.accept_waits = waits;
        open_sockets(0, sockets, addrs);
        f = fixture_shaped(&shape);
        for (i = 0; i < INHERITED; i++) {
            f->addr = addrs[i];
            fds[i] = client_open(f);
            ask(fds[i], "get a\r\n", "END\r\n");
        }
        for (i = 0; i < INHERITED; i++) {
            ask(fds[i], "get a\r\n", "END\r\n");
            close(fds[i]);
        }
        fixture_close(f);
    }
}

static struct cache *cache_of_one_thread(void)
{
    struct cache_config config = {.start_us = 1, .start_unix_s = 1700000000};
    const char *why = NULL;
    struct cache *cache;

    cache_settings_defaults(&config.settings);
    config.settings.threads = 1;
    cache = cache_create(&config, &why);
    assert_non_null(cache);
    return cache;
}

/* A worker that cannot listen is not opened, and leaves no socket behind. */
static void test_addresses_that_cannot_be_used(void **state)
{
    struct net_endpoints endpoints = {0};
    struct net_sock_config config = {
        .endpoints = &endpoints, .backlog = 1, .workers = 1, .uring = by_uring};
    char error[NET_ERROR_MAX];

    config.cache = cache_of_one_thread();
    /* of no machine (RFC 5737) */
    assert_int_equal(net_endpoints_resolve("192.0.2.1", 11211, NET_ENDPOINT_TCP, &endpoints, error),
                     0);
    assert_null(net_sock_worker_open(&config, error));
    assert_non_null(strstr(error, "cannot listen on 192.0.2.1:11211"));
    for (; endpoints.inherited_count <= NET_ENDPOINT_MAX; endpoints.inherited_count++)
        endpoints.inherited[endpoints.inherited_count].fd =
            socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_null(net_sock_worker_open(&config, error)); /* more than a worker takes */
    net_endpoints_close(&endpoints);
    cache_end(config.cache);
}

/* An address of IPv6 has the clients of IPv6 only: those of IPv4 come by their own address. */
static void test_ip6_alone(void **state)
{
    struct net_endpoints endpoints = {0};
    struct net_sock_config config = {
        .endpoints = &endpoints, .backlog = 1, .workers = 1, .uring = by_uring};
    char error[NET_ERROR_MAX];
    struct net_worker *worker;
    socklen_t len = sizeof(int);
    int alone = 0;

    if (net_endpoints_resolve("[::]", 0, NET_ENDPOINT_TCP, &endpoints, error) < 0 ||
        net_endpoints_claim(&endpoints, error) < 0)
        skip(); /* this machine has no IPv6 */
    config.cache = cache_of_one_thread();
    worker = net_sock_worker_open(&config, error);
    assert_non_null(worker);
    assert_int_equal(getsockopt(((struct net_sock_worker *)worker)->listeners[0].source.fd,
                                IPPROTO_IPV6, IPV6_V6ONLY, &alone, &len),
                     0);
    assert_true(alone);
    net_worker_close(worker);
    net_endpoints_close(&endpoints);
    cache_end(config.cache);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_shared_socket_outlasts_a_worker),
        cmocka_unit_test(test_connections_wait),
        cmocka_unit_test(test_inherited_sockets),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_inherited_sockets_that_block),
        cmocka_unit_test(test_addresses_that_cannot_be_used),
        cmocka_unit_test(test_ip6_alone),
    };
    int skipped = rig_begin(argc, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
