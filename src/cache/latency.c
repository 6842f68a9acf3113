/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms by command; see latency.h. */
#include "cache/latency.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cache/exec_stats.h"
#include "cache/hot_keys.h"

U_STATIC_ASSERT(MC_CMD_MN + 1 == CACHE_LATENCY_CLASSES, a_class_for_each_command_up_to_mn);
U_STATIC_ASSERT(CACHE_LATENCY_CLASSES <= 32, the_classes_fit_a_word);

uint64_t cache_latency_slot_ns(unsigned slot)
{
    unsigned half = 1u << CACHE_LATENCY_SUB_BITS;
    unsigned shift = slot < 2 * half ? 0 : (slot >> CACHE_LATENCY_SUB_BITS) - 1;

    return (uint64_t)(slot - (shift << CACHE_LATENCY_SUB_BITS)) << shift;
}

void cache_latency_record(struct cache_worker *worker, uint64_t ns)
{
    struct cache_latency_counts *counts = worker->latency;
    unsigned slot = cache_latency_slot(ns);
    unsigned classes = worker->latency_classes;
    int64_t left = worker->hot_left;

    worker->latency_classes = 0;
    do {
        unsigned class = (unsigned)__builtin_ctz(classes);
        uint32_t n = worker->latency_pending[class];

        worker->latency_pending[class] = 0;
        left -= n;
        cache_add(&counts[class].slots[slot], n);
        classes &= classes - 1;
    } while (classes != 0);
    worker->hot_left = left;
    if (U_UNLIKELY(left <= 0))
        cache_hot_next(worker);
}

/* ---- sums -------------------------------------------------------------------------------- */

static void add(struct cache_latency *to, const struct cache_latency_counts *from)
{
    for (unsigned slot = 0; slot < CACHE_LATENCY_SLOTS; slot++)
        to->slots[slot] += atomic_load_explicit(&from->slots[slot], memory_order_relaxed);
}

static void total(const struct cache *cache, unsigned class, struct cache_latency *to)
{
    memset(to, 0, sizeof(*to));
    add(to, &cache->latency_left[class]);
    for (unsigned i = 0; i < cache->settings.threads; i++)
        if (cache->workers[i] != NULL)
            add(to, &cache->workers[i]->latency[class]);
}

void cache_latency_leave(struct cache_worker *worker)
{
    struct cache_latency_counts *left = worker->cache->latency_left;

    for (unsigned class = 0; class < CACHE_LATENCY_CLASSES; class ++) {
        struct cache_latency own = {0};

        add(&own, &worker->latency[class]);
        for (unsigned slot = 0; slot < CACHE_LATENCY_SLOTS; slot++)
            if (own.slots[slot] > 0)
                cache_add(&left[class].slots[slot], own.slots[slot]);
    }
}

void cache_latency_reset(struct cache *cache)
{
    for (unsigned class = 0; class < CACHE_LATENCY_CLASSES; class ++)
        total(cache, class, &cache->latency_base[class]);
}

uint64_t cache_latency_read(struct cache *cache, unsigned class, struct cache_latency *sum)
{
    const struct cache_latency *base = &cache->latency_base[class];
    uint64_t count = 0;

    pthread_mutex_lock(&cache->lock);
    total(cache, class, sum);
    for (unsigned slot = 0; slot < CACHE_LATENCY_SLOTS; slot++) {
        sum->slots[slot] -= base->slots[slot];
        count += sum->slots[slot];
    }
    pthread_mutex_unlock(&cache->lock);
    return count;
}

const char *cache_latency_name(unsigned class)
{
    return class == 0 ? "other" : mc_command_name((enum mc_command) class);
}

uint64_t cache_latency_below(const struct cache_latency *sum, uint64_t ns)
{
    unsigned end = cache_latency_slot(ns);
    uint64_t count = 0;

    for (unsigned slot = 0; slot < end; slot++)
        count += sum->slots[slot];
    return count;
}

/* The middle of a slot. */
static uint64_t middle_ns(unsigned slot)
{
    return (cache_latency_slot_ns(slot) + cache_latency_slot_ns(slot + 1) - 1) / 2;
}

uint64_t cache_latency_sum_ns(const struct cache_latency *sum)
{
    uint64_t ns = 0;

    for (unsigned slot = 0; slot < CACHE_LATENCY_SLOTS; slot++)
        ns += sum->slots[slot] * middle_ns(slot);
    return ns;
}

/* ---- the list ---------------------------------------------------------------------------- */

/* The middle of the slot of the request with this rank, counted from 1. */
static uint64_t ranked_ns(const struct cache_latency *sum, uint64_t rank)
{
    uint64_t seen = 0;
    unsigned slot;

    for (slot = 0; slot < CACHE_LATENCY_SLOTS - 1; slot++) {
        seen += sum->slots[slot];
        if (seen >= rank)
            break;
    }
    return middle_ns(slot);
}

static void class_line(struct cache_stats_out *out, unsigned class, const char *what,
                       uint64_t value)
{
    char name[32];

    snprintf(name, sizeof(name), "%s:%s", cache_latency_name(class), what);
    cache_stats_number(out, name, value);
}

static void class_lines(struct cache_stats_out *out, unsigned class,
                        const struct cache_latency *sum, uint64_t count)
{
    static const struct {
        const char *name;
        unsigned per_10000;
    } percentiles[] = {
        {"p50_ns", 5000}, {"p90_ns", 9000}, {"p99_ns", 9900}, {"p999_ns", 9990}, {"p9999_ns", 9999},
    };

    class_line(out, class, "count", count);
    class_line(out, class, "mean_ns", cache_latency_sum_ns(sum) / count);
    for (unsigned i = 0; i < U_ARRAY_LEN(percentiles); i++) {
        /* Rounded up, without overflow: the request that this share of all does not exceed. */
        uint64_t per_10000 = percentiles[i].per_10000;
        uint64_t rank = count / 10000 * per_10000 + (count % 10000 * per_10000 + 10000 - 1) / 10000;

        class_line(out, class, percentiles[i].name, ranked_ns(sum, rank));
    }
    class_line(out, class, "max_ns", ranked_ns(sum, count));
}

void cache_stats_latency(struct cache_stats_out *out)
{
    struct cache_latency sum;

    for (unsigned class = 0; class < CACHE_LATENCY_CLASSES; class ++) {
        uint64_t count = cache_latency_read(out->cache, class, &sum);

        if (count > 0)
            class_lines(out, class, &sum, count);
    }
}
