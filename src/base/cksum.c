/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum of pieces of any length; see cksum.h.
 *
 * A ones' complement sum of 16-bit words may be computed from larger words in any byte order if
 * each carry out of the top is added at the bottom (RFC 1071 section 2). Here the words have 64
 * bits.
 */
#include "base/cksum.h"

#include "base/cksum_raw.h"

enum { CKSUM_BLOCK_WORDS = 4, CKSUM_BLOCK_BYTES = 32 };

/* The bit of a sum that is set after an odd number of bytes. */
static const u_u32 cksum_odd = (u_u32)1 << 31;

static u_u32 cksum_swap(u_u32 sum)
{
    return (sum & 0xff) << 8 | sum >> 8;
}

/*
 * The 16-bit sum of `bytes` bytes, which are copied to `to` unless it is null. Callers pass a
 * constant null or a pointer, so that the choice is made at compile time.
 */
U_INLINE u_u32 cksum_piece(u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u64 words[CKSUM_BLOCK_WORDS];
    u_u64 even = 0;
    u_u64 odd = 0;

    /* Two independent sums hide the latency of the carry. */
    for (; bytes >= CKSUM_BLOCK_BYTES + 8; bytes -= CKSUM_BLOCK_BYTES) {
        u_copy(words, from, CKSUM_BLOCK_BYTES);
        even = u_cksum_raw_word(u_cksum_raw_word(even, words[0]), words[2]);
        odd = u_cksum_raw_word(u_cksum_raw_word(odd, words[1]), words[3]);
        from += CKSUM_BLOCK_BYTES;
        if (to) {
            u_copy(to, words, CKSUM_BLOCK_BYTES);
            to += CKSUM_BLOCK_BYTES;
        }
    }
    even = u_cksum_raw_word(even, odd);
    return u_cksum_raw_fold(u_cksum_raw_piece(even, to, from, bytes));
}

/* Adds the 16-bit sum of the next `bytes` bytes to a sum. */
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

u_u64 u_cksum_raw_few(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    u_u8 padded[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    u_u64 word;
    u_u32 i;

    U_ASSERT(bytes < sizeof(padded));
    for (i = 0; i < bytes; i++) {
        padded[i] = from[i];
        if (to)
            to[i] = from[i];
    }
    u_copy(&word, padded, sizeof(word));
    return u_cksum_raw_word(sum, word);
}

u_u64 u_cksum_raw_any(u_u64 sum, u_u8 *to, const u_u8 *from, u_u32 bytes)
{
    return u_cksum_raw_word(sum, to ? cksum_piece(to, from, bytes)
                                    : cksum_piece((u_u8 *)U_NULL, from, bytes));
}

u_u32 u_cksum_pseudo4(struct u_be32 src, struct u_be32 dst, unsigned protocol, u_u32 l4_bytes)
{
    u_u64 sum = u_cksum_raw_be32(u_cksum_raw_be32(0, l4_bytes), protocol);
    u_u64 addresses;

    u_copy(&addresses, src.b, 4);
    u_copy((u_u8 *)&addresses + 4, dst.b, 4);
    return u_cksum_raw_fold(u_cksum_raw_word(sum, addresses));
}

u_u32 u_cksum_pseudo6(const u_u8 *src, const u_u8 *dst, unsigned protocol, u_u32 l4_bytes)
{
    u_u64 sum = u_cksum_raw_be32(u_cksum_raw_be32(0, l4_bytes), protocol);

    return u_cksum_raw_fold(u_cksum_raw_add(u_cksum_raw_add(sum, src, 16), dst, 16));
}

u_u16 u_cksum_partial(u_u32 sum)
{
    u_u16 native = (u_u16)sum;
    struct u_be16 wire;

    u_copy(&wire, &native, 2);
    return u_get_be16(wire);
}

u_u16 u_cksum_finish(u_u32 sum)
{
    return (u_u16)~u_cksum_partial(sum);
}
