/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's options, with its letters, names, ranges and exit statuses. */
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "options_table.h"
#include "tls/tls.h"

#define MEMORY_MIB_MAX (16u * 1024 * 1024)
#define ITEM_BYTES_MAX (1024u * 1024 * 1024)

/* A port, 0 for none, -1 for any. */
static int set_port(const char *arg, uint16_t *port, bool *any, char error[OPTIONS_ERROR_MAX])
{
    uint64_t value = 0;

    *any = strcmp(arg, "-1") == 0;
    if (!*any && value_number(arg, 0, 65535, &value) < 0)
        return cmdline_fail(error,
                            "\"%s\" is not a port from 1 to 65535, 0 for none, or -1 for any free "
                            "one",
                            arg);
    *port = (uint16_t)value;
    return 0;
}

static int set_tcp_port(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    return set_port(arg, &o->settings.tcp_port, &o->tcp_port_any, error);
}

static int set_udp_port(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    return set_port(arg, &o->settings.udp_port, &o->udp_port_any, error);
}

/* An empty address, as from an unset variable of a script, is ignored. */
static int add_listen(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;
    size_t used = strlen(o->listen);

    if (arg[0] == '\0')
        return 0;
    if (used + 1 + strlen(arg) >= sizeof(o->listen))
        return cmdline_fail(error, "more than %d characters of addresses", OPTIONS_LISTEN_MAX);
    snprintf(o->listen + used, sizeof(o->listen) - used, used > 0 ? ",%s" : "%s", arg);
    o->settings.listen_addr = o->listen;
    return 0;
}

static int set_unix_socket(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.unix_path = arg;
    if (arg[0] != '\0' && strlen(arg) <= NET_UNIX_PATH_MAX)
        return 0;
    return cmdline_fail(error, "\"%s\" is not a path of 1 to %d characters", arg,
                        NET_UNIX_PATH_MAX);
}

static int set_unix_mask(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    if (value_octal(arg, 0777, &o->settings.unix_access) == 0)
        return 0;
    return cmdline_fail(error, "\"%s\" is not an octal number from 0 to 777", arg);
}

static int set_delimiter(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    if (arg[0] == '\0')
        return cmdline_fail(error, "the delimiter is empty");
    o->settings.prefix_delimiter = arg[0];
    o->settings.detail_enabled = true;
    return 0;
}

static int add_verbosity(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    if (o->settings.verbosity < 3)
        o->settings.verbosity++;
    return 0;
}

static const char *binding_choice(unsigned index, const char **help)
{
    static const char *const words[] = {[CACHE_BINDING_NEGOTIATE] = "auto",
                                        [CACHE_BINDING_ASCII] = "ascii",
                                        [CACHE_BINDING_BINARY] = "binary"};

    *help = NULL;
    return index < U_ARRAY_LEN(words) ? words[index] : NULL;
}

static int set_tls(void *settings, const char *arg, char error[OPTIONS_ERROR_MAX])
{
    struct options *o = settings;

    o->settings.tls.enabled = tls_is_built();
    return tls_is_built() ? 0 : cmdline_fail(error, "This server is not built with TLS support");
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, field)

