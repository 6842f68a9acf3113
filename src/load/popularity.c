/* SPDX-License-Identifier: BSD-3-Clause */
/* Popularity distributions; see popularity.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "load/popularity.h"

#define KEYS_MAX (UINT64_C(1) << 40)
#define THETA_DEFAULT 0.99
#define HOT_KEYS_DEFAULT 0.1
#define HOT_SHARE_DEFAULT 0.9

/* Splits "name:1:2" into the length of the name and its numbers. Returns how many, or -1. */
static int split(const char *text, size_t *name_len, double numbers[2])
{
    int count = 0;

    *name_len = strcspn(text, ":");
    text += *name_len;
    while (*text == ':') {
        char *end;
        if (count == 2)
            return -1;
        numbers[count++] = strtod(text + 1, &end);
        if (end == text + 1)
            return -1;
        text = end;
    }
    return *text == '\0' ? count : -1;
}

static bool is_share(double x)
{
    return x > 0 && x < 1;
}

static bool hot_set(struct load_popularity *popularity, double keys, double share, char *error)
{
    if (!is_share(keys) || !is_share(share)) {
        snprintf(error, LOAD_ERROR_MAX, "the shares of a hot set are between 0 and 1");
        return false;
    }
    popularity->kind = LOAD_HOT;
    popularity->hot_keys = (uint64_t)(keys * (double)popularity->keys);
    popularity->hot_share = share;
    if (popularity->hot_keys == 0)
        popularity->hot_keys = 1;
    return true;
}

static bool zipf_law(struct load_popularity *popularity, enum load_popularity_kind kind,
                     double theta, char *error)
{
    if (!(theta > 0 && theta <= LOAD_ZIPF_THETA_MAX)) {
        snprintf(error, LOAD_ERROR_MAX, "zipf's exponent is above 0 and at most %g",
                 LOAD_ZIPF_THETA_MAX);
        return false;
    }
    popularity->kind = kind;
    load_zipf_init(&popularity->zipf, popularity->keys, theta);
    return true;
}

bool load_popularity_parse(struct load_popularity *popularity, const char *text, uint64_t keys,
                           uint64_t seed, char error[LOAD_ERROR_MAX])
{
    double numbers[2] = {0};
    size_t len;
    int count = split(text, &len, numbers);

    if (keys < 1 || keys > KEYS_MAX) {
        snprintf(error, LOAD_ERROR_MAX, "the number of keys is between 1 and 2^40");
        return false;
    }
    memset(popularity, 0, sizeof(*popularity));
    popularity->keys = keys;
    load_scramble_init(&popularity->scramble, keys, seed);
    if (len == 7 && memcmp(text, "uniform", len) == 0 && count == 0)
        return true;
    if (len == 4 && memcmp(text, "zipf", len) == 0 && (count == 0 || count == 1))
        return zipf_law(popularity, LOAD_ZIPF, count == 1 ? numbers[0] : THETA_DEFAULT, error);
    if (len == 6 && memcmp(text, "latest", len) == 0 && (count == 0 || count == 1))
        return zipf_law(popularity, LOAD_LATEST, count == 1 ? numbers[0] : THETA_DEFAULT, error);
    if (len == 3 && memcmp(text, "hot", len) == 0 && (count == 0 || count == 2))
        return hot_set(popularity, count == 2 ? numbers[0] : HOT_KEYS_DEFAULT,
                       count == 2 ? numbers[1] : HOT_SHARE_DEFAULT, error);
    snprintf(error, LOAD_ERROR_MAX,
             "\"%.40s\" is no popularity: uniform, zipf:THETA, latest:THETA, hot:KEYS:REQUESTS",
             text);
    return false;
}

/* The newest id at an index of the window: index, or index + keys, and so on. */
static uint64_t at_place(const struct load_popularity *popularity, uint64_t place)
{
    uint64_t rounds;

    if (popularity->grown == 0)
        return place;
    rounds = popularity->grown / popularity->keys;
    if (place < popularity->grown % popularity->keys)
        rounds++;
    return place + rounds * popularity->keys;
}

uint64_t load_popularity_draw(const struct load_popularity *popularity, struct u_prng *prng)
{
    uint64_t place = 0;

    switch (popularity->kind) {
    case LOAD_UNIFORM:
        place = load_random_below(prng, popularity->keys);
        break;
    case LOAD_ZIPF:
        place = load_scramble_of(&popularity->scramble, load_zipf_draw(&popularity->zipf, prng));
        break;
    case LOAD_LATEST:
        return popularity->keys + popularity->grown - 1 - load_zipf_draw(&popularity->zipf, prng);
    case LOAD_HOT:
        if (popularity->hot_keys == popularity->keys ||
            load_random_unit(prng) < popularity->hot_share)
            place = load_random_below(prng, popularity->hot_keys);
        else
            place = popularity->hot_keys +
                    load_random_below(prng, popularity->keys - popularity->hot_keys);
        place = load_scramble_of(&popularity->scramble, place);
        break;
    }
    return at_place(popularity, place);
}

void load_popularity_draw_many(const struct load_popularity *popularity, struct u_prng *prng,
                               uint64_t *ids, uint32_t n)
{
    bool grown = popularity->grown > 0;
    uint32_t i;

    if (popularity->kind == LOAD_UNIFORM && !grown) {
        for (i = 0; i < n; i++)
            ids[i] = load_random_below(prng, popularity->keys);
    } else if (popularity->kind == LOAD_ZIPF && !grown) {
        for (i = 0; i < n; i++)
            ids[i] = load_zipf_draw(&popularity->zipf, prng);
        load_scramble_many(&popularity->scramble, ids, n);
    } else {
        for (i = 0; i < n; i++)
            ids[i] = load_popularity_draw(popularity, prng);
    }
}

uint64_t load_popularity_grow(struct load_popularity *popularity)
{
    return popularity->keys + popularity->grown++;
}
