/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum of IPv4, ICMP, UDP and TCP (RFC 1071).
 *
 * A checksum is gathered piece by piece in a `u_u32` that starts at 0:
 *
 *     sum = u_cksum_pseudo4(source, destination, protocol, bytes);
 *     sum = u_cksum_add(sum, header, header_bytes);
 *     sum = u_cksum_add(sum, payload, payload_bytes);
 *     header->checksum = u_be16(u_cksum_fold(sum));
 *
 * Pieces may have any length and any alignment. The sum remembers in its top bit whether an odd
 * number of bytes has gone in; if so, the next piece begins in the second half of a 16-bit word,
 * and its own sum enters with its two bytes exchanged (RFC 1071 section 2(B)). The other bits are
 * in the byte order of the machine. So a sum is opaque: only the functions below look into it.
 */
#ifndef BASE_CKSUM_H
#define BASE_CKSUM_H

#include "base/base.h"
#include "base/wire.h"

/* Adds `bytes` bytes at `data` to `sum` and returns the new sum. */
u_u32 u_cksum_add(u_u32 sum, const void *data, u_u32 bytes);

/*
 * Copies `bytes` bytes and adds them to `sum` in the same pass; returns the new sum. The two areas
 * must not overlap.
 */
u_u32 u_cksum_copy(u_u32 sum, void *to, const void *from, u_u32 bytes);

/*
 * The sum of the pseudo-header that UDP and TCP over IPv4 put before their own bytes (RFC 9293
 * section 3.1). `l4_bytes` is the length of the UDP or TCP header and its payload.
 */
u_u32 u_cksum_pseudo4(struct u_be32 src, struct u_be32 dst, unsigned protocol, u_u32 l4_bytes);

/* The same over IPv6 (RFC 8200 section 8.1); src and dst are 16 bytes each. */
u_u32 u_cksum_pseudo6(const u_u8 *src, const u_u8 *dst, unsigned protocol, u_u32 l4_bytes);

/*
 * The checksum to store with u_be16(). Over bytes that contain their own valid checksum it is 0.
 * UDP must store 0xffff where this returns 0 (RFC 768).
 */
u_u16 u_cksum_fold(u_u32 sum);

/*
 * The partial sum that a network card wants to find in the checksum field if it is to finish the
 * checksum by itself: folded to 16 bits, not inverted. To store with u_be16().
 */
u_u16 u_cksum_partial(u_u32 sum);

/* ---- sums of a few words, in line ----
 *
 * The fast path of TCP sums headers whose shape it knows, and short payloads. A raw sum is a u_u64
 * that starts at 0: what goes into it begins at an even place, and carries come back in at the
 * bottom. Its words are in the byte order of the machine, as they lie in memory. A folded sum of
 * raw ones is a u_cksum_add() sum of an even number of bytes, and the other way round.
 */

/* Adds eight bytes. */
U_INLINE u_u64 u_sum_add64(u_u64 sum, u_u64 word)
{
    sum += word;
    return sum + (sum < word);
}

/* Adds a number that goes over the wire as four bytes, or two. */
U_INLINE u_u64 u_sum_be32(u_u64 sum, u_u32 value)
{
    return u_sum_add64(sum, u_be32_word(value));
}

/* Brings a raw sum down to 16 bits. */
U_INLINE u_u32 u_sum_fold(u_u64 sum)
{
    u_u32 low = (u_u32)(sum & 0xffffffffu);
    u_u32 high = (u_u32)(sum >> 32);

    low += high;
    low += low < high;
    low += low << 16 | low >> 16; /* the upper half takes the carry of the lower one */
    return low >> 16;
}

/* One sum of two that were brought down to 16 bits. */
U_INLINE u_u32 u_sum_join(u_u32 a, u_u32 b)
{
    u_u32 sum = a + b;

    return (sum + (sum >> 16)) & 0xffff;
}

/*
 * One sum without another, both of 16 bits, the second not 0. Of the complement of a sum this makes
 * the complement of both: ~(a + b) is ~a - b.
 */
U_INLINE u_u32 u_sum_less(u_u32 a, u_u32 b)
{
    u_u32 less = a - b;

    return (less + (less >> 16)) & 0xffff; /* 0xffff more is one less */
}

/*
 * The word that ends with the last of `bytes` bytes, without those that the words from the first
 * byte on have had already: zeros are behind the others instead.
 */
