/* SPDX-License-Identifier: BSD-3-Clause */
/* ucload's command line: the table of its options, and the checks between them. */
#include "options.h"

#include <string.h>

#include "base/base.h"
#include "common/backend.h"
#include "run.h"

static const struct link_defaults link_defaults = {
    .dev = "ucload0", .ip = "10.100.0.30/24", .host_ip = "10.100.0.10/24"};

/* The ETC pool of Facebook as Atikoglu et al. (2012) describe it. */
static int set_etc(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    o->key_size = "etc-key";
    o->value_size = "etc-value";
    o->mix = "get:30,set:1";
    o->popularity = "zipf:0.99";
    return 0;
}

static int set_slo(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    if (slo_parse(&o->slo, arg) == 0)
        return 0;
    return cmdline_fail(error,
                        "\"%s\" is no goal; give one like 'p99<200us', 'p99.9<1ms', 'mean<1ms' or "
                        "'max<10ms'",
                        arg);
}

static int set_watch_cores(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    return cores_parse(arg, &o->watch, error);
}

static const char *protocol_choice(unsigned index, const char **help)
{
    static const char *const words[PROTOCOL_COUNT] = {"text", "meta", "binary"};

    *help = NULL;
    return index < PROTOCOL_COUNT ? words[index] : NULL;
}

static const char *arrivals_choice(unsigned index, const char **help)
{
    static const char *const words[] = {
        [LOAD_ARRIVALS_POISSON] = "poisson", [LOAD_ARRIVALS_CONSTANT] = "constant"};

    *help = NULL;
    return index < U_ARRAY_LEN(words) ? words[index] : NULL;
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, field)
#define COUNT_MAX (UINT64_MAX / 2)

