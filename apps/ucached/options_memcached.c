/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's options, with its letters, names, ranges and exit statuses.
 */
#include <string.h>

#include "common/value.h"
#include "options_spec.h"

#define CONNECTIONS_MAX 1000000
#define MEMORY_MIB_MAX (16u * 1024 * 1024)
#define ITEM_BYTES_MIN 1024
#define ITEM_BYTES_MAX (1024u * 1024 * 1024)
#define CHUNK_BYTES_MAX (1024u * 1024)

/* ---- where to listen --------------------------------------------------------------------- */

/* A port, 0 for none, -1 for any. */
static int set_port(struct options *o, const char *name, const char *arg, uint16_t *port, bool *any)
{
    uint64_t value = 0;

    *any = strcmp(arg, "-1") == 0;
    if (!*any && value_number(arg, 0, 65535, &value) < 0)
        return options_fail(o, EX_USAGE,
                            "%s: \"%s\" is not a port from 1 to 65535, 0 for none, or -1 for any "
                            "free one",
                            name, arg);
    *port = (uint16_t)value;
    return 0;
}

static int set_tcp_port(struct options *o, const char *arg)
{
    o->tcp_port_given = true;
    return set_port(o, "-p", arg, &o->settings.tcp_port, &o->tcp_port_any);
}

static int set_udp_port(struct options *o, const char *arg)
{
    o->udp_port_given = true;
    return set_port(o, "-U", arg, &o->settings.udp_port, &o->udp_port_any);
}

/* An empty one is what a script gives whose variable is not set: it means nothing. */
static int set_listen(struct options *o, const char *arg)
{
    size_t used = strlen(o->listen);

    if (arg[0] == '\0')
        return 0;
    if (used + 1 + strlen(arg) >= sizeof(o->listen))
        return options_fail(o, EX_USAGE, "-l: more than %d characters of addresses",
                            OPTIONS_LISTEN_MAX);
    snprintf(o->listen + used, sizeof(o->listen) - used, used > 0 ? ",%s" : "%s", arg);
    o->settings.listen_addr = o->listen;
    return 0;
}

static int set_unix_socket(struct options *o, const char *arg)
{
    o->settings.unix_path = arg;
    if (arg[0] != '\0' && strlen(arg) <= NET_UNIX_PATH_MAX)
        return 0;
    return options_fail(o, EX_USAGE, "-s: \"%s\" is not a path of 1 to %d characters", arg,
                        NET_UNIX_PATH_MAX);
}

static int set_unix_mask(struct options *o, const char *arg)
{
    if (value_octal(arg, 0777, &o->settings.unix_access) == 0)
        return 0;
    return options_fail(o, EX_USAGE, "-a: \"%s\" is not an octal number from 0 to 777", arg);
}

static int set_backlog(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-b", arg, 0, 65535, &value) < 0)
        return -1;
    o->settings.listen_backlog = (uint32_t)value;
    return 0;
}

static int set_binding(struct options *o, const char *arg)
{
    o->binding_given = true;
    if (strcmp(arg, "auto") == 0)
        o->settings.binding = CACHE_BINDING_NEGOTIATE;
    else if (strcmp(arg, "ascii") == 0)
        o->settings.binding = CACHE_BINDING_ASCII;
    else if (strcmp(arg, "binary") == 0)
        o->settings.binding = CACHE_BINDING_BINARY;
    else
        return options_fail(o, EX_USAGE, "-B: \"%s\" is not one of auto, ascii, binary", arg);
    return 0;
}

/* ---- memory and items -------------------------------------------------------------------- */

static int set_memory(struct options *o, const char *arg)
{
    uint64_t value;

    if (value_number(arg, 1, MEMORY_MIB_MAX, &value) < 0)
        return options_fail(o, EX_USAGE, "-m: \"%s\" is not a number of megabytes from 1 to %u",
                            arg, MEMORY_MIB_MAX);
    o->settings.memory_bytes = value * 1024 * 1024;
    return 0;
}

static int set_no_evict(struct options *o, const char *arg)
{
    o->settings.evict = false;
    return 0;
}

