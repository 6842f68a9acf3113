/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms; see histogram.h. */
#include "load/histogram.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

#define CORRECTIONS_MAX (UINT64_C(1) << 20)

/* HdrHistogram's cookies for format version 2, with counts of variable length. */
#define COOKIE_PLAIN 0x1c849313u
#define COOKIE_COMPRESSED 0x1c849314u

#define HEADER_BYTES 40
#define STORED_MAX 65535 /* bytes in one uncompressed block of RFC 1951 */

void load_histogram_clear(struct load_histogram *h)
{
    memset(h, 0, sizeof(*h));
    h->min = UINT64_MAX;
}

/* The largest value in this slot. */
static uint64_t slot_end(unsigned slot)
{
    unsigned half = 1u << LOAD_HISTOGRAM_HALF_BITS;
    unsigned shift = slot < 2 * half ? 0 : (slot >> LOAD_HISTOGRAM_HALF_BITS) - 1;
    uint64_t mantissa = slot - ((uint64_t)shift << LOAD_HISTOGRAM_HALF_BITS);

    return ((mantissa + 1) << shift) - 1;
}

static void add_bounds(struct load_histogram *to, const struct load_histogram *from)
{
    if (from->min < to->min)
        to->min = from->min;
    if (from->max > to->max)
        to->max = from->max;
}

void load_histogram_add(struct load_histogram *to, const struct load_histogram *from)
{
    unsigned i;

    for (i = 0; i < LOAD_HISTOGRAM_SLOTS; i++)
        to->counts[i] += from->counts[i];
    to->total += from->total;
    to->sum += from->sum;
    add_bounds(to, from);
}

static void count_many(struct load_histogram *h, uint64_t value, uint64_t times)
{
    h->counts[load_histogram_slot(value)] += times;
    h->total += times;
    h->sum += value * times;
    if (value < h->min)
        h->min = value;
}

void load_histogram_add_corrected(struct load_histogram *to, const struct load_histogram *from,
                                  uint64_t interval)
{
    uint64_t end, value, left;
    unsigned i;

    U_ASSERT(interval > 0);
    load_histogram_add(to, from);
    for (i = 0; i < LOAD_HISTOGRAM_SLOTS; i++) {
        if (from->counts[i] == 0)
            continue;
        end = slot_end(i) < from->max ? slot_end(i) : from->max;
        left = CORRECTIONS_MAX;
        for (value = end; value >= 2 * interval && left > 0; left--) {
            value -= interval;
            count_many(to, value, from->counts[i]);
        }
    }
}

uint64_t load_histogram_percentile(const struct load_histogram *h, double percent)
{
    double share = (percent > 100 ? 100 : percent) * (double)h->total / 100;
    /* The product may exceed a whole number by a rounding error (99.9 % of 20000). */
    uint64_t wanted = (uint64_t)ceil(nextafter(share, 0));
    uint64_t seen = 0;
    unsigned i;

    if (h->total == 0)
        return 0;
    if (wanted == 0)
        wanted = 1;
    for (i = 0; i < LOAD_HISTOGRAM_SLOTS - 1; i++) {
        seen += h->counts[i];
        if (seen >= wanted)
            break;
    }
    return slot_end(i) < h->max ? slot_end(i) : h->max;
}

double load_histogram_mean(const struct load_histogram *h)
{
    return h->total ? (double)h->sum / (double)h->total : 0;
}

/* ---- encoding ---------------------------------------------------------------------------- */

static uint8_t *put_be(uint8_t *at, uint64_t v, unsigned bytes)
{
    while (bytes-- > 0)
        *at++ = (uint8_t)(v >> (8 * bytes));
    return at;
}

/* ZigZag LEB128: the sign in the lowest bit, seven bits per byte; the ninth byte has eight. */
static uint8_t *put_zigzag(uint8_t *at, int64_t v)
{
    uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    unsigned i;

    for (i = 0; i < 8 && z > 0x7f; i++) {
        *at++ = (uint8_t)(z | 0x80);
        z >>= 7;
    }
    *at++ = (uint8_t)z;
    return at;
}

/* Writes the counts up to the last non-zero one; a run of n zeros is -n. */
static uint8_t *put_counts(uint8_t *at, const struct load_histogram *h)
{
    unsigned slots = h->total ? load_histogram_slot(h->max) + 1 : 0;
    unsigned i, zeros;

    for (i = 0; i < slots; i += zeros ? zeros : 1) {
        for (zeros = 0; i + zeros < slots && h->counts[i + zeros] == 0;)
            zeros++;
        at = put_zigzag(at, zeros ? -(int64_t)zeros : (int64_t)h->counts[i]);
    }
    return at;
}

static uint8_t *put_plain(uint8_t *at, const struct load_histogram *h)
{
    uint8_t *counts = at + HEADER_BYTES;
    uint8_t *end = put_counts(counts, h);
    const double ratio = 1;
    uint64_t ratio_bits;

    memcpy(&ratio_bits, &ratio, sizeof(ratio_bits));
    at = put_be(at, COOKIE_PLAIN, 4);
    at = put_be(at, (uint64_t)(end - counts), 4);
    at = put_be(at, 0, 4); /* normalizing offset */
    at = put_be(at, LOAD_HISTOGRAM_DIGITS, 4);
    at = put_be(at, 1, 8); /* lowest value */
    at = put_be(at, LOAD_HISTOGRAM_VALUE_MAX, 8);
    put_be(at, ratio_bits, 8);
    return end;
}

static uint32_t adler32(const uint8_t *data, size_t len)
{
    uint32_t a = 1, b = 0;

    while (len-- > 0) {
        a = (a + *data++) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/*
 * Writes a zlib stream (RFC 1950) of stored blocks, which needs no library: runs of zeros are
 * already short. `data` is behind `at`, with room for the block headers in between.
 */
static uint8_t *put_zlib(uint8_t *at, const uint8_t *data, size_t len)
{
    uint32_t sum = adler32(data, len);
    size_t n;

    *at++ = 0x78;
    *at++ = 0x01;
    do {
        n = len < STORED_MAX ? len : STORED_MAX;
        *at++ = n == len;
        *at++ = (uint8_t)n;
        *at++ = (uint8_t)(n >> 8);
        *at++ = (uint8_t)~n;
        *at++ = (uint8_t)(~n >> 8);
        memmove(at, data, n);
        at += n;
        data += n;
        len -= n;
    } while (len > 0);
    return put_be(at, sum, 4);
}

size_t load_histogram_encode(const struct load_histogram *h, uint8_t *out)
{
    uint8_t *plain = out + 128; /* after the headers of at most five blocks */
    uint8_t *plain_end = put_plain(plain, h);
    uint8_t *end = put_zlib(out + 8, plain, (size_t)(plain_end - plain));

    put_be(put_be(out, COOKIE_COMPRESSED, 4), (uint64_t)(end - (out + 8)), 4);
    return (size_t)(end - out);
}
