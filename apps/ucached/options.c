/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the command line: one table of options, one small function per option. Parsing, the help
 * text and the lists that getopt wants all come from the table.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "options_value.h"

#define CONNECTIONS_MAX 1000000
#define MEMORY_MIB_MAX (16u * 1024 * 1024)
#define ITEM_BYTES_MIN 1024
#define ITEM_BYTES_MAX (1024u * 1024 * 1024)

typedef int option_set(struct options *options, const char *arg, char *error);

struct option_spec {
    char letter; /* 0: a long name only */
    const char *name;
    const char *arg; /* what the argument is called in the help; null: takes none */
    option_set *set;
    const char *help; /* lines are indented by the printer */
};

__attribute__((format(printf, 2, 3))) static int fail(char *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, OPTIONS_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

static int number(const char *option, const char *arg, uint64_t min, uint64_t max, uint64_t *value,
                  char *error)
{
    if (value_number(arg, min, max, value) == 0)
        return 0;
    return fail(error, "%s: \"%s\" is not a number from %llu to %llu", option, arg,
                (unsigned long long)min, (unsigned long long)max);
}

/* ---- memcached's options ----------------------------------------------------------------- */

static int set_port(struct options *o, const char *arg, char *error)
{
    uint64_t value = 0;

    if (strcmp(arg, "-1") != 0 && value_number(arg, 1, 65535, &value) < 0)
        return fail(error, "-p: \"%s\" is not a port from 1 to 65535, or -1 for any free one", arg);
    o->settings.tcp_port = (uint16_t)value;
    return 0;
}

static int set_udp_port(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (value_number(arg, 0, 0, &value) == 0)
        return 0;
    return fail(error, "-U: \"%s\" asks for UDP, which ucached does not speak; only 0 is allowed",
                arg);
}

static int set_listen(struct options *o, const char *arg, char *error)
{
    size_t used = strlen(o->listen);

    if (arg[0] == '\0')
        return fail(error, "-l: an address is missing");
    if (used + 1 + strlen(arg) >= sizeof(o->listen))
        return fail(error, "-l: more than %d characters of addresses", OPTIONS_LISTEN_MAX);
    snprintf(o->listen + used, sizeof(o->listen) - used, used > 0 ? ",%s" : "%s", arg);
    o->settings.listen_addr = o->listen;
    return 0;
}

static int set_memory(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (number("-m (megabytes)", arg, 1, MEMORY_MIB_MAX, &value, error) < 0)
        return -1;
    o->settings.memory_bytes = value * 1024 * 1024;
    return 0;
}

static int set_no_evict(struct options *o, const char *arg, char *error)
{
    o->settings.evict = false;
    return 0;
}

static int set_item_size(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (value_size(arg, ITEM_BYTES_MIN, ITEM_BYTES_MAX, &value) < 0)
        return fail(error, "-I: \"%s\" is not a size from 1k to 1024m", arg);
    o->settings.item_bytes_max = (uint32_t)value;
    o->item_size_given = true;
    return 0;
}

static int set_connections(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (number("-c", arg, 1, CONNECTIONS_MAX, &value, error) < 0)
        return -1;
    o->settings.connections_max = (uint32_t)value;
    return 0;
}

static int set_threads(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (number("-t", arg, 1, OPTIONS_THREADS_MAX, &value, error) < 0)
        return -1;
    o->settings.threads = (unsigned)value;
    o->threads_given = true;
    return 0;
}

static int set_backlog(struct options *o, const char *arg, char *error)
{
    uint64_t value;

    if (number("-b", arg, 1, 65535, &value, error) < 0)
        return -1;
    o->settings.listen_backlog = (uint32_t)value;
    return 0;
}

static int set_verbose(struct options *o, const char *arg, char *error)
{
    if (o->settings.verbosity < 3)
        o->settings.verbosity++;
    return 0;
}

static int set_daemon(struct options *o, const char *arg, char *error)
{
    o->daemonize = true;
    return 0;
}

static int set_pidfile(struct options *o, const char *arg, char *error)
{
    o->pidfile = arg;
    return arg[0] != '\0' ? 0 : fail(error, "-P: a file name is missing");
}

static int set_user(struct options *o, const char *arg, char *error)
{
    o->user = arg;
    return arg[0] != '\0' ? 0 : fail(error, "-u: a user name is missing");
}

/* ---- where bytes come from --------------------------------------------------------------- */

static int set_io(struct options *o, const char *arg, char *error)
{
    static const char *const absent[] = {"uring", "xdp", "dpdk"};
    size_t i;

    for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        if (strcmp(arg, absent[i]) == 0)
            return fail(error, "--io=%s is not in this build; it has auto, sock and tap", arg);
    }
    if (strcmp(arg, "auto") == 0)
        o->io = OPTIONS_IO_AUTO;
    else if (strcmp(arg, "sock") == 0)
        o->io = OPTIONS_IO_SOCK;
    else if (strcmp(arg, "tap") == 0)
        o->io = OPTIONS_IO_TAP;
    else
        return fail(error, "--io: \"%s\" is not one of auto, sock, tap", arg);
    return 0;
}

