/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A keyed hash of two or four words for tables whose keys come from the network, at a tenth of the
 * price of SipHash.
 *
 * Two words: each is added to a secret 64-bit word and the sums are multiplied; the upper half of
 * the product is strongly universal (pair-multiply-shift; Thorup, "High speed hashing for integers
 * and strings", 2015, section 3). Four words: NH of UMAC (Black, Halevi, Krawczyk, Krovetz and
 * Rogaway, 1999), products of pairs, where two different inputs collide in 64 bits with a
 * probability of at most 2^-32; a multilinear function (Lemire and Kaser, 2014) reduces these to 32
 * bits. Without the key an attacker finds inputs of one bucket no more often than by chance, and a
 * pair of them, once found by timing, does not help to find a third.
 *
 * It is neither a message authentication code nor a generator of visible numbers: see siphash.h.
 */
#ifndef BASE_PAIRHASH_H
#define BASE_PAIRHASH_H

#include "base/base.h"

enum { U_PAIRHASH_WORDS = 4 };

/* The key: random and secret. */
struct u_pairhash {
    u_u32 add[U_PAIRHASH_WORDS];
    u_u64 start;
    u_u64 low;
    u_u64 high;
};

/* A bijection that scatters the results of inputs in regular steps, such as ports of a host. */
U_INLINE u_u32 u_pairhash_mix(u_u32 h)
{
    h ^= h >> 16;
    h *= 0x9e3779b1u;
    return h ^ h >> 15;
}

/* The hash of two words. */
U_INLINE u_u32 u_pairhash2(const struct u_pairhash *key, u_u32 a, u_u32 b)
{
    return u_pairhash_mix((u_u32)(((key->low + a) * (key->high + b) + key->start) >> 32));
}

/* The hash of four words. */
U_INLINE u_u32 u_pairhash4(const struct u_pairhash *key, const u_u32 *words)
{
    u_u64 first = (u_u64)(words[0] + key->add[0]) * (words[1] + key->add[1]);
    u_u64 second = (u_u64)(words[2] + key->add[2]) * (words[3] + key->add[3]);
    u_u64 nh = first + second;

    return u_pairhash_mix(
        (u_u32)((key->start + key->low * (nh & 0xffffffffu) + key->high * (nh >> 32)) >> 32));
}

#endif
