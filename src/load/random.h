/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers for load generators: uniform numbers in [0, 1), and numbers that are a function of
 * an id.
 */
#ifndef LOAD_RANDOM_H
#define LOAD_RANDOM_H

#include <stdint.h>

#include "base/prng.h"

/* Size of error messages in src/load. */
#define LOAD_ERROR_MAX 200

/* Uniform in [0, 1), in steps of 2^-53. */
static inline double load_random_unit(struct u_prng *prng)
{
    return (double)(u_prng_next(prng) >> 11) * 0x1p-53;
}

/* Uniform in [0, n), n > 0, with a bias below n / 2^64. */
static inline uint64_t load_random_below(struct u_prng *prng, uint64_t n)
{
    return (uint64_t)((unsigned __int128)u_prng_next(prng) * n >> 64);
}

/* A 64-bit hash of id and salt. */
static inline uint64_t load_random_hash(uint64_t id, uint64_t salt)
{
    struct u_prng prng;

    u_prng_seed(&prng, id ^ salt * UINT64_C(0xd6e8feb86659fd93));
    (void)u_prng_next(&prng);
    return u_prng_next(&prng);
}

/* The same as a number in [0, 1). */
static inline double load_random_unit_of(uint64_t id, uint64_t salt)
{
    return (double)(load_random_hash(id, salt) >> 11) * 0x1p-53;
}

#endif
