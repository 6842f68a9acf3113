/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of a connection: one deadline for retransmission (or what precedes it, see
 * tcp_recovery.h), window probes or FIN-WAIT-2, of which only one can run, and one for the delayed
 * ACK. Both share one entry of the wheel, which is moved only when it would come too late; when it
 * comes too early it is set again.
 */
#include "ustack/tcp.h"
#include "ustack/tcp_recovery.h"

static void timer_arm(struct us_stack *stack, struct us_conn *conn)
{
    u_u64 next_us = u_min64(conn->main_us, conn->ack_us);

    if (next_us == US_NEVER || (us_timer_is_set(&conn->timer) && conn->timer.at_us <= next_us))
        return;
    us_timer_set(&stack->wheel, &conn->timer, next_us);
}

void us_tcp_timer_start(struct us_stack *stack, struct us_conn *conn, enum us_tcp_timer timer,
                        u_u32 after_us)
{
    conn->main_timer = (u_u8)timer;
    conn->main_us = timer == US_TT_NONE ? US_NEVER : stack->now_us + after_us;
    timer_arm(stack, conn);
}

void us_tcp_timer_delay_ack(struct us_stack *stack, struct us_conn *conn)
{
    conn->ack_us = stack->now_us + stack->config.delayed_ack_us;
    timer_arm(stack, conn);
}

/* RFC 1122 3.3.1.4: so many timeouts in a row make the address of the next hop doubtful. */
enum { TIMER_DOUBT_RETRIES = 2 };

/* Nobody answers any more. */
static void timer_give_up(struct us_stack *stack, struct us_conn *conn)
{
    enum us_close_reason reason =
        conn->flags & US_CF_UNREACHABLE ? US_CLOSE_UNREACHABLE : US_CLOSE_TIMEOUT;

    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED)
        us_conn_end(stack, conn, reason); /* the peer may not even exist */
    else
        us_conn_reset(stack, conn, reason);
}

/* How often a segment may be sent again in this state. */
static u_u32 timer_retries_max(const struct us_stack *stack, const struct us_conn *conn)
{
    if (conn->state == US_TCP_SYN_RECEIVED && (conn->flags & US_CF_PASSIVE))
        return stack->config.syn_ack_retries_max;
    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED)
        return stack->config.syn_retries_max;
    return stack->config.retries_max;
}

/* Counts one more attempt. Returns 0 if it was the last: then the connection has ended. */
static int timer_try_again(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->retries >= timer_retries_max(stack, conn)) {
        timer_give_up(stack, conn);
        return 0;
    }
    conn->retries++;
    us_rtt_backoff(&conn->rtt);
    if (conn->retries == TIMER_DOUBT_RETRIES)
        us_arp_doubt(stack, conn->next_hop);
    return 1;
}

static void timer_probe(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags |= US_OUT_PROBE;
    us_tcp_timer_start(stack, conn, US_TT_PERSIST, us_recovery_rto_us(stack, conn));
    us_tcp_out_want(stack, conn);
}

/*
 * Goes back to snd_una with a window of one segment: RFC 5681 3.1, RFC 6298 5.4 to 5.6. With SACK
 * all that was not SACKed counts as lost, otherwise all is sent again.
 */
static void timer_go_back(struct us_stack *stack, struct us_conn *conn)
{
    int with_sack = us_recovery_timeout(stack, conn);

    us_cc_timeout(&conn->cc, conn->snd_max - conn->snd_una, conn->retries > 1);
    conn->recover = conn->snd_max;
    conn->flags &= (u_u8) ~(US_CF_RECOVERY | US_CF_PARTIAL | US_CF_RTT_TIMED | US_CF_TAIL);
    conn->out_flags &= (u_u8) ~(US_OUT_RESEND | US_OUT_TAIL);
    conn->dup_acks = 0;
    if (with_sack)
        return;
    us_recovery_forget(stack, conn);
    conn->snd_nxt = conn->snd_una;
}

static void timer_resend(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_TIMEOUTS);
    if (!timer_try_again(stack, conn))
        return;
    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED) {
        conn->flags |= US_CF_SYN_RESENT;
        conn->out_flags |= US_OUT_SYN;
    } else if (conn->snd_una != conn->snd_max) {
        timer_go_back(stack, conn);
        if (conn->snd_wnd == 0) {
            timer_probe(stack, conn);
            return;
        }
    }
    us_tcp_timer_start(stack, conn, US_TT_RESEND, us_recovery_rto_us(stack, conn));
    us_tcp_out_want(stack, conn);
}

static void timer_main(struct us_stack *stack, struct us_conn *conn)
{
    switch ((enum us_tcp_timer)conn->main_timer) {
    case US_TT_NONE:
        break;
    case US_TT_RESEND:
        timer_resend(stack, conn);
        break;
    case US_TT_REORDER:
        us_recovery_reorder(stack, conn);
        break;
    case US_TT_TAIL:
        us_recovery_tail(stack, conn);
        break;
    case US_TT_PERSIST:
        if (!us_conn_has_unsent(conn))
            us_tcp_timer_start(stack, conn, US_TT_NONE, 0);
        else if (timer_try_again(stack, conn))
            timer_probe(stack, conn);
        break;
    case US_TT_FIN_WAIT_2:
        us_conn_reset(stack, conn, US_CLOSE_TIMEOUT);
        break;
    }
}

void us_tcp_timer_fire(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->ack_us <= stack->now_us) {
        conn->ack_us = US_NEVER;
        conn->out_flags |= US_OUT_ACK;
        us_count(stack, US_C_TCP_DELAYED_ACKS);
        us_tcp_out_want(stack, conn);
    }
    if (conn->main_us <= stack->now_us)
        timer_main(stack, conn);
    else
        timer_arm(stack, conn);
}
