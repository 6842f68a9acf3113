/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the command line; options_help.c has the text of --help. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kvbench/options.h"

#define SECONDS_MAX 3600

enum {
    OPT_WORKLOAD = 256,
    OPT_TRACE,
    OPT_OUT,
    OPT_NAME,
    OPT_TABLES,
    OPT_THREADS,
    OPT_BATCH,
    OPT_POLICY,
    OPT_MEMORY,
    OPT_ROUNDS,
    OPT_SECONDS,
    OPT_ITEMS,
    OPT_TOUCH_AHEAD,
    OPT_REQUESTS,
    OPT_WARM,
    OPT_MEMCACHED,
    OPT_LATENCY,
    OPT_JSON,
    OPT_HELP
};

static const struct option long_options[] = {
    {"workload", required_argument, NULL, OPT_WORKLOAD},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"out", required_argument, NULL, OPT_OUT},
    {"name", required_argument, NULL, OPT_NAME},
    {"tables", required_argument, NULL, OPT_TABLES},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"items", required_argument, NULL, OPT_ITEMS},
    {"touch-ahead", required_argument, NULL, OPT_TOUCH_AHEAD},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"warm", required_argument, NULL, OPT_WARM},
    {"memcached", optional_argument, NULL, OPT_MEMCACHED},
    {"latency", no_argument, NULL, OPT_LATENCY},
    {"json", optional_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static bool bad(struct options *options, const char *option, const char *text, const char *why)
{
    snprintf(options->error, sizeof(options->error), "--%s=%.60s: %s", option, text, why);
    return false;
}

/* A number from min to max, such as 1e6. */
static bool number(struct options *options, const char *option, const char *text, double min,
                   double max, double *value)
{
    char why[80];
    char *end;

    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value >= min && *value <= max)
        return true;
    snprintf(why, sizeof(why), "give a number from %g to %g", min, max);
    return bad(options, option, text, why);
}

static bool count(struct options *options, const char *option, const char *text, double max,
                  uint64_t *value)
{
    double n;

    if (!number(options, option, text, 1, max, &n))
        return false;
    *value = (uint64_t)n;
    return true;
}

/* Calls `take` for each part of a list with commas. */
static bool list(struct options *options, const char *option, const char *text,
                 bool (*take)(struct options *, const char *option, const char *part))
{
    char part[64];

    for (;;) {
        size_t len = strcspn(text, ",");
        if (len == 0 || len >= sizeof(part))
            return bad(options, option, text, "give a list separated by commas");
        memcpy(part, text, len);
        part[len] = '\0';
        if (!take(options, option, part))
            return false;
        if (text[len] == '\0')
            return true;
        text += len + 1;
    }
}

static bool take_number(struct options *options, const char *option, const char *part,
                        unsigned *numbers, unsigned *n, unsigned max)
{
    uint64_t value;

    if (*n == OPTIONS_LIST_MAX)
        return bad(options, option, part, "the list is too long");
    if (!count(options, option, part, max, &value))
        return false;
    numbers[(*n)++] = (unsigned)value;
    return true;
}

static bool take_threads(struct options *options, const char *option, const char *part)
{
    return take_number(options, option, part, options->threads, &options->threads_count,
                       OPTIONS_THREADS_MAX);
}

static bool take_group(struct options *options, const char *option, const char *part)
{
    return take_number(options, option, part, options->groups, &options->group_count, TABLE_BURST);
}

static bool take_table(struct options *options, const char *option, const char *part)
{
    if (options->table_count == OPTIONS_LIST_MAX)
        return bad(options, option, part, "the list is too long");
    for (unsigned i = 0; tables[i]; i++) {
        if (strcmp(tables[i]->name, part) == 0) {
            if (tables[i]->absent)
                return bad(options, option, part, tables[i]->absent);
            options->tables[options->table_count++] = tables[i];
            return true;
        }
    }
    return bad(options, option, part, "no such table; see kvbench list");
}

static bool take_policy(struct options *options, const char *option, const char *part)
{
    if (options->policy_count == OPTIONS_LIST_MAX)
        return bad(options, option, part, "the list is too long");
    for (unsigned i = 0; i < KV_POLICIES; i++) {
        if (strcmp(kv_policy_name((enum kv_policy_kind)i), part) == 0) {
            options->policies[options->policy_count++] = (enum kv_policy_kind)i;
            return true;
        }
    }
    return bad(options, option, part, "no such policy; see kvbench list");
}

