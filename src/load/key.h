/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of a key: an id as letters, digits, '-' and '_', padded to a length. Different ids have
 * different texts of the same length.
 */
#ifndef LOAD_KEY_H
#define LOAD_KEY_H

#include <endian.h>
#include <stdint.h>

#define LOAD_KEY_MAX 250
#define LOAD_KEY_DIGITS_MAX 11 /* of the largest id */
#define LOAD_KEY_DIGIT_BITS 6
#define LOAD_KEY_PADDING '0' /* also the digit 0 */

/* The shortest length with different texts for all ids below `ids`. */
uint32_t load_key_bytes_min(uint64_t ids);

/*
 * Writes the text of an id with `bytes` characters (1..LOAD_KEY_MAX), or more if its digits need
 * more. Returns the length. No terminator.
 */
uint32_t load_key_write(char *key, uint64_t id, uint32_t bytes);

extern const char load_key_alphabet[(1 << LOAD_KEY_DIGIT_BITS) + 1];

/*
 * The first eight bytes, in memory order, of the text of an id below 2^48. Further bytes of a
 * longer text are padding; a shorter text is a prefix.
 */
static inline uint64_t load_key_word(uint64_t id)
{
    const unsigned mask = (1 << LOAD_KEY_DIGIT_BITS) - 1;
    uint64_t word = UINT64_C(0x0101010101010101) * LOAD_KEY_PADDING;
    unsigned shift = 0;

    do { /* two digits per step; the second one may be padding */
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
