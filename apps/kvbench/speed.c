/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench speed: operations per second. All tables are filled first; then each round measures every
 * case once, so that disturbances of the machine affect all cases, and each figure is the median of
 * the rounds. A case is a table, a number of threads, and a batch size.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvbench/bench.h"
#include "kvbench/draws.h"
#include "load/histogram.h"

#define CASES_MAX 128
#define LATENCY_SAMPLES 1000000

struct bench_case {
    const struct table_ops *ops;
    void *table;
    unsigned threads;
    unsigned group;
    double rates[OPTIONS_ROUNDS_MAX]; /* operations per second */
    double rate;                      /* the median */
    struct table_tally tally;
};

struct speed {
    const struct options *options;
    struct report *report;
    FILE *out;
    void *made[OPTIONS_LIST_MAX]; /* by the index of options->tables */
    struct draws draws[OPTIONS_THREADS_MAX];
    unsigned draws_count;
    unsigned case_count;
    struct bench_case cases[CASES_MAX];
};

/* On separate cache lines, as each thread writes its own for every burst. */
struct runner {
    _Alignas(128) pthread_t thread;
    const struct bench_case *of;
    const struct draws *draws;
    unsigned from; /* where in the draws to begin */
    pthread_barrier_t *start;
    const atomic_bool *stop;
    bool joined;
    uint64_t operations;
    uint64_t ns;
    struct table_tally tally;
};

static void *run_thread(void *arg)
{
    struct runner *runner = arg;
    const struct table_ops *ops = runner->of->ops;
    void *worker = ops->join(runner->of->table);
    unsigned at = runner->from;
    uint64_t begin;

    runner->joined = worker != NULL;
    pthread_barrier_wait(runner->start);
    if (!worker)
        return NULL;
    begin = bench_now_ns();
    while (!atomic_load_explicit(runner->stop, memory_order_relaxed)) {
        struct table_requests requests =
            draws_part(runner->draws, at, TABLE_BURST, runner->of->group);
        ops->run(worker, &requests, &runner->tally);
        runner->operations += TABLE_BURST;
        at += TABLE_BURST;
        if (at == runner->draws->count)
            at = 0;
    }
    runner->ns = bench_now_ns() - begin;
    ops->leave(worker);
    return NULL;
}

static void sleep_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};

    while (nanosleep(&left, &left) != 0)
        continue;
}

/* One measurement; the rate is the sum of the threads' rates. */
static bool measure(struct speed *speed, struct bench_case *of, unsigned round, unsigned from)
{
    static struct runner runners[OPTIONS_THREADS_MAX];
    pthread_barrier_t start;
    atomic_bool stop = false;
    double rate = 0;
    bool good = true;

    pthread_barrier_init(&start, NULL, of->threads + 1);
    for (unsigned i = 0; i < of->threads; i++) {
        runners[i] = (struct runner){
            .of = of, .draws = &speed->draws[i], .from = from, .start = &start, .stop = &stop};
        if (pthread_create(&runners[i].thread, NULL, run_thread, &runners[i]) != 0) {
            bench_fail("can't start %u threads", of->threads);
            exit(EXIT_FAILURE); /* threads that were started wait at the barrier */
        }
    }
    pthread_barrier_wait(&start);
    sleep_seconds(speed->options->seconds);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < of->threads; i++) {
        pthread_join(runners[i].thread, NULL);
        good = good && runners[i].joined;
        rate += (double)runners[i].operations / (double)(runners[i].ns + 1) * 1e9;
        of->tally.hits += runners[i].tally.hits;
        of->tally.misses += runners[i].tally.misses;
        of->tally.failures += runners[i].tally.failures;
    }
    pthread_barrier_destroy(&start);
    of->rates[round] = rate;
    return good || bench_fail("no memory for the threads of %s", of->ops->name);
}

/* ---- before and after --------------------------------------------------------------------- */

static double bytes_per_item(const struct options *options)
{
    return load_workload_footprint_bytes(&options->workload) /
               (double)options->workload.popularity.keys +
           100;
}

/* A limit without evictions, including memory of overwritten items. */
static uint64_t engine_bytes(const struct options *options)
{
    if (options->size_count > 0)
        return (uint64_t)options->sizes[0].amount;
    return (uint64_t)((double)options->workload.popularity.keys * bytes_per_item(options) * 1.4) +
           (UINT64_C(64) << 20);
}

