/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of sock workers: workers on threads of their own, with clients on the loopback
 * interface. With the argument "uring" of a test program they use io_uring instead of epoll.
 */
#ifndef SOCK_RIG_H
#define SOCK_RIG_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_end.h"
#include "net/sock_worker.h"
#include "repeat.h"

#define THREADS 2
#define CLIENTS_MAX 32

/* Of 5 ms: a server on a machine with much other work may be as late as this. */
#define NAPS_MAX 12000

#define STATS_MAX 16000

static bool by_uring;

/* How a fixture differs from the default one. */
struct shape {
    uint32_t connections_max;
    uint32_t requests_per_event;
    uint32_t idle_timeout_s;
    bool accept_waits;
    bool udp;                 /* too, on the same address */
    uint32_t udp_bytes_per_s; /* to a source; 0: no limit */
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

static inline void *run(void *worker)
{
    assert_int_equal(net_worker_run(worker), 0);
    return NULL;
}

/* With workers that do not run yet. */
static inline struct fixture *fixture_idle(const struct shape *shape)
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
        f->udp_limit = net_udp_limit_create(NET_UDP_REPLY_BYTES_MAX, shape->udp_bytes_per_s, key);
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

static inline void fixture_start(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&f->threads[i], NULL, run, f->workers[i]), 0);
}

static inline struct fixture *fixture_shaped(const struct shape *shape)
{
    struct fixture *f = fixture_idle(shape);

    fixture_start(f);
    return f;
}

static inline struct fixture *fixture_open(uint32_t connections_max)
{
    struct shape shape = {.connections_max = connections_max};

    return fixture_shaped(&shape);
}

/* With workers that do not run. */
static inline void fixture_close_idle(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        net_worker_close(f->workers[i]);
    net_udp_limit_destroy(f->udp_limit);
    cache_end(f->cache);
    free(f);
}

static inline void fixture_close(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < THREADS; i++)
        net_worker_stop(f->workers[i]);
    for (i = 0; i < THREADS; i++)
        pthread_join(f->threads[i], NULL);
    fixture_close_idle(f);
}

static inline int setup(void **state)
{
    *state = fixture_open(64);
    return 0;
}

static inline int teardown(void **state)
{
    fixture_close(*state);
    return 0;
}

static inline uint64_t counter(const struct fixture *f, enum net_sock_counter index)
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
static inline void must_connect(const struct fixture *f, int fd)
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

static inline int client_open(const struct fixture *f)
{
    int fd = socket(f->addr.ss_family, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    must_connect(f, fd);
    return fd;
}

static inline ssize_t receive(int fd, char *bytes, size_t len)
{
    ssize_t n;

    do
        n = recv(fd, bytes, len, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

static inline void must_send(int fd, const char *bytes, size_t len)
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

static inline void must_receive(int fd, char *bytes, size_t len)
{
    ssize_t n;

    for (; len > 0; bytes += n, len -= (size_t)n) {
        n = receive(fd, bytes, len);
        if (n <= 0)
            fail_msg("%zu bytes are missing: %s", len, n < 0 ? strerror(errno) : "end of file");
    }
}

static inline void expect(int fd, const char *text)
{
    char got[1000] = "";

    assert_true(strlen(text) < sizeof(got));
    must_receive(fd, got, strlen(text));
    assert_string_equal(got, text);
}

static inline void expect_end(int fd)
{
    char byte;

    assert_int_equal(receive(fd, &byte, 1), 0);
}

static inline void ask(int fd, const char *request, const char *reply)
{
    must_send(fd, request, strlen(request));
    expect(fd, reply);
}

static inline void store(int fd, const char *key, size_t len)
{
    char *request = malloc(len + 100);
    int head = snprintf(request, len + 100, "set %s 0 0 %zu\r\n", key, len);

    memset(request + head, 'v', len);
    memcpy(request + head + len, "\r\n", 2);
    must_send(fd, request, (size_t)head + len + 2);
    expect(fd, "STORED\r\n");
    free(request);
}

static inline void nap(void)
{
    poll(NULL, 0, 5);
}

static inline void read_stats(int fd, const char *request, char got[STATS_MAX])
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
static inline void wait_for_count(const struct fixture *f, enum net_sock_counter index,
                                  uint64_t count)
{
    unsigned i;

    for (i = 0; counter(f, index) < count; i++) {
        assert_true(i < NAPS_MAX);
        nap();
    }
}

/* Connects clients until each worker has accepted one. Returns the number of clients. */
static inline unsigned meet_workers(const struct fixture *f, int fds[CLIENTS_MAX])
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

/* ---- programs ---------------------------------------------------------------------------- */

/* Reads the arguments of a test program. Returns 0, or the exit status if its tests are skipped. */
static inline int rig_begin(int argc, char **argv)
{
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
    return 0;
}

#endif
