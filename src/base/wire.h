/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers in network byte order as arrays of bytes: independent of alignment and byte order, safe
 * under aliasing rules. Compilers make each access one load or store and a byte swap.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/base.h"

struct u_be16 {
    u_u8 b[2];
};

struct u_be32 {
    u_u8 b[4];
};

U_INLINE u_u16 u_get_be16(struct u_be16 v)
{
    return (u_u16)((unsigned)v.b[0] << 8 | v.b[1]);
}

U_INLINE u_u32 u_get_be32(struct u_be32 v)
{
    return (u_u32)v.b[0] << 24 | (u_u32)v.b[1] << 16 | (u_u32)v.b[2] << 8 | v.b[3];
}

U_INLINE struct u_be16 u_be16(unsigned v)
{
    struct u_be16 r;
    r.b[0] = (u_u8)(v >> 8);
    r.b[1] = (u_u8)v;
    return r;
}

U_INLINE struct u_be32 u_be32(u_u32 v)
{
    struct u_be32 r;
    r.b[0] = (u_u8)(v >> 24);
    r.b[1] = (u_u8)(v >> 16);
    r.b[2] = (u_u8)(v >> 8);
    r.b[3] = (u_u8)v;
    return r;
}

/*
 * A number in network byte order as a native word with the same bytes in memory, for values that
 * stay in registers: compilers do not combine single bytes into a word there.
 */
U_INLINE u_u32 u_be32_word(u_u32 v)
{
#ifdef U_LITTLE_ENDIAN
    return __builtin_bswap32(v);
#else
    struct u_be32 wire = u_be32(v);
    u_u32 word;

    u_copy(&word, &wire, sizeof(word));
    return word;
#endif
}

/* Two numbers of four bytes each, the first at the lower address. */
U_INLINE u_u64 u_be64_word(u_u32 first, u_u32 second)
{
#ifdef U_LITTLE_ENDIAN
    return __builtin_bswap64((u_u64)first << 32 | second);
#else
    struct u_be32 wire[2];
    u_u64 word;

    wire[0] = u_be32(first);
    wire[1] = u_be32(second);
    u_copy(&word, wire, sizeof(word));
    return word;
#endif
}

/* Two bytes. */
U_INLINE u_u16 u_be16_word(u_u32 v)
{
#ifdef U_LITTLE_ENDIAN
    return __builtin_bswap16((u_u16)v);
#else
    struct u_be16 wire = u_be16(v);
    u_u16 word;

    u_copy(&word, &wire, sizeof(word));
    return word;
#endif
}

U_STATIC_ASSERT(sizeof(struct u_be16) == 2, be16_size);
U_STATIC_ASSERT(sizeof(struct u_be32) == 4, be32_size);

#endif
