/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a GET or a SET in the server, from the frame in to the frame out: 32 connections
 * (default) with one request in flight on each, 1000 keys, keys and values of 8 bytes, over a link
 * in memory. With one connection each turn of the server's loop serves one request. A second stack
 * is the clients; it is not measured. All keys are stored before, so a SET overwrites.
 *
 *   bench/get_path [requests [connections [get|set|mixed|tls [threads]]]]
 *
 * mixed: every tenth request is a SET. tls: GETs over TLS (path_tls.h), one per record; in a build
 * without TLS the exit status is PATH_TLS_ABSENT. With several threads, each runs a server with a
 * separate link and separate clients, pinned to a separate core; the servers share one cache with
 * 10,000 keys.
 *
 * Prints time-stamp counter ticks per request, of each server. Under
 *   valgrind --tool=callgrind --toggle-collect=net_stack_turn
 * the instructions of net_stack_turn() alone are counted, which do not depend on the
 * machine; with "0" as the first argument, those of the set-up.
 */
#define _GNU_SOURCE /* pthread_setaffinity_np() */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "path_tls.h"

#define SET "set key_%04u 0 0 8\r\n12345678\r\n"
#define HIT "VALUE key_%04u 0 8\r\n12345678\r\nEND\r\n"
#define STORED "STORED\r\n"

enum { KEYS = 1000, KEYS_MANY = 10000, THREADS_MAX = 256, SET_EVERY = 10 };
enum { STORED_BYTES = sizeof(STORED) - 1, LINE_MAX_BYTES = 64 };

struct bench;

/* A connection, at the client's end. */
struct client {
    struct bench *bench;
    struct us_conn *us;
    struct tls_session *tls;    /* or null */
    bool ready;                 /* connected, and the handshake is done */
    char reply[LINE_MAX_BYTES]; /* to the request in flight */
};

struct bench {
    struct nic *ends[2]; /* the clients', the server's */
    struct net_stack_worker *server;
    struct us_stack *stack; /* of the clients */
    struct client clients[PATH_CONNECTIONS];
    uint64_t now_us;
    unsigned number;    /* of the thread */
    unsigned set_every; /* each of so many requests is a SET; 0: none */
    unsigned keys;
    unsigned connections;
    unsigned ready;        /* clients */
    unsigned long started; /* requests */
    unsigned long wanted;
    unsigned long answered;
    unsigned long ticks;        /* of net_stack_turn() */
    unsigned long stored_bytes; /* of replies */
    bool asks;                  /* the keys are stored */
};

static struct cache *cache;
static struct tls_context *tls_server, *tls_client; /* or null */
static pthread_barrier_t all_stored;
static atomic_uint unfinished; /* threads */

static unsigned long ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* A tls_emit. */
static bool send_bytes(void *ctx, const uint8_t *data, uint32_t len)
{
    struct client *c = ctx;

    return us_send(c->bench->stack, c->us, data, len) == (long)len;
}

static void send_request(struct client *c, const char *request)
{
    const uint8_t *data = (const uint8_t *)request;
    uint32_t len = (uint32_t)strlen(request);

    if (c->tls ? tls_session_write(c->tls, data, len) != 0 : !send_bytes(c, data, len))
        path_die("a request does not fit");
}

static void ask(struct client *c)
{
    struct bench *b = c->bench;
    bool sets = b->set_every > 0 && b->started % b->set_every == 0;
    unsigned key = (unsigned)((b->started + b->number) * 7919 % b->keys);
    char request[LINE_MAX_BYTES];

    if (b->started == b->wanted)
        return;
    b->started++;
    snprintf(request, sizeof(request), sets ? SET : "get key_%04u\r\n", key);
    snprintf(c->reply, sizeof(c->reply), sets ? STORED : HIT, key);
    send_request(c, request);
}

static void on_reply(struct client *c, const uint8_t *reply, uint32_t len)
{
    struct bench *b = c->bench;

    if (!b->asks) {
        b->stored_bytes += len;
        return;
    }
    if (len != strlen(c->reply) || memcmp(reply, c->reply, len) != 0)
        path_die("unexpected reply");
    c->reply[0] = '\0';
    b->answered++;
    ask(c);
}

static void set_ready(struct client *c)
{
    c->ready = true;
    c->bench->ready++;
}

static void on_records(struct client *c, const uint8_t *data, uint32_t len)
{
    static _Thread_local uint8_t plain[TLS_PLAIN_ROOM];
    enum tls_result result;
    uint32_t used, plain_len;

    for (; len > 0; data += used, len -= used) {
        result = tls_session_read(c->tls, data, len, &used, plain, &plain_len);
        if (result == TLS_DATA)
            on_reply(c, plain, plain_len);
        else if (result != TLS_MORE)
            path_die(tls_session_error(c->tls));
    }
    if (!c->ready && tls_session_is_established(c->tls))
        set_ready(c);
}

static void on_connected(struct client *c)
{
    if (!tls_client) {
        set_ready(c);
        return;
    }
    c->tls = tls_session_open(tls_client, NULL, TLS_PEER_AS_CONFIGURED, send_bytes, c);
    if (!c->tls || tls_session_start(c->tls) != 0)
        path_die("a handshake does not start");
}

static void on_event(const struct us_event *ev)
{
    if (ev->type == US_EV_CONNECTED)
        on_connected(ev->user);
    else if (ev->type == US_EV_DATA && ((struct client *)ev->user)->tls)
        on_records(ev->user, ev->data, ev->len);
    else if (ev->type == US_EV_DATA)
        on_reply(ev->user, ev->data, ev->len);
    else if (ev->type == US_EV_CLOSED)
        path_die("a connection ended");
}

