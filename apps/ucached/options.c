/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the command line, which the tables describe, and checks what fits together.
 */
#define _GNU_SOURCE /* getopt_long() */
#include <getopt.h>
#include <stdarg.h>
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "options_spec.h"

#define SPECS_MAX 64 /* of all tables together */

bool options_spec(size_t index, struct option_spec *spec)
{
    struct option_table table = options_memcached();

    if (index >= table.count)
        return options_own(index - table.count, spec);
    *spec = table.specs[index];
    return true;
}

int options_fail(struct options *o, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(o->error, sizeof(o->error), format, args);
    va_end(args);
    o->exit_status = status;
    return -1;
}

int options_number(struct options *o, const char *name, const char *arg, uint64_t min, uint64_t max,
                   uint64_t *value)
{
    if (value_number(arg, min, max, value) == 0)
        return 0;
    return options_fail(o, OPTIONS_EXIT_RANGE, "%s: \"%s\" is not a number from %llu to %llu", name,
                        arg, (unsigned long long)min, (unsigned long long)max);
}

/* ---- parsing ----------------------------------------------------------------------------- */

/* What getopt_long() is to look for; a long option's value is its number plus LONG_BASE. */
struct wanted {
    struct option longs[SPECS_MAX + 1];
    char letters[2 * SPECS_MAX + 2];
    size_t count;
};

#define LONG_BASE 256

static void wanted_make(struct wanted *wanted)
{
    struct option_spec spec;
    char *letter = wanted->letters;
    struct option *next = wanted->longs;

    memset(wanted, 0, sizeof(*wanted));
    *letter++ = ':'; /* a missing argument is told apart from an unknown option */
    while (options_spec(wanted->count, &spec)) {
        U_ASSERT(wanted->count < SPECS_MAX);
        if (spec.name) {
            next->name = spec.name;
            next->has_arg = spec.arg ? required_argument : no_argument;
            next->val = LONG_BASE + (int)wanted->count;
            next++;
        }
        if (spec.letter)
            *letter++ = spec.letter;
        if (spec.letter && spec.arg)
            *letter++ = ':';
        wanted->count++;
    }
}

static bool find_spec(int value, struct option_spec *spec)
{
    size_t i;

    if (value >= LONG_BASE)
        return options_spec((size_t)(value - LONG_BASE), spec);
    for (i = 0; options_spec(i, spec); i++) {
        if (spec->letter == value)
            return true;
    }
    return false;
}

/* getopt returned '?': `letter` is set for a short option, else `arg` is the word as given. */
static int fail_unknown(struct options *o, int letter, const char *arg)
{
    struct option_spec spec;

    if (letter >= LONG_BASE && find_spec(letter, &spec))
        return options_fail(o, OPTIONS_EXIT_RANGE, "--%s takes no argument", spec.name);
    if (letter != 0)
        return options_fail(o, OPTIONS_EXIT_RANGE, "-%c: there is no such option; see --help",
                            letter);
    return options_fail(o, OPTIONS_EXIT_RANGE, "%s: there is no such option; see --help", arg);
}

static int apply(struct options *o, const struct option_spec *spec, const char *arg)
{
    char why[LINK_ERROR_MAX];

    if (spec->set)
        return spec->set(o, arg);
    if (spec->arg && link_set(&o->link, spec->name, arg, why) < 0)
        return options_fail(o, EX_USAGE, "%s", why);
    if (!spec->arg)
        *(bool *)((char *)o + spec->flag) = true;
    return 0;
}

/* Whether an option asks for a text instead of a server. */
static bool asks_for_text(const struct option_spec *spec, enum options_outcome *outcome)
{
    if (spec->letter == 'h')
        *outcome = OPTIONS_HELP;
    else if (spec->letter == 'i')
        *outcome = OPTIONS_LICENSE;
    else if (spec->letter == 'V')
        *outcome = OPTIONS_VERSION;
    else
        return false;
    return true;
}

static int parse_all(int argc, char **argv, struct options *o, enum options_outcome *outcome)
{
    struct option_spec spec;
    bool found;
    struct wanted wanted;
    int value;

    wanted_make(&wanted);
    opterr = 0;
    optind = 0; /* glibc: start anew, also after an earlier use */
    while ((value = getopt_long(argc, argv, wanted.letters, wanted.longs, NULL)) != -1) {
        if (value == '?')
            return fail_unknown(o, optopt, argv[optind - 1]);
        if (value == ':')
            return options_fail(o, OPTIONS_EXIT_RANGE, "%s needs an argument; see --help",
                                argv[optind - 1]);
        found = find_spec(value, &spec);
        U_ASSERT(found);
        if (asks_for_text(&spec, outcome))
            return 0;
        if (apply(o, &spec, optarg) < 0)
            return -1;
    }
    o->surplus = argv[optind];
    return 0;
}

/* ---- what fits together ------------------------------------------------------------------ */

static int check_stack(struct options *o)
{
    const char *io = link_io_name(o->link.io);

    if (o->settings.listen_addr)
        return options_fail(
            o, EX_USAGE, "-l is for kernel sockets; with --io=%s the address is given by --ip", io);
    if (o->settings.unix_path)
        return options_fail(o, EX_USAGE, "-s is for kernel sockets, not for --io=%s", io);
    if (o->tcp_port_any || o->udp_port_any)
        return options_fail(o, EX_USAGE, "%s: with --io=%s the port must be from 1 to 65535",
                            o->tcp_port_any ? "-p" : "-U", io);
    return 0;
}

