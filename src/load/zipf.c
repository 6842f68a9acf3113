/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rejection-inversion. h(x) = x ^ -theta is decreasing and convex, so the strip under h from
 * k - 1/2 to k + 1/2 is at least as large as h(k). A point is drawn evenly from the area under h
 * (by inverting its integral), rounded to the nearest k, and kept with the share that h(k) has in
 * the strip. The strip of the first rank is made exactly as large as h(1).
 */
#include <math.h>

#include "base/base.h"
#include "load/zipf.h"

/* log(1 + x) / x and (exp(x) - 1) / x, which stay accurate where theta is near 1. */
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

    /* Rounding may take t out of the domain, at the very end of a steep distribution. */
    if (t < -1)
        t = -1;
    return exp(log1p_over(t) * y);
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
}

uint64_t load_zipf_draw(const struct load_zipf *zipf, struct u_prng *prng)
{
    double last = (double)zipf->ranks;

    for (;;) {
        double share = (double)(u_prng_next(prng) >> 11) * 0x1p-53;
        double y = zipf->area_last + share * (zipf->area_first - zipf->area_last);
        double x = area_inverse(zipf, y);
        double k = floor(x + 0.5);
        if (!(k >= 1))
            k = 1;
        else if (k > last)
            k = last;
        if (k - x <= zipf->sure || y >= area(zipf, k + 0.5) - height(zipf, k))
            return (uint64_t)k - 1;
    }
}

double load_zipf_norm(uint64_t ranks, double theta)
{
    double sum = 0;

    for (uint64_t k = ranks; k >= 1; k--) /* the small ones first */
        sum += pow((double)k, -theta);
    return sum;
}
