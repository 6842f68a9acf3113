/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expired timers of a connection; see tcp_timer.h.
 *
 * Every wait for the peer is bounded. A handshake has a number of retries. Data, a FIN and window
 * probes may stay unacknowledged for R2 (RFC 9293 3.8.3) or the user timeout, both times, as the
 * meaning of a number of retries depends on the round trip. A window may stay closed while probes
 * are acknowledged (3.8.6.1), unless the configuration has a limit. With keepalives on, a silent
 * peer is probed (3.8.4).
 */
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_fast_state.h"

#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_local_queue.h"
#include "ustack/tcp/tcp_orphan.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"

void us_tcp_timer_arm(struct us_stack *stack, struct us_conn *conn)
{
    u_u64 next_us = u_min64(u_min64(us_conn_lazy(conn)->main_deadline_us, conn->delack_deadline_us),
                            conn->timeouts.linger_deadline_us);

    if (conn->timer.at_us > next_us)
        us_timer_set(&stack->wheel, &conn->timer, next_us);
}

/* Limits on progress; the first that is reached ends the connection. */
enum timer_limit {
    TIMER_LIMIT_R2,
    TIMER_LIMIT_ORPHAN,
    TIMER_LIMIT_USER,
    TIMER_LIMIT_PERSIST,
    TIMER_LIMITS
};

/* When a limit is reached while this timer runs; US_NEVER: it does not apply. */
static u_u64 timer_limit_at(const struct us_stack *stack, const struct us_conn *conn,
                            enum us_tcp_timer timer, enum timer_limit limit)
{
    const struct us_tcp_timeouts *timeouts = &conn->timeouts;

    switch (limit) {
    case TIMER_LIMIT_R2: /* a handshake has a number of retries, see timer_retries_left() */
        if (timeouts->user_timeout_ms != 0 || conn->state < US_TCP_ESTABLISHED)
            break;
        /* RFC 9293 3.8.6.1: acknowledged probes keep a closed window within R2. */
        return us_ms(stack->config.r2_ms) +
               (timer == US_TCP_TIMER_PERSIST
                    ? u_max64(us_conn_lazy_const(conn)->no_progress_since_us, conn->last_rx_us)
                    : us_conn_lazy_const(conn)->no_progress_since_us);
    case TIMER_LIMIT_ORPHAN:
        if (!timeouts->is_orphan || conn->state < US_TCP_ESTABLISHED)
            break;
        return us_ms(stack->config.orphan_ms) +
               u_max64(us_conn_lazy_const(conn)->no_progress_since_us,
                       us_orphan_closed_us(stack, conn));
    case TIMER_LIMIT_USER:
        if (timeouts->user_timeout_ms == 0)
            break;
        return us_conn_lazy_const(conn)->no_progress_since_us + us_ms(timeouts->user_timeout_ms);
    case TIMER_LIMIT_PERSIST:
        if (timer != US_TCP_TIMER_PERSIST || stack->config.persist_ms == 0)
            break;
        return us_conn_lazy_const(conn)->no_progress_since_us + us_ms(stack->config.persist_ms);
    case TIMER_LIMITS:
        break;
    }
    return US_NEVER;
}

/* The earliest limit, and in *limit which one; US_NEVER: there is none. */
static u_u64 timer_first_limit(const struct us_stack *stack, const struct us_conn *conn,
                               enum us_tcp_timer timer, enum timer_limit *limit)
{
    u_u64 first_us = US_NEVER;
    int i;

    *limit = TIMER_LIMIT_R2;
    for (i = 0; i < TIMER_LIMITS; i++) {
        u_u64 at_us = timer_limit_at(stack, conn, timer, (enum timer_limit)i);
        if (at_us < first_us) {
            first_us = at_us;
            *limit = (enum timer_limit)i;
        }
    }
    return first_us;
}

