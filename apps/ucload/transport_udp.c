/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over UDP: each connection is a socket with one request in flight, in one datagram.
 * Its reply is one datagram or several, in order. A request without a complete reply for a part of
 * --timeout counts as unanswered, and the next one starts; what arrives later for it is ignored.
 *
 * Frames as in memcached's doc/protocol.txt, "UDP protocol".
 */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "transport_sock.h"

/* The longest request, as long as memcached's datagrams: one frame of Ethernet. */
#define DATAGRAM_MAX 1400

/* A request or its reply is lost after this part of --timeout, 0.25 s by default. */
#define LOST_SHARE 20

/* Asked of the kernel for the datagrams of a long reply; it may grant less. */
#define RECEIVE_BUFFER_BYTES (1 << 20)

struct frame {
    struct u_be16 request;
    struct u_be16 number; /* of the datagram in its message, from 0 */
    struct u_be16 count;  /* datagrams of the message */
    struct u_be16 reserved;
};

static int udp_open(struct client *client, struct nic *nic)
{
    u_list_init(&client->udp_waiting);
    return sock_open(client, nic);
}

static int udp_connect(struct client *client)
{
    const int bytes = RECEIVE_BUFFER_BYTES;
    unsigned i;

    for (i = 0; i < client->count && !atomic_load(&client->group->stop); i++) {
        struct conn *conn = &client->conns[i];
        const struct server *server = conn->server;

        conn->fd = socket(server->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (conn->fd < 0)
            return client_fail(client, "cannot open a socket: %s", strerror(errno));
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
        if (connect(conn->fd, (const struct sockaddr *)&server->addr, server->addr_len) < 0)
            return sock_cannot_connect(client, errno);
        if (sock_watch(client, conn, EPOLLIN, EPOLL_CTL_ADD) < 0 || client_opened(client, conn) < 0)
            return -1;
    }
    return 0;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Sends a datagram. What the kernel does not accept counts as lost, as on the way. */
static int send_datagram(struct client *client, struct conn *conn, uint32_t len)
{
    if (send(conn->fd, client->requests, len, 0) >= 0 || errno == EAGAIN || errno == ENOBUFS ||
        errno == EINTR)
        return 0;
    return sock_cannot_connect(client, errno);
}

static int udp_pump(struct client *client, struct conn *conn)
{
    struct frame *frame = (struct frame *)client->requests;
    struct pipeline *s = &conn->pipeline;
    uint32_t used = sizeof(*frame);

    if (s->step == WRITE_IDLE && !client_next(client, conn))
        return 0;
    while (s->step != WRITE_IDLE && used <= DATAGRAM_MAX)
        used += pipeline_write(s, client->requests + used, CLIENT_BUFFER_BYTES - used);
    if (used > DATAGRAM_MAX)
        return client_fail(client,
                           "a request does not fit into a datagram of %d bytes: make keys "
                           "and values shorter, or leave --udp out",
                           DATAGRAM_MAX);
    *frame = (struct frame){u_be16(++conn->udp_request), u_be16(0), u_be16(1), u_be16(0)};
    conn->udp_next = 0;
    conn->udp_sent_ns = client->ctx.now_ns;
    u_list_push_back(&client->udp_waiting, &conn->udp_waiting);
    return send_datagram(client, conn, used);
}

/* ---- replies ----------------------------------------------------------------------------- */

/* memcached numbers the datagrams of each value of a multiget anew, ucached those of the reply. */
static int take_datagram(struct client *client, struct conn *conn, size_t len)
{
    const struct frame *frame = (const struct frame *)client->buffer;
    bool is_last;

    if (len < sizeof(*frame) || pipeline_in_flight(&conn->pipeline) == 0 ||
        u_get_be16(frame->request) != conn->udp_request ||
        u_get_be16(frame->number) != conn->udp_next)
        return 0;
    is_last = u_get_be16(frame->number) + 1 == u_get_be16(frame->count);
    conn->udp_next = is_last ? 0 : (uint16_t)(conn->udp_next + 1);
    if (client_received(client, conn, client->buffer + sizeof(*frame),
                        (uint32_t)(len - sizeof(*frame))) < 0)
        return -1;
    if (pipeline_in_flight(&conn->pipeline) > 0)
        return 0;
    u_list_remove(&conn->udp_waiting);
    return is_last ? 0 : client_fail(client, "a reply ends before its last datagram");
}

static int read_reply(struct client *client, struct conn *conn)
{
    do {
        ssize_t n = recv(conn->fd, client->buffer, CLIENT_BUFFER_BYTES, MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : sock_cannot_connect(client, errno);
        if (take_datagram(client, conn, (size_t)n) < 0)
            return -1;
    } while (pipeline_in_flight(&conn->pipeline) > 0);
    return 0;
}

static int give_up_lost(struct client *client)
{
    while (!u_list_is_empty(&client->udp_waiting)) {
        struct conn *conn = U_CONTAINER_OF(client->udp_waiting.next, struct conn, udp_waiting);

        if (client->ctx.now_ns < conn->udp_sent_ns + client->plan->timeout_ns / LOST_SHARE)
            return 0;
        u_list_remove(&conn->udp_waiting);
        pipeline_lose(&conn->pipeline);
        if (client_settle(client, conn) < 0)
            return -1;
    }
    return 0;
}

static int handle_events(struct client *client, struct conn *conn, uint32_t events)
{
    (void)events;
    return read_reply(client, conn) < 0 ? -1 : client_settle(client, conn);
}

static int udp_turn(struct client *client, uint64_t wait_us)
{
    return sock_each_event(client, wait_us, handle_events) < 0 ? -1 : give_up_lost(client);
}

const struct client_ops client_udp_ops = {.open = udp_open,
                                          .connect = udp_connect,
                                          .turn = udp_turn,
                                          .pump = udp_pump,
                                          .flush = sock_flush,
                                          .close = sock_close};