/* "64" (MiB), "10%" of the footprint, "50000obj". */
static bool take_size(struct options *options, const char *option, const char *part)
{
    struct options_size *size = &options->sizes[options->size_count];
    char *end;

    if (options->size_count == OPTIONS_LIST_MAX)
        return bad(options, option, part, "the list is too long");
    size->amount = strtod(part, &end);
    if (end == part || !(size->amount > 0) || !isfinite(size->amount))
        return bad(options, option, part, "give MiB (64), a share (10%) or objects (50000obj)");
    if (strcmp(end, "%") == 0) {
        size->kind = OPTIONS_SHARE;
        size->amount /= 100;
    } else if (strcmp(end, "obj") == 0) {
        size->kind = OPTIONS_OBJECTS;
    } else if (*end == '\0') {
        size->kind = OPTIONS_BYTES;
        size->amount *= 1 << 20;
    } else {
        return bad(options, option, part, "give MiB (64), a share (10%) or objects (50000obj)");
    }
    options->size_count++;
    return true;
}

static bool take_name(struct options *options, const char *text)
{
    if (strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(text) || *text == '\0' ||
        strlen(text) > 32)
        return bad(options, "name", text, "up to 32 of a-z, 0-9 and _");
    options->name = text;
    return true;
}

static bool take_text(struct options *o, int opt, const char *arg)
{
    switch (opt) {
    case OPT_WORKLOAD:
        o->workload_text = arg;
        return true;
    case OPT_TRACE:
        o->trace_path = arg;
        return true;
    case OPT_OUT:
        o->out_path = arg;
        return true;
    case OPT_MEMCACHED:
        o->memcached = arg ? arg : "memcached";
        return true;
    case OPT_JSON:
        o->json = true;
        o->json_path = arg;
        return true;
    default:
        o->latency = true;
        return true;
    }
}

static bool take_touch_ahead(struct options *o, const char *text)
{
    double mib;

    if (!number(o, "touch-ahead", text, 0, 1 << 20, &mib))
        return false;
    o->touch_ahead_bytes = (uint64_t)(mib * (1 << 20));
    return true;
}

static bool take_option(struct options *o, int opt, const char *arg)
{
    double rounds;

    switch (opt) {
    case OPT_TOUCH_AHEAD:
        return take_touch_ahead(o, arg);
    case OPT_NAME:
        return take_name(o, arg);
    case OPT_TABLES:
        return list(o, "tables", arg, take_table);
    case OPT_THREADS:
        return list(o, "threads", arg, take_threads);
    case OPT_BATCH:
        return list(o, "batch", arg, take_group);
    case OPT_POLICY:
        return list(o, "policy", arg, take_policy);
    case OPT_MEMORY:
        return list(o, "memory", arg, take_size);
    case OPT_ROUNDS:
        if (!number(o, "rounds", arg, 1, OPTIONS_ROUNDS_MAX, &rounds))
            return false;
        o->rounds = (unsigned)rounds;
        return true;
    case OPT_SECONDS:
        return number(o, "seconds", arg, 0.001, SECONDS_MAX, &o->seconds);
    case OPT_ITEMS:
        return count(o, "items", arg, 1e10, &o->items);
    case OPT_REQUESTS:
        return count(o, "requests", arg, 1e12, &o->requests);
    case OPT_WARM: {
        double warm;
        if (!number(o, "warm", arg, 0, 1e12, &warm))
            return false;
        o->warm = (uint64_t)warm;
        o->warm_given = true;
        return true;
    }
    default:
        return take_text(o, opt, arg);
    }
}

static bool mode_of(const char *word, enum options_mode *mode)
{
    static const char *const words[] = {"speed", "growth", "memory", "ratio", "trace", "list"};

    for (unsigned i = 0; i < U_ARRAY_LEN(words); i++) {
        if (strcmp(words[i], word) == 0) {
            *mode = (enum options_mode)i;
            return true;
        }
    }
    return false;
}

