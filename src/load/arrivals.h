/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send times of an open loop: requests at a rate that is independent of the replies.
 * Deterministic for a seed. Used by one thread at a time.
 */
#ifndef LOAD_ARRIVALS_H
#define LOAD_ARRIVALS_H

#include <stdint.h>

#include "base/prng.h"

enum load_arrivals_kind {
    LOAD_ARRIVALS_POISSON, /* exponentially distributed intervals */
    LOAD_ARRIVALS_CONSTANT
};

struct load_arrivals {
    struct u_prng prng;
    enum load_arrivals_kind kind;
    double mean_ns;
    double next_ns; /* next send time after start_ns; a double keeps fractions of a nanosecond */
    uint64_t start_ns;
};

/* per_second is above 0. The first arrival is one interval after start_ns. */
void load_arrivals_start(struct load_arrivals *a, enum load_arrivals_kind kind, double per_second,
                         uint64_t start_ns, uint64_t seed);

/* The next send time, on the clock of start_ns. */
static inline uint64_t load_arrivals_due_ns(const struct load_arrivals *a)
{
    return a->start_ns + (uint64_t)a->next_ns;
}

/* Moves on to the next send time. */
void load_arrivals_advance(struct load_arrivals *a);

#endif
