/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of agents; see agent_conn.h. */
#define _GNU_SOURCE
#include "agent_conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "common/value.h"

/* Time in which a peer takes bytes or a connection. */
#define PEER_MS 10000

/* Keepalive: a peer that has vanished is found after 10 + 3 * 5 seconds. */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3

#define BACKLOG 8

void agent_conn_open(struct agent_conn *conn, int fd)
{
    const int one = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
              probes = KEEPALIVE_PROBES;

    *conn = (struct agent_conn){.fd = fd};
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void agent_conn_close(struct agent_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    free(conn->payload);
    conn->payload = NULL;
}

/* Waits for events at a socket. Returns whether they came. */
static bool wait_for(int fd, short events, int wait_ms)
{
    struct pollfd one = {.fd = fd, .events = events};

    return poll(&one, 1, wait_ms) == 1;
}

static int send_bytes(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && wait_for(fd, POLLOUT, PEER_MS))
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int agent_conn_send(struct agent_conn *conn, enum wire_kind kind, const uint8_t *payload,
                    uint32_t len)
{
    uint8_t head[WIRE_HEAD_BYTES];

    wire_put_head(head, kind, len);
    return send_bytes(conn->fd, head, sizeof(head)) < 0 || send_bytes(conn->fd, payload, len) < 0
               ? -1
               : 0;
}

/* Receives up to `len` bytes. Returns how many; 0: none yet; -1: the connection has ended. */
static long receive_bytes(int fd, uint8_t *to, uint32_t len)
{
    ssize_t n = recv(fd, to, len, MSG_DONTWAIT);

    if (n > 0)
        return n;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* Receives more of a frame. Returns 1 when it is complete, 0 if not, -1 on failure. */
static int receive_more(struct agent_conn *conn, uint32_t max, enum wire_kind *kind)
{
    long n = 1;

    while (conn->have < WIRE_HEAD_BYTES && n > 0) {
        n = receive_bytes(conn->fd, conn->head + conn->have, WIRE_HEAD_BYTES - conn->have);
        if (n < 0)
            return -1;
        conn->have += (uint32_t)n;
        if (conn->have < WIRE_HEAD_BYTES)
            continue;
        if (wire_get_head(conn->head, max, kind, &conn->len) < 0)
            return -1;
        free(conn->payload);
        conn->payload = malloc(conn->len + 1);
        if (!conn->payload)
            return -1;
    }
    while (n > 0 && conn->have < WIRE_HEAD_BYTES + conn->len) {
        n = receive_bytes(conn->fd, conn->payload + (conn->have - WIRE_HEAD_BYTES),
                          WIRE_HEAD_BYTES + conn->len - conn->have);
        if (n < 0)
            return -1;
        conn->have += (uint32_t)n;
    }
    if (conn->have < WIRE_HEAD_BYTES || conn->have < WIRE_HEAD_BYTES + conn->len)
        return 0;
    return wire_get_head(conn->head, max, kind, &conn->len) < 0 ? -1 : 1;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int agent_conn_receive(struct agent_conn *conn, int wait_ms, uint32_t max, enum wire_kind *kind,
                       uint32_t *len)
{
    int64_t end_ms = now_ms() + wait_ms, left_ms = wait_ms;
    int rc;

    while ((rc = receive_more(conn, max, kind)) == 0) {
        if (wait_ms != AGENT_CONN_FOREVER)
            left_ms = end_ms - now_ms();
        if (wait_ms != AGENT_CONN_FOREVER && left_ms <= 0)
            return 0;
        (void)wait_for(conn->fd, POLLIN, (int)left_ms);
    }
    if (rc < 0)
        return -1;
    conn->have = 0;
    *len = conn->len;
    return 1;
}

/* ---- addresses --------------------------------------------------------------------------- */

/* Splits HOST:PORT; to listen, the port may be 0. Returns 0 or -1. */
static int split(const char *address, int flags, char host[VALUE_HOST_MAX],
                 char port[VALUE_PORT_MAX])
{
    char without[VALUE_HOST_MAX + VALUE_PORT_MAX];
    size_t len = strlen(address);
    bool any = (flags & AI_PASSIVE) && len > 2 && strcmp(address + len - 2, ":0") == 0;

    if (len >= sizeof(without))
        return -1;
    snprintf(without, sizeof(without), "%.*s", (int)(any ? len - 2 : len), address);
    snprintf(port, VALUE_PORT_MAX, "%s", any ? "0" : "");
    return value_endpoint(without, host, port) < 0 || port[0] == '\0' ? -1 : 0;
}

/* Finds the addresses of HOST:PORT. Returns null with a message. */
static struct addrinfo *find(const char *address, int flags, char error[AGENT_CONN_ERROR_MAX])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    char host[VALUE_HOST_MAX], port[VALUE_PORT_MAX];
    int rc;

    if (split(address, flags, host, port) < 0) {
        snprintf(error, AGENT_CONN_ERROR_MAX, "\"%.100s\" is not HOST:PORT", address);
        return NULL;
    }
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc == 0)
        return found;
    snprintf(error, AGENT_CONN_ERROR_MAX, "%.100s: %s", address, gai_strerror(rc));
    return NULL;
}

static int cannot(const char *what, const char *address, int fd, char error[AGENT_CONN_ERROR_MAX])
{
    snprintf(error, AGENT_CONN_ERROR_MAX, "cannot %s %.100s: %s", what, address, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The numeric address and port at which a socket listens. */
static void name_of(int fd, char name[AGENT_CONN_NAME_MAX])
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char host[VALUE_HOST_MAX] = "?", port[VALUE_PORT_MAX] = "?";

    if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, AGENT_CONN_NAME_MAX, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int agent_conn_listen(const char *address, char name[AGENT_CONN_NAME_MAX],
                      char error[AGENT_CONN_ERROR_MAX])
{
    struct addrinfo *found = find(address, AI_PASSIVE, error);
    const int one = 1;
    int fd;

    if (!found)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        fd = cannot("listen at", address, fd, error);
    freeaddrinfo(found);
    if (fd >= 0)
        name_of(fd, name);
    return fd;
}

int agent_conn_connect(const char *address, char error[AGENT_CONN_ERROR_MAX])
{
    struct addrinfo *found = find(address, 0, error);
    const struct timeval timeout = {.tv_sec = PEER_MS / 1000};
    int fd;

    if (!found)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
        if (errno == EINPROGRESS)
            errno = ETIMEDOUT;
        fd = cannot("connect to", address, fd, error);
    }
    freeaddrinfo(found);
    return fd;
}
