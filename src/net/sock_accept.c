/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening and accepting. Each worker accepts for itself: the kernel spreads new connections over
 * the sockets that listen on the same address. A unix socket is shared; the first worker that
 * wakes up accepts the connection.
 *
 * A connection beyond the limit is sent an error and closed. With settings.accept_waits the worker
 * stops accepting instead until a session ends.
 */
#define _GNU_SOURCE /* accept4() */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/log.h"
#include "net/sock_worker.h"

#define ACCEPTS_MAX 32 /* per event, so that existing connections are served in between */

/* How long to accept nothing after the kernel has run out of descriptors or memory. */
#define PAUSE_US 50000

/* How often to check whether a session has ended while connections wait for one. */
#define FULL_US 10000

/* ---- stopping and resuming --------------------------------------------------------------- */

/* Connections that cannot be accepted stay in the kernel's queue; their events are masked. */
static void stop(struct net_sock_worker *worker, enum net_sock_accept reason, uint64_t retry_us)
{
    worker->accept = reason;
    worker->accept_stopped_us = worker->now_us;
    worker->accept_retry_us = worker->now_us + retry_us;
    worker->io->accept_want(worker, false);
}

static void stop_paused(struct net_sock_worker *worker, int code)
{
    net_sock_count(worker, NET_SOCK_ACCEPT_PAUSES, 1);
    if (cache_verbosity(worker->conns.cache) > 0)
        net_log("ucached: cannot accept for a moment: %s", strerror(code));
    stop(worker, NET_SOCK_ACCEPT_PAUSED, PAUSE_US);
}

static void stop_full(struct net_sock_worker *worker)
{
    cache_accept_stopped(worker->conns.cache_worker);
    stop(worker, NET_SOCK_ACCEPT_FULL, FULL_US);
}

/* Opens the accepted connection that waits, if there is one. Returns false if it still waits. */
static bool open_waiting(struct net_sock_worker *worker)
{
    struct net_sock_waiting *waiting = &worker->waiting;

    if (!waiting->listener)
        return true;
    if (!net_sock_conn_open(worker, waiting->fd, waiting->listener,
                            (const struct sockaddr *)&waiting->peer))
        return false;
    waiting->listener = NULL;
    return true;
}

void net_sock_accept_resume(struct net_sock_worker *worker)
{
    if (worker->accept == NET_SOCK_ACCEPTING || worker->now_us < worker->accept_retry_us)
        return;
    if (worker->accept == NET_SOCK_ACCEPT_FULL) {
        worker->accept_retry_us = worker->now_us + FULL_US;
        if (cache_is_full(worker->conns.cache) || !open_waiting(worker))
            return;
        cache_accept_resumed(worker->conns.cache_worker,
                             worker->now_us - worker->accept_stopped_us);
    }
    worker->accept = NET_SOCK_ACCEPTING;
    worker->io->accept_want(worker, true);
}

void net_sock_accept_hold(struct net_sock_worker *worker)
{
    if (worker->accept == NET_SOCK_ACCEPTING)
        stop(worker, NET_SOCK_ACCEPT_PAUSED, 0);
    worker->accept_retry_us = UINT64_MAX;
}

void net_sock_accept_release(struct net_sock_worker *worker)
{
    worker->accept_retry_us = 0;
}

/* ---- accepting --------------------------------------------------------------------------- */

static void take(struct net_sock_worker *worker, const struct net_sock_listener *listener, int fd,
                 const struct sockaddr_storage *peer)
{
    if (net_sock_conn_open(worker, fd, listener, (const struct sockaddr *)peer))
        return;
    if (!worker->accept_waits) {
        net_sock_conn_refuse(worker, fd, listener, (const struct sockaddr *)peer);
        return;
    }
    worker->waiting.listener = listener;
    worker->waiting.fd = fd;
    worker->waiting.peer = *peer;
    stop_full(worker);
}

/* Other errors concern only the connection that was to be accepted. */
static void accept_failed(struct net_sock_worker *worker, int code)
{
    if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM)
        stop_paused(worker, code);
}

void net_sock_accept(struct net_sock_worker *worker, const struct net_sock_listener *listener)
{
    struct sockaddr_storage peer;
    socklen_t len;
    unsigned i;
    int fd;

    for (i = 0; i < ACCEPTS_MAX && worker->accept == NET_SOCK_ACCEPTING; i++) {
        if (worker->accept_waits && cache_is_full(worker->conns.cache)) {
            /* The event stands for one connection; it is repeated for further ones. */
            if (i == 0)
                stop_full(worker);
            return;
        }
        len = sizeof(peer);
        memset(&peer, 0, sizeof(peer));
        fd = accept4(listener->source.fd, (struct sockaddr *)&peer, &len, worker->io->accept_flags);
        if (fd >= 0)
            take(worker, listener, fd, &peer);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else
            accept_failed(worker, errno);
    }
}