static int set_dev(struct options *o, const char *arg, char *error)
{
    o->tap_name = arg;
    if (arg[0] != '\0' && strlen(arg) <= 15 && !strchr(arg, '/'))
        return 0;
    return fail(error, "--dev: \"%s\" is not a device name of 1 to 15 characters", arg);
}

static int set_ip(struct options *o, const char *arg, char *error)
{
    if (o->ip_count == NET_STACK_ADDR_MAX)
        return fail(error, "--ip: more than %d addresses", NET_STACK_ADDR_MAX);
    if (value_network(arg, &o->ip[o->ip_count]) < 0)
        return fail(error, "--ip: \"%s\" is not ADDRESS/PREFIX, for instance 10.100.0.20/24", arg);
    if (o->ip[o->ip_count].addr.family != US_IP4)
        return fail(error, "--ip: \"%s\" is IPv6, which the own TCP/IP stack does not speak", arg);
    o->ip_count++;
    return 0;
}

static int set_host_ip(struct options *o, const char *arg, char *error)
{
    o->host_ip_given = true;
    o->host_ip_none = strcmp(arg, "none") == 0;
    if (o->host_ip_none)
        return 0;
    if (value_network(arg, &o->host_ip) == 0 && o->host_ip.addr.family == US_IP4)
        return 0;
    return fail(error,
                "--host-ip: \"%s\" is neither an IPv4 ADDRESS/PREFIX, for instance "
                "10.100.0.10/24, nor none",
                arg);
}

static int set_gateway(struct options *o, const char *arg, char *error)
{
    o->gateway_given = true;
    if (value_addr(arg, &o->gateway) == 0 && o->gateway.family == US_IP4)
        return 0;
    return fail(error, "--gw: \"%s\" is not an IPv4 address, for instance 10.100.0.1", arg);
}

static int set_mac(struct options *o, const char *arg, char *error)
{
    o->mac_given = true;
    if (value_mac(arg, o->mac) == 0)
        return 0;
    return fail(error,
                "--mac: \"%s\" is not the address of one station, for instance 02:00:00:12:34:56",
                arg);
}

static int set_trace(struct options *o, const char *arg, char *error)
{
    o->trace_path = arg;
    return arg[0] != '\0' ? 0 : fail(error, "--trace: a file name is missing");
}

