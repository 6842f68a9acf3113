/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequence numbers: a circle of 2^32 (RFC 9293 section 3.4). a is before b if the shorter way from
 * a to b goes up. Never compare two of them with a bare <.
 */
#ifndef USTACK_TCP_SEQ_H
#define USTACK_TCP_SEQ_H

#include "base/base.h"

U_INLINE int us_seq_lt(u_u32 a, u_u32 b)
{
    return (u_s32)(a - b) < 0;
}

U_INLINE int us_seq_leq(u_u32 a, u_u32 b)
{
    return (u_s32)(a - b) <= 0;
}

U_INLINE int us_seq_gt(u_u32 a, u_u32 b)
{
    return (u_s32)(a - b) > 0;
}

U_INLINE int us_seq_geq(u_u32 a, u_u32 b)
{
    return (u_s32)(a - b) >= 0;
}

/* The later of the two. */
U_INLINE u_u32 us_seq_max(u_u32 a, u_u32 b)
{
    return us_seq_gt(a, b) ? a : b;
}

/* The earlier of the two. */
U_INLINE u_u32 us_seq_min(u_u32 a, u_u32 b)
{
    return us_seq_lt(a, b) ? a : b;
}

#endif
