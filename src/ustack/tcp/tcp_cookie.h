/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SYN cookies (RFC 4987 section 3.6): the initial sequence number of a SYN-ACK without state. It
 * encodes the peer's MSS, rounded down, and a keyed hash of the 4-tuple, the peer's initial
 * sequence number and a slow clock; the ACK that completes the handshake returns it. The other
 * options return in the echoed timestamp, if timestamps are negotiated.
 */
#ifndef USTACK_TCP_TCP_COOKIE_H
#define USTACK_TCP_TCP_COOKIE_H

#include "ustack/tcp/tcp.h"

/* The options of a SYN in a cookie and its timestamp. */
struct us_cookie {
    u_u16 mss;  /* at most the MSS of the SYN */
    u_u8 opts;  /* US_OPT_*; none without timestamps */
    u_u8 scale; /* with US_OPT_SCALE */
};

/* The initial sequence number for our reply to a SYN with peer_isn. */
u_u32 us_cookie_make(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                     u_u32 mss);

/*
 * Whether `isn` is a cookie for this connection from the last two minutes; if so fills in
 * cookie->mss.
 */
int us_cookie_check(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                    u_u32 isn, struct us_cookie *cookie);

/* The latest timestamp up to `now` whose low bits encode the options of `cookie`. */
u_u32 us_cookie_ts_make(u_u32 now, const struct us_cookie *cookie);

/* Decodes the options of a timestamp. Any timestamp gives options that a SYN can offer. */
void us_cookie_ts_read(u_u32 ts, struct us_cookie *cookie);

#endif
