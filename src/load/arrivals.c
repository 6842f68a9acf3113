/* SPDX-License-Identifier: BSD-3-Clause */
/* The send times of an open loop; see arrivals.h. */
#include "load/arrivals.h"

#include <math.h>

void load_arrivals_start(struct load_arrivals *a, enum load_arrivals_kind kind, double per_second,
                         uint64_t start_ns, uint64_t seed)
{
    U_ASSERT(per_second > 0);
    u_prng_seed(&a->prng, seed);
    a->kind = kind;
    a->mean_ns = 1e9 / per_second;
    a->next_ns = 0;
    a->start_ns = start_ns;
    load_arrivals_advance(a);
}

void load_arrivals_advance(struct load_arrivals *a)
{
    /* In (0, 1]: the logarithm is finite. */
    double u = (double)((u_prng_next(&a->prng) >> 11) + 1) * 0x1p-53;

    a->next_ns += a->kind == LOAD_ARRIVALS_POISSON ? -log(u) * a->mean_ns : a->mean_ns;
}
