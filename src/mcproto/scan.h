/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searching for a byte, eight at a time.
 *
 * A word holds eight bytes with the first one in its lowest bits, whatever the byte order of the
 * machine: it is put together by shifts, which compilers turn into one load. Nothing outside
 * [at, end) is read; the last bytes of a range come as a word filled up with zero bytes, so the
 * byte looked for must not be zero.
 */
#ifndef MCPROTO_SCAN_H
#define MCPROTO_SCAN_H

#include "base/base.h"

U_INLINE u_u64 mc_word_repeat(u_u8 byte)
{
    u_u32 low = byte * 0x01010101u;
    return (u_u64)low << 32 | low;
}

U_INLINE u_u32 mc_load_u32(const u_u8 *p)
{
    return (u_u32)p[0] | (u_u32)p[1] << 8 | (u_u32)p[2] << 16 | (u_u32)p[3] << 24;
}

U_INLINE u_u64 mc_word_load(const u_u8 *p)
{
#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) &&                                 \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    /* gcc does not find the load in all places that the shifts are inlined to. */
    u_u64 word;

    u_copy(&word, p, sizeof(word));
    return word;
#else
    return (u_u64)p[0] | (u_u64)p[1] << 8 | (u_u64)p[2] << 16 | (u_u64)p[3] << 24 |
           (u_u64)p[4] << 32 | (u_u64)p[5] << 40 | (u_u64)p[6] << 48 | (u_u64)p[7] << 56;
#endif
}

/* The first `bytes` (0..7) bytes at p; the rest of the word is zero. */
U_INLINE u_u64 mc_word_load_some(const u_u8 *p, u_u32 bytes)
{
    u_u64 first;

    if (bytes >= 4) {
        u_u64 last = mc_load_u32(p + bytes - 4);
        return mc_load_u32(p) | last << 8 * (bytes - 4);
    }
    if (bytes == 0)
        return 0;
    /* First, middle and last byte: with fewer than three some of them are the same byte. */
    first = p[0];
    return first | (u_u64)p[bytes / 2] << 8 * (bytes / 2) | (u_u64)p[bytes - 1] << 8 * (bytes - 1);
}

/*
 * What is left of [start, end) at `at`, seven bytes at most, as mc_word_load_some() would read it;
 * cheaper where a whole word can be read that ends at the same place.
 */
U_INLINE u_u64 mc_word_load_rest(const u_u8 *start, const u_u8 *at, const u_u8 *end)
{
    u_u32 left = (u_u32)(end - at);

    if (left == 0 || end - start < 8)
        return mc_word_load_some(at, left);
    return mc_word_load(end - 8) >> (64 - 8 * left);
}

/*
 * Bit 7 of each byte that equals `byte`. Above the first match there may be false ones, below it
 * never: the borrow of the subtraction only travels upwards.
 */
U_INLINE u_u64 mc_word_match(u_u64 word, u_u8 byte)
{
    u_u64 difference = word ^ mc_word_repeat(byte);
    return (difference - mc_word_repeat(1)) & ~difference & mc_word_repeat(0x80);
}

/*
 * Index of the lowest match. Without an instruction for it all bytes up to the match are counted in
 * the top byte of a product.
 */
U_INLINE u_u32 mc_word_first(u_u64 matches)
{
#if defined(__GNUC__) && defined(__LP64__)
    return (u_u32)__builtin_ctzl(matches) / 8;
#else
    u_u64 up_to_it = (matches - 1) & ~matches & mc_word_repeat(1);
    return (u_u32)(up_to_it * mc_word_repeat(1) >> 56) - 1;
#endif
}

/* The first `byte` in [at, end), or null. */
U_INLINE const u_u8 *mc_scan_byte(const u_u8 *at, const u_u8 *end, u_u8 byte)
{
    const u_u8 *start = at;
    u_u64 matches;

    for (; end - at >= 8; at += 8) {
        matches = mc_word_match(mc_word_load(at), byte);
        if (matches != 0)
            return at + mc_word_first(matches);
    }
    matches = mc_word_match(mc_word_load_rest(start, at, end), byte);
    return matches != 0 ? at + mc_word_first(matches) : (const u_u8 *)U_NULL;
}

/* Bit 7 of each byte that is a space or a control character; false ones as mc_word_match(). */
U_INLINE u_u64 mc_word_match_blank(u_u64 word)
{
    return (word - mc_word_repeat(' ' + 1)) & ~word & mc_word_repeat(0x80);
}

/* The first space or control character in [at, end), or null. */
U_INLINE const u_u8 *mc_scan_blank(const u_u8 *at, const u_u8 *end)
{
    const u_u8 *start = at;
    u_u64 matches;

    for (; end - at >= 8; at += 8) {
        matches = mc_word_match_blank(mc_word_load(at));
        if (matches != 0)
            return at + mc_word_first(matches);
    }
    if (at == end)
        return (const u_u8 *)U_NULL;
    /* The zero bytes behind the end match too, but not before those in front of it. */
    at += mc_word_first(mc_word_match_blank(mc_word_load_rest(start, at, end)));
    return at < end ? at : (const u_u8 *)U_NULL;
}

/* Whether there is one in the `bytes` (8 to 16) bytes at p: two words, which overlap. */
U_INLINE int mc_has_blank_pair(const u_u8 *p, u_u32 bytes)
{
    return (mc_word_match_blank(mc_word_load(p)) |
            mc_word_match_blank(mc_word_load(p + bytes - 8))) != 0;
}

/* Whether there is one in the `bytes` (1 or more) bytes at p. */
U_INLINE int mc_has_blank(const u_u8 *p, u_u32 bytes)
{
    u_u32 i;
    u_u64 rest;

    if (bytes < 8) {
        /* Zero bytes fill the word up, and are there only if nothing comes before them. */
        rest = mc_word_match_blank(mc_word_load_some(p, bytes));
        return mc_word_first(rest) < bytes;
    }
    /* The last word first: it is all of a key of eight bytes, and most of many others. */
    if (mc_word_match_blank(mc_word_load(p + bytes - 8)) != 0)
        return 1;
    for (i = 0; i + 8 < bytes; i += 8) {
        if (mc_word_match_blank(mc_word_load(p + i)) != 0)
            return 1;
    }
    return 0;
}

#endif
