/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's command line; see options.h. */
#include "options.h"

#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"
#include "nic/dpdk.h"

int ucping_fail(struct settings *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->error, sizeof(s->error), format, args);
    va_end(args);
    return -1;
}

void ucping_begin(const struct settings *s, struct ping_run *run)
{
    uint64_t seconds_ns = (uint64_t)(s->seconds * 1e9);

    run->begun_ns = ucping_clock_ns();
    run->now_ns = run->begun_ns;
    run->end_ns = seconds_ns > 0 ? run->begun_ns + seconds_ns : 0;
}

void ucping_print_listening(const struct settings *s)
{
    fprintf(stderr, "ucping: listening on %s (%s)\n", s->peer, link_backend_name(&s->link));
}

static int set_listen(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    s->listen = true;
    return 0;
}

static int set_mode(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    if (strcmp(arg, "ping") == 0)
        s->mode = MODE_PING;
    else if (strcmp(arg, "send") == 0)
        s->mode = MODE_SEND;
    else if (strcmp(arg, "receive") == 0)
        s->mode = MODE_RECEIVE;
    else
        return ucping_fail(s, "--mode: \"%s\" is not one of ping, send, receive", arg);
    return 0;
}

static int set_bytes(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;
    uint64_t v;

    if (value_number(arg, 1, EXCHANGE_PING_MAX, &v) < 0)
        return ucping_fail(s, "--bytes: \"%s\" is not a number from 1 to %d", arg,
                           EXCHANGE_PING_MAX);
    s->bytes = (uint32_t)v;
    return 0;
}

static int set_count(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    if (value_size(arg, 1, UINT64_MAX / 2, &s->count) == 0)
        return 0;
    return ucping_fail(s, "--count: \"%s\" is not a number", arg);
}

static int set_time(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    if (value_ratio(arg, &s->seconds) == 0 && s->seconds > 0 && s->seconds < 1e6)
        return 0;
    return ucping_fail(s, "--time: \"%s\" is not a number of seconds", arg);
}

static int set_connections(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;
    uint64_t v;

    if (value_number(arg, 1, UCPING_CONNECTIONS_MAX, &v) < 0)
        return ucping_fail(s, "--connections: \"%s\" is not a number from 1 to %d", arg,
                           UCPING_CONNECTIONS_MAX);
    s->connections = (unsigned)v;
    return 0;
}

/* "on" or "off". */
static int read_switch(struct settings *s, const char *name, const char *arg, bool *off)
{
    *off = strcmp(arg, "off") == 0;
    if (*off || strcmp(arg, "on") == 0)
        return 0;
    return ucping_fail(s, "--%s: \"%s\" is neither on nor off", name, arg);
}

/* What a device may do for us. Those without offloads have none to leave out. */
static int switch_offload(struct settings *s, const char *name, const char *arg,
                          enum nic_dpdk_without bit)
{
    bool off;

    if (read_switch(s, name, arg, &off) < 0)
        return -1;
    s->without = off ? s->without | (unsigned)bit : s->without & ~(unsigned)bit;
    return 0;
}

static int set_csum(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    return switch_offload(s, "csum", arg, NIC_DPDK_WITHOUT_CSUM);
}

static int set_tso(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    return switch_offload(s, "tso", arg, NIC_DPDK_WITHOUT_TSO);
}

static int set_zero_copy(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    return read_switch(s, "zero-copy", arg, &s->copy);
}

static int set_threading(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    if (value_threading(arg, &s->threading) == 0)
        return 0;
    return ucping_fail(s, "--threading: \"%s\" is not one of unified, split, merge", arg);
}

static int set_poll(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    s->poll = true;
    return 0;
}