/* Two threads for a worker are for a stack that is ours, and want the cores that they are for. */
static int settle_threading(struct options *o)
{
    char why[CORES_ERROR_MAX];

    if (o->threading == NET_THREADING_UNIFIED)
        return 0;
    if (!link_is_stack(o->link.io))
        return options_fail(o, EX_USAGE,
                            "--threading is for the own TCP/IP stack; with kernel sockets the "
                            "kernel has it: add --io=tap");
    if (o->threading == NET_THREADING_SPLIT && o->cores.count == 1)
        return options_fail(o, EX_USAGE,
                            "--threading=split needs two cores for a worker, and --cores names "
                            "one; --threading=merge is for that");
    if (o->threading == NET_THREADING_SPLIT && o->cores.count % 2 == 1)
        return options_fail(o, EX_USAGE,
                            "--threading=split needs two cores for each worker, and --cores names "
                            "an odd number of them");
    if (o->threading == NET_THREADING_MERGE && o->cores.count == 0 && cores_all(&o->cores, why) < 0)
        return options_fail(o, EX_USAGE, "--threading=merge: %s", why);
    return 0;
}

/* A polling thread costs a core, so the own stack has one until more are asked for. */
static int settle_threads(struct options *o)
{
    bool is_stack = link_is_stack(o->link.io);

    if (!o->threads_given && o->cores.count > 0)
        o->settings.threads =
            o->threading == NET_THREADING_SPLIT ? o->cores.count / 2 : o->cores.count;
    else if (!o->threads_given && is_stack)
        o->settings.threads = 1;
    if (is_stack && o->settings.threads > NIC_QUEUES_MAX)
        return options_fail(o, EX_USAGE, "-t: the own TCP/IP stack has at most %d threads",
                            NIC_QUEUES_MAX);
    if (!is_stack && o->idle_given)
        return options_fail(o, EX_USAGE, "--idle is for the own TCP/IP stack; add --io=tap");
    return 0;
}

static int check_link(struct options *o)
{
    static const struct link_defaults defaults = {
        .dev = "ucached0", .ip = "10.100.0.20/24", .host_ip = "10.100.0.10/24"};
    char why[LINK_ERROR_MAX];

    if (link_settle(&o->link, &defaults, why) < 0)
        return options_fail(o, EX_USAGE, "%s", why);
    if (settle_threads(o) < 0 || settle_threading(o) < 0)
        return -1;
    return link_is_stack(o->link.io) ? check_stack(o) : 0;
}

/* -U alone stands for both; a unix socket stands for itself. */
static void settle_ports(struct options *o)
{
    bool udp = o->settings.udp_port > 0 || o->udp_port_any;

    if (udp && !o->tcp_port_given) {
        o->settings.tcp_port = o->settings.udp_port;
        o->tcp_port_any = o->udp_port_any;
    }
    if (o->settings.unix_path) {
        o->settings.udp_port = 0;
        o->udp_port_any = false;
    }
}

/* Authentication is a matter of the text protocol over connections. */
static int check_auth(struct options *o)
{
    if (!o->settings.auth_file)
        return 0;
    if (o->settings.udp_port > 0 || o->udp_port_any)
        return options_fail(o, EX_USAGE, "-Y: UDP cannot be used with authentication; -U 0");
    if (o->settings.binding == CACHE_BINDING_BINARY)
        return options_fail(o, EX_USAGE, "-Y: the binary protocol has no such authentication");
    o->settings.binding = CACHE_BINDING_ASCII;
    return 0;
}

/* What memcached would not start with, although it makes no difference here. */
static int check_shown(struct options *o)
{
    const struct cache_settings_shown *shown = &o->settings.shown;

    if (shown->hot_lru_pct + shown->warm_lru_pct > 80)
        return options_fail(o, EX_USAGE,
                            "-o hot_lru_pct and warm_lru_pct are more than 80 together");
    if (shown->temp_lru && !shown->lru_maintainer)
        return options_fail(o, EX_USAGE, "-o temporary_ttl needs lru_maintainer");
    return 0;
}

static int check_all(struct options *o)
{
    settle_ports(o);
    if (check_auth(o) < 0 || check_shown(o) < 0)
        return -1;
    if (o->settings.item_bytes_max > o->settings.memory_bytes / 2) {
        return options_fail(o, EX_USAGE,
                            "%s: the largest item may take at most half of the memory (-m)",
                            o->item_size_given ? "-I" : "-m");
    }
    return check_link(o);
}

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

enum options_outcome options_parse(int argc, char **argv, struct options *options)
{
    enum options_outcome outcome = OPTIONS_RUN;

    memset(options, 0, sizeof(*options));
    cache_settings_defaults(&options->settings);
    options->settings.debug = ends_in(argv[0], "-debug");
    if (parse_all(argc, argv, options, &outcome) < 0)
        return OPTIONS_BAD;
    if (outcome == OPTIONS_RUN && check_all(options) < 0)
        return OPTIONS_BAD;
    return outcome;
}
