/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping on the own TCP/IP stack: an application (struct net_app_ops) on a worker of src/net, with
 * one connection for each exchange. With --threading=split and merge the worker is two threads,
 * "ucping" for the stack and "application" for the code in this file.
 */
#define _GNU_SOURCE /* pthread_setname_np() */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/cores.h"
#include "net/port.h"
#include "ping.h"

#define WINDOW_BYTES (1024 * 1024)
#define SLEEP_US_MAX 50000

/* How long connecting may take, and of that the duplicate address detection (RFC 4862 5.4). */
#define CONNECT_US 5000000
#define ADDRESS_US 3000000

/* Sent by reference: pieces of this length. Other pieces are copied, at most so much of each. */
#define REFERENCE_BYTES 65536u
#define COPY_BYTES 16384u

/*
 * Bytes queued on a connection from which on it waits until half of them are acknowledged. Copies
 * are bounded by the send queue of WINDOW_BYTES; more references gain nothing.
 */
#define QUEUED_REFERENCES_MAX (4u * 1024 * 1024)
#define QUEUED_COPIES_MAX (WINDOW_BYTES / 4 * 3)

/* After the last frame: time for the peer to take it from a ring in memory, which we free. */
#define LINGER_NS 2000000

struct ping_conn {
    struct us_conn *us; /* null: not open */
    struct exchange exchange;
    struct u_list link;    /* on ping.free, or on no list */
    struct u_list waiting; /* on ping.waiting while its queue is full, or on no list */
    bool full;             /* waits until half of its queue is acknowledged */
    bool closing;
};

struct ping {
    struct settings *s;
    struct ping_run *run; /* null: a server */
    struct nic *nic;
    struct net_worker *threads[2];   /* the stack's and the application's; with unified the same */
    struct net_stack_worker *worker; /* of threads[1] */
    struct cores cores;              /* where the process might run before the device was opened */
    struct ping_conn *conns;
    unsigned conn_count;
    struct u_list free;
    struct u_list waiting;
    unsigned open;
    unsigned connected;
    uint64_t connect_until_us;
    bool failed; /* with settings->error */

    unsigned connects; /* connections begun; used by the stack's thread only */
};

static struct ping *ping_of(const struct net_stack_worker *worker)
{
    return worker->app_ctx;
}

static void ping_stop(const struct ping *p)
{
    net_worker_stop(p->threads[0]);
    net_worker_stop(p->threads[1]);
}

