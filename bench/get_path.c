/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a GET or a SET in the server, from the frame in to the frame out: 32 connections
 * (default) with one request in flight on each, 1000 keys, keys and values of 8 bytes, over a link
 * in memory. With one connection each turn of the server's loop serves one request. A second stack
 * is the clients; it is not measured. All keys are stored before, so a SET overwrites.
 *
 *   bench/get_path [requests [connections [get|set]]]
 *
 * Prints time-stamp counter ticks per request. Under
 *   valgrind --tool=callgrind --toggle-collect=net_stack_turn
 * the instructions of net_stack_turn() alone are counted, which do not depend on the
 * machine; with "0" as the first argument, those of the set-up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"

#define HIT "VALUE key_0000 0 8\r\n12345678\r\nEND\r\n"
#define STORED "STORED\r\n"

enum { KEYS = 1000, HIT_BYTES = sizeof(HIT) - 1, STORED_BYTES = sizeof(STORED) - 1 };

struct bench {
    struct nic *ends[2]; /* the clients', the server's */
    struct net_stack_worker *server;
    struct us_stack *clients;
    struct us_conn *conns[PATH_CONNECTIONS];
    uint64_t now_us;
    bool sets;
    unsigned connections;
    unsigned connected;
    unsigned long started; /* requests */
    unsigned long wanted;
    unsigned long answered;
    unsigned long ticks; /* of net_stack_turn() */
    unsigned stored;
};

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
    const char *format = b->sets ? "set key_%04u 0 0 8\r\n12345678\r\n" : "get key_%04u\r\n";
    unsigned key = (unsigned)(b->started * 7919 % KEYS);
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
    if (b->stored < KEYS) {
        b->stored += ev->len / STORED_BYTES;
        return;
    }
    if (ev->len != (b->sets ? STORED_BYTES : HIT_BYTES))
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

    for (unsigned i = 0; i < KEYS; i++) {
        int len = snprintf(request, sizeof(request), "set key_%04u 0 0 8\r\n12345678\r\n", i);
        if (us_send(b->clients, b->conns[0], request, (u_u32)len) != len)
            path_die("a request does not fit");
    }
    for (unsigned i = 0; i < 100000 && b->stored < KEYS; i++)
        turn(b);
    if (b->stored < KEYS)
        path_die("the keys were not stored");
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct nic_loopback_config loop = {0};
    char error[NIC_ERROR_MAX];

    b.wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    b.connections = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : PATH_CONNECTIONS;
    if (b.connections == 0 || b.connections > PATH_CONNECTIONS)
        path_die("too many connections");
    b.sets = argc > 3 && strcmp(argv[3], "set") == 0;
    b.now_us = PATH_START_US;
    if (nic_loopback_open(&loop, b.ends, error) != 0)
        path_die(error);
    b.server = path_server(b.ends[1], b.now_us);
    b.clients = path_client(b.ends[0], b.now_us);
    connect_all(&b);
    store_all(&b);

    b.ticks = 0;
    for (unsigned i = 0; i < b.connections; i++)
        ask(&b, b.conns[i]);
    while (b.answered < b.wanted)
        turn(&b);
    printf("%lu requests, %.0f ticks per request\n", b.answered,
           b.answered ? (double)b.ticks / (double)b.answered : 0.0);
    return 0;
}