static const struct cmdline_option rows[] = {
    {'p', "port", "PORT", set_tcp_port,
     "TCP port; 0 for none, -1 for any free one (default: 11211)", .given = AT(tcp_port_given)},
    {'U', "udp-port", "PORT", set_udp_port,
     "UDP port; 0 for none, -1 for any free one (default: 0);\n"
     "without -p also the TCP port"},
    {'s', "unix-socket", "FILE", set_unix_socket, "listen on a unix socket only"},
    {'a', "unix-mask", "MODE", set_unix_mask,
     "permissions of the unix socket, octal (default: 700)"},
    {'l', "listen", "ADDR", add_listen,
     "address to listen on with kernel sockets, host[:port] or\n"
     "[IPv6]:port; proto[ascii]: or proto[binary]: before it\n"
     "restricts the protocol, notls:, btls: or mtls: says whether\n"
     "TLS is off, or on without or with client certificates;\n"
     "several separated by commas, or -l repeated (default: all\n"
     "addresses, IPv4 and IPv6)"},
    {'m', "memory-limit", "MB", NULL, "memory for items, megabytes (default: 64)", CMDLINE_U64,
     AT(settings.memory_bytes), 1, MEMORY_MIB_MAX, 1024 * 1024},
    {'M', "disable-evictions", NULL, NULL,
     "return an error when memory is full, instead of evicting", CMDLINE_OFF, AT(settings.evict)},
    {'I', "max-item-size", "SIZE", NULL,
     "largest item; suffix k or m (default: 1m; from 1k to 1024m\n"
     "and at most half of -m)",
     CMDLINE_SIZE, AT(settings.item_bytes_max), 1024, ITEM_BYTES_MAX, .given = AT(item_size_given)},
    {'c', "conn-limit", "N", NULL, "maximum simultaneous connections (default: 1024)", CMDLINE_U32,
     AT(settings.connections_max), 1, 1000000, .status = OPTIONS_EXIT_RANGE},
    {'t', "threads", "N", NULL,
     "worker threads (default: 4; on the own TCP/IP stack 1; with\n"
     "--cores one per core)",
     CMDLINE_U32, AT(settings.threads), 1, OPTIONS_THREADS_MAX, .status = OPTIONS_EXIT_RANGE,
     .given = AT(threads_given)},
    {'R', "max-reqs-per-event", "N", NULL,
     "requests of one connection before other connections are\n"
     "served (default: 20)",
     CMDLINE_U32, AT(settings.requests_per_event), 1, INT32_MAX, .status = OPTIONS_EXIT_RANGE},
    {'b', "listen-backlog", "N", NULL, "connections waiting to be accepted (default: 1024)",
     CMDLINE_U32, AT(settings.listen_backlog), 0, 65535, .status = OPTIONS_EXIT_RANGE},
    {'B', "protocol", "NAME", NULL, "protocol of connections: auto (default), ascii or binary",
     CMDLINE_CHOICE, AT(settings.binding), .choice = binding_choice, .given = AT(binding_given)},
    {'A', "enable-shutdown", NULL, NULL, "allow the command shutdown", CMDLINE_ON,
     AT(settings.shutdown_enabled)},
    {'C', "disable-cas", NULL, NULL, "disable check-and-set", CMDLINE_ON,
     AT(settings.cas_disabled)},
    {'F', "disable-flush-all", NULL, NULL, "refuse flush_all", CMDLINE_ON,
     AT(settings.flush_disabled)},
    {'X', "disable-dumping", NULL, NULL,
     "refuse commands that list keys: stats cachedump, detail,\n"
     "hotkeys; lru_crawler metadump, mgdump",
     CMDLINE_ON, AT(settings.dump_disabled)},
    {'W', "disable-watch", NULL, NULL, "refuse watch", CMDLINE_ON, AT(settings.watch_disabled)},
    {'Y', "auth-file", "FILE", NULL,
     "authenticate clients by the user:password lines of FILE\n"
     "(text protocol, with -S binary too; SIGHUP reads it again)",
     CMDLINE_TEXT, AT(settings.auth_file)},
    {'D', NULL, "C", set_delimiter,
     "collect statistics per key prefix; C ends a prefix\n"
     "(default: :)",
     .status = OPTIONS_EXIT_RANGE},
    {'d', "daemon", NULL, NULL, "run in the background", CMDLINE_ON, AT(daemonize)},
    {'P', "pidfile", "FILE", NULL, "write the process id to FILE", CMDLINE_TEXT, AT(pidfile)},
    {'u', "user", "NAME", NULL, "run as this user when started as root", CMDLINE_TEXT, AT(user)},
    {'r', "enable-coredumps", NULL, NULL, "allow core files of any size", CMDLINE_ON,
     AT(core_dumps)},
    {'k', "lock-memory", NULL, NULL, "lock all memory into RAM", CMDLINE_ON, AT(lock_memory)},
    {'L', "enable-largepages", NULL, NULL,
     "items in reserved huge pages (vm.nr_hugepages) if there are\n"
     "enough; prefer transparent huge pages for tables",
     CMDLINE_ON, AT(huge_pages)},
    {'f', "slab-growth-factor", "F", NULL,
     "growth factor of the classes of `stats items` (default: 1.25)", CMDLINE_RATIO,
     AT(settings.compat.growth_factor), 1, 0, 1, .status = OPTIONS_EXIT_RANGE},
    {'n', "slab-min-size", "N", NULL, "key and value bytes of their smallest class (default: 48)",
     CMDLINE_U32, AT(settings.compat.chunk_bytes), 1, 1024 * 1024, .status = OPTIONS_EXIT_RANGE},
    {'N', "napi-ids", "N", NULL, "accepted without effect", CMDLINE_U32,
     AT(settings.compat.napi_ids), 1, INT32_MAX, .status = OPTIONS_EXIT_RANGE},
    {'S', "enable-sasl", NULL, NULL,
     "authenticate binary connections by SASL PLAIN with the users\n"
     "of -Y, or else of the file that MEMCACHED_SASL_PWDB names",
     CMDLINE_ON, AT(settings.sasl)},
    {'Z', "enable-ssl", NULL, set_tls,
     OPTIONS_TLS_HELP("enable TLS on the TCP port; -o ssl_chain_cert names the\n"
                      "certificate")},
    {'e', "memory-file", "FILE", NULL,
     "keep the items in FILE, on tmpfs, hugetlbfs or DAX, and save\n"
     "them there on SIGTERM and SIGUSR1 for the next start",
     CMDLINE_TEXT, AT(settings.memory_file)},
    {'o', "extended", "LIST", options_set_extended, "further settings, see below",
     .status = OPTIONS_EXIT_RANGE},
    {'v', "verbose", NULL, add_verbosity,
     "log more to stderr: -v refusals, -vv connections, commands"},
    {'h', "help", NULL, NULL, "print this text", CMDLINE_END, .min = CMDLINE_HELP},
    {'i', "license", NULL, NULL, "print the license", CMDLINE_END, .min = CMDLINE_VERSION,
     .given = AT(license_given)},
    {'V', "version", NULL, NULL, "print the version", CMDLINE_END, .min = CMDLINE_VERSION},
};

struct cmdline_table options_memcached(struct options *options)
{
    return (struct cmdline_table){rows, U_ARRAY_LEN(rows), options};
}
