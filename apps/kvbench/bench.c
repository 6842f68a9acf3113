/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that several modes of kvbench use. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kvbench/bench.h"
#include "kvbench/draws.h"

#define FILL_PART 65536

bool bench_fail(const char *format, ...)
{
    va_list args;

    report_progress(NULL);
    fputs("kvbench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

/* MemAvailable of /proc/meminfo in bytes; 0 if unknown. */
static double memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kib * 1024;
}

bool bench_memory_suffices(double bytes, const char *for_what)
{
    double there = memory_available();

    if (there == 0 || bytes < 0.9 * there)
        return true;
    return bench_fail("%s needs about %.1f GiB, but %.1f GiB are free: use fewer keys or --tables",
                      for_what, bytes / 0x1p30, there / 0x1p30);
}

bool bench_fill(const struct table_ops *ops, void *table, const struct options *options,
                uint64_t count)
{
    struct table_tally tally = {0};
    struct draws draws = {0};
    void *worker = ops->join(table);
    bool whole = worker != NULL;

    for (uint64_t first = 0; whole && first < count; first += FILL_PART) {
        unsigned part = count - first < FILL_PART ? (unsigned)(count - first) : FILL_PART;
        whole = draws_fill(&draws, &options->workload, first, part);
        for (unsigned i = 0; whole && i < part; i += TABLE_BURST) {
            unsigned burst = part - i < TABLE_BURST ? part - i : TABLE_BURST;
            struct table_requests requests = draws_part(&draws, i, burst, 1);
            ops->run(worker, &requests, &tally);
        }
        report_progress("filling %s: %.0f %%", ops->name,
                        100.0 * (double)(first + part) / (double)count);
    }
    report_progress(NULL);
    if (worker)
        ops->leave(worker);
    draws_free(&draws);
    if (!whole)
        return bench_fail("not enough memory to fill %s", ops->name);
    if (tally.failures > 0)
        return bench_fail("%s refused %llu SETs during the fill", ops->name,
                          (unsigned long long)tally.failures);
    return true;
}