static const struct cmdline_option rows[] = {
    {'s', "server", "HOST[:PORT]", NULL,
     "server to load (default: 127.0.0.1:11211, or 10.100.0.20:11211\n"
     "with the own TCP/IP stack); of several, A,B,C, each key belongs\n"
     "to one by ketama; /PATH is a unix socket",
     CMDLINE_TEXT, AT(server)},
    {'t', "threads", "N", NULL, "threads (default: 1)", CMDLINE_U32, AT(threads), 1,
     RUN_THREADS_MAX},
    {'c', "connections", "N", NULL, "connections of all threads (default: 32)", CMDLINE_U32,
     AT(connections), 1, 1000000},
    {0, "idle", "N", NULL, "additional connections that stay idle", CMDLINE_U32, AT(idle), 1,
     1000000},
    {0, "reconnect", "N", NULL, "close and reopen each connection after N requests", CMDLINE_U64,
     AT(reconnect), 1, COUNT_MAX},
    {'d', "depth", "N", NULL, "requests in flight per connection (default: 1)", CMDLINE_U32,
     AT(depth), 1, PIPELINE_DEPTH_MAX},
    {'T', "time", "SECONDS", NULL, "duration of the measurement (default: 5)", CMDLINE_RATIO,
     AT(seconds), 0, 1000000, 1, .given = AT(seconds_given)},
    {'n', "requests", "N", NULL, "number of requests, instead of or in addition to --time",
     CMDLINE_U64, AT(requests), 1, COUNT_MAX},
    {'w', "warmup", "SECONDS", NULL, "load before the measurement, not counted (default: 0)",
     CMDLINE_RATIO, AT(warmup_s), 0, 1000000},
    {'P', "protocol", "NAME", NULL, "text (default), meta or binary", CMDLINE_CHOICE, AT(protocol),
     .choice = protocol_choice},
    {'m', "mix", "MIX", NULL,
     "operations and their weights, for instance get=9,set=1: get, set,\n"
     "delete, incr, decr, touch, append, prepend, gat, cas (a gets, and\n"
     "a cas if it hits); one in 8 append and prepend is sent as a set,\n"
     "which keeps values short (default: get)",
     CMDLINE_TEXT, AT(mix)},
    {'g', "multi", "N", NULL, "keys per get (default: 1)", CMDLINE_U32, AT(multi), 1,
     PIPELINE_MULTI_MAX},
    {'k', "keys", "N", NULL, "number of keys (default: 1000)", CMDLINE_U64, AT(keys), 1,
     UINT64_C(1) << 40},
    {0, "key-size", "SIZE", NULL,
     "bytes of a key: 8, 16-64, 20@9/40@1 (with weights),\n"
     "gev:MU:SIGMA:K or etc-key (default: 8)",
     CMDLINE_TEXT, AT(key_size)},
    {0, "value-size", "SIZE", NULL,
     "bytes of a value: likewise, gpareto:MU:SIGMA:K or etc-value\n"
     "(default: 8)",
     CMDLINE_TEXT, AT(value_size)},
    {'p', "popularity", "LAW", NULL,
     "distribution of requests over keys: uniform (default),\n"
     "zipf:THETA, latest:THETA, hot:SHARE-OF-KEYS:SHARE-OF-REQUESTS",
     CMDLINE_TEXT, AT(popularity)},
    {0, "etc", NULL, set_etc,
     "the ETC workload of Facebook: its sizes, get:30,set:1 and\n"
     "zipf:0.99; later options override parts of it"},
    {0, "replay", "FILE", NULL,
     "send the requests of a trace (.csv or libCacheSim's\n"
     "oracleGeneral): once, or repeatedly with --time",
     CMDLINE_TEXT, AT(replay_path), .given = AT(no_preload)},
    {0, "fill", NULL, NULL, "store the value after a get of one key misses", CMDLINE_ON, AT(fill)},
    {0, "udp", NULL, NULL,
     "load over UDP: a socket for each connection, a request in each\n"
     "datagram; without a reply in a 20th of --timeout (0.25 s) it\n"
     "counts as unanswered",
     CMDLINE_ON, AT(udp)},
    {0, "tls", NULL, NULL, "TLS", CMDLINE_ON, AT(tls)},
    {0, "ca", "FILE", NULL,
     "with --tls: certificates (PEM) that sign the server's\n(default: it is not checked)",
     CMDLINE_TEXT, AT(ca), .given = AT(tls)},
    {0, "cert", "FILE", NULL, "with --tls: certificate of this client (PEM)", CMDLINE_TEXT,
     AT(cert), .given = AT(tls)},
    {0, "key", "FILE", NULL, "its private key (default: in the file of --cert)", CMDLINE_TEXT,
     AT(key), .given = AT(tls)},
    {0, "tls-resume", NULL, NULL, "with --reconnect: resume sessions of TLS", CMDLINE_ON,
     AT(tls_resume), .given = AT(tls)},
    {0, "auth", "FILE", NULL,
     "log in as USER:PASSWORD, the first line of the file: by ASCII\n"
     "authentication (-Y of the server), with --protocol=binary by\n"
     "SASL PLAIN (-S)",
     CMDLINE_TEXT, AT(auth)},
    {0, "exptime", "SECONDS", NULL, "expiry time of set and touch (default: 0, never)", CMDLINE_U32,
     AT(exptime_s), 0, UINT32_MAX / 2},
    {0, "no-preload", NULL, NULL, "do not store all keys before the measurement", CMDLINE_ON,
     AT(no_preload)},
    {0, "preload-only", NULL, NULL, "store all keys and end", CMDLINE_ON, AT(preload_only)},
    {'V', "verify", NULL, NULL, "compare every byte of received values", CMDLINE_ON, AT(verify)},
    {'r', "rate", "N", NULL,
     "open loop: N requests per second, independent of the replies;\n"
     "latency counts from the scheduled send time",
     CMDLINE_RATIO, AT(rate), 0, 1000000000, 1},
    {0, "arrivals", "LAW", NULL, "arrivals of the open loop: poisson (default) or constant",
     CMDLINE_CHOICE, AT(arrivals), .choice = arrivals_choice},
    {0, "slo", "GOAL", set_slo,
     "find the highest rate that meets 'p99<200us' or 'mean<1ms';\n"
     "each rate is measured for --time",
     .given = AT(slo_given)},
    {0, "scan", "FILE", NULL,
     "measure 14 rates up to beyond the highest, for --time each,\n"
     "and draw throughput and latency in FILE (SVG)",
     CMDLINE_TEXT, AT(scan_path)},
    {0, "agents", "LIST", NULL,
     "let agents, HOST:PORT,..., load together: each has --threads,\n"
     "and its share of connections, rate, requests and keys to store",
     CMDLINE_TEXT, AT(agents)},
    {0, "agent", "HOST:PORT", NULL,
     "run as an agent: any host that can connect to this port\n"
     "controls its load, so listen only in a trusted network",
     CMDLINE_TEXT, AT(agent)},
    {0, "timeout", "SECONDS", NULL, "give up after this time without a reply (default: 5)",
     CMDLINE_RATIO, AT(timeout_s), 0, 1000000, 1},
    {0, "seed", "N", NULL, "seed of all random numbers (default: 1)", CMDLINE_U64, AT(seed), 0,
     UINT64_MAX},
    {0, "poll", NULL, NULL, "busy-poll, never sleep", CMDLINE_ON, AT(poll)},
    {0, "server-cycles", NULL, NULL,
     "read the CPU cycles per request of a ucached server with the\n"
     "own TCP/IP stack from `stats ustack`",
     CMDLINE_ON, AT(server_cycles)},
    {0, "watch-cores", "LIST", set_watch_cores,
     "cores to watch for hiccups, periods in which a runnable\n"
     "thread does not run (default: the first 16 allowed cores)"},
    {0, "json", NULL, NULL, "print the result, and each second of it, as JSON", CMDLINE_ON,
     AT(json)},
    {0, "hdr", "FILE", NULL,
     "write the latencies as an HdrHistogram log, an interval for\neach second", CMDLINE_TEXT,
     AT(hdr_path)},
    {0, "progress", NULL, NULL,
     "print a line with rate, p50 and p99 per second (default: if\nstderr is a terminal)",
     CMDLINE_ON, AT(progress)},
    {'h', "help", NULL, NULL, "print this text", CMDLINE_END, .min = CMDLINE_HELP},
    {0, "version", NULL, NULL, "print the version", CMDLINE_END, .min = CMDLINE_VERSION},
};