static int set_item_size(struct options *o, const char *arg)
{
    uint64_t value;

    if (value_size(arg, ITEM_BYTES_MIN, ITEM_BYTES_MAX, &value) < 0)
        return options_fail(o, EX_USAGE, "-I: \"%s\" is not a size from 1k to 1024m", arg);
    o->settings.item_bytes_max = (uint32_t)value;
    o->item_size_given = true;
    return 0;
}

static int set_growth_factor(struct options *o, const char *arg)
{
    if (value_ratio(arg, &o->settings.shown.growth_factor) == 0 &&
        o->settings.shown.growth_factor > 1)
        return 0;
    return options_fail(o, OPTIONS_EXIT_RANGE, "-f: \"%s\" is not a factor greater than 1", arg);
}

static int set_chunk_size(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-n", arg, 1, CHUNK_BYTES_MAX, &value) < 0)
        return -1;
    o->settings.shown.chunk_bytes = (uint32_t)value;
    return 0;
}

static int set_delimiter(struct options *o, const char *arg)
{
    if (arg[0] == '\0')
        return options_fail(o, OPTIONS_EXIT_RANGE, "-D: the delimiter is missing");
    o->settings.prefix_delimiter = arg[0];
    o->settings.detail_enabled = true;
    return 0;
}

/* ---- workers and connections ------------------------------------------------------------- */

static int set_connections(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-c", arg, 1, CONNECTIONS_MAX, &value) < 0)
        return -1;
    o->settings.connections_max = (uint32_t)value;
    return 0;
}

static int set_threads(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-t", arg, 1, OPTIONS_THREADS_MAX, &value) < 0)
        return -1;
    o->settings.threads = (unsigned)value;
    o->threads_given = true;
    return 0;
}

static int set_requests(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-R", arg, 1, INT32_MAX, &value) < 0)
        return -1;
    o->settings.requests_per_event = (uint32_t)value;
    return 0;
}

static int set_napi_ids(struct options *o, const char *arg)
{
    uint64_t value;

    if (options_number(o, "-N", arg, 1, INT32_MAX, &value) < 0)
        return -1;
    o->settings.shown.napi_ids = (uint32_t)value;
    return 0;
}

/* ---- the process ------------------------------------------------------------------------- */

static int set_verbose(struct options *o, const char *arg)
{
    if (o->settings.verbosity < 3)
        o->settings.verbosity++;
    return 0;
}

static int set_pidfile(struct options *o, const char *arg)
{
    o->pidfile = arg;
    return arg[0] != '\0' ? 0 : options_fail(o, EX_USAGE, "-P: a file name is missing");
}

static int set_user(struct options *o, const char *arg)
{
    o->user = arg;
    return arg[0] != '\0' ? 0 : options_fail(o, EX_USAGE, "-u: a user name is missing");
}

static int set_auth_file(struct options *o, const char *arg)
{
    o->settings.auth_file = arg;
    return arg[0] != '\0' ? 0 : options_fail(o, EX_USAGE, "-Y: a file name is missing");
}

/* ---- what memcached can be built with, and ucached is not -------------------------------- */

static int refuse_sasl(struct options *o, const char *arg)
{
    return options_fail(o, EX_USAGE,
                        "-S: This server is not built with SASL support; -Y is there for text");
}

static int refuse_tls(struct options *o, const char *arg)
{
    return options_fail(o, EX_USAGE, "-Z: This server is not built with TLS support");
}