static void fail_run(struct ping *p, const char *why)
{
    if (!p->failed)
        ucping_fail(p->s, "%s: %s", p->s->peer, why);
    p->failed = true;
    ping_stop(p);
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Queues the beginning of a piece. Returns how many bytes; 0: the queue is full. */
static uint32_t queue_piece(struct ping *p, struct ping_conn *conn, const uint8_t *data,
                            uint32_t len)
{
    struct net_stack_worker *worker = p->worker;
    bool by_reference =
        p->s->zero_copy == SWITCH_ON && conn->exchange.mode != MODE_PING && len >= REFERENCE_BYTES;
    uint32_t limit = by_reference ? QUEUED_REFERENCES_MAX : QUEUED_COPIES_MAX;

    if (net_port_is_congested(worker))
        return 0;
    if (conn->full)
        limit /= 2;
    conn->full = net_port_queued(worker, conn->us, conn->full) >= limit;
    if (conn->full)
        return 0;
    if (!by_reference)
        return net_port_send(worker, conn->us, data, u_min32(len, COPY_BYTES));
    /* The text never changes, so nothing waits for RELEASED. */
    return net_port_send_ref(worker, conn->us, data, REFERENCE_BYTES, NULL) < 0 ? 0
                                                                                : REFERENCE_BYTES;
}

/* Sends what the exchange has to send, and closes behind its end. */
static void conn_send(struct ping *p, struct ping_conn *conn)
{
    const uint8_t *data;
    uint32_t len, queued;

    if (!conn->us || conn->closing)
        return;
    while ((data = exchange_next(&conn->exchange, &len)) != NULL) {
        queued = queue_piece(p, conn, data, len);
        exchange_sent(&conn->exchange, queued);
        if (queued == 0) {
            u_list_remove(&conn->waiting);
            u_list_push_back(&p->waiting, &conn->waiting);
            return;
        }
    }
    if (!conn->exchange.done)
        return;
    conn->closing = true;
    if (p->run && conn->exchange.mode == MODE_RECEIVE)
        net_port_abort(p->worker, conn->us); /* the server sends without end */
    else
        net_port_close(p->worker, conn->us);
}

static void fail_conn(struct ping *p, struct ping_conn *conn, const char *why)
{
    if (p->run)
        fail_run(p, why);
    if (!conn->us || conn->closing)
        return;
    conn->closing = true;
    net_port_abort(p->worker, conn->us);
}

/* ---- events ------------------------------------------------------------------------------ */

static void begin_run(struct ping *p)
{
    unsigned i;

    ucping_begin(p->s, p->run);
    for (i = 0; i < p->conn_count; i++) {
        p->conns[i].exchange.begun_ns = p->run->begun_ns;
        conn_send(p, &p->conns[i]);
    }
}

/* A connection was accepted or is connected. */
static void conn_open(struct ping *p, struct us_conn *us)
{
    struct u_list *link = u_list_pop_front(&p->free);
    struct ping_conn *conn = U_CONTAINER_OF(link, struct ping_conn, link);

    if (!link) {
        net_port_abort(p->worker, us);
        return;
    }
    conn->us = us;
    conn->closing = conn->full = false;
    exchange_open(&conn->exchange, p->run);
    net_port_set_user(p->worker, us, conn);
    p->open++;
    p->connected++;
    if (p->run && p->connected == p->conn_count)
        begin_run(p);
}

static void conn_received(struct ping *p, struct ping_conn *conn, const struct us_event *event)
{
    if (conn->closing)
        return;
    if (exchange_received(&conn->exchange, event->data, event->len) < 0)
        fail_conn(p, conn, "a wrong byte has come");
    conn_send(p, conn);
}

static void conn_closed(struct ping *p, struct ping_conn *conn, enum us_close_reason reason)
{
    bool in_order = reason == US_CLOSE_NORMAL || (conn->closing && conn->exchange.done);

    conn->us = NULL;
    u_list_remove(&conn->waiting);
    u_list_push_front(&p->free, &conn->link);
    p->open--;
    if (!in_order)
        fail_conn(p, conn, us_close_reason_name(reason));
    if (!p->run || p->open > 0 || p->connected < p->conn_count)
        return;
    p->run->ended_ns = ucping_clock_ns();
    ping_stop(p);
}

static void handle_event(struct ping *p, const struct us_event *event)
{
    struct ping_conn *conn = event->user;

    if (event->type == US_EV_ACCEPTED || event->type == US_EV_CONNECTED) {
        conn_open(p, event->conn);
    } else if (!conn) {
        if (event->type == US_EV_CLOSED && p->run)
            fail_run(p, us_close_reason_name(event->reason));
    } else if (event->type == US_EV_DATA) {
        conn_received(p, conn, event);
    } else if (event->type == US_EV_PEER_CLOSED) {
        exchange_peer_closed(&conn->exchange);
        conn_send(p, conn);
    } else if (event->type == US_EV_CLOSED) {
        conn_closed(p, conn, event->reason);
    }
}

static unsigned ping_handle_events(struct net_stack_worker *worker)
{
    struct ping *p = ping_of(worker);
    struct u_list waiting, *link;
    struct us_event event;
    unsigned n;

    /* Acknowledgments are no events, and a sender that gets nothing else has a time limit, too. */
    if (p->run)
        p->run->now_ns = ucping_clock_ns();
    for (n = 0; net_port_next_event(worker, &event); n++)
        handle_event(p, &event);
    /* Any frame may have acknowledged what a full queue waits for. */
    u_list_init(&waiting);
    if (worker->active || n > 0)
        u_list_append_all(&waiting, &p->waiting);
    while ((link = u_list_pop_front(&waiting)) != NULL)
        conn_send(p, U_CONTAINER_OF(link, struct ping_conn, waiting));
    net_port_flush(worker);
    return n;
}

static void ping_tick(struct net_stack_worker *worker)
{
    struct ping *p = ping_of(worker);

    if (atomic_load_explicit(&ucping_stop, memory_order_relaxed))
        ping_stop(p);
    if (p->run && p->connected < p->conn_count && worker->now_us > p->connect_until_us)
        fail_run(p, "cannot connect: no answer");
}

static uint32_t ping_sleep_us_max(const struct net_stack_worker *worker)
{
    return SLEEP_US_MAX;
}

static void ping_abort_all(struct net_stack_worker *worker)
{
    struct ping *p = ping_of(worker);
    unsigned i;

    for (i = 0; i < p->conn_count; i++) {
        if (p->conns[i].us)
            net_port_abort(worker, p->conns[i].us);
    }
}

static bool ping_has_ended(const struct net_stack_worker *worker)
{
    return ping_of(worker)->open == 0;
}

/* ---- connecting -------------------------------------------------------------------------- */

/* Begins all connections. An IPv6 address is not usable before duplicate address detection. */
static int ping_connect(struct net_stack_worker *worker)
{
    struct ping *p = ping_of(worker);
    const struct sockaddr_in *in = (const struct sockaddr_in *)&p->s->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&p->s->addr;
    struct us_addr addr = {.family = in->sin_family == AF_INET ? US_IP4 : US_IP6};
    int rc = US_OK;

    if (addr.family == US_IP4)
        memcpy(addr.bytes, &in->sin_addr, 4);
    else
        memcpy(addr.bytes, &in6->sin6_addr, 16);
    if (!p->run)
        return 0;
    while (p->connects < p->conn_count && rc == US_OK) {
        rc = net_stack_connect(worker, &addr, ntohs(in->sin_port));
        p->connects += rc == US_OK;
    }
    if (rc == US_OK || (rc == US_ERR_NO_ROUTE && addr.family == US_IP6 &&
                        worker->now_us < p->connect_until_us - CONNECT_US + ADDRESS_US))
        return 0;
    ucping_fail(p->s, "cannot connect to %s: %s", p->s->peer, us_strerror(rc));
    return -ENOTCONN;
}

static const struct net_app_ops ping_ops = {
    .handle_events = ping_handle_events,
    .tick = ping_tick,
    .sleep_us_max = ping_sleep_us_max,
    .finish_all = ping_abort_all,
    .abort_all = ping_abort_all,
    .has_ended = ping_has_ended,
    .connect = ping_connect,
};

/* ---- running ----------------------------------------------------------------------------- */

static void *application_main(void *arg)
{
    struct ping *p = arg;

    /* DPDK has pinned the process to the core of the stack's thread. */
    if (p->s->threading == NET_THREADING_SPLIT)
        cores_unpin(&p->cores);
    (void)net_worker_run(p->threads[1]); /* it ends when the stack's thread does */
    return NULL;
}

/* With merge both threads run on the first core that the device has left to this one. */
static int pin(struct ping *p)
{
    char why[CORES_ERROR_MAX];
    struct cores cores;

    if (p->s->threading != NET_THREADING_MERGE)
        return 0;
    if (cores_all(&cores, why) < 0)
        return ucping_fail(p->s, "%s", why);
    (void)cores_pin(cores_of_thread(&cores, 0)); /* cannot fail: one of those that it has */
    return 0;
}

static int run_threads(struct ping *p)
{
    bool two = p->threads[0] != p->threads[1];
    pthread_t application;
    int rc;

    if (pin(p) < 0)
        return -1;
    if (two) {
        rc = pthread_create(&application, NULL, application_main, p);
        if (rc != 0)
            return ucping_fail(p->s, "no thread for the application: %s", strerror(rc));
        pthread_setname_np(application, "application");
    }
    rc = net_worker_run(p->threads[0]);
    if (two)
        pthread_join(application, NULL);
    if (rc < 0 && !p->failed && p->s->error[0] == '\0')
        return ucping_fail(p->s, "the device failed: %s", strerror(-rc));
    return rc < 0 || p->failed ? -1 : 0;
}

/* ---- the counters of the link and of the rings ------------------------------------------- */

static void add_counter(void *ctx, const char *name, uint64_t value)
{
    FILE *text = ctx;

    fprintf(text, "%s\"%s\": %llu", ftell(text) > 0 ? ", " : "", name, (unsigned long long)value);
}

static void keep_ring_counters(struct settings *s, const struct net_counter *counters)
{
    s->events.records = net_counter_read(&counters[NET_SPLIT_EVENTS]);
    s->events.full = net_counter_read(&counters[NET_SPLIT_EVENTS_FULL]);
    s->events.wakes = net_counter_read(&counters[NET_SPLIT_SESSION_WAKES]);
    s->commands.records = net_counter_read(&counters[NET_SPLIT_COMMANDS]);
    s->commands.full = net_counter_read(&counters[NET_SPLIT_COMMANDS_FULL]);
    s->commands.wakes = net_counter_read(&counters[NET_SPLIT_STACK_WAKES]);
}

static int keep_counters(struct ping *p)
{
    size_t bytes;
    FILE *text = open_memstream(&p->s->link_counters, &bytes);

    if (text)
        nic_stats(p->nic, add_counter, text);
    if (!text || fclose(text) != 0)
        return ucping_fail(p->s, "no memory for the link's counters");
    if (p->worker->split)
        keep_ring_counters(p->s, p->worker->split->counters);
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int open_worker(struct ping *p)
{
    struct link_params use = {.queues = 1};
    struct net_stack_config config = {
        .app = &ping_ops,
        .app_ctx = p,
        .idle = p->s->poll ? NET_IDLE_POLL : NET_IDLE_ADAPTIVE,
        .threading = p->s->threading,
        .conn_max = p->conn_count,
        .window_bytes = WINDOW_BYTES,
    };

    if (getrandom(config.secret, sizeof(config.secret), 0) != sizeof(config.secret))
        return ucping_fail(p->s, "no random numbers: %s", strerror(errno));
    if (p->s->listen)
        config.port = ntohs(((const struct sockaddr_in *)&p->s->addr)->sin_port);
    if (link_open(&p->s->link, &use, &p->nic, p->s->error) < 0)
        return -1;
    link_configure_stack(&p->s->link, &config);
    if (config.threading == NET_THREADING_UNIFIED)
        p->threads[0] = p->threads[1] = net_stack_worker_open(p->nic, &config, p->s->error);
    else
        net_split_worker_open(p->nic, &config, p->threads, p->s->error);
    if (!p->threads[0]) {
        nic_close(p->nic);
        return -1;
    }
    p->worker = (struct net_stack_worker *)p->threads[1];
    return 0;
}

static void close_worker(struct ping *p)
{
    const struct timespec linger = {.tv_nsec = LINGER_NS};

    (void)nanosleep(&linger, NULL);
    if (p->threads[1] != p->threads[0])
        net_worker_close(p->threads[1]);
    net_worker_close(p->threads[0]);
}

static int open_conns(struct ping *p)
{
    unsigned i;

    p->conn_count = p->s->listen ? UCPING_CONNECTIONS_MAX : p->s->connections;
    p->conns = calloc(p->conn_count, sizeof(p->conns[0]));
    u_list_init(&p->free);
    u_list_init(&p->waiting);
    if (!p->conns)
        return ucping_fail(p->s, "no memory for the connections");
    for (i = 0; i < p->conn_count; i++) {
        u_list_init(&p->conns[i].waiting);
        u_list_push_back(&p->free, &p->conns[i].link);
    }
    return 0;
}

int ucping_stack(struct settings *s, struct ping_run *run)
{
    struct ping p = {.s = s, .run = run};
    char why[CORES_ERROR_MAX];
    int rc;

    if (cores_all(&p.cores, why) < 0)
        return ucping_fail(s, "%s", why);
    if (open_conns(&p) < 0)
        return -1;
    rc = open_worker(&p);
    if (rc == 0) {
        if (s->listen)
            ucping_print_listening(s);
        p.connect_until_us = net_clock_us() + CONNECT_US;
        rc = run_threads(&p);
        if (rc == 0 && s->json)
            rc = keep_counters(&p);
        close_worker(&p);
    }
    free(p.conns);
    return rc;
}
