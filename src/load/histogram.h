/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of latencies, each within 0.1 % of its value: the bucket layout of HdrHistogram with three
 * significant digits, so that other tools can read what is written.
 *
 * Values are whole numbers of any unit; the load generators count nanoseconds. A histogram belongs
 * to one thread at a time. To count is a handful of instructions and touches one cache line.
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Values above count as this one: an hour in nanoseconds. */
#define LOAD_HISTOGRAM_VALUE_MAX UINT64_C(3600000000000)

#define LOAD_HISTOGRAM_DIGITS 3

/*
 * Values below 2^11 have a slot each; each doubling beyond has 2^10 slots, 31 times until the
 * largest value is covered.
 */
#define LOAD_HISTOGRAM_HALF_BITS 10
#define LOAD_HISTOGRAM_SLOTS ((32 + 1) << LOAD_HISTOGRAM_HALF_BITS)

struct load_histogram {
    uint64_t total; /* values counted */
    uint64_t sum;   /* of them */
    uint64_t min;   /* UINT64_MAX while there is none */
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

/* Adds all that `from` has counted to `to`. */
void load_histogram_add(struct load_histogram *to, const struct load_histogram *from);

/*
 * The same for a closed loop that wanted to send once per `interval`: each value above it stands
 * also for those that could not be sent meanwhile and would have seen value - interval, value - 2 *
 * interval and so on. That corrects the coordinated omission of a stall afterwards. interval is not
 * 0; a value counts for 2^20 others at most.
 */
void load_histogram_add_corrected(struct load_histogram *to, const struct load_histogram *from,
                                  uint64_t interval);

/*
 * The value that `percent` (0..100) of all are not above, to the upper end of its slot but never
 * above the largest; 0 if nothing was counted.
 */
uint64_t load_histogram_percentile(const struct load_histogram *h, double percent);

/* 0 if nothing was counted. */
double load_histogram_mean(const struct load_histogram *h);

/* Bytes that load_histogram_encode() may need. */
#define LOAD_HISTOGRAM_ENCODED_MAX (LOAD_HISTOGRAM_SLOTS * 9 + 256)

/*
 * Writes the counts in HdrHistogram's compressed format, version 2, which its logs have in base64.
 * `out` has room for LOAD_HISTOGRAM_ENCODED_MAX. Returns the length.
 */
size_t load_histogram_encode(const struct load_histogram *h, uint8_t *out);

#endif
