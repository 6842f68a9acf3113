/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sock workers on threads of their own, with clients on the loopback interface. With the argument
 * "uring" the workers use io_uring instead of epoll.
 */
#define _GNU_SOURCE /* sendmmsg() */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/sock_worker.h"

#define THREADS 2

/* Descriptors that a test without enough of them may have. */
#define FILES_MAX 128
#define CLIENTS_MAX 32

/* Of 5 ms: a server on a machine with much other work may be as late as this. */
#define NAPS_MAX 12000

static bool by_uring;

/* How a fixture differs from the default one. */
struct shape {
    uint32_t connections_max;
    uint32_t requests_per_event;
    uint32_t idle_timeout_s;
    bool accept_waits;
    bool udp; /* too, on the same address */
    const char *unix_path;
    unsigned inherited_count;
    const int *inherited; /* listening sockets instead of the workers' own */
};

struct fixture {
    struct cache *cache;
    struct net_udp_limit *udp_limit;
    struct net_worker *workers[THREADS];
    pthread_t threads[THREADS];
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

static void *run(void *worker)
{
    assert_int_equal(net_worker_run(worker), 0);
    return NULL;
}

/* With workers that do not run yet. */
static struct fixture *fixture_idle(const struct shape *shape)
{
    static const uint8_t key[16] = {1};
    struct fixture *f = calloc(1, sizeof(*f));
    struct cache_config cache = {.start_us = net_clock_us(), .start_unix_s = 1700000000};
    struct net_endpoints endpoints = {0};
    struct net_sock_config config = {
        .endpoints = &endpoints,
        .accept_waits = shape->accept_waits,
        .idle_timeout_s = shape->idle_timeout_s,
        .backlog = 64,
        .uring = by_uring,
        .workers = THREADS,
    };
    const char *why = NULL;
    char error[NET_ERROR_MAX];
    unsigned i;

    cache.settings.memory_bytes = 64 << 20;
    cache.settings.item_bytes_max = 1 << 20;
    cache.settings.connections_max = shape->connections_max;
    cache.settings.requests_per_event = shape->requests_per_event;
    cache.settings.idle_timeout_s = shape->idle_timeout_s;
    cache.settings.accept_waits = shape->accept_waits;
    cache.settings.threads = THREADS;
    cache.settings.evict = true;
    f->cache = cache_create(&cache, &why);
    if (!f->cache)
        fail_msg("cache_create: %s", why);
    config.cache = f->cache;
    if (shape->unix_path)
        assert_int_equal(net_endpoints_unix(shape->unix_path, 0700, &endpoints, error), 0);
    else
        assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_TCP, &endpoints, error),
                         0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    if (shape->udp) {
        uint16_t port = net_endpoint_port(&endpoints.list[0]);

        assert_int_equal(
            net_endpoints_resolve("127.0.0.1", port, NET_ENDPOINT_UDP, &endpoints, error), 0);
    }
    if (shape->udp)
        f->udp_limit = net_udp_limit_create(NET_UDP_REPLY_BYTES_MAX, 0, key);
    config.udp_limit = f->udp_limit;
    f->addr = endpoints.list[0].addr;
    f->addr_len = endpoints.list[0].addr_len;
    while (endpoints.inherited_count < shape->inherited_count) {
        i = endpoints.inherited_count++;
        endpoints.inherited[i].fd = shape->inherited[i];
    }
    for (config.number = 0; config.number < THREADS; config.number++) {
        f->workers[config.number] = net_sock_worker_open(&config, error);
        if (!f->workers[config.number])
            fail_msg("net_sock_worker_open: %s", error);
    }
    net_endpoints_close(&endpoints);
    assert_int_equal(net_sock_stats(f->cache, f->workers, THREADS), 0);
    return f;
}

static void fixture_start(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&f->threads[i], NULL, run, f->workers[i]), 0);
}

static struct fixture *fixture_shaped(const struct shape *shape)
{
    struct fixture *f = fixture_idle(shape);

    fixture_start(f);
    return f;
}