/* Fills in defaults. */
static void defaults(struct options *o)
{
    if (!o->workload_text)
        o->workload_text = o->mode == OPTIONS_SPEED   ? "uniform,keys=1000,key=8,value=8"
                           : o->mode == OPTIONS_RATIO ? "zipf,value=1000"
                                                      : "uniform,key=20,value=200";
    for (unsigned i = 0, given = o->table_count; given == 0 && tables[i]; i++)
        if (!tables[i]->absent)
            o->tables[o->table_count++] = tables[i];
    if (o->threads_count == 0)
        o->threads[o->threads_count++] = 1;
    if (o->group_count == 0) {
        o->groups[o->group_count++] = 1;
        o->groups[o->group_count++] = 16;
    }
    if (o->policy_count == 0) {
        for (unsigned i = 0; i < KV_POLICIES; i++)
            o->policies[i] = (enum kv_policy_kind)i;
        o->policy_count = o->mode == OPTIONS_RATIO ? KV_POLICIES : 1;
    }
    if (o->size_count == 0 && o->mode == OPTIONS_RATIO) {
        o->sizes[o->size_count++] = (struct options_size){OPTIONS_SHARE, 0.01};
        o->sizes[o->size_count++] = (struct options_size){OPTIONS_SHARE, 0.1};
    }
    if (!o->name) {
        static const char *const names[] = {"engine_speed", "growth", "memory", "miss", "", ""};
        o->name = names[o->mode];
    }
}

static bool consistent(struct options *o)
{
    if (!load_workload_parse(&o->workload, o->workload_text, o->error))
        return false;
    if (o->trace_path && o->mode != OPTIONS_RATIO)
        return bad(o, "trace", o->trace_path, "only ratio reads a trace");
    if (o->mode == OPTIONS_TRACE && !o->out_path) {
        snprintf(o->error, sizeof(o->error), "trace needs --out=FILE");
        return false;
    }
    for (unsigned i = 0; i < o->size_count; i++)
        if (o->sizes[i].kind != OPTIONS_BYTES && o->mode != OPTIONS_RATIO)
            return bad(o, "memory", "...", "only ratio takes shares and objects");
    if (o->mode != OPTIONS_RATIO && o->size_count > 1)
        return bad(o, "memory", "...", "only ratio takes more than one");
    if (o->mode == OPTIONS_RATIO && o->requests <= o->warm)
        return bad(o, "warm", "...", "leaves no request to count");
    return true;
}

enum options_outcome options_parse(int argc, char **argv, struct options *options)
{
    int opt;

    memset(options, 0, sizeof(*options));
    options->rounds = 5;
    options->seconds = 0.2;
    options->items = 10000000;
    options->touch_ahead_bytes = UINT64_C(16) << 20;
    options->requests = 10000000;
    opterr = 0;
    if (argc >= 2 && strcmp(argv[1], "--help") == 0)
        return OPTIONS_HELP;
    if (argc < 2 || !mode_of(argv[1], &options->mode)) {
        snprintf(options->error, sizeof(options->error),
                 "the first argument is speed, growth, memory, ratio, trace or list; "
                 "see --help");
        return OPTIONS_BAD;
    }
    while ((opt = getopt_long(argc - 1, argv + 1, "h", long_options, NULL)) != -1) {
        if (opt == 'h' || opt == OPT_HELP)
            return OPTIONS_HELP;
        if (opt == '?') {
            snprintf(options->error, sizeof(options->error),
                     "%.80s: unknown option or missing argument", argv[optind]);
            return OPTIONS_BAD;
        }
        if (!take_option(options, opt, optarg))
            return OPTIONS_BAD;
    }
    if (optind + 1 < argc) {
        snprintf(options->error, sizeof(options->error), "\"%.80s\" is not an option",
                 argv[optind + 1]);
        return OPTIONS_BAD;
    }
    defaults(options);
    return consistent(options) ? OPTIONS_RUN : OPTIONS_BAD;
}

uint32_t options_value_bytes_max(const struct options *options)
{
    const struct load_size *size = &options->workload.value_bytes;
    uint32_t max = load_size_quantile(size, 1 - 0x1p-53);

    for (unsigned i = 0; i < size->choices; i++)
        if (size->choice[i] > max)
            max = size->choice[i];
    return max > 0 ? max : 1;
}
