/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a sock worker, which has its own listening sockets.
 *
 * A connection that sends many requests at once has a turn of so many (-R), then the others have
 * theirs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/sock_worker.h"

/* Longest sleep: housekeeping in the cache goes on even if nobody talks. */
#define SLEEP_MS_MAX 1000

/* The same while nothing is accepted, so that the next connection need not wait for long. */
#define SLEEP_MS_FULL 10

/* ---- the loop ---------------------------------------------------------------------------- */

/* What the transport itself waits for. */
static int own_timeout_ms(const struct net_sock_worker *worker)
{
    if (!u_list_is_empty(&worker->ready))
        return 0;
    if (worker->accept != NET_SOCK_ACCEPTING)
        return SLEEP_MS_FULL;
    return u_list_is_empty(&worker->timed_conns) ? SLEEP_MS_MAX : NET_SOCK_IDLE_CHECK_US / 1000;
}

static int wait_timeout_ms(const struct net_sock_worker *worker)
{
    uint32_t cache_us = cache_sleep_us_max(worker->cache_worker);
    uint32_t cache_ms = cache_us / 1000 + (cache_us % 1000 > 0);

    return (int)u_min32(cache_ms, (uint32_t)own_timeout_ms(worker));
}

static int sock_loop(struct net_sock_worker *worker)
{
    int n;

    while (!atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        cache_offline(worker->cache_worker);
        n = worker->io->wait(worker, wait_timeout_ms(worker));
        cache_online(worker->cache_worker);
        if (n < 0)
            return n;
        worker->now_us = net_clock_us();
        cache_tick(worker->cache_worker, worker->now_us);
        net_sock_count(worker, NET_SOCK_LOOPS, 1);
        net_sock_accept_resume(worker);
        worker->crowded = n > 1 || !u_list_is_empty(&worker->ready);
        worker->io->dispatch(worker, n);
        /* Only now: what these close may have had an event. */
        if (!u_list_is_empty(&worker->ready)) {
            worker->crowded = n > 0 || worker->ready.next != worker->ready.prev;
            net_sock_conns_ready(worker);
        }
        net_sock_conns_eager(worker);
        net_sock_conns_idle(worker);
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
    rc = worker->io->begin(worker);
    if (rc < 0 && worker->io == &net_sock_uring) {
        fprintf(stderr, "ucached: note: io_uring: %s: using epoll\n", strerror(-rc));
        worker->io = &net_sock_epoll; /* some limit was met since the check */
        rc = worker->io->begin(worker);
    }
    if (rc == 0) {
        rc = net_sock_udp_begin(worker);
        if (rc == 0)
            rc = sock_loop(worker);
        net_sock_conns_close(worker);
        worker->io->end(worker);
        worker->io_state = NULL;
    }
    net_sock_udp_end(worker);
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

    net_sock_accept_close(worker);
    net_sock_udp_close(worker);
    if (worker->wake.fd >= 0)
        close(worker->wake.fd);
    net_out_pool_free(&worker->out_pool);
    free(worker);
}

static const struct net_worker_ops sock_ops = {
    .run = sock_run, .stop = sock_stop, .close = sock_close};

/* ---- opening ----------------------------------------------------------------------------- */

static int open_parts(struct net_sock_worker *worker, const struct net_sock_config *config,
                      char error[NET_ERROR_MAX])
{
    char text[NET_ENDPOINT_TEXT_MAX];
    unsigned i;

    worker->wake.kind = NET_SOCK_WAKE;
    worker->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->wake.fd < 0) {
        snprintf(error, NET_ERROR_MAX, "cannot make a worker: %s", strerror(errno));
        return -1;
    }
    for (i = 0; i < config->endpoints->count; i++) {
        const struct net_endpoint *endpoint = &config->endpoints->list[i];

        if (net_sock_listener_open(worker, endpoint, config->backlog) == 0)
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
    worker->io = config->uring ? &net_sock_uring : &net_sock_epoll;
    worker->wake.fd = -1;
    worker->accept_waits = config->accept_waits;
    worker->idle_timeout_s = config->idle_timeout_s;
    u_list_init(&worker->conns);
    u_list_init(&worker->timed_conns);
    u_list_init(&worker->ready);
    net_out_pool_init(&worker->out_pool, release_ref, worker);
    if (open_parts(worker, config, error) == 0)
        return &worker->worker;
    sock_close(&worker->worker);
    return NULL;
}
