/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of idle connections for busy ones: 32 connections echo 16 bytes, one request in flight on
 * each, while IDLE other ones are open and idle. Two stacks in one process, without a network
 * between them; only the stack of the server is measured.
 *
 *   bench/idle_conns IDLE [requests]
 *
 * Prints time-stamp counter ticks per request (the lowest of some parts of the run, since
 * disturbances only add) and the memory of the server's stack that each idle connection touches.
 * Under
 *   valgrind --tool=callgrind --toggle-collect=server_turn
 * the instructions of the server alone
 * are counted.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ustack/ustack.h"

enum { BUSY = 32, PORTS = 8, PORT = 7000, FRAME_BYTES = 2048, BURST = 64, STEP_US = 10 };
enum { REQUEST_BYTES = 16, PARTS = 20, OPENING_MAX = 512 };

struct host {
    struct us_stack *stack;
    uint8_t *memory;
    unsigned long memory_bytes;
    struct us_pkt pkts[BURST]; /* filled by us_output(), given to the other's us_input() */
    struct us_pkt *list[BURST];
    unsigned count;
    uint8_t *frames;
};

static struct host server, client;
static uint64_t now_us = 1000000;
static unsigned long answered;
static unsigned long connected;
static struct us_conn *busy[BUSY];

static void die(const char *what)
{
    fprintf(stderr, "idle_conns: %s\n", what);
    exit(1);
}

static uint64_t ticks_now(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static struct us_addr address(unsigned last)
{
    struct us_addr addr = {US_IP4, {10, 0, 0, (u_u8)last}};

    return addr;
}

static void host_open(struct host *host, unsigned last, unsigned conns)
{
    struct us_addr addr = address(last);
    struct us_config config;

    us_config_defaults(&config);
    memset(config.mac, 0, sizeof(config.mac));
    config.mac[0] = 2;
    config.mac[5] = (u_u8)last;
    memset(config.secret, (int)last, sizeof(config.secret));
    config.conn_max = conns;
    config.half_open_max = OPENING_MAX;
    config.keepalive = 1; /* a timer for each idle connection */
    host->memory_bytes = us_memory_bytes(&config);
    host->memory = mmap(NULL, host->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    host->frames = malloc((size_t)BURST * FRAME_BYTES);
    if (host->memory == MAP_FAILED || !host->frames)
        die("no memory");
    host->stack = us_create(&config, host->memory, host->memory_bytes, now_us);
    if (!host->stack || us_addr_add(host->stack, &addr, 24) != US_OK)
        die("the stack refuses its configuration");
}

/* Frames of the last burst of `from` into `to`. */
static void deliver(struct host *to, const struct host *from)
{
    if (us_input(to->stack, from->list, from->count, now_us) != from->count)
        die("a burst was cut short");
}

static void fill(struct host *host)
{
    for (unsigned i = 0; i < BURST; i++) {
        memset(&host->pkts[i], 0, sizeof(host->pkts[i]));
        host->pkts[i].data = host->frames + (size_t)i * FRAME_BYTES;
        host->pkts[i].room = FRAME_BYTES;
        host->list[i] = &host->pkts[i];
    }
    host->count = us_output(host->stack, host->list, BURST, now_us);
}

/* The measured part: takes frames in, answers each request, sends frames. */
static __attribute__((noinline)) void server_turn(void)
{
    struct us_event ev;

    deliver(&server, &client);
    while (us_next_event(server.stack, &ev))
        if (ev.type == US_EV_DATA && us_send(server.stack, ev.conn, ev.data, ev.len) < 0)
            die("the server can't send");
    fill(&server);
}

static void client_turn(void)
{
    static const uint8_t request[REQUEST_BYTES];
    struct us_event ev;

    deliver(&client, &server);
    while (us_next_event(client.stack, &ev)) {
        if (ev.type == US_EV_CONNECTED)
            connected++;
        if (ev.type == US_EV_CLOSED)
            die("a connection has ended");
        if (ev.type != US_EV_DATA)
            continue;
        answered++;
        if (us_send(client.stack, ev.conn, request, sizeof(request)) < 0)
            die("the client can't send");
    }
    fill(&client);
}

static void turn(void)
{
    now_us += STEP_US;
    client_turn();
    server_turn();
}

static struct us_conn *open_one(unsigned number)
{
    struct us_addr to = address(1);
    struct us_conn *conn =
        us_connect(client.stack, &to, (u_u16)(PORT + number % PORTS), 0, NULL, NULL);

    if (!conn)
        die("cannot connect");
    return conn;
}

static void open_idle(unsigned n)
{
    for (unsigned i = 0; i < n;) {
        for (unsigned k = 0; k < BURST && i < n; k++)
            open_one(i++);
        while (connected < i)
            turn();
    }
    for (unsigned i = 0; i < 100000; i++) /* a second: the timers of the handshakes have ended */
        turn();
}

/* Bytes of the server's memory that are in use, in pages. */
static unsigned long resident(void)
{
    unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
    unsigned long pages = (server.memory_bytes + page - 1) / page;
    unsigned char *in_core = malloc(pages);
    unsigned long count = 0;

    if (!in_core || mincore(server.memory, server.memory_bytes, in_core) < 0)
        die("mincore");
    for (unsigned long i = 0; i < pages; i++)
        count += in_core[i] & 1;
    free(in_core);
    return count * page;
}

static double measure(unsigned long requests)
{
    uint64_t best = UINT64_MAX;

    for (unsigned part = 0; part < PARTS; part++) {
        unsigned long until = answered + requests / PARTS;
        unsigned long before = answered;
        uint64_t ticks = 0;
        while (answered < until) {
            uint64_t start;
            now_us += STEP_US;
            client_turn();
            start = ticks_now();
            server_turn();
            ticks += ticks_now() - start;
        }
        if (answered > before && ticks / (answered - before) < best)
            best = ticks / (answered - before);
    }
    return best == UINT64_MAX ? 0 : (double)best;
}

int main(int argc, char **argv)
{
    static const uint8_t request[REQUEST_BYTES];
    unsigned idle = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    unsigned long requests = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    unsigned long before;

    host_open(&server, 1, idle + BUSY);
    host_open(&client, 2, idle + BUSY);
    for (unsigned i = 0; i < PORTS; i++)
        if (us_listen(server.stack, (u_u16)(PORT + i), NULL) != US_OK)
            die("cannot listen");
    before = resident();
    open_idle(idle);
    if (idle > 0)
        printf("%lu bytes per idle connection\n", (resident() - before) / idle);
    for (unsigned i = 0; i < BUSY; i++)
        busy[i] = open_one(i);
    while (connected < idle + BUSY)
        turn();
    for (unsigned i = 0; i < BUSY; i++)
        us_send(client.stack, busy[i], request, sizeof(request));
    printf("%.0f ticks per request with %u idle connections\n", measure(requests), idle);
    return 0;
}
