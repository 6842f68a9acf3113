/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small seeded pseudo-random generator, SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of
 * state, a period of 2^64, the same sequence on every machine. For tests, simulations and
 * statistical choices; not for values that an attacker must not predict (see siphash.h).
 */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include "base/base.h"

struct u_prng {
    u_u64 state;
};

/* Every seed is suitable, also 0 and consecutive numbers. */
U_INLINE void u_prng_seed(struct u_prng *prng, u_u64 seed)
{
    prng->state = seed;
}

/* The next 64 random bits. */
U_INLINE u_u64 u_prng_next(struct u_prng *prng)
{
    /* Written in halves, as C89 has no 64-bit constants. */
    const u_u64 step = (u_u64)0x9e3779b9 << 32 | 0x7f4a7c15;
    const u_u64 mix1 = (u_u64)0xbf58476d << 32 | 0x1ce4e5b9;
    const u_u64 mix2 = (u_u64)0x94d049bb << 32 | 0x133111eb;
    u_u64 z = prng->state += step;

    z = (z ^ z >> 30) * mix1;
    z = (z ^ z >> 27) * mix2;
    return z ^ z >> 31;
}

/*
 * A random number in [0, n), each equally likely; n must not be 0.
 *
 * The high half of `random * n` is in that range. Of the 2^32 values of `random`, 2^32 mod n are
 * too many to share out evenly: those, recognised by the low half, are drawn again, which happens
 * with a probability below one half (Lemire, "Fast random integer generation in an interval").
 */
U_INLINE u_u32 u_prng_below(struct u_prng *prng, u_u32 n)
{
    u_u64 product = (u_prng_next(prng) >> 32) * n;

    if (U_UNLIKELY((u_u32)product < n)) {
        u_u32 excess = (0u - n) % n;
        while ((u_u32)product < excess)
            product = (u_prng_next(prng) >> 32) * n;
    }
    return (u_u32)(product >> 32);
}

#endif
