/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SYN cookies (RFC 4987 section 3.6): the initial sequence number of a SYN-ACK that nothing is
 * remembered of. It holds the peer's MSS, rounded down, and a keyed hash of the connection's name,
 * the peer's initial sequence number and a slow clock; the ACK that completes the handshake brings
 * it back. What else was agreed on returns in the echo of the timestamp, if there are timestamps.
 */
#ifndef USTACK_TCP_COOKIE_H
#define USTACK_TCP_COOKIE_H

#include "ustack/tcp.h"

/* What a cookie, and the timestamp that goes with it, remember of a SYN. */
struct us_cookie {
    u_u16 mss;  /* at most what the peer has offered */
    u_u8 opts;  /* US_OPT_*; none without timestamps */
    u_u8 scale; /* with US_OPT_SCALE */
};

/* The initial sequence number for our answer to a SYN that began with peer_isn. */
u_u32 us_cookie_make(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                     u_u32 mss);

/*
 * Whether `isn` is a cookie that was made for this connection within the last two minutes; fills
 * in cookie->mss if so.
 */
int us_cookie_check(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                    u_u32 isn, struct us_cookie *cookie);

/* The latest timestamp up to `now` whose low bits say what `cookie` says of the options. */
u_u32 us_cookie_ts_make(u_u32 now, const struct us_cookie *cookie);

/* The options that a timestamp tells. Whatever it is, the result is one that a SYN could offer. */
void us_cookie_ts_read(u_u32 ts, struct us_cookie *cookie);

#endif
