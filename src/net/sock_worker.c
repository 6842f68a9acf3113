/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a sock worker, which has its own listening sockets.
 *
 * A connection with many pipelined requests is interrupted after -R of them to serve the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/log.h"
#include "net/sock_worker.h"
#include "net/tls_conn.h"

/* Longest sleep; the cache needs housekeeping also without traffic. */
#define SLEEP_MS_MAX 1000

/* Longest sleep while accepting is stopped. */
#define SLEEP_MS_FULL 10

/* ---- the loop ---------------------------------------------------------------------------- */

/* The timeout of the transport, without the cache's. */
static int own_timeout_ms(const struct net_sock_worker *worker)
{
    if (!u_list_is_empty(&worker->ready) || net_conns_are_busy(&worker->conns))
        return 0;
    if (worker->accept != NET_SOCK_ACCEPTING)
        return SLEEP_MS_FULL;
    if (worker->conns.idle_timeout_s == 0 || u_list_is_empty(&worker->conns.open))
        return SLEEP_MS_MAX;
    return NET_IDLE_CHECK_US / 1000;
}

static int wait_timeout_ms(const struct net_sock_worker *worker)
{
    uint32_t cache_us = cache_sleep_us_max(worker->conns.cache_worker);
    uint32_t cache_ms = cache_us / 1000 + (cache_us % 1000 > 0);

    return (int)u_min32(cache_ms, (uint32_t)own_timeout_ms(worker));
}

int net_sock_turn(struct net_sock_worker *worker, int timeout_ms)
{
    int n;

    cache_offline(worker->conns.cache_worker);
    n = worker->io->wait(worker, timeout_ms);
    cache_online(worker->conns.cache_worker);
    if (n < 0)
        return n;
    if (worker->sends_queued)
        net_sock_replied(worker);
    worker->sends_queued = false;
    worker->woken_ticks = net_ticks();
    worker->now_us = net_clock_us();
    cache_tick(worker->conns.cache_worker, worker->now_us);
    net_sock_count(worker, NET_SOCK_LOOPS, 1);
    net_sock_accept_resume(worker);
    worker->crowded = n > 1 || !u_list_is_empty(&worker->ready);
    worker->io->dispatch(worker, n);
    /* After all events: a connection that this closes may have had one. */
    if (!u_list_is_empty(&worker->ready)) {
        worker->crowded = n > 0 || worker->ready.next != worker->ready.prev;
        net_sock_conns_run_ready(worker);
    }
    net_conns_flush_pending(&worker->conns);
    net_conns_tick(&worker->conns, worker->now_us, &worker->counters[NET_SOCK_IDLE_CLOSED]);
    if (!worker->sends_queued)
        net_sock_replied(worker);
    return 0;
}

static int sock_loop(struct net_sock_worker *worker)
{
    int rc = 0;

    while (rc == 0 && !atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        rc = net_sock_turn(worker, wait_timeout_ms(worker));
        if (rc == 0 && U_UNLIKELY(net_worker_is_pausing(&worker->worker)))
            rc = net_sock_pause(worker);
    }
    return rc;
}

static void release_ref(void *ctx, void *cookie)
{
    struct net_sock_worker *worker = ctx;

    cache_release(worker->conns.cache_worker, cookie);
}

static int sock_run(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;
    int rc;

    worker->conns.cache_worker = cache_join(worker->conns.cache);
    if (!worker->conns.cache_worker)
        return -ENOSPC;
    rc = worker->io->begin(worker);
    if (rc < 0 && worker->io == &net_sock_uring) {
        net_log("ucached: note: io_uring: %s: using epoll", strerror(-rc));
        worker->io = &net_sock_epoll; /* a limit was reached after the check */
        rc = worker->io->begin(worker);
    }
    if (rc == 0) {
        rc = net_sock_udp_begin(worker);
        if (rc == 0 && base->ready)
            base->ready(base->ready_ctx);
        if (rc == 0 && worker->handover)
            net_sock_take_over(worker);
        if (rc == 0)
            rc = sock_loop(worker);
        net_sock_conns_close(worker);
        worker->io->end(worker);
        worker->io_state = NULL;
    }
    net_sock_udp_end(worker);
    cache_leave(worker->conns.cache_worker);
    worker->conns.cache_worker = NULL;
    return rc;
}

static void sock_wake(struct net_worker *base)
{
    (void)eventfd_write(((struct net_sock_worker *)base)->wake.fd, 1);
}

static void wake_by_result(void *worker)
{
    sock_wake(worker);
}

static void sock_stop(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    sock_wake(base);
}

static void sock_close(struct net_worker *base)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;

    net_conns_free(&worker->conns);
    net_sock_accept_close(worker);
    net_sock_udp_close(worker);
    if (worker->wake.fd >= 0)
        close(worker->wake.fd);
    net_sendq_pool_free(&worker->out_pool);
    net_worker_free(base);
}

static const struct net_worker_ops sock_ops = {
    .run = sock_run,
    .stop = sock_stop,
    .close = sock_close,
    .wake = sock_wake,
    .hand_over = net_sock_hand_over,
};

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
        if (net_sock_listener_open(worker, i, config) == 0)
            continue;
        snprintf(error, NET_ERROR_MAX, "cannot listen on %s: %s",
                 net_endpoint_text(&config->endpoints->list[i], text), strerror(errno));
        return -1;
    }
    return 0;
}

static struct net_worker *fail_open(struct net_sock_worker *worker, char error[NET_ERROR_MAX])
{
    snprintf(error, NET_ERROR_MAX, "no memory");
    sock_close(&worker->worker);
    return NULL;
}

struct net_worker *net_sock_worker_open(const struct net_sock_config *config,
                                        char error[NET_ERROR_MAX])
{
    struct net_sock_worker *worker = calloc(1, sizeof(*worker));

    U_ASSERT(config->cache && config->endpoints->count <= NET_ENDPOINT_MAX);
    if (!worker) {
        snprintf(error, NET_ERROR_MAX, "no memory");
        return NULL;
    }
    net_ticks_calibrate();
    net_worker_init(&worker->worker, &sock_ops);
    worker->number = config->number;
    worker->workers = config->workers;
    worker->handover = config->handover;
    net_conns_init(&worker->conns, &net_sock_transport, config->cache, config->idle_timeout_s);
    worker->io = config->uring ? &net_sock_uring : &net_sock_epoll;
    worker->wake.fd = -1;
    worker->accept_waits = config->accept_waits;
    u_list_init(&worker->ready);
    net_sendq_pool_init(&worker->out_pool, release_ref, worker);
    if (config->tls) {
        worker->conns.tls =
            net_tls_open(&worker->conns, config->tls, config->tls_steps, wake_by_result, worker);
        if (!worker->conns.tls)
            return fail_open(worker, error);
    }
    if (open_parts(worker, config, error) == 0)
        return &worker->worker;
    sock_close(&worker->worker);
    return NULL;
}