void options_print_help(FILE *to)
{
    struct link_options link;
    struct cmdline_table table = link_table(&link);

    fprintf(to, "ucload: load generator for memcached's protocols\n\n"
                "usage: ucload [options]\n\n");
    cmdline_print_options(to, rows, U_ARRAY_LEN(rows));
    fprintf(to, "\nThe link (default addresses of the own TCP/IP stack: 10.100.0.30/24, host "
                "10.100.0.10/24):\n");
    cmdline_print_options(to, table.options, table.count);
    fprintf(to,
            "\nExamples:\n"
            "  ucload                                      one GET at a time, 32 connections\n"
            "  ucload -d16 -m get:90,set:10 -V             pipelined, every reply verified\n"
            "  ucload -k1000000 -p zipf:0.99 --value-size=64-1024 -m get:9,set:1\n"
            "  ucload -r50000 --hdr=latency.hlog           open loop at 50000 requests/s\n"
            "  ucload --slo='p99<200us' -T2                the highest rate that meets it\n"
            "  ucload --scan=curve.svg -T2                 latency by throughput, drawn\n"
            "  ucload --etc -k100000 -c64 -t2              Facebook's ETC workload\n"
            "  ucload --reconnect=1 -c64                   one connection per request\n"
            "  ucload --idle=10000                         beside 10000 idle connections\n"
            "  ucload --udp -c64                           over UDP (-U of the server)\n"
            "  ucload --io=tap -s 10.100.0.10              own TCP/IP stack\n"
            "  ucload --agent 10.0.0.2:11300               an agent, and its coordinator:\n"
            "  ucload --agents 10.0.0.2:11300,10.0.0.3:11300 -s 10.0.0.1 -c64\n\n"
            "Exit status: 0 success; 1 a reply was wrong or an error, the server closed a "
            "connection or\ndid not answer during the load, or the load has ended within the "
            "warm-up; 64 wrong options;\n69 the server cannot be reached, or a system call failed "
            "before the load; 73 a file cannot be\nwritten; 75 the rate of --rate was not "
            "reached.\n");
}