static u_u64 timer_limit_us(const struct us_stack *stack, const struct us_conn *conn,
                            enum us_tcp_timer timer)
{
    enum timer_limit limit;

    return timer_first_limit(stack, conn, timer, &limit);
}

void us_tcp_timer_start(struct us_stack *stack, struct us_conn *conn, enum us_tcp_timer timer,
                        u_u32 after_us)
{
    u_u64 at_us = timer == US_TCP_TIMER_NONE ? US_NEVER : stack->now_us + after_us;

    if (us_conn_lazy(conn)->no_progress_since_us == 0)
        us_conn_lazy(conn)->no_progress_since_us = stack->now_us;
    if (timer == US_TCP_TIMER_RTO || timer == US_TCP_TIMER_PERSIST)
        at_us = u_min64(at_us, timer_limit_us(stack, conn, timer));
    us_tcp_timer_set_main(stack, conn, timer, at_us);
}

void us_tcp_timer_apply_limits(struct us_stack *stack, struct us_conn *conn)
{
    enum us_tcp_timer timer = (enum us_tcp_timer)us_conn_lazy(conn)->main_timer;

    if (timer == US_TCP_TIMER_RTO || timer == US_TCP_TIMER_PERSIST)
        us_tcp_timer_set_main(
            stack, conn, timer,
            u_min64(us_conn_lazy(conn)->main_deadline_us, timer_limit_us(stack, conn, timer)));
}

void us_tcp_timer_linger(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms)
{
    conn->timeouts.linger_deadline_us = stack->now_us + us_ms(linger_ms);
    us_tcp_timer_arm(stack, conn);
}

void us_tcp_timer_delay_ack(struct us_stack *stack, struct us_conn *conn)
{
    conn->delack_deadline_us = stack->now_us + stack->config.delayed_ack_us;
    us_tcp_timer_arm(stack, conn);
}

/* RFC 1122 3.3.1.4: after so many timeouts in a row the next hop's address is verified. */
enum { TIMER_VERIFY_HOP_RETRIES = 2 };

/* The peer does not reply: ends the connection. */
static void timer_give_up(struct us_stack *stack, struct us_conn *conn)
{
    enum us_close_reason reason =
        conn->flags & US_CF_UNREACHABLE ? US_CLOSE_UNREACHABLE : US_CLOSE_TIMEOUT;

    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED)
        us_conn_end(stack, conn, reason); /* the peer may not even exist */
    else
        us_conn_reset(stack, conn, reason);
}

/* Whether one more attempt is permitted. */
static int timer_retries_left(const struct us_stack *stack, const struct us_conn *conn)
{
    if (conn->state >= US_TCP_ESTABLISHED)
        return 1; /* R2 is a time */
    return conn->retries < stack->config.syn_retries_max;
}

/* Counts one more attempt. Returns 0 if it was the last: then the connection has ended. */
static int timer_try_again(struct us_stack *stack, struct us_conn *conn)
{
    if (!timer_retries_left(stack, conn)) {
        timer_give_up(stack, conn);
        return 0;
    }
    if (conn->retries < 0xff)
        conn->retries++;
    us_rtt_backoff(&conn->rtt);
    if (conn->retries == TIMER_VERIFY_HOP_RETRIES)
        us_tcp_suspect_next_hop(stack, conn);
    return 1;
}

static void timer_probe(struct us_stack *stack, struct us_conn *conn)
{
    conn->out_flags |= US_OUT_PROBE;
    us_tcp_timer_start(stack, conn, US_TCP_TIMER_PERSIST, us_recovery_rto_us(stack, conn));
    us_tcp_output_schedule(stack, conn);
}

