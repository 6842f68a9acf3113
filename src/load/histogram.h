/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A latency histogram with a relative error of at most 0.1 %, in the bucket layout of HdrHistogram
 * with three significant digits, which other tools can read.
 *
 * Values are integers of any unit; the load generators use nanoseconds. Used by one thread at a
 * time. Counting a value touches one cache line of the buckets.
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Larger values are counted as this one: an hour in nanoseconds. */
#define LOAD_HISTOGRAM_VALUE_MAX UINT64_C(3600000000000)

#define LOAD_HISTOGRAM_DIGITS 3

/*
 * Values below 2^11 have one slot each; each further power of two has 2^10 slots, 31 times until
 * the largest value.
 */
#define LOAD_HISTOGRAM_HALF_BITS 10
#define LOAD_HISTOGRAM_SLOTS ((32 + 1) << LOAD_HISTOGRAM_HALF_BITS)

struct load_histogram {
    uint64_t total; /* values counted */
    uint64_t sum;   /* of the values */
    uint64_t min;   /* UINT64_MAX if empty */
    uint64_t max;
    uint64_t counts[LOAD_HISTOGRAM_SLOTS];
};

void load_histogram_clear(struct load_histogram *h);

/* The slot of a value up to LOAD_HISTOGRAM_VALUE_MAX. */
static inline unsigned load_histogram_slot(uint64_t value)
{
    uint64_t low = (UINT64_C(2) << LOAD_HISTOGRAM_HALF_BITS) - 1;
    unsigned shift = (unsigned)(64 - __builtin_clzll(value | low)) - (LOAD_HISTOGRAM_HALF_BITS + 1);

    return (shift << LOAD_HISTOGRAM_HALF_BITS) + (unsigned)(value >> shift);
}

static inline void load_histogram_count(struct load_histogram *h, uint64_t value)
{
    if (value > LOAD_HISTOGRAM_VALUE_MAX)
        value = LOAD_HISTOGRAM_VALUE_MAX;
    h->total++;
    h->sum += value;
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->counts[load_histogram_slot(value)]++;
}

/* Adds the counts of `from` to `to`. */
void load_histogram_add(struct load_histogram *to, const struct load_histogram *from);

/*
 * Adds the counts of `from`, which a closed loop measured, corrected for coordinated omission: a
 * value above `interval` is accompanied by the latencies of the requests that were not sent
 * meanwhile, value - interval, value - 2 * interval and so on, at most 2^20 of them. interval > 0.
 */
void load_histogram_add_corrected(struct load_histogram *to, const struct load_histogram *from,
                                  uint64_t interval);

/*
 * The percentile: the smallest value that `percent` (0..100) of all values do not exceed, rounded
 * up to the end of its slot, at most the largest value. 0 if empty.
 */
uint64_t load_histogram_percentile(const struct load_histogram *h, double percent);

/* 0 if empty. */
double load_histogram_mean(const struct load_histogram *h);

/* Maximum result of load_histogram_encode(). */
#define LOAD_HISTOGRAM_ENCODED_MAX (LOAD_HISTOGRAM_SLOTS * 9 + 256)

/*
 * Writes HdrHistogram's compressed format, version 2, which its logs contain in base64. `out` has
 * LOAD_HISTOGRAM_ENCODED_MAX bytes. Returns the length.
 */
size_t load_histogram_encode(const struct load_histogram *h, uint8_t *out);

#endif