static int refuse_memory_file(struct options *o, const char *arg)
{
    return options_fail(o, EX_USAGE, "-e: this server keeps no items across a restart");
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct option_spec specs[] = {
    {'p', "port", "PORT", set_tcp_port, 0,
     "TCP port; 0 for none, -1 for any free one (default: 11211)"},
    {'U', "udp-port", "PORT", set_udp_port, 0,
     "UDP port; 0 for none, -1 for any free one (default: 0).\n"
     "Given without -p it is the TCP port too"},
    {'s', "unix-socket", "FILE", set_unix_socket, 0,
     "listen on a unix socket, and on nothing else"},
    {'a', "unix-mask", "MODE", set_unix_mask, 0,
     "who may use the unix socket, octal (default: 700)"},
    {'l', "listen", "ADDR", set_listen, 0,
     "address to listen on with kernel sockets, host[:port] or\n"
     "[IPv6]:port, before it proto[ascii]: or proto[binary]: if\n"
     "only that is spoken there; several separated by commas, or\n"
     "-l again (default: all addresses, IPv4 and IPv6)"},
    {'m', "memory-limit", "MB", set_memory, 0, "memory for items, megabytes (default: 64)"},
    {'M', "disable-evictions", NULL, set_no_evict, 0,
     "answer with an error when memory is used up, instead of\n"
     "evicting items"},
    {'I', "max-item-size", "SIZE", set_item_size, 0,
     "largest item; k and m may follow the number\n"
     "(default: 1m; from 1k to 1024m and at most half of -m)"},
    {'c', "conn-limit", "N", set_connections, 0, "connections at the same time (default: 1024)"},
    {'t', "threads", "N", set_threads, 0,
     "worker threads (default: 4; on the own TCP/IP stack 1; with\n"
     "--cores as many as these)"},
    {'R', "max-reqs-per-event", "N", set_requests, 0,
     "requests of one connection before the others have their\n"
     "turn (default: 20)"},
    {'b', "listen-backlog", "N", set_backlog, 0,
     "connections that may wait to be accepted (default: 1024)"},
    {'B', "protocol", "NAME", set_binding, 0,
     "auto (default), ascii or binary: what connections speak"},
    {'A', "enable-shutdown", NULL, NULL, offsetof(struct options, settings.shutdown_enabled),
     "allow the command shutdown"},
    {'C', "disable-cas", NULL, NULL, offsetof(struct options, settings.cas_disabled),
     "no check-and-set"},
    {'F', "disable-flush-all", NULL, NULL, offsetof(struct options, settings.flush_disabled),
     "refuse flush_all"},
    {'X', "disable-dumping", NULL, NULL, offsetof(struct options, settings.dump_disabled),
     "refuse what lists keys: cachedump, metadump, detail"},
    {'W', "disable-watch", NULL, NULL, offsetof(struct options, settings.watch_disabled),
     "refuse watch"},
    {'Y', "auth-file", "FILE", set_auth_file, 0,
     "clients have to name one of the user:password lines of FILE\n"
     "(text protocol; SIGHUP reads it again)"},
    {'D', NULL, "C", set_delimiter, 0, "count statistics per prefix; C ends a prefix (default: :)"},
    {'d', "daemon", NULL, NULL, offsetof(struct options, daemonize), "run in the background"},
    {'P', "pidfile", "FILE", set_pidfile, 0, "write the process id to FILE"},
    {'u', "user", "NAME", set_user, 0, "become this user when started as root"},
    {'r', "enable-coredumps", NULL, NULL, offsetof(struct options, core_dumps),
     "allow core files of any size"},
    {'k', "lock-memory", NULL, NULL, offsetof(struct options, lock_memory),
     "keep all memory from being swapped out"},
    {'L', "enable-largepages", NULL, NULL, offsetof(struct options, huge_pages),
     "items in huge pages that were set aside, if there are enough\n"
     "(vm.nr_hugepages); prefer large pages for tables"},
    {'f', "slab-growth-factor", "F", set_growth_factor, 0, "accepted: there are no slab classes"},
    {'n', "slab-min-size", "N", set_chunk_size, 0, "accepted: there are no slab classes"},
    {'N', "napi-ids", "N", set_napi_ids, 0, "accepted, without effect"},
    {'S', "enable-sasl", NULL, refuse_sasl, 0, NULL},
    {'Z', "enable-ssl", NULL, refuse_tls, 0, NULL},
    {'e', "memory-file", "FILE", refuse_memory_file, 0, NULL},
    {'o', "extended", "LIST", options_extended, 0, "further settings, see below"},
    {'v', "verbose", NULL, set_verbose, 0, "say more on stderr: -v warnings, -vv connections"},
    {'h', "help", NULL, NULL, 0, "print this text"},
    {'i', "license", NULL, NULL, 0, "print the license"},
    {'V', "version", NULL, NULL, 0, "print the version"},
};

struct option_table options_memcached(void)
{
    struct option_table table = {specs, sizeof(specs) / sizeof(specs[0])};

    return table;
}
