/* SPDX-License-Identifier: BSD-3-Clause */
/* Size distributions; see size.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/size.h"

/* ETC: probability of each value length up to 14 bytes. */
static const double etc_small[] = {.00536, .00047, .17820, .09239, .00018, .02740, .00065, .00606,
                                   .00023, .00837, .00837, .08989, .00092, .00326, .01980};
#define ETC_TAIL_FROM 15
#define ETC_VALUE_MAX 1000000 /* the distribution is unbounded, memcached's items are not */

static bool fail(char *error, const char *text, const char *why)
{
    snprintf(error, LOAD_ERROR_MAX, "\"%.60s\" is no size: %s", text, why);
    return false;
}

static void law_set(struct load_size *size, enum load_size_law law, double location, double scale,
                    double shape)
{
    size->law = law;
    size->location = location;
    size->scale = scale;
    size->shape = shape;
}

static void choice_add(struct load_size *size, uint32_t value, double share)
{
    double before = size->choices > 0 ? size->upto[size->choices - 1] : 0;

    size->choice[size->choices] = value;
    size->upto[size->choices++] = before + share;
}

static void etc_value(struct load_size *size)
{
    for (uint32_t n = 0; n < sizeof(etc_small) / sizeof(etc_small[0]); n++)
        choice_add(size, n, etc_small[n]);
    law_set(size, LOAD_SIZE_GPARETO, ETC_TAIL_FROM, 214.476, 0.348238);
    if (size->max > ETC_VALUE_MAX)
        size->max = ETC_VALUE_MAX;
}

/* Parses "MU:SIGMA:K". */
static bool law_parse(struct load_size *size, enum load_size_law law, const char *text, char *error)
{
    double n[3];
    const char *at = text;

    for (int i = 0; i < 3; i++) {
        char *end;
        n[i] = strtod(at, &end);
        if (end == at || *end != (i < 2 ? ':' : '\0'))
            return fail(error, text, "a law has three numbers, MU:SIGMA:K");
        at = end + 1;
    }
    if (!(isfinite(n[0]) && n[1] > 0 && isfinite(n[1]) && isfinite(n[2])))
        return fail(error, text, "SIGMA is above 0");
    law_set(size, law, n[0], n[1], n[2]);
    return true;
}

static bool number_parse(const char **at, uint32_t *value)
{
    char *end;
    unsigned long long n;

    if (**at < '0' || **at > '9')
        return false;
    n = strtoull(*at, &end, 10);
    if (n > UINT32_MAX)
        return false;
    *at = end;
    *value = (uint32_t)n;
    return true;
}

/* Parses "95@50/191@40" and normalizes the weights. */
static bool choices_parse(struct load_size *size, const char *text, char *error)
{
    const char *at = text;
    double sum;

    for (;;) {
        uint32_t value;
        double weight;
        char *end;
        if (!number_parse(&at, &value) || *at != '@')
            return fail(error, text, "choices are written NUMBER@WEIGHT/NUMBER@WEIGHT");
        weight = strtod(at + 1, &end);
        if (end == at + 1 || !(weight > 0) || !isfinite(weight))
            return fail(error, text, "weights are above 0");
        if (size->choices == LOAD_SIZE_CHOICES_MAX)
            return fail(error, text, "there are too many choices");
        choice_add(size, value, weight);
        at = end;
        if (*at == '\0')
            break;
        if (*at++ != '/')
            return fail(error, text, "choices are parted by /");
    }
    sum = size->upto[size->choices - 1];
    for (unsigned i = 0; i < size->choices; i++)
        size->upto[i] /= sum;
    return true;
}

/* Parses "200" or "16-128". */
static bool range_parse(struct load_size *size, const char *text, char *error)
{
    const char *at = text;
    uint32_t from, to;

    if (!number_parse(&at, &from))
        return fail(error, text, "give N, N-M, N@W/M@W, gev:.., gpareto:.., etc-key, etc-value");
    to = from;
    if (*at == '-') {
        at++;
        if (!number_parse(&at, &to))
            return fail(error, text, "a range is written N-M");
    }
    if (*at != '\0' || to < from)
        return fail(error, text, "a range goes from a number to one that is not smaller");
    if (from < size->min || to > size->max) {
        snprintf(error, LOAD_ERROR_MAX, "\"%.60s\" is not between %u and %u", text, size->min,
                 size->max);
        return false;
    }
    law_set(size, LOAD_SIZE_UNIFORM, from, (double)to - from + 1, 0);
    return true;
}

