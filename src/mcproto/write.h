/* SPDX-License-Identifier: BSD-3-Clause */
/* Appending to a reply: each function writes at `at` and returns the end of what it has written. */
#ifndef MCPROTO_WRITE_H
#define MCPROTO_WRITE_H

#include "base/base.h"
#include "mcproto/mcproto.h"

U_INLINE u_u8 *mc_append(u_u8 *at, const void *bytes, u_u32 len)
{
    u_copy(at, bytes, len);
    return at + len;
}

U_INLINE u_u8 *mc_append_number(u_u8 *at, u_u64 number)
{
    if (number > 9)
        return at + mc_write_u64(at, number);
    *at = (u_u8)('0' + (u_u32)number);
    return at + 1;
}

#endif
