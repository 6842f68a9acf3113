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
    run->progress_ns = run->begun_ns;
    run->end_ns = seconds_ns > 0 ? run->begun_ns + seconds_ns : 0;
}

bool ucping_is_stuck(const struct settings *s, const struct ping_run *run)
{
    return run->now_ns > run->progress_ns + (uint64_t)(s->timeout_s * 1e9);
}

int ucping_fail_stream(struct settings *s, const struct stream *stream)
{
    if (stream->exchange.run->mismatch)
        return ucping_fail(s, "%s has sent a wrong byte", s->peer);
    if (!stream->open)
        return ucping_fail(s, "TLS with %s: %s", s->peer, stream->failed);
    return ucping_fail(s, "the connection to %s was lost: %s", s->peer, stream->failed);
}

void ucping_print_listening(const struct settings *s)
{
    fprintf(stderr, "ucping: listening on %s (%s)\n", s->peer, link_backend_name(&s->link));
}

static const char *mode_choice(unsigned index, const char **help)
{
    *help = NULL;
    return index < MODE_COUNT ? exchange_mode_names[index] : NULL;
}

static const char *switch_choice(unsigned index, const char **help)
{
    static const char *const words[] = {[SWITCH_ON] = "on", [SWITCH_OFF] = "off"};

    *help = NULL;
    return index < U_ARRAY_LEN(words) ? words[index] : NULL;
}

static int set_count(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct settings *s = settings;

    if (value_size(arg, 1, UINT64_MAX / 2, &s->count) == 0)
        return 0;
    return cmdline_fail(error, "\"%s\" is not a number", arg);
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct settings, field)

static const struct cmdline_option specs[] = {
    {'l', "listen", NULL, NULL, "be the server; PEER is the address to listen on", CMDLINE_ON,
     AT(listen)},
    {'m', "mode", "MODE", NULL,
     "ping (default): round trips; send, receive: bulk in that\ndirection", CMDLINE_CHOICE,
     AT(mode), .choice = mode_choice},
    {'b', "bytes", "N", NULL, "bytes of a ping (default: 16)", CMDLINE_U32, AT(bytes), 1,
     EXCHANGE_PING_MAX},
    {'n', "count", "N", set_count,
     "pings, or bytes of bulk (with k or m), of each connection\n(default: as --time says)"},
    {'T', "time", "SECONDS", NULL, "duration (default: 3, unless --count is given)", CMDLINE_RATIO,
     AT(seconds), 0, 1000000, 1},
    {'c', "connections", "N", NULL, "concurrent connections (default: 1)", CMDLINE_U32,
     AT(connections), 1, UCPING_CONNECTIONS_MAX},
    {0, "csum", "on|off", NULL,
     "--io=dpdk: checksums by the device, if it can (on). Without\nthem there is no TSO",
     CMDLINE_CHOICE, AT(csum), .choice = switch_choice},
    {0, "tso", "on|off", NULL, "--io=dpdk: large segments, cut by the device, if it can (on)",
     CMDLINE_CHOICE, AT(tso), .choice = switch_choice},
    {0, "zero-copy", "on|off", NULL,
     "own stack: queue bulk by reference (on); the device gathers\nframes, if it can. Copied bulk "
     "is\nsent in small frames, also with TSO",
     CMDLINE_CHOICE, AT(zero_copy), .choice = switch_choice},
    {0, "threading", "MODEL", NULL, "own stack: threads for the stack and the application:",
     CMDLINE_CHOICE, AT(threading), .choice = value_threading_choice},
    {0, "tls", NULL, NULL, "TLS", CMDLINE_ON, AT(tls)},
    {0, "ca", "FILE", NULL,
     "with --tls: certificates (PEM) that sign the server's\n(default: it is not checked); with "
     "--listen those that sign\nclients', which are required then",
     CMDLINE_TEXT, AT(ca), .given = AT(tls)},
    {0, "cert", "FILE", NULL, "with --tls: own certificate (PEM); a server needs one", CMDLINE_TEXT,
     AT(cert), .given = AT(tls)},
    {0, "key", "FILE", NULL, "its private key (default: in the file of --cert)", CMDLINE_TEXT,
     AT(key), .given = AT(tls)},
    {0, "tls-resume", NULL, NULL,
     "resume the session of a connection that was opened and closed\nbefore the others", CMDLINE_ON,
     AT(tls_resume), .given = AT(tls)},
    {0, "timeout", "SECONDS", NULL,
     "of a client: time to connect, and without a byte in either\ndirection (default: 5)",
     CMDLINE_RATIO, AT(timeout_s), 0, 86400, 1},
    {0, "poll", NULL, NULL, "busy-poll, never sleep", CMDLINE_ON, AT(poll)},
    {0, "json", NULL, NULL,
     "print the result as JSON, with the counters of the link and of\nthe rings between two "
     "threads;\na server prints only these, when it ends",
     CMDLINE_ON, AT(json)},
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
    fprintf(to,
            "\nExamples:\n"
            "  ucping --listen                      a server on kernel sockets\n"
            "  ucping -c32 127.0.0.1                32 pings of 16 bytes in flight\n"
            "  ucping --listen --io=tap             a server on the own stack, 10.100.0.20\n"
            "  ucping --listen --io=tap --threading=split   its stack and its application in "
            "two threads\n"
            "  ucping -m receive -T5 10.100.0.20    how fast the server sends\n"
            "  ucping --listen --cert=cert.pem --key=key.pem    a server with TLS\n"
            "  ucping --ca=ca.pem --tls-resume -c100            resumed handshakes\n\n"
            "Exit status: 0 success; 1 a received byte was wrong; 64 wrong options; 69 the peer "
            "cannot\nbe reached, has closed a connection too early or does not answer, TLS or "
            "a system call failed.\n"
            "A client that fails prints no result.\n");
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
    if (s->csum == SWITCH_OFF)
        s->link.without |= NIC_DPDK_WITHOUT_CSUM;
    if (s->tso == SWITCH_OFF)
        s->link.without |= NIC_DPDK_WITHOUT_TSO;
    if (s->threading != NET_THREADING_UNIFIED && !link_carries_frames(&s->link))
        return ucping_fail(s, "--threading is for the own TCP/IP stack; with kernel sockets the "
                              "kernel has it: add --io=tap");
    if (s->link.backend->io_uring)
        return ucping_fail(s, "--io=uring is not for ucping; use sock");
    if (s->listen && s->tls && !s->cert)
        return ucping_fail(s, "--tls: a server needs --cert");
    if (s->listen && s->tls_resume)
        return ucping_fail(s, "--tls-resume is for clients; a server lets them resume");
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
    s->timeout_s = 5;
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_RUN && check(s, rest) < 0)
        return CMDLINE_BAD;
    return outcome;
}
