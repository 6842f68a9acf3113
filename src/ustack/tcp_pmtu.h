/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size of packets that a connection's path carries: RFC 1191 and RFC 8201 where routers tell,
 * RFC 4821 where they are silent.
 *
 * A path begins as large as the MTU of the link. It is lowered by an ICMP error that quotes what is
 * in flight (tcp_icmp.c), or when full-size segments time out repeatedly: then a router may drop
 * them without a word. Ten minutes after that it is tried whether the path carries more again: one
 * segment of new data is made larger. If it arrives that is the size from then on, if it has to be
 * sent again the next attempt lies in the middle.
 */
#ifndef USTACK_TCP_PMTU_H
#define USTACK_TCP_PMTU_H

#include "ustack/tcp.h"

/* A SYN has come with this MSS: begins with the MTU of the link. */
void us_pmtu_init(const struct us_stack *stack, struct us_conn *conn, u_u32 peer_mss);

/* Payload bytes of a full-size segment, timestamps allowed for. */
u_u32 us_pmtu_mss(const struct us_conn *conn);

/* The retransmission timer has expired retries times in a row for data at SND.UNA. */
void us_pmtu_timeout(struct us_stack *stack, struct us_conn *conn);

/* Chooses the size of a probe, if it is time for one and there is data for it. */
void us_pmtu_plan(const struct us_stack *stack, struct us_conn *conn);

/* Data up to `end` was sent, for the first time or again from `seq`. */
void us_pmtu_sent(struct us_stack *stack, struct us_conn *conn, u_u32 seq, u_u32 end);

/* SND.UNA has moved while a probe is in flight. */
void us_pmtu_acked(struct us_stack *stack, struct us_conn *conn);

/* Whether the path carries less than link and peer would: only then us_pmtu_plan() does anything.
 */
U_INLINE int us_pmtu_is_low(const struct us_conn *conn)
{
    return conn->pmtu.mtu < conn->pmtu.mtu_max;
}

/* Payload bytes of the segment to be made next at SND.NXT. */
U_INLINE u_u32 us_pmtu_segment(const struct us_conn *conn)
{
    return U_LIKELY(conn->pmtu.probe_bytes == 0) ? conn->cc.mss : (u_u32)conn->pmtu.probe_bytes;
}

#endif