static int set_fault(struct options *o, const char *arg, char *error)
{
    char why[NIC_ERROR_MAX];

    o->fault_given = true;
    if (nic_fault_parse(arg, &o->fault, why) == 0)
        return 0;
    return fail(error, "--fault: %s", why);
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct option_spec specs[] = {
    {'p', "port", "PORT", set_port, "TCP port; -1 takes any free one (default: 11211)"},
    {'l', "listen", "ADDR", set_listen,
     "address to listen on with kernel sockets, host[:port] or\n"
     "[IPv6]:port; several separated by commas, or -l again\n"
     "(default: all addresses, IPv4 and IPv6)"},
    {'m', "memory-limit", "MB", set_memory, "memory for items, megabytes (default: 64)"},
    {'M', "disable-evictions", NULL, set_no_evict,
     "answer with an error when memory is used up, instead of\n"
     "evicting items"},
    {'I', "max-item-size", "SIZE", set_item_size,
     "largest item; k and m may follow the number\n"
     "(default: 1m; from 1k to 1024m and at most half of -m)"},
    {'c', "conn-limit", "N", set_connections, "connections at the same time (default: 1024)"},
    {'t', "threads", "N", set_threads, "worker threads (default: 4; --io=tap uses 1)"},
    {'b', "listen-backlog", "N", set_backlog,
     "connections that may wait to be accepted (default: 1024)"},
    {'U', "udp-port", "0", set_udp_port, "accepted for compatibility; there is no UDP"},
    {'d', "daemon", NULL, set_daemon, "run in the background"},
    {'P', "pidfile", "FILE", set_pidfile, "write the process id to FILE"},
    {'u', "user", "NAME", set_user, "become this user when started as root"},
    {'v', "verbose", NULL, set_verbose, "say more on stderr: -v warnings, -vv connections"},
    {'h', "help", NULL, NULL, "print this text"},
    {'V', "version", NULL, NULL, "print the version"},
    {0, "io", "MODE", set_io,
     "where bytes come from: sock, the kernel's sockets; tap, the\n"
     "own TCP/IP stack on a TAP device; auto (default), tap if\n"
     "--dev or --ip is given, else sock"},
    {0, "dev", "NAME", set_dev, "TAP device to create (default: ucached0)"},
    {0, "ip", "ADDR/PREFIX", set_ip,
     "IPv4 address of the server; may be repeated\n"
     "(default: 10.100.0.20/24)"},
    {0, "host-ip", "ADDR/PREFIX", set_host_ip,
     "address of the host's side of the TAP, or none\n"
     "(default: 10.100.0.10/24)"},
    {0, "gw", "ADDR", set_gateway, "gateway to other networks (default: none)"},
    {0, "mac", "MAC", set_mac, "hardware address of the server (default: random)"},
    {0, "trace", "FILE", set_trace, "write every frame to FILE in pcap format"},
    {0, "fault", "SPEC", set_fault,
     "do harm to the frames, for tests, for instance\n"
     "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7"},
};

#define SPEC_COUNT (sizeof(specs) / sizeof(specs[0]))

/* What memcached has and ucached has not: worth another message than a typing error. */
static const char absent_letters[] = "saArkifnLDRCBSFXWYeZNo";

static const char *const absent_names[] = {
    "unix-socket",        "unix-mask",         "enable-shutdown",
    "enable-coredumps",   "lock-memory",       "license",
    "slab-growth-factor", "slab-min-size",     "enable-largepages",
    "max-reqs-per-event", "disable-cas",       "protocol",
    "enable-sasl",        "disable-flush-all", "disable-dumping",
    "disable-watch",      "auth-file",         "memory-file",
    "enable-ssl",         "napi-ids",          "extended",
};

/* ---- parsing ----------------------------------------------------------------------------- */

/* Lists for getopt_long(): a long option's value is its index in the table plus this. */
#define LONG_BASE 256

static void make_lists(char *letters, struct option *longs)
{
    size_t i;

    *letters++ = ':'; /* a missing argument is told apart from an unknown option */
    for (i = 0; i < SPEC_COUNT; i++) {
        longs[i].name = specs[i].name;
        longs[i].has_arg = specs[i].arg ? required_argument : no_argument;
        longs[i].flag = NULL;
        longs[i].val = LONG_BASE + (int)i;
        if (specs[i].letter == 0)
            continue;
        *letters++ = specs[i].letter;
        if (specs[i].arg)
            *letters++ = ':';
    }
    *letters = '\0';
    memset(&longs[SPEC_COUNT], 0, sizeof(longs[0]));
}

static const struct option_spec *find_spec(int value)
{
    size_t i;

    if (value >= LONG_BASE)
        return &specs[value - LONG_BASE];
    for (i = 0; i < SPEC_COUNT; i++) {
        if (specs[i].letter == value)
            return &specs[i];
    }
    return NULL;
}

static bool is_absent_name(const char *arg)
{
    size_t len = strcspn(arg, "=");
    size_t i;

    for (i = 0; i < sizeof(absent_names) / sizeof(absent_names[0]); i++) {
        if (strlen(absent_names[i]) == len && memcmp(absent_names[i], arg, len) == 0)
            return true;
    }
    return false;
}

/* getopt returned '?': `letter` is set for a short option, else `arg` is the word as given. */
static int fail_unknown(int letter, const char *arg, char *error)
{
    if (letter >= LONG_BASE)
        return fail(error, "--%s takes no argument", specs[letter - LONG_BASE].name);
    if (letter != 0 && strchr(absent_letters, letter))
        return fail(error, "-%c is an option of memcached that ucached does not have", letter);
    if (letter != 0)
        return fail(error, "-%c: there is no such option; see --help", letter);
    if (strncmp(arg, "--", 2) == 0 && is_absent_name(arg + 2))
        return fail(error, "%s is an option of memcached that ucached does not have", arg);
    return fail(error, "%s: there is no such option; see --help", arg);
}

static void set_defaults(struct options *o)
{
    memset(o, 0, sizeof(*o));
    cache_settings_defaults(&o->settings);
    o->settings.requests_per_event = 0;
}

static int parse_all(int argc, char **argv, struct options *o, enum options_outcome *outcome,
                     char *error)
{
    struct option longs[SPEC_COUNT + 1];
    char letters[2 * SPEC_COUNT + 2];
    const struct option_spec *spec;
    int value;

    make_lists(letters, longs);
    opterr = 0;
    optind = 0; /* glibc: start anew, also after an earlier use */
    while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (value == '?')
            return fail_unknown(optopt, argv[optind - 1], error);
        if (value == ':')
            return fail(error, "%s needs an argument; see --help", argv[optind - 1]);
        spec = find_spec(value);
        if (spec->letter == 'h' || spec->letter == 'V') {
            *outcome = spec->letter == 'h' ? OPTIONS_HELP : OPTIONS_VERSION;
            return 0;
        }
        if (spec->set(o, optarg, error) < 0)
            return -1;
    }
    if (optind < argc)
        return fail(error, "\"%s\" is not an option; see --help", argv[optind]);
    return 0;
}

