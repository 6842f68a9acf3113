/* SPDX-License-Identifier: BSD-3-Clause */
/* The histogram against sorted values, and its bytes in HdrHistogram's format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "load/histogram.h"

static struct load_histogram h, sum;

static void test_empty(void **state)
{
    (void)state;
    load_histogram_clear(&h);
    assert_int_equal(load_histogram_percentile(&h, 99), 0);
    assert_true(load_histogram_mean(&h) == 0);
}

/* Small values have slots of their own; the largest one, and more, is in the last slot. */
static void test_slots(void **state)
{
    uint64_t v;

    (void)state;
    for (v = 0; v < 2048; v++)
        assert_int_equal(load_histogram_slot(v), v);
    assert_int_equal(load_histogram_slot(2048), load_histogram_slot(2049));
    assert_int_equal(load_histogram_slot(2050), load_histogram_slot(2048) + 1);
    assert_true(load_histogram_slot(LOAD_HISTOGRAM_VALUE_MAX) < LOAD_HISTOGRAM_SLOTS);
    load_histogram_clear(&h);
    load_histogram_count(&h, UINT64_MAX);
    assert_int_equal(h.max, LOAD_HISTOGRAM_VALUE_MAX);
    assert_int_equal(load_histogram_percentile(&h, 50), LOAD_HISTOGRAM_VALUE_MAX);
}

