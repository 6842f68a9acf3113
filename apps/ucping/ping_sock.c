/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping over the kernel's sockets: one epoll, one thread, both roles. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "ping.h"

#define EVENTS_MAX 64
#define BUFFER_BYTES (256 * 1024)
#define WAIT_MS 50

struct sock {
    struct exchange exchange;
    struct u_list link;
    int fd;
    bool shut; /* the sending side is closed */
    bool wants_write;
};

struct loop {
    struct settings *s;
    struct ping_run *run;
    int epoll_fd, listen_fd;
    struct u_list socks;
    unsigned open;
    uint8_t *buffer;
};

static struct sock *add(struct loop *l, int fd)
{
    struct sock *sock = calloc(1, sizeof(*sock));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = sock};
    const int one = 1;

    if (!sock || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(sock);
        close(fd);
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    sock->fd = fd;
    u_list_push_back(&l->socks, &sock->link);
    l->open++;
    return sock;
}

static void drop(struct loop *l, struct sock *sock)
{
    u_list_remove(&sock->link);
    l->open--;
    close(sock->fd);
    free(sock);
}

/* ---- data -------------------------------------------------------------------------------- */

/* Sends what the exchange has to send. Returns 0, or -1 if the connection is lost. */
static int pump(struct loop *l, struct sock *sock)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = sock};
    bool blocked = false;
    const uint8_t *data;
    uint32_t len;
    ssize_t n;

    while (!sock->shut && !blocked && (data = exchange_next(&sock->exchange, &len))) {
        n = send(sock->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        blocked = n < (ssize_t)len;
        exchange_sent(&sock->exchange, n > 0 ? (uint32_t)n : 0);
    }
    if (sock->exchange.done && !sock->shut && !blocked) {
        sock->shut = true;
        shutdown(sock->fd, SHUT_WR);
    }
    if (blocked != sock->wants_write) {
        sock->wants_write = blocked;
        event.events |= blocked ? EPOLLOUT : 0;
        (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, sock->fd, &event);
    }
    return 0;
}

/* Returns 1 at the end of the connection, -1 if it is lost or mismatch. */
static int take(struct loop *l, struct sock *sock)
{
    ssize_t n = recv(sock->fd, l->buffer, BUFFER_BYTES, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (n > 0)
        return exchange_received(&sock->exchange, l->buffer, (uint32_t)n);
    exchange_peer_closed(&sock->exchange);
    (void)pump(l, sock);
    return 1;
}

static void accept_all(struct loop *l)
{
    struct sock *sock;
    int fd;

    while ((fd = accept4(l->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        sock = add(l, fd);
        if (sock)
            exchange_open(&sock->exchange, NULL);
    }
}

/* Handles epoll events of a connection. Returns 0, or -1 if the run has failed. */
static int serve(struct loop *l, struct sock *sock, uint32_t events)
{
    int rc = events & ~(uint32_t)EPOLLOUT ? take(l, sock) : 0;
    bool finished = l->run && sock->exchange.done;

    if (rc == 0)
        rc = pump(l, sock);
    if (rc == 0 && !(l->run && sock->exchange.done && sock->exchange.mode == MODE_RECEIVE))
        return 0;
    drop(l, sock);
    if (rc == -1 && l->run && !finished)
        return ucping_fail(
            l->s, l->run->mismatch ? "%s has sent a wrong byte" : "the connection to %s was lost",
            l->s->peer);
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int open_server(struct loop *l)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    const int one = 1;

    l->listen_fd = socket(l->s->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->listen_fd < 0)
        return ucping_fail(l->s, "cannot open a socket: %s", strerror(errno));
    (void)setsockopt(l->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(l->listen_fd, (struct sockaddr *)&l->s->addr, l->s->addr_len) < 0 ||
        listen(l->listen_fd, 1024) < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->listen_fd, &event) < 0)
        return ucping_fail(l->s, "cannot listen on %s: %s", l->s->peer, strerror(errno));
    ucping_print_listening(l->s);
    return 0;
}

static int open_clients(struct loop *l)
{
    struct sock *sock;
    unsigned i;
    int fd;

    for (i = 0; i < l->s->connections; i++) {
        fd = socket(l->s->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&l->s->addr, l->s->addr_len) < 0) {
            ucping_fail(l->s, "cannot connect to %s: %s", l->s->peer, strerror(errno));
            if (fd >= 0)
                close(fd);
            return -1;
        }
        sock = add(l, fd);
        if (!sock)
            return ucping_fail(l->s, "no memory or descriptors for so many connections");
        exchange_open(&sock->exchange, l->run);
    }
    return 0;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* The clock is read for each event: round trips are measured by it. */
static int turn(struct loop *l)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, l->s->poll ? 0 : WAIT_MS);
    int i;

    if (n < 0 && errno != EINTR)
        return ucping_fail(l->s, "epoll: %s", strerror(errno));
    for (i = 0; i < n; i++) {
        if (l->run)
            l->run->now_ns = ucping_clock_ns();
        if (!events[i].data.ptr)
            accept_all(l);
        else if (serve(l, events[i].data.ptr, events[i].events) < 0)
            return -1;
    }
    return 0;
}

static int run_loop(struct loop *l)
{
    struct u_list *link, *next;
    int rc = 0;

    if (l->run)
        ucping_begin(l->s, l->run);
    for (link = l->socks.next; link != &l->socks; link = next) {
        struct sock *sock = U_CONTAINER_OF(link, struct sock, link);

        next = link->next;
        sock->exchange.begun_ns = l->run->begun_ns;
        rc = serve(l, sock, EPOLLOUT);
        if (rc < 0)
            return rc;
    }
    while (rc == 0 && !atomic_load(&ucping_stop) && (!l->run || l->open > 0))
        rc = turn(l);
    return rc;
}

int ucping_sock(struct settings *s, struct ping_run *run)
{
    struct loop l = {.s = s, .run = run, .listen_fd = -1};
    int rc;

    u_list_init(&l.socks);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l.buffer = malloc(BUFFER_BYTES);
    if (l.epoll_fd < 0 || !l.buffer)
        rc = ucping_fail(s, "no memory or descriptors");
    else
        rc = s->listen ? open_server(&l) : open_clients(&l);
    if (rc == 0)
        rc = run_loop(&l);
    if (run)
        run->ended_ns = ucping_clock_ns();
    while (!u_list_is_empty(&l.socks))
        drop(&l, U_CONTAINER_OF(l.socks.next, struct sock, link));
    if (l.listen_fd >= 0)
        close(l.listen_fd);
    if (l.epoll_fd >= 0)
        close(l.epoll_fd);
    free(l.buffer);
    return rc;
}