/* ---- what fits together ------------------------------------------------------------------ */

bool options_same_network(const struct net_stack_addr *a, const struct us_addr *b)
{
    unsigned bit;

    if (a->addr.family != b->family)
        return false;
    for (bit = 0; bit < a->prefix_len; bit++) {
        if ((a->addr.bytes[bit / 8] ^ b->bytes[bit / 8]) & (0x80u >> bit % 8))
            return false;
    }
    return true;
}

static int check_sock(const struct options *o, char *error)
{
    const char *wrong = o->tap_name        ? "--dev"
                        : o->ip_count > 0  ? "--ip"
                        : o->host_ip_given ? "--host-ip"
                        : o->gateway_given ? "--gw"
                        : o->mac_given     ? "--mac"
                        : o->trace_path    ? "--trace"
                        : o->fault_given   ? "--fault"
                                           : NULL;

    if (wrong)
        return fail(error, "%s is for the own TCP/IP stack; add --io=tap", wrong);
    return 0;
}

/* Whether an address is in a network of the server's. */
static bool is_neighbour(const struct options *o, const struct us_addr *addr)
{
    unsigned i;

    for (i = 0; i < o->ip_count; i++) {
        if (options_same_network(&o->ip[i], addr))
            return true;
    }
    return false;
}

static int check_gateway(const struct options *o, char *error)
{
    if (!o->gateway_given || is_neighbour(o, &o->gateway))
        return 0;
    return fail(error, "--gw: no --ip is in the network of the gateway");
}

