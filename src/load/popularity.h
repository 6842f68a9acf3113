/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Popularity of keys: the distribution of requests over n keys, and its change over time.
 *
 * uniform: all keys with the same probability
 * zipf:THETA: Zipf's law, with ranks mapped to keys by a random permutation
 * latest:THETA: Zipf's law over the age of keys; the newest is the most popular
 * hot:KEYS:REQUESTS: a share KEYS of the keys gets a share REQUESTS of the requests, uniformly; the
 * other keys get the other requests
 *
 * Ids are in [0, n) until load_popularity_grow() adds keys. With latest, the window of n keys then
 * moves and old keys get no more requests; otherwise each growth replaces one key of the window by
 * a new one, so that the set of keys changes while the distribution stays.
 */
#ifndef LOAD_POPULARITY_H
#define LOAD_POPULARITY_H

#include <stdbool.h>
#include <stdint.h>

#include "load/random.h"
#include "load/scramble.h"
#include "load/zipf.h"

enum load_popularity_kind { LOAD_UNIFORM = 0, LOAD_ZIPF, LOAD_LATEST, LOAD_HOT };

struct load_popularity {
    enum load_popularity_kind kind;
    uint64_t keys;
    uint64_t grown;    /* keys added so far */
    uint64_t hot_keys; /* LOAD_HOT: number of hot keys, and their share of the requests */
    double hot_share;
    struct load_zipf zipf;
    struct load_scramble scramble;
};

/*
 * Parses one of the forms above; the numbers are optional (0.99; 0.1 and 0.9). 1 <= keys <= 2^40.
 * Returns false with a message if the text is wrong.
 */
bool load_popularity_parse(struct load_popularity *popularity, const char *text, uint64_t keys,
                           uint64_t seed, char error[LOAD_ERROR_MAX]);

/* Draws the id of the next key. O(1). */
uint64_t load_popularity_draw(const struct load_popularity *popularity, struct u_prng *prng);

/* Draws the next n ids. */
void load_popularity_draw_many(const struct load_popularity *popularity, struct u_prng *prng,
                               uint64_t *ids, uint32_t n);

/* Adds a key and retires one. Returns the new id. */
uint64_t load_popularity_grow(struct load_popularity *popularity);

#endif
