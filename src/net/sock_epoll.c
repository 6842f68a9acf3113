/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel sockets by epoll: one instance, level-triggered events. A request costs one read and one
 * write, and a share of one epoll_wait().
 */
#define _GNU_SOURCE /* SOCK_NONBLOCK */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/sock_worker.h"

#define EVENTS_MAX 128

/* Reads per event, if each fills the buffer. */
#define READS_MAX 4

struct epoll {
    int fd;
    struct epoll_event events[EVENTS_MAX];
};

static int control(const struct net_sock_worker *worker, int operation,
                   struct net_sock_source *source, uint32_t interest)
{
    const struct epoll *epoll = worker->io_state;
    struct epoll_event event = {.events = interest, .data.ptr = source};

    return epoll_ctl(epoll->fd, operation, source->fd, &event) < 0 ? -errno : 0;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void epoll_end(struct net_sock_worker *worker)
{
    struct epoll *epoll = worker->io_state;

    close(epoll->fd);
    free(epoll);
}

static int epoll_begin(struct net_sock_worker *worker)
{
    struct epoll *epoll = malloc(sizeof(*epoll));
    unsigned i;
    int rc;

    if (!epoll)
        return -ENOMEM;
    epoll->fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll->fd < 0) {
        rc = -errno;
        free(epoll);
        return rc;
    }
    worker->io_state = epoll;
    rc = net_sock_accept_block(worker, false);
    if (rc == 0)
        rc = control(worker, EPOLL_CTL_ADD, &worker->wake, EPOLLIN);
    for (i = 0; i < worker->listener_count && rc == 0; i++)
        rc = control(worker, EPOLL_CTL_ADD, &worker->listeners[i].source, EPOLLIN);
    if (rc < 0)
        epoll_end(worker);
    return rc;
}

static int epoll_wait_events(struct net_sock_worker *worker, int timeout_ms)
{
    struct epoll *epoll = worker->io_state;
    int n = epoll_wait(epoll->fd, epoll->events, EVENTS_MAX, timeout_ms);

    return n >= 0 ? n : errno == EINTR ? 0 : -errno;
}

/*
 * Reads until a read does not fill the buffer, or READS_MAX times. Returns -1 if the connection is
 * broken.
 */
static int conn_read(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    ssize_t got = sizeof(worker->read_buffer);
    unsigned reads;
    int more = 1;

    for (reads = 0; reads < READS_MAX && more > 0 && got == (ssize_t)sizeof(worker->read_buffer);
         reads++) {
        got = recv(conn->source.fd, worker->read_buffer, sizeof(worker->read_buffer), 0);
        net_sock_count(worker, NET_SOCK_READS, 1);
        if (got < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
        if (got == 0) {
            conn->eof = true;
            return 0;
        }
        more = net_sock_conn_input(worker, conn, worker->read_buffer, (uint32_t)got);
    }
    return more < 0 ? -1 : 0;
}

/* The connection may be freed. */
static void conn_event(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t events)
{
    /* Reset by the peer while neither EPOLLIN nor EPOLLOUT is requested. */
    bool broken = (events & (EPOLLERR | EPOLLHUP)) && !(events & (EPOLLIN | EPOLLOUT));

    if (!broken && (events & EPOLLIN) && (conn->interest & EPOLLIN))
        broken = conn_read(worker, conn) < 0;
    if (broken)
        net_sock_conn_abort(worker, conn);
    else
        net_sock_conn_update(worker, conn);
}

static void epoll_dispatch(struct net_sock_worker *worker, int events)
{
    struct epoll *epoll = worker->io_state;
    eventfd_t value;
    int i;

    for (i = 0; i < events; i++) {
        struct net_sock_source *source = epoll->events[i].data.ptr;

        switch (source->kind) {
        case NET_SOCK_WAKE:
            (void)eventfd_read(source->fd, &value);
            break;
        case NET_SOCK_LISTENER:
            net_sock_accept(worker, (const struct net_sock_listener *)source);
            break;
        case NET_SOCK_UDP:
            net_sock_udp_event(worker, (const struct net_sock_listener *)source);
            break;
        case NET_SOCK_CONN:
            conn_event(worker, (struct net_sock_conn *)source, epoll->events[i].events);
            break;
        }
        net_sock_replied(worker);
    }
}

static void epoll_accept_want(struct net_sock_worker *worker, bool on)
{
    struct net_sock_listener *listener;

    for (listener = worker->listeners; listener < worker->listeners + worker->listener_count;
         listener++) {
        if (listener->kind != NET_ENDPOINT_UDP)
            (void)control(worker, EPOLL_CTL_MOD, &listener->source, on ? EPOLLIN : 0);
    }
}

/* ---- connections ------------------------------------------------------------------------- */

static int epoll_conn_begin(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    return control(worker, EPOLL_CTL_ADD, &conn->source, conn->interest);
}

static int epoll_conn_want(struct net_sock_worker *worker, struct net_sock_conn *conn,
                           uint32_t interest)
{
    conn->interest = interest;
    return control(worker, EPOLL_CTL_MOD, &conn->source, interest);
}

static enum net_sendq_result epoll_conn_flush(struct net_sock_worker *worker,
                                              struct net_sock_conn *conn)
{
    enum net_sendq_result result;
    uint64_t writes = 0;

    result = net_sendq_flush(&conn->out, &worker->out_pool, conn->source.fd, &writes);
    net_sock_count(worker, NET_SOCK_WRITES, writes);
    return result;
}

const struct net_sock_io net_sock_epoll = {
    .conn_bytes = sizeof(struct net_sock_conn),
    .accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC,
    .begin = epoll_begin,
    .end = epoll_end,
    .wait = epoll_wait_events,
    .dispatch = epoll_dispatch,
    .accept_want = epoll_accept_want,
    .conn_begin = epoll_conn_begin,
    .conn_want = epoll_conn_want,
    .conn_flush = epoll_conn_flush,
    .conn_end = net_sock_conn_free, /* closing the socket takes it out of epoll */
};
