/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stack worker and clients for its tests: a second stack plays the clients on the other end of a
 * link in memory, under a clock that the test moves. The worker may have two
 * sides (net/split.h), which then take turns in this thread.
 */
#ifndef STACK_RIG_H
#define STACK_RIG_H

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache_end.h"
#include "net/split.h"
#include "net/stack_worker.h"
#include "repeat.h"

#define PORT 11211
#define CLIENT_UDP_PORT 5555
#define CLIENTS_MAX 80
#define STEP_US 100
#define STEPS_MAX 200000
#define IDLE_TURNS_MAX 16

struct client {
    struct us_conn *conn; /* null before connecting and after the end */
    bool connected;
    bool reading; /* false: everything received is given back to the stack */
    bool eof;
    enum us_close_reason reason;
    const char *to_send;
    size_t to_send_len;
    bool close_when_sent;
    char *got;
    size_t got_len;
    size_t got_room;
};

struct fixture {
    char datagram_text[600000]; /* payload that has come by UDP */
    size_t datagram_len;
    unsigned datagrams;
    struct cache *cache;
    struct net_udp_limit *udp_limit;
    struct net_handover *handover;     /* what the next server takes over, or null */
    struct nic *ends[2];               /* ours, the server's */
    struct net_stack_worker *server;   /* with two sides, the stack's */
    struct net_stack_worker *sessions; /* the application's side, or the same */
    struct us_stack *stack;            /* of the clients */
    pthread_t thread;                  /* of the sessions, if rig_threaded */
    unsigned idle_turns;               /* of the stack's side while that thread has no event */
    void *memory;
    uint64_t now_us;
    struct client clients[CLIENTS_MAX];
    unsigned client_count;
};

static const uint8_t server_ip[4] = {10, 0, 0, 1};
static const uint8_t client_ip[4] = {10, 0, 0, 2};

static inline struct us_addr addr4(const uint8_t bytes[4])
{
    struct us_addr addr = {.family = US_IP4};

    memcpy(addr.bytes, bytes, 4);
    return addr;
}

/* Of the servers that are opened: main() may choose. */
static enum net_threading rig_threading;
static bool rig_threaded; /* the application's side has its own thread */

/* ---- the link and the two stacks --------------------------------------------------------- */

static inline void open_clients(struct fixture *f)
{
    struct us_addr addr = addr4(client_ip);
    struct us_config config;

    us_config_defaults(&config);
    memcpy(config.mac, f->ends[0]->mac, 6);
    memset(config.secret, 7, sizeof(config.secret));
    config.conn_max = CLIENTS_MAX;
    config.half_open_max = CLIENTS_MAX;
    config.caps = f->ends[0]->caps;
    config.mtu = f->ends[0]->mtu;
    f->memory = calloc(1, us_memory_bytes(&config));
    f->stack = us_create(&config, f->memory, us_memory_bytes(&config), f->now_us);
    assert_non_null(f->stack);
    assert_int_equal(us_addr_add(f->stack, &addr, 24), 0);
}

struct shape {
    uint32_t connections_max;
    uint32_t buffer_bytes;
    unsigned queue_frames;
    uint32_t requests_per_event;
    uint32_t idle_timeout_s;
    bool accept_waits;
    uint16_t udp_port;
    uint32_t half_open_max;  /* 0: the default */
    struct tls_context *tls; /* null: without */
};

static inline void *sessions_main(void *worker)
{
    return net_worker_run(worker) == 0 ? NULL : worker;
}

static inline void open_worker(struct fixture *f, const struct net_stack_config *config)
{
    struct net_worker *sides[2] = {NULL, NULL};
    char error[NET_ERROR_MAX];

    if (config->threading == NET_THREADING_UNIFIED)
        sides[0] = sides[1] = net_stack_worker_open(f->ends[1], config, error);
    else
        net_split_worker_open(f->ends[1], config, sides, error);
    if (!sides[0])
        fail_msg("cannot open the worker: %s", error);
    f->server = (struct net_stack_worker *)sides[0];
    f->sessions = (struct net_stack_worker *)sides[1];
    assert_int_equal(net_stack_link_workers(f->cache, sides, 1), 0);
    if (rig_threaded)
        assert_int_equal(pthread_create(&f->thread, NULL, sessions_main, sides[1]), 0);
    else
        assert_int_equal(net_stack_begin(f->sessions), 0);
}

/* Lets the sessions' thread run. Without events for it not each time: each yields to all others. */
static inline void sessions_yield(struct fixture *f)
{
    if (!net_ring_is_drained(f->server->split->events) || ++f->idle_turns % IDLE_TURNS_MAX == 0)
        (void)sched_yield();
}

/* Both sides in turn: what comes in is answered. */
static inline void server_turn(struct fixture *f)
{
    net_stack_turn(f->server, f->now_us);
    if (f->server == f->sessions)
        return;
    if (rig_threaded)
        sessions_yield(f);
    else
        net_stack_turn(f->sessions, f->now_us);
    net_stack_turn(f->server, f->now_us);
}

