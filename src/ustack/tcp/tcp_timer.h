/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of a connection: the main timer (RTO, TLP, reordering, window probes, keepalives or
 * FIN-WAIT-2, of which one runs at a time), the delayed ACK, and a lingering close. They share one
 * entry of the timer wheel, which is never set for later than the first deadline. It is moved only
 * when it would fire too late; when it fires too early it is set again. So a request and its
 * response store deadlines and leave the wheel alone.
 */
#ifndef USTACK_TCP_TCP_TIMER_H
#define USTACK_TCP_TCP_TIMER_H

#include "ustack/tcp/tcp.h"

/* Moves the entry of the wheel to the first deadline if it is set for later. */
void us_tcp_timer_arm(struct us_stack *stack, struct us_conn *conn);

/* Sets the main timer and its deadline: US_NEVER for US_TCP_TIMER_NONE. */
U_INLINE void us_tcp_timer_set_main(struct us_stack *stack, struct us_conn *conn,
                                    enum us_tcp_timer timer, u_u64 at_us)
{
    if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_KEEPALIVE && timer != US_TCP_TIMER_KEEPALIVE)
        conn->retries = 0; /* they counted keepalives */
    us_conn_lazy(conn)->main_timer = (u_u8)timer;
    us_conn_lazy(conn)->main_deadline_us = at_us;
    if (U_UNLIKELY(conn->timer.at_us > at_us))
        us_tcp_timer_arm(stack, conn);
}

/* Milliseconds of the configuration, in microseconds. */
U_INLINE u_u64 us_ms(u_u32 ms)
{
    return (u_u64)ms * 1000;
}

/* Starts the main timer, or stops it with US_TCP_TIMER_NONE. */
void us_tcp_timer_start(struct us_stack *stack, struct us_conn *conn, enum us_tcp_timer timer,
                        u_u32 after_us);

/* When a keepalive is due; US_NEVER: keepalives are off. */
U_INLINE u_u64 us_tcp_timer_keepalive_us(const struct us_conn *conn)
{
    if (conn->timeouts.keepalive_idle_ms == 0)
        return US_NEVER;
    return conn->last_rx_us + us_ms(conn->timeouts.keepalive_idle_ms);
}

/* Nothing is in flight: stops the main timer, or starts that of keepalives. */
U_INLINE void us_tcp_timer_idle(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags &= (u_u8)~US_OUT_PROBE;
    us_conn_lazy(conn)->no_progress_since_us = 0;
    if (conn->timeouts.keepalive_idle_ms != 0 &&
        (conn->state == US_TCP_ESTABLISHED || conn->state == US_TCP_CLOSE_WAIT))
        us_tcp_timer_set_main(stack, conn, US_TCP_TIMER_KEEPALIVE, us_tcp_timer_keepalive_us(conn));
    else
        us_tcp_timer_set_main(stack, conn, US_TCP_TIMER_NONE, US_NEVER);
}

/*
 * Marks all data in flight as lost, without a sign of congestion: it is retransmitted from SND.UNA,
 * with SACK all but the SACKed ranges.
 */
void us_tcp_retransmit_all(struct us_stack *stack, struct us_conn *conn);

/* Limits have changed: moves the deadline of the main timer if a limit is reached before. */
void us_tcp_timer_apply_limits(struct us_stack *stack, struct us_conn *conn);

/* Sets the time after which a close that was not acknowledged becomes a reset. */
void us_tcp_timer_linger(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms);

/* Sets the deadline of the delayed ACK. */
void us_tcp_timer_delay_ack(struct us_stack *stack, struct us_conn *conn);

/* The entry of the wheel has fired. */
void us_tcp_timer_fire(struct us_stack *stack, struct us_conn *conn);

#endif
