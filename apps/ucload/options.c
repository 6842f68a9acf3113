/* SPDX-License-Identifier: BSD-3-Clause */
/* ucload's command line: one table, from which it is read and its help is printed. */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common/value.h"
#include "run.h"

#define LINK_OPTIONS_MAX 16

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

static int set_server(struct options *o, const char *arg)
{
    o->server = arg;
    return 0;
}

static int set_threads(struct options *o, const char *arg)
{
    return small(o, "threads", arg, RUN_THREADS_MAX, &o->threads);
}

static int set_connections(struct options *o, const char *arg)
{
    return small(o, "connections", arg, 1000000, &o->connections);
}

static int set_depth(struct options *o, const char *arg)
{
    return small(o, "depth", arg, SESSION_DEPTH_MAX, &o->depth);
}

static int set_time(struct options *o, const char *arg)
{
    o->seconds_given = true;
    return seconds(o, "time", arg, 0.001, &o->seconds);
}

static int set_warmup(struct options *o, const char *arg)
{
    return seconds(o, "warmup", arg, 0, &o->warmup_s);
}

static int set_timeout(struct options *o, const char *arg)
{
    return seconds(o, "timeout", arg, 0.001, &o->timeout_s);
}

static int set_requests(struct options *o, const char *arg)
{
    return number(o, "requests", arg, 1, UINT64_MAX / 2, &o->requests);
}

