/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens when a connection's timers expire; see tcp_timer.h.
 *
 * Nobody is waited for without end (RFC 9293 3.8.3): retransmissions and unanswered probes are
 * counted, or bounded by the user timeout; a window may stay closed as long as probes are answered
 * (3.8.6.1), unless the configuration has a limit; a silent peer is asked whether it is still there
 * if keepalives are on (3.8.4).
 */
#include "ustack/tcp_timer.h"
#include "ustack/tcp_steady.h"

#include "ustack/tcp.h"
#include "ustack/tcp_ecn.h"
#include "ustack/tcp_pmtu.h"
#include "ustack/tcp_recovery.h"

void us_tcp_timer_arm(struct us_stack *stack, struct us_conn *conn)
{
    u_u64 next_us = u_min64(u_min64(conn->main_us, conn->ack_us), conn->patience.linger_us);

    if (conn->timer.at_us > next_us)
        us_timer_set(&stack->wheel, &conn->timer, next_us);
}

/* When a peer that takes nothing has been waited for long enough; US_NEVER: no time is set. */
static u_u64 timer_limit_us(const struct us_stack *stack, const struct us_conn *conn,
                            enum us_tcp_timer timer)
{
    const struct us_tcp_patience *patience = &conn->patience;
    u_u64 limit_us = US_NEVER;

    if (timer == US_TT_PERSIST && stack->config.persist_ms != 0)
        limit_us = patience->owed_us + us_ms(stack->config.persist_ms);
    if (patience->user_timeout_ms != 0)
        limit_us = u_min64(limit_us, patience->owed_us + us_ms(patience->user_timeout_ms));
    return limit_us;
}

void us_tcp_timer_start(struct us_stack *stack, struct us_conn *conn, enum us_tcp_timer timer,
                        u_u32 after_us)
{
    u_u64 at_us = timer == US_TT_NONE ? US_NEVER : stack->now_us + after_us;

    if (conn->patience.owed_us == 0)
        conn->patience.owed_us = stack->now_us;
    if (timer == US_TT_RESEND || timer == US_TT_PERSIST)
        at_us = u_min64(at_us, timer_limit_us(stack, conn, timer));
    us_tcp_timer_main(stack, conn, timer, at_us);
}

void us_tcp_timer_limit(struct us_stack *stack, struct us_conn *conn)
{
    enum us_tcp_timer timer = (enum us_tcp_timer)conn->main_timer;

    if (timer == US_TT_RESEND || timer == US_TT_PERSIST)
        us_tcp_timer_main(stack, conn, timer,
                          u_min64(conn->main_us, timer_limit_us(stack, conn, timer)));
}

void us_tcp_timer_linger(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms)
{
    conn->patience.linger_us = stack->now_us + us_ms(linger_ms);
    us_tcp_timer_arm(stack, conn);
}

void us_tcp_timer_delay_ack(struct us_stack *stack, struct us_conn *conn)
{
    conn->ack_us = stack->now_us + stack->config.delayed_ack_us;
    us_tcp_timer_arm(stack, conn);
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
        us_tcp_out_doubt(stack, conn);
    return 1;
}

static void timer_probe(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags |= US_OUT_PROBE;
    us_tcp_timer_start(stack, conn, US_TT_PERSIST, us_recovery_rto_us(stack, conn));
    us_tcp_out_want(stack, conn);
}

void us_tcp_go_back(struct us_stack *stack, struct us_conn *conn)
{
    int with_sack = us_recovery_timeout(stack, conn);

    conn->recover = conn->snd_max;
    conn->flags &= (u_u8) ~(US_CF_RECOVERY | US_CF_PARTIAL | US_CF_RTT_TIMED | US_CF_TAIL);
    conn->out_flags &= (u_u8) ~(US_OUT_RESEND | US_OUT_TAIL);
    conn->dup_acks = 0;
    if (with_sack)
        return;
    us_recovery_forget(stack, conn);
    conn->snd_nxt = conn->snd_una;
}

