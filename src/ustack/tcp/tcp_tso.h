/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large segments, which the device cuts (US_CAP_TX_TSO), and frames of several segments of memory
 * (US_CAP_TX_SG), which save a copy of referenced bytes (us_send_ref()).
 *
 * A segment is made large only where all segments that the device makes of it could be sent now one
 * by one: new data, full-sized but for the last of all data, nothing lost, no path MTU probe under
 * way. A retransmission is always one segment.
 */
#ifndef USTACK_TCP_TCP_TSO_H
#define USTACK_TCP_TCP_TSO_H

#include "ustack/tcp/tcp.h"

/* Makes a planned segment of new data as large as its packet, the windows and the device allow. */
void us_tso_extend(const struct us_stack *stack, const struct us_conn *conn,
                   const struct us_pkt *pkt, struct us_tcp_desc *desc);

/*
 * Writes the payload of a segment behind `at` bytes of headers, links further segments, and returns
 * `sum`, with the payload added if with_sum. *outside: payload bytes that are not in the packet
 * itself.
 */
u_u32 us_tso_payload(const struct us_stack *stack, struct us_pkt *pkt, u_u32 at,
                     const struct us_tcp_desc *desc, struct us_sendq *sendq, u_u32 sum,
                     int with_sum, u_u32 *outside);

#endif
