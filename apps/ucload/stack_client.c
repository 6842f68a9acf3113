/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Load over the own TCP/IP stack, one queue of a device for each thread: requests are written where
 * the stack keeps what it sends, replies are compared where they have arrived.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/base.h"
#include "client.h"

/* Handshakes under way at a time: servers bound them. */
#define OPENING_MAX 256

/* How long a thread without work stays awake: to be woken takes some ten microseconds. */
#define SPIN_NS 50000

#define RECV_WINDOW_BYTES (512 * 1024)
#define SEND_QUEUE_BYTES (256 * 1024)

static uint64_t us_of(uint64_t ns)
{
    return ns / 1000;
}

/* ---- events ------------------------------------------------------------------------------ */

static void on_closed(struct client *client, struct conn *conn, enum us_close_reason reason)
{
    if (conn->is_open)
        client_fail(client, "the connection to %s was lost: %s", client->plan->server_text,
                    us_close_reason_name(reason));
    else
        client_fail(client, "cannot connect to %s: %s", client->plan->server_text,
                    us_close_reason_name(reason));
    conn->us = NULL;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct client *client = ctx;
    struct conn *conn = event->user;

    switch (event->type) {
    case US_EV_DATA:
        if (client->failed || client_replied(client, conn, event->data, event->len) < 0)
            break;
        (void)client_settle(client, conn);
        break;
    case US_EV_SENDABLE:
        if (client->ops->pump(client, conn) == 0)
            (void)client_settle(client, conn);
        break;
    case US_EV_CONNECTED:
        conn->is_open = true;
        client->open_count++;
        break;
    case US_EV_PEER_CLOSED:
        client_fail(client, "the connection to %s was lost: the server has closed it",
                    client->plan->server_text);
        break;
    case US_EV_CLOSED:
        on_closed(client, conn, event->reason);
        break;
    case US_EV_NONE:
    case US_EV_ACCEPTED:
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
        break;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

/* As many requests as fit into one piece of memory. Returns how many bytes. */
static uint32_t fill(struct client *client, struct conn *conn, uint8_t *out, uint32_t room)
{
    struct session *s = &conn->session;
    uint32_t used = 0, n;

    do {
        n = session_write(s, out + used, room - used);
        used += n;
    } while (n > 0 && (s->step != SESSION_IDLE || client_next(client, conn)));
    return used;
}

static int stack_pump(struct client *client, struct conn *conn)
{
    struct session *s = &conn->session;
    u_u32 room;
    u_u8 *out;

    if (!conn->us)
        return 0;
    while (s->step != SESSION_IDLE || client_next(client, conn)) {
        out = us_reserve(client->host.stack, conn->us, session_want(s), &room);
        if (!out)
            return 0; /* US_EV_SENDABLE will come */
        us_commit(client->host.stack, conn->us, fill(client, conn, out, room));
    }
    return 0;
}

static int stack_flush(struct client *client)
{
    if (host_transmit(&client->host, us_of(client->talk.now_ns)) > 0)
        client->active_ns = client->talk.now_ns;
    return 0;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static int stack_turn(struct client *client, uint64_t wait_us)
{
    uint64_t now_ns = client_clock_ns();
    int rc;

    if (wait_us > 0 && now_ns > client->active_ns + SPIN_NS) {
        rc = host_wait(&client->host, us_of(now_ns), wait_us);
        if (rc < 0)
            return client_fail(client, "the device is gone: %s", strerror(-rc));
        now_ns = client_clock_ns();
    }
    client->talk.now_ns = now_ns;
    if (host_receive(&client->host, us_of(now_ns), on_event, client) > 0)
        client->active_ns = now_ns;
    return client->failed ? -1 : 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int find_server(const struct plan *plan, struct us_addr *addr, uint16_t *port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&plan->server;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&plan->server;

    memset(addr, 0, sizeof(*addr));
    if (plan->server.ss_family == AF_INET) {
        addr->family = US_IP4;
        memcpy(addr->bytes, &in->sin_addr, 4);
        *port = ntohs(in->sin_port);
        return 0;
    }
    addr->family = US_IP6;
    memcpy(addr->bytes, &in6->sin6_addr, 16);
    *port = ntohs(in6->sin6_port);
    return plan->server.ss_family == AF_INET6 ? 0 : -1;
}

/* Starts handshakes up to the bound, from connection `next` on. Returns the next one, or -1. */
static int start_handshakes(struct client *client, const struct us_addr *addr, uint16_t port,
                            int next)
{
    struct conn *conn;
    int error = 0;

    while (next < (int)client->count && next - (int)client->open_count < OPENING_MAX) {
        conn = &client->conns[next];
        conn->us = us_connect(client->host.stack, addr, port, 0, conn, &error);
        if (!conn->us)
            return client_fail(client, "cannot connect to %s: %s", client->plan->server_text,
                               us_strerror(error));
        next++;
    }
    return next;
}

static int connect_all(struct client *client)
{
    uint64_t start_ns = client_clock_ns();
    struct us_addr addr;
    unsigned before = 0;
    uint16_t port;
    int next = 0;

    if (find_server(client->plan, &addr, &port) < 0)
        return client_fail(client, "the own TCP/IP stack needs an IP address to connect to");
    while (client->open_count < client->count && !atomic_load(client->stop)) {
        next = start_handshakes(client, &addr, port, next);
        if (next < 0 || stack_flush(client) < 0 || stack_turn(client, CLIENT_SLEEP_US_MAX) < 0)
            return -1;
        if (client->open_count > before)
            start_ns = client->talk.now_ns;
        before = client->open_count;
        if (client->talk.now_ns > start_ns + client->plan->timeout_ns)
            return client_fail(client, "cannot connect to %s: no answer",
                               client->plan->server_text);
    }
    return 0;
}

static int stack_open(struct client *client, struct nic *nic)
{
    struct host_config config = {.conn_max = client->count,
                                 .recv_window_bytes = RECV_WINDOW_BYTES,
                                 .send_queue_bytes = SEND_QUEUE_BYTES};
    char error[LINK_ERROR_MAX];

    if (host_open(&client->host, nic, &client->plan->link, &config, error) < 0) {
        nic_close(nic);
        return client_fail(client, "%s", error);
    }
    return connect_all(client);
}

static void stack_close(struct client *client)
{
    if (client->host.nic)
        host_close(&client->host, us_of(client_clock_ns()));
}

const struct client_ops client_stack_ops = {.open = stack_open,
                                            .turn = stack_turn,
                                            .pump = stack_pump,
                                            .flush = stack_flush,
                                            .close = stack_close};