/* ---- agents ------------------------------------------------------------------------------ */

static int check_agents(struct options *o)
{
    if (o->agent && o->argc > 3)
        return cmdline_fail(o->error, "--agent: the coordinator gives the other options");
    if (!o->agents)
        return 0;
    if (link_carries_frames(&o->link))
        return cmdline_fail(o->error, "--agents: agents load over kernel sockets (--io=sock)");
    if (o->replay_path || o->server_cycles)
        return cmdline_fail(o->error, "--agents: leave --replay and --server-cycles out");
    return 0;
}

/* ---- UDP --------------------------------------------------------------------------------- */

static int check_udp(struct options *o)
{
    if (!o->udp)
        return 0;
    if (link_carries_frames(&o->link))
        return cmdline_fail(o->error, "--udp is for kernel sockets (--io=sock)");
    if (o->tls || o->auth || o->idle > 0 || o->reconnect > 0)
        return cmdline_fail(o->error, "--udp: leave --tls, --auth, --idle and --reconnect out");
    if (o->depth > 1)
        return cmdline_fail(o->error, "--udp has one request in flight on each socket: leave "
                                      "--depth out, use more --connections");
    return 0;
}

/* ---- parsing ----------------------------------------------------------------------------- */

static int check(struct options *o, char **rest)
{
    if (*rest)
        return cmdline_fail(o->error, "\"%s\" is not an option", *rest);
    if (link_resolve(&o->link, &link_defaults, o->error) < 0)
        return -1;
    if (o->link.backend->io_uring)
        return cmdline_fail(o->error, "--io=uring is not for ucload; use sock");
    if (link_carries_frames(&o->link) && o->threads > NIC_QUEUES_MAX)
        return cmdline_fail(o->error, "--threads: the own TCP/IP stack has at most %d",
                            NIC_QUEUES_MAX);
    if (check_agents(o) < 0 || check_udp(o) < 0)
        return -1;
    if (o->tls && o->idle > 0)
        return cmdline_fail(o->error, "--idle: idle connections have no TLS");
    if (o->server_cycles && o->protocol == PROTOCOL_BINARY)
        return cmdline_fail(o->error, "--server-cycles needs a text protocol, not "
                                      "--protocol=binary");
    if (o->server_cycles && o->slo_given)
        return cmdline_fail(o->error, "--server-cycles is for one measurement, --slo makes many");
    if (!o->server)
        o->server = link_carries_frames(&o->link) ? "10.100.0.20:11211" : "127.0.0.1:11211";
    if (o->connections < o->threads)
        return cmdline_fail(o->error, "--connections: %u threads need at least as many",
                            o->threads);
    if (o->requests > 0 && o->requests < o->threads)
        return cmdline_fail(o->error, "--requests: %u threads need at least as many", o->threads);
    if (o->slo_given && o->rate > 0)
        return cmdline_fail(o->error, "--slo searches for the rate; leave --rate out");
    if (o->scan_path && (o->slo_given || o->rate > 0 || o->requests > 0 || o->server_cycles))
        return cmdline_fail(o->error, "--scan chooses rates and measures for --time; leave --slo, "
                                      "--rate, --requests and --server-cycles out");
    if (o->slo_given && o->requests > 0)
        return cmdline_fail(o->error, "--slo measures for --time; leave --requests out");
    return 0;
}

enum cmdline_outcome options_parse(int argc, char **argv, struct options *o)
{
    struct cmdline cmdline = {.tables = {{rows, U_ARRAY_LEN(rows), o}, link_table(&o->link)},
                              .error = o->error};
    enum cmdline_outcome outcome;
    char **rest;

    *o = (struct options){.threads = 1,
                          .connections = 32,
                          .depth = 1,
                          .seconds = 5,
                          .timeout_s = 5,
                          .mix = "get",
                          .multi = 1,
                          .keys = 1000,
                          .key_size = "8",
                          .value_size = "8",
                          .popularity = "uniform",
                          .seed = 1,
                          .argc = argc,
                          .argv = argv};
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    if (outcome == CMDLINE_RUN && check(o, rest) < 0)
        return CMDLINE_BAD;
    return outcome;
}
