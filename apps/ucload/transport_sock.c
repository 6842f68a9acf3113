/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over kernel sockets: one epoll instance per thread; the requests of a connection
 * are collected in one buffer and sent with one call.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/base.h"
#include "secure.h"
#include "transport_sock.h"

/* Events that one wait returns. */
#define EVENTS_MAX 64

/*
 * Connections to a server on this machine use many source addresses of 127.0.0.0/8, with this
 * number of connections each: the kernel has 28,000 ports per address, and a closed port is in
 * TIME-WAIT for a minute.
 */
#define LOOPBACK_CONNECTIONS 10000
#define LOOPBACK_FIRST                                                                             \
    0x7f400000u /* 127.64.0.0, for the first thread; 65,536 addresses per thread */

/* Addresses that are tried if an address has no free port. */
#define ADDRESS_TRIES 8

static int sock_turn(struct client *client, uint64_t wait_us);

/* ---- opening ----------------------------------------------------------------------------- */

int sock_cannot_connect(struct client *client, int error)
{
    return client_fail(client, "cannot connect to %s: %s", client->plan->server_text,
                       error == EINPROGRESS ? "no answer" : strerror(error));
}

static bool is_loopback(const struct server *server)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&server->addr;

    return in->sin_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Connections of a thread per source address. */
static unsigned address_share(const struct client *client)
{
    return LOOPBACK_CONNECTIONS / client->plan->threads;
}

/*
 * Binds a source address; for the first one, leaves the choice to the kernel. The port is chosen by
 * connect().
 */
static int bind_address(const struct client *client, int fd)
{
    unsigned number = client->from_count / address_share(client);
    struct sockaddr_in from = {.sin_family = AF_INET};
    const int one = 1;

    if (number == 0)
        return 0;
    from.sin_addr.s_addr = htonl(LOOPBACK_FIRST + (client->number << 16) + (number & 0xffff));
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)) < 0)
        return -1;
    return bind(fd, (const struct sockaddr *)&from, sizeof(from));
}

static int new_socket(struct client *client, const struct server *server, int flags)
{
    const struct plan *plan = client->plan;
    const int one = 1;
    struct timeval timeout = {.tv_sec = (time_t)(plan->timeout_ns / 1000000000),
                              .tv_usec = (suseconds_t)(plan->timeout_ns % 1000000000 / 1000)};
    int fd = socket(server->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0)
        return client_fail(client, "cannot open a socket: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!(flags & SOCK_NONBLOCK))
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (!is_loopback(server) || bind_address(client, fd) == 0)
        return fd;
    (void)client_fail(client, "cannot bind a socket: %s", strerror(errno));
    close(fd);
    return -1;
}

/* Opens a connection, or starts to with SOCK_NONBLOCK. Returns its descriptor, or -1. */
static int open_connection(struct client *client, const struct server *server, int flags)
{
    int error = EADDRNOTAVAIL;
    unsigned tries;

    for (tries = 0; tries < ADDRESS_TRIES && error == EADDRNOTAVAIL; tries++) {
        int fd = new_socket(client, server, flags);

        if (fd < 0)
            return -1;
        client->from_count++;
        if (connect(fd, (const struct sockaddr *)&server->addr, server->addr_len) == 0 ||
            (errno == EINPROGRESS && (flags & SOCK_NONBLOCK)))
            return fd;
        error = errno;
        close(fd);
        if (!is_loopback(server))
            break;
        client->from_count += address_share(client); /* the next address */
    }
    return sock_cannot_connect(client, error);
}

/* Closes a connection by a reset, which frees its port immediately. */
static void reset(int fd)
{
    const struct linger immediate = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &immediate, sizeof(immediate));
    close(fd);
}

int sock_watch(struct client *client, struct conn *conn, uint32_t events, int how)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};

    if (epoll_ctl(client->epoll_fd, how, conn->fd, &event) == 0)
        return 0;
    return client_fail(client, "epoll: %s", strerror(errno));
}

static int open_idle(struct client *client)
{
    const struct plan *plan = client->plan;
    unsigned i;

    for (i = 0; i < client->idle_count && !atomic_load(&client->group->stop); i++) {
        client->idle_fds[i] = open_connection(client, &plan->servers[i % plan->server_count], 0);
        if (client->idle_fds[i] < 0)
            return -1;
    }
    return 0;
}

