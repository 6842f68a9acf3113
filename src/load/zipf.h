/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zipf's law over n ranks: rank r (from 0) has a probability proportional to (r + 1) ^ -theta.
 *
 * Exact for every theta > 0, below, at and above 1, without a table: rejection-inversion
 * (Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
 * distributions", 1996), about one and a tenth tries per draw whatever n is.
 */
#ifndef LOAD_ZIPF_H
#define LOAD_ZIPF_H

#include <stdint.h>

#include "base/prng.h"

#define LOAD_ZIPF_THETA_MAX 20.0
#define LOAD_ZIPF_RANKS_MAX (UINT64_C(1) << 48)

struct load_zipf {
    uint64_t ranks;
    double theta;
    double area_first; /* the integral's value where the first rank's strip begins */
    double area_last;  /* and where the last one's ends */
    double sure;       /* a point so close above a rank is taken without another look */
};

/* 1 <= ranks <= LOAD_ZIPF_RANKS_MAX, 0 < theta <= LOAD_ZIPF_THETA_MAX. */
void load_zipf_init(struct load_zipf *zipf, uint64_t ranks, double theta);

/* A rank in [0, ranks). */
uint64_t load_zipf_draw(const struct load_zipf *zipf, struct u_prng *prng);

/* The sum of k ^ -theta over k = 1 .. ranks: probabilities are (r + 1) ^ -theta over this. O(n). */
double load_zipf_norm(uint64_t ranks, double theta);

#endif
