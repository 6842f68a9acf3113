/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explicit congestion notification (RFC 3168): agreed on in the handshake, marks of the network
 * echoed by the receiver, answered by the sender once per round trip. With DCTCP the receiver's
 * echo says of each segment whether it was marked (RFC 8257 3.2).
 *
 * Only new data is sent as ECN-capable: no SYN, no pure ACK, no retransmission, no window probe
 * (6.1.1, 6.1.4 to 6.1.6; what RFC 8311 lets experiments change stays as it is here).
 */
#ifndef USTACK_TCP_ECN_H
#define USTACK_TCP_ECN_H

#include "ustack/tcp.h"

/* The ECN field of an IP header: section 5. */
enum { US_ECN_ECT0 = 2, US_ECN_CE = 3, US_ECN_MASK = 3 };

/*
 * Takes over what a SYN says, the peer's or the answer to ours (6.1.1). A SYN of ours that was sent
 * again does without, for a network that drops what it does not know (6.1.1.1).
 */
void us_ecn_take_syn(const struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Whether the SYN of a peer asks for ECN and may have it. */
int us_ecn_is_asked(const struct us_stack *stack, const struct us_seg *syn);

/* The peer's SYN came again: perhaps it gave up ECN. */
void us_ecn_syn_again(struct us_conn *conn, const struct us_seg *seg);

/* An acceptable segment with data has arrived, before it is taken (6.1.3). */
void us_ecn_data(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* What an acceptable segment echoes, after its acknowledgment was taken (6.1.2). */
void us_ecn_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Adds flags and the ECN field to a segment that is to be sent. */
void us_ecn_fill(const struct us_conn *conn, struct us_tcp_desc *desc);

/* The congestion window was reduced: the peer is told with the next new data (6.1.2). */
U_INLINE void us_ecn_reduced(struct us_conn *conn)
{
    if (conn->opts & US_OPT_ECN)
        conn->ecn |= US_EF_CWR;
}

#endif
