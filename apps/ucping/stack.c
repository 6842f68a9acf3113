/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping over the own TCP/IP stack: one queue of a device, one thread, both roles. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ucping.h"

#define WAIT_US 50000

/* How long it stays awake without work. */
#define SPIN_NS 50000

#define CONNECT_NS UINT64_C(5000000000)
#define WINDOW_BYTES (1024 * 1024)

/* One reference, and how much may be queued by references: beyond that nothing is gained. */
#define REF_BYTES 65536
#define QUEUED_MAX (4u * 1024 * 1024)

struct link_conn {
    struct conv conv;
    struct us_conn *us;
    struct link_conn *next_free;
    bool closing;
};

struct loop {
    struct settings *s;
    struct game *game;
    struct host host;
    struct link_conn *conns, *free;
    unsigned open; /* connections that are not closed */
    unsigned connected;
    uint64_t now_ns, active_ns;
    bool failed;
};

/* ---- data -------------------------------------------------------------------------------- */

/* Queues one piece. Returns how much was taken; 0: not now. */
static uint32_t put(struct loop *l, struct link_conn *c, const uint8_t *data, uint32_t len)
{
    long n;

    if (!l->s->copy && c->conv.mode != MODE_PING && len >= REF_BYTES) {
        if (us_send_queued(c->us) >= QUEUED_MAX) {
            us_want_sendable(l->host.stack, c->us);
            return 0;
        }
        /* The text never changes and never goes away: nothing waits for the release. */
        return us_send_ref(l->host.stack, c->us, data, REF_BYTES, NULL) == 0 ? REF_BYTES : 0;
    }
    n = us_send(l->host.stack, c->us, data, len);
    return n > 0 ? (uint32_t)n : 0;
}

static void pump(struct loop *l, struct link_conn *c)
{
    const uint8_t *data;
    uint32_t len, n;

    if (!c->us || c->closing)
        return;
    while ((data = conv_next(&c->conv, &len))) {
        n = put(l, c, data, len);
        conv_sent(&c->conv, n);
        if (n == 0)
            return; /* US_EV_SENDABLE will come */
    }
    if (!c->conv.over)
        return;
    c->closing = true;
    if (l->game && c->conv.mode == MODE_RECEIVE)
        us_abort(l->host.stack, c->us); /* there is no end to what comes */
    else
        us_close(l->host.stack, c->us);
}

static void fail_conn(struct loop *l, struct link_conn *c, const char *why)
{
    if (l->game && !l->failed) {
        l->failed = true;
        ucping_fail(l->s, "%s: %s", l->s->peer, why);
    }
    if (c->us && !c->closing) {
        c->closing = true;
        us_abort(l->host.stack, c->us);
    }
}

/* ---- events ------------------------------------------------------------------------------ */

static void on_accepted(struct loop *l, struct us_conn *us)
{
    struct link_conn *c = l->free;

    if (!c) {
        us_abort(l->host.stack, us);
        return;
    }
    l->free = c->next_free;
    conv_open(&c->conv, NULL);
    c->us = us;
    c->closing = false;
    us_conn_set_user(us, c);
    l->open++;
}

