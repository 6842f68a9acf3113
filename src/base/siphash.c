/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-c-d. The numbers of rounds are arguments of an inline function, so that both variants
 * share the code and are compiled with constants.
 */
#include "base/siphash.h"

struct sip_state {
    u_u64 v0, v1, v2, v3;
};

U_INLINE u_u64 sip_join(u_u32 high, u_u32 low)
{
    return (u_u64)high << 32 | low;
}

U_INLINE u_u32 sip_le32(const u_u8 *p)
{
    return p[0] | (u_u32)p[1] << 8 | (u_u32)p[2] << 16 | (u_u32)p[3] << 24;
}

U_INLINE u_u64 sip_le64(const u_u8 *p)
{
    return sip_join(sip_le32(p + 4), sip_le32(p));
}

U_INLINE u_u64 sip_rotate(u_u64 x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

U_INLINE void sip_rounds(struct sip_state *s, unsigned rounds)
{
    while (rounds-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = sip_rotate(s->v1, 13) ^ s->v0;
        s->v3 = sip_rotate(s->v3, 16) ^ s->v2;
        s->v0 = sip_rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = sip_rotate(s->v1, 17) ^ s->v2;
        s->v3 = sip_rotate(s->v3, 21) ^ s->v0;
        s->v2 = sip_rotate(s->v2, 32);
    }
}

U_INLINE void sip_absorb(struct sip_state *s, u_u64 word, unsigned rounds)
{
    s->v3 ^= word;
    sip_rounds(s, rounds);
    s->v0 ^= word;
}

/* The constants of the paper, the text "somepseudorandomlygeneratedbytes", mixed with the key. */
U_INLINE struct sip_state sip_start(const u_u8 *key)
{
    u_u64 k0 = sip_le64(key);
    u_u64 k1 = sip_le64(key + 8);
    struct sip_state s;

    s.v0 = k0 ^ sip_join(0x736f6d65, 0x70736575);
    s.v1 = k1 ^ sip_join(0x646f7261, 0x6e646f6d);
    s.v2 = k0 ^ sip_join(0x6c796765, 0x6e657261);
    s.v3 = k1 ^ sip_join(0x74656462, 0x79746573);
    return s;
}

U_INLINE u_u64 sip_hash(const u_u8 *key, const u_u8 *p, u_u32 bytes, unsigned c, unsigned d)
{
    struct sip_state s = sip_start(key);
    u_u64 last = (u_u64)(bytes & 0xff) << 56;
    unsigned left;

    for (left = bytes & 7, bytes -= left; bytes > 0; bytes -= 8, p += 8)
        sip_absorb(&s, sip_le64(p), c);
    while (left-- > 0)
        last |= (u_u64)p[left] << (8 * left);
    sip_absorb(&s, last, c);
    s.v2 ^= 0xff;
    sip_rounds(&s, d);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

u_u64 u_siphash13(const u_u8 *key, const void *data, u_u32 bytes)
{
    return sip_hash(key, (const u_u8 *)data, bytes, 1, 3);
}

u_u64 u_siphash24(const u_u8 *key, const void *data, u_u32 bytes)
{
    return sip_hash(key, (const u_u8 *)data, bytes, 2, 4);
}
