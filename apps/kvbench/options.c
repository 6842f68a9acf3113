/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: a mode, then the options of the table. */
#include "kvbench/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SECONDS_MAX 3600
#define NAME_MAX_BYTES 32

/* A number from 1 to max, such as 1e6. */
static int set_count(const char *text, double max, uint64_t *value, char error[CMDLINE_ERROR_MAX])
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end != '\0' || !(number >= 1 && number <= max))
        return cmdline_fail(error, "\"%s\" is not a number from 1 to %g", text, max);
    *value = (uint64_t)number;
    return 0;
}

typedef int take_part(struct options *options, const char *part, char error[CMDLINE_ERROR_MAX]);

/* Calls `take` for each part of a list with commas; *count is the length of the list so far. */
static int set_list(struct options *options, const char *text, const unsigned *count,
                    take_part *take, char error[CMDLINE_ERROR_MAX])
{
    char part[64];

    for (;; text++) {
        size_t len = strcspn(text, ",");

        if (len == 0 || len >= sizeof(part) || *count == OPTIONS_LIST_MAX)
            return cmdline_fail(error, "give a list of at most %d, separated by commas",
                                OPTIONS_LIST_MAX);
        memcpy(part, text, len);
        part[len] = '\0';
        if (take(options, part, error) < 0)
            return -1;
        text += len;
        if (*text == '\0')
            return 0;
    }
}

static int take_number(const char *part, unsigned max, unsigned *numbers, unsigned *count,
                       char error[CMDLINE_ERROR_MAX])
{
    uint64_t value = 0;

    if (set_count(part, max, &value, error) < 0)
        return -1;
    numbers[(*count)++] = (unsigned)value;
    return 0;
}

static int take_threads(struct options *o, const char *part, char error[CMDLINE_ERROR_MAX])
{
    return take_number(part, OPTIONS_THREADS_MAX, o->threads, &o->threads_count, error);
}

static int take_group(struct options *o, const char *part, char error[CMDLINE_ERROR_MAX])
{
    return take_number(part, TABLE_BURST, o->groups, &o->group_count, error);
}

static int take_table(struct options *o, const char *part, char error[CMDLINE_ERROR_MAX])
{
    unsigned i = 0;

    while (tables[i] && strcmp(tables[i]->name, part) != 0)
        i++;
    if (!tables[i] || tables[i]->absent)
        return cmdline_fail(error, "%s: %s; see kvbench list", part,
                            tables[i] ? tables[i]->absent : "no such table");
    o->tables[o->table_count++] = tables[i];
    return 0;
}

static int take_policy(struct options *o, const char *part, char error[CMDLINE_ERROR_MAX])
{
    for (unsigned i = 0; i < KV_POLICIES; i++) {
        if (strcmp(kv_policy_name((enum kv_policy_kind)i), part) == 0) {
            o->policies[o->policy_count++] = (enum kv_policy_kind)i;
            return 0;
        }
    }
    return cmdline_fail(error, "%s: no such policy; see kvbench list", part);
}

/* "64" (MiB), "10%" of the footprint, "50000obj". */
static int take_size(struct options *o, const char *part, char error[CMDLINE_ERROR_MAX])
{
    struct options_size *size = &o->sizes[o->size_count];
    char *end;

    size->amount = strtod(part, &end);
    if (strcmp(end, "%") == 0) {
        size->kind = OPTIONS_SHARE;
        size->amount /= 100;
    } else if (strcmp(end, "obj") == 0) {
        size->kind = OPTIONS_OBJECTS;
    } else {
        size->kind = OPTIONS_BYTES;
        size->amount *= *end == '\0' ? 1 << 20 : NAN;
    }
    if (end == part || !(size->amount > 0) || !isfinite(size->amount))
        return cmdline_fail(error, "%s: give MiB (64), a share (10%%) or objects (50000obj)", part);
    o->size_count++;
    return 0;
}

static int set_threads(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_list(o, arg, &((struct options *)o)->threads_count, take_threads, error);
}