void net_sock_accepted(struct net_sock_worker *worker, const struct net_sock_listener *listener,
                       int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    if (fd < 0) {
        accept_failed(worker, -fd);
        return;
    }
    memset(&peer, 0, sizeof(peer));
    (void)getpeername(fd, (struct sockaddr *)&peer, &len); /* one that has gone has none */
    take(worker, listener, fd, &peer);
}

/* ---- opening and closing ----------------------------------------------------------------- */

static int set_option(int fd, int level, int option)
{
    int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on));
}

/* A listening socket of this worker; all workers listen on the same address. */
static int open_own(const struct net_endpoint *endpoint)
{
    int type = endpoint->kind == NET_ENDPOINT_UDP ? SOCK_DGRAM : SOCK_STREAM;
    int fd = socket(endpoint->addr.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (set_option(fd, SOL_SOCKET, SO_REUSEPORT) == 0 &&
        (type == SOCK_DGRAM || set_option(fd, SOL_SOCKET, SO_REUSEADDR) == 0) &&
        /* Accepted sockets inherit this; it ends connections of vanished clients. */
        (type == SOCK_DGRAM || set_option(fd, SOL_SOCKET, SO_KEEPALIVE) == 0) &&
        (endpoint->addr.ss_family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0) &&
        bind(fd, (const struct sockaddr *)&endpoint->addr, endpoint->addr_len) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Makes a socket the worker's. Returns 0, or -1 with errno; it is closed by the worker then. */
static int add_listener(struct net_sock_worker *worker, const struct net_endpoint *endpoint, int fd,
                        const struct net_sock_config *config)
{
    struct net_sock_listener *listener = &worker->listeners[worker->listener_count];
    bool is_udp = endpoint->kind == NET_ENDPOINT_UDP;

    if (worker->listener_count == NET_ENDPOINT_MAX) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    listener->source.kind = is_udp ? NET_SOCK_UDP : NET_SOCK_LISTENER;
    listener->source.fd = fd;
    listener->kind = endpoint->kind;
    listener->shared = endpoint->fd >= 0;
    net_endpoint_peer(endpoint, &listener->peer);
    worker->listener_count++;
    return is_udp ? net_sock_udp_open(worker, fd, config->udp_limit) : listen(fd, config->backlog);
}

/*
 * Takes this worker's share of the sockets that were inherited for an address. Returns how many, or
 * -1.
 */
static int add_inherited(struct net_sock_worker *worker, unsigned number,
                         const struct net_sock_config *config)
{
    struct net_endpoints *endpoints = config->endpoints;
    unsigned seen = 0;
    int taken = 0;
    unsigned i;

    for (i = 0; i < endpoints->inherited_count; i++) {
        struct net_inherited *inherited = &endpoints->inherited[i];
        int fd = inherited->fd;

        if (inherited->endpoint != number || seen++ % config->workers != config->number)
            continue;
        inherited->fd = -1;
        if (add_listener(worker, &endpoints->list[number], fd, config) < 0)
            return -1;
        taken++;
    }
    return taken;
}

int net_sock_listener_open(struct net_sock_worker *worker, unsigned number,
                           const struct net_sock_config *config)
{
    const struct net_endpoint *endpoint = &config->endpoints->list[number];
    int taken = add_inherited(worker, number, config);
    int fd;

    if (taken != 0)
        return taken < 0 ? -1 : 0;
    if (endpoint->fd >= 0)
        fd = fcntl(endpoint->fd, F_DUPFD_CLOEXEC, 0);
    else
        fd = open_own(endpoint);
    return fd < 0 ? -1 : add_listener(worker, endpoint, fd, config);
}

int net_sock_accept_block(const struct net_sock_worker *worker, bool block)
{
    unsigned i;

    for (i = 0; i < worker->listener_count; i++) {
        int fd = worker->listeners[i].source.fd;
        int flags = fcntl(fd, F_GETFL);

        if (worker->listeners[i].kind == NET_ENDPOINT_UDP)
            continue;
        if (flags < 0 || fcntl(fd, F_SETFL, block ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) < 0)
            return -errno;
    }
    return 0;
}

void net_sock_accept_close(struct net_sock_worker *worker)
{
    unsigned i;

    /* The kernel closes the files of io_uring's requests later; shut down, they free the port. */
    for (i = 0; i < worker->listener_count; i++) {
        if (worker->listeners[i].kind == NET_ENDPOINT_TCP && !worker->listeners[i].shared)
            (void)shutdown(worker->listeners[i].source.fd, SHUT_RDWR);
        close(worker->listeners[i].source.fd);
    }
    if (worker->waiting.listener)
        close(worker->waiting.fd);
}
