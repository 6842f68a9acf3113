/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Internet checksum of IPv4, ICMP, UDP and TCP (RFC 1071).
 *
 * A checksum is accumulated piece by piece in a `u_u32` that starts at 0:
 *
 *     sum = u_cksum_pseudo4(source, destination, protocol, bytes);
 *     sum = u_cksum_add(sum, header, header_bytes);
 *     sum = u_cksum_add(sum, payload, payload_bytes);
 *     header->checksum = u_be16(u_cksum_finish(sum));
 *
 * Pieces may have any length and alignment. The top bit of the sum is set after an odd number of
 * bytes; the next piece then begins in the second half of a 16-bit word, and its own sum is added
 * with its two bytes exchanged (RFC 1071 section 2(B)). The other bits are in the byte order of the
 * machine, so only the functions below may interpret a sum.
 *
 * cksum_raw.h has the inline variant for pieces that begin at an even offset.
 */
#ifndef BASE_CKSUM_H
#define BASE_CKSUM_H

#include "base/base.h"
#include "base/wire.h"

/* Adds `bytes` bytes at `data` to `sum` and returns the new sum. */
u_u32 u_cksum_add(u_u32 sum, const void *data, u_u32 bytes);

/* u_cksum_add() that also copies the bytes to `to`; the two areas must not overlap. */
u_u32 u_cksum_copy(u_u32 sum, void *to, const void *from, u_u32 bytes);

/*
 * The sum of the pseudo-header of UDP and TCP over IPv4 (RFC 9293 section 3.1). l4_bytes is the
 * length of the UDP or TCP header and its payload.
 */
u_u32 u_cksum_pseudo4(struct u_be32 src, struct u_be32 dst, unsigned protocol, u_u32 l4_bytes);

/* The same over IPv6 (RFC 8200 section 8.1); src and dst are 16 bytes each. */
u_u32 u_cksum_pseudo6(const u_u8 *src, const u_u8 *dst, unsigned protocol, u_u32 l4_bytes);

/*
 * The checksum to store with u_be16(). Over bytes that contain their own valid checksum it is 0.
 * UDP must store 0xffff where this returns 0 (RFC 768).
 */
u_u16 u_cksum_finish(u_u32 sum);

/*
 * The partial sum that a NIC with checksum offload expects in the checksum field: folded to 16
 * bits, not inverted. To store with u_be16().
 */
u_u16 u_cksum_partial(u_u32 sum);

#endif
