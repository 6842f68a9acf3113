/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of keys; see key.h. The lowest digit comes first and the padding last: hash functions and
 * comparisons see the distinguishing part first.
 */
#include <string.h>

#include "load/key.h"

const char load_key_alphabet[(1 << LOAD_KEY_DIGIT_BITS) + 1] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

uint32_t load_key_bytes_min(uint64_t ids)
{
    uint32_t bytes = 1;

    for (uint64_t last = ids - (ids > 0); last >>= LOAD_KEY_DIGIT_BITS;)
        bytes++;
    return bytes;
}

/* Writes the digits of an id without padding. Returns the length. */
static uint32_t write_digits(char *key, uint64_t id)
{
    uint32_t n = 0;

    do {
        key[n++] = load_key_alphabet[id & ((1 << LOAD_KEY_DIGIT_BITS) - 1)];
        id >>= LOAD_KEY_DIGIT_BITS;
    } while (id != 0);
    return n;
}

uint32_t load_key_write(char *key, uint64_t id, uint32_t bytes)
{
    uint32_t n = write_digits(key, id);

    if (n < bytes) {
        memset(key + n, LOAD_KEY_PADDING, bytes - n);
        n = bytes;
    }
    return n;
}
