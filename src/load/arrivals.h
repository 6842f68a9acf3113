/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When requests are to be sent in an open loop: at a rate that does not depend on how fast they are
 * answered. Deterministic for a seed. Belongs to one thread at a time.
 */
#ifndef LOAD_ARRIVALS_H
#define LOAD_ARRIVALS_H

#include <stdint.h>

#include "base/prng.h"

enum load_arrivals_kind {
    LOAD_ARRIVALS_POISSON, /* independent of each other: exponentially distributed intervals */
    LOAD_ARRIVALS_CONSTANT
};

struct load_arrivals {
    struct u_prng prng;
    enum load_arrivals_kind kind;
    double mean_ns;
    double next_ns; /* when the next one is due, after start_ns; fractions do not get lost */
    uint64_t start_ns;
};

/* per_second is above 0. The first arrival is one interval after start_ns. */
void load_arrivals_start(struct load_arrivals *a, enum load_arrivals_kind kind, double per_second,
                         uint64_t start_ns, uint64_t seed);

/* When the next request is due, on the clock of start_ns. */
static inline uint64_t load_arrivals_due_ns(const struct load_arrivals *a)
{
    return a->start_ns + (uint64_t)a->next_ns;
}

/* That one was sent: on to the one after it. */
void load_arrivals_advance(struct load_arrivals *a);

#endif