static struct fixture *fixture_open(uint32_t connections_max)
{
    struct shape shape = {.connections_max = connections_max};

    return fixture_shaped(&shape);
}

static void fixture_close(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        net_worker_stop(f->workers[i]);
    for (i = 0; i < THREADS; i++)
        pthread_join(f->threads[i], NULL);
    for (i = 0; i < THREADS; i++)
        net_worker_close(f->workers[i]);
    net_udp_limit_destroy(f->udp_limit);
    cache_destroy(f->cache);
    free(f);
}

static int setup(void **state)
{
    *state = fixture_open(64);
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    return 0;
}

static uint64_t counter(const struct fixture *f, enum net_sock_counter index)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < THREADS; i++)
        sum += net_counter_read(&((struct net_sock_worker *)f->workers[i])->counters[index]);
    return sum;
}

/* ---- clients ----------------------------------------------------------------------------- */

/*
 * io_uring interrupts the thread that has made the ring, which is this one: the calls here begin
 * again then.
 */
static void must_connect(const struct fixture *f, int fd)
{
    struct timeval timeout = {.tv_sec = 60};
    int error;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    do
        error = connect(fd, (const struct sockaddr *)&f->addr, f->addr_len);
    while (error < 0 && errno == EINTR);
    assert_int_equal(error, 0);
}

