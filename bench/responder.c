/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server without a lookup, to measure the limit of ucload on a link: it answers the key of each
 * text get with a hit whose value is always the same 8 bytes. Its rate is the highest rate of
 * ucload, or of two stacks on this link if that is lower.
 *
 *   bench/responder --io=dpdk --dev=net_vhost0,iface=/run/ucached.sock
 *   ucload --no-preload --server-cycles ...
 *
 * A segment has to hold whole requests, one or more. `stats ustack` has only cycles_busy.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "common/cmdline.h"
#include "common/host.h"
#include "load/key.h"
#include "net/worker.h"

#define PORT 11211
#define CONNECTIONS_MAX 1024

/* Time without work until the loop sleeps; interval for checking whether to stop. */
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

/* Answers the requests in a segment. Returns false for an unknown request or without room. */
static bool answer(const struct host *host, struct us_conn *conn, const uint8_t *data, uint32_t len)
{
    const uint8_t *end;
    uint32_t bytes = 0;
    u_u32 room;
    u_u8 *out;

    for (; len > 0; len -= bytes, data += bytes) {
        end = memchr(data, '\n', len);
        out = end ? us_reserve(host->stack, conn, REPLY_MAX, 0, &room) : NULL;
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

static enum cmdline_outcome read_options(int argc, char **argv, struct link_options *link,
                                         char error[LINK_ERROR_MAX])
{
    static const struct link_defaults defaults = {"ucached0", "10.100.0.20/24", "10.100.0.10/24"};
    static const struct cmdline_option options[] = {
        {'h', "help", NULL, NULL, "print this text", CMDLINE_END, .min = CMDLINE_HELP}};
    const struct cmdline_table table = link_table(link);
    struct cmdline cmdline = {.tables = {{options, U_ARRAY_LEN(options), NULL}, table},
                              .error = error};
    enum cmdline_outcome outcome;
    char **rest;

    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_HELP)
        cmdline_print_options(stdout, table.options, table.count);
    if (outcome != CMDLINE_RUN)
        return outcome;
    if (link_resolve(link, &defaults, error) == 0 && link_carries_frames(link) && !rest[0])
        return CMDLINE_RUN;
    if (!error[0])
        snprintf(error, LINK_ERROR_MAX, "needs a link of the own stack: --io, --dev");
    return CMDLINE_BAD;
}

int main(int argc, char **argv)
{
    static struct host host;
    struct link_options link = {0};
    struct link_params use = {.queues = 1, .tcp_port = PORT};
    struct host_config config = {.conn_max = CONNECTIONS_MAX};
    char error[LINK_ERROR_MAX] = "";
    struct nic *nic;
    int rc;

    rc = read_options(argc, argv, &link, error);
    if (rc != CMDLINE_RUN)
        return rc == CMDLINE_HELP ? 0 : complain(error);
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
