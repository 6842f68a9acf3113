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

/* How long duplicate address detection may take (RFC 4862 5.4). */
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
    struct stream stream;
    struct u_list link;    /* on ping.free, or on no list */
    struct u_list waiting; /* on ping.waiting while its queue is full, or on no list */
    bool counted;          /* among the open ones */
    bool full;             /* waits until half of its queue is acknowledged */
    bool closing;
};

struct ping {
    struct settings *s;
    struct ping_run *run;      /* the present one; null: a server */
    struct ping_run *next_run; /* follows it; null: it is the last */
    struct nic *nic;
    struct net_worker *threads[2];   /* the stack's and the application's; with unified the same */
    struct net_stack_worker *worker; /* of threads[1] */
    struct cores cores;              /* where the process might run before the device was opened */
    struct ping_conn *conns;
    unsigned conn_count;
    struct u_list free;
    struct u_list waiting;
    unsigned open;
    unsigned expected;  /* connections of the present run */
    unsigned connected; /* of these, those whose data may be exchanged, or might */
    uint64_t connect_until_us;
    uint64_t tick_us;
    bool failed;          /* with settings->error */
    atomic_uint connects; /* connections to begin, of all runs */

    unsigned begun; /* of these; used by the stack's thread only */
    uint64_t settle_until_us;
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

/* The run of a client has failed, with settings->error of the first reason. */
static void end_failed(struct ping *p)
{
    p->failed = true;
    ping_stop(p);
}

static void fail_connecting(struct ping *p, const char *why)
{
    if (!p->failed)
        ucping_fail(p->s, "cannot connect to %s: %s", p->s->peer, why);
    end_failed(p);
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Queues the beginning of a piece. Returns how many bytes; 0: the queue is full. */
static uint32_t queue_piece(struct ping *p, struct ping_conn *conn, const uint8_t *data,
                            uint32_t len)
{
    struct net_stack_worker *worker = p->worker;
    bool by_reference = p->s->zero_copy == SWITCH_ON && !conn->stream.tls &&
                        len >= REFERENCE_BYTES && conn->stream.exchange.mode != MODE_PING;
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

/* Ends a connection that has failed, after an alert of TLS if there is one. */
static void fail_conn(struct ping *p, struct ping_conn *conn)
{
    const uint8_t *alert;
    uint32_t len;

    if (p->run && !p->failed)
        ucping_fail_stream(p->s, &conn->stream);
    if (p->run)
        end_failed(p);
    if (!conn->us || conn->closing)
        return;
    conn->closing = true;
    alert = conn->stream.tls ? stream_next(&conn->stream, &len) : NULL;
    if (alert && net_port_send(p->worker, conn->us, alert, len) == len)
        net_port_close(p->worker, conn->us);
    else
        net_port_abort(p->worker, conn->us);
}

/* Sends what the stream has to send, and closes behind its end. */
static void conn_send(struct ping *p, struct ping_conn *conn)
{
    const uint8_t *data;
    uint32_t len, queued;

    if (!conn->us || conn->closing)
        return;
    while ((data = stream_next(&conn->stream, &len)) != NULL) {
        queued = queue_piece(p, conn, data, len);
        stream_sent(&conn->stream, queued);
        if (queued == 0) {
            u_list_remove(&conn->waiting);
            u_list_push_back(&p->waiting, &conn->waiting);
            return;
        }
    }
    if (conn->stream.failed)
        fail_conn(p, conn);
    if (!stream_is_done(&conn->stream) || conn->closing)
        return;
    conn->closing = true;
    if (p->run && conn->stream.exchange.mode == MODE_RECEIVE)
        net_port_abort(p->worker, conn->us); /* the server sends without end */
    else
        net_port_close(p->worker, conn->us);
}

/* ---- events ------------------------------------------------------------------------------ */

/* Requests the connections of a run. */
static void open_run(struct ping *p, struct ping_run *run, unsigned count)
{
    p->run = run;
    p->next_run = NULL;
    p->expected = count;
    p->connected = 0;
    p->connect_until_us = net_clock_us() + (uint64_t)(p->s->timeout_s * 1e6);
    run->now_ns = run->progress_ns = ucping_clock_ns();
    atomic_fetch_add_explicit(&p->connects, count, memory_order_relaxed);
}

/* All connections of the run are open. */
static void begin_run(struct ping *p)
{
    unsigned i;

    ucping_begin(p->s, p->run);
    for (i = 0; i < p->conn_count; i++) {
        p->conns[i].stream.exchange.begun_ns = p->run->begun_ns;
        conn_send(p, &p->conns[i]);
    }
}

/* Counts a connection whose handshake of TLS, if it has one, is done. */
static void note_open(struct ping *p, struct ping_conn *conn)
{
    if (conn->counted || !conn->stream.open)
        return;
    conn->counted = true;
    p->connected++;
    if (p->run && p->connected == p->expected)
        begin_run(p);
}

/* A connection was accepted or is connected. */
static void conn_open(struct ping *p, struct us_conn *us)
{
    struct u_list *link = u_list_pop_front(&p->free);
    struct ping_conn *conn = U_CONTAINER_OF(link, struct ping_conn, link);

    if (!link || stream_open(&conn->stream, p->s->security, p->run) < 0) {
        net_port_abort(p->worker, us);
        if (link)
            u_list_push_front(&p->free, link);
        if (p->run)
            fail_connecting(p, "no memory");
        return;
    }
    conn->us = us;
    conn->closing = conn->full = conn->counted = false;
    net_port_set_user(p->worker, us, conn);
    p->open++;
    note_open(p, conn);
    conn_send(p, conn);
}

static void conn_received(struct ping *p, struct ping_conn *conn, const struct us_event *event)
{
    if (conn->stream.failed || (conn->closing && !conn->stream.tls))
        return; /* TLS of the peer has an end, which follows */
    if (stream_received(&conn->stream, event->data, event->len) < 0)
        fail_conn(p, conn);
    else
        note_open(p, conn);
    conn_send(p, conn);
}

static void conn_peer_closed(struct ping *p, struct ping_conn *conn)
{
    if (stream_peer_closed(&conn->stream) < 0)
        fail_conn(p, conn);
    conn_send(p, conn);
}

/* A client that has received for long enough aborts its connections. */
static bool may_end(const struct ping *p, const struct ping_conn *conn)
{
    const struct exchange *exchange = &conn->stream.exchange;

    return !p->run || (conn->closing && exchange->done && exchange->mode == MODE_RECEIVE);
}

static void conn_closed(struct ping *p, struct ping_conn *conn, enum us_close_reason reason)
{
    conn->us = NULL;
    u_list_remove(&conn->waiting);
    u_list_push_front(&p->free, &conn->link);
    p->open--;
    if (reason != US_CLOSE_NORMAL && !may_end(p, conn)) {
        (void)stream_fail(&conn->stream, us_close_reason_name(reason));
        fail_conn(p, conn);
    }
    stream_close(&conn->stream);
    if (!p->run || p->open > 0 || p->connected < p->expected || p->failed)
        return;
    p->run->ended_ns = ucping_clock_ns();
    if (p->next_run)
        open_run(p, p->next_run, p->conn_count);
    else
        ping_stop(p);
}

static void handle_event(struct ping *p, const struct us_event *event)
{
    struct ping_conn *conn = event->user;

    if (event->type == US_EV_ACCEPTED || event->type == US_EV_CONNECTED) {
        conn_open(p, event->conn);
    } else if (!conn) {
        if (event->type == US_EV_CLOSED && p->run)
            fail_connecting(p, us_close_reason_name(event->reason));
    } else if (event->type == US_EV_DATA) {
        conn_received(p, conn, event);
    } else if (event->type == US_EV_PEER_CLOSED) {
        conn_peer_closed(p, conn);
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
    if (p->run && p->connected < p->expected && worker->now_us > p->connect_until_us)
        fail_connecting(p, "no answer");
    if (p->run && p->open > 0 && !p->failed && ucping_is_stuck(p->s, p->run)) {
        ucping_fail(p->s, "%s does not answer", p->s->peer);
        end_failed(p);
    }
    if (!p->run && p->s->security && worker->now_us >= p->tick_us) {
        p->tick_us = worker->now_us + 1000000;
        security_tick(p->s->security, worker->now_us);
    }
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
    while (p->begun < atomic_load_explicit(&p->connects, memory_order_relaxed) && rc == US_OK) {
        rc = net_stack_connect(worker, &addr, ntohs(in->sin_port));
        p->begun += rc == US_OK;
    }
    if (rc == US_OK ||
        (rc == US_ERR_NO_ROUTE && addr.family == US_IP6 && worker->now_us < p->settle_until_us))
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
        .conn_max = p->conn_count + 1, /* one of before the run, see --tls-resume */
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

/* A server has no run. */
static void begin(struct ping *p, struct ping_run *run)
{
    struct security *security = p->s->security;

    p->settle_until_us = net_clock_us() + ADDRESS_US;
    if (p->s->listen)
        return;
    if (!security || !security->resumes) {
        open_run(p, run, p->conn_count);
        return;
    }
    open_run(p, &security->first, 1);
    p->next_run = run;
}

static void close_conns(struct ping *p)
{
    unsigned i;

    for (i = 0; p->conns && i < p->conn_count; i++)
        stream_close(&p->conns[i].stream);
    free(p->conns);
}

int ucping_stack(struct settings *s, struct ping_run *run)
{
    struct ping p = {.s = s};
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
        begin(&p, run);
        rc = run_threads(&p);
        if (rc == 0 && s->json)
            rc = keep_counters(&p);
        close_worker(&p);
    }
    close_conns(&p);
    return rc;
}
