/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over the own TCP/IP stack, with a device queue per thread: requests are written
 * directly into the stack's send queue, and replies are compared in the received packets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/base.h"
#include "client.h"
#include "nic/rss.h"
#include "secure.h"

/* Simultaneous handshakes; servers limit them. */
#define OPENING_MAX 256

/* Busy-polling time before a sleep: a wakeup takes some ten microseconds. */
#define SPIN_NS 50000

#define RECV_WINDOW_BYTES (512 * 1024)
#define SEND_QUEUE_BYTES (256 * 1024)

/* Local ports of connections. */
#define PORT_FIRST 1024u
#define PORT_COUNT (65536u - PORT_FIRST)

/* With --reconnect: TIME-WAIT, and closing connections per open one. */
#define TIME_WAIT_US 10000
#define CLOSING_SHARE 3
#define CLOSING_SPARE 64

/* Bytes of requests that one call of OpenSSL encrypts. */
#define OPENSSL_BYTES 4096

U_STATIC_ASSERT(TEMPLATE_ROOM + TEMPLATE_VALUE_MAX + TEMPLATE_COPY_STEP + TLS_RECORD_OVERHEAD <=
                    US_RESERVE_MAX,
                a_set_is_reserved);

static uint64_t us_of(uint64_t ns)
{
    return ns / 1000;
}

/* ---- writing ----------------------------------------------------------------------------- */

/*
 * Memory of the send queue for requests, with TLS that of a record: at least `want` bytes; *room is
 * set. Null: it is full, and US_EV_SENDABLE follows.
 */
static inline uint8_t *reserve(struct client *client, const struct conn *conn, uint32_t want,
                               u_u32 *room)
{
    uint32_t extra = U_UNLIKELY(conn->tls != NULL) ? TLS_RECORD_OVERHEAD : 0;
    uint8_t *out;

    if (U_UNLIKELY(extra > 0 && secure_prepare(client, conn) < 0))
        return NULL;
    out = us_reserve(client->host.stack, conn->us, want + extra, 0, room);
    if (U_UNLIKELY(!out))
        return NULL;
    *room -= extra;
    return U_UNLIKELY(extra > 0) ? out + TLS_RECORD_HEADER : out;
}

/* Queues the first `used` bytes of that memory. */
static inline void commit(struct client *client, const struct conn *conn, uint8_t *out,
                          uint32_t used)
{
    if (U_UNLIKELY(conn->tls != NULL) && used > 0)
        used = secure_seal(client, conn, out - TLS_RECORD_HEADER, used);
    us_commit(client->host.stack, conn->us, used);
}

/* Writes as many requests as fit into the room. Returns the length. */
static uint32_t fill(struct client *client, struct conn *conn, uint8_t *out, uint32_t room)
{
    struct pipeline *s = &conn->pipeline;
    uint32_t used = 0, n;

    do {
        n = pipeline_write(s, out + used, room - used);
        used += n;
    } while (n > 0 && (s->step != WRITE_IDLE || client_next(client, conn)));
    return used;
}

/* The template of the next request when keys have several sizes. */
static __attribute__((noinline)) const struct template *varied_template(const struct client *client,
                                                                        enum op op)
{
    return templates_get_whole(client->ctx.templates, op, client->ids[client->drawn_at]);
}

/*
 * Sends the next request after a reply if it can be written as a whole. Returns false, without
 * effect, if not.
 */
U_ALWAYS_INLINE bool send_next(struct client *client, struct conn *conn)
{
    struct pipeline *s = &conn->pipeline;
    const struct template *template;
    enum op op;
    u_u32 room;
    u_u8 *out;
    uint32_t at;

    if (U_UNLIKELY(pipeline_in_flight(s) + 1 != s->depth || s->step != WRITE_IDLE ||
                   (conn->tls && !tls_session_seals(conn->tls)) || !client_has_drawn(client, conn)))
        return false;
    op = client->drawn_ops[client->drawn_at];
    template = s->ctx->templates->whole[op];
    if (U_UNLIKELY(!template))
        template = varied_template(client, op);
    if (U_UNLIKELY(!template || client->drawn_keys != 1))
        return false;
    out = reserve(client, conn, s->ctx->templates->room, &room);
    if (U_UNLIKELY(!out))
        return false;
    at = client_take(client, conn);
    commit(client, conn, out,
           pipeline_begin_whole(s, op, client->ids[at], template, client->ctx.now_ns, out));
    return true;
}

