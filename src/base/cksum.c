/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum, 32 bytes at a time.
 *
 * A ones' complement sum of 16-bit words may be made of larger words, in any byte order, as long
 * as every carry out of the top comes back in at the bottom (RFC 1071 section 2). Here 32-bit
 * words are added to 64-bit accumulators, which therefore have no carry to care for: it takes
 * 2^32 words to fill one, and the length of a piece is below 2^32 bytes.
 */
#include "base/cksum.h"

enum { CKSUM_BLOCK_WORDS = 8, CKSUM_BLOCK_BYTES = 32 };

/* Set in a sum of an odd number of bytes. */
static const u_u32 cksum_odd = (u_u32)1 << 31;

/* Brings a sum down to 16 bits by adding the carries back in. */
static u_u32 cksum_fold64(u_u64 sum)
{
    u_u32 low;

    sum = (sum & 0xffffffffu) + (sum >> 32);
    sum = (sum & 0xffffffffu) + (sum >> 32);
    low = (u_u32)sum;
    low = (low & 0xffff) + (low >> 16);
    return (low & 0xffff) + (low >> 16);
}

static u_u32 cksum_swap(u_u32 sum)
{
    return (sum & 0xff) << 8 | sum >> 8;
}

/* The sum of the last 0 to 3 bytes, copied to `to` unless that is null. */
U_INLINE u_u32 cksum_tail(u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u8 last[2] = {0, 0}; /* a missing second byte counts as 0 */
    u_u32 sum = 0;
    u_u16 half;

    if (bytes & 2) {
        u_copy(&half, from, 2);
        sum += half;
        if (to)
            u_copy(to, &half, 2);
    }
    if (bytes & 1) {
        last[0] = from[bytes - 1];
        u_copy(&half, last, 2);
        sum += half;
        if (to)
            to[bytes - 1] = last[0];
    }
    return sum;
}

/*
 * The folded sum of `bytes` bytes that begin at an even place. Where `to` is not null they are
 * copied there as well; callers pass a constant null or a pointer, so the choice costs nothing.
 */
U_INLINE u_u32 cksum_piece(u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u32 words[CKSUM_BLOCK_WORDS];
    u_u64 even = 0;
    u_u64 odd = 0;

    for (; bytes >= CKSUM_BLOCK_BYTES; bytes -= CKSUM_BLOCK_BYTES) {
        u_copy(words, from, CKSUM_BLOCK_BYTES);
        even += (u_u64)words[0] + words[2] + words[4] + words[6];
        odd += (u_u64)words[1] + words[3] + words[5] + words[7];
        from += CKSUM_BLOCK_BYTES;
        if (to) {
            u_copy(to, words, CKSUM_BLOCK_BYTES);
            to += CKSUM_BLOCK_BYTES;
        }
    }
    for (; bytes >= 4; bytes -= 4) {
        u_copy(words, from, 4);
        even += words[0];
        from += 4;
        if (to) {
            u_copy(to, words, 4);
            to += 4;
        }
    }
    return cksum_fold64(even + odd + cksum_tail(to, from, bytes));
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

u_u32 u_cksum_pseudo4(struct u_be32 src, struct u_be32 dst, unsigned protocol, u_u32 l4_bytes)
{
    struct u_be32 length = u_be32(l4_bytes);
    struct u_be32 proto = u_be32(protocol);
    u_u32 words[4];

    u_copy(&words[0], &src, 4);
    u_copy(&words[1], &dst, 4);
    u_copy(&words[2], &length, 4);
    u_copy(&words[3], &proto, 4);
    return cksum_fold64((u_u64)words[0] + words[1] + words[2] + words[3]);
}

u_u32 u_cksum_pseudo6(const u_u8 *src, const u_u8 *dst, unsigned protocol, u_u32 l4_bytes)
{
    struct u_be32 length = u_be32(l4_bytes);
    struct u_be32 proto = u_be32(protocol);
    u_u32 words[10];
    u_u64 sum = 0;
    unsigned i;

    u_copy(words, src, 16);
    u_copy(words + 4, dst, 16);
    u_copy(words + 8, &length, 4);
    u_copy(words + 9, &proto, 4);
    for (i = 0; i < U_ARRAY_LEN(words); i++)
        sum += words[i];
    return cksum_fold64(sum);
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
