/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long single SETs take while a table grows from 1000 items on: the longest one tells whether
 * it stops for anything.
 *
 * The machine stops a thread too, now and then. What had its processor taken away (the kernel
 * counts it) is kept apart: counted as disturbed and not taken for the longest; who waits for
 * something by itself is not. A page that is touched for the first time is the table's doing, if
 * not only: those SETs are in all figures, and the longest one without a page fault stands beside
 * the longest. What a hypervisor does is not told.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <stdlib.h>
#include <sys/resource.h>

#include "kvbench/bench.h"
#include "kvbench/draws.h"
#include "load/histogram.h"

#define FIRST_ITEMS 1000
#define PART 65536

/* What the kernel has counted for the thread. */
struct counted {
    long taken_away; /* the processor, for something else */
    long faults;
};

struct growth {
    struct load_histogram *histogram; /* undisturbed SETs */
    uint64_t worst_at;                /* items there were at the longest one */
    uint64_t worst_ns;
    uint64_t unfaulted_ns; /* the longest one without a page fault */
    uint64_t faulted;
    uint64_t disturbed;
    uint64_t disturbed_ns; /* the longest of them */
    struct counted counted;
};

static struct counted counted_now(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (struct counted){.taken_away = usage.ru_nivcsw,
                            .faults = usage.ru_minflt + usage.ru_majflt};
}

static void note(struct growth *growth, uint64_t ns, uint64_t items)
{
    struct counted before = growth->counted;
    bool faulted;

    growth->counted = counted_now();
    faulted = growth->counted.faults != before.faults;
    if (growth->counted.taken_away != before.taken_away) {
        growth->disturbed++;
        if (ns > growth->disturbed_ns)
            growth->disturbed_ns = ns;
        return;
    }
    load_histogram_count(growth->histogram, ns);
    growth->faulted += faulted;
    if (!faulted && ns > growth->unfaulted_ns)
        growth->unfaulted_ns = ns;
    if (ns > growth->worst_ns) {
        growth->worst_ns = ns;
        growth->worst_at = items;
    }
}

/* One table from FIRST_ITEMS to `items`. */
static bool grow(const struct options *options, const struct table_ops *ops, void *table,
                 struct growth *growth)
{
    struct draws draws = {0};
    struct table_tally tally = {0};
    void *worker;
    bool whole;

    if (!bench_fill(ops, table, options, FIRST_ITEMS))
        return false;
    worker = ops->join(table);
    whole = worker != NULL;
    for (uint64_t first = FIRST_ITEMS; whole && first < options->items; first += PART) {
        uint64_t left = options->items - first;
        whole = draws_fill(&draws, &options->workload, first, left < PART ? (unsigned)left : PART);
        growth->counted = counted_now();
        for (unsigned i = 0; whole && i < draws.count; i++) {
            struct table_requests requests = draws_part(&draws, i, 1, 1);
            uint64_t begin = bench_now_ns();
            ops->run(worker, &requests, &tally);
            note(growth, bench_now_ns() - begin, first + i);
        }
        report_progress("growing %s: %.0f %%", ops->name,
                        100.0 * (double)first / (double)options->items);
    }
    report_progress(NULL);
    if (worker)
        ops->leave(worker);
    draws_free(&draws);
    if (!whole)
        return bench_fail("there is no memory to grow %s", ops->name);
    if (tally.failures > 0)
        return bench_fail("%s refused %llu SETs", ops->name, (unsigned long long)tally.failures);
    return true;
}

static void print(const struct growth *growth, const struct table_ops *ops, FILE *out)
{
    const struct load_histogram *h = growth->histogram;

    fprintf(out, "%-11s %8llu %8llu %8llu %10.1f at %-9llu %10.1f %8llu %8llu (%.1f us)\n",
            ops->name, (unsigned long long)load_histogram_percentile(h, 50),
            (unsigned long long)load_histogram_percentile(h, 99),
            (unsigned long long)load_histogram_percentile(h, 99.9), (double)growth->worst_ns / 1e3,
            (unsigned long long)growth->worst_at, (double)growth->unfaulted_ns / 1e3,
            (unsigned long long)growth->faulted, (unsigned long long)growth->disturbed,
            (double)growth->disturbed_ns / 1e3);
}

/* One table in one round; its memory is given back before the next table's turn. */
static bool grow_one(const struct options *options, const struct table_ops *ops,
                     struct growth *growth)
{
    double bytes = load_workload_footprint_bytes(&options->workload) /
                   (double)options->workload.popularity.keys;
    struct table_config config = {
        .memory_bytes = (uint64_t)((bytes + 100) * 1.4 * (double)options->items) + (64 << 20),
        .value_bytes_max = options_value_bytes_max(options),
        .threads_max = 1,
        .policy = options->policies[0]};
    const char *error;
    void *table;
    bool good;

    if (options->size_count > 0)
        config.memory_bytes = (uint64_t)options->sizes[0].amount;
    if (!bench_memory_there((bytes + 100) * (double)options->items, "this"))
        return false;
    table = ops->create(&config, &error);
    if (!table)
        return bench_fail("%s: %s", ops->name, error);
    good = grow(options, ops, table, growth);
    ops->destroy(table);
    return good;
}

bool growth_run(const struct options *options, struct report *report, FILE *out)
{
    struct report_row *row = NULL;
    struct growth growth = {.histogram = malloc(sizeof(struct load_histogram))};
    bool good = growth.histogram != NULL || bench_fail("no memory");

    fprintf(
        out,
        "%s\nSETs one at a time from %d to %llu items, ns; us: the longest one, and the longest "
        "without a page fault;\nhow many had one; how many the machine disturbed\n\n"
        "%-11s %8s %8s %8s %10s at %-9s %10s %8s %8s\n",
        options->workload_text, FIRST_ITEMS, (unsigned long long)options->items, "table", "p50",
        "p99", "p99.9", "longest", "items", "no fault", "faulted", "disturbed");
    for (unsigned i = 0; good && i < options->table_count; i++) {
        double worst[OPTIONS_ROUNDS_MAX];
        for (unsigned round = 0; good && round < options->rounds; round++) {
            growth = (struct growth){.histogram = growth.histogram};
            load_histogram_clear(growth.histogram);
            good = grow_one(options, options->tables[i], &growth);
            worst[round] = (double)growth.worst_ns / 1e3;
            if (good)
                print(&growth, options->tables[i], out);
        }
        if (good && i == 0)
            row = report_add(report, report_median(worst, options->rounds), "us", options->rounds,
                             "%s_worst_set_us", options->name);
        else if (good)
            report_compare(row, options->tables[i]->name, report_median(worst, options->rounds),
                           true);
    }
    free(growth.histogram);
    return good;
}