/* Sends bytes, or stores those that the stack does not accept: US_EV_SENDABLE follows. */
static int stack_put(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    long n = conn->unsent_len > 0 ? 0 : us_send(client->host.stack, conn->us, data, len);

    if (n < 0)
        return client_fail(client, "cannot send to %s: %s", client->plan->server_text,
                           us_strerror((int)n));
    return n < (long)len ? client_keep_unsent(client, conn, data + n, len - (uint32_t)n) : 0;
}

/* Returns whether everything is sent. */
static bool send_unsent(struct client *client, struct conn *conn)
{
    long n;

    if (conn->unsent_len == 0)
        return true;
    n = us_send(client->host.stack, conn->us, conn->unsent + conn->unsent_at, conn->unsent_len);
    if (n > 0) {
        conn->unsent_at += (uint32_t)n;
        conn->unsent_len -= (uint32_t)n;
    }
    return conn->unsent_len == 0;
}

/* Writes requests of a connection whose records are OpenSSL's. */
static int pump_openssl(struct client *client, struct conn *conn)
{
    struct pipeline *s = &conn->pipeline;
    uint8_t requests[OPENSSL_BYTES];

    while (conn->unsent_len == 0 && (s->step != WRITE_IDLE || client_next(client, conn))) {
        if (secure_send(client, conn, requests, fill(client, conn, requests, sizeof(requests))) < 0)
            return -1;
    }
    return 0;
}

