/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench growth: latency of single SETs while a table grows from 1000 items; the maximum shows
 * whether growing stops the caller.
 *
 * SETs during which the kernel preempted the thread (ru_nivcsw) count as disturbed and are not in
 * the maximum. SETs with page faults are in all figures; the maximum without a page fault is
 * printed beside the maximum.
 *
 * Preemption by a hypervisor is not reported, so three figures help to recognize it: the longest
 * stop of an idle loop on the same thread just before; the longest SET by CPU time; and, over
 * several rounds, the maximum of each SET's minimum. All rounds store the same keys in the same
 * order, so the table does the same at the same SET in each round, and disturbances rarely hit the
 * same SET in all rounds.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "kvbench/bench.h"
#include "kvbench/draws.h"
#include "load/histogram.h"

#define FIRST_ITEMS 1000
#define PART 65536
#define IDLE_NS 200000000
#define LONG_NS 100000 /* threshold of a long SET */

/* The kernel's counters of the thread. */
struct counted {
    long taken_away; /* involuntary context switches */
    long faults;
};

struct growth {
    struct load_histogram *histogram; /* undisturbed SETs */
    uint64_t worst_at;                /* items at the longest SET */
    uint64_t worst_ns;
    uint64_t unfaulted_ns; /* the longest one without a page fault */
    uint64_t faulted;
    uint64_t disturbed;
    uint64_t disturbed_ns; /* the longest of them */
    uint64_t cpu_ns;       /* the longest by the thread's processor time, of all */
    struct counted counted;
    uint32_t *least_ns;     /* by SET: its minimum over the rounds so far */
    struct kv_stats engine; /* at the end */
};

static struct counted counted_now(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (struct counted){.taken_away = usage.ru_nivcsw,
                            .faults = usage.ru_minflt + usage.ru_majflt};
}

static uint64_t cpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The longest stop of a loop that only reads the clock. */
static uint64_t idle_longest_ns(void)
{
    uint64_t begin = bench_now_ns();
    uint64_t last = begin;
    uint64_t longest = 0;

    while (last - begin < IDLE_NS) {
        uint64_t now = bench_now_ns();
        if (now - last > longest)
            longest = now - last;
        last = now;
    }
    return longest;
}

static void note(struct growth *growth, uint64_t ns, uint64_t cpu_ns, uint64_t items)
{
    struct counted before = growth->counted;
    uint32_t *least_ns = &growth->least_ns[items - FIRST_ITEMS];
    bool faulted;

    if (ns < *least_ns)
        *least_ns = (uint32_t)ns;
    if (cpu_ns > growth->cpu_ns)
        growth->cpu_ns = cpu_ns;
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
            uint64_t cpu_begin = cpu_now_ns();
            uint64_t begin = bench_now_ns();
            ops->run(worker, &requests, &tally);
            uint64_t ns = bench_now_ns() - begin;
            note(growth, ns, cpu_now_ns() - cpu_begin, first + i);
        }
        report_progress("growing %s: %.0f %%", ops->name,
                        100.0 * (double)first / (double)options->items);
    }
    report_progress(NULL);
    if (worker)
        ops->leave(worker);
    draws_free(&draws);
    if (!whole)
        return bench_fail("not enough memory to grow %s", ops->name);
    if (tally.failures > 0)
        return bench_fail("%s refused %llu SETs", ops->name, (unsigned long long)tally.failures);
    return true;
}

static void print(const struct growth *growth, const struct table_ops *ops, uint64_t idle_ns,
                  FILE *out)
{
    const struct load_histogram *h = growth->histogram;

    fprintf(
        out, "%-11s %7llu %7llu %7llu %9.1f at %-9llu %9.1f %9.1f %9.1f %8llu %6llu (%.1f us)\n",
        ops->name, (unsigned long long)load_histogram_percentile(h, 50),
        (unsigned long long)load_histogram_percentile(h, 99),
        (unsigned long long)load_histogram_percentile(h, 99.9), (double)growth->worst_ns / 1e3,
        (unsigned long long)growth->worst_at, (double)growth->unfaulted_ns / 1e3,
        (double)growth->cpu_ns / 1e3, (double)idle_ns / 1e3, (unsigned long long)growth->faulted,
        (unsigned long long)growth->disturbed, (double)growth->disturbed_ns / 1e3);
    if (growth->engine.touch_thread)
        fprintf(out, "%-11s segments touched ahead: %u, too late: %u\n", ops->name,
                growth->engine.touched_ahead, growth->engine.touched_late);
}