static int set_groups(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_list(o, arg, &((struct options *)o)->group_count, take_group, error);
}

static int set_tables(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_list(o, arg, &((struct options *)o)->table_count, take_table, error);
}

static int set_policies(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_list(o, arg, &((struct options *)o)->policy_count, take_policy, error);
}

static int set_sizes(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_list(o, arg, &((struct options *)o)->size_count, take_size, error);
}

static int set_items(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_count(arg, 1e10, &((struct options *)o)->items, error);
}

static int set_requests(void *o, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    return set_count(arg, 1e12, &((struct options *)o)->requests, error);
}

static int set_name(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    if (strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(arg) || *arg == '\0' ||
        strlen(arg) > NAME_MAX_BYTES)
        return cmdline_fail(error, "\"%s\" is not up to %d of a-z, 0-9 and _", arg, NAME_MAX_BYTES);
    o->name = arg;
    return 0;
}

static int set_memcached(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    o->memcached = arg ? arg : "memcached";
    return 0;
}

static int set_json(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    struct options *o = settings;

    o->json = true;
    o->json_path = arg;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------- */

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct options, field)

static const struct cmdline_option rows[] = {
    {0, "workload", "W", NULL,
     "a preset with settings: uniform,keys=1e6,key=20,value=200\n"
     "kvbench list prints the presets; settings:\n"
     "keys= popularity= key= value= ttl= get= set= delete= insert=\n"
     "once= scan= scan-length= scan-keys= drift= rate= seed=\n"
     "popularity: uniform, zipf:THETA, latest:THETA,\n"
     "hot:KEYS:REQUESTS; sizes: 200, 16-128, 95@50/191@40/959@10,\n"
     "etc-key, etc-value, gev:MU:SIGMA:K, gpareto:MU:SIGMA:K",
     CMDLINE_TEXT, AT(workload_text)},
    {0, "trace", "FILE", NULL,
     "ratio: read requests from a file: *.csv (time,id,size,op,ttl)\nor oracleGeneral",
     CMDLINE_TEXT, AT(trace_path)},
    {0, "threads", "1,2", set_threads, "speed: numbers of threads (1)"},
    {0, "batch", "1,16", set_groups,
     "speed: requests that the engine prefetches together; 1: no\nprefetch (1,16)"},
    {0, "tables", "A,B", set_tables, "engine, mutexes, rculfhash (all in this build)"},
    {0, "rounds", "N", NULL, "report medians of N rounds; a round measures each case once\n(5)",
     CMDLINE_U32, AT(rounds), 1, OPTIONS_ROUNDS_MAX},
    {0, "seconds", "S", NULL, "duration of one measurement (0.2)", CMDLINE_RATIO, AT(seconds), 0,
     SECONDS_MAX, 1},
    {0, "latency", NULL, NULL, "speed: also measure the latency of single operations", CMDLINE_ON,
     AT(latency)},
    {0, "items", "N", set_items, "growth: grow the table to N items (1e7)"},
    {0, "touch-ahead", "N", NULL,
     "growth: MiB of free memory that the engine's thread prefaults\n(16); 0: no thread",
     CMDLINE_U64, AT(touch_ahead_bytes), 0, 1 << 20, 1 << 20},
    {0, "memory", "LIST", set_sizes,
     "the engine's limit in MiB (64); for ratio also a share of the\n"
     "total size of keys and values (1%) or a number of items\n(10000obj)"},
    {0, "policy", "LIST", set_policies, "eviction policies (ratio: all; else: the first)"},
    {0, "requests", "N", set_requests, "ratio, trace: number of requests (1e7)"},
    {0, "warm", "N", NULL, "ratio: the first N are not counted (a quarter)", CMDLINE_U64, AT(warm),
     0, UINT64_C(1000000000000), .given = AT(warm_given)},
    {0, "memcached", "[=BIN]", set_memcached,
     "ratio, memory: compare with memcached with the same -m"},
    {0, "json", "[=FILE]", set_json,
     "print rows as JSON instead of the table; with FILE, write\nthem there"},
    {0, "name", "NAME", set_name, "name of the JSON rows"},
    {0, "out", "FILE", NULL, "trace: file to write; the format follows from the name", CMDLINE_TEXT,
     AT(out_path)},
    {'h', "help", NULL, NULL, "print this", CMDLINE_END, .min = CMDLINE_HELP},
};

