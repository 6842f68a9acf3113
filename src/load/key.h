/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of a key: letters, digits, '-' and '_' that stand for an id, padded to a length. Two ids
 * never share a text of one length.
 */
#ifndef LOAD_KEY_H
#define LOAD_KEY_H

#include <stdint.h>

#define LOAD_KEY_MAX 250
#define LOAD_KEY_DIGITS_MAX 11 /* what the largest id needs */
#define LOAD_KEY_DIGIT_BITS 6

/* The shortest key that tells ids below `ids` apart. */
uint32_t load_key_bytes_min(uint64_t ids);

/*
 * Writes the key of an id, of `bytes` bytes (1..LOAD_KEY_MAX) if the id fits, else of as many as it
 * takes. Returns the length. No terminating zero.
 */
uint32_t load_key_write(char *key, uint64_t id, uint32_t bytes);

extern const char load_key_alphabet[];

/* Writes the digits of an id alone: what stands behind them has to be padding. Returns how many. */
static inline uint32_t load_key_digits(char *key, uint64_t id)
{
    uint32_t n = 0;

    do {
        key[n++] = load_key_alphabet[id & ((1 << LOAD_KEY_DIGIT_BITS) - 1)];
        id >>= LOAD_KEY_DIGIT_BITS;
    } while (id != 0);
    return n;
}

#endif
