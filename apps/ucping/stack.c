/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping over the own TCP/IP stack: the stack's side on one queue of a device, and the loop that
 * does all in one thread. See stack.h.
 */
#include "stack.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CONNECT_NS UINT64_C(5000000000)
#define WINDOW_BYTES (1024 * 1024)

/* How much may be queued by references: beyond that nothing is gained. */
#define QUEUED_MAX (4u * 1024 * 1024)

/* ---- words, for the application in the same loop ----------------------------------------- */

uint32_t stack_send(struct loop *l, const struct line *line, const uint8_t *data, uint32_t len,
                    bool by_reference)
{
    long n;

    if (!by_reference) {
        n = us_send(l->host.stack, line->us, data, len);
        return n > 0 ? (uint32_t)n : 0;
    }
    if (us_send_queued(line->us) >= QUEUED_MAX) {
        us_want_sendable(l->host.stack, line->us);
        return 0;
    }
    /* The text never changes and never goes away: nothing waits for the release. */
    return us_send_ref(l->host.stack, line->us, data, STACK_REF_BYTES, NULL) == 0 ? STACK_REF_BYTES
                                                                                  : 0;
}

static uint32_t say_send(struct loop *l, struct line *line, const uint8_t *data, uint32_t len,
                         bool by_reference)
{
    return stack_send(l, line, data, len, by_reference);
}

static void say_close(struct loop *l, struct line *line)
{
    us_close(l->host.stack, line->us);
}

static void say_abort(struct loop *l, struct line *line)
{
    us_abort(l->host.stack, line->us);
}

static const struct stack_words words = {say_send, say_close, say_abort};

/* ---- events ------------------------------------------------------------------------------ */

struct line *stack_accepted(struct loop *l, struct us_conn *us)
{
    struct line *line = l->free;

    us_conn_set_user(us, line);
    if (!line) {
        us_abort(l->host.stack, us);
        return NULL;
    }
    l->free = line->next_free;
    line->us = us;
    return line;
}

void stack_line_free(struct loop *l, struct line *line)
{
    line->next_free = l->free;
    l->free = line;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct loop *l = ctx;
    struct line *line =
        event->type == US_EV_ACCEPTED ? stack_accepted(l, event->conn) : event->user;

    if (!line)
        return;
    if (event->type == US_EV_CLOSED)
        line->us = NULL;
    talk_event(l, line, event);
    if (event->type == US_EV_CLOSED && !l->game)
        stack_line_free(l, line);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static int turn(struct loop *l)
{
    uint64_t now_ns = ucping_clock_ns();
    int rc;

    if (!l->s->poll && now_ns > l->active_ns + STACK_SPIN_NS) {
        rc = host_wait(&l->host, now_ns / 1000, STACK_WAIT_US);
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

/* One more; not yet, if our address is not in use yet. Returns how many, or -1. */
static int connect_one(struct loop *l, const struct us_addr *addr, uint16_t port)
{
    struct line *line = &l->lines[l->open];
    int error = 0;

    line->us = us_connect(l->host.stack, addr, port, 0, line, &error);
    if (!line->us && host_is_settling(&l->host, error, ucping_clock_ns() / 1000))
        return 0;
    if (!line->us)
        return ucping_fail(l->s, "cannot connect to %s: %s", l->s->peer, us_strerror(error));
    talk_open(l, line);
    return 1;
}

static int connect_all(struct loop *l)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&l->s->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&l->s->addr;
    uint64_t until_ns = ucping_clock_ns() + CONNECT_NS;
    struct us_addr addr = {0};
    int rc;

    addr.family = in->sin_family == AF_INET ? US_IP4 : US_IP6;
    if (addr.family == US_IP4)
        memcpy(addr.bytes, &in->sin_addr, 4);
    else
        memcpy(addr.bytes, &in6->sin6_addr, 16);
    while (l->connected < l->s->connections && !atomic_load(&ucping_stop)) {
        do
            rc = l->open < l->s->connections ? connect_one(l, &addr, ntohs(in->sin_port)) : 0;
        while (rc > 0);
        if (rc < 0 || turn(l) < 0)
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

    for (i = 0; i < UCPING_CONNECTIONS_MAX; i++)
        stack_line_free(l, &l->lines[i]);
    if (rc < 0)
        return ucping_fail(l->s, "cannot listen: %s", us_strerror(rc));
    ucping_say_listening(l->s);
    return 0;
}

static int run_in_one_loop(struct loop *l)
{
    int rc = 0;

    if (l->game)
        talk_begin(l);
    while (rc == 0 && !atomic_load(&ucping_stop) && (!l->game || l->open > 0))
        rc = turn(l);
    if (l->game)
        l->game->over_ns = ucping_clock_ns();
    return rc;
}

/* Connections of a client are open before the threads of other models part. */
static int run(struct loop *l, const struct cores *before)
{
    int rc = l->s->listen ? listen_on(l) : connect_all(l);

    if (rc == 0 && l->s->threading == NET_THREADING_UNIFIED)
        rc = run_in_one_loop(l);
    else if (rc == 0)
        rc = threads_run(l, before);
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

/* ---- opening ----------------------------------------------------------------------------- */

static int open_host(struct loop *l, unsigned count)
{
    struct host_config config = {
        .conn_max = count, .recv_window_bytes = WINDOW_BYTES, .send_queue_bytes = WINDOW_BYTES};
    struct link_use use = {.queues = 1};
    struct nic *nic;

    if (link_open(&l->s->link, &use, &nic, l->s->error) < 0)
        return -1;
    if (host_open(&l->host, nic, &l->s->link, &config, l->s->error) == 0)
        return 0;
    nic_close(nic);
    return -1;
}

int ucping_stack(struct settings *s, struct game *game)
{
    unsigned count = s->listen ? UCPING_CONNECTIONS_MAX : s->connections;
    struct loop l = {.s = s, .game = game, .words = &words};
    size_t bytes = count * sizeof(l.lines[0]);
    char why[CORES_ERROR_MAX];
    struct cores before;
    int rc;

    if (cores_all(&before, why) < 0)
        return ucping_fail(s, "%s", why);
    l.lines = aligned_alloc(U_LINE_BYTES, bytes);
    if (!l.lines)
        return ucping_fail(s, "no memory for the connections");
    memset(l.lines, 0, bytes);
    rc = open_host(&l, count);
    if (rc == 0) {
        rc = run(&l, &before);
        if (rc == 0 && s->json)
            rc = keep_counters(&l);
        host_close(&l.host, ucping_clock_ns() / 1000);
    }
    free(l.lines);
    return rc;
}