static int set_protocol(struct options *o, const char *arg)
{
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

static int set_mix(struct options *o, const char *arg)
{
    o->mix = arg;
    return 0;
}

static int set_multi(struct options *o, const char *arg)
{
    return number(o, "multi", arg, 1, SESSION_MULTI_MAX, &o->multi);
}

static int set_keys(struct options *o, const char *arg)
{
    return number(o, "keys", arg, 1, UINT64_C(1) << 40, &o->keys);
}

static int set_key_size(struct options *o, const char *arg)
{
    o->key_size = arg;
    return 0;
}

static int set_value_size(struct options *o, const char *arg)
{
    o->value_size = arg;
    return 0;
}

static int set_popularity(struct options *o, const char *arg)
{
    o->popularity = arg;
    return 0;
}

/* Facebook's ETC pool, as Atikoglu et al. (2012) describe it. */
static int set_etc(struct options *o, const char *arg)
{
    (void)arg;
    o->key_size = "etc-key";
    o->value_size = "etc-value";
    o->mix = "get:30,set:1";
    o->popularity = "zipf:0.99";
    return 0;
}

static int set_replay(struct options *o, const char *arg)
{
    o->replay_path = arg;
    o->no_preload = true;
    return arg[0] != '\0' ? 0 : fail(o, "--replay: a file name is missing");
}

static int set_fill(struct options *o, const char *arg)
{
    (void)arg;
    o->fill = true;
    return 0;
}

static int set_exptime(struct options *o, const char *arg)
{
    return number(o, "exptime", arg, 0, UINT32_MAX / 2, &o->exptime_s);
}

static int set_seed(struct options *o, const char *arg)
{
    return number(o, "seed", arg, 0, UINT64_MAX, &o->seed);
}

static int set_no_preload(struct options *o, const char *arg)
{
    (void)arg;
    o->no_preload = true;
    return 0;
}

static int set_preload_only(struct options *o, const char *arg)
{
    (void)arg;
    o->preload_only = true;
    return 0;
}

static int set_verify(struct options *o, const char *arg)
{
    (void)arg;
    o->verify = true;
    return 0;
}

static int set_poll(struct options *o, const char *arg)
{
    (void)arg;
    o->poll = true;
    return 0;
}

static int set_rate(struct options *o, const char *arg)
{
    if (value_ratio(arg, &o->rate) == 0 && o->rate > 0 && o->rate <= 1e9)
        return 0;
    return fail(o, "--rate: \"%s\" is not a number of requests per second", arg);
}

static int set_arrivals(struct options *o, const char *arg)
{
    o->arrivals = LOAD_ARRIVALS_CONSTANT;
    if (strcmp(arg, "constant") == 0)
        return 0;
    o->arrivals = LOAD_ARRIVALS_POISSON;
    if (strcmp(arg, "poisson") == 0)
        return 0;
    return fail(o, "--arrivals: \"%s\" is not one of poisson, constant", arg);
}

static int set_slo(struct options *o, const char *arg)
{
    o->slo_given = true;
    if (slo_parse(&o->slo, arg) == 0)
        return 0;
    return fail(o,
                "--slo: \"%s\" is no goal; give one like 'p99<200us', 'p99.9<1ms', 'mean<1ms' or "
                "'max<10ms'",
                arg);
}

static int set_json(struct options *o, const char *arg)
{
    (void)arg;
    o->json = true;
    return 0;
}

static int set_hdr(struct options *o, const char *arg)
{
    o->hdr_path = arg;
    return arg[0] != '\0' ? 0 : fail(o, "--hdr: a file name is missing");
}

static int set_progress(struct options *o, const char *arg)
{
    (void)arg;
    o->progress = true;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

struct spec {
    char letter; /* 0: a long name only */
    const char *name;
    const char *arg; /* what it is called in the help; null: takes none */
    int (*set)(struct options *o, const char *arg); /* null: help, version */
    const char *help;
};

static const struct spec specs[] = {
    {'s', "server", "HOST[:PORT]", set_server,
     "what to load (default: 127.0.0.1:11211, or 10.100.0.20:11211\n"
     "over the own TCP/IP stack)"},
    {'t', "threads", "N", set_threads, "threads (default: 1)"},
    {'c', "connections", "N", set_connections, "connections of all threads (default: 32)"},
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
    {0, "json", NULL, set_json, "the result as JSON"},
    {0, "hdr", "FILE", set_hdr, "write the latencies as a log of HdrHistogram"},
    {0, "progress", NULL, set_progress, "a line each second (without it: if it is a terminal)"},
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
    if (strlen(head) >= 29)
        fprintf(to, "\n%29s", "");
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

    fprintf(to, "ucload: load for servers that speak memcached's protocols\n\n"
                "usage: ucload [options]\n\n");
    for (i = 0; i < SPECS; i++)
        print_option(to, specs[i].letter, specs[i].name, specs[i].arg, specs[i].help);
    fprintf(to, "\nThe link (of the own TCP/IP stack; its default addresses are 10.100.0.30/24 "
                "and\n10.100.0.10/24):\n");
    for (i = 0; i < link.count; i++)
        print_option(to, 0, link.options[i].name, link.options[i].arg, link.options[i].help);
    fprintf(to,
            "\nExamples:\n"
            "  ucload                                      a GET at a time on 32 connections\n"
            "  ucload -d16 -m get:90,set:10 -V             pipelined, every reply verified\n"
            "  ucload -k1000000 -p zipf:0.99 --value-size=64-1024 -m get:9,set:1\n"
            "  ucload -r50000 --hdr=latency.hlog           open loop at 50000 requests/s\n"
            "  ucload --slo='p99<200us' -T2                the highest rate that keeps it\n"
            "  ucload --etc -k100000 -c64 -t2              Facebook's ETC workload\n"
            "  ucload --io=tap -s 10.100.0.10              over the own TCP/IP stack\n\n"
            "Exit status: 0; 1 a reply was wrong or refused; 64 wrong options; 69 the server\n"
            "cannot be reached, has gone or does not answer; 71 the system refuses something.\n");
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
    if (link_is_stack(o->link.io) && o->threads > 1)
        return fail(o, "--threads: the own TCP/IP stack uses one thread; start ucload twice");
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

/* What getopt wants to know; our own options have the values 256.., those of the link follow. */
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

/* The number of the option that getopt has found. */
static size_t find_spec(int found)
{
    size_t i;

    if (found >= 256)
        return (size_t)(found - 256);
    for (i = 0; i < SPECS && specs[i].letter != found; i++)
        continue;
    return i;
}

enum options_outcome options_parse(int argc, char **argv, struct options *o)
{
    static struct option list[SPECS + LINK_OPTIONS_MAX];
    struct link_option_table link = link_option_table();
    char letters[2 * SPECS + 2];
    int found;
    size_t i;

    set_defaults(o);
    list_options(list, letters);
    opterr = 0;
    optind = 1;
    while ((found = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        if (found == '?' || found == ':') {
            fail(o, found == '?' ? "\"%s\" is not an option" : "%s: an argument is missing",
                 argv[optind - 1]);
            return OPTIONS_BAD;
        }
        i = find_spec(found);
        if (i < SPECS && !specs[i].set)
            return strcmp(specs[i].name, "help") == 0 ? OPTIONS_HELP : OPTIONS_VERSION;
        if ((i < SPECS ? specs[i].set(o, optarg)
                       : link.options[i - SPECS].set(&o->link, optarg, o->error)) < 0)
            return OPTIONS_BAD;
    }
    return check(o, argv + optind) < 0 ? OPTIONS_BAD : OPTIONS_RUN;
}
