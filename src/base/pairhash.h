/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A keyed hash of two or four words for tables whose keys come from the network, a tenth of the
 * price of SipHash.
 *
 * Two words are added to secret ones of 64 bits, and these multiplied: the upper half of the
 * product is a strongly universal hash (pair-multiply-shift; Thorup, "High speed hashing for
 * integers and strings", 2015, section 3). Four words are multiplied in pairs, NH of UMAC (Black,
 * Halevi, Krawczyk, Krovetz and Rogaway, 1999): two different inputs give the same 64 bits with a
 * probability of at most 2^-32. Those are brought down to 32 bits by a strongly universal function
 * (multilinear, Lemire and Kaser, 2014). Every bit is good enough for a bucket. So whoever does not
 * know the key finds names that share a bucket no more often than chance does, whatever names he
 * chooses; and if he sees by the time it takes that two share one, he has learnt nothing that
 * makes a third: in the product of two unknown sums the difference of two inputs is unknown, too.
 *
 * It is no message authentication and no generator of numbers that others get to see: that is what
 * siphash.h is for.
 */
#ifndef BASE_PAIRHASH_H
#define BASE_PAIRHASH_H

#include "base/base.h"

enum { U_PAIRHASH_WORDS = 4 };

/* The key: all of it is to be random and secret. */
struct u_pairhash {
    u_u32 add[U_PAIRHASH_WORDS];
    u_u64 start;
    u_u64 low;
    u_u64 high;
};

/*
 * What comes of inputs in regular steps, such as the ports of one host, is still in regular steps
 * before this, which maps no two numbers to one and breaks them up.
 */
U_INLINE u_u32 u_pairhash_mix(u_u32 h)
{
    h ^= h >> 16;
    h *= 0x9e3779b1u;
    return h ^ h >> 15;
}

/* Brings the 64 bits of products down. */
U_INLINE u_u32 u_pairhash_reduce(const struct u_pairhash *key, u_u64 v)
{
    return u_pairhash_mix(
        (u_u32)((key->start + key->low * (v & 0xffffffffu) + key->high * (v >> 32)) >> 32));
}

U_INLINE u_u64 u_pairhash_product(u_u32 a, u_u32 b)
{
    return (u_u64)a * b;
}

/* The hash of two words. */
U_INLINE u_u32 u_pairhash2(const struct u_pairhash *key, u_u32 a, u_u32 b)
{
    return u_pairhash_mix((u_u32)(((key->low + a) * (key->high + b) + key->start) >> 32));
}

/* The hash of four words. */
U_INLINE u_u32 u_pairhash4(const struct u_pairhash *key, const u_u32 *words)
{
    u_u64 first = u_pairhash_product(words[0] + key->add[0], words[1] + key->add[1]);
    u_u64 second = u_pairhash_product(words[2] + key->add[2], words[3] + key->add[3]);

    return u_pairhash_reduce(key, first + second);
}

#endif