static void on_closed(struct loop *l, struct link_conn *c, enum us_close_reason reason)
{
    bool in_order = reason == US_CLOSE_NORMAL || (c->closing && c->conv.over);

    c->us = NULL;
    l->open--;
    if (l->game && !in_order)
        fail_conn(l, c, us_close_reason_name(reason));
    if (!l->game) {
        c->next_free = l->free;
        l->free = c;
    }
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct loop *l = ctx;
    struct link_conn *c = event->user;

    switch (event->type) {
    case US_EV_ACCEPTED:
        on_accepted(l, event->conn);
        break;
    case US_EV_CONNECTED:
        l->connected++;
        break;
    case US_EV_DATA:
        if (!c || c->closing)
            break;
        if (conv_take(&c->conv, event->data, event->len) < 0)
            fail_conn(l, c, "a wrong byte has come");
        pump(l, c);
        break;
    case US_EV_SENDABLE:
        if (c)
            pump(l, c);
        break;
    case US_EV_PEER_CLOSED:
        if (!c)
            break;
        conv_peer_done(&c->conv);
        pump(l, c);
        break;
    case US_EV_CLOSED:
        if (c)
            on_closed(l, c, event->reason);
        break;
    case US_EV_NONE:
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
        break;
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static int turn(struct loop *l)
{
    uint64_t now_ns = ucping_clock_ns();
    int rc;

    if (!l->s->poll && now_ns > l->active_ns + SPIN_NS) {
        rc = host_wait(&l->host, now_ns / 1000, WAIT_US);
        if (rc < 0)
            return ucping_fail(l->s, "the device is gone: %s", strerror(-rc));
        now_ns = ucping_clock_ns();
    }
    l->now_ns = now_ns;
    if (l->game)
        l->game->now_ns = now_ns;
    if (host_receive(&l->host, now_ns / 1000, on_event, l) +
            host_transmit(&l->host, now_ns / 1000) >
        0)
        l->active_ns = now_ns;
    return l->failed ? -1 : 0;
}

static int connect_all(struct loop *l)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&l->s->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&l->s->addr;
    uint64_t until_ns = ucping_clock_ns() + CONNECT_NS;
    struct us_addr addr = {0};
    unsigned i;
    int error = 0;

    addr.family = in->sin_family == AF_INET ? US_IP4 : US_IP6;
    if (addr.family == US_IP4)
        memcpy(addr.bytes, &in->sin_addr, 4);
    else
        memcpy(addr.bytes, &in6->sin6_addr, 16);
    for (i = 0; i < l->s->connections; i++) {
        struct link_conn *c = &l->conns[i];

        c->us = us_connect(l->host.stack, &addr, ntohs(in->sin_port), 0, c, &error);
        if (!c->us)
            return ucping_fail(l->s, "cannot connect to %s: %s", l->s->peer, us_strerror(error));
        conv_open(&c->conv, l->game);
        l->open++;
    }
    while (l->connected < l->s->connections && !atomic_load(&ucping_stop)) {
        if (turn(l) < 0)
            return -1;
        if (l->now_ns > until_ns)
            return ucping_fail(l->s, "cannot connect to %s: no answer", l->s->peer);
    }
    return 0;
}

static int listen_on(struct loop *l)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&l->s->addr;
    int rc = us_listen(l->host.stack, ntohs(in->sin_port), NULL);
    unsigned i;

    for (i = 0; i < UCPING_CONNECTIONS_MAX; i++) {
        l->conns[i].next_free = l->free;
        l->free = &l->conns[i];
    }
    if (rc < 0)
        return ucping_fail(l->s, "cannot listen: %s", us_strerror(rc));
    ucping_say_listening(l->s);
    return 0;
}

static int run(struct loop *l)
{
    unsigned i;
    int rc = l->s->listen ? listen_on(l) : connect_all(l);

    if (rc == 0 && l->game) {
        ucping_begin(l->s, l->game);
        for (i = 0; i < l->s->connections; i++) {
            l->conns[i].conv.begun_ns = l->game->begun_ns;
            pump(l, &l->conns[i]);
        }
    }
    while (rc == 0 && !atomic_load(&ucping_stop) && (!l->game || l->open > 0))
        rc = turn(l);
    if (l->game)
        l->game->over_ns = ucping_clock_ns();
    return rc;
}

/* ---- what the link has counted ----------------------------------------------------------- */

static void add_counter(void *ctx, const char *name, uint64_t value)
{
    FILE *text = ctx;

    fprintf(text, "%s\"%s\": %llu", ftell(text) > 0 ? ", " : "", name, (unsigned long long)value);
}

static int keep_counters(struct loop *l)
{
    size_t bytes;
    FILE *text = open_memstream(&l->s->counted, &bytes);

    if (text)
        nic_stats(l->host.nic, add_counter, text);
    if (!text || fclose(text) != 0)
        return ucping_fail(l->s, "no memory for the link's counters");
    return 0;
}

int ucping_stack(struct settings *s, struct game *game)
{
    unsigned count = s->listen ? UCPING_CONNECTIONS_MAX : s->connections;
    struct loop l = {.s = s, .game = game};
    struct host_config config = {
        .conn_max = count, .recv_window_bytes = WINDOW_BYTES, .send_queue_bytes = WINDOW_BYTES};
    struct link_use use = {.queues = 1};
    struct nic *nic;
    int rc;

    l.conns = calloc(count, sizeof(l.conns[0]));
    if (!l.conns)
        return ucping_fail(s, "no memory for the connections");
    rc = link_open(&s->link, &use, &nic, s->error);
    if (rc > 0) {
        rc = host_open(&l.host, nic, &s->link, &config, s->error);
        if (rc < 0)
            nic_close(nic);
    }
    if (rc == 0) {
        rc = run(&l);
        if (rc == 0 && s->json)
            rc = keep_counters(&l);
        host_close(&l.host, ucping_clock_ns() / 1000);
    }
    free(l.conns);
    return rc < 0 ? -1 : 0;
}