void us_tcp_retransmit_all(struct us_stack *stack, struct us_conn *conn)
{
    int with_sack = us_recovery_timeout(stack, conn);

    us_conn_lazy(conn)->recover = conn->snd_max;
    conn->flags &= (u_u8) ~(US_CF_RECOVERY | US_CF_TLP_OUTSTANDING);
    us_conn_lazy(conn)->rtt_timed = 0;
    conn->out_flags &= (u_u8) ~(US_OUT_RETRANSMIT | US_OUT_TLP);
    conn->dup_acks = 0;
    if (with_sack)
        return;
    us_recovery_free_scoreboard(stack, conn);
    conn->snd_nxt = conn->snd_una;
}

/*
 * After an RTO: all in flight is lost, cwnd becomes one segment (RFC 5681 3.1, RFC 6298 5.4 to
 * 5.6).
 */
static void timer_go_back(struct us_stack *stack, struct us_conn *conn)
{
    /* A recovery has reduced cwnd for the same losses already. */
    int again = conn->retries > 1 || (conn->flags & US_CF_RECOVERY);

    /*
     * With SACK the tail loss probe was acknowledged immediately and a D-SACK shows if it was
     * needless.
     */
    if (!(conn->opts & US_OPT_SACK) && conn->snd_max - conn->snd_una <= conn->cc.mss)
        us_recovery_raise_ack_delay(conn);
    us_recovery_save_for_undo(conn);
    us_tcp_retransmit_all(stack, conn);
    us_pmtu_timeout(stack, conn);
    us_cc_timeout(&conn->cc, conn->snd_max - conn->snd_una, again);
}

/*
 * Whether the timed segment may still be queued behind segments of other connections
 * (tcp_local_queue.h): then the timer is set again.
 */
static int timer_is_early(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 delay_us = us_queueing_delay_us(stack, conn);
    u_u64 due_us = u_max64(conn->sent_us, us_conn_lazy(conn)->no_progress_since_us);

    if (conn->state < US_TCP_ESTABLISHED)
        return 0;
    if (delay_us != 0)
        due_us += delay_us + us_recovery_rto_us(stack, conn);
    else if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_TLP && conn->rec.tlp_count == 0 &&
             us_queueing_is_probed(stack, conn))
        due_us += 2 * us_recovery_pto_us(stack, conn);
    if (due_us <= stack->now_us)
        return 0;
    us_count(stack, US_C_TCP_TIMEOUTS_DEFERRED);
    us_tcp_timer_set_main(stack, conn, (enum us_tcp_timer)us_conn_lazy(conn)->main_timer, due_us);
    return 1;
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
    us_tcp_timer_start(stack, conn, US_TCP_TIMER_RTO, us_recovery_rto_us(stack, conn));
    us_tcp_output_schedule(stack, conn);
}

/*
 * RFC 9293 3.8.4: probes a silent peer until a segment arrives or keepalive_count probes are
 * unacknowledged. Any segment counts as a reply.
 */
static void timer_keep(struct us_stack *stack, struct us_conn *conn)
{
    const struct us_tcp_timeouts *timeouts = &conn->timeouts;
    u_u64 silent_us = stack->now_us - conn->last_rx_us;
    u_u64 wait_us = conn->retries == 0 ? us_ms(timeouts->keepalive_idle_ms)
                                       : us_ms(timeouts->keepalive_interval_ms);

    if (silent_us < wait_us) {
        conn->retries = 0;
        us_tcp_timer_idle(stack, conn);
        return;
    }
    if (conn->retries >= timeouts->keepalive_count) {
        us_count(stack, US_C_TCP_KEEPALIVE_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_KEEPALIVE);
        return;
    }
    conn->retries++;
    if (conn->retries == TIMER_VERIFY_HOP_RETRIES)
        us_tcp_suspect_next_hop(stack, conn);
    conn->out_flags |= US_OUT_PROBE;
    us_tcp_timer_set_main(stack, conn, US_TCP_TIMER_KEEPALIVE,
                          stack->now_us + us_ms(timeouts->keepalive_interval_ms));
    us_tcp_output_schedule(stack, conn);
}