static bool text_parse(struct load_size *size, const char *text, char *error)
{
    if (strcmp(text, "etc-key") == 0) {
        law_set(size, LOAD_SIZE_GEV, 30.7984, 8.20449, 0.078688);
        return true;
    }
    if (strcmp(text, "etc-value") == 0) {
        etc_value(size);
        return true;
    }
    if (strncmp(text, "gev:", 4) == 0)
        return law_parse(size, LOAD_SIZE_GEV, text + 4, error);
    if (strncmp(text, "gpareto:", 8) == 0)
        return law_parse(size, LOAD_SIZE_GPARETO, text + 8, error);
    if (strchr(text, '@'))
        return choices_parse(size, text, error);
    return range_parse(size, text, error);
}

/* The quantile functions of the distributions, u in [0, 1). */
static double law_at(const struct load_size *size, double u)
{
    double k = size->shape;

    switch (size->law) {
    case LOAD_SIZE_UNIFORM:
        return size->location + floor(u * size->scale);
    case LOAD_SIZE_GEV: {
        double y = -log(u > 0 ? u : 0x1p-54);
        double t = fabs(k) > 1e-12 ? expm1(-k * log(y)) / k : -log(y);
        return size->location + size->scale * t;
    }
    case LOAD_SIZE_GPARETO: {
        double y = -log1p(-u);
        double t = fabs(k) > 1e-12 ? expm1(k * y) / k : y;
        return size->location + size->scale * t;
    }
    case LOAD_SIZE_NONE:
        break;
    }
    return size->choice[size->choices - 1];
}

/* Rounds and clamps to the bounds. */
static uint32_t within(const struct load_size *size, double x)
{
    x = floor(x + 0.5);
    if (!(x > size->min))
        return size->min;
    return x < size->max ? (uint32_t)x : size->max;
}

/* The quantile before rounding and clamping. */
static double number_at(const struct load_size *size, double u)
{
    double rest;

    for (unsigned i = 0; i < size->choices; i++)
        if (u < size->upto[i])
            return size->choice[i];
    rest = size->choices > 0 ? size->upto[size->choices - 1] : 0;
    if (size->law != LOAD_SIZE_NONE && rest > 0)
        u = (u - rest) / (1 - rest);
    return law_at(size, u);
}

uint32_t load_size_quantile_exact(const struct load_size *size, double u)
{
    return within(size, number_at(size, u));
}

/* ---- the guide --------------------------------------------------------------------------- */

/* Upper bound of the relative rounding error of a quantile. */
#define ROUNDING 1e-9

/*
 * The number of all quantiles between two, or LOAD_SIZE_UNSURE. Quantile functions are monotonic,
 * except across choices.
 */
static uint32_t number_between(const struct load_size *size, double from, double last)
{
    double low = number_at(size, from), high = number_at(size, last);
    uint32_t number = within(size, low - ROUNDING * (1 + fabs(low)));

    for (unsigned i = 0; i < size->choices; i++)
        if (from < size->upto[i] && last >= size->upto[i])
            return LOAD_SIZE_UNSURE;
    if (number >= LOAD_SIZE_UNSURE || number != within(size, high + ROUNDING * (1 + fabs(high))))
        return LOAD_SIZE_UNSURE;
    return number;
}

static void make_guide(struct load_size *size)
{
    for (unsigned i = 0; i < LOAD_SIZE_PARTS; i++)
        size->guide[i] = (uint16_t)number_between(size, (double)i / LOAD_SIZE_PARTS,
                                                  (double)(i + 1) / LOAD_SIZE_PARTS - 0x1p-53);
    size->has_guide = true;
}

bool load_size_parse(struct load_size *size, const char *text, uint32_t min, uint32_t max,
                     char error[LOAD_ERROR_MAX])
{
    memset(size, 0, sizeof(*size));
    size->min = min;
    size->max = max;
    if (!text_parse(size, text, error))
        return false;
    if (size->choices > 0 || size->law != LOAD_SIZE_UNIFORM)
        make_guide(size);
    return true;
}
