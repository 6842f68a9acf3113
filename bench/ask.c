/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks a server one command over the own TCP/IP stack and prints the reply up to "END", for what a
 * server on a link without a kernel tells nobody else: `ask --io=dpdk --dev=... ADDR:PORT 'stats
 * ustack'`. The options are those of the link.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "common/value.h"
#include "net/worker.h"

#define PATIENCE_US (5 * 1000 * 1000)
#define REPLY_MAX (256 * 1024)

static const char end_line[] = "END\r\n";

struct asking {
    struct host host;
    const char *command;
    char reply[REPLY_MAX];
    size_t reply_bytes;
    bool done;
    bool failed;
};

static void on_event(void *ctx, const struct us_event *event)
{
    struct asking *a = ctx;
    size_t end_bytes = sizeof(end_line) - 1;

    switch (event->type) {
    case US_EV_CONNECTED:
        if (us_send(a->host.stack, event->conn, a->command, (u_u32)strlen(a->command)) < 0 ||
            us_send(a->host.stack, event->conn, "\r\n", 2) < 0)
            a->failed = true;
        break;
    case US_EV_DATA:
        if (event->len > REPLY_MAX - a->reply_bytes) {
            a->failed = true;
            break;
        }
        memcpy(a->reply + a->reply_bytes, event->data, event->len);
        a->reply_bytes += event->len;
        if (a->reply_bytes >= end_bytes &&
            memcmp(a->reply + a->reply_bytes - end_bytes, end_line, end_bytes) == 0)
            a->done = true;
        break;
    case US_EV_CLOSED:
        a->failed = !a->done;
        break;
    default:
        break;
    }
}

/* "ADDR:PORT" of IPv4. Returns 0 or -1. */
static int parse_server(const char *text, struct us_addr *addr, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    char host[64];
    uint64_t number;

    if (!colon || (size_t)(colon - text) >= sizeof(host) ||
        value_number(colon + 1, 1, UINT16_MAX, &number) < 0)
        return -1;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *port = (uint16_t)number;
    return value_addr(host, addr);
}

static int talk(struct asking *a, const struct us_addr *addr, uint16_t port)
{
    uint64_t now_us = net_clock_us();
    uint64_t until_us = now_us + PATIENCE_US;
    int error = 0;

    if (!us_connect(a->host.stack, addr, port, 0, a, &error)) {
        fprintf(stderr, "ask: cannot connect: %s\n", us_strerror(error));
        return -1;
    }
    while (!a->done && !a->failed && now_us < until_us) {
        host_transmit(&a->host, now_us);
        host_receive(&a->host, now_us, on_event, a);
        now_us = net_clock_us();
    }
    if (a->done)
        fwrite(a->reply, 1, a->reply_bytes, stdout);
    else
        fprintf(stderr, "ask: no reply, or none that ends\n");
    return a->done ? 0 : -1;
}

/* The options of the link, each as one word. Returns how many words they were, or -1. */
static int parse_link(int argc, char **argv, struct link_options *link, char *error)
{
    static const struct link_defaults defaults = {"ucached0", "10.100.0.10/24", "none"};
    char name[32];
    const char *equals;
    int i;

    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        equals = strchr(argv[i], '=');
        if (!equals || (size_t)(equals - argv[i]) - 2 >= sizeof(name)) {
            snprintf(error, LINK_ERROR_MAX, "%s: options of the link only, --name=value", argv[i]);
            return -1;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(equals - argv[i]) - 2, argv[i] + 2);
        if (link_set(link, name, equals + 1, error) < 0)
            return -1;
    }
    return link_settle(link, &defaults, error) < 0 ? -1 : i;
}

int main(int argc, char **argv)
{
    static struct asking a;
    struct link_options link = {0};
    struct host_config config = {.conn_max = 1};
    struct link_use use = {.queues = 1};
    char error[LINK_ERROR_MAX] = "";
    struct nic *nic;
    struct us_addr addr;
    uint16_t port;
    int at = parse_link(argc, argv, &link, error);
    int rc;

    if (at < 0 || argc - at != 2 || parse_server(argv[at], &addr, &port) < 0) {
        fprintf(stderr, "%s\nusage: ask [option of a link]... ADDR:PORT COMMAND\n", error);
        return 64;
    }
    a.command = argv[at + 1];
    rc = link_open(&link, &use, &nic, error);
    if (rc < 0 || host_open(&a.host, nic, &link, &config, error) < 0) {
        fprintf(stderr, "ask: %s\n", error);
        return 69;
    }
    rc = talk(&a, &addr, port);
    host_close(&a.host, net_clock_us());
    return rc < 0 ? 69 : 0;
}
