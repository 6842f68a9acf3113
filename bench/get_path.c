/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a GET or a SET in the server, from the frame in to the frame out: 32 connections
 * (default) with one request in flight on each, 1000 keys, keys and values of 8 bytes, over a link
 * in memory. With one connection each turn of the server's loop serves one request. A second stack
 * is the clients; it is not measured. All keys are stored before, so a SET overwrites.
 *
 *   bench/get_path [requests [connections [get|set|mixed [threads]]]]
 *
 * mixed: every tenth request is a SET. Several threads are as many servers of one cache, each with
 * its own link and clients and pinned to a core of its own, with 10,000 keys.
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

#include "path.h"

#define HIT "VALUE key_0000 0 8\r\n12345678\r\nEND\r\n"
#define STORED "STORED\r\n"

enum { KEYS = 1000, KEYS_MANY = 10000, THREADS_MAX = 256, SET_EVERY = 10 };
enum { HIT_BYTES = sizeof(HIT) - 1, STORED_BYTES = sizeof(STORED) - 1 };

struct bench {
    struct nic *ends[2]; /* the clients', the server's */
    struct net_stack_worker *server;
    struct us_stack *clients;
    struct us_conn *conns[PATH_CONNECTIONS];
    uint64_t now_us;
    unsigned number;    /* of the thread */
    unsigned set_every; /* each of so many requests is a SET; 0: none */
    unsigned keys;
    unsigned connections;
    unsigned connected;
    unsigned long started; /* requests */
    unsigned long wanted;
    unsigned long answered;
    unsigned long ticks; /* of net_stack_turn() */
    unsigned stored;
    bool asks; /* the keys are stored */
};

static struct cache *cache;
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

static void ask(struct bench *b, struct us_conn *conn)
{
    bool sets = b->set_every > 0 && b->started % b->set_every == 0;
    const char *format = sets ? "set key_%04u 0 0 8\r\n12345678\r\n" : "get key_%04u\r\n";
    unsigned key = (unsigned)((b->started + b->number) * 7919 % b->keys);
    char request[64];
    int len;

    if (b->started == b->wanted)
        return;
    b->started++;
    len = snprintf(request, sizeof(request), format, key);
    if (us_send(b->clients, conn, request, (u_u32)len) != len)
        path_die("a request does not fit");
}

static void on_data(struct bench *b, const struct us_event *ev)
{
    if (!b->asks) {
        b->stored += ev->len / STORED_BYTES;
        return;
    }
    if (!(ev->len == HIT_BYTES && b->set_every != 1) && !(ev->len == STORED_BYTES && b->set_every))
        path_die("unexpected reply");
    b->answered++;
    ask(b, ev->conn);
}

static void run_clients(struct bench *b)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct us_event ev;
    unsigned n = nic_rx_burst(b->ends[0], pkts, NIC_BURST_MAX);

    us_input(b->clients, pkts, n, b->now_us);
    while (us_next_event(b->clients, &ev)) {
        if (ev.type == US_EV_CONNECTED)
            b->conns[b->connected++] = ev.conn;
        else if (ev.type == US_EV_DATA)
            on_data(b, &ev);
        else if (ev.type == US_EV_CLOSED)
            path_die("a connection ended");
    }
    nic_release(b->ends[0], pkts, n);
    n = nic_alloc(b->ends[0], pkts, NIC_BURST_MAX);
    unsigned filled = us_output(b->clients, pkts, n, b->now_us);
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

static void connect_all(struct bench *b)
{
    struct us_addr remote = path_address(1);
    int error;

    for (unsigned i = 0; i < b->connections; i++)
        if (us_connect(b->clients, &remote, PATH_PORT, 0, NULL, &error) == NULL)
            path_die(us_strerror(error));
    for (unsigned i = 0; i < 1000 && b->connected < b->connections; i++)
        turn(b);
    if (b->connected < b->connections)
        path_die("the clients do not connect");
}

static void store_all(struct bench *b)
{
    char request[64];
    unsigned sent = 0;

    for (unsigned i = 0; i < 1000000 && b->stored < b->keys; i++) {
        while (sent < b->keys && sent < b->stored + KEYS) {
            int len =
                snprintf(request, sizeof(request), "set key_%04u 0 0 8\r\n12345678\r\n", sent);
            if (us_send(b->clients, b->conns[0], request, (u_u32)len) != len)
                path_die("a request does not fit");
            sent++;
        }
        turn(b);
    }
    if (b->stored < b->keys)
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
    b->server = path_server(b->ends[1], cache);
    b->clients = path_client(b->ends[0], b->now_us);
    connect_all(b);
    if (b->number == 0)
        store_all(b);
    pthread_barrier_wait(&all_stored);
    b->asks = true;
    b->ticks = 0;
    for (unsigned i = 0; i < b->connections; i++)
        ask(b, b->conns[i]);
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
    serve_all(all, threads);
    for (unsigned i = 0; i < threads; i++) {
        answered += all[i].answered;
        ticks += all[i].ticks;
    }
    printf("%lu requests, %.0f ticks per request\n", answered,
           answered ? (double)ticks / (double)answered : 0.0);
    return 0;
}
