/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of a connection: one deadline for retransmission (or what precedes it, see
 * tcp_recovery.h), window probes, keepalives or FIN-WAIT-2, of which only one can run, one for the
 * delayed ACK, and one for a lingering close. They share one entry of the wheel, which is never set
 * for later than the first of them. It is moved only when it would come too late; when it comes too
 * early it is set again. So a request and its response store deadlines and leave the wheel alone.
 */
#ifndef USTACK_TCP_TIMER_H
#define USTACK_TCP_TIMER_H

#include "ustack/tcp.h"

/* Sets the entry of the wheel for the first of the deadlines, if it is set for later. */
void us_tcp_timer_arm(struct us_stack *stack, struct us_conn *conn);

/* The main timer is this one now, and at_us its deadline: US_NEVER for US_TT_NONE. */
U_INLINE void us_tcp_timer_main(struct us_stack *stack, struct us_conn *conn,
                                enum us_tcp_timer timer, u_u64 at_us)
{
    if (conn->main_timer == US_TT_KEEP && timer != US_TT_KEEP)
        conn->retries = 0; /* they were about silence */
    conn->main_timer = (u_u8)timer;
    conn->main_us = at_us;
    /* It was early enough for the others before. */
    if (U_UNLIKELY(conn->timer.at_us > at_us))
        us_tcp_timer_arm(stack, conn);
}

/* Milliseconds of the configuration, in microseconds. */
U_INLINE u_u64 us_ms(u_u32 ms)
{
    return (u_u64)ms * 1000;
}

/* Starts the main timer of a connection anew, or stops it with US_TT_NONE. */
void us_tcp_timer_start(struct us_stack *stack, struct us_conn *conn, enum us_tcp_timer timer,
                        u_u32 after_us);

/* When the silence of an established peer has lasted long enough; US_NEVER: there is no watch. */
U_INLINE u_u64 us_tcp_timer_keep_us(const struct us_conn *conn)
{
    if (conn->patience.keep_idle_ms == 0)
        return US_NEVER;
    return conn->heard_us + us_ms(conn->patience.keep_idle_ms);
}

/* Nothing is in flight any more: stops the main timer, or watches for the peer's silence. */
U_INLINE void us_tcp_timer_idle(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags &= (u_u8)~US_OUT_PROBE;
    conn->patience.owed_us = 0;
    if (conn->patience.keep_idle_ms != 0 &&
        (conn->state == US_TCP_ESTABLISHED || conn->state == US_TCP_CLOSE_WAIT))
        us_tcp_timer_main(stack, conn, US_TT_KEEP, us_tcp_timer_keep_us(conn));
    else
        us_tcp_timer_main(stack, conn, US_TT_NONE, US_NEVER);
}

/*
 * Takes what is in flight as lost, but not as a sign of congestion: it is sent again from SND.UNA,
 * with SACK what was not SACKed.
 */
void us_tcp_go_back(struct us_stack *stack, struct us_conn *conn);

/* The user timeout has changed. */
void us_tcp_timer_limit(struct us_stack *stack, struct us_conn *conn);

/* Sets the time after which a close that was not acknowledged becomes a reset. */
void us_tcp_timer_linger(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms);

/* Sets the deadline of the delayed ACK. */
void us_tcp_timer_delay_ack(struct us_stack *stack, struct us_conn *conn);

/* The wheel has taken the connection's timer. */
void us_tcp_timer_fire(struct us_stack *stack, struct us_conn *conn);

#endif