static int client_open(const struct fixture *f)
{
    int fd = socket(f->addr.ss_family, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    must_connect(f, fd);
    return fd;
}

static ssize_t receive(int fd, char *bytes, size_t len)
{
    ssize_t n;

    do
        n = recv(fd, bytes, len, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

static void must_send(int fd, const char *bytes, size_t len)
{
    ssize_t n;

    while (len > 0) {
        n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        assert_true(n > 0);
        bytes += n;
        len -= (size_t)n;
    }
}

static void must_receive(int fd, char *bytes, size_t len)
{
    ssize_t n;

    for (; len > 0; bytes += n, len -= (size_t)n) {
        n = receive(fd, bytes, len);
        if (n <= 0)
            fail_msg("%zu bytes are missing: %s", len, n < 0 ? strerror(errno) : "end of file");
    }
}

static void expect(int fd, const char *text)
{
    char got[1000] = "";

    assert_true(strlen(text) < sizeof(got));
    must_receive(fd, got, strlen(text));
    assert_string_equal(got, text);
}

static void expect_end(int fd)
{
    char byte;

    assert_int_equal(receive(fd, &byte, 1), 0);
}

static void ask(int fd, const char *request, const char *reply)
{
    must_send(fd, request, strlen(request));
    expect(fd, reply);
}

static void store(int fd, const char *key, size_t len)
{
    char *request = malloc(len + 100);
    int head = snprintf(request, len + 100, "set %s 0 0 %zu\r\n", key, len);

    memset(request + head, 'v', len);
    memcpy(request + head + len, "\r\n", 2);
    must_send(fd, request, (size_t)head + len + 2);
    expect(fd, "STORED\r\n");
    free(request);
}

static char *repeat(const char *text, unsigned count)
{
    size_t len = strlen(text);
    char *all = malloc(len * count + 1);
    unsigned i;

    for (i = 0; i < count; i++)
        memcpy(all + i * len, text, len);
    all[len * count] = '\0';
    return all;
}

static void nap(void)
{
    poll(NULL, 0, 5);
}

#define STATS_MAX 16000

static void read_stats(int fd, const char *request, char got[STATS_MAX])
{
    size_t len = 0;
    ssize_t n;

    got[0] = '\0';
    must_send(fd, request, strlen(request));
    while (!strstr(got, "END\r\n")) {
        n = receive(fd, got + len, STATS_MAX - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
        got[len] = '\0';
    }
}

/* Waits until a counter has come to this, as what a client has seen is counted afterwards. */
static void wait_for_count(const struct fixture *f, enum net_sock_counter index, uint64_t count)
{
    unsigned i;

    for (i = 0; counter(f, index) < count; i++) {
        assert_true(i < NAPS_MAX);
        nap();
    }
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_set_and_get(void **state)
{
    int fd = client_open(*state);

    ask(fd, "get a\r\n", "END\r\n");
    ask(fd, "set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    ask(fd, "get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    close(fd);
}

/* A value that takes many reads and many writes, as one client sees it from another's thread. */
static void test_large_value(void **state)
{
    static char got[900100];
    const char *head = "VALUE big 0 900000\r\n";
    int fd = client_open(*state);
    int other = client_open(*state);

    store(fd, "big", 900000);
    must_send(other, "get big\r\n", 9);
    must_receive(other, got, strlen(head) + 900000 + 7);
    assert_memory_equal(got, head, strlen(head));
    assert_memory_equal(got + strlen(head) + 899999, "v\r\nEND\r\n", 8);
    close(fd);
    close(other);
}

/* Sends until the server stops reading, while it has to serve another client; then reads all. */
static void never_reading(struct fixture *f, size_t value_len)
{
    int lazy = client_open(f);
    int busy = client_open(f);
    char *requests = repeat("get v\r\n", 1000000);
    size_t len = strlen(requests);
    size_t sent = 0;
    char head[40];
    size_t reply_len =
        (size_t)snprintf(head, sizeof(head), "VALUE v 0 %zu\r\n", value_len) + value_len + 2 + 5;
    char *got = malloc(reply_len);
    unsigned quiet = 0;
    size_t i;
    int small = 16384;
    ssize_t n;

    /* Or this side's kernel would take all requests although the server does not. */
    assert_int_equal(setsockopt(lazy, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    store(busy, "v", value_len);
    while (sent < len && (quiet < 40 || counter(f, NET_SOCK_BLOCKED) == 0)) {
        assert_true(quiet < NAPS_MAX);
        n = send(lazy, requests + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (size_t)n : 0;
        if (n <= 0)
            nap();
    }
    assert_true(sent < len); /* the server has stopped reading */
    for (i = 0; i < 20; i++)
        ask(busy, "get nothing\r\n", "END\r\n");
    for (i = 0; i < 500; i++) {
        must_receive(lazy, got, reply_len);
        assert_memory_equal(got, head, strlen(head));
        assert_memory_equal(got + reply_len - 7, "\r\nEND\r\n", 7);
    }
    close(lazy); /* with much unread: the server gets a reset */
    ask(busy, "get nothing\r\n", "END\r\n");
    close(busy);
    free(got);
    free(requests);
}

static void test_never_reading_small(void **state)
{
    never_reading(*state, 300);
}

static void test_never_reading_references(void **state)
{
    never_reading(*state, 50000);
}

static void test_half_close(void **state)
{
    struct fixture *f = *state;
    const unsigned count = 5000;
    char *requests = repeat("get v\r\n", count);
    size_t reply_len = strlen("VALUE v 0 2000\r\n") + 2000 + 2 + 5;
    char *got = malloc(count * reply_len);
    int fd = client_open(f);

    store(fd, "v", 2000);
    must_send(fd, requests, strlen(requests));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    nap();
    must_receive(fd, got, count * reply_len);
    assert_memory_equal(got + count * reply_len - 7, "\r\nEND\r\n", 7);
    expect_end(fd);
    close(fd);
    free(got);
    free(requests);
}

static void test_quit(void **state)
{
    int fd = client_open(*state);

    ask(fd, "get a\r\nquit\r\n", "END\r\n");
    expect_end(fd);
    close(fd);
}

static void test_too_many_connections(void **state)
{
    struct fixture *f = fixture_open(2);
    int first = client_open(f);
    int second = client_open(f);
    int third;

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

/* Until each worker has begun, and so has accepted something. Returns how many clients there are.
 */
static unsigned meet_workers(const struct fixture *f, int fds[CLIENTS_MAX])
{
    unsigned n = 0;
    unsigned i;

    for (i = 0; i < THREADS; i++) {
        const struct net_sock_worker *worker = (const struct net_sock_worker *)f->workers[i];

        while (net_counter_read(&worker->counters[NET_SOCK_ACCEPTED]) == 0) {
            assert_true(n < CLIENTS_MAX);
            fds[n] = client_open(f);
            ask(fds[n++], "get a\r\n", "END\r\n");
        }
    }
    return n;
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
        print_message("skipped: valgrind closes what is accepted beyond the limit by itself\n");
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

/* Without maxconns_fast: who comes too many waits, and is served when there is a place. */
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

/* Deep pipelines of several clients: they are served in turns, and all replies come in order. */
static void test_turns(void **state)
{
    struct shape shape = {.connections_max = 20, .requests_per_event = 3};
    struct fixture *f = fixture_shaped(&shape);
    char *requests = repeat("get t\r\nget none\r\n", 5000);
    char *replies = repeat("VALUE t 0 1\r\n7\r\nEND\r\nEND\r\n", 5000);
    size_t len = strlen(replies);
    char *got = malloc(len);
    int fds[6];
    unsigned i;

    for (i = 0; i < 6; i++)
        fds[i] = client_open(f);
    ask(fds[0], "set t 0 0 1\r\n7\r\n", "STORED\r\n");
    for (i = 0; i < 6; i++)
        must_send(fds[i], requests, strlen(requests));
    for (i = 0; i < 6; i++) {
        must_receive(fds[i], got, len);
        assert_memory_equal(got, replies, len);
    }
    for (i = 0; i < 6; i++)
        close(fds[i]);
    free(got);
    free(requests);
    free(replies);
    fixture_close(f);
}

/* Half-closed in the middle of its turns: it gets all replies, then the end. */
static void test_turns_and_half_close(void **state)
{
    struct shape shape = {.connections_max = 20, .requests_per_event = 1};
    struct fixture *f = fixture_shaped(&shape);
    char *requests = repeat("get none\r\n", 3000);
    char *got = malloc(3000 * 5);
    int fds[4];
    unsigned i;

    for (i = 0; i < 4; i++)
        fds[i] = client_open(f);
    for (i = 0; i < 4; i++) {
        must_send(fds[i], requests, strlen(requests));
        assert_int_equal(shutdown(fds[i], SHUT_WR), 0);
    }
    for (i = 0; i < 4; i++) {
        must_receive(fds[i], got, 3000 * 5);
        expect_end(fds[i]);
        close(fds[i]);
    }
    free(got);
    free(requests);
    fixture_close(f);
}

/* Idle clients are closed; who asks, or is in the middle of a request, stays. */
static void test_idle_timeout(void **state)
{
    struct shape shape = {.connections_max = 20, .idle_timeout_s = 2};
    struct fixture *f = fixture_shaped(&shape);
    int idle = client_open(f);
    int busy = client_open(f);
    int slow = client_open(f);
    unsigned i;

    ask(idle, "get a\r\n", "END\r\n");
    must_send(slow, "set s 0 0 2\r\n1", 14);
    for (i = 0; i < 1000 && counter(f, NET_SOCK_IDLE_CLOSED) == 0; i++) {
        ask(busy, "get a\r\n", "END\r\n");
        nap();
    }
    expect_end(idle);
    ask(busy, "get a\r\n", "END\r\n");
    ask(slow, "2\r\n", "STORED\r\n");
    assert_int_equal(counter(f, NET_SOCK_IDLE_CLOSED), 1);
    close(idle);
    close(busy);
    close(slow);
    fixture_close(f);
}

/* Many datagrams from many sockets, so that both workers have some and batches form. */
static void test_datagrams(void **state)
{
    static const char request[] = "\0\7\0\0\0\1\0\0incr n 1\r\n";
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_shaped(&shape);
    const unsigned clients = 8, rounds = 20;
    struct timeval timeout = {.tv_sec = 60};
    unsigned replies = 0;
    char got[2000];
    int fds[8];
    unsigned i, round;
    int tcp = client_open(f);
    ssize_t n;

    ask(tcp, "set n 0 0 1\r\n0\r\n", "STORED\r\n");
    for (i = 0; i < clients; i++) {
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        assert_int_equal(connect(fds[i], (const struct sockaddr *)&f->addr, f->addr_len), 0);
    }
    for (round = 0; round < rounds; round++) {
        for (i = 0; i < clients; i++)
            must_send(fds[i], request, 18);
        for (i = 0; i < clients; i++) {
            n = receive(fds[i], got, sizeof(got));
            assert_true(n >= 8 + 3);
            assert_memory_equal(got, "\0\7\0\0\0\1\0\0", 8);
            replies++;
        }
    }
    ask(tcp, "get n\r\n", "VALUE n 0 3\r\n160\r\nEND\r\n");
    assert_int_equal(replies, clients * rounds);

    /* Nonsense is dropped, and a large reply comes in order on this loopback. */
    must_send(fds[0], "x", 1);
    store(tcp, "big", 20000);
    must_send(fds[0], "\1\1\0\0\0\1\0\0get big\r\n", 17);
    for (i = 0; i < 15; i++) {
        n = receive(fds[0], got, sizeof(got));
        assert_int_equal(n, i < 14 ? 1400 : 20000 + 26 - 14 * 1392 + 8);
        assert_int_equal(got[3], (int)i);
        assert_int_equal(got[5], 15);
    }
    wait_for_count(f, NET_SOCK_UDP_SENT, clients * rounds + 15);
    assert_int_equal(counter(f, NET_SOCK_UDP_MALFORMED), 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_REQUESTS), clients * rounds + 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_SENT), clients * rounds + 15);
    assert_int_equal(counter(f, NET_SOCK_UDP_UNSENT), 0);
    for (i = 0; i < clients; i++)
        close(fds[i]);
    close(tcp);
    fixture_close(f);
}

static int datagram_client(const struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    must_connect(f, fd);
    return fd;
}

/*
 * Datagrams that are queued before the worker starts are served in one turn. Their replies, 1 MB
 * each, exceed the worker's reply buffer.
 */
static void test_datagrams_with_large_replies(void **state)
{
    enum { VALUE = 60000, KEYS = 17, REQUESTS = 8 };
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_idle(&shape);
    char *keys = repeat(" v", KEYS);
    char datagram[VALUE + 100] = "\0\1\0\0\0\1\0\0";
    unsigned reply = KEYS * (VALUE + 19) + 5; /* "VALUE v 0 60000" and two line ends, "END" */
    int fd = datagram_client(f);
    int len = 8 + snprintf(datagram + 8, 100, "set v 0 0 %d\r\n", VALUE);
    unsigned i;

    memset(datagram + len, 'v', VALUE);
    memcpy(datagram + len + VALUE, "\r\n", 2);
    must_send(fd, datagram, (size_t)len + VALUE + 2);
    len = 8 + snprintf(datagram + 8, 100, "get%s\r\n", keys);
    for (i = 0; i < REQUESTS; i++)
        must_send(fd, datagram, (size_t)len);
    fixture_start(f);
    wait_for_count(f, NET_SOCK_UDP_REQUESTS, 1 + REQUESTS);
    for (i = 0; i < NAPS_MAX; i++) {
        if (counter(f, NET_SOCK_UDP_SENT) + counter(f, NET_SOCK_UDP_UNSENT) ==
            1 + REQUESTS * ((reply + 1391) / 1392))
            break;
        nap();
    }
    assert_true(i < NAPS_MAX);
    assert_int_equal(counter(f, NET_SOCK_UDP_MALFORMED), 0);
    close(fd);
    free(keys);
    fixture_close(f);
}

/* What the next sendmmsg() of a worker fails with; 0: it does not. */
static atomic_int sendmmsg_error;

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int error = atomic_exchange(&sendmmsg_error, 0);

    if (error == 0)
        return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    errno = error;
    return -1;
}

/* A reply that cannot be sent does not keep the replies to others. */
static void test_datagram_to_nowhere(void **state)
{
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_idle(&shape);
    int fd = datagram_client(f);
    char got[100];

    must_send(fd, "\0\1\0\0\0\1\0\0get a\r\n", 15);
    must_send(fd, "\0\2\0\0\0\1\0\0get a\r\n", 15);
    atomic_store(&sendmmsg_error, EHOSTUNREACH);
    fixture_start(f);
    wait_for_count(f, NET_SOCK_UDP_UNSENT, 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_UNSENT), 1);
    assert_int_equal(receive(fd, got, sizeof(got)), 13);
    assert_memory_equal(got, "\0\2\0\0\0\1\0\0END\r\n", 13);
    close(fd);
    fixture_close(f);
}

/* Sockets of the workers of an earlier process: each is served by one worker. */
static void test_inherited_sockets(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage addrs[3];
    int sockets[3], fd;
    struct shape shape = {.connections_max = 4, .inherited_count = 3, .inherited = sockets};
    struct fixture *f;
    unsigned i;

    for (i = 0; i < 3; i++) {
        socklen_t len = sizeof(addrs[i]);

        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        assert_int_equal(bind(sockets[i], (const struct sockaddr *)&any, sizeof(any)), 0);
        assert_int_equal(getsockname(sockets[i], (struct sockaddr *)&addrs[i], &len), 0);
    }
    f = fixture_shaped(&shape);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(((struct net_sock_worker *)f->workers[i])->listener_count, 2 - i);
    for (i = 0; i < 3; i++) {
        f->addr = addrs[i];
        fd = client_open(f);
        ask(fd, "get a\r\n", "END\r\n");
        close(fd);
    }
    fixture_close(f);
}

/* Ends a connection and waits until the server has: the next one finds its place free. */
static void client_close(int fd)
{
    char byte;

    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(receive(fd, &byte, 1), 0);
    close(fd);
}

/* Clients that connect and disconnect while others work, on both threads. */
static void test_many_clients(void **state)
{
    int fds[60];
    unsigned round, i;

    for (round = 0; round < 20; round++) {
        for (i = 0; i < 50; i++)
            fds[i] = client_open(*state);
        for (i = 0; i < 50; i++)
            ask(fds[i], "set m 0 0 1\r\n1\r\nget m\r\n", "STORED\r\nVALUE m 0 1\r\n1\r\nEND\r\n");
        for (i = 0; i < 50; i++)
            client_close(fds[i]);
    }
}

static void test_stats(void **state)
{
    char got[STATS_MAX];
    int fd = client_open(*state);

    read_stats(fd, "stats sock\r\n", got);
    assert_non_null(strstr(got, "STAT sessions_accepted 1\r\n"));
    close(fd);
}

/* The end closes all connections. */
static void test_stop_with_open_connections(void **state)
{
    struct fixture *f = fixture_open(64);
    char *requests = repeat("get v\r\n", 2000);
    int fds[10];
    unsigned i;

    for (i = 0; i < 10; i++) {
        fds[i] = client_open(f);
        store(fds[i], "v", 50000);
    }
    for (i = 0; i < 10; i++)
        must_send(fds[i], requests, strlen(requests));
    nap();
    fixture_close(f);
    for (i = 0; i < 10; i++)
        close(fds[i]);
    free(requests);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_references, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quit, setup, teardown),
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test_setup_teardown(test_many_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stats, setup, teardown),
        cmocka_unit_test(test_stop_with_open_connections),
        cmocka_unit_test(test_connections_wait),
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_datagrams_with_large_replies),
        cmocka_unit_test(test_datagram_to_nowhere),
        cmocka_unit_test(test_inherited_sockets),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_and_half_close),
        cmocka_unit_test(test_idle_timeout),
    };
    char error[NET_ERROR_MAX];

    by_uring = argc > 1 && strcmp(argv[1], "uring") == 0;
    if (by_uring && net_sock_uring_check(error) < 0) {
        printf("skipped: %s\n", error);
        return 77;
    }
    if (by_uring && getenv("UCACHED_VALGRIND")) {
        printf("skipped: io_uring stands still under valgrind when it has to interrupt a thread\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
