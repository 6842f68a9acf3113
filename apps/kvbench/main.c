/* SPDX-License-Identifier: BSD-3-Clause */
/* kvbench: benchmark of the key-value engine, compared with other tables and memcached. */
#include <stdlib.h>
#include <sysexits.h>

#include "kvbench/bench.h"

static bool list_run(FILE *out)
{
    fputs("workloads\n", out);
    for (const struct load_preset *preset = load_presets; preset->name; preset++)
        fprintf(out, "  %-12s %s\n               %s\n", preset->name, preset->about, preset->text);
    fputs("tables\n", out);
    for (unsigned i = 0; tables[i]; i++)
        fprintf(out, "  %-12s %s%s%s\n", tables[i]->name, tables[i]->about,
                tables[i]->absent ? ": " : "", tables[i]->absent ? tables[i]->absent : "");
    fputs("policies\n", out);
    for (unsigned i = 0; i < KV_POLICIES; i++)
        fprintf(out, "  %-12s %s\n", kv_policy_name((enum kv_policy_kind)i),
                kv_policy_summary((enum kv_policy_kind)i));
    return true;
}

/* Names the tables that this build lacks. */
static void print_absent(const struct options *options)
{
    if (options->mode != OPTIONS_SPEED && options->mode != OPTIONS_GROWTH)
        return;
    for (unsigned i = 0; tables[i]; i++)
        if (tables[i]->absent)
            fprintf(stderr, "kvbench: note: %s: %s\n", tables[i]->name, tables[i]->absent);
}

static bool run(const struct options *options, struct report *report, FILE *out)
{
    switch (options->mode) {
    case OPTIONS_SPEED:
        return speed_run(options, report, out);
    case OPTIONS_GROWTH:
        return growth_run(options, report, out);
    case OPTIONS_MEMORY:
        return memory_run(options, report, out);
    case OPTIONS_RATIO:
        return ratio_run(options, report, out);
    case OPTIONS_TRACE:
        return trace_run(options, out);
    case OPTIONS_LIST:
        return list_run(out);
    }
    return false;
}

/* Writes the rows to the target of --json. */
static bool write_json(const struct options *options, const struct report *report)
{
    FILE *to = options->json_path ? fopen(options->json_path, "w") : stdout;
    bool good;

    if (!to) {
        perror(options->json_path);
        return false;
    }
    good = report_json(report, to);
    if (to != stdout)
        good = fclose(to) == 0 && good;
    if (!good)
        return bench_fail("cannot write the rows");
    if (report->left_out > 0)
        return bench_fail("%u rows did not fit and were left out", report->left_out);
    return true;
}

int main(int argc, char **argv)
{
    static struct options options;
    static struct report report;
    FILE *out = stdout;
    bool good;

    switch (options_parse(argc, argv, &options)) {
    case CMDLINE_HELP:
        options_print_help(stdout);
        return 0;
    case CMDLINE_BAD:
        fprintf(stderr, "kvbench: %s\n", options.error);
        return EX_USAGE;
    case CMDLINE_VERSION:
    case CMDLINE_RUN:
        break;
    }
    if (options.json && !options.json_path)
        out = fopen("/dev/null", "w");
    if (!out) {
        perror("/dev/null");
        return EXIT_FAILURE;
    }
    print_absent(&options);
    good = run(&options, &report, out);
    if (good && options.json)
        good = write_json(&options, &report);
    if (fflush(out) != 0 || ferror(out))
        good = bench_fail("cannot write the table");
    return good ? 0 : EXIT_FAILURE;
}