static int check_host_ip(const struct options *o, char *error)
{
    const struct us_addr *host = &o->host_ip.addr;
    unsigned i;

    if (o->host_ip_none)
        return 0;
    for (i = 0; i < o->ip_count; i++) {
        if (memcmp(o->ip[i].addr.bytes, host->bytes, 4) == 0)
            return fail(error, "--ip and --host-ip are the same address");
    }
    if (is_neighbour(o, host))
        return 0;
    return fail(error,
                "no --ip is in the network of the host's side, %u.%u.%u.%u; give "
                "--host-ip=ADDR/PREFIX in the same network, or --host-ip=none",
                host->bytes[0], host->bytes[1], host->bytes[2], host->bytes[3]);
}

static int check_tap(struct options *o, char *error)
{
    if (o->settings.listen_addr)
        return fail(error, "-l is for kernel sockets; with --io=tap the address is given by --ip");
    if (o->settings.tcp_port == 0)
        return fail(error, "-p: with --io=tap the port must be from 1 to 65535");
    if (!o->tap_name)
        o->tap_name = "ucached0";
    if (o->ip_count == 0 && value_network("10.100.0.20/24", &o->ip[0]) == 0)
        o->ip_count = 1;
    if (!o->host_ip_given && value_network("10.100.0.10/24", &o->host_ip) < 0)
        return -1;
    return check_gateway(o, error) < 0 ? -1 : check_host_ip(o, error);
}

static int check_all(struct options *o, char *error)
{
    if (o->settings.item_bytes_max > o->settings.memory_bytes / 2) {
        return fail(error, "%s: the largest item may take at most half of the memory (-m)",
                    o->item_size_given ? "-I" : "-m");
    }
    if (o->io == OPTIONS_IO_AUTO)
        o->io = o->tap_name || o->ip_count > 0 ? OPTIONS_IO_TAP : OPTIONS_IO_SOCK;
    return o->io == OPTIONS_IO_TAP ? check_tap(o, error) : check_sock(o, error);
}

enum options_outcome options_parse(int argc, char **argv, struct options *options,
                                   char error[OPTIONS_ERROR_MAX])
{
    enum options_outcome outcome = OPTIONS_RUN;

    set_defaults(options);
    if (parse_all(argc, argv, options, &outcome, error) < 0)
        return OPTIONS_BAD;
    if (outcome == OPTIONS_RUN && check_all(options, error) < 0)
        return OPTIONS_BAD;
    return outcome;
}

/* ---- texts ------------------------------------------------------------------------------- */

#define HELP_COLUMN 30

void options_print_version(FILE *to)
{
    /* The first line is what clients' test suites look for. */
    fprintf(to, "memcached %s\n", UCACHED_COMPAT_VERSION);
    fprintf(to, "ucached %s, compatible with the memcached above\n", UCACHED_VERSION);
}

static void print_spec(FILE *to, const struct option_spec *spec)
{
    const char *line = spec->help;
    size_t len = strcspn(line, "\n");
    int column;

    if (spec->letter)
        column = fprintf(to, "  -%c, --%s", spec->letter, spec->name);
    else
        column = fprintf(to, "      --%s", spec->name);
    if (spec->arg)
        column += fprintf(to, "=%s", spec->arg);
    fprintf(to, "%*s%.*s\n", column < HELP_COLUMN ? HELP_COLUMN - column : 1, "", (int)len, line);
    for (line += len; *line == '\n'; line += len) {
        line++;
        len = strcspn(line, "\n");
        fprintf(to, "%*s%.*s\n", HELP_COLUMN, "", (int)len, line);
    }
}

void options_print_help(FILE *to)
{
    size_t i;

    options_print_version(to);
    fprintf(to, "\nusage: ucached [option]...\n\n");
    for (i = 0; i < SPEC_COUNT; i++)
        print_spec(to, &specs[i]);
    fprintf(to, "\nexamples:\n"
                "  ucached -m 1024 -t 2 -l 127.0.0.1\n"
                "      1 GiB over kernel sockets on two threads, for this machine only\n"
                "  ucached --io=tap\n"
                "      the own TCP/IP stack; then, from this machine:\n"
                "      printf 'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nquit\\r\\n' | "
                "nc 10.100.0.20 11211\n"
                "  ucached --ip=192.168.7.2/24 --host-ip=192.168.7.1/24 --trace=/tmp/ucached.pcap\n"
                "      the same with other addresses, recording all frames\n");
}
