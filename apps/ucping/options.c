/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's command line; see options.h. */
#include "options.h"

#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common/value.h"

#define LINK_OPTIONS_MAX 16

int ucping_fail(struct settings *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->error, sizeof(s->error), format, args);
    va_end(args);
    return -1;
}

void ucping_say_listening(const struct settings *s)
{
    fprintf(stderr, "ucping: listening on %s (%s)\n", s->peer, link_io_name(s->link.io));
}

static int set_listen(struct settings *s, const char *arg)
{
    (void)arg;
    s->listen = true;
    return 0;
}

static int set_mode(struct settings *s, const char *arg)
{
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

static int set_bytes(struct settings *s, const char *arg)
{
    uint64_t v;

    if (value_number(arg, 1, CONV_PING_MAX, &v) < 0)
        return ucping_fail(s, "--bytes: \"%s\" is not a number from 1 to %d", arg, CONV_PING_MAX);
    s->bytes = (uint32_t)v;
    return 0;
}

static int set_count(struct settings *s, const char *arg)
{
    if (value_size(arg, 1, UINT64_MAX / 2, &s->count) == 0)
        return 0;
    return ucping_fail(s, "--count: \"%s\" is not a number", arg);
}

static int set_time(struct settings *s, const char *arg)
{
    if (value_ratio(arg, &s->seconds) == 0 && s->seconds > 0 && s->seconds < 1e6)
        return 0;
    return ucping_fail(s, "--time: \"%s\" is not a number of seconds", arg);
}

static int set_connections(struct settings *s, const char *arg)
{
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

static int switch_caps(struct settings *s, const char *name, const char *arg, uint32_t caps)
{
    bool off;

    if (read_switch(s, name, arg, &off) < 0)
        return -1;
    s->caps_off = off ? s->caps_off | caps : s->caps_off & ~caps;
    return 0;
}

static int set_csum(struct settings *s, const char *arg)
{
    return switch_caps(s, "csum", arg,
                       US_CAP_RX_CSUM | US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM | US_CAP_TX_TSO);
}

static int set_tso(struct settings *s, const char *arg)
{
    return switch_caps(s, "tso", arg, US_CAP_TX_TSO);
}

static int set_zero_copy(struct settings *s, const char *arg)
{
    return read_switch(s, "zero-copy", arg, &s->copy);
}

static int set_poll(struct settings *s, const char *arg)
{
    (void)arg;
    s->poll = true;
    return 0;
}

static int set_json(struct settings *s, const char *arg)
{
    (void)arg;
    s->json = true;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

struct spec {
    char letter;
    const char *name;
    const char *arg;                                 /* null: takes none */
    int (*set)(struct settings *s, const char *arg); /* null: help, version */
    const char *help;
};

static const struct spec specs[] = {
    {'l', "listen", NULL, set_listen, "be the server; PEER is then the address to listen on"},
    {'m', "mode", "MODE", set_mode,
     "ping (default): bytes there and back; send, receive: bulk\nin that direction"},
    {'b', "bytes", "N", set_bytes, "of a ping (default: 16)"},
    {'n', "count", "N", set_count,
     "pings, or bytes of bulk (with k or m), of each connection\n(default: as --time says)"},
    {'T', "time", "SECONDS", set_time, "how long (default: 3, unless --count is given)"},
    {'c', "connections", "N", set_connections, "at the same time (default: 1)"},
    {0, "csum", "on|off", set_csum, "own stack: checksums by the device, if it can (on)"},
    {0, "tso", "on|off", set_tso, "own stack: large segments cut by the device (on)"},
    {0, "zero-copy", "on|off", set_zero_copy, "own stack: bulk is queued by reference (on)"},
    {0, "poll", NULL, set_poll, "never sleep"},
    {0, "json", NULL, set_json, "the result as JSON"},
    {'h', "help", NULL, NULL, "print this"},
    {0, "version", NULL, NULL, "print the version"},
};

#define SPECS U_ARRAY_LEN(specs)

static void print_option(FILE *to, char letter, const char *name, const char *arg, const char *help)
{
    char head[48];

    snprintf(head, sizeof(head), "  %c%c%c --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
             letter ? ',' : ' ', name, arg ? "=" : "", arg ? arg : "");
    fprintf(to, "%-29s", head);
    for (; *help; help++) {
        fputc(*help, to);
        if (*help == '\n')
            fprintf(to, "%29s", "");
    }
    fputc('\n', to);
}

void options_print_help(FILE *to)
{
    struct link_option_table link = link_option_table();
    size_t i;

    fprintf(to, "ucping: TCP there and back, over kernel sockets or over the own TCP/IP stack\n\n"
                "usage: ucping [options] [PEER]\n\n"
                "PEER is HOST[:PORT]; the port is " UCPING_PORT
                " unless given. Both sides check every byte.\n\n");
    for (i = 0; i < SPECS; i++)
        print_option(to, specs[i].letter, specs[i].name, specs[i].arg, specs[i].help);
    fprintf(to, "\nThe link (of the own TCP/IP stack; its default addresses are those of ucload, "
                "with\n--listen those of ucached):\n");
    for (i = 0; i < link.count; i++)
        print_option(to, 0, link.options[i].name, link.options[i].arg, link.options[i].help);
    fprintf(to, "\nExamples:\n"
                "  ucping --listen                      a server on kernel sockets\n"
                "  ucping -c32 127.0.0.1                32 pings of 16 bytes in flight\n"
                "  ucping --listen --io=tap             a server on the own stack, 10.100.0.20\n"
                "  ucping -m receive -T5 10.100.0.20    how fast it sends\n");
}

/* ---- parsing ----------------------------------------------------------------------------- */

static int find_peer(struct settings *s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = s->listen ? AI_PASSIVE : 0};
    struct addrinfo *found;
    char host[64];
    const char *colon = strrchr(s->peer, ':');
    const char *port = UCPING_PORT;
    int rc;

    if (colon && strchr(s->peer, ':') == colon)
        port = colon + 1;
    else
        colon = s->peer + strlen(s->peer);
    if ((size_t)(colon - s->peer) >= sizeof(host))
        return ucping_fail(s, "\"%s\" is not HOST:PORT", s->peer);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - s->peer), s->peer);
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
    if (link_settle(&s->link, s->listen ? &server : &client, s->error) < 0)
        return -1;
    if (s->link.io == LINK_IO_URING)
        return ucping_fail(s, "--io=uring is not for ucping; use sock");
    s->peer = rest[0];
    if (!s->peer && s->listen)
        s->peer = "0.0.0.0";
    if (!s->peer)
        s->peer = link_is_stack(s->link.io) ? "10.100.0.20" : "127.0.0.1";
    if (s->seconds <= 0 && s->count == 0)
        s->seconds = 3;
    return find_peer(s);
}

