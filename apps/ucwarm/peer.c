/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of ucwarm; see peer.h. */
#include "peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "common/value.h"
#include "peer_stack.h"

#define DEFAULT_PORT "11211"
#define READ_BYTES 65536
#define PEERS_MAX 64
#define TURN_US 50000 /* the longest sleep of a turn of the stack */

__attribute__((format(printf, 2, 3))) static int fail(struct peer *peer, const char *format, ...)
{
    int n = snprintf(peer->error, sizeof(peer->error), "%s: ", peer->name);
    va_list args;

    va_start(args, format);
    vsnprintf(peer->error + n, sizeof(peer->error) - (size_t)n, format, args);
    va_end(args);
    return -1;
}

static int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- opening and closing ----------------------------------------------------------------- */

int peer_init(struct peer *peer, const char *name, unsigned timeout_s, struct peer_stack *stack)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[VALUE_HOST_MAX], port[VALUE_PORT_MAX] = DEFAULT_PORT;
    int rc;

    memset(peer, 0, sizeof(*peer));
    peer->name = name;
    peer->timeout_s = timeout_s;
    peer->stack = stack;
    peer->fd = -1;
    if (value_endpoint(name, host, port) < 0)
        return fail(peer, "this is not HOST or HOST:PORT");
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fail(peer, "%s", gai_strerror(rc));
    memcpy(&peer->addr, found->ai_addr, found->ai_addrlen);
    peer->addr_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

/* Whether the stack has what await() waits for, the end of the connection included. */
static bool stack_has(const struct peer *peer, short events, size_t received)
{
    if (peer->lost || buffer_len(&peer->in) > received)
        return true;
    return (events & POLLOUT) && peer->connected && peer_stack_has_room(peer);
}

/* Gives the connection back the bytes that it may receive again. */
static void stack_resume(struct peer *peer)
{
    if (peer->kept && peer->us && peer_stack_resume(peer))
        peer->kept = false;
}

static int await_stack(struct peer *peer, short events, const char *what)
{
    int64_t end_ms = clock_ms() + (int64_t)peer->timeout_s * 1000;
    size_t received = buffer_len(&peer->in);
    char error[LINK_ERROR_MAX];

    while (!stack_has(peer, events, received)) {
        if (clock_ms() >= end_ms)
            return fail(peer, "%s for %u s", what, peer->timeout_s);
        stack_resume(peer);
        if (peer_stack_turn(peer->stack, TURN_US, error) < 0)
            return fail(peer, "%s", error);
    }
    return 0;
}

/* Waits for events of one peer. Returns 0, or -1 with a message. */
static int await(struct peer *peer, short events, const char *what)
{
    struct pollfd fd = {.fd = peer->fd, .events = events};
    int64_t end_ms = clock_ms() + (int64_t)peer->timeout_s * 1000;
    int64_t left_ms;

    if (peer->stack)
        return await_stack(peer, events, what);
    while ((left_ms = end_ms - clock_ms()) > 0) {
        int rc = poll(&fd, 1, (int)left_ms);

        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return fail(peer, "poll: %s", strerror(errno));
    }
    return fail(peer, "%s for %u s", what, peer->timeout_s);
}

static int connect_stack(struct peer *peer)
{
    if (peer_stack_connect(peer) == 0 && await(peer, POLLOUT, "cannot connect: no answer") < 0)
        return -1;
    return peer->lost ? fail(peer, "cannot connect: %s", peer->lost) : 0;
}

