/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of a key: letters, digits, '-' and '_' that stand for an id, padded to a length. Two ids
 * never share a text of one length.
 */
#ifndef LOAD_KEY_H
#define LOAD_KEY_H

#include <endian.h>
#include <stdint.h>

#define LOAD_KEY_MAX 250
#define LOAD_KEY_DIGITS_MAX 11 /* what the largest id needs */
#define LOAD_KEY_DIGIT_BITS 6
#define LOAD_KEY_PADDING '0' /* and the digit 0 */

/* The shortest key that tells ids below `ids` apart. */
uint32_t load_key_bytes_min(uint64_t ids);

/*
 * Writes the key of an id, of `bytes` bytes (1..LOAD_KEY_MAX) if the id fits, else of as many as it
 * takes. Returns the length. No terminating zero.
 */
uint32_t load_key_write(char *key, uint64_t id, uint32_t bytes);

extern const char load_key_alphabet[(1 << LOAD_KEY_DIGIT_BITS) + 1];

/*
 * The first eight bytes of the key of an id below 2^48, as they lie in memory: its digits, and
 * padding. The others, if it is longer, are padding too; if it is shorter, it ends before.
 */
static inline uint64_t load_key_word(uint64_t id)
{
    const unsigned mask = (1 << LOAD_KEY_DIGIT_BITS) - 1;
    uint64_t word = UINT64_C(0x0101010101010101) * LOAD_KEY_PADDING;
    unsigned shift = 0;

    do { /* two digits each time; the second one may be padding */
        uint64_t low = (uint8_t)load_key_alphabet[id & mask] ^ LOAD_KEY_PADDING;
        uint64_t high =
            (uint8_t)load_key_alphabet[id >> LOAD_KEY_DIGIT_BITS & mask] ^ LOAD_KEY_PADDING;

        word ^= (low | high << 8) << shift;
        shift += 16;
        id >>= 2 * LOAD_KEY_DIGIT_BITS;
    } while (id != 0);
    return htole64(word);
}

#endif
