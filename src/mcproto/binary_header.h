/* SPDX-License-Identifier: BSD-3-Clause */
/* The 24-byte header of a binary packet. */
#ifndef MCPROTO_BINARY_HEADER_H
#define MCPROTO_BINARY_HEADER_H

#include "base/wire.h"
#include "mcproto/mcproto.h"

struct mc_be64 {
    struct u_be32 high;
    struct u_be32 low;
};

struct mc_binary_header {
    u_u8 magic;
    u_u8 opcode;
    struct u_be16 key_len;
    u_u8 extras_len;
    u_u8 data_type;       /* not looked at, 0 in replies */
    struct u_be16 status; /* of a reply; requests have the vbucket here, which is not looked at */
    struct u_be32 body_len;
    u_u8 opaque[4]; /* the client's own, repeated as it is */
    struct mc_be64 cas;
};

U_STATIC_ASSERT(sizeof(struct mc_binary_header) == MC_BINARY_HEADER_BYTES, binary_header_bytes);

U_INLINE u_u64 mc_get_be64(struct mc_be64 v)
{
    return (u_u64)u_get_be32(v.high) << 32 | u_get_be32(v.low);
}

U_INLINE struct mc_be64 mc_be64(u_u64 v)
{
    struct mc_be64 r;
    r.high = u_be32((u_u32)(v >> 32));
    r.low = u_be32((u_u32)v);
    return r;
}

#endif