/* The sessions end first: until then they need the stack's turns. */
static inline void sessions_end(struct fixture *f)
{
    void *failed;
    unsigned i;

    if (rig_threaded) {
        net_worker_stop(&f->sessions->worker);
        while (atomic_load(&f->server->split->app_state) != NET_SPLIT_ENDED)
            server_turn(f);
        assert_int_equal(pthread_join(f->thread, &failed), 0);
        assert_null(failed);
        return;
    }
    for (i = 0; i < 100 && !net_stack_has_ended(f->sessions); i++) {
        net_stack_abort(f->sessions);
        server_turn(f);
    }
    assert_true(net_stack_has_ended(f->sessions));
    f->sessions->app->end(f->sessions);
}

/* As at the end of net_worker_run(). */
static inline void server_end(struct fixture *f)
{
    if (f->server != f->sessions)
        sessions_end(f);
    net_stack_end(f->server, f->now_us);
}

/* Makes a cache, and what a worker that serves it is opened with. */
static inline struct net_stack_config make_cache(struct fixture *f, const struct shape *shape)
{
    struct cache_config cache = {.start_us = f->now_us, .start_unix_s = 1700000000};
    struct net_stack_config config = {.port = PORT, .addr_count = 1};
    const char *why = NULL;

    cache.settings.memory_bytes = 64 << 20;
    cache.settings.item_bytes_max = 1 << 20;
    cache.settings.connections_max = shape->connections_max;
    cache.settings.requests_per_event = shape->requests_per_event;
    cache.settings.idle_timeout_s = shape->idle_timeout_s;
    cache.settings.tcp_port = PORT;
    cache.settings.threads = 1;
    cache.settings.evict = true;
    f->cache = cache_create(&cache, &why);
    if (!f->cache)
        fail_msg("cache_create: %s", why);
    config.cache = f->cache;
    config.addrs[0].addr = addr4(server_ip);
    config.addrs[0].prefix_len = 24;
    config.conn_max = shape->connections_max;
    config.buffer_bytes = shape->buffer_bytes;
    config.half_open_max = shape->half_open_max;
    config.udp_port = shape->udp_port;
    if (shape->udp_port > 0)
        f->udp_limit = net_udp_limit_create(NET_UDP_REPLY_BYTES_MAX, 0, config.secret);
    config.udp_limit = f->udp_limit;
    config.accept_waits = shape->accept_waits;
    config.handover = f->handover;
    config.idle_timeout_s = shape->idle_timeout_s;
    config.tls = shape->tls;
    memset(config.secret, 9, sizeof(config.secret));
    config.threading = rig_threading;
    return config;
}

static inline void open_server(struct fixture *f, const struct shape *shape)
{
    struct net_stack_config config = make_cache(f, shape);

    open_worker(f, &config);
}

/* With the link alone. */
static inline struct fixture *fixture_link(const struct shape *shape)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct nic_loopback_config loop = {.queue_frames = shape->queue_frames};
    char error[NIC_ERROR_MAX];

    f->now_us = 5000000;
    if (nic_loopback_open(&loop, f->ends, error) < 0)
        fail_msg("nic_loopback_open: %s", error);
    return f;
}

static inline struct fixture *fixture_open(const struct shape *shape)
{
    struct fixture *f = fixture_link(shape);

    open_clients(f);
    open_server(f, shape);
    return f;
}

static const struct shape plain = {.connections_max = 64};

static inline int setup(void **state)
{
    *state = fixture_open(&plain);
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    unsigned i;

    assert_null(us_check(f->server->stack));
    server_end(f);
    assert_true(u_list_is_empty(&f->sessions->conns.open));
    assert_null(us_check(f->server->stack));
    if (f->sessions != f->server)
        net_worker_close(&f->sessions->worker);
    net_worker_close(&f->server->worker);
    net_udp_limit_destroy(f->udp_limit);
    cache_end(f->cache);
    nic_close(f->ends[0]);
    for (i = 0; i < f->client_count; i++)
        free(f->clients[i].got);
    free(f->memory);
    free(f);
    return 0;
}

/* ---- clients ----------------------------------------------------------------------------- */

static inline void client_take(struct fixture *f, struct client *c, const struct us_event *ev)
{
    if (!c->reading) {
        assert_int_equal(us_recv_keep(f->stack, ev->conn, ev->data, ev->len), 0);
        return;
    }
    if (c->got_len + ev->len + 1 > c->got_room) {
        c->got_room = 2 * (c->got_len + ev->len + 1);
        c->got = realloc(c->got, c->got_room);
        assert_non_null(c->got);
    }
    memcpy(c->got + c->got_len, ev->data, ev->len);
    c->got_len += ev->len;
    c->got[c->got_len] = '\0';
}

