/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distributions of integers for the sizes of keys and values and for times to live.
 *
 * 200: constant
 * 16-128: uniform
 * 95@50/191@40/959@10: each number with its weight
 * gev:MU:SIGMA:K: generalized extreme value distribution
 * gpareto:MU:SIGMA:K: generalized Pareto distribution
 * etc-key, etc-value: Facebook's ETC pool (Atikoglu et al., "Workload analysis of a large-scale
 * key-value store", 2012): a GEV distribution for keys; for values a table up to 14 bytes and a
 * Pareto distribution beyond, up to 1 MB
 *
 * A distribution is its quantile function, so that the size of an id is load_size_quantile(size,
 * load_random_unit_of(id)).
 */
#ifndef LOAD_SIZE_H
#define LOAD_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/random.h"

#define LOAD_SIZE_CHOICES_MAX 64

/* Entries of the guide table. */
#define LOAD_SIZE_PARTS 8192
#define LOAD_SIZE_UNSURE UINT16_MAX

enum load_size_law { LOAD_SIZE_NONE = 0, LOAD_SIZE_UNIFORM, LOAD_SIZE_GEV, LOAD_SIZE_GPARETO };

/* Choices up to the probability of the last one, then the distribution. */
struct load_size {
    unsigned choices;
    double upto[LOAD_SIZE_CHOICES_MAX]; /* cumulative probabilities */
    uint32_t choice[LOAD_SIZE_CHOICES_MAX];
    enum load_size_law law;
    double location, scale, shape;
    uint32_t min, max; /* bounds of all numbers */
    /*
     * Guide table, except for ranges: the number for all quantiles in an interval, or
     * LOAD_SIZE_UNSURE if it must be computed.
     */
    bool has_guide;
    uint16_t guide[LOAD_SIZE_PARTS];
};

/*
 * Parses one of the forms above; numbers are clamped to [min, max]. Returns false with a message if
 * the text is wrong.
 */
bool load_size_parse(struct load_size *size, const char *text, uint32_t min, uint32_t max,
                     char error[LOAD_ERROR_MAX]);

/* The quantile: the number that a share u of all numbers does not exceed, 0 <= u < 1. */
uint32_t load_size_quantile_exact(const struct load_size *size, double u);

/* The same, by the guide table where possible. */
static inline uint32_t load_size_quantile(const struct load_size *size, double u)
{
    uint32_t guided =
        size->has_guide ? size->guide[(uint32_t)(u * LOAD_SIZE_PARTS)] : LOAD_SIZE_UNSURE;

    return guided != LOAD_SIZE_UNSURE ? guided : load_size_quantile_exact(size, u);
}

#endif