int sock_open(struct client *client, struct nic *nic)
{
    unsigned i;

    U_ASSERT(!nic);
    client->buffer = malloc(CLIENT_BUFFER_BYTES);
    client->requests = client->plan->tls ? malloc(CLIENT_BUFFER_BYTES) : client->buffer;
    client->idle_fds = calloc(client->idle_count + 1, sizeof(client->idle_fds[0]));
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!client->buffer || !client->requests || !client->idle_fds || client->epoll_fd < 0)
        return client_fail(client, "no memory or no descriptors for a thread");
    for (i = 0; i < client->idle_count; i++)
        client->idle_fds[i] = -1;
    return 0;
}

/* The TCP connection exists: its requests may begin, or TLS does. */
static int connected(struct client *client, struct conn *conn)
{
    conn->is_connected = true;
    return client->plan->tls ? secure_begin(client, conn) : client_opened(client, conn);
}

/* Waits for the end of all handshakes of TLS and logins, each for as long as a reply may take. */
static int finish_handshakes(struct client *client)
{
    bool needed = client->plan->tls || client->plan->login.len > 0;
    unsigned i;

    for (i = 0; needed && i < client->count; i++) {
        uint64_t end_ns = client_clock_ns() + client->plan->timeout_ns;

        while (!client->conns[i].is_open && !atomic_load(&client->group->stop)) {
            if (sock_turn(client, CLIENT_SLEEP_US_MAX) < 0)
                return -1;
            if (client->ctx.now_ns > end_ns)
                return sock_cannot_connect(client, EINPROGRESS);
        }
    }
    return 0;
}

static int sock_connect(struct client *client)
{
    unsigned i;

    for (i = 0; i < client->count && !atomic_load(&client->group->stop); i++) {
        struct conn *conn = &client->conns[i];

        conn->fd = open_connection(client, conn->server, 0);
        if (conn->fd < 0 || sock_watch(client, conn, EPOLLIN, EPOLL_CTL_ADD) < 0 ||
            connected(client, conn) < 0)
            return -1;
    }
    return finish_handshakes(client) < 0 ? -1 : open_idle(client);
}

/*
 * Connects in the background: the socket becomes writable when it is connected. Connections to
 * other machines have one source address, so they are closed by a reset. A unix socket whose queue
 * is full would refuse a connection in the background.
 */
static int sock_reopen(struct client *client, struct conn *conn)
{
    int flags = conn->server->addr.ss_family == AF_UNIX ? 0 : SOCK_NONBLOCK;

    if (is_loopback(conn->server))
        close(conn->fd);
    else
        reset(conn->fd);
    conn->is_connected = false;
    conn->unsent_len = 0;
    conn->wants_write = true;
    conn->fd = open_connection(client, conn->server, flags);
    return conn->fd < 0 ? -1 : sock_watch(client, conn, EPOLLOUT, EPOLL_CTL_ADD);
}

static int finish_connect(struct client *client, struct conn *conn)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error != 0)
        return sock_cannot_connect(client, error);
    conn->wants_write = false;
    if (sock_watch(client, conn, EPOLLIN, EPOLL_CTL_MOD) < 0)
        return -1;
    return connected(client, conn);
}

void sock_close(struct client *client)
{
    unsigned i;

    for (i = 0; client->conns && i < client->count; i++) {
        secure_end(&client->conns[i]);
        if (client->conns[i].fd >= 0)
            close(client->conns[i].fd);
    }
    for (i = 0; client->idle_fds && i < client->idle_count; i++) {
        if (client->idle_fds[i] >= 0)
            reset(client->idle_fds[i]);
    }
    free(client->idle_fds);
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    if (client->requests != client->buffer)
        free(client->requests);
    free(client->buffer);
}

/* ---- writing ----------------------------------------------------------------------------- */

static int want_write(struct client *client, struct conn *conn, bool wanted)
{
    if (conn->wants_write == wanted)
        return 0;
    conn->wants_write = wanted;
    return sock_watch(client, conn, EPOLLIN | (wanted ? EPOLLOUT : 0), EPOLL_CTL_MOD);
}