static int set_json(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = (struct settings *)settings;

    s->json = true;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const struct cmdline_option specs[] = {
    {'l', "listen", NULL, set_listen, "be the server; PEER is the address to listen on"},
    {'m', "mode", "MODE", set_mode,
     "ping (default): round trips; send, receive: bulk in that\ndirection"},
    {'b', "bytes", "N", set_bytes, "bytes of a ping (default: 16)"},
    {'n', "count", "N", set_count,
     "pings, or bytes of bulk (with k or m), of each connection\n(default: as --time says)"},
    {'T', "time", "SECONDS", set_time, "duration (default: 3, unless --count is given)"},
    {'c', "connections", "N", set_connections, "concurrent connections (default: 1)"},
    {0, "csum", "on|off", set_csum,
     "--io=dpdk: checksums by the device, if it can (on). Without\nthem there is no TSO"},
    {0, "tso", "on|off", set_tso, "--io=dpdk: large segments, cut by the device, if it can (on)"},
    {0, "zero-copy", "on|off", set_zero_copy,
     "own stack: queue bulk by reference (on); the device gathers\nframes, if it can. Copied bulk "
     "is "
     "sent in small frames, also\nwith TSO"},
    {0, "threading", "MODEL", set_threading,
     "own stack: unified (default), stack and application in one\nthread; split, in two threads; "
     "merge, in two threads on one\ncore"},
    {0, "poll", NULL, set_poll, "busy-poll, never sleep"},
    {0, "json", NULL, set_json,
     "print the result as JSON, with the counters of the link and of\nthe rings between two "
     "threads; "
     "a server prints only these, when\nit ends"},
    {'h', "help", NULL, NULL, "print this", CMDLINE_END, .min = CMDLINE_HELP},
    {0, "version", NULL, NULL, "print the version", CMDLINE_END, .min = CMDLINE_VERSION},
};

#define SPECS U_ARRAY_LEN(specs)

void options_print_help(FILE *to)
{
    struct link_options link;
    struct cmdline_table table = link_table(&link);

    fprintf(to, "ucping: TCP round trips and bulk over kernel sockets or the own TCP/IP stack\n\n"
                "usage: ucping [options] [PEER]\n\n"
                "PEER is HOST[:PORT]; the port is " UCPING_PORT
                " unless given. Both sides check every byte.\n\n");
    cmdline_print_options(to, specs, SPECS);
    fprintf(to, "\nThe link (of the own TCP/IP stack; its default addresses are those of ucload, "
                "with\n--listen those of ucached):\n");
    cmdline_print_options(to, table.options, table.count);
    fprintf(to, "\nExamples:\n"
                "  ucping --listen                      a server on kernel sockets\n"
                "  ucping -c32 127.0.0.1                32 pings of 16 bytes in flight\n"
                "  ucping --listen --io=tap             a server on the own stack, 10.100.0.20\n"
                "  ucping --listen --io=tap --threading=split   its stack and its application in "
                "two threads\n"
                "  ucping -m receive -T5 10.100.0.20    how fast the server sends\n");
}

/* ---- parsing ----------------------------------------------------------------------------- */

static int find_peer(struct settings *s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = s->listen ? AI_PASSIVE : 0};
    struct addrinfo *found;
    char host[VALUE_HOST_MAX], port[VALUE_PORT_MAX] = UCPING_PORT;
    int rc;

    if (value_endpoint(s->peer, host, port) < 0)
        return ucping_fail(s, "\"%s\" is not HOST:PORT", s->peer);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return ucping_fail(s, "%s: %s", s->peer, gai_strerror(rc));
    memcpy(&s->addr, found->ai_addr, found->ai_addrlen);
    s->addr_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static int check(struct settings *s, char **rest)
{
    static const struct link_defaults client = {"ucping0", "10.100.0.30/24", "10.100.0.10/24"};
    static const struct link_defaults server = {"ucping0", "10.100.0.20/24", "10.100.0.10/24"};

    if (rest[0] && rest[1])
        return ucping_fail(s, "\"%s\" is one peer too many", rest[1]);
    if (link_resolve(&s->link, s->listen ? &server : &client, s->error) < 0)
        return -1;
    s->link.without |= s->without;
    if (s->threading != NET_THREADING_UNIFIED && !link_carries_frames(&s->link))
        return ucping_fail(s, "--threading is for the own TCP/IP stack; with kernel sockets the "
                              "kernel has it: add --io=tap");
    if (s->link.backend->io_uring)
        return ucping_fail(s, "--io=uring is not for ucping; use sock");
    s->peer = rest[0];
    if (!s->peer && s->listen)
        s->peer = "0.0.0.0";
    if (!s->peer)
        s->peer = link_carries_frames(&s->link) ? "10.100.0.20" : "127.0.0.1";
    if (s->seconds <= 0 && s->count == 0)
        s->seconds = 3;
    return find_peer(s);
}

enum cmdline_outcome options_parse(int argc, char **argv, struct settings *s)
{
    struct cmdline cmdline = {.tables = {{specs, SPECS, s}, link_table(&s->link)},
                              .error = s->error};
    enum cmdline_outcome outcome;
    char **rest;

    memset(s, 0, sizeof(*s));
    s->mode = MODE_PING;
    s->bytes = 16;
    s->connections = 1;
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_RUN && check(s, rest) < 0)
        return CMDLINE_BAD;
    return outcome;
}