/* Slots follow each other without gap or overlap. */
static void test_slots_are_monotonic(void **state)
{
    uint64_t v = 1;
    unsigned last = 0;

    (void)state;
    for (; v < LOAD_HISTOGRAM_VALUE_MAX; v += v / 3000 + 1) {
        unsigned slot = load_histogram_slot(v);

        assert_true(slot == last || slot == last + 1);
        last = slot;
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* 99.9 % of 1000 values is 999 of them, although 99.9 is a little more than that in binary. */
static void test_percentiles_are_not_rounded_up(void **state)
{
    uint64_t value;

    (void)state;
    load_histogram_clear(&h);
    for (value = 1; value <= 1000; value++)
        load_histogram_count(&h, value);
    assert_int_equal(load_histogram_percentile(&h, 99.9), 999);
    assert_int_equal(load_histogram_percentile(&h, 99.91), 1000);
    assert_int_equal(load_histogram_percentile(&h, 50), 500);
    assert_int_equal(load_histogram_percentile(&h, 0.1), 1);
}

static void test_percentiles_within_a_thousandth(void **state)
{
    enum { N = 5001 };
    static uint64_t values[N];
    static const double percents[] = {0, 0.1, 10, 50, 90, 99, 99.9, 100};
    struct u_prng prng;
    unsigned i;

    (void)state;
    u_prng_seed(&prng, 5);
    load_histogram_clear(&h);
    for (i = 0; i < N; i++) {
        values[i] = u_prng_next(&prng) >> (20 + u_prng_below(&prng, 40));
        if (values[i] > LOAD_HISTOGRAM_VALUE_MAX)
            values[i] = LOAD_HISTOGRAM_VALUE_MAX;
        load_histogram_count(&h, values[i]);
    }
    qsort(values, N, sizeof(values[0]), by_value);
    for (i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        double rank = percents[i] / 100 * N;
        unsigned at = rank > (double)(unsigned)rank ? (unsigned)rank : (unsigned)rank - (rank >= 1);
        uint64_t found = load_histogram_percentile(&h, percents[i]);

        assert_true(found >= values[at]);
        assert_true(found <= values[at] + values[at] / 1000 + 1);
    }
    assert_int_equal(load_histogram_percentile(&h, 100), values[N - 1]);
    assert_int_equal(h.min, values[0]);
}

static void test_sum_of_two(void **state)
{
    (void)state;
    load_histogram_clear(&h);
    load_histogram_clear(&sum);
    load_histogram_count(&h, 10);
    load_histogram_count(&h, 30);
    load_histogram_add(&sum, &h);
    load_histogram_add(&sum, &h);
    assert_int_equal(sum.total, 4);
    assert_true(load_histogram_mean(&sum) == 20);
    assert_int_equal(sum.min, 10);
    assert_int_equal(sum.max, 30);
}

/* One stall of 1000 in a loop with interval 100: 900, 800, ... 100 were omitted. */
static void test_correction(void **state)
{
    (void)state;
    load_histogram_clear(&h);
    load_histogram_clear(&sum);
    load_histogram_count(&h, 1000);
    load_histogram_count(&h, 50);
    load_histogram_count(&h, 150);
    load_histogram_add_corrected(&sum, &h, 100);
    assert_int_equal(sum.total, 3 + 9);
    assert_int_equal(sum.counts[900], 1);
    assert_int_equal(sum.counts[100], 1);
    assert_int_equal(sum.sum, 50 + 150 + 1000 + 4500);
    assert_int_equal(sum.max, 1000);
}

/* A corrected value may be the minimum. */
static void test_correction_has_a_minimum(void **state)
{
    (void)state;
    load_histogram_clear(&h);
    load_histogram_clear(&sum);
    load_histogram_count(&h, 1000);
    load_histogram_add_corrected(&sum, &h, 100);
    assert_int_equal(sum.min, 100);
    assert_int_equal(sum.max, 1000);
}

/* The work for a small interval is limited. */
static void test_correction_is_bounded(void **state)
{
    (void)state;
    load_histogram_clear(&h);
    load_histogram_clear(&sum);
    load_histogram_count(&h, LOAD_HISTOGRAM_VALUE_MAX);
    load_histogram_add_corrected(&sum, &h, 1);
    assert_int_equal(sum.total, 1 + (1 << 20));
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Two zeros, a one, and 300 at 5: -2, 1, -2 (3 and 4), 300 in zigzag and groups of seven bits. */
static void test_encoding(void **state)
{
    static const uint8_t counts[] = {0x03, 0x02, 0x03, 0xd8, 0x04};
    static uint8_t out[LOAD_HISTOGRAM_ENCODED_MAX];
    const uint8_t *plain = out + 8 + 2 + 5;
    size_t len;
    unsigned i;

    (void)state;
    load_histogram_clear(&h);
    load_histogram_count(&h, 2);
    for (i = 0; i < 300; i++)
        load_histogram_count(&h, 5);
    len = load_histogram_encode(&h, out);
    assert_int_equal(be32(out), 0x1c849314);
    assert_int_equal(be32(out + 4), len - 8);
    assert_int_equal((out[8] << 8 | out[9]) % 31, 0); /* RFC 1950 2.2 */
    assert_int_equal(out[10], 1);
    assert_int_equal(out[11] | out[12] << 8, 40 + sizeof(counts));
    assert_int_equal(be32(plain), 0x1c849313);
    assert_int_equal(be32(plain + 4), sizeof(counts));
    assert_memory_equal(plain + 40, counts, sizeof(counts));
    assert_int_equal(len, 8 + 2 + 5 + 40 + sizeof(counts) + 4);
}

/* All slots in use: several stored blocks, within the documented maximum. */
static void test_encoding_of_everything(void **state)
{
    static uint8_t out[LOAD_HISTOGRAM_ENCODED_MAX];
    uint32_t a = 1, b = 0, bytes;
    const uint8_t *at = out + 10;
    unsigned i, blocks = 0;
    bool is_last;

    (void)state;
    load_histogram_clear(&h);
    load_histogram_count(&h, LOAD_HISTOGRAM_VALUE_MAX);
    for (i = 0; i < LOAD_HISTOGRAM_SLOTS; i++)
        h.counts[i] = UINT64_MAX / 2;
    i = (unsigned)load_histogram_encode(&h, out);
    assert_true(i <= sizeof(out));
    assert_int_equal(be32(out + 4), i - 8);
    do { /* RFC 1951 3.2.4: flag, length, its complement, bytes */
        is_last = at[0] != 0;
        bytes = at[1] | (uint32_t)at[2] << 8;
        assert_int_equal(at[3] | at[4] << 8, bytes ^ 0xffff);
        for (at += 5; bytes > 0; bytes--) { /* Adler-32, RFC 1950 section 9 */
            a = (a + *at++) % 65521;
            b = (b + a) % 65521;
        }
        blocks++;
        assert_true(at + 4 <= out + i);
    } while (!is_last);
    assert_int_equal(blocks, 5);
    assert_int_equal(be32(at), b << 16 | a);
    assert_ptr_equal(at + 4, out + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_slots_are_monotonic),
        cmocka_unit_test(test_percentiles_are_not_rounded_up),
        cmocka_unit_test(test_percentiles_within_a_thousandth),
        cmocka_unit_test(test_sum_of_two),
        cmocka_unit_test(test_correction),
        cmocka_unit_test(test_correction_has_a_minimum),
        cmocka_unit_test(test_correction_is_bounded),
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_encoding_of_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
