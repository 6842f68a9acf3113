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
    struct stream stream;
    struct u_list link;
    int fd;
    bool counted; /* among the open ones */
    bool shut;    /* the sending side is closed */
    bool wants_write;
};

struct loop {
    struct settings *s;
    struct ping_run *run;
    int epoll_fd, listen_fd;
    struct u_list socks;
    unsigned count; /* of these */
    unsigned open;  /* connections whose data may be exchanged, of all so far */
    uint64_t tick_ns;
    uint8_t *buffer;
};

static struct sock *add(struct loop *l, int fd)
{
    struct sock *sock = calloc(1, sizeof(*sock));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = sock};
    const int one = 1;

    if (!sock || stream_open(&sock->stream, l->s->security, l->run) < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        if (sock)
            stream_close(&sock->stream);
        free(sock);
        close(fd);
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    sock->fd = fd;
    u_list_push_back(&l->socks, &sock->link);
    l->count++;
    return sock;
}

static void drop(struct loop *l, struct sock *sock)
{
    u_list_remove(&sock->link);
    l->count--;
    stream_close(&sock->stream);
    close(sock->fd);
    free(sock);
}

/* ---- data -------------------------------------------------------------------------------- */

/* Sends what the stream has to send. Returns 0, or -1 if the connection has failed. */
static int pump(struct loop *l, struct sock *sock)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = sock};
    bool blocked = false;
    const uint8_t *data;
    uint32_t len;
    ssize_t n;

    while (!sock->shut && !blocked && (data = stream_next(&sock->stream, &len))) {
        n = send(sock->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return stream_fail(&sock->stream, strerror(errno));
        blocked = n < (ssize_t)len;
        stream_sent(&sock->stream, n > 0 ? (uint32_t)n : 0);
    }
    if (sock->stream.failed)
        return -1;
    if (stream_is_done(&sock->stream) && !sock->shut && !blocked) {
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

/* Returns 1 at the end of the connection, -1 if it has failed. */
static int take(struct loop *l, struct sock *sock)
{
    ssize_t n = recv(sock->fd, l->buffer, BUFFER_BYTES, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return stream_fail(&sock->stream, strerror(errno));
    if (n > 0)
        return stream_received(&sock->stream, l->buffer, (uint32_t)n);
    if (stream_peer_closed(&sock->stream) < 0)
        return -1;
    (void)pump(l, sock);
    return 1;
}

static void accept_all(struct loop *l)
{
    int fd;

    while ((fd = accept4(l->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        (void)add(l, fd);
}

/* Handles epoll events of a connection. Returns 0, or -1 if the run has failed. */
static int serve(struct loop *l, struct sock *sock, uint32_t events)
{
    const struct exchange *exchange = &sock->stream.exchange;
    int rc = events & ~(uint32_t)EPOLLOUT ? take(l, sock) : 0;

    if (rc == 0 && sock->stream.open && !sock->counted) {
        sock->counted = true;
        l->open++;
    }
    if (rc == 0)
        rc = pump(l, sock);
    if (rc == 0 && !(l->run && exchange->done && exchange->mode == MODE_RECEIVE))
        return 0;
    if (rc < 0)
        (void)pump(l, sock); /* an alert */
    if (rc < 0 && l->run)
        return ucping_fail_stream(l->s, &sock->stream);
    drop(l, sock);
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

/* Returns a connected socket, or -1. */
static int open_socket(struct loop *l)
{
    const struct timeval timeout = {.tv_sec = (time_t)l->s->timeout_s,
                                    .tv_usec = (suseconds_t)(l->s->timeout_s * 1e6) % 1000000};
    int fd = socket(l->s->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&l->s->addr, l->s->addr_len) == 0)
        return fd;
    ucping_fail(l->s, "cannot connect to %s: %s", l->s->peer,
                errno == EINPROGRESS ? "no answer" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Opens the connections of the run, whose handshakes of TLS follow. */
static int open_clients(struct loop *l, unsigned count)
{
    unsigned i;
    int fd;

    for (i = 0; i < count; i++) {
        fd = open_socket(l);
        if (fd < 0)
            return -1;
        if (!add(l, fd))
            return ucping_fail(l->s, "no memory or descriptors for so many connections");
    }
    return 0;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void tick(struct loop *l, uint64_t now_ns)
{
    if (now_ns < l->tick_ns)
        return;
    l->tick_ns = now_ns + 1000000000;
    if (l->s->listen && l->s->security)
        security_tick(l->s->security, now_ns / 1000);
}

/* The clock is read for each event: round trips are measured by it. */
static int turn(struct loop *l)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, l->s->poll ? 0 : WAIT_MS);
    int i;

    if (n < 0 && errno != EINTR)
        return ucping_fail(l->s, "epoll: %s", strerror(errno));
    if (n <= 0 && l->run) {
        l->run->now_ns = ucping_clock_ns();
        if (ucping_is_stuck(l->s, l->run))
            return ucping_fail(l->s, "%s does not answer", l->s->peer);
    }
    if (l->s->listen)
        tick(l, ucping_clock_ns());
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

/* Serves the sockets that are there, as if each were writable. */
static int serve_all(struct loop *l)
{
    struct u_list *link, *next;

    for (link = l->socks.next; link != &l->socks; link = next) {
        struct sock *sock = U_CONTAINER_OF(link, struct sock, link);

        next = link->next;
        if (serve(l, sock, EPOLLOUT) < 0)
            return -1;
    }
    return 0;
}

/* Opens `count` connections, and then runs until all are closed. */
static int run_clients(struct loop *l, struct ping_run *run, unsigned count)
{
    struct u_list *link;
    int rc;

    l->run = run;
    l->open = 0;
    run->now_ns = run->progress_ns = ucping_clock_ns();
    rc = open_clients(l, count);
    run->now_ns = run->progress_ns = ucping_clock_ns();
    if (rc == 0)
        rc = serve_all(l);
    while (rc == 0 && l->open < count && !atomic_load(&ucping_stop))
        rc = turn(l);
    if (rc < 0 || l->open < count)
        return rc;
    ucping_begin(l->s, run);
    for (link = l->socks.next; link != &l->socks; link = link->next)
        U_CONTAINER_OF(link, struct sock, link)->stream.exchange.begun_ns = run->begun_ns;
    rc = serve_all(l);
    while (rc == 0 && !atomic_load(&ucping_stop) && l->count > 0)
        rc = turn(l);
    run->ended_ns = ucping_clock_ns();
    return rc;
}

static int run_client(struct loop *l, struct ping_run *run)
{
    struct security *security = l->s->security;

    if (security && security->resumes && run_clients(l, &security->first, 1) < 0)
        return -1;
    return run_clients(l, run, l->s->connections);
}

static int run_server(struct loop *l)
{
    int rc = open_server(l);

    while (rc == 0 && !atomic_load(&ucping_stop))
        rc = turn(l);
    return rc;
}

int ucping_sock(struct settings *s, struct ping_run *run)
{
    struct loop l = {.s = s, .listen_fd = -1};
    int rc;

    u_list_init(&l.socks);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l.buffer = malloc(BUFFER_BYTES);
    if (l.epoll_fd < 0 || !l.buffer)
        rc = ucping_fail(s, "no memory or descriptors");
    else
        rc = s->listen ? run_server(&l) : run_client(&l, run);
    while (!u_list_is_empty(&l.socks))
        drop(&l, U_CONTAINER_OF(l.socks.next, struct sock, link));
    if (l.listen_fd >= 0)
        close(l.listen_fd);
    if (l.epoll_fd >= 0)
        close(l.epoll_fd);
    free(l.buffer);
    return rc;
}
