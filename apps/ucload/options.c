/* SPDX-License-Identifier: BSD-3-Clause */
/* ucload's command line: one table, from which it is read and its help is printed. */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "run.h"

static const struct link_defaults link_defaults = {
    .dev = "ucload0", .ip = "10.100.0.30/24", .host_ip = "10.100.0.10/24"};

__attribute__((format(printf, 2, 3))) static int fail(struct options *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(o->error, sizeof(o->error), format, args);
    va_end(args);
    return -1;
}

/* ---- values ------------------------------------------------------------------------------ */

static int number(struct options *o, const char *name, const char *arg, uint64_t min, uint64_t max,
                  uint64_t *value)
{
    if (value_number(arg, min, max, value) == 0)
        return 0;
    return fail(o, "--%s: \"%s\" is not a number from %llu to %llu", name, arg,
                (unsigned long long)min, (unsigned long long)max);
}

static int small(struct options *o, const char *name, const char *arg, uint64_t max,
                 unsigned *value)
{
    uint64_t v;

    if (number(o, name, arg, 1, max, &v) < 0)
        return -1;
    *value = (unsigned)v;
    return 0;
}

static int seconds(struct options *o, const char *name, const char *arg, double min, double *value)
{
    if (value_ratio(arg, value) == 0 && *value >= min && *value <= 1e6)
        return 0;
    return fail(o, "--%s: \"%s\" is not a number of seconds", name, arg);
}

static int set_server(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->server = arg;
    return 0;
}

static int set_threads(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return small(o, "threads", arg, RUN_THREADS_MAX, &o->threads);
}

static int set_connections(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return small(o, "connections", arg, 1000000, &o->connections);
}

static int set_idle(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return small(o, "idle", arg, 1000000, &o->idle);
}

static int set_reconnect(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "reconnect", arg, 1, UINT64_MAX / 2, &o->reconnect);
}

static int set_server_cycles(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->server_cycles = true;
    return 0;
}

static int set_depth(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return small(o, "depth", arg, SESSION_DEPTH_MAX, &o->depth);
}

static int set_time(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->seconds_given = true;
    return seconds(o, "time", arg, 0.001, &o->seconds);
}

static int set_warmup(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return seconds(o, "warmup", arg, 0, &o->warmup_s);
}

static int set_timeout(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return seconds(o, "timeout", arg, 0.001, &o->timeout_s);
}

static int set_requests(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "requests", arg, 1, UINT64_MAX / 2, &o->requests);
}

static int set_protocol(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;
    static const char *const names[PROTOCOL_COUNT] = {"text", "meta", "binary"};
    unsigned i;

    for (i = 0; i < PROTOCOL_COUNT; i++) {
        if (strcmp(arg, names[i]) == 0) {
            o->protocol = (enum protocol)i;
            return 0;
        }
    }
    return fail(o, "--protocol: \"%s\" is not one of text, meta, binary", arg);
}

static int set_mix(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->mix = arg;
    return 0;
}

static int set_multi(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "multi", arg, 1, SESSION_MULTI_MAX, &o->multi);
}

static int set_keys(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "keys", arg, 1, UINT64_C(1) << 40, &o->keys);
}

static int set_key_size(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->key_size = arg;
    return 0;
}

static int set_value_size(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->value_size = arg;
    return 0;
}

static int set_popularity(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->popularity = arg;
    return 0;
}

/* Facebook's ETC pool, as Atikoglu et al. (2012) describe it. */
static int set_etc(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->key_size = "etc-key";
    o->value_size = "etc-value";
    o->mix = "get:30,set:1";
    o->popularity = "zipf:0.99";
    return 0;
}

static int set_replay(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->replay_path = arg;
    o->no_preload = true;
    return arg[0] != '\0' ? 0 : fail(o, "--replay: a file name is missing");
}

static int set_fill(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->fill = true;
    return 0;
}

static int set_exptime(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "exptime", arg, 0, UINT32_MAX / 2, &o->exptime_s);
}

static int set_seed(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    return number(o, "seed", arg, 0, UINT64_MAX, &o->seed);
}

static int set_no_preload(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->no_preload = true;
    return 0;
}

static int set_preload_only(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->preload_only = true;
    return 0;
}

static int set_verify(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->verify = true;
    return 0;
}

static int set_poll(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->poll = true;
    return 0;
}

static int set_rate(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    if (value_ratio(arg, &o->rate) == 0 && o->rate > 0 && o->rate <= 1e9)
        return 0;
    return fail(o, "--rate: \"%s\" is not a number of requests per second", arg);
}