static bool tables_make(struct speed *speed)
{
    const struct options *options = speed->options;
    uint64_t keys = options->workload.popularity.keys;
    double bytes = (double)keys * bytes_per_item(options) * 1.3 * options->table_count;
    struct table_config config = {.memory_bytes = engine_bytes(options),
                                  .value_bytes_max = options_value_bytes_max(options),
                                  .items = keys,
                                  .policy = options->policies[0]};

    if (!bench_memory_suffices(bytes, "this"))
        return false;
    for (unsigned i = 0; i < options->threads_count; i++)
        if (options->threads[i] > config.threads_max)
            config.threads_max = options->threads[i];
    speed->draws_count = config.threads_max;
    for (unsigned i = 0; i < options->table_count; i++) {
        const struct table_ops *ops = options->tables[i];
        const char *error;
        speed->made[i] = ops->create(&config, &error);
        if (!speed->made[i])
            return bench_fail("%s: %s", ops->name, error);
        if (!bench_fill(ops, speed->made[i], options, keys))
            return false;
    }
    return true;
}

static void tables_free(struct speed *speed)
{
    for (unsigned i = 0; i < speed->options->table_count; i++)
        if (speed->made[i])
            speed->options->tables[i]->destroy(speed->made[i]);
    for (unsigned i = 0; i < OPTIONS_THREADS_MAX; i++)
        draws_free(&speed->draws[i]);
}

static bool cases_make(struct speed *speed)
{
    const struct options *options = speed->options;

    for (unsigned t = 0; t < options->threads_count; t++) {
        for (unsigned i = 0; i < options->table_count; i++) {
            unsigned groups = options->tables[i]->staged ? options->group_count : 1;
            for (unsigned g = 0; g < groups; g++) {
                if (speed->case_count == CASES_MAX)
                    return bench_fail("more than %d cases", CASES_MAX);
                speed->cases[speed->case_count++] = (struct bench_case){
                    .ops = options->tables[i],
                    .table = speed->made[i],
                    .threads = options->threads[t],
                    .group = options->tables[i]->staged ? options->groups[g] : 1};
            }
        }
    }
    return true;
}

/* New requests for each round; each case starts at another offset of them, with cold caches. */
static bool round_run(struct speed *speed, unsigned round)
{
    unsigned count = draws_wanted(&speed->options->workload);

    report_progress("round %u of %u: drawing", round + 1, speed->options->rounds);
    for (unsigned i = 0; i < speed->draws_count; i++) {
        struct load_workload workload = speed->options->workload;
        load_workload_reseed(&workload, 1 + round * OPTIONS_THREADS_MAX + i);
        if (!draws_make(&speed->draws[i], &workload, count))
            return bench_fail("no memory for %u requests", count);
    }
    for (unsigned i = 0; i < speed->case_count; i++) {
        unsigned from = count / speed->case_count * i / TABLE_BURST * TABLE_BURST;
        report_progress("round %u of %u: %s", round + 1, speed->options->rounds,
                        speed->cases[i].ops->name);
        if (!measure(speed, &speed->cases[i], round, from))
            return false;
    }
    return true;
}

/* ---- results -------------------------------------------------------------------------------- */

static void print_cases(struct speed *speed)
{
    const struct options *options = speed->options;

    fprintf(speed->out, "%s\n%u rounds of %g s, medians\n\n", options->workload_text,
            options->rounds, options->seconds);
    fprintf(speed->out, "%-11s %7s %7s %12s %9s %16s %8s\n", "table", "threads", "batch", "M ops/s",
            "ns/op", "min-max", "hits");
    for (unsigned i = 0; i < speed->case_count; i++) {
        const struct bench_case *of = &speed->cases[i];
        double looked = (double)(of->tally.hits + of->tally.misses);
        fprintf(speed->out, "%-11s %7u %7u %12.2f %9.1f %8.2f-%-7.2f %8.4f", of->ops->name,
                of->threads, of->group, of->rate / 1e6, 1e9 * of->threads / of->rate,
                of->rates[0] / 1e6, of->rates[options->rounds - 1] / 1e6,
                looked > 0 ? (double)of->tally.hits / looked : 0);
        if (of->tally.failures > 0)
            fprintf(speed->out, "  %llu SETs refused", (unsigned long long)of->tally.failures);
        fputc('\n', speed->out);
    }
}

