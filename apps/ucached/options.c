/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the command line by its tables and checks the options against each other. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "options_table.h"

__attribute__((format(printf, 2, 3))) static int fail(struct options *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(o->error, sizeof(o->error), format, args);
    va_end(args);
    o->exit_status = EX_USAGE;
    return -1;
}

/* ---- options of kernel sockets and of the own stack -------------------------------------- */

static int check_stack(struct options *o)
{
    const char *io = link_backend_name(&o->link);

    if (o->settings.listen_addr)
        return fail(o, "-l is for kernel sockets; with --io=%s the address is given by --ip", io);
    if (o->settings.unix_path)
        return fail(o, "-s is for kernel sockets, not for --io=%s", io);
    if (o->tcp_port_any || o->udp_port_any)
        return fail(o, "%s: with --io=%s the port must be from 1 to 65535",
                    o->tcp_port_any ? "-p" : "-U", io);
    return 0;
}

/* --threading=split and merge run two threads per worker of the own stack. */
static int resolve_threading(struct options *o)
{
    char why[CORES_ERROR_MAX];

    if (o->threading == NET_THREADING_UNIFIED)
        return 0;
    if (!link_carries_frames(&o->link))
        return fail(o, "--threading is for the own TCP/IP stack; add --io=tap");
    if (o->threading == NET_THREADING_SPLIT && o->cores.count == 1)
        return fail(o, "--threading=split needs two cores per worker, and --cores names one; "
                       "--threading=merge runs both threads on one core");
    if (o->threading == NET_THREADING_SPLIT && o->cores.count % 2 == 1)
        return fail(o, "--threading=split needs two cores per worker, and --cores names an odd "
                       "number of cores");
    if (o->threading == NET_THREADING_MERGE && o->cores.count == 0 && cores_all(&o->cores, why) < 0)
        return fail(o, "--threading=merge: %s", why);
    return 0;
}

/* The default of -t on the own stack is one thread: a busy-polling thread occupies a core. */
static int resolve_threads(struct options *o)
{
    bool is_stack = link_carries_frames(&o->link);

    if (!o->threads_given && o->cores.count > 0)
        o->settings.threads =
            o->threading == NET_THREADING_SPLIT ? o->cores.count / 2 : o->cores.count;
    else if (!o->threads_given && is_stack)
        o->settings.threads = 1;
    if (is_stack && o->settings.threads > NIC_QUEUES_MAX)
        return fail(o, "-t: the own TCP/IP stack has at most %d threads", NIC_QUEUES_MAX);
    if (!is_stack && o->idle_given)
        return fail(o, "--idle is for the own TCP/IP stack; add --io=tap");
    if (!is_stack && (o->cc_given || o->ecn_given))
        return fail(o, "--cc and --ecn are for the own TCP/IP stack; add --io=tap");
    if (o->cc == OPTIONS_CC_DCTCP && o->ecn == OPTIONS_ECN_OFF)
        return fail(o, "--cc=dctcp needs marks; leave out --ecn=off");
    return 0;
}

static int check_link(struct options *o)
{
    static const struct link_defaults defaults = {
        .dev = "ucached0", .ip = "10.100.0.20/24", .host_ip = "10.100.0.10/24"};
    char why[LINK_ERROR_MAX];

    if (link_resolve(&o->link, &defaults, why) < 0)
        return fail(o, "%s", why);
    if (resolve_threads(o) < 0 || resolve_threading(o) < 0)
        return -1;
    return link_carries_frames(&o->link) ? check_stack(o) : 0;
}

/* ---- memcached's options ----------------------------------------------------------------- */

/* As in memcached: -U without -p sets both ports, and -s turns UDP off. */
static void resolve_ports(struct options *o)
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

/* The protocols that can authenticate: text with -Y, binary with -S, both with both. */
static int resolve_authentication(struct options *o)
{
    struct cache_settings *settings = &o->settings;

    if (!settings->auth_file && !settings->sasl)
        return 0;
    if (settings->udp_port > 0 || o->udp_port_any)
        return fail(o, "%s: UDP cannot be used with authentication; -U 0",
                    settings->sasl ? "-S" : "-Y");
    if (!settings->sasl && settings->binding == CACHE_BINDING_BINARY)
        return fail(o, "-Y: the binary protocol has no such authentication; see -S");
    if (settings->sasl && o->binding_given && settings->binding != CACHE_BINDING_BINARY)
        return fail(o, "-S: You cannot allow the ASCII protocol while using SASL");
    if (settings->sasl && !settings->auth_file) {
        settings->sasl_file = getenv("MEMCACHED_SASL_PWDB");
        if (!settings->sasl_file)
            return fail(o, "-S: there are no users; name their file by -Y FILE or in "
                           "MEMCACHED_SASL_PWDB");
        settings->binding = CACHE_BINDING_BINARY;
    } else if (!settings->sasl) {
        settings->binding = CACHE_BINDING_ASCII;
    }
    return 0;
}

static int check_settings(struct options *o)
{
    const struct cache_settings_compat *compat = &o->settings.compat;

    if (resolve_authentication(o) < 0)
        return -1;
    if (o->settings.tls.enabled && o->settings.tcp_port == 0 && !o->tcp_port_any)
        return fail(o, "-Z: You cannot enable SSL without a TCP port");
    if (compat->hot_lru_pct + compat->warm_lru_pct > 80)
        return fail(o, "-o hot_lru_pct and warm_lru_pct are more than 80 together");
    if (compat->temp_lru && !compat->lru_maintainer)
        return fail(o, "-o temporary_ttl needs lru_maintainer");
    if (o->settings.item_bytes_max > o->settings.memory_bytes / 2)
        return fail(o, "%s: the largest item may take at most half of the memory (-m)",
                    o->item_size_given ? "-I" : "-m");
    return 0;
}

/* ---- parsing ----------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

enum cmdline_outcome options_parse(int argc, char **argv, struct options *o)
{
    struct cmdline cmdline = {
        .tables = {options_memcached(o), options_own(o), link_table(&o->link)},
        .syntax_status = OPTIONS_EXIT_RANGE,
        .error = o->error,
    };
    enum cmdline_outcome outcome;
    char **rest;

    memset(o, 0, sizeof(*o));
    cache_settings_defaults(&o->settings);
    o->udp_reply_bytes = OPTIONS_UDP_REPLY_BYTES;
    o->udp_bytes_per_s = OPTIONS_UDP_BYTES_PER_S;
    o->settings.debug = ends_in(argv[0], "-debug");
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_BAD && o->exit_status == 0)
        o->exit_status = cmdline.status;
    if (outcome != CMDLINE_RUN)
        return outcome;
    o->surplus = rest[0];
    resolve_ports(o);
    return check_settings(o) < 0 || check_link(o) < 0 ? CMDLINE_BAD : CMDLINE_RUN;
}
