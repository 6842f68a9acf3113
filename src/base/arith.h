/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit arithmetic without 64-bit division, which on 32-bit machines is a call of a compiler
 * library that freestanding programs may lack. Pure functions; a few dozen steps each.
 */
#ifndef BASE_ARITH_H
#define BASE_ARITH_H

#include "base/base.h"

/* a * b / c, rounded down, at most 0xffffffff; c is not 0. */
u_u32 u_muldiv32(u_u32 a, u_u32 b, u_u32 c);

/* The cube root of v, rounded down. */
u_u32 u_cbrt64(u_u64 v);

#endif