/* Goes back with a window of one segment: RFC 5681 3.1, RFC 6298 5.4 to 5.6. */
static void timer_go_back(struct us_stack *stack, struct us_conn *conn)
{
    /* A window that a recovery has reduced just now is not reduced again for the same losses. */
    int again = conn->retries > 1 || (conn->flags & US_CF_RECOVERY);

    us_tcp_go_back(stack, conn);
    us_pmtu_timeout(stack, conn);
    us_cc_timeout(&conn->cc, conn->snd_max - conn->snd_una, again);
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

/*
 * RFC 9293 3.8.4: a silent peer is asked until it answers or keep_count questions are unanswered.
 * Whatever came meanwhile, data too, is an answer.
 */
static void timer_keep(struct us_stack *stack, struct us_conn *conn)
{
    const struct us_tcp_patience *patience = &conn->patience;
    u_u64 silent_us = stack->now_us - conn->heard_us;
    u_u64 wait_us =
        conn->retries == 0 ? us_ms(patience->keep_idle_ms) : us_ms(patience->keep_interval_ms);

    if (silent_us < wait_us) {
        conn->retries = 0;
        us_tcp_timer_idle(stack, conn);
        return;
    }
    if (conn->retries >= patience->keep_count) {
        us_count(stack, US_C_TCP_KEEPALIVE_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_KEEPALIVE);
        return;
    }
    conn->retries++;
    if (conn->retries == TIMER_DOUBT_RETRIES)
        us_tcp_out_doubt(stack, conn);
    conn->out_flags |= US_OUT_PROBE;
    us_tcp_timer_main(stack, conn, US_TT_KEEP, stack->now_us + us_ms(patience->keep_interval_ms));
    us_tcp_out_want(stack, conn);
}

/* Whether the time that a peer has is over: then the connection has ended. */
static int timer_limit_reached(struct us_stack *stack, struct us_conn *conn)
{
    enum us_tcp_timer timer = (enum us_tcp_timer)conn->main_timer;
    u_u32 user_timeout_ms = conn->patience.user_timeout_ms;

    if (stack->now_us < timer_limit_us(stack, conn, timer))
        return 0;
    if (user_timeout_ms != 0 && stack->now_us - conn->patience.owed_us >= us_ms(user_timeout_ms)) {
        us_count(stack, US_C_TCP_USER_TIMEOUTS);
        timer_give_up(stack, conn);
    } else {
        us_count(stack, US_C_TCP_PERSIST_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_ZERO_WINDOW);
    }
    return 1;
}

static void timer_main(struct us_stack *stack, struct us_conn *conn)
{
    switch ((enum us_tcp_timer)conn->main_timer) {
    case US_TT_NONE:
        break;
    case US_TT_RESEND:
        if (!timer_limit_reached(stack, conn))
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
            us_tcp_timer_idle(stack, conn);
        else if (!timer_limit_reached(stack, conn) && timer_try_again(stack, conn))
            timer_probe(stack, conn);
        break;
    case US_TT_FIN_WAIT_2:
        us_count(stack, US_C_TCP_FIN_WAIT2_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_TIMEOUT);
        break;
    case US_TT_KEEP:
        timer_keep(stack, conn);
        break;
    }
}

/* The time for a close is over. In FIN-WAIT-2 the peer has all that we had to say. */
static void timer_linger(struct us_stack *stack, struct us_conn *conn)
{
    conn->patience.linger_us = US_NEVER;
    if (us_conn_fin_acked(conn))
        return;
    us_count(stack, US_C_TCP_LINGER_TIMEOUTS);
    us_conn_reset(stack, conn, US_CLOSE_TIMEOUT);
}

void us_tcp_timer_fire(struct us_stack *stack, struct us_conn *conn)
{
    us_conn_settle(conn);
    if (conn->main_timer == US_TT_KEEP && conn->retries == 0)
        us_tcp_timer_idle(stack, conn); /* something was heard since it was set, mostly */
    if (conn->patience.linger_us <= stack->now_us) {
        timer_linger(stack, conn);
        if (conn->state == US_TCP_CLOSED)
            return;
    }
    if (conn->ack_us <= stack->now_us) {
        conn->ack_us = US_NEVER;
        conn->out_flags |= US_OUT_ACK;
        us_count(stack, US_C_TCP_DELAYED_ACKS);
        us_tcp_out_want(stack, conn);
    }
    if (conn->main_us <= stack->now_us)
        timer_main(stack, conn);
    if (conn->state != US_TCP_CLOSED)
        us_tcp_timer_arm(stack, conn);
}
