/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers as generators want them: a share of one, and a number that belongs to an id for
 * ever, whoever asks.
 */
#ifndef LOAD_RANDOM_H
#define LOAD_RANDOM_H

#include <stdint.h>

#include "base/prng.h"

/* Room for the messages of this piece. */
#define LOAD_ERROR_MAX 200

/* In [0, 1), in steps of 2^-53. */
static inline double load_random_share(struct u_prng *prng)
{
    return (double)(u_prng_next(prng) >> 11) * 0x1p-53;
}

/* In [0, n); n is not 0. Even to within n / 2^64. */
static inline uint64_t load_random_below(struct u_prng *prng, uint64_t n)
{
    return (uint64_t)((unsigned __int128)u_prng_next(prng) * n >> 64);
}

/* 64 bits that depend on nothing but id and salt. */
static inline uint64_t load_random_of(uint64_t id, uint64_t salt)
{
    struct u_prng prng;

    u_prng_seed(&prng, id ^ salt * UINT64_C(0xd6e8feb86659fd93));
    (void)u_prng_next(&prng);
    return u_prng_next(&prng);
}

/* The same as a share of one, in [0, 1). */
static inline double load_random_share_of(uint64_t id, uint64_t salt)
{
    return (double)(load_random_of(id, salt) >> 11) * 0x1p-53;
}

#endif