U_INLINE u_u64 u_sum_rest(u_u64 word, u_u32 bytes)
{
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) &&            \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return word >> ((0 - 8 * bytes) & 63); /* what a shift takes from its count anyway */
#else
    u_u32 skip = (0 - bytes) & 7;
    u_u64 rest = 0;

    u_copy(&rest, (const u_u8 *)&word + skip, sizeof(word) - skip);
    return rest;
#endif
}

/*
 * Adds eight bytes or more, and copies them unless `to` is null: two words at a time, of which each
 * is two instructions and half a loop. The last word ends with the last byte and may overlap the
 * one before. Where the words behind the loop are follows from `bytes`: so a compiler that knows
 * how many rounds there can be writes them out, with constants for places.
 */
U_ALWAYS_INLINE u_u64 u_sum_words(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u32 last = bytes - 8;
    u_u32 at;
    u_u64 word;
    u_u64 next;

    for (at = 0; at + 16 < bytes; at += 16) {
        u_copy(&word, from + at, 8);
        u_copy(&next, from + at + 8, 8);
        sum = u_sum_add64(u_sum_add64(sum, word), next);
        if (to) {
            u_copy(to + at, &word, 8);
            u_copy(to + at + 8, &next, 8);
        }
    }
    if ((bytes - 1) & 8) {
        at = (bytes - 1) & ~(u_u32)15;
        u_copy(&word, from + at, 8);
        sum = u_sum_add64(sum, word);
        if (to)
            u_copy(to + at, &word, 8);
    }
    u_copy(&word, from + last, 8);
    if (to)
        u_copy(to + last, &word, 8);
    return u_sum_add64(sum, u_sum_rest(word, bytes));
}

/*
 * Adds `bytes` bytes, of which the last may stand alone, and copies them unless `to` is null:
 * callers pass a constant null or a pointer.
 */
U_ALWAYS_INLINE u_u64 u_sum_piece(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u32 half;
    u_u16 pair;

    if (bytes >= 8)
        return u_sum_words(sum, to, from, bytes);
    if (bytes & 4) {
        u_copy(&half, from, 4);
        sum = u_sum_add64(sum, half);
        from += 4;
        if (to) {
            u_copy(to, &half, 4);
            to += 4;
        }
    }
    if (bytes & 2) {
        u_copy(&pair, from, 2);
        sum = u_sum_add64(sum, pair);
        from += 2;
        if (to) {
            u_copy(to, &pair, 2);
            to += 2;
        }
    }
    if (bytes & 1) {
        u_u8 last[2] = {0, 0}; /* a missing second byte counts as 0 */
        last[0] = *from;
        u_copy(&pair, last, 2);
        sum = u_sum_add64(sum, pair);
        if (to)
            *to = last[0];
    }
    return sum;
}

U_ALWAYS_INLINE u_u64 u_sum_add(u_u64 sum, const void *from, u_u32 bytes)
{
    return u_sum_piece(sum, (u_u8 *)U_NULL, (const u_u8 *)from, bytes);
}

U_ALWAYS_INLINE u_u64 u_sum_copy(u_u64 sum, void *to, const void *from, u_u32 bytes)
{
    return u_sum_piece(sum, (u_u8 *)to, (const u_u8 *)from, bytes);
}

/*
 * The same for pieces whose length is mostly in between these two: others take a call. `to` is a
 * constant null, or a pointer.
 */
enum { U_SUM_SHORT_MIN = 8, U_SUM_SHORT_MAX = 128 };

u_u64 u_sum_any(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes);

U_ALWAYS_INLINE u_u64 u_sum_short(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    if (U_LIKELY(bytes - U_SUM_SHORT_MIN <= U_SUM_SHORT_MAX - U_SUM_SHORT_MIN))
        return u_sum_words(sum, to, from, bytes);
    return u_sum_any(sum, to, from, bytes);
}

/*
 * Whether the bytes of a raw sum, of which not all are 0, contain their own valid checksum: whether
 * it is a multiple of 0xffff. With k = 1 + 2^16 + 2^32 + 2^48, 0xffff * k is 2^64 - 1: times -k
 * each multiple becomes its quotient, which is k at most, and no other number becomes one of these.
 */
U_INLINE int u_sum_is_good(u_u64 sum)
{
    u_u64 k = (u_u64)0x00010001 << 32 | 0x00010001;

    return sum * (0 - k) <= k;
}

#endif