/* Returns the number of bytes sent, or -1. */
static long put(struct client *client, struct conn *conn, const uint8_t *data, size_t len)
{
    ssize_t n = send(conn->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        return n;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return client_fail(client, "the connection to %s was lost: %s", client->plan->server_text,
                       strerror(errno));
}

/* Stores bytes that the kernel did not accept, behind earlier ones. */
static int keep(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    return client_keep_unsent(client, conn, data, len) < 0 ? -1 : want_write(client, conn, true);
}

/* Returns 1 if everything is sent, 0 if not, -1 on failure. */
static int send_unsent(struct client *client, struct conn *conn)
{
    long n;

    if (conn->unsent_len == 0)
        return 1;
    n = put(client, conn, conn->unsent + conn->unsent_at, conn->unsent_len);
    if (n < 0)
        return -1;
    conn->unsent_at += (uint32_t)n;
    conn->unsent_len -= (uint32_t)n;
    return conn->unsent_len == 0;
}

/* Writes requests into the buffer. Returns the length. */
static uint32_t gather(struct client *client, struct conn *conn)
{
    struct pipeline *s = &conn->pipeline;
    uint32_t used = 0;

    while (s->step != WRITE_IDLE || client_next(client, conn)) {
        uint32_t n = pipeline_write(s, client->requests + used, CLIENT_BUFFER_BYTES - used);

        if (n == 0)
            break;
        used += n;
    }
    return used;
}

/* Sends bytes, or stores those that the kernel does not accept. */
static int sock_put(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    long n = conn->unsent_len > 0 ? 0 : put(client, conn, data, len);

    if (n < 0)
        return -1;
    return n < (long)len ? keep(client, conn, data + n, len - (uint32_t)n) : 0;
}

static int sock_pump(struct client *client, struct conn *conn)
{
    int done = send_unsent(client, conn);
    uint32_t len;

    while (done == 1) {
        len = gather(client, conn);
        if (len == 0)
            return want_write(client, conn, false);
        if ((conn->tls ? secure_send : sock_put)(client, conn, client->requests, len) < 0)
            return -1;
        done = conn->unsent_len == 0;
    }
    return done;
}

int sock_flush(struct client *client)
{
    (void)client; /* pump() has already sent everything */
    return 0;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int read_some(struct client *client, struct conn *conn)
{
    ssize_t n = recv(conn->fd, client->buffer, CLIENT_BUFFER_BYTES, MSG_DONTWAIT);

    if (n > 0)
        return (conn->tls ? secure_received : client_received)(client, conn, client->buffer,
                                                               (uint32_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return client_fail(client, "the connection to %s was lost: %s", client->plan->server_text,
                       n == 0 ? "the server has closed it" : strerror(errno));
}

static int wait_for_events(struct client *client, struct epoll_event events[EVENTS_MAX],
                           uint64_t wait_us)
{
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000),
                            .tv_nsec = (long)(wait_us % 1000000 * 1000)};
    int n = epoll_pwait2(client->epoll_fd, events, EVENTS_MAX, &wait, NULL);

    if (n < 0 && errno == ENOSYS) /* before Linux 5.11 */
        n = epoll_wait(client->epoll_fd, events, EVENTS_MAX, (int)(wait_us / 1000));
    return n < 0 && errno == EINTR ? 0 : n;
}

int sock_each_event(struct client *client, uint64_t wait_us, sock_handler *handle)
{
    struct epoll_event events[EVENTS_MAX];
    int n = wait_for_events(client, events, wait_us);
    int i;

    client->ctx.now_ns = client_clock_ns();
    if (n < 0)
        return client_fail(client, "epoll: %s", strerror(errno));
    for (i = 0; i < n; i++) {
        /* System calls per connection take time: replies count from the time when they are read. */
        if (i > 0)
            client->ctx.now_ns = client_clock_ns();
        if (handle(client, events[i].data.ptr, events[i].events) < 0)
            return -1;
    }
    return 0;
}

static int handle_events(struct client *client, struct conn *conn, uint32_t events)
{
    if (!conn->is_connected)
        return finish_connect(client, conn);
    if ((events & ~(uint32_t)EPOLLOUT) && read_some(client, conn) < 0)
        return -1;
    return client->ops->pump(client, conn) < 0 ? -1 : client_settle(client, conn);
}

static int sock_turn(struct client *client, uint64_t wait_us)
{
    return sock_each_event(client, wait_us, handle_events);
}

const struct client_ops client_sock_ops = {.open = sock_open,
                                           .connect = sock_connect,
                                           .reopen = sock_reopen,
                                           .turn = sock_turn,
                                           .pump = sock_pump,
                                           .put = sock_put,
                                           .flush = sock_flush,
                                           .close = sock_close};
