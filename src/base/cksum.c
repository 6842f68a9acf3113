/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum of pieces of any length.
 *
 * A ones' complement sum of 16-bit words may be made of larger words, in any byte order, as long
 * as every carry out of the top comes back in at the bottom (RFC 1071 section 2). Here it is made
 * of the largest words that the machine adds at once; see cksum.h for sums of a few of them.
 */
#include "base/cksum.h"

enum { CKSUM_BLOCK_WORDS = 4, CKSUM_BLOCK_BYTES = 32 };

/* Set in a sum of an odd number of bytes. */
static const u_u32 cksum_odd = (u_u32)1 << 31;

static u_u32 cksum_swap(u_u32 sum)
{
    return (sum & 0xff) << 8 | sum >> 8;
}

/*
 * The folded sum of `bytes` bytes that begin at an even place. Where `to` is not null they are
 * copied there as well; callers pass a constant null or a pointer, so the choice costs nothing.
 */
U_INLINE u_u32 cksum_piece(u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u64 words[CKSUM_BLOCK_WORDS];
    u_u64 even = 0;
    u_u64 odd = 0;

    /* Two sums, so that neither waits for the other's carry. */
    for (; bytes >= CKSUM_BLOCK_BYTES; bytes -= CKSUM_BLOCK_BYTES) {
        u_copy(words, from, CKSUM_BLOCK_BYTES);
        even = u_sum_add64(u_sum_add64(even, words[0]), words[2]);
        odd = u_sum_add64(u_sum_add64(odd, words[1]), words[3]);
        from += CKSUM_BLOCK_BYTES;
        if (to) {
            u_copy(to, words, CKSUM_BLOCK_BYTES);
            to += CKSUM_BLOCK_BYTES;
        }
    }
    even = u_sum_add64(even, odd);
    return u_sum_fold(to ? u_sum_copy(even, to, from, bytes) : u_sum_add(even, from, bytes));
}

/* Joins a sum and the folded sum of the next `bytes` bytes. */
static u_u32 cksum_append(u_u32 sum, u_u32 piece, u_u32 bytes)
{
    u_u32 parity = (sum ^ bytes << 31) & cksum_odd;

    if (sum & cksum_odd)
        piece = cksum_swap(piece);
    sum = (sum & 0xffff) + piece;
    return ((sum & 0xffff) + (sum >> 16)) | parity;
}

u_u32 u_cksum_add(u_u32 sum, const void *data, u_u32 bytes)
{
    return cksum_append(sum, cksum_piece((u_u8 *)U_NULL, (const u_u8 *)data, bytes), bytes);
}

u_u32 u_cksum_copy(u_u32 sum, void *to, const void *from, u_u32 bytes)
{
    return cksum_append(sum, cksum_piece((u_u8 *)to, (const u_u8 *)from, bytes), bytes);
}

u_u64 u_sum_any(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    return u_sum_add64(sum, to ? cksum_piece(to, from, bytes)
                               : cksum_piece((u_u8 *)U_NULL, from, bytes));
}

u_u32 u_cksum_pseudo4(struct u_be32 src, struct u_be32 dst, unsigned protocol, u_u32 l4_bytes)
{
    u_u64 sum = u_sum_be32(u_sum_be32(0, l4_bytes), protocol);

    return u_sum_fold(u_sum_add(u_sum_add(sum, src.b, 4), dst.b, 4));
}

u_u32 u_cksum_pseudo6(const u_u8 *src, const u_u8 *dst, unsigned protocol, u_u32 l4_bytes)
{
    u_u64 sum = u_sum_be32(u_sum_be32(0, l4_bytes), protocol);

    return u_sum_fold(u_sum_add(u_sum_add(sum, src, 16), dst, 16));
}

u_u16 u_cksum_partial(u_u32 sum)
{
    u_u16 native = (u_u16)sum;
    struct u_be16 wire;

    u_copy(&wire, &native, 2);
    return u_get_be16(wire);
}

u_u16 u_cksum_fold(u_u32 sum)
{
    return (u_u16)~u_cksum_partial(sum);
}
