/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache's sessions as the application of a stack worker (struct net_app_ops). What happens on
 * each connection is in stack_conn.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "net/port.h"
#include "net/tls_conn.h"

/* The application's side of a two-thread worker sleeps on an eventfd. */
static void wake_by_result(void *ctx)
{
    struct net_stack_worker *worker = ctx;

    if (worker->split)
        (void)eventfd_write(worker->split->wake_fd, 1);
    else
        nic_wake(worker->nic);
}

static int session_open_all(struct net_stack_worker *worker, const struct net_stack_config *config,
                            uint32_t conn_max)
{
    /* Whole cache lines, so that the slots of two workers share none. */
    size_t lines = (conn_max * sizeof(worker->slots[0]) - 1) / U_CACHE_LINE_BYTES + 1;

    worker->slot_count = conn_max;
    worker->slots = aligned_alloc(U_CACHE_LINE_BYTES, lines * U_CACHE_LINE_BYTES);
    if (!worker->slots)
        return -1;
    if (config->tls) {
        worker->conns.tls =
            net_tls_open(&worker->conns, config->tls, config->tls_steps, wake_by_result, worker);
        if (!worker->conns.tls)
            return -1;
    }
    return config->udp_port > 0 ? net_udp_open(&worker->udp, config->udp_limit) : 0;
}

static int session_begin(struct net_stack_worker *worker)
{
    worker->conns.cache_worker = cache_join(worker->conns.cache);
    if (!worker->conns.cache_worker)
        return -ENOSPC;
    if (net_stack_udp_begin(worker) == 0)
        return 0;
    cache_leave(worker->conns.cache_worker);
    worker->conns.cache_worker = NULL;
    return -ENOMEM;
}

static void session_tick(struct net_stack_worker *worker)
{
    cache_tick(worker->conns.cache_worker, worker->now_us);
    net_conns_tick(&worker->conns, worker->now_us, &worker->counters[NET_STACK_IDLE_CLOSED]);
}

static uint32_t session_sleep_us_max(const struct net_stack_worker *worker)
{
    if (net_conns_are_busy(&worker->conns))
        return 0;
    return u_min32(net_stack_blocked_sleep_us_max(worker),
                   cache_sleep_us_max(worker->conns.cache_worker));
}

static bool session_sleep_begin(struct net_stack_worker *worker)
{
    cache_offline(worker->conns.cache_worker);
    return true;
}

static void session_sleep_end(struct net_stack_worker *worker)
{
    cache_online(worker->conns.cache_worker);
    cache_tick(worker->conns.cache_worker, net_clock_us());
}

static void session_release(struct net_stack_worker *worker, void *cookie)
{
    if (cookie)
        cache_release(worker->conns.cache_worker, cookie);
}

static void session_finish_all(struct net_stack_worker *worker)
{
    struct u_list *link;

    for (link = worker->conns.open.next; link != &worker->conns.open; link = link->next)
        net_stack_conn_finish(worker, U_CONTAINER_OF(link, struct net_stack_conn, conn.link));
}

/* Connections that were reset leave the list with their CLOSED event. */
static void session_abort_all(struct net_stack_worker *worker)
{
    struct u_list *link = worker->conns.open.next;
    unsigned n;

    for (n = 0; n < NIC_BURST_MAX && link != &worker->conns.open; n++, link = link->next)
        net_stack_conn_abort(worker, U_CONTAINER_OF(link, struct net_stack_conn, conn.link));
}

static bool session_has_ended(const struct net_stack_worker *worker)
{
    return u_list_is_empty(&worker->conns.open);
}

static void session_end(struct net_stack_worker *worker)
{
    net_stack_udp_end(worker);
    cache_leave(worker->conns.cache_worker);
    worker->conns.cache_worker = NULL;
}

const struct net_app_ops net_session_app_ops = {
    .open = session_open_all,
    .begin = session_begin,
    .handle_events = net_stack_handle_events,
    .tick = session_tick,
    .sleep_us_max = session_sleep_us_max,
    .sleep_begin = session_sleep_begin,
    .sleep_end = session_sleep_end,
    .release = session_release,
    .finish_all = session_finish_all,
    .abort_all = session_abort_all,
    .has_ended = session_has_ended,
    .end = session_end,
};
