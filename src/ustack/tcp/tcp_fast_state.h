/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which connections take the fast path (tcp_fast.h).
 *
 * Header prediction is valid only if some two dozen fields have their common values. These are
 * checked once, and us_conn.fast_path caches the answer. Every function of the general code that
 * may change one of the fields, or uses one of struct us_conn_lazy, calls us_conn_leave_fast_path()
 * first: us_tcp_input(), the output of a segment, timers, ICMP errors and the calls of the
 * application do. The next predicted segment classifies the connection anew.
 *
 *   US_FAST_NONE   general code handles everything
 *   US_FAST_RX     a segment in order, an acknowledgment or both can be predicted
 *   US_FAST_RXTX   and the next response can be sent as one segment: at most one is in flight,
 *                  each is timed, and neither window limits it. struct us_conn_lazy is not valid
 *
 * In US_FAST_RXTX these hold besides: the delayed ACK has no deadline; cwnd leaves room for several
 * segments; the peer's window has room for one; and the wheel has an entry for the connection that
 * is not later than any deadline it can have.
 */
#ifndef USTACK_TCP_FAST_STATE_H
#define USTACK_TCP_FAST_STATE_H

#include "ustack/tcp/tcp.h"

/* A connection that is US_FAST_NONE: makes it US_FAST_RX if it may be. Returns 0 if not. */
int us_conn_classify_rx(struct us_conn *conn);

/* Whether a connection with data to send may be US_FAST_RXTX once that is sent as one segment. */
int us_conn_may_be_rxtx(const struct us_stack *stack, struct us_conn *conn);

/* Makes it US_FAST_RXTX. The segment was sent just now, and us_conn_may_be_rxtx() held before. */
void us_conn_enter_rxtx(struct us_stack *stack, struct us_conn *conn);

/*
 * The round-trip time of a connection that is US_FAST_RXTX has changed, and nothing is in flight:
 * computes how long after the next segment the tail loss probe is due.
 */
void us_conn_update_pto(const struct us_stack *stack, struct us_conn *conn);

/* us_conn_leave_fast_path() for a connection that is US_FAST_RXTX: fills in its lazy fields. */
void us_conn_fill_lazy(struct us_conn *conn);

/* General code takes over: makes the connection US_FAST_NONE and all of its fields valid. */
U_INLINE void us_conn_leave_fast_path(struct us_conn *conn)
{
    if (conn->fast_path == US_FAST_RXTX)
        us_conn_fill_lazy(conn);
    conn->fast_path = US_FAST_NONE;
}

/* Whether the connection fulfils what its fast_path promises. For us_check(). */
int us_conn_fast_path_is_valid(const struct us_stack *stack, const struct us_conn *conn);

#endif