static void run_clients(struct bench *b)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct us_event ev;
    unsigned n = nic_rx_burst(b->ends[0], pkts, NIC_BURST_MAX);

    us_input(b->stack, pkts, n, b->now_us);
    while (us_next_event(b->stack, &ev))
        on_event(&ev);
    nic_release(b->ends[0], pkts, n);
    n = nic_alloc(b->ends[0], pkts, NIC_BURST_MAX);
    unsigned filled = us_output(b->stack, pkts, n, b->now_us);
    unsigned sent = nic_tx_burst(b->ends[0], pkts, filled);
    nic_release(b->ends[0], pkts + sent, n - sent);
}

static void turn(struct bench *b)
{
    unsigned long before;

    b->now_us += PATH_STEP_US;
    run_clients(b);
    before = ticks_now();
    net_stack_turn(b->server, b->now_us);
    b->ticks += ticks_now() - before;
}

static bool all_are_ready(const struct bench *b)
{
    return b->ready == b->connections &&
           (!tls_server || path_tls_handshakes(b->server) == b->connections);
}

static void connect_all(struct bench *b)
{
    struct us_addr remote = path_address(1);
    int error;

    for (unsigned i = 0; i < b->connections; i++) {
        struct client *c = &b->clients[i];

        c->bench = b;
        c->us = us_connect(b->stack, &remote, PATH_PORT, 0, c, &error);
        if (!c->us)
            path_die(us_strerror(error));
    }
    for (unsigned i = 0; i < 1000 && !all_are_ready(b); i++)
        turn(b);
    if (!all_are_ready(b))
        path_die("the clients do not connect");
}

static void store_all(struct bench *b)
{
    unsigned long all_bytes = (unsigned long)b->keys * STORED_BYTES;
    char request[LINE_MAX_BYTES];
    unsigned sent = 0;

    for (unsigned i = 0; i < 1000000 && b->stored_bytes < all_bytes; i++) {
        while (sent < b->keys && sent < b->stored_bytes / STORED_BYTES + KEYS) {
            snprintf(request, sizeof(request), SET, sent);
            send_request(&b->clients[0], request);
            sent++;
        }
        turn(b);
    }
    if (b->stored_bytes != all_bytes)
        path_die("the keys were not stored");
}

static void pin(unsigned number)
{
    cpu_set_t allowed, one;
    unsigned seen = 0;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != number)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    }
}

/* A server and its clients, for as long as any other one has requests. */
static void *serve(void *ctx)
{
    struct bench *b = ctx;
    struct nic_loopback_config loop = {0};
    char error[NIC_ERROR_MAX];
    unsigned long ticks;

    if (nic_loopback_open(&loop, b->ends, error) != 0)
        path_die(error);
    b->server = path_server(b->ends[1], cache, tls_server);
    if (tls_server)
        path_tls_begin(b->server);
    b->stack = path_client(b->ends[0], b->now_us);
    connect_all(b);
    if (b->number == 0)
        store_all(b);
    pthread_barrier_wait(&all_stored);
    b->asks = true;
    b->ticks = 0;
    for (unsigned i = 0; i < b->connections; i++)
        ask(&b->clients[i]);
    while (b->answered < b->wanted)
        turn(b);
    ticks = b->ticks;
    atomic_fetch_sub(&unfinished, 1);
    while (atomic_load(&unfinished) > 0)
        turn(b);
    b->ticks = ticks;
    return NULL;
}

static void *serve_pinned(void *ctx)
{
    pin(((struct bench *)ctx)->number);
    return serve(ctx);
}

static void serve_all(struct bench *all, unsigned threads)
{
    static pthread_t ids[THREADS_MAX];

    cache = path_cache(threads, all->now_us);
    pthread_barrier_init(&all_stored, NULL, threads);
    atomic_init(&unfinished, threads);
    if (threads == 1) {
        serve(all);
        return;
    }
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, serve_pinned, &all[i]) != 0)
            path_die("a thread cannot be made");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

int main(int argc, char **argv)
{
    static struct bench all[THREADS_MAX];
    const char *mix = argc > 3 ? argv[3] : "get";
    unsigned threads = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1;
    unsigned long answered = 0, ticks = 0;

    if (threads == 0 || threads > THREADS_MAX)
        path_die("too many threads");
    for (unsigned i = 0; i < threads; i++) {
        struct bench *b = &all[i];

        b->number = i;
        b->wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
        b->connections = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : PATH_CONNECTIONS;
        if (b->connections == 0 || b->connections > PATH_CONNECTIONS)
            path_die("too many connections");
        b->set_every = strcmp(mix, "set") == 0 ? 1 : strcmp(mix, "mixed") == 0 ? SET_EVERY : 0;
        b->keys = argc > 4 ? KEYS_MANY : KEYS;
        b->now_us = PATH_START_US;
    }
    if (strcmp(mix, "tls") == 0) {
        tls_server = path_tls_server();
        tls_client = path_tls_client();
    }
    serve_all(all, threads);
    for (unsigned i = 0; i < threads; i++) {
        answered += all[i].answered;
        ticks += all[i].ticks;
    }
    printf("%lu requests, %.0f ticks per request\n", answered,
           answered ? (double)ticks / (double)answered : 0.0);
    return 0;
}
