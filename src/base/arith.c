/* SPDX-License-Identifier: BSD-3-Clause */
/* Multiplication with division, cube root; see arith.h. */
#include "base/arith.h"

u_u32 u_muldiv32(u_u32 a, u_u32 b, u_u32 c)
{
    u_u64 rest = (u_u64)a * b;
    u_u64 divisor = (u_u64)c << 31;
    u_u32 result = 0;
    unsigned i;

    U_ASSERT(c != 0);
    if (rest >> 32 >= c)
        return 0xffffffffu;
    for (i = 0; i < 32; i++) { /* one bit of the quotient at a time, the highest first */
        result <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            result |= 1;
        }
        divisor >>= 1;
    }
    return result;
}

/* The root of 2^64 - 1 has 22 bits. */
enum { CBRT_BITS = 22 };

u_u32 u_cbrt64(u_u64 v)
{
    u_u64 root = 0;
    int bit;

    for (bit = CBRT_BITS - 1; bit >= 0; bit--) {
        u_u64 tried = root | ((u_u64)1 << bit);

        /* 2642245 is the root of 2^64 - 1: beyond it the third power would not fit. */
        if (tried <= 2642245 && tried * tried * tried <= v)
            root = tried;
    }
    return (u_u32)root;
}