void options_print_help(FILE *to)
{
    fprintf(to,
            "kvbench measures the key-value engine of ucached alone: no network, no protocol.\n\n"
            "  kvbench speed    operations per second, beside other tables, in one run\n"
            "  kvbench growth   how long single SETs take while a table grows\n"
            "  kvbench memory   bytes per item beyond key and value\n"
            "  kvbench ratio    miss ratio at a memory limit, by eviction policy\n"
            "  kvbench trace    writes a workload to a trace file\n"
            "  kvbench list     lists workloads, tables and policies\n\n");
    cmdline_print_options(to, rows, U_ARRAY_LEN(rows));
    fprintf(to, "\nExamples:\n"
                "  kvbench speed --threads=1,2\n"
                "  kvbench speed --workload=uniform,keys=1e7,key=20,value=200 --tables=engine\n"
                "  kvbench speed --workload=zipf,get=90,set=10 --threads=2 --latency --json\n"
                "  kvbench growth --items=1e6\n"
                "  kvbench memory --memory=64 --memcached\n"
                "  kvbench ratio --workload=etc --memory=1%%,10%% --memcached\n"
                "  kvbench ratio --trace=cluster52.oracleGeneral.bin --memory=512,1024\n"
                "  kvbench trace --workload=scan --requests=1e6 --out=scan.oracleGeneral.bin\n\n"
                "Exit status: 0 success, 64 invalid options, 1 other errors (see the message).\n");
}

/* ---- parsing ----------------------------------------------------------------------------- */

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

static int check(struct options *o, char **rest)
{
    if (*rest)
        return cmdline_fail(o->error, "\"%s\" is not an option", *rest);
    if (!load_workload_parse(&o->workload, o->workload_text, o->error))
        return -1;
    if (o->trace_path && o->mode != OPTIONS_RATIO)
        return cmdline_fail(o->error, "only ratio reads a --trace");
    if (o->mode == OPTIONS_TRACE && !o->out_path)
        return cmdline_fail(o->error, "trace needs --out=FILE");
    for (unsigned i = 0; i < o->size_count; i++)
        if (o->sizes[i].kind != OPTIONS_BYTES && o->mode != OPTIONS_RATIO)
            return cmdline_fail(o->error, "--memory: only ratio takes shares and objects");
    if (o->mode != OPTIONS_RATIO && o->size_count > 1)
        return cmdline_fail(o->error, "--memory: only ratio takes more than one");
    if (o->mode == OPTIONS_RATIO && o->requests <= o->warm)
        return cmdline_fail(o->error, "--warm leaves no request to count");
    return 0;
}

enum cmdline_outcome options_parse(int argc, char **argv, struct options *options)
{
    struct cmdline cmdline = {.tables = {{rows, U_ARRAY_LEN(rows), options}},
                              .error = options->error};
    enum cmdline_outcome outcome;
    char **rest;

    *options = (struct options){.rounds = 5,
                                .seconds = 0.2,
                                .items = 10000000,
                                .touch_ahead_bytes = UINT64_C(16) << 20,
                                .requests = 10000000};
    if (argc >= 2 && strcmp(argv[1], "--help") == 0)
        return CMDLINE_HELP;
    if (argc < 2 || !mode_of(argv[1], &options->mode)) {
        cmdline_fail(options->error, "the first argument is speed, growth, memory, ratio, trace or "
                                     "list; see --help");
        return CMDLINE_BAD;
    }
    outcome = cmdline_parse(&cmdline, argc - 1, argv + 1, &rest);
    if (outcome != CMDLINE_RUN)
        return outcome;
    defaults(options);
    return check(options, rest) < 0 ? CMDLINE_BAD : CMDLINE_RUN;
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