static inline void client_events(struct fixture *f)
{
    struct us_event ev;
    struct client *c;

    while (us_next_event(f->stack, &ev)) {
        c = ev.user;
        if (ev.type == US_EV_CONNECTED) {
            c->connected = true;
        } else if (ev.type == US_EV_DATA) {
            client_take(f, c, &ev);
        } else if (ev.type == US_EV_DATAGRAM) {
            assert_in_range(ev.len, 9, 1400);
            assert_int_equal(ev.data[3] | ev.data[2] << 8, f->datagrams);
            memcpy(f->datagram_text + f->datagram_len, ev.data + 8, ev.len - 8);
            f->datagram_len += ev.len - 8;
            f->datagrams++;
        } else if (ev.type == US_EV_PEER_CLOSED) {
            c->eof = true;
        } else if (ev.type == US_EV_CLOSED) {
            c->reason = ev.reason;
            c->conn = NULL;
        }
    }
}

static inline void client_push(struct fixture *f, struct client *c)
{
    long sent;

    if (!c->conn || !c->connected)
        return;
    if (c->to_send_len > 0) {
        sent = us_send(f->stack, c->conn, c->to_send, (u_u32)c->to_send_len);
        if (sent > 0) {
            c->to_send += sent;
            c->to_send_len -= (size_t)sent;
        }
    }
    if (c->to_send_len == 0 && c->close_when_sent) {
        c->close_when_sent = false;
        assert_int_equal(us_close(f->stack, c->conn), 0);
    }
}

static inline void clients_turn(struct fixture *f)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n = nic_rx_burst(f->ends[0], pkts, NIC_BURST_MAX);
    unsigned done = 0;
    unsigned filled, sent, i;

    do {
        done += us_input(f->stack, pkts + done, n - done, f->now_us);
        client_events(f);
    } while (done < n);
    nic_release(f->ends[0], pkts, n);
    for (i = 0; i < f->client_count; i++)
        client_push(f, &f->clients[i]);
    n = nic_alloc(f->ends[0], pkts, NIC_BURST_MAX);
    filled = us_output(f->stack, pkts, n, f->now_us);
    sent = nic_tx_burst(f->ends[0], pkts, filled);
    nic_release(f->ends[0], pkts + sent, n - sent);
}

static inline void step(struct fixture *f)
{
    f->now_us += STEP_US;
    clients_turn(f);
    server_turn(f);
}

static inline void steps(struct fixture *f, unsigned n)
{
    while (n-- > 0)
        step(f);
}

/* Begins to connect, which takes some turns. */
static inline struct client *client_begin(struct fixture *f)
{
    struct client *c = &f->clients[f->client_count++];
    struct us_addr addr = addr4(server_ip);

    assert_true(f->client_count <= CLIENTS_MAX);
    c->reading = true;
    c->conn = us_connect(f->stack, &addr, PORT, 0, c, NULL);
    assert_non_null(c->conn);
    return c;
}

static inline struct client *client_open(struct fixture *f)
{
    struct client *c = client_begin(f);
    unsigned i;

    for (i = 0; i < 1000 && !c->connected; i++)
        step(f);
    assert_true(c->connected);
    return c;
}

static inline void client_send(struct client *c, const char *bytes, size_t len)
{
    assert_int_equal(c->to_send_len, 0);
    c->to_send = bytes;
    c->to_send_len = len;
}

/*
 * Whether a loop that waits for the server may take another step after so many: without a bound
 * where the sessions have a thread, which other programs may keep from its core. A server that does
 * not answer then leaves the test waiting until its time limit.
 */
static inline bool may_step(unsigned steps_done)
{
    return rig_threaded || steps_done < STEPS_MAX;
}

/* Runs until so many bytes have come (or for a long time), and the line is quiet. */
static inline void wait_for(struct fixture *f, const struct client *c, size_t len)
{
    unsigned i;

    for (i = 0; may_step(i) && c->got_len < len; i++)
        step(f);
    steps(f, 20);
    assert_int_equal(c->got_len, len);
}

static inline void ask(struct fixture *f, struct client *c, const char *request, const char *reply)
{
    c->got_len = 0;
    client_send(c, request, strlen(request));
    wait_for(f, c, strlen(reply));
    assert_string_equal(c->got, reply);
}

/* Stores a value of one repeated letter. */
static inline void store(struct fixture *f, struct client *c, const char *key, char letter,
                         size_t len)
{
    char *request = malloc(len + 100);
    int head = snprintf(request, len + 100, "set %s 0 0 %zu\r\n", key, len);

    memset(request + head, letter, len);
    memcpy(request + head + len, "\r\n", 3);
    c->got_len = 0;
    client_send(c, request, (size_t)head + len + 2);
    wait_for(f, c, 8);
    assert_string_equal(c->got, "STORED\r\n");
    free(request);
}

static inline uint64_t counter(const struct fixture *f, enum net_stack_counter index)
{
    uint64_t sum = net_counter_read(&f->server->counters[index]);

    if (f->sessions != f->server)
        sum += net_counter_read(&f->sessions->counters[index]);
    return sum;
}

static inline uint64_t us_counter_named(const struct fixture *f, const char *name)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++) {
        if (strcmp(us_counter_name(i), name) == 0)
            return us_counter(f->server->stack, i);
    }
    fail_msg("no counter %s", name);
    return 0;
}

#endif
