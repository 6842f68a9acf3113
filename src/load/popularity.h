/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which key a request is for: how often each of n keys is asked for, and how that changes.
 *
 * uniform            every key alike
 * zipf:THETA         Zipf's law, ranks scattered over the keys by a permutation
 * latest:THETA       Zipf's law over the age of keys: the youngest is the most popular
 * hot:KEYS:REQUESTS  a share of the keys gets a share of the requests, evenly; the rest the rest
 *
 * Ids are in [0, n) until load_popularity_grow() adds keys. With latest the window of n keys then
 * moves on and old keys are not asked for again; with the others each growth makes the next key of
 * the window a new one, so that the set of keys drifts while the distribution stays.
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
    uint64_t hot_keys; /* LOAD_HOT: how many, and the share of the requests that they get */
    double hot_share;
    struct load_zipf zipf;
    struct load_scramble scramble;
};

/*
 * Reads one of the forms above; the numbers may be left out (0.99; 0.1 and 0.9). 1 <= keys <= 2^40.
 * False with a message if it is none of them.
 */
bool load_popularity_parse(struct load_popularity *popularity, const char *text, uint64_t keys,
                           uint64_t seed, char error[LOAD_ERROR_MAX]);

/* The next key's id. O(1). */
uint64_t load_popularity_draw(const struct load_popularity *popularity, struct u_prng *prng);

/* The next n of them. */
void load_popularity_draw_many(const struct load_popularity *popularity, struct u_prng *prng,
                               uint64_t *ids, uint32_t n);

/* One more key comes into the world, and one is not asked for any more. Returns the new one's id.
 */
uint64_t load_popularity_grow(struct load_popularity *popularity);

#endif
