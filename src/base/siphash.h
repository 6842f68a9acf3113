/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a keyed hash whose
 * output is unpredictable without the key, so an attacker cannot cause collisions.
 */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include "base/base.h"

enum { U_SIPHASH_KEY_BYTES = 16 };

/*
 * SipHash-1-3 of `bytes` bytes at `data` under the 16 bytes at `key`: for hash tables.
 * No alignment is required. The result does not depend on the byte order of the machine.
 */
u_u64 u_siphash13(const u_u8 *key, const void *data, u_u32 bytes);

/*
 * SipHash-2-4, about half as fast and with a larger security margin: for values that peers see and
 * must not predict, such as initial sequence numbers and SYN cookies.
 */
u_u64 u_siphash24(const u_u8 *key, const void *data, u_u32 bytes);

#endif
