/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zipf's law over n ranks: rank r (from 0) has a probability proportional to (r + 1) ^ -theta.
 *
 * Exact for every theta > 0: rejection-inversion (Hoermann and Derflinger, "Rejection-inversion to
 * generate variates from monotone discrete distributions", 1996) needs about 1.1 tries per draw for
 * any n. The exact computation of a try needs logarithms; a table of polynomials replaces it for
 * points whose result it determines unambiguously, so that draws are the same with and without the
 * table.
 */
#ifndef LOAD_ZIPF_H
#define LOAD_ZIPF_H

#include <stdint.h>

#include "base/prng.h"

#define LOAD_ZIPF_THETA_MAX 20.0
#define LOAD_ZIPF_RANKS_MAX (UINT64_C(1) << 48)

/* Random bits per try; the first ones select the piece of the table. */
#define LOAD_ZIPF_BITS 53
#define LOAD_ZIPF_PIECE_BITS 9
#define LOAD_ZIPF_PIECES (1u << LOAD_ZIPF_PIECE_BITS)
#define LOAD_ZIPF_DEGREE 5

/* The try was rejected. */
#define LOAD_ZIPF_AGAIN UINT64_MAX

struct load_zipf {
    uint64_t ranks;
    double theta;
    double area_first; /* the integral at the start of the first rank's strip */
    double area_last;  /* the integral at the end of the last rank's strip */
    double sure;      /* a point at most this far below the rank is accepted without further test */
    double near_from; /* a polynomial value with a fraction from here */
    double near_upto; /* to here has the correct integer part */
    double pieces[LOAD_ZIPF_PIECES][LOAD_ZIPF_DEGREE + 1];
};

/* 1 <= ranks <= LOAD_ZIPF_RANKS_MAX, 0 < theta <= LOAD_ZIPF_THETA_MAX. */
void load_zipf_init(struct load_zipf *zipf, uint64_t ranks, double theta);

/* The rank in [0, ranks) for LOAD_ZIPF_BITS random bits, or LOAD_ZIPF_AGAIN. */
uint64_t load_zipf_try_exact(const struct load_zipf *zipf, uint64_t bits);

/* The same, by the table where possible. */
static inline uint64_t load_zipf_try(const struct load_zipf *zipf, uint64_t bits)
{
    const unsigned rest = LOAD_ZIPF_BITS - LOAD_ZIPF_PIECE_BITS;
    const double *c = zipf->pieces[bits >> rest];
    int64_t from_middle =
        (int64_t)(bits & ((UINT64_C(1) << rest) - 1)) - (INT64_C(1) << (rest - 1));
    double d = (double)from_middle * (1.0 / (double)(INT64_C(1) << (rest - 1))); /* [-1, 1) */
    double at = ((((c[5] * d + c[4]) * d + c[3]) * d + c[2]) * d + c[1]) * d + c[0];
    int64_t rank = (int64_t)at;
    double fraction = at - (double)rank;

    if (U_LIKELY(fraction >= zipf->near_from && fraction <= zipf->near_upto))
        return (uint64_t)rank;
    return load_zipf_try_exact(zipf, bits);
}

/* Draws a rank in [0, ranks). */
static inline uint64_t load_zipf_draw(const struct load_zipf *zipf, struct u_prng *prng)
{
    uint64_t rank;

    do
        rank = load_zipf_try(zipf, u_prng_next(prng) >> (64 - LOAD_ZIPF_BITS));
    while (U_UNLIKELY(rank == LOAD_ZIPF_AGAIN));
    return rank;
}

#endif