int peer_connect(struct peer *peer)
{
    const int one = 1;
    socklen_t len = sizeof(int);
    int error = 0;

    if (peer->stack)
        return connect_stack(peer);
    peer->fd = socket(peer->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (peer->fd < 0)
        return fail(peer, "cannot open a socket: %s", strerror(errno));
    (void)setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(peer->fd, (const struct sockaddr *)&peer->addr, peer->addr_len) < 0) {
        if (errno != EINPROGRESS)
            return fail(peer, "cannot connect: %s", strerror(errno));
        if (await(peer, POLLOUT, "cannot connect: no answer") < 0)
            return -1;
        (void)getsockopt(peer->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
    return error == 0 ? 0 : fail(peer, "cannot connect: %s", strerror(error));
}

void peer_close(struct peer *peer)
{
    if (peer->stack)
        peer_stack_leave(peer);
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    peer->asked = peer->answered = 0;
    buffer_free(&peer->out);
    buffer_free(&peer->in);
}

bool peer_is_same(const struct peer *a, const struct peer *b)
{
    return a->addr_len == b->addr_len && memcmp(&a->addr, &b->addr, a->addr_len) == 0;
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Sends as much as the kernel takes. Returns 0, or -1 with a message. */
static int send_some(struct peer *peer)
{
    if (peer->stack) {
        peer_stack_send(peer);
        return peer->lost ? fail(peer, "%s", peer->lost) : 0;
    }
    while (buffer_len(&peer->out) > 0) {
        ssize_t n =
            send(peer->fd, peer->out.bytes + peer->out.at, buffer_len(&peer->out), MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : fail(peer, "%s", strerror(errno));
        buffer_take(&peer->out, (size_t)n);
    }
    return 0;
}

/* Reads once. Returns 0, also if nothing is there, or -1 with a message. */
static int receive_some(struct peer *peer)
{
    uint8_t *room;
    ssize_t n;

    if (peer->stack) /* the turn of the stack has appended it */
        return peer->lost ? fail(peer, "%s", peer->lost) : 0;
    room = buffer_room(&peer->in, READ_BYTES);
    if (!room)
        return fail(peer, "no memory for a reply");
    n = recv(peer->fd, room, peer->in.capacity - peer->in.end, 0);
    if (n == 0)
        return fail(peer, "it has closed the connection");
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : fail(peer, "%s", strerror(errno));
    peer->in.end += (size_t)n;
    return 0;
}

/* The length of the first line with its LF; 0: it is not complete. -1 with a message: too long. */
static int line_bytes(struct peer *peer, size_t *bytes)
{
    const uint8_t *from = peer->in.bytes + peer->in.at;
    size_t len = buffer_len(&peer->in);
    const uint8_t *newline = len > 0 ? memchr(from, '\n', len) : NULL;

    *bytes = newline ? (size_t)(newline - from) + 1 : 0;
    if (*bytes > REPLY_LINE_MAX || (!newline && len > REPLY_LINE_MAX))
        return fail(peer, "it answers a line of more than %d bytes", REPLY_LINE_MAX);
    return 0;
}

static size_t without_end(const uint8_t *line, size_t bytes)
{
    return bytes >= 2 && line[bytes - 2] == '\r' ? bytes - 2 : bytes - 1;
}

/* ---- batches ----------------------------------------------------------------------------- */

void peer_ask(struct peer *peer, uint16_t tag)
{
    U_ASSERT(peer->asked < PEER_BATCH_MAX);
    peer->tags[peer->asked++] = tag;
}

/* Delivers the complete replies that have arrived. Returns 0, or -1 with a message. */
static int deliver(struct peer *peer, peer_on_reply *on_reply, void *ctx)
{
    while (peer->answered < peer->asked) {
        const uint8_t *from;
        struct reply reply;
        size_t bytes, all;

        if (line_bytes(peer, &bytes) < 0)
            return -1;
        if (bytes == 0)
            return 0;
        from = peer->in.bytes + peer->in.at;
        reply_read(&reply, (const char *)from, without_end(from, bytes));
        all = bytes + (reply.code == REPLY_VALUE ? (size_t)reply.value_bytes + 2 : 0);
        if (reply.code == REPLY_VALUE && reply.value_bytes > PEER_VALUE_MAX)
            return fail(peer, "it answers a value of %u bytes", reply.value_bytes);
        if (buffer_len(&peer->in) < all)
            return buffer_room(&peer->in, all - buffer_len(&peer->in))
                       ? 0
                       : fail(peer, "no memory for a value of %u bytes", reply.value_bytes);
        if (reply.code == REPLY_VALUE && memcmp(from + all - 2, "\r\n", 2) != 0)
            return fail(peer, "it answers a value that is longer than it says");
        if (on_reply(ctx, peer, peer->tags[peer->answered], &reply, from + bytes) < 0)
            return -1;
        peer->answered++;
        buffer_take(&peer->in, all);
    }
    return 0;
}

/* What poll() has to look for: nothing if all replies have come. */
static short wanted_events(const struct peer *peer)
{
    short events = peer->answered < peer->asked ? POLLIN : 0;

    return buffer_len(&peer->out) > 0 ? (short)(events | POLLOUT) : events;
}

static int turn(struct peer *peer, short events, peer_on_reply *on_reply, void *ctx)
{
    if ((events & POLLOUT) && send_some(peer) < 0)
        return -1;
    if ((events & (POLLIN | POLLHUP | POLLERR)) && receive_some(peer) < 0)
        return -1;
    return deliver(peer, on_reply, ctx);
}

/* One pass over all peers: 1 if there is more to do, 0 at the end, -1 with *failed. */
static int exchange_turn(struct peer *peers, unsigned count, peer_on_reply *on_reply, void *ctx,
                         struct peer **failed)
{
    struct pollfd fds[PEERS_MAX];
    struct peer *first = NULL;
    int rc;

    for (unsigned i = 0; i < count; i++) {
        short events = wanted_events(&peers[i]);

        fds[i] = (struct pollfd){.fd = events ? peers[i].fd : -1, .events = events};
        if (events && !first)
            first = &peers[i];
    }
    if (!first)
        return 0;
    rc = poll(fds, count, (int)first->timeout_s * 1000);
    *failed = first;
    if (rc == 0)
        return fail(first, "no answer for %u s", first->timeout_s);
    if (rc < 0)
        return errno == EINTR ? 1 : fail(first, "poll: %s", strerror(errno));
    for (unsigned i = 0; i < count; i++) {
        *failed = &peers[i];
        if (fds[i].revents && turn(&peers[i], fds[i].revents, on_reply, ctx) < 0)
            return -1;
    }
    return 1;
}

static size_t received_bytes(const struct peer *peers, unsigned count)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++)
        bytes += buffer_len(&peers[i].in);
    return bytes;
}

/* The same over the own stack, with the replies that are there. *moved: whether there was one. */
static int stack_pass(struct peer *peers, unsigned count, peer_on_reply *on_reply, void *ctx,
                      struct peer **failed, bool *moved)
{
    struct peer *first = NULL;

    *moved = false;
    for (unsigned i = 0; i < count; i++) {
        struct peer *peer = &peers[i];
        size_t before = buffer_len(&peer->out) + peer->asked - peer->answered;

        *failed = peer;
        peer_stack_send(peer);
        stack_resume(peer);
        if (deliver(peer, on_reply, ctx) < 0)
            return -1;
        if (wanted_events(peer) && peer->lost)
            return fail(peer, "%s", peer->lost);
        if (wanted_events(peer) && !first)
            first = peer;
        *moved = *moved || buffer_len(&peer->out) + peer->asked - peer->answered != before;
    }
    *failed = first;
    return first != NULL;
}

static int exchange_stack(struct peer *peers, unsigned count, peer_on_reply *on_reply, void *ctx,
                          struct peer **failed)
{
    int64_t moved_ms = clock_ms();
    char error[LINK_ERROR_MAX];
    bool moved;
    int rc;

    while ((rc = stack_pass(peers, count, on_reply, ctx, failed, &moved)) > 0) {
        size_t received = received_bytes(peers, count);

        if (peer_stack_turn(peers[0].stack, moved ? 0 : TURN_US, error) < 0)
            return fail(*failed, "%s", error);
        if (moved || received_bytes(peers, count) != received)
            moved_ms = clock_ms();
        if (clock_ms() - moved_ms > (int64_t)peers[0].timeout_s * 1000)
            return fail(*failed, "no answer for %u s", peers[0].timeout_s);
    }
    return rc;
}

int peer_exchange(struct peer *peers, unsigned count, peer_on_reply *on_reply, void *ctx,
                  struct peer **failed)
{
    int rc;

    U_ASSERT(count <= PEERS_MAX);
    if (peers[0].stack)
        rc = exchange_stack(peers, count, on_reply, ctx, failed);
    else
        do
            rc = exchange_turn(peers, count, on_reply, ctx, failed);
        while (rc > 0);
    for (unsigned i = 0; i < count; i++) {
        peers[i].asked = peers[i].answered = 0;
        buffer_trim(&peers[i].in);
        buffer_trim(&peers[i].out);
    }
    return rc;
}

/* ---- lines ------------------------------------------------------------------------------- */

int peer_command(struct peer *peer, const char *command)
{
    if (buffer_add(&peer->out, command, strlen(command)) < 0 ||
        buffer_add(&peer->out, "\r\n", 2) < 0)
        return fail(peer, "no memory");
    while (buffer_len(&peer->out) > 0)
        if (await(peer, POLLOUT, "it takes nothing") < 0 || send_some(peer) < 0)
            return -1;
    return 0;
}

int peer_line(struct peer *peer, const char **line, size_t *len)
{
    size_t bytes;

    for (;;) {
        if (line_bytes(peer, &bytes) < 0)
            return -1;
        if (bytes > 0)
            break;
        if (await(peer, POLLIN, "no answer") < 0 || receive_some(peer) < 0)
            return -1;
    }
    *line = (const char *)peer->in.bytes + peer->in.at;
    *len = without_end(peer->in.bytes + peer->in.at, bytes);
    peer->in.at += bytes; /* not buffer_take(): the line stays valid */
    return 0;
}

int peer_stat(struct peer *peer, const char *name, uint64_t *value)
{
    char wanted[64];
    const char *line;
    size_t len;
    int n = snprintf(wanted, sizeof(wanted), "STAT %s ", name);

    *value = 0;
    if (peer_command(peer, "stats") < 0)
        return -1;
    do {
        if (peer_line(peer, &line, &len) < 0)
            return -1;
        if (len > (size_t)n && memcmp(line, wanted, (size_t)n) == 0)
            *value = strtoull(line + n, NULL, 10);
    } while (len > 5 && memcmp(line, "STAT ", 5) == 0);
    if (len == 3 && memcmp(line, "END", 3) == 0)
        return 0;
    return fail(peer, "it answers \"%.*s\" to stats", (int)(len < 100 ? len : 100), line);
}
