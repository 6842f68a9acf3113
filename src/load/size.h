/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long keys and values are, and how long they live: distributions of whole numbers.
 *
 * 200                  always the same
 * 16-128               every number from one to the other alike
 * 95@50/191@40/959@10  each number with its weight
 * gev:MU:SIGMA:K       generalized extreme value distribution
 * gpareto:MU:SIGMA:K   generalized Pareto distribution
 * etc-key, etc-value   Facebook's ETC pool (Atikoglu et al., "Workload analysis of a large-scale
 *                      key-value store", 2012): a GEV law for keys; for values a table for up to
 *                      14 bytes and a Pareto law beyond, up to 1 MB
 *
 * Every distribution is a function from a share of one to a number (the inverse of its cumulative
 * distribution), so the size that belongs to an id is load_size_at(size, share that belongs to it).
 */
#ifndef LOAD_SIZE_H
#define LOAD_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/random.h"

#define LOAD_SIZE_CHOICES_MAX 64

/* Shares of one are looked up in so many parts. */
#define LOAD_SIZE_PARTS 8192
#define LOAD_SIZE_UNSURE UINT16_MAX

enum load_size_law { LOAD_SIZE_NONE = 0, LOAD_SIZE_EVEN, LOAD_SIZE_GEV, LOAD_SIZE_GPARETO };

/* Choices up to the share of the last one, then the law for the rest. */
struct load_size {
    unsigned choices;
    double upto[LOAD_SIZE_CHOICES_MAX]; /* cumulative shares */
    uint32_t choice[LOAD_SIZE_CHOICES_MAX];
    enum load_size_law law;
    double location, scale, shape;
    uint32_t min, max; /* every number is within */
    /*
     * For all but a range: the number that belongs to every share in a part, or LOAD_SIZE_UNSURE
     * where that has to be found by logarithms and the like.
     */
    bool has_guide;
    uint16_t guide[LOAD_SIZE_PARTS];
};

/* Reads one of the forms above; all numbers are brought within [min, max]. False with a message. */
bool load_size_parse(struct load_size *size, const char *text, uint32_t min, uint32_t max,
                     char error[LOAD_ERROR_MAX]);

/* The number below which the share u (0 <= u < 1) of all numbers lie. */
uint32_t load_size_exactly_at(const struct load_size *size, double u);

/* The same, by the guide where that is sure. */
static inline uint32_t load_size_at(const struct load_size *size, double u)
{
    uint32_t guided =
        size->has_guide ? size->guide[(uint32_t)(u * LOAD_SIZE_PARTS)] : LOAD_SIZE_UNSURE;

    return guided != LOAD_SIZE_UNSURE ? guided : load_size_exactly_at(size, u);
}

/* The mean, by integration over 2^16 shares. */
double load_size_mean(const struct load_size *size);

#endif