/* Prints the maximum of each SET's minimum over all rounds, and returns it in us. */
static double print_least(const struct growth *growth, const struct options *options,
                          const struct table_ops *ops, FILE *out)
{
    uint64_t count = options->items > FIRST_ITEMS ? options->items - FIRST_ITEMS : 0;
    uint64_t longest_at = 0;
    uint64_t longer = 0;

    if (count == 0)
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        if (growth->least_ns[i] > growth->least_ns[longest_at])
            longest_at = i;
        longer += growth->least_ns[i] > LONG_NS;
    }
    double us = (double)growth->least_ns[longest_at] / 1e3;
    if (options->rounds > 1)
        fprintf(out,
                "%-11s each SET in the best of %u rounds: the longest %.1f us at %llu items, "
                "%llu over %d us\n",
                ops->name, options->rounds, us, (unsigned long long)(longest_at + FIRST_ITEMS),
                (unsigned long long)longer, LONG_NS / 1000);
    return us;
}

/* One round of one table, which is freed afterwards. */
static bool grow_one(const struct options *options, const struct table_ops *ops,
                     struct growth *growth)
{
    double bytes = load_workload_footprint_bytes(&options->workload) /
                   (double)options->workload.popularity.keys;
    struct table_config config = {
        .memory_bytes = (uint64_t)((bytes + 100) * 1.4 * (double)options->items) + (64 << 20),
        .value_bytes_max = options_value_bytes_max(options),
        .threads_max = 1,
        .policy = options->policies[0],
        .touch_ahead_bytes = options->touch_ahead_bytes};
    const char *error;
    void *table;
    bool good;

    if (options->size_count > 0)
        config.memory_bytes = (uint64_t)options->sizes[0].amount;
    if (!bench_memory_suffices((bytes + 100) * (double)options->items, "this"))
        return false;
    table = ops->create(&config, &error);
    if (!table)
        return bench_fail("%s: %s", ops->name, error);
    good = grow(options, ops, table, growth);
    if (good && ops == &table_engine)
        kv_stats(table_engine_kv(table), &growth->engine);
    ops->destroy(table);
    return good;
}

/* All rounds of one table. */
static bool table_run(const struct options *options, const struct table_ops *ops,
                      struct growth *growth, struct report *report, struct report_row **row,
                      FILE *out)
{
    double worst[OPTIONS_ROUNDS_MAX];

    memset(growth->least_ns, 0xff, options->items * sizeof(*growth->least_ns));
    for (unsigned round = 0; round < options->rounds; round++) {
        uint64_t idle_ns = idle_longest_ns();
        *growth = (struct growth){.histogram = growth->histogram, .least_ns = growth->least_ns};
        load_histogram_clear(growth->histogram);
        if (!grow_one(options, ops, growth))
            return false;
        worst[round] = (double)growth->worst_ns / 1e3;
        print(growth, ops, idle_ns, out);
    }
    double least_us = print_least(growth, options, ops, out);
    if (!*row) {
        *row = report_add(report, report_median(worst, options->rounds), "us", options->rounds,
                          "%s_worst_set_us", options->name);
        report_add(report, least_us, "us", options->rounds, "%s_worst_set_of_best_us",
                   options->name);
    } else {
        report_compare(*row, ops->name, report_median(worst, options->rounds), true);
    }
    return true;
}

bool growth_run(const struct options *options, struct report *report, FILE *out)
{
    struct report_row *row = NULL;
    struct growth growth = {.histogram = malloc(sizeof(struct load_histogram)),
                            .least_ns = malloc(options->items * sizeof(uint32_t))};
    bool good = (growth.histogram && growth.least_ns) || bench_fail("no memory");

    good = good && bench_memory_suffices((double)options->items * sizeof(uint32_t), "this");

    fprintf(out,
            "%s\nSETs one at a time from %d to %llu items, ns; us: the longest one, the longest "
            "without a page fault, the\nlongest by processor time, the longest stop of an idle "
            "loop; SETs with a page fault; SETs\ndisturbed by preemption\n\n"
            "%-11s %7s %7s %7s %9s at %-9s %9s %9s %9s %8s %6s\n",
            options->workload_text, FIRST_ITEMS, (unsigned long long)options->items, "table", "p50",
            "p99", "p99.9", "longest", "items", "no fault", "processor", "idle", "faulted",
            "disturbed");
    for (unsigned i = 0; good && i < options->table_count; i++)
        good = table_run(options, options->tables[i], &growth, report, &row, out);
    free(growth.histogram);
    free(growth.least_ns);
    return good;
}
