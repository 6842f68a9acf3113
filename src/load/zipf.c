/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rejection-inversion sampling; see zipf.h.
 *
 * h(x) = x ^ -theta is decreasing and convex, so the area under h from k - 1/2 to k + 1/2 (the
 * strip of k) is at least h(k). A point is drawn uniformly from the area under h by inverting its
 * integral, rounded to the nearest k, and accepted with probability h(k) / strip. The strip of the
 * first rank is limited to h(1).
 */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "load/zipf.h"

/* log(1 + x) / x and (exp(x) - 1) / x, accurate for theta near 1. */
static double log1p_over(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double expm1_over(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double height(const struct load_zipf *zipf, double x)
{
    return exp(-zipf->theta * log(x));
}

/* The integral of the height from 1 to x, and its inverse. */
static double area(const struct load_zipf *zipf, double x)
{
    double log_x = log(x);

    return expm1_over((1 - zipf->theta) * log_x) * log_x;
}

static double area_inverse(const struct load_zipf *zipf, double y)
{
    double t = y * (1 - zipf->theta);

    /* Rounding may take t out of the domain at the end of a steep distribution. */
    if (t < -1)
        t = -1;
    return exp(log1p_over(t) * y);
}

/* ---- the table --------------------------------------------------------------------------- */

/*
 * Maximum error of a polynomial, rounding included. Points closer than this to the end of a strip
 * are computed exactly: about two of 1024.
 */
#define PRECISION (1.0 / 1024)

/* Upper bound of the accumulated relative rounding error of both computations. */
#define ROUNDING 0x1p-46

/*
 * The inverse x of the integral has derivatives of the form factor * x ^ power: x' = x ^ theta, so
 * the next one has factor * power and power + theta - 1.
 */
struct derivative {
    double factor, power;
};

static double at_point(struct derivative derivative, double x)
{
    return derivative.factor * pow(x, derivative.power);
}

/*
 * Computes the Taylor polynomial about the middle of a piece, of x - 1/2, so that its integer part
 * is the rank; d is in [-1, 1], `half` is half of the length in y. The remainder is at most the
 * next term with the derivative's largest value, which a power of x has at an end of the piece.
 * Returns the bound of all errors; infinite or NaN if there is none.
 */
static double make_piece(const struct load_zipf *zipf, double from, double upto,
                         double c[LOAD_ZIPF_DEGREE + 1])
{
    double half = (upto - from) / 2, scale = 1;
    double x = area_inverse(zipf, from + half);
    double x_from = area_inverse(zipf, from), x_upto = area_inverse(zipf, upto);
    double largest = fmax(x_from, x_upto);
    double areas = fabs(zipf->area_first) + fabs(zipf->area_last);
    double terms = pow(largest, zipf->theta) * areas + largest * (1 + fabs(log(largest)));
    struct derivative next = {1, 1};

    for (unsigned n = 0; n <= LOAD_ZIPF_DEGREE; n++) {
        c[n] = at_point(next, x) * scale;
        terms += fabs(c[n]);
        next.factor *= next.power;
        next.power += zipf->theta - 1;
        scale *= half / (n + 1);
    }
    c[0] -= 0.5;
    return fmax(fabs(at_point(next, x_from)), fabs(at_point(next, x_upto))) * fabs(scale) +
           terms * ROUNDING;
}

/*
 * A piece that exceeds the error bound gets zero coefficients: a zero fraction is never accepted.
 */
static void make_table(struct load_zipf *zipf)
{
    double step = (zipf->area_first - zipf->area_last) / LOAD_ZIPF_PIECES;

    zipf->near_from = 0.5 - zipf->sure + PRECISION;
    zipf->near_upto = 1 - PRECISION;
    for (unsigned i = 0; i < LOAD_ZIPF_PIECES; i++) {
        double from = zipf->area_last + i * step;

        if (!(make_piece(zipf, from, from + step, zipf->pieces[i]) <= PRECISION))
            memset(zipf->pieces[i], 0, sizeof(zipf->pieces[i]));
    }
}

void load_zipf_init(struct load_zipf *zipf, uint64_t ranks, double theta)
{
    U_ASSERT(ranks >= 1 && ranks <= LOAD_ZIPF_RANKS_MAX);
    U_ASSERT(theta > 0 && theta <= LOAD_ZIPF_THETA_MAX);
    zipf->ranks = ranks;
    zipf->theta = theta;
    zipf->area_first = area(zipf, 1.5) - 1;
    zipf->area_last = area(zipf, (double)ranks + 0.5);
    zipf->sure = 2 - area_inverse(zipf, area(zipf, 2.5) - height(zipf, 2));
    make_table(zipf);
}

/* ---- a try ------------------------------------------------------------------------------- */

uint64_t load_zipf_try_exact(const struct load_zipf *zipf, uint64_t bits)
{
    double last = (double)zipf->ranks;
    double share = (double)bits * 0x1p-53;
    double y = zipf->area_last + share * (zipf->area_first - zipf->area_last);
    double x = area_inverse(zipf, y);
    double k = floor(x + 0.5);

    if (!(k >= 1))
        k = 1;
    else if (k > last)
        k = last;
    if (k - x <= zipf->sure || y >= area(zipf, k + 0.5) - height(zipf, k))
        return (uint64_t)k - 1;
    return LOAD_ZIPF_AGAIN;
}