static int set_arrivals(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->arrivals = LOAD_ARRIVALS_CONSTANT;
    if (strcmp(arg, "constant") == 0)
        return 0;
    o->arrivals = LOAD_ARRIVALS_POISSON;
    if (strcmp(arg, "poisson") == 0)
        return 0;
    return fail(o, "--arrivals: \"%s\" is not one of poisson, constant", arg);
}

static int set_slo(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->slo_given = true;
    if (slo_parse(&o->slo, arg) == 0)
        return 0;
    return fail(o,
                "--slo: \"%s\" is no goal; give one like 'p99<200us', 'p99.9<1ms', 'mean<1ms' or "
                "'max<10ms'",
                arg);
}

static int set_watch_cores(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;
    char why[CORES_ERROR_MAX];

    if (cores_parse(arg, &o->watch, why) == 0)
        return 0;
    return fail(o, "--watch-cores: %s", why);
}

static int set_json(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->json = true;
    return 0;
}

static int set_hdr(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->hdr_path = arg;
    return arg[0] != '\0' ? 0 : fail(o, "--hdr: a file name is missing");
}

static int set_progress(void *settings, const char *arg)
{
    struct options *o = (struct options *)settings;

    o->progress = true;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct command_option specs[] = {
    {'s', "server", "HOST[:PORT]", set_server,
     "what to load (default: 127.0.0.1:11211, or 10.100.0.20:11211\n"
     "over the own TCP/IP stack); connections are dealt to several\n"
     "in turn: A,B,C"},
    {'t', "threads", "N", set_threads, "threads (default: 1)"},
    {'c', "connections", "N", set_connections, "connections of all threads (default: 32)"},
    {0, "idle", "N", set_idle, "further connections that are open and silent"},
    {0, "reconnect", "N", set_reconnect,
     "close each connection after N requests, and open it again"},
    {'d', "depth", "N", set_depth, "requests in flight on each (default: 1)"},
    {'T', "time", "SECONDS", set_time, "how long to measure (default: 5)"},
    {'n', "requests", "N", set_requests, "how many requests to send instead, or at most"},
    {'w', "warmup", "SECONDS", set_warmup, "load that is not counted before (default: 0)"},
    {'P', "protocol", "NAME", set_protocol, "text (default), meta or binary"},
    {'m', "mix", "MIX", set_mix,
     "operations and their weights: get, set, delete, incr, touch\n(default: get)"},
    {'g', "multi", "N", set_multi, "keys per get (default: 1)"},
    {'k', "keys", "N", set_keys, "how many keys there are (default: 1000)"},
    {0, "key-size", "SIZE", set_key_size,
     "bytes of a key: 8, 16-64, 20@9/40@1 (with weights),\n"
     "gev:MU:SIGMA:K or etc-key (default: 8)"},
    {0, "value-size", "SIZE", set_value_size,
     "bytes of a value: likewise, gpareto:MU:SIGMA:K or etc-value\n(default: 8)"},
    {'p', "popularity", "LAW", set_popularity,
     "which keys: uniform (default), zipf:THETA, latest:THETA,\n"
     "hot:SHARE-OF-KEYS:SHARE-OF-REQUESTS"},
    {0, "etc", NULL, set_etc,
     "the ETC workload of Facebook: its sizes, get:30,set:1 and\n"
     "zipf:0.99; what stands behind it changes parts of it"},
    {0, "replay", "FILE", set_replay,
     "the requests of a trace instead (.csv or libCacheSim's\n"
     "oracleGeneral): once, or as long as --time says"},
    {0, "fill", NULL, set_fill, "store what a get of one key did not find"},
    {0, "exptime", "SECONDS", set_exptime, "of what is stored or touched (default: 0, for ever)"},
    {0, "no-preload", NULL, set_no_preload, "don't store the value of each key before"},
    {0, "preload-only", NULL, set_preload_only, "store the value of each key, and no more"},
    {'V', "verify", NULL, set_verify, "look at each byte of the values that come back"},
    {'r', "rate", "N", set_rate,
     "open loop: N requests per second, however fast they are\n"
     "answered; latencies count from when each was to be sent"},
    {0, "arrivals", "LAW", set_arrivals, "of the open loop: poisson (default) or constant"},
    {0, "slo", "GOAL", set_slo,
     "find the highest rate that keeps 'p99<200us' or 'mean<1ms',\n"
     "with --time for each that is tried"},
    {0, "timeout", "SECONDS", set_timeout, "give up after so long without a reply (default: 5)"},
    {0, "seed", "N", set_seed, "of all that is random (default: 1)"},
    {0, "poll", NULL, set_poll, "never sleep"},
    {0, "server-cycles", NULL, set_server_cycles,
     "ask a ucached on its own stack what its busy loops took:\ncycles per request"},
    {0, "watch-cores", "LIST", set_watch_cores,
     "where to look for hiccups, times in which a thread that wants\n"
     "to run cannot (default: the first 16 that this process may use)"},
    {0, "json", NULL, set_json, "the result as JSON"},
    {0, "hdr", "FILE", set_hdr, "write the latencies as a log of HdrHistogram"},
    {0, "progress", NULL, set_progress, "a line each second (without it: if it is a terminal)"},
    {'h', "help", NULL, NULL, "print this"},
    {0, "version", NULL, NULL, "print the version"},
};

#define SPECS U_ARRAY_LEN(specs)

void options_print_help(FILE *to)
{
    fprintf(to, "ucload: load for servers that speak memcached's protocols\n\n"
                "usage: ucload [options]\n\n");
    command_print_options(to, specs, SPECS);
    fprintf(to, "\nThe link (of the own TCP/IP stack; its default addresses are 10.100.0.30/24 "
                "and\n10.100.0.10/24):\n");
    command_print_link(to);
    fprintf(to, "\nExamples:\n"
                "  ucload                                      a GET at a time on 32 connections\n"
                "  ucload -d16 -m get:90,set:10 -V             pipelined, every reply verified\n"
                "  ucload -k1000000 -p zipf:0.99 --value-size=64-1024 -m get:9,set:1\n"
                "  ucload -r50000 --hdr=latency.hlog           open loop at 50000 requests/s\n"
                "  ucload --slo='p99<200us' -T2                the highest rate that keeps it\n"
                "  ucload --etc -k100000 -c64 -t2              Facebook's ETC workload\n"
                "  ucload --reconnect=1 -c64                   a connection for each request\n"
                "  ucload --idle=10000                         beside 10000 silent connections\n"
                "  ucload --io=tap -s 10.100.0.10              over the own TCP/IP stack\n\n"
                "Exit status: 0; 1 a reply was wrong or refused; 64 wrong options; 69 the server\n"
                "cannot be reached, has gone or does not answer, or the system refuses what is\n"
                "needed; 73 a file cannot be written.\n");
}

/* ---- parsing ----------------------------------------------------------------------------- */

static void set_defaults(struct options *o)
{
    memset(o, 0, sizeof(*o));
    o->threads = 1;
    o->connections = 32;
    o->depth = 1;
    o->seconds = 5;
    o->timeout_s = 5;
    o->mix = "get";
    o->multi = 1;
    o->keys = 1000;
    o->key_size = "8";
    o->value_size = "8";
    o->popularity = "uniform";
    o->seed = 1;
}

static int check(struct options *o, char **rest)
{
    if (*rest)
        return fail(o, "\"%s\" is not an option", *rest);
    if (link_settle(&o->link, &link_defaults, o->error) < 0)
        return -1;
    if (o->link.io == LINK_IO_URING)
        return fail(o, "--io=uring is not for ucload; use sock");
    if (link_is_stack(o->link.io) && o->threads > NIC_QUEUES_MAX)
        return fail(o, "--threads: the own TCP/IP stack has at most %d", NIC_QUEUES_MAX);
    if (o->server_cycles && o->protocol == PROTOCOL_BINARY)
        return fail(o, "--server-cycles asks in text: not with --protocol=binary");
    if (o->server_cycles && o->slo_given)
        return fail(o, "--server-cycles is of one measurement, --slo makes many");
    if (!o->server)
        o->server = link_is_stack(o->link.io) ? "10.100.0.20:11211" : "127.0.0.1:11211";
    if (o->connections < o->threads)
        return fail(o, "--connections: %u threads need as many", o->threads);
    if (o->slo_given && o->rate > 0)
        return fail(o, "--slo looks for the rate; leave --rate out");
    if (o->slo_given && o->requests > 0)
        return fail(o, "--slo measures for --time; leave --requests out");
    return 0;
}

enum command_outcome options_parse(int argc, char **argv, struct options *o)
{
    const struct command command = {specs, SPECS, o, &o->link, o->error};
    enum command_outcome outcome;
    char **rest;

    set_defaults(o);
    outcome = command_parse(&command, argc, argv, &rest);
    if (outcome == COMMAND_RUN && check(o, rest) < 0)
        return COMMAND_BAD;
    return outcome;
}
