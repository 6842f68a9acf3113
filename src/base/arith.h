/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic on 64 bits without a 64-bit division, which some compilers make a call to a library
 * that a freestanding program does not have. Pure functions; they take some dozens of steps.
 */
#ifndef BASE_ARITH_H
#define BASE_ARITH_H

#include "base/base.h"

/* a * b / c, rounded down; c is not 0. What does not fit into 32 bits is 0xffffffff. */
u_u32 u_muldiv32(u_u32 a, u_u32 b, u_u32 c);

/* The largest integer whose third power is not above v. */
u_u32 u_cbrt64(u_u64 v);

#endif
