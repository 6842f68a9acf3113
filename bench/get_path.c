/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a GET costs the server, from frame to frame: 32 connections with one request in flight on
 * each, 1000 keys, keys and values of 8 bytes, over a link in memory. A second stack plays the
 * clients, outside of what is measured.
 *
 *   bench/get_path [requests]
 *
 * Prints time-stamp counter ticks per GET. Under
 *   valgrind --tool=callgrind --toggle-collect=net_stack_turn
 * the instructions of net_stack_turn() alone are counted, which do not depend on the machine's
 * mood; with "0" as the first argument, those of the set-up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/stack_worker.h"

enum { CONNECTIONS = 32, KEYS = 1000, PORT = 11211, STEP_US = 10, REQUEST_BYTES = 14 };

struct bench {
    struct nic *ends[2]; /* the clients', the server's */
    struct net_stack_worker *server;
    struct cache *cache;
    struct us_stack *clients;
    struct us_conn *conns[CONNECTIONS];
    uint64_t now_us;
    unsigned connected;
    unsigned long started; /* requests */
    unsigned long wanted;
    unsigned long answered;
    unsigned long ticks; /* of net_stack_turn() */
    unsigned stored;
};

static void die(const char *what)
{
    fprintf(stderr, "get_path: %s\n", what);
    exit(1);
}

static unsigned long ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static struct us_addr address(uint8_t last)
{
    struct us_addr addr = {US_IP4, {10, 0, 0, last}};

    return addr;
}

static void open_server(struct bench *b)
{
    struct cache_config cache = {.start_us = b->now_us, .start_unix_s = 1700000000};
    struct net_stack_config config = {.port = PORT, .addr_count = 1, .conn_max = CONNECTIONS};
    char error[NET_ERROR_MAX];
    const char *why;

    cache.settings.memory_bytes = 64 << 20;
    cache.settings.item_bytes_max = 1 << 20;
    cache.settings.connections_max = CONNECTIONS;
    cache.settings.threads = 1;
    cache.settings.evict = true;
    b->cache = cache_create(&cache, &why);
    if (b->cache == NULL)
        die(why);
    config.cache = b->cache;
    config.addrs[0].addr = address(1);
    config.addrs[0].prefix_len = 24;
    b->server = (struct net_stack_worker *)net_stack_worker_open(b->ends[1], &config, error);
    if (b->server == NULL)
        die(error);
    if (net_stack_begin(b->server) != 0)
        die("the cache takes no worker");
}

static void open_clients(struct bench *b)
{
    struct us_addr local = address(2);
    struct us_config config;
    void *memory;

    us_config_defaults(&config);
    memcpy(config.mac, b->ends[0]->mac, sizeof(config.mac));
    config.conn_max = CONNECTIONS;
    config.half_open_max = CONNECTIONS;
    memory = calloc(1, us_memory_bytes(&config));
    b->clients = us_create(&config, memory, us_memory_bytes(&config), b->now_us);
    if (b->clients == NULL || us_addr_add(b->clients, &local, 24) != 0)
        die("the clients' stack does not start");
}

static void ask(struct bench *b, struct us_conn *conn)
{
    char request[32];
    unsigned key = (unsigned)(b->started * 7919 % KEYS);

    if (b->started == b->wanted)
        return;
    b->started++;
    snprintf(request, sizeof(request), "get key_%04u\r\n", key);
    if (us_send(b->clients, conn, request, REQUEST_BYTES) != REQUEST_BYTES)
        die("a request does not fit");
}

static void on_data(struct bench *b, const struct us_event *ev)
{
    if (b->stored < KEYS) {
        b->stored += ev->len / 8; /* STORED\r\n */
        return;
    }
    if (ev->len != sizeof("VALUE key_0000 0 8\r\n12345678\r\nEND\r\n") - 1)
        die("a reply is not what was expected");
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
            die("a connection ended");
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

    b->now_us += STEP_US;
    run_clients(b);
    before = ticks_now();
    net_stack_turn(b->server, b->now_us);
    b->ticks += ticks_now() - before;
}

static void connect_all(struct bench *b)
{
    struct us_addr remote = address(1);
    int error;

    for (unsigned i = 0; i < CONNECTIONS; i++)
        if (us_connect(b->clients, &remote, PORT, 0, NULL, &error) == NULL)
            die(us_strerror(error));
    for (unsigned i = 0; i < 1000 && b->connected < CONNECTIONS; i++)
        turn(b);
    if (b->connected < CONNECTIONS)
        die("the clients do not connect");
}

static void store_all(struct bench *b)
{
    char request[64];

    for (unsigned i = 0; i < KEYS; i++) {
        int len = snprintf(request, sizeof(request), "set key_%04u 0 0 8\r\n12345678\r\n", i);
        if (us_send(b->clients, b->conns[0], request, (u_u32)len) != len)
            die("a request does not fit");
    }
    for (unsigned i = 0; i < 100000 && b->stored < KEYS; i++)
        turn(b);
    if (b->stored < KEYS)
        die("the keys were not stored");
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct nic_loop_config loop = {0};
    char error[NIC_ERROR_MAX];

    b.now_us = 1000000;
    if (nic_loop_open(&loop, b.ends, error) != 0)
        die(error);
    open_server(&b);
    open_clients(&b);
    connect_all(&b);
    store_all(&b);

    b.wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    b.ticks = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        ask(&b, b.conns[i]);
    while (b.answered < b.wanted)
        turn(&b);
    printf("%lu GETs, %.0f ticks per GET\n", b.answered,
           b.answered ? (double)b.ticks / (double)b.answered : 0.0);
    return 0;
}
