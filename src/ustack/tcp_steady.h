/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that do nothing but requests and responses, told by one byte.
 *
 * What the fast path (tcp_fast.c) may take for granted depends on two dozen fields, which change
 * seldom. So they are looked at once, and us_conn.steady remembers the answer until anything is
 * done to the connection in another way: whatever may change one of these fields calls
 * us_conn_settle() first.
 *
 * While a connection is US_STEADY_ALL at most one segment is in flight, and some fields are not
 * kept, since others say the same:
 *
 *   limited, recover     would be SND.UNA and the number before
 *   US_CF_RTT_TIMED      is set, though it means something only while something is in flight
 *   main_timer           is US_TT_TAIL. While nothing is in flight there is no such deadline, and
 *                        main_us - sent_us is how long after the next segment it will be. The wheel
 *                        knows of an earlier one than any that should be there instead
 *   rtt_seq, rtt_from_us are SND.MAX and sent_us: each segment is measured
 *   patience.owed_us     is sent_us while something is in flight
 *
 * Of most of these more is known, and what follows from it need not be asked for each segment.
 * While a connection is US_STEADY_USUAL
 *
 *   its headers          are those of tcp_fast.h
 *   snd_wnd              has room for a segment, and cwnd for so many that it is no limit
 *   ack_us               is US_NEVER
 *   snd_wl2              is SND.UNA, and not kept
 *   main_us              says how long after sent_us the deadline is. The wheel knows of that or of
 *                        something earlier
 *
 * us_conn_settle() gives all of them their values back.
 */
#ifndef USTACK_TCP_STEADY_H
#define USTACK_TCP_STEADY_H

#include "ustack/tcp.h"

/* Values of us_conn.steady. */
enum us_steady {
    US_STEADY_NOT,   /* or not looked at since it was settled */
    US_STEADY_LATER, /* segments in order may be taken; more may hold once nothing is in flight */
    US_STEADY_IN,    /* segments in order may be taken, and no more holds */
    US_STEADY_ALL,   /* and acknowledgments of all, and segments sent while nothing is in flight */
    US_STEADY_USUAL  /* and it is one of those that nearly all are then */
};

/*
 * Looks whether the connection is steady, and how, and remembers it. Returns 0 if the fast path
 * must not take its segments. Nothing that other files see is changed.
 */
int us_conn_look(struct us_stack *stack, struct us_conn *conn);

/* A connection that is US_STEADY_ALL and has nothing in flight, or has just sent, may be usual. */
void us_conn_look_usual(const struct us_stack *stack, struct us_conn *conn);

/* A usual connection is no more than US_STEADY_ALL from now on. */
void us_conn_leave_usual(struct us_conn *conn);

/* us_conn_settle() for a connection that is steady. */
void us_conn_settle_steady(struct us_conn *conn);

/* All fields hold from now on, and may be changed. */
U_INLINE void us_conn_settle(struct us_conn *conn)
{
    if (conn->steady != US_STEADY_NOT)
        us_conn_settle_steady(conn);
}

/* The deadline of the main timer of a connection that may be steady. */
U_INLINE u_u64 us_conn_main_us(const struct us_conn *conn)
{
    return conn->steady == US_STEADY_USUAL ? conn->sent_us + conn->main_us : conn->main_us;
}

/* All was acknowledged and the round-trip time has changed: so does when the next tail is probed.
 */
void us_conn_steady_retime(struct us_stack *stack, struct us_conn *conn);

/* Whether what `steady` says is still true. For us_check(). */
int us_conn_steady_holds(const struct us_stack *stack, const struct us_conn *conn);

#endif
