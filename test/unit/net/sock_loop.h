/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a sock worker that is run turn by turn in the thread of the test. */
#ifndef SOCK_LOOP_H
#define SOCK_LOOP_H

#include <fcntl.h>
#include <netinet/in.h>

#include "sock_rig.h"

#define TURNS_MAX 10000
#define LOOP_CONNECTIONS_MAX 1200

struct loop {
    struct cache *cache;
    struct net_udp_limit *limit;
    struct net_sock_worker *worker;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int held; /* a connection that was opened */
};

static const struct net_sock_listener unix_listener = {.kind = NET_ENDPOINT_UNIX,
                                                       .peer = {.transport = "unix"}};

/* ---- the worker -------------------------------------------------------------------------- */

static inline struct loop *loop_open(bool begins)
{
    static const uint8_t key[16] = {1};
    struct loop *l = calloc(1, sizeof(*l));
    struct cache_config cache = {.start_us = net_clock_us(), .start_unix_s = 1700000000};
    struct net_endpoints endpoints = {0};
    struct net_sock_config config = {
        .endpoints = &endpoints, .backlog = 64, .uring = by_uring, .workers = 1};
    const char *why = NULL;
    char error[NET_ERROR_MAX];

    cache_settings_defaults(&cache.settings);
    cache.settings.threads = 1;
    cache.settings.connections_max = LOOP_CONNECTIONS_MAX;
    l->cache = cache_create(&cache, &why);
    assert_non_null(l->cache);
    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_TCP, &endpoints, error), 0);
    assert_int_equal(net_endpoints_resolve("127.0.0.1", 0, NET_ENDPOINT_UDP, &endpoints, error), 0);
    assert_int_equal(net_endpoints_claim(&endpoints, error), 0);
    l->limit = net_udp_limit_create(NET_UDP_REPLY_BYTES_MAX, 0, key);
    config.udp_limit = l->limit;
    config.cache = l->cache;
    l->worker = (struct net_sock_worker *)net_sock_worker_open(&config, error);
    assert_non_null(l->worker);
    l->addr = endpoints.list[0].addr;
    l->addr_len = endpoints.list[0].addr_len;
    net_endpoints_close(&endpoints);
    l->worker->conns.cache_worker = cache_join(l->cache);
    if (begins) {
        assert_int_equal(l->worker->io->begin(l->worker), 0);
        assert_int_equal(net_sock_udp_begin(l->worker), 0);
    }
    return l;
}

static inline int setup_loop(void **state)
{
    *state = loop_open(true);
    return 0;
}

static inline void loop_close(struct loop *l, bool ends)
{
    net_sock_conns_close(l->worker);
    if (ends)
        l->worker->io->end(l->worker);
    net_sock_udp_end(l->worker);
    cache_leave(l->worker->conns.cache_worker);
    net_worker_close(&l->worker->worker);
    net_udp_limit_destroy(l->limit);
    cache_end(l->cache);
    free(l);
}

static inline int teardown_loop(void **state)
{
    loop_close(*state, true);
    return 0;
}

static inline void turn(struct loop *l)
{
    assert_int_equal(net_sock_turn(l->worker, 0), 0);
}

static inline void turns(struct loop *l, unsigned n)
{
    while (n-- > 0)
        turn(l);
}

static inline uint64_t count_of(const struct loop *l, enum net_sock_counter counter)
{
    return net_counter_read(&l->worker->counters[counter]);
}

/* ---- clients ----------------------------------------------------------------------------- */

/* Opens a connection of the worker; returns the client's end, which does not block. */
static inline int pair_open(struct loop *l)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    if (!by_uring)
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_true(net_sock_conn_open(l->worker, fds[0], &unix_listener, NULL));
    l->held = fds[0];
    return fds[1];
}

static inline struct net_sock_conn *newest(const struct loop *l)
{
    return net_sock_conn_of(U_CONTAINER_OF(l->worker->conns.open.prev, struct net_conn, link));
}

/* Turns until so many bytes have come. */
static inline void turns_until(struct loop *l, int fd, char *got, size_t len)
{
    unsigned n;
    ssize_t more;

    for (n = 0; len > 0; n++) {
        assert_true(n < TURNS_MAX);
        turn(l);
        more = recv(fd, got, len, MSG_DONTWAIT);
        if (more < 0)
            continue;
        assert_true(more > 0);
        got += more;
        len -= (size_t)more;
    }
}

static inline void converse(struct loop *l, int fd, const char *request, const char *reply)
{
    char got[100] = "";

    must_send(fd, request, strlen(request));
    turns_until(l, fd, got, strlen(reply));
    assert_string_equal(got, reply);
}

/* Turns until the server has closed the connection. */
static inline void turns_until_end(struct loop *l, int fd)
{
    unsigned n;
    char byte;

    for (n = 0; recv(fd, &byte, 1, MSG_DONTWAIT) != 0; n++) {
        assert_true(n < TURNS_MAX);
        turn(l);
    }
    close(fd);
}

#endif