static void list_options(struct option list[], char letters[2 * SPECS + 2])
{
    struct link_option_table link = link_option_table();
    size_t i, n = 0;

    letters[n++] = ':';
    for (i = 0; i < SPECS; i++) {
        list[i] = (struct option){specs[i].name, specs[i].arg != NULL, NULL, (int)(256 + i)};
        if (specs[i].letter)
            letters[n++] = specs[i].letter;
        if (specs[i].letter && specs[i].arg)
            letters[n++] = ':';
    }
    letters[n] = '\0';
    U_ASSERT(link.count < LINK_OPTIONS_MAX);
    for (i = 0; i < link.count; i++)
        list[SPECS + i] = (struct option){link.options[i].name, 1, NULL, (int)(256 + SPECS + i)};
}

static size_t find_spec(int found)
{
    size_t i;

    if (found >= 256)
        return (size_t)(found - 256);
    for (i = 0; i < SPECS && specs[i].letter != found; i++)
        continue;
    return i;
}

enum options_outcome options_parse(int argc, char **argv, struct settings *s)
{
    static struct option list[SPECS + LINK_OPTIONS_MAX];
    struct link_option_table link = link_option_table();
    char letters[2 * SPECS + 2];
    int found;
    size_t i;

    memset(s, 0, sizeof(*s));
    s->mode = MODE_PING;
    s->bytes = 16;
    s->connections = 1;
    list_options(list, letters);
    opterr = 0;
    while ((found = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        if (found == '?' || found == ':') {
            ucping_fail(s, found == '?' ? "\"%s\" is not an option" : "%s: an argument is missing",
                        argv[optind - 1]);
            return OPTIONS_BAD;
        }
        i = find_spec(found);
        if (i < SPECS && !specs[i].set)
            return strcmp(specs[i].name, "help") == 0 ? OPTIONS_HELP : OPTIONS_VERSION;
        if ((i < SPECS ? specs[i].set(s, optarg)
                       : link.options[i - SPECS].set(&s->link, optarg, s->error)) < 0)
            return OPTIONS_BAD;
    }
    return check(s, argv + optind) < 0 ? OPTIONS_BAD : OPTIONS_RUN;
}
