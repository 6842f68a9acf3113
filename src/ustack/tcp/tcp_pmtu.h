/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path MTU discovery: RFC 1191 and RFC 8201 by ICMP errors, RFC 4821 without them.
 *
 * The path MTU begins as the MTU of the link. It is lowered by an ICMP error that quotes data in
 * flight (tcp_icmp.c), or when full-sized segments time out repeatedly, as a router may drop them
 * silently. Ten minutes later a larger size is probed: one segment of new data is made larger. If
 * it is acknowledged its size is the new path MTU; if it is lost the next probe tries a size half-
 * way.
 */
#ifndef USTACK_TCP_TCP_PMTU_H
#define USTACK_TCP_TCP_PMTU_H

#include "ustack/tcp/tcp.h"

/* Begins with the MTU of the link, bounded by the MSS of the peer's SYN. */
void us_pmtu_init(const struct us_stack *stack, struct us_conn *conn, u_u32 peer_mss);

/* Payload bytes of a full-sized segment, less the timestamps option. */
u_u32 us_pmtu_mss(const struct us_conn *conn);

/* The RTO has expired conn->retries times in a row: lowers the path MTU if it may be the cause. */
void us_pmtu_timeout(struct us_stack *stack, struct us_conn *conn);

/* Chooses the size of a probe if one is due and there is data for it. */
void us_pmtu_plan(const struct us_stack *stack, struct us_conn *conn);

/* Data from `seq` to `end` was sent, for the first time or again. */
void us_pmtu_sent(struct us_stack *stack, struct us_conn *conn, u_u32 seq, u_u32 end);

/* SND.UNA has moved while a probe is in flight. */
void us_pmtu_acked(struct us_stack *stack, struct us_conn *conn);

/* Whether the path MTU is below that of link and peer: only then us_pmtu_plan() has any effect. */
U_INLINE int us_pmtu_is_reduced(const struct us_conn *conn)
{
    return conn->pmtu.mtu < conn->pmtu.mtu_max;
}

/* Payload bytes of the next segment at SND.NXT. */
U_INLINE u_u32 us_pmtu_segment(const struct us_conn *conn)
{
    return U_LIKELY(conn->pmtu.probe_bytes == 0) ? conn->cc.mss : (u_u32)conn->pmtu.probe_bytes;
}

#endif
