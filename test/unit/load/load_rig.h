/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of src/load: cmocka, the norm of zipf, and limits of random errors. */
#ifndef TEST_LOAD_RIG_H
#define TEST_LOAD_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "load/random.h"

/* Fails unless `value` is within `tolerance` of `expected`. */
static inline void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.6g is not within %.3g of %.6g", value, tolerance, expected);
}

/* The sum of k ^ -theta over k = 1 .. ranks, the smallest terms first. */
static inline double zipf_norm(uint64_t ranks, double theta)
{
    double sum = 0;

    for (uint64_t k = ranks; k >= 1; k--)
        sum += pow((double)k, -theta);
    return sum;
}

/*
 * Pearson's chi-square test of counts against probabilities; fails beyond 4.5 standard deviations.
 */
static inline void assert_distributed(const uint64_t *counts, const double *shares, unsigned bins,
                                      uint64_t draws)
{
    double chi = 0;

    for (unsigned i = 0; i < bins; i++) {
        double expected = shares[i] * (double)draws;
        double off = (double)counts[i] - expected;
        chi += off * off / expected;
    }
    if (!(chi < bins - 1 + 4.5 * sqrt(2.0 * (bins - 1))))
        fail_msg("chi-square is %.1f with %u degrees of freedom", chi, bins - 1);
}

#endif
