/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inline checksums of headers of known shape and short payloads, for the TCP fast path.
 *
 * A raw sum is a u_u64 that starts at 0: the ones' complement sum of 64-bit words in the byte order
 * of the machine. Every piece begins at an even offset. A 16-bit sum is a folded raw sum; it is
 * also a sum of cksum.h of an even number of bytes, and the other way round.
 */
#ifndef BASE_CKSUM_RAW_H
#define BASE_CKSUM_RAW_H

#include "base/base.h"
#include "base/wire.h"

/* Adds eight bytes; the carry is added at the bottom. */
U_INLINE u_u64 u_cksum_raw_word(u_u64 sum, u_u64 word)
{
    sum += word;
    return sum + (sum < word);
}

/* Adds a number that is sent as two or four bytes in network byte order. */
U_INLINE u_u64 u_cksum_raw_be32(u_u64 sum, u_u32 value)
{
    return u_cksum_raw_word(sum, u_be32_word(value));
}

/* Folds a raw sum to 16 bits. */
U_INLINE u_u32 u_cksum_raw_fold(u_u64 sum)
{
    u_u32 low = (u_u32)(sum & 0xffffffffu);
    u_u32 high = (u_u32)(sum >> 32);

    low += high;
    low += low < high;
    low += low << 16 | low >> 16; /* the carry of the lower half enters the upper half */
    return low >> 16;
}

/* The 16-bit sum of two 16-bit sums. */
U_INLINE u_u32 u_cksum16_add(u_u32 a, u_u32 b)
{
    u_u32 sum = a + b;

    return (sum + (sum >> 16)) & 0xffff;
}

/*
 * The 16-bit sum a without b, which is not 0. If a is a complement the result is the complement of
 * both: ~(a + b) is ~a - b.
 */
U_INLINE u_u32 u_cksum16_sub(u_u32 a, u_u32 b)
{
    u_u32 diff = a - b;

    return (diff + (diff >> 16)) & 0xffff; /* the borrow, 0xffff, subtracts one */
}

/*
 * The word that ends at the last of `bytes` bytes, without the bytes that whole words from the
 * first byte on have covered: these are shifted out, zeros follow the others.
 */
U_INLINE u_u64 u_cksum_raw_tail(u_u64 word, u_u32 bytes)
{
#ifdef U_LITTLE_ENDIAN
    return word >> ((0 - 8 * bytes) & 63); /* the mask costs nothing: shifts apply it */
#else
    u_u32 skip = (0 - bytes) & 7;
    u_u64 tail = 0;

    u_copy(&tail, (const u_u8 *)&word + skip, sizeof(word) - skip);
    return tail;
#endif
}

/*
 * Adds eight bytes or more, and copies them unless `to` is null; two words per iteration. The last
 * word ends at the last byte and may overlap the one before. The offsets behind the loop follow
 * from `bytes`, so that a compiler that knows the range of `bytes` unrolls the loop completely.
 */
U_ALWAYS_INLINE u_u64 u_cksum_raw_words(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u32 last = bytes - 8;
    u_u32 at;
    u_u64 word;
    u_u64 next;

    for (at = 0; at + 16 < bytes; at += 16) {
        u_copy(&word, from + at, 8);
        u_copy(&next, from + at + 8, 8);
        sum = u_cksum_raw_word(u_cksum_raw_word(sum, word), next);
        if (to) {
            u_copy(to + at, &word, 8);
            u_copy(to + at + 8, &next, 8);
        }
    }
    if ((bytes - 1) & 8) {
        at = (bytes - 1) & ~(u_u32)15;
        u_copy(&word, from + at, 8);
        sum = u_cksum_raw_word(sum, word);
        if (to)
            u_copy(to + at, &word, 8);
    }
    u_copy(&word, from + last, 8);
    if (to)
        u_copy(to + last, &word, 8);
    return u_cksum_raw_word(sum, u_cksum_raw_tail(word, bytes));
}

/* Adds fewer than eight bytes, and copies them unless `to` is null. */
u_u64 u_cksum_raw_few(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes);

/*
 * Adds `bytes` bytes, and copies them unless `to` is null. Callers pass a constant null or a
 * pointer, so that the choice is made at compile time.
 */
U_ALWAYS_INLINE u_u64 u_cksum_raw_piece(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    if (bytes >= 8)
        return u_cksum_raw_words(sum, to, from, bytes);
    return u_cksum_raw_few(sum, to, from, bytes);
}

U_ALWAYS_INLINE u_u64 u_cksum_raw_add(u_u64 sum, const void *from, u_u32 bytes)
{
    return u_cksum_raw_piece(sum, (u_u8 *)U_NULL, (const u_u8 *)from, bytes);
}

/* u_cksum_raw_piece() out of line. */
u_u64 u_cksum_raw_any(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes);

/* u_cksum_raw_any() that is inline for lengths between these two. */
enum { U_CKSUM_SHORT_MIN = 8, U_CKSUM_SHORT_MAX = 128 };

U_ALWAYS_INLINE u_u64 u_cksum_raw_short(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    if (U_LIKELY(bytes - U_CKSUM_SHORT_MIN <= U_CKSUM_SHORT_MAX - U_CKSUM_SHORT_MIN))
        return u_cksum_raw_words(sum, to, from, bytes);
    return u_cksum_raw_any(sum, to, from, bytes);
}

/*
 * Whether the bytes of a raw sum, not all 0, contain their own valid checksum: whether the sum is a
 * multiple of 0xffff. With k = 1 + 2^16 + 2^32 + 2^48, 0xffff * k is 2^64 - 1; so a multiple times
 * -k is its quotient, at most k, and no other number times -k is that small.
 */
U_INLINE int u_cksum_raw_is_valid(u_u64 sum)
{
    u_u64 k = (u_u64)0x00010001 << 32 | 0x00010001;

    return sum * (0 - k) <= k;
}

#endif
