/* SPDX-License-Identifier: BSD-3-Clause */
/* The lowest digits come first: the part of a key that tells it from others is where hashes look
 * first, and the padding is at its end. */
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

/* The digits of an id alone. Returns how many. */
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
