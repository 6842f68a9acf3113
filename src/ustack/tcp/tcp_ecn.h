/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explicit congestion notification (RFC 3168): negotiated in the handshake; the receiver echoes
 * marks of the network, the sender reduces cwnd once per round trip. With DCTCP the echo says of
 * each segment whether it was marked (RFC 8257 3.2).
 *
 * Only new data is sent as ECN-capable: no SYN, pure ACK, retransmission or window probe (6.1.1,
 * 6.1.4 to 6.1.6; the experiments of RFC 8311 are not implemented).
 */
#ifndef USTACK_TCP_TCP_ECN_H
#define USTACK_TCP_TCP_ECN_H

#include "ustack/tcp/tcp.h"

/* The ECN field of an IP header: section 5. */
enum { US_ECN_ECT0 = 2, US_ECN_CE = 3, US_ECN_MASK = 3 };

/*
 * Negotiates ECN with a received SYN or SYN-ACK (6.1.1). A retransmitted SYN of ours does not
 * request ECN, as some networks drop SYNs that do (6.1.1.1).
 */
void us_ecn_take_syn(const struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Whether a SYN requests ECN and the configuration permits it. */
int us_ecn_is_requested(const struct us_stack *stack, const struct us_seg *syn);

/* A retransmitted SYN of the peer: it may no longer request ECN. */
void us_ecn_syn_retransmitted(struct us_conn *conn, const struct us_seg *seg);

/* Records the mark of an acceptable data segment, before its data is processed (6.1.3). */
void us_ecn_data(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Processes the ECE flag of an acceptable segment, after its acknowledgment (6.1.2). */
void us_ecn_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Adds flags and the ECN field to a segment that is to be sent. */
void us_ecn_fill(const struct us_conn *conn, struct us_tcp_desc *desc);

/* cwnd was reduced: CWR is set on the next new data (6.1.2). */
U_INLINE void us_ecn_reduced(struct us_conn *conn)
{
    if (conn->opts & US_OPT_ECN)
        conn->ecn |= US_EF_SEND_CWR;
}

#endif
