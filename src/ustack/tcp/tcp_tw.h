/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TIME-WAIT (RFC 9293 3.6.1) as small objects: a connection's memory is free for the next one as
 * soon as the application has taken its CLOSED event. RSTs are ignored (RFC 1337); a SYN that is
 * newer than the old connection replaces it (RFC 9293 3.6.1, RFC 6191).
 */
#ifndef USTACK_TCP_TCP_TW_H
#define USTACK_TCP_TCP_TW_H

#include "ustack/tcp/tcp.h"

struct us_tw {
    struct us_tw *hash_next;
    struct us_tcp_key key;
    struct us_ip6 remote6; /* of an IPv6 connection; otherwise 0 */
    u_u32 snd_nxt;
    u_u32 rcv_nxt;
    u_u32 ts_recent;
    u_u32 ts_offset;
    u_u16 window; /* as it stood in the header of our last ACK */
    u_u8 has_ts;
    struct u_list link; /* in us_stack.tw_list */
    u_u64 until_us;
};

/*
 * Enters the connection's 4-tuple into TIME-WAIT. With rx, replies to that segment with an ACK. The
 * oldest entry is recycled if the pool is empty.
 */
void us_tw_add(struct us_stack *stack, const struct us_conn *conn, const struct us_rx *rx);

struct us_tw *us_tw_find(const struct us_stack *stack, const struct us_tcp_key *key,
                         const struct us_ip6 *remote6);

/*
 * Processes a segment for an entry. Returns 1 if it is a SYN that starts a new connection, which
 * requires a listener and a SYN queue (a cookie cannot promise its sequence number): then the entry
 * is freed, and *isn_min is a number that the initial sequence number must exceed.
 */
int us_tw_input(struct us_stack *stack, struct us_tw *tw, const struct us_seg *seg, int listens,
                u_u32 *isn_min);

/* Frees the entries of a local address that was removed. */
void us_tw_remove_local(struct us_stack *stack, u_u32 local_ip);

/* Frees expired entries, a bounded number. */
void us_tw_expire(struct us_stack *stack);

/* When the next one expires; US_NEVER if there is none. */
u_u64 us_tw_deadline(const struct us_stack *stack);

#endif
