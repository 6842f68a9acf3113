/* SPDX-License-Identifier: BSD-3-Clause */
/* Processing of a data segment in order, shared by general code and fast path. */
#ifndef USTACK_TCP_TCP_RECV_H
#define USTACK_TCP_TCP_RECV_H

#include "ustack/tcp/tcp.h"

/*
 * An in-order segment was taken: schedules its ACK, delayed unless the one of the segment before is
 * (RFC 9293 3.8.6.3: an ACK at least for every second segment).
 */
U_INLINE void us_tcp_recv_delay_ack(struct us_stack *stack, struct us_conn *conn)
{
    unsigned flags = conn->out_flags | US_OUT_DELAYED_ACK;

    if (U_UNLIKELY(conn->out_flags & US_OUT_DELAYED_ACK))
        flags |= US_OUT_ACK;
    if (U_UNLIKELY(conn->quick_acks > 0)) {
        conn->quick_acks--;
        flags |= US_OUT_ACK;
    }
    conn->out_flags = (u_u8)flags;
    us_tcp_output_schedule(stack, conn);
}

/* Makes in-order payload a slice: its DATA event points into the packet. */
U_INLINE void us_tcp_recv_slice(struct us_stack *stack, struct us_conn *conn, const u_u8 *data,
                                u_u32 len)
{
    conn->rcv_nxt += len;
    conn->rcv_queued += len;
    conn->bytes_in += len;
    us_count_add(stack, US_C_TCP_RX_BYTES, len);
    us_event_add_slice(stack, conn, data, len);
    us_tcp_recv_delay_ack(stack, conn);
}

#endif
