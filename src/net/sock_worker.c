/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a sock worker: one epoll instance, its own listening sockets, level-triggered events.
 *
 * A request costs one read and one write, and a share of one epoll_wait. Each worker accepts for
 * itself: the kernel spreads new connections over the sockets that listen on the same address.
 */
#define _GNU_SOURCE /* accept4() */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/sock_worker.h"

#define EVENTS_MAX 128
#define ACCEPTS_MAX 32 /* per event: a storm of connections must not stop those that exist */

/* Longest sleep: housekeeping in the cache goes on even if nobody talks. */
#define SLEEP_MS_MAX 1000

/* How long to accept nothing after the kernel has run out of descriptors or memory. */
#define ACCEPT_PAUSE_US 50000

/* ---- accepting --------------------------------------------------------------------------- */

static void listeners_want(struct net_sock_worker *worker, uint32_t interest)
{
    struct epoll_event event = {.events = interest};
    unsigned i;

    for (i = 0; i < worker->listener_count; i++) {
        event.data.ptr = &worker->listeners[i];
        (void)epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, worker->listeners[i].fd, &event);
    }
}

/* The connection that cannot be accepted stays in the kernel's queue and would wake us for ever. */
static void accept_pause(struct net_sock_worker *worker)
{
    net_sock_count(worker, NET_SOCK_ACCEPT_PAUSES, 1);
    if (cache_verbosity(worker->cache) > 0)
        fprintf(stderr, "ucached: cannot accept for a moment: %s\n", strerror(errno));
    worker->accept_paused = true;
    worker->accept_resume_us = worker->now_us + ACCEPT_PAUSE_US;
    listeners_want(worker, 0);
}

static void accept_resume(struct net_sock_worker *worker)
{
    if (!worker->accept_paused || worker->now_us < worker->accept_resume_us)
        return;
    worker->accept_paused = false;
    listeners_want(worker, EPOLLIN);
}

static void accept_all(struct net_sock_worker *worker, int listen_fd)
{
    struct sockaddr_storage peer;
    socklen_t len;
    unsigned i;
    int fd;

    for (i = 0; i < ACCEPTS_MAX && !worker->accept_paused; i++) {
        len = sizeof(peer);
        memset(&peer, 0, sizeof(peer));
        fd = accept4(listen_fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            net_sock_conn_open(worker, fd, (const struct sockaddr *)&peer);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            accept_pause(worker);
        /* Anything else concerns the one connection that was to be accepted. */
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void wake_clear(const struct net_sock_worker *worker)
{
    eventfd_t value;

    (void)eventfd_read(worker->wake.fd, &value);
}

static void dispatch(struct net_sock_worker *worker, const struct epoll_event *event)
{
    struct net_sock_source *source = event->data.ptr;

    switch (source->kind) {
    case NET_SOCK_WAKE:
        wake_clear(worker);
        break;
    case NET_SOCK_LISTENER:
        accept_all(worker, source->fd);
        break;
    case NET_SOCK_CONN:
        net_sock_conn_event(worker, (struct net_sock_conn *)source, event->events);
        break;
    }
}

static int wait_timeout_ms(const struct net_sock_worker *worker)
{
    return worker->accept_paused ? ACCEPT_PAUSE_US / 1000 : SLEEP_MS_MAX;
}

static int sock_loop(struct net_sock_worker *worker)
{
    struct epoll_event events[EVENTS_MAX];
    int n, i;

    while (!atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        cache_offline(worker->cache_worker);
        n = epoll_wait(worker->epoll_fd, events, EVENTS_MAX, wait_timeout_ms(worker));
        cache_online(worker->cache_worker);
        if (n < 0 && errno != EINTR)
            return -errno;
        worker->now_us = net_clock_us();
        cache_tick(worker->cache_worker, worker->now_us);
        net_sock_count(worker, NET_SOCK_LOOPS, 1);
        accept_resume(worker);
        for (i = 0; i < n; i++)
            dispatch(worker, &events[i]);
    }
    return 0;
}

static void release_ref(void *ctx, void *cookie)
{
    struct net_sock_worker *worker = ctx;

    cache_release(worker->cache_worker, cookie);
}

static int sock_run(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;
    int rc;

    worker->cache_worker = cache_join(worker->cache);
    if (!worker->cache_worker)
        return -ENOSPC;
    rc = sock_loop(worker);
    while (!u_list_is_empty(&worker->conns))
        net_sock_conn_close(worker, U_CONTAINER_OF(worker->conns.next, struct net_sock_conn, link));
    cache_leave(worker->cache_worker);
    worker->cache_worker = NULL;
    return rc;
}

static void sock_stop(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    (void)eventfd_write(worker->wake.fd, 1);
}

static void sock_close(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;
    unsigned i;

    for (i = 0; i < worker->listener_count; i++)
        close(worker->listeners[i].fd);
    if (worker->wake.fd >= 0)
        close(worker->wake.fd);
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    net_out_pool_free(&worker->out_pool);
    free(worker);
}

static const struct net_worker_ops sock_ops = {
    .run = sock_run, .stop = sock_stop, .close = sock_close};

/* ---- opening ----------------------------------------------------------------------------- */

static int source_add(struct net_sock_worker *worker, struct net_sock_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, source->fd, &event);
}

static int listener_open(struct net_sock_worker *worker, const struct net_endpoint *endpoint,
                         int backlog)
{
    struct net_sock_source *listener = &worker->listeners[worker->listener_count];
    int fd = socket(endpoint->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return -1;
    listener->kind = NET_SOCK_LISTENER;
    listener->fd = fd;
    worker->listener_count++;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
        return -1;
    /* Inherited by what is accepted: a client that vanished must not count as one for ever. */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0)
        return -1;
    if (endpoint->addr.ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)&endpoint->addr, endpoint->addr_len) < 0)
        return -1;
    return listen(fd, backlog) < 0 ? -1 : source_add(worker, listener);
}

static int open_parts(struct net_sock_worker *worker, const struct net_sock_config *config,
                      char error[NET_ERROR_MAX])
{
    char text[NET_ENDPOINT_TEXT_MAX];
    unsigned i;

    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->wake.kind = NET_SOCK_WAKE;
    worker->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->epoll_fd < 0 || worker->wake.fd < 0 || source_add(worker, &worker->wake) < 0) {
        snprintf(error, NET_ERROR_MAX, "cannot make a worker: %s", strerror(errno));
        return -1;
    }
    for (i = 0; i < config->endpoints->count; i++) {
        const struct net_endpoint *endpoint = &config->endpoints->list[i];

        if (listener_open(worker, endpoint, config->backlog) == 0)
            continue;
        snprintf(error, NET_ERROR_MAX, "cannot listen on %s: %s", net_endpoint_text(endpoint, text),
                 strerror(errno));
        return -1;
    }
    return 0;
}

struct net_worker *net_sock_worker_open(const struct net_sock_config *config,
                                        char error[NET_ERROR_MAX])
{
    struct net_sock_worker *worker = calloc(1, sizeof(*worker));

    if (!worker) {
        snprintf(error, NET_ERROR_MAX, "no memory");
        return NULL;
    }
    worker->worker.ops = &sock_ops;
    worker->cache = config->cache;
    worker->epoll_fd = -1;
    worker->wake.fd = -1;
    u_list_init(&worker->conns);
    net_out_pool_init(&worker->out_pool, release_ref, worker);
    if (open_parts(worker, config, error) == 0)
        return &worker->worker;
    sock_close(&worker->worker);
    return NULL;
}