/* Adds the other tables and batches with as many threads, and the same case with fewer threads. */
static void compare_cases(const struct speed *speed, const struct bench_case *of,
                          struct report_row *row)
{
    for (unsigned i = 0; i < speed->case_count; i++) {
        const struct bench_case *other = &speed->cases[i];
        char name[REPORT_NAME_MAX];
        if (other == of)
            continue;
        if (other->ops == of->ops && other->group == of->group && other->threads < of->threads)
            snprintf(name, sizeof(name), "%ut", other->threads);
        else if (other->ops == of->ops && other->threads == of->threads)
            snprintf(name, sizeof(name), "batch_%u", other->group);
        else if (other->ops != of->ops && other->threads == of->threads)
            snprintf(name, sizeof(name), "%s", other->ops->name);
        else
            continue;
        report_compare(row, name, other->rate / 1e6, false);
    }
}

/* One row per number of threads: the first table with its last batch size, with comparisons. */
static void add_rows(struct speed *speed)
{
    const struct options *options = speed->options;
    const struct table_ops *first = options->tables[0];
    unsigned group = first->staged ? options->groups[options->group_count - 1] : 1;

    for (unsigned i = 0; i < speed->case_count; i++) {
        const struct bench_case *of = &speed->cases[i];
        if (of->ops == first && of->group == group)
            compare_cases(speed, of,
                          report_add(speed->report, of->rate / 1e6, "Mops/s", options->rounds,
                                     "%s_%ut", options->name, of->threads));
    }
}

/* ---- single operations ---------------------------------------------------------------------- */

/* Duration of two clock readings, included in every sample. */
static uint64_t clock_cost_ns(void)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < 1000; i++) {
        uint64_t begin = bench_now_ns();
        uint64_t took = bench_now_ns() - begin;
        if (took < least)
            least = took;
    }
    return least;
}

/* One thread, one request at a time, each followed by a quiescent state. */
static bool latency_measure(struct speed *speed, unsigned table, struct load_histogram *histogram)
{
    const struct table_ops *ops = speed->options->tables[table];
    const struct draws *draws = &speed->draws[0];
    void *worker = ops->join(speed->made[table]);
    struct table_tally tally = {0};

    if (!worker)
        return bench_fail("no memory for a thread of %s", ops->name);
    for (unsigned i = 0, at = 0; i < LATENCY_SAMPLES; i++) {
        struct table_requests requests = draws_part(draws, at, 1, 1);
        uint64_t begin = bench_now_ns();
        ops->run(worker, &requests, &tally);
        load_histogram_count(histogram, bench_now_ns() - begin);
        if (++at == draws->count)
            at = 0;
    }
    ops->leave(worker);
    return true;
}

static bool latency_run(struct speed *speed)
{
    static const double percents[] = {50, 90, 99, 99.9, 99.99, 100};
    static const char *const names[] = {"p50", "p90", "p99", "p99_9", "p99_99", "max"};
    const struct options *options = speed->options;
    struct load_histogram *histogram = malloc(sizeof(*histogram));
    struct report_row *rows[6] = {NULL};

    if (!histogram)
        return bench_fail("no memory");
    fprintf(speed->out, "\nsingle operations, one thread, ns (including %llu of the clock)\n",
            (unsigned long long)clock_cost_ns());
    for (unsigned i = 0; i < options->table_count; i++) {
        load_histogram_clear(histogram);
        if (!latency_measure(speed, i, histogram)) {
            free(histogram);
            return false;
        }
        fprintf(speed->out, "%-11s", options->tables[i]->name);
        for (unsigned p = 0; p < 6; p++) {
            uint64_t ns = load_histogram_percentile(histogram, percents[p]);
            fprintf(speed->out, "  %s %llu", names[p], (unsigned long long)ns);
            if (i == 0)
                rows[p] = report_add(speed->report, (double)ns, "ns", 1, "%s_latency_%s",
                                     options->name, names[p]);
            else
                report_compare(rows[p], options->tables[i]->name, (double)ns, true);
        }
        fputc('\n', speed->out);
    }
    free(histogram);
    return true;
}

bool speed_run(const struct options *options, struct report *report, FILE *out)
{
    struct speed *speed = calloc(1, sizeof(*speed));
    bool good;

    if (!speed)
        return bench_fail("no memory");
    *speed = (struct speed){.options = options, .report = report, .out = out};
    good = tables_make(speed) && cases_make(speed);
    for (unsigned round = 0; good && round < options->rounds; round++)
        good = round_run(speed, round);
    report_progress(NULL);
    if (good) {
        for (unsigned i = 0; i < speed->case_count; i++)
            speed->cases[i].rate = report_median(speed->cases[i].rates, options->rounds);
        print_cases(speed);
        add_rows(speed);
        if (options->latency)
            good = latency_run(speed);
    }
    tables_free(speed);
    free(speed);
    return good;
}
