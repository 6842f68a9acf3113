/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Miss ratios: the same stream through the real engine with each policy, and through memcached,
 * everything within the same limit of memory, index and metadata included.
 */
#include <string.h>

#include "kvbench/bench.h"
#include "kvbench/replay.h"

#define COLUMNS_MAX (OPTIONS_LIST_MAX + 1)
#define NO_POLICY KV_POLICIES /* memcached's column */

struct ratio {
    const struct options *options;
    struct report *report;
    FILE *out;
    struct source source;
    struct source_facts facts;
    uint64_t warm;
    unsigned columns;
    enum kv_policy_kind column[COLUMNS_MAX];
};

static const char *column_name(enum kv_policy_kind column)
{
    return column == NO_POLICY ? "memcached" : kv_policy_name(column);
}

/* "1pct", "64mib", "10000obj": for the name of a row. */
static void size_label(const struct options_size *size, char label[32])
{
    static const char *const units[] = {"mib", "pct", "obj"};
    double amount = size->kind == OPTIONS_BYTES   ? size->amount / 0x1p20
                    : size->kind == OPTIONS_SHARE ? size->amount * 100
                                                  : size->amount;

    snprintf(label, 32, "%.10g%s", amount, units[size->kind]);
    for (char *c = label; *c; c++)
        if (*c == '.')
            *c = '_';
}

/* The limit in bytes; whole MiB where memcached, which takes no other, is to have the same. */
static bool size_bytes(struct ratio *ratio, const struct options_size *size, uint64_t *bytes)
{
    *bytes = (uint64_t)size->amount;
    if (size->kind == OPTIONS_OBJECTS)
        return replay_bytes_for(&ratio->source, &ratio->facts, *bytes, bytes);
    if (size->kind == OPTIONS_SHARE)
        *bytes = (uint64_t)(size->amount * ratio->facts.footprint_bytes);
    if (ratio->options->memcached)
        *bytes = (*bytes + (1 << 19)) >> 20 << 20;
    if (*bytes < 1 << 20)
        *bytes = 1 << 20;
    return true;
}

/* A cache that has taken more than its limit cannot be compared at that limit. */
static void say_excess(const struct ratio *ratio, uint64_t bytes,
                       const struct replay_result *results)
{
    for (unsigned i = 0; i < ratio->columns; i++)
        if (results[i].taken_bytes > (double)bytes)
            fprintf(ratio->out, "%-12s %s has taken %.1f MiB, which is more than the limit\n", "",
                    column_name(ratio->column[i]), results[i].taken_bytes / 0x1p20);
}

static bool size_run(struct ratio *ratio, const struct options_size *size)
{
    struct replay_result results[COLUMNS_MAX];
    struct report_row *miss = NULL, *items = NULL;
    uint64_t bytes;
    char label[32];

    if (!size_bytes(ratio, size, &bytes))
        return false;
    size_label(size, label);
    fprintf(ratio->out, "%-12s %9.1f", label, (double)bytes / 0x1p20);
    for (unsigned i = 0; i < ratio->columns; i++) {
        enum kv_policy_kind column = ratio->column[i];
        const char *name = column_name(column);
        double misses;
        bool good = column == NO_POLICY ? replay_memcached(&ratio->source, &ratio->facts, bytes,
                                                           ratio->warm, &results[i])
                                        : replay_engine(&ratio->source, &ratio->facts, bytes,
                                                        column, ratio->warm, &results[i]);
        if (!good)
            return false;
        misses = results[i].gets > 0 ? (double)results[i].misses / (double)results[i].gets : 0;
        fprintf(ratio->out, " %10.4f %9.0f", misses, results[i].items);
        fflush(ratio->out);
        if (i == 0) {
            miss =
                report_add(ratio->report, misses, "share", 1, "%s_%s", ratio->options->name, label);
            items = report_add(ratio->report, results[i].items, "items", 1, "%s_%s_items",
                               ratio->options->name, label);
        }
        report_compare(miss, name, misses, true); /* the first one too, so that it has a name */
        report_compare(items, name, results[i].items, false);
    }
    fputc('\n', ratio->out);
    say_excess(ratio, bytes, results);
    return true;
}

static void columns_choose(struct ratio *ratio)
{
    const struct options *options = ratio->options;

    for (unsigned i = 0; i < options->policy_count; i++)
        ratio->column[ratio->columns++] = options->policies[i];
    if (options->memcached && ratio->facts.expires)
        fputs("kvbench: note: memcached is left out: keys expire, and its clock can't be set\n",
              stderr);
    else if (options->memcached)
        ratio->column[ratio->columns++] = NO_POLICY;
}

bool ratio_run(const struct options *options, struct report *report, FILE *out)
{
    struct ratio ratio = {.options = options, .report = report, .out = out};
    bool good = source_open(&ratio.source, options);

    if (!good)
        return false;
    good = source_look(&ratio.source, &ratio.facts);
    if (good) {
        columns_choose(&ratio);
        ratio.warm = options->warm_given ? options->warm : ratio.facts.requests / 4;
        fprintf(out,
                "%s\n%llu requests, the first %llu not counted; %llu keys, %.1f MiB of keys and "
                "values\nshare of GETs that miss, and items at the end\n\n%-12s %9s",
                options->trace_path ? options->trace_path : options->workload_text,
                (unsigned long long)ratio.facts.requests, (unsigned long long)ratio.warm,
                (unsigned long long)ratio.facts.objects, ratio.facts.footprint_bytes / 0x1p20,
                "limit", "MiB");
        for (unsigned i = 0; i < ratio.columns; i++)
            fprintf(out, " %10s %9s", column_name(ratio.column[i]), "items");
        fputc('\n', out);
    }
    for (unsigned i = 0; good && i < options->size_count; i++)
        good = size_run(&ratio, &options->sizes[i]);
    source_close(&ratio.source);
    return good;
}
