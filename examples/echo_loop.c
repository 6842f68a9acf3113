/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An echo server and client: two stacks in one program, connected by an array of frames instead of
 * a device. Port 7 of the server returns the received bytes; the client sends a text and compares.
 *
 *     cc echo_loop.c $(pkg-config --cflags --libs ustack) && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ustack/ustack.h>

enum { BURST = 32, FRAME_BYTES = 1514, ECHO_PORT = 7 };

struct host {
    struct us_stack *stack;
    struct us_pkt pkts[BURST]; /* frames it has sent, received by the other host */
    unsigned char frames[BURST][FRAME_BYTES];
    unsigned sent;
};

static const char text[] = "A sans-I/O TCP/IP stack";
static char answer[sizeof(text)];
static unsigned answered;

static void host_start(struct host *host, unsigned number)
{
    struct us_config config;
    struct us_addr addr = {US_IP4, {10, 0, 0, 0}};
    unsigned long bytes;
    unsigned i;

    us_config_defaults(&config);
    config.conn_max = 16; /* a small program needs little memory */
    config.half_open_max = 16;
    config.time_wait_max = 16;
    config.buffer_bytes = 1 << 18;
    memset(config.mac, 2, sizeof(config.mac));
    config.mac[5] = (unsigned char)number;
    memset(config.secret, 77, sizeof(config.secret)); /* a real program calls getrandom() */
    bytes = us_memory_bytes(&config);
    host->stack = us_create(&config, calloc(1, bytes), bytes, 0);
    addr.bytes[3] = (unsigned char)number;
    us_addr_add(host->stack, &addr, 24);
    for (i = 0; i < BURST; i++) {
        host->pkts[i].data = host->frames[i];
        host->pkts[i].room = FRAME_BYTES;
    }
}

/* The server: echoes data, and closes when the client has closed. */
static void serve(struct us_stack *stack, const struct us_event *event)
{
    if (event->type == US_EV_DATA)
        us_send(stack, event->conn, event->data, event->len);
    else if (event->type == US_EV_PEER_CLOSED)
        us_close(stack, event->conn);
}

/* The client: returns 1 when its connection has ended. */
static int request(struct us_stack *stack, const struct us_event *event)
{
    if (event->type == US_EV_CONNECTED) {
        us_send(stack, event->conn, text, sizeof(text));
    } else if (event->type == US_EV_DATA) {
        memcpy(answer + answered, event->data, event->len);
        answered += event->len;
        if (answered == sizeof(text))
            us_close(stack, event->conn);
    }
    return event->type == US_EV_CLOSED;
}

/* One iteration of a host's loop: receives the frames of the other host, sends its own. */
static int iterate(struct host *host, struct host *other, int is_client, u_u64 now_us)
{
    struct us_pkt *in[BURST];
    struct us_pkt *out[BURST];
    struct us_event event;
    int done = 0;
    unsigned i;

    for (i = 0; i < BURST; i++) {
        in[i] = &other->pkts[i];
        in[i]->flags = 0;
        out[i] = &host->pkts[i];
    }
    us_input(host->stack, in, other->sent, now_us);
    while (us_next_event(host->stack, &event)) {
        if (is_client)
            done |= request(host->stack, &event);
        else
            serve(host->stack, &event);
    }
    host->sent = us_output(host->stack, out, BURST, now_us);
    return done;
}

int main(void)
{
    static struct host server, client;
    struct us_addr to = {US_IP4, {10, 0, 0, 1}};
    u_u64 now_us = 0; /* virtual time */
    int done = 0;

    host_start(&server, 1);
    host_start(&client, 2);
    us_listen(server.stack, ECHO_PORT, NULL);
    us_connect(client.stack, &to, ECHO_PORT, 0, NULL, NULL);
    while (!done && now_us < 10 * 1000 * 1000) {
        now_us += 100;
        done = iterate(&client, &server, 1, now_us);
        iterate(&server, &client, 0, now_us);
    }
    printf("%s\n", answer);
    return done && strcmp(answer, text) == 0 ? 0 : 1;
}