static int stack_pump(struct client *client, struct conn *conn)
{
    struct pipeline *s = &conn->pipeline;
    u_u32 room;
    u_u8 *out;

    if (!conn->us || U_UNLIKELY(!send_unsent(client, conn)))
        return 0;
    if (U_UNLIKELY(conn->tls && !tls_session_seals(conn->tls)))
        return pump_openssl(client, conn);
    if (s->step == WRITE_IDLE && !client_next(client, conn))
        return 0;
    do {
        out = reserve(client, conn, pipeline_room_min(s), &room);
        if (!out)
            return client->failed ? -1 : 0; /* US_EV_SENDABLE follows */
        commit(client, conn, out, fill(client, conn, out, room));
    } while (s->step != WRITE_IDLE);
    return client->failed ? -1 : 0;
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

/* Handles an event of an idle connection, which must only stay open. */
static void on_idle(struct client *client, const struct us_event *event)
{
    if (event->type == US_EV_CONNECTED)
        client->open_count++;
    else
        client_fail(client, "%s did not keep an idle connection%s%s", client->plan->server_text,
                    event->type == US_EV_CLOSED ? ": " : "",
                    event->type == US_EV_CLOSED ? us_close_reason_name(event->reason) : "");
}

/* Handles received replies and sends the next request. */
U_ALWAYS_INLINE void on_data(struct client *client, struct conn *conn, const struct us_event *event)
{
    int rc;

    if (client->failed)
        return;
    if (U_UNLIKELY(conn->tls != NULL))
        rc = secure_received(client, conn, event->data, event->len);
    else
        rc = client_replied(client, conn, event->data, event->len);
    if (rc < 0)
        return;
    if (U_UNLIKELY(!client->closed || conn->allowance == 0))
        (void)client_settle(client, conn);
    else if (U_UNLIKELY(!send_next(client, conn)))
        (void)stack_pump(client, conn);
}

/* Handles events other than received data. */
static __attribute__((noinline)) void on_other_event(struct client *client, struct conn *conn,
                                                     const struct us_event *event)
{
    if (!conn)
        return; /* closed to be reopened */
    if (conn == &client->idle) {
        on_idle(client, event);
        return;
    }
    switch (event->type) {
    case US_EV_SENDABLE:
        if (!conn->is_open)
            (void)send_unsent(client, conn);
        else if (client->ops->pump(client, conn) == 0)
            (void)client_settle(client, conn);
        break;
    case US_EV_CONNECTED:
        if (client->plan->tls)
            (void)secure_begin(client, conn);
        else
            (void)client_opened(client, conn);
        break;
    case US_EV_PEER_CLOSED:
        client_fail(client, "the connection to %s was lost: the server has closed it",
                    client->plan->server_text);
        break;
    case US_EV_CLOSED:
        on_closed(client, conn, event->reason);
        break;
    case US_EV_DATA: /* the handshake of TLS, or the login */
        if (conn->us && !client->failed)
            (void)(conn->tls ? secure_received : client_received)(client, conn, event->data,
                                                                  event->len);
        break;
    case US_EV_CWND:
    case US_EV_NONE:
    case US_EV_ACCEPTED:
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
        break;
    }
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct conn *conn = event->user;

    if (U_LIKELY(event->type == US_EV_DATA && conn && conn->is_open))
        on_data(ctx, conn, event);
    else
        on_other_event(ctx, conn, event);
}

/* ---- connections ------------------------------------------------------------------------- */

static uint16_t to_us_addr(const struct server *server, struct us_addr *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&server->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&server->addr;

    memset(addr, 0, sizeof(*addr));
    addr->family = US_IP4;
    if (server->addr.ss_family == AF_INET) {
        memcpy(addr->bytes, &in->sin_addr, 4);
        return ntohs(in->sin_port);
    }
    addr->family = US_IP6;
    memcpy(addr->bytes, &in6->sin6_addr, 16);
    return ntohs(in6->sin6_port);
}

/* The source address that the stack uses for connections to this address. */
static const struct us_addr *local_address(const struct link_options *link,
                                           const struct us_addr *remote)
{
    const struct us_addr *same_family = &link->ip[0].addr;
    unsigned i;

    for (i = link->ip_count; i-- > 0;) {
        if (link_same_network(&link->ip[i], remote))
            return &link->ip[i].addr;
        if (link->ip[i].addr.family == remote->family)
            same_family = &link->ip[i].addr;
    }
    return same_family;
}

/* Whether frames to this local port arrive in this thread. */
static bool is_ours(const struct client *client, struct nic_rss_flow *flow, uint16_t port)
{
    flow->to.port = port;
    return nic_rss_lane(nic_rss_hash(flow), client->plan->threads) == client->number;
}

/* Opens a connection from the next free local port of this thread. Returns null on failure. */
static struct us_conn *connect_to(struct client *client, const struct server *server,
                                  struct conn *conn, int *error)
{
    struct nic_rss_flow flow = {.has_ports = true};
    struct us_conn *us = NULL;
    struct us_addr addr;
    uint16_t port = to_us_addr(server, &addr);
    unsigned tries;

    flow.is_ip6 = addr.family == US_IP6;
    flow.from.port = port;
    memcpy(flow.from.addr, addr.bytes, sizeof(addr.bytes));
    memcpy(flow.to.addr, local_address(&client->plan->link, &addr)->bytes, sizeof(addr.bytes));
    *error = US_ERR_IN_USE;
    for (tries = 0; tries < PORT_COUNT && !us && *error == US_ERR_IN_USE; tries++) {
        uint16_t local = (uint16_t)(PORT_FIRST + client->port_next++ % PORT_COUNT);

        if (client->plan->threads == 1 || is_ours(client, &flow, local))
            us = us_connect(client->host.stack, &addr, port, local, conn, error);
    }
    return us;
}

static int cannot_open(struct client *client, int error)
{
    return client_fail(client, "cannot connect to %s: %s", client->plan->server_text,
                       us_strerror(error));
}

/* Reopens a connection; if the stack has no free connection yet, retries after the next turn. */
static int reconnect(struct client *client, struct conn *conn)
{
    int error;

    conn->us = connect_to(client, conn->server, conn, &error);
    if (conn->us)
        return 0;
    if (error != US_ERR_NO_MEMORY && error != US_ERR_IN_USE)
        return cannot_open(client, error);
    u_list_push_back(&client->reopens, &conn->ready_link);
    return 0;
}

static int stack_reopen(struct client *client, struct conn *conn)
{
    conn->unsent_len = 0;
    us_conn_set_user(conn->us, NULL);
    us_close(client->host.stack, conn->us);
    return reconnect(client, conn);
}

/* Retries one waiting connection per turn. */
static int reopen_waiting(struct client *client)
{
    struct conn *conn;

    if (u_list_is_empty(&client->reopens))
        return 0;
    conn = U_CONTAINER_OF(client->reopens.next, struct conn, ready_link);
    u_list_remove(&conn->ready_link);
    return reconnect(client, conn);
}

static int stack_flush(struct client *client)
{
    if (host_transmit(&client->host, us_of(client->ctx.now_ns)) > 0)
        client->active_ns = client->ctx.now_ns;
    return reopen_waiting(client);
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
    client->ctx.now_ns = now_ns;
    if (host_receive(&client->host, us_of(now_ns), on_event, client) > 0)
        client->active_ns = now_ns;
    return client->failed ? -1 : 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

/*
 * Starts handshakes up to the limit, from connection `next` on, while the stack has a usable
 * address. Returns the next connection, or -1.
 */
static long start_handshakes(struct client *client, long next)
{
    const struct plan *plan = client->plan;
    long total = (long)client->count + client->idle_count;
    int error;

    for (; next < total && next - (long)client->open_count < OPENING_MAX; next++) {
        struct conn *conn = next < (long)client->count ? &client->conns[next] : &client->idle;

        conn->us = connect_to(client, &plan->servers[next % plan->server_count], conn, &error);
        if (!conn->us && host_is_settling(&client->host, error, us_of(client_clock_ns())))
            return next;
        if (!conn->us)
            return cannot_open(client, error);
    }
    return next;
}

static int stack_connect(struct client *client)
{
    uint64_t start_ns = client_clock_ns();
    unsigned before = 0;
    long next = 0;

    client->ctx.now_ns = start_ns;          /* stack_flush() uses it before the first turn */
    client->port_next = (uint32_t)start_ns; /* different from those of the last run */
    while (client->open_count < client->count + client->idle_count &&
           !atomic_load(&client->group->stop) && !atomic_load(&client->group->broken)) {
        next = start_handshakes(client, next);
        if (next < 0 || stack_flush(client) < 0 || stack_turn(client, CLIENT_SLEEP_US_MAX) < 0)
            return -1;
        if (client->open_count > before)
            start_ns = client->ctx.now_ns;
        before = client->open_count;
        if (client->ctx.now_ns > start_ns + client->plan->timeout_ns)
            return client_fail(client, "cannot connect to %s: no answer",
                               client->plan->server_text);
    }
    return 0;
}

static int stack_open(struct client *client, struct nic *nic)
{
    struct host_config config = {.conn_max = client->count + client->idle_count,
                                 .recv_window_bytes = RECV_WINDOW_BYTES,
                                 .send_queue_bytes = SEND_QUEUE_BYTES,
                                 .arp_passive = client->number > 0};
    char error[LINK_ERROR_MAX];
    unsigned i;

    for (i = 0; i < client->plan->server_count; i++) {
        int family = client->plan->servers[i].addr.ss_family;

        if (family != AF_INET && family != AF_INET6) {
            nic_close(nic);
            return client_fail(client, "the own TCP/IP stack needs an IP address to connect to");
        }
    }
    if (client->plan->reconnect > 0) {
        config.conn_max += client->count * CLOSING_SHARE + CLOSING_SPARE;
        config.time_wait_us = TIME_WAIT_US;
    }

    if (host_open(&client->host, nic, &client->plan->link, &config, error) < 0) {
        nic_close(nic);
        return client_fail(client, "%s", error);
    }
    return 0;
}

static void stack_close(struct client *client)
{
    unsigned i;

    for (i = 0; client->conns && i < client->count; i++)
        secure_end(&client->conns[i]);
    if (client->host.nic)
        host_close(&client->host, us_of(client_clock_ns()));
}

const struct client_ops client_stack_ops = {.open = stack_open,
                                            .connect = stack_connect,
                                            .reopen = stack_reopen,
                                            .turn = stack_turn,
                                            .pump = stack_pump,
                                            .put = stack_put,
                                            .flush = stack_flush,
                                            .close = stack_close};