/* Whether a limit is reached: then the connection has ended. */
static int timer_limit_reached(struct us_stack *stack, struct us_conn *conn)
{
    enum timer_limit limit;

    if (stack->now_us <
        timer_first_limit(stack, conn, (enum us_tcp_timer)us_conn_lazy(conn)->main_timer, &limit))
        return 0;
    switch (limit) {
    case TIMER_LIMIT_R2:
        us_count(stack, US_C_TCP_R2_TIMEOUTS);
        break;
    case TIMER_LIMIT_ORPHAN:
        us_count(stack, US_C_TCP_ORPHAN_TIMEOUTS);
        break;
    case TIMER_LIMIT_USER:
        us_count(stack, US_C_TCP_USER_TIMEOUTS);
        break;
    case TIMER_LIMIT_PERSIST:
        us_count(stack, US_C_TCP_PERSIST_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_ZERO_WINDOW);
        return 1;
    case TIMER_LIMITS:
        break;
    }
    timer_give_up(stack, conn);
    return 1;
}

static void timer_main(struct us_stack *stack, struct us_conn *conn)
{
    switch ((enum us_tcp_timer)us_conn_lazy(conn)->main_timer) {
    case US_TCP_TIMER_NONE:
        break;
    case US_TCP_TIMER_RTO:
        if (!timer_limit_reached(stack, conn) && !timer_is_early(stack, conn))
            timer_resend(stack, conn);
        break;
    case US_TCP_TIMER_REORDER:
        us_recovery_reorder_timeout(stack, conn);
        break;
    case US_TCP_TIMER_TLP:
        if (!timer_is_early(stack, conn))
            us_recovery_tlp_timeout(stack, conn);
        break;
    case US_TCP_TIMER_PERSIST:
        if (!us_conn_has_unsent(conn))
            us_tcp_timer_idle(stack, conn);
        else if (!timer_limit_reached(stack, conn) && timer_try_again(stack, conn))
            timer_probe(stack, conn);
        break;
    case US_TCP_TIMER_FIN_WAIT_2:
        us_count(stack, US_C_TCP_FIN_WAIT2_TIMEOUTS);
        us_conn_reset(stack, conn, US_CLOSE_TIMEOUT);
        break;
    case US_TCP_TIMER_KEEPALIVE:
        timer_keep(stack, conn);
        break;
    }
}

/* The linger time has passed. In FIN-WAIT-2 the peer has acknowledged everything. */
static void timer_linger(struct us_stack *stack, struct us_conn *conn)
{
    conn->timeouts.linger_deadline_us = US_NEVER;
    if (us_conn_fin_acked(conn))
        return;
    us_count(stack, US_C_TCP_LINGER_TIMEOUTS);
    us_conn_reset(stack, conn, US_CLOSE_TIMEOUT);
}

void us_tcp_timer_fire(struct us_stack *stack, struct us_conn *conn)
{
    us_conn_leave_fast_path(conn);
    if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_KEEPALIVE && conn->retries == 0)
        us_tcp_timer_idle(stack, conn); /* a segment may have arrived since it was set */
    if (conn->timeouts.linger_deadline_us <= stack->now_us) {
        timer_linger(stack, conn);
        if (conn->state == US_TCP_CLOSED)
            return;
    }
    if (conn->delack_deadline_us <= stack->now_us) {
        conn->delack_deadline_us = US_NEVER;
        conn->out_flags |= US_OUT_ACK;
        us_count(stack, US_C_TCP_DELAYED_ACKS);
        us_tcp_output_schedule(stack, conn);
    }
    if (us_conn_lazy(conn)->main_deadline_us <= stack->now_us) {
        u_u32 cwnd = conn->cc.cwnd;
        timer_main(stack, conn);
        us_event_cwnd(stack, conn, cwnd);
    }
    if (conn->state != US_TCP_CLOSED)
        us_tcp_timer_arm(stack, conn);
}
