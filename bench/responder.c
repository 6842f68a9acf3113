/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cheapest server that ucload can be measured against on a link: it looks up nothing and turns
 * the key of each text get into a hit of eight bytes, all the same. What it answers in a second is
 * what ucload can ask for, or what two stacks can do on this link, if that is less.
 *
 *   bench/responder --io=dpdk --dev=net_vhost0,iface=/run/ucached.sock
 *   ucload --no-preload --server-cycles ...
 *
 * Requests come whole: one in each segment, or several. `stats ustack` has nothing but cycles_busy.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "common/command.h"
#include "common/host.h"
#include "load/key.h"
#include "net/worker.h"

#define PORT 11211
#define CONNECTIONS_MAX 1024

/* Awake so long without work, as servers are; signs to stop are looked at so often. */
#define SPIN_US 50
#define WAIT_US 50000

#define GET "get "
#define STATS "stats ustack\r\n"
#define HEAD "VALUE "
#define REST " 0 8\r\n01234567\r\nEND\r\n"
#define REPLY_MAX (sizeof(HEAD) + LOAD_KEY_MAX + sizeof(REST))

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* ---- replies ----------------------------------------------------------------------------- */

static uint32_t write_hit(uint8_t *out, const uint8_t *key, uint32_t key_bytes)
{
    memcpy(out, HEAD, sizeof(HEAD) - 1);
    memcpy(out + sizeof(HEAD) - 1, key, key_bytes);
    memcpy(out + sizeof(HEAD) - 1 + key_bytes, REST, sizeof(REST) - 1);
    return (uint32_t)(sizeof(HEAD) + sizeof(REST)) - 2 + key_bytes;
}

/* The reply to a line; 0: there is none. */
static uint32_t reply(const struct host *host, const uint8_t *line, uint32_t len, uint8_t *out)
{
    uint32_t beside = (uint32_t)sizeof(GET "\r\n") - 1;

    if (len > beside && len - beside <= LOAD_KEY_MAX && memcmp(line, GET, sizeof(GET) - 1) == 0)
        return write_hit(out, line + sizeof(GET) - 1, len - beside);
    if (len == sizeof(STATS) - 1 && memcmp(line, STATS, len) == 0)
        return (uint32_t)snprintf((char *)out, REPLY_MAX, "STAT cycles_busy %llu\r\nEND\r\n",
                                  (unsigned long long)host->cycles_busy);
    return 0;
}

/* Answers the requests in a segment. Returns whether it understands them and has room. */
static bool answer(const struct host *host, struct us_conn *conn, const uint8_t *data, uint32_t len)
{
    const uint8_t *end;
    uint32_t bytes = 0;
    u_u32 room;
    u_u8 *out;

    for (; len > 0; len -= bytes, data += bytes) {
        end = memchr(data, '\n', len);
        out = end ? us_reserve(host->stack, conn, REPLY_MAX, &room) : NULL;
        if (!out)
            return false;
        bytes = reply(host, data, (uint32_t)(end - data) + 1, out);
        us_commit(host->stack, conn, bytes);
        if (bytes == 0)
            return false;
        bytes = (uint32_t)(end - data) + 1;
    }
    return true;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct host *host = ctx;

    if (event->type == US_EV_PEER_CLOSED)
        us_close(host->stack, event->conn);
    else if (event->type == US_EV_DATA && !answer(host, event->conn, event->data, event->len))
        us_abort(host->stack, event->conn);
}

/* ---- start and end ----------------------------------------------------------------------- */

static int complain(const char *what)
{
    fprintf(stderr, "responder: %s\n", what);
    return 1;
}

static int serve(struct host *host)
{
    uint64_t now_us, active_us = 0;
    int rc = 0;

    if (us_listen(host->stack, PORT, NULL) < 0)
        return complain("cannot listen");
    printf("listening on port %d\n", PORT);
    fflush(stdout);
    while (!stopped && rc == 0) {
        now_us = net_clock_us();
        if (now_us > active_us + SPIN_US) {
            rc = host_wait(host, now_us, WAIT_US);
            now_us = net_clock_us();
        }
        if (host_receive(host, now_us, on_event, host) + host_transmit(host, now_us) > 0)
            active_us = now_us;
    }
    return rc == 0 ? 0 : complain("the device is gone");
}

static enum command_outcome read_options(int argc, char **argv, struct link_options *link,
                                         char error[LINK_ERROR_MAX])
{
    static const struct link_defaults defaults = {"ucached0", "10.100.0.20/24", "10.100.0.10/24"};
    static const struct command_option options[] = {{'h', "help", NULL, NULL, "print this"}};
    const struct command command = {options, U_ARRAY_LEN(options), NULL, link, error};
    enum command_outcome outcome;
    char **rest;

    outcome = command_parse(&command, argc, argv, &rest);
    if (outcome == COMMAND_HELP)
        command_print_link(stdout);
    if (outcome != COMMAND_RUN)
        return outcome;
    if (link_settle(link, &defaults, error) == 0 && link_is_stack(link->io) && !rest[0])
        return COMMAND_RUN;
    if (!error[0])
        snprintf(error, LINK_ERROR_MAX, "it needs a link of the own stack: --io, --dev");
    return COMMAND_BAD;
}

int main(int argc, char **argv)
{
    static struct host host;
    struct link_options link = {0};
    struct link_use use = {.queues = 1, .tcp_port = PORT};
    struct host_config config = {.conn_max = CONNECTIONS_MAX};
    char error[LINK_ERROR_MAX] = "";
    struct nic *nic;
    int rc;

    rc = read_options(argc, argv, &link, error);
    if (rc != COMMAND_RUN)
        return rc == COMMAND_HELP ? 0 : complain(error);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (link_open(&link, &use, &nic, error) < 0)
        return complain(error);
    if (host_open(&host, nic, &link, &config, error) < 0) {
        nic_close(nic);
        return complain(error);
    }
    rc = serve(&host);
    host_close(&host, net_clock_us());
    return rc;
}
