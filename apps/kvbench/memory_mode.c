/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench memory: memory overhead per item, and number of items at a limit. Stores keys until the
 * table evicts, and then twice as many again, so that the free reserve is included.
 */
#include <math.h>
#include <stdlib.h>

#include "kvbench/bench.h"
#include "kvbench/draws.h"
#include "kvbench/memcached.h"

#define MEMORY_DEFAULT (UINT64_C(256) << 20)
#define PART 4096

struct held {
    uint64_t stored;      /* keys before the first was evicted */
    double overhead;      /* bytes per item then, index included */
    uint64_t items;       /* that are there at the end */
    double full_overhead; /* the limit's bytes per item, beyond key and value */
};

/* Bytes of key and value of the mean item. */
static double payload(const struct options *options)
{
    return load_workload_footprint_bytes(&options->workload) /
           (double)options->workload.popularity.keys;
}

static bool store(const struct options *options, void *worker, uint64_t *first, struct draws *draws)
{
    struct table_tally tally = {0};

    if (!draws_fill(draws, &options->workload, *first, PART))
        return bench_fail("no memory");
    for (unsigned i = 0; i < PART; i += TABLE_BURST) {
        struct table_requests requests = draws_part(draws, i, TABLE_BURST, 1);
        table_engine.run(worker, &requests, &tally);
    }
    *first += PART;
    if (tally.failures > 0)
        return bench_fail("the engine refused %llu SETs", (unsigned long long)tally.failures);
    return true;
}

/* Stores keys until one is evicted; measures the overhead just before. */
static bool engine_held(const struct options *options, void *table, void *worker, uint64_t limit,
                        struct held *held)
{
    struct kv *kv = table_engine_kv(table);
    struct draws draws = {0};
    struct kv_stats stats = {0};
    uint64_t first = 0;
    bool good = true;

    while (good && stats.evictions == 0) {
        if (stats.items > 0) {
            held->stored = stats.items;
            held->overhead = (double)(stats.item_bytes + stats.index_bytes) / (double)stats.items -
                             payload(options);
        }
        good = store(options, worker, &first, &draws);
        kv_stats(kv, &stats);
        report_progress("%llu items", (unsigned long long)stats.items);
    }
    for (uint64_t until = 3 * first; good && first < until;)
        good = store(options, worker, &first, &draws);
    report_progress(NULL);
    kv_stats(kv, &stats);
    held->items = stats.items;
    held->full_overhead = (double)limit / (double)stats.items - payload(options);
    draws_free(&draws);
    return good;
}

static bool engine_run(const struct options *options, uint64_t limit, struct held *held)
{
    struct table_config config = {.memory_bytes = limit,
                                  .value_bytes_max = options_value_bytes_max(options),
                                  .threads_max = 1,
                                  .policy = options->policies[0]};
    const char *error;
    void *table = table_engine.create(&config, &error);
    void *worker;
    bool good;

    if (!table)
        return bench_fail("engine: %s", error);
    worker = table_engine.join(table);
    good = worker ? engine_held(options, table, worker, limit, held) : bench_fail("no memory");
    if (worker)
        table_engine.leave(worker);
    table_engine.destroy(table);
    return good;
}

/* Stores the same keys in the same order in memcached. */
static bool memcached_run(const struct options *options, uint64_t limit, uint64_t keys,
                          double *items)
{
    char error[LOAD_ERROR_MAX];
    struct load_request request;
    struct memcached *memcached =
        memcached_start(options->memcached, limit, options_value_bytes_max(options), error);
    bool good = memcached != NULL;

    for (uint64_t id = 0; good && id < keys; id++) {
        load_workload_describe(&options->workload, id, &request);
        request.op = LOAD_SET;
        good = memcached_request(memcached, &request, error);
        if (id % 65536 == 0)
            report_progress("memcached: %.0f %%", 100.0 * (double)id / (double)keys);
    }
    good = good && memcached_flush(memcached, error);
    report_progress(NULL);
    if (good)
        *items = memcached_stat(memcached, NULL, "curr_items");
    if (memcached)
        memcached_stop(memcached);
    if (!good)
        return bench_fail("%s", error);
    return *items > 0 || bench_fail("memcached reports no number of items");
}

bool memory_run(const struct options *options, struct report *report, FILE *out)
{
    uint64_t limit = options->size_count > 0 ? (uint64_t)options->sizes[0].amount : MEMORY_DEFAULT;
    struct held held = {0};
    struct report_row *row;
    double memcached = 0;

    if (!bench_memory_suffices((double)limit * (options->memcached ? 2 : 1), "this") ||
        !engine_run(options, limit, &held))
        return false;
    fprintf(out, "%s, limit %llu MiB, %.1f bytes of key and value per item\n\n",
            options->workload_text, (unsigned long long)(limit >> 20), payload(options));
    fprintf(out, "engine, before the first eviction: %10llu items, %6.1f bytes beyond each\n",
            (unsigned long long)held.stored, held.overhead);
    fprintf(out, "engine, full:                      %10llu items, %6.1f\n",
            (unsigned long long)held.items, held.full_overhead);
    report_add(report, held.overhead, "bytes", 1, "item_overhead_bytes");
    row = report_add(report, (double)held.items, "items", 1, "items_at_limit");
    if (!options->memcached)
        return true;
    if (!memcached_run(options, limit, 3 * held.items, &memcached))
        return false;
    fprintf(out,
            "memcached, full:                   %10.0f items, %6.1f (engine: %+.1f %% items)\n",
            memcached, (double)limit / memcached - payload(options),
            100 * ((double)held.items / memcached - 1));
    report_compare(row, "memcached", memcached, false);
    return true;
}
