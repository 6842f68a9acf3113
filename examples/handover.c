/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection that moves from one instance to another: the client counts, the server answers with
 * the next number, and between two requests the server's connection continues in a new instance,
 * as in an upgrade, a live migration or a failover. The client does not notice.
 *
 *     cc handover.c $(pkg-config --cflags --libs ustack) && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ustack/ustack.h>

enum { BURST = 8, FRAME_BYTES = 1514, PORT = 7, MOVES = 3, ROOM = 4096 };

static struct us_pkt pkts[2][BURST]; /* frames of the server, and of the client */
static unsigned char frames[2][BURST][FRAME_BYTES];
static unsigned sent[2], instances;
static int counted; /* the last number that the client has got */
static void *memory[2 + MOVES + 1];

/* An instance of host 0, the server, or 1. All instances of the server have its addresses. */
static struct us_stack *instance(int host)
{
    struct us_config config;
    struct us_addr addr = {US_IP4, {10, 0, 0, 0}};
    struct us_stack *stack;
    unsigned long bytes;

    us_config_defaults(&config);
    config.conn_max = config.half_open_max = config.time_wait_max = 16;
    config.buffer_bytes = 1 << 18;
    memset(config.mac, 2 + host * 4, sizeof(config.mac));
    memset(config.secret, 77, sizeof(config.secret)); /* a real program calls getrandom() */
    bytes = us_memory_bytes(&config);
    memory[instances] = calloc(1, bytes);
    stack = us_create(&config, memory[instances++], bytes, 0);
    addr.bytes[3] = (unsigned char)(host + 1);
    us_addr_add(stack, &addr, 24);
    if (host == 0)
        us_listen(stack, PORT, NULL);
    return stack;
}

/* Moves the connection: a real program passes state and bytes to another process or machine. */
static struct us_conn *move(struct us_stack *from, struct us_conn *conn, struct us_stack *to)
{
    static unsigned char unacknowledged[ROOM];
    struct us_conn *moved = NULL;
    struct us_conn_state state;
    int error;

    error = us_conn_export(from, conn, &state, unacknowledged, ROOM);
    if (error == US_OK)
        moved = us_conn_import(to, &state, unacknowledged, NULL, &error);
    if (moved != NULL)
        us_conn_forget(from, conn); /* without a segment to the peer */
    else
        printf("not moved: %s\n", us_strerror(error));
    return moved;
}

/* One iteration of a host's loop. Each request and each answer is one number. */
static struct us_conn *iterate(struct us_stack *stack, int host, u_u64 now_us)
{
    static struct us_conn *conns[2];
    struct us_pkt *in[BURST], *out[BURST];
    struct us_event event;
    unsigned i;
    for (i = 0; i < BURST; i++) {
        in[i] = &pkts[1 - host][i];
        in[i]->flags = 0;
        out[i] = &pkts[host][i];
        out[i]->data = frames[host][i];
        out[i]->room = FRAME_BYTES;
    }
    us_input(stack, in, sent[1 - host], now_us);
    while (us_next_event(stack, &event)) {
        int number = 0;
        conns[host] = event.conn;
        if (event.type == US_EV_DATA)
            memcpy(&number, event.data, sizeof(number));
        else if (event.type != US_EV_CONNECTED)
            continue;
        if (host == 0)
            number++;
        else
            counted = number;
        us_send(stack, event.conn, &number, sizeof(number));
    }
    sent[host] = us_output(stack, out, BURST, now_us);
    return conns[host];
}

int main(void)
{
    struct us_stack *server = instance(0), *client = instance(1);
    struct us_addr to = {US_IP4, {10, 0, 0, 1}};
    u_u64 now_us = 0; /* virtual time */
    int moves;

    us_connect(client, &to, PORT, 0, NULL, NULL);
    for (moves = 0; moves <= MOVES; moves++) {
        struct us_stack *next = instance(0);
        struct us_conn *conn = NULL;
        u_u64 until_us = now_us + 2000;
        for (; now_us < until_us; now_us += 100) {
            iterate(client, 1, now_us);
            conn = iterate(server, 0, now_us);
        }
        printf("the client has counted to %d\n", counted);
        if (moves == MOVES || move(server, conn, next) == NULL)
            break;
        server = next; /* a real program frees the memory of the old one */
    }
    while (instances > 0)
        free(memory[--instances]);
    return moves == MOVES && counted > MOVES ? 0 : 1;
}
