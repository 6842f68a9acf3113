/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done with each segment of data in order, whichever way it comes; the rest: tcp.h. */
#ifndef USTACK_TCP_RECV_H
#define USTACK_TCP_RECV_H

#include "ustack/tcp.h"

/* RFC 9293 3.8.6.3: an ACK at least for every second segment. */
enum { US_ACK_EVERY_SEGMENTS = 2 };

/* One more in-order segment was taken. */
U_INLINE void us_tcp_recv_ack_later(struct us_stack *stack, struct us_conn *conn)
{
    /* out_flags, segs_unacked, quick_acks, acks_owed: mostly nothing was owed before */
    static const u_u8 first[4] = {US_OUT_ACK_LATER, 1, 0, 0};
    u_u8 *at = (u_u8 *)conn + U_OFFSET_OF(struct us_conn, out_flags);
    u_u32 owed;

    u_copy(&owed, at, sizeof(owed));
    if (U_LIKELY(owed == 0)) {
        u_copy(at, first, sizeof(first));
        if (U_LIKELY(u_list_is_empty(&conn->out_link)))
            u_list_push_back(&stack->out_list, &conn->out_link);
    } else {
        unsigned flags = conn->out_flags | US_OUT_ACK_LATER;
        conn->segs_unacked++;
        if (conn->segs_unacked >= US_ACK_EVERY_SEGMENTS)
            flags |= US_OUT_ACK;
        if (conn->quick_acks > 0) {
            conn->quick_acks--;
            flags |= US_OUT_ACK;
        }
        conn->out_flags = (u_u8)flags;
        us_tcp_out_want(stack, conn);
    }
}

/* In-order payload that goes to the application as it is. */
U_INLINE void us_tcp_recv_slice(struct us_stack *stack, struct us_conn *conn, const u_u8 *data,
                                u_u32 len)
{
    conn->rcv_nxt += len;
    conn->rcv_queued += len;
    conn->bytes_in += len;
    us_count_add(stack, US_C_TCP_RX_BYTES, len);
    us_event_add_slice(stack, conn, data, len);
    us_tcp_recv_ack_later(stack, conn);
}

#endif
