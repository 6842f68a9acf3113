/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits on ACKs in reply to unacceptable segments (RFC 5961 section 7), so that the stack is no
 * amplifier and two confused ends do not exchange ACKs for ever.
 *
 * A connection may send a burst of ten and then two per second, so keepalives and reopened peers
 * are acknowledged whatever arrived before. Challenge ACKs of the whole instance are bounded, too,
 * by a number that changes each second: with a fixed one an off-path attacker could find out, by
 * counting the ACKs left for its own connection, whether it has guessed another connection's
 * numbers.
 */
#include "ustack/tcp/tcp.h"

enum {
    CHALLENGE_BURST = 10,
    CHALLENGE_REFILL_SHIFT = 9, /* of us_ts_clock(): every 0.52 s */
    CHALLENGE_STACK_US = 1000 * 1000
};

static int conn_allowed(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 now = us_ts_clock(stack->now_us);
    u_u32 refill = (now - conn->challenge_at) >> CHALLENGE_REFILL_SHIFT;

    if (refill >= conn->challenges) {
        conn->challenges = 0;
        conn->challenge_at = now;
    } else {
        conn->challenges = (u_u8)(conn->challenges - refill);
        conn->challenge_at += refill << CHALLENGE_REFILL_SHIFT;
    }
    if (conn->challenges == CHALLENGE_BURST) {
        us_count(stack, US_C_TCP_CHALLENGE_LIMITED);
        return 0;
    }
    conn->challenges++;
    return 1;
}

int us_tcp_challenge_allowed(struct us_stack *stack)
{
    u_u32 max = stack->config.challenge_acks_max;

    if (stack->now_us - stack->challenge_from_us >= CHALLENGE_STACK_US) {
        u_u32 random;

        stack->challenge_from_us = stack->now_us;
        random = (u_u32)u_siphash13(stack->key_ts, &stack->challenge_from_us,
                                    sizeof(stack->challenge_from_us));
        /* Between a half and all of it. */
        stack->challenge_left = max - (u_u32)((u_u64)random * (max / 2) >> 32);
    }
    if (stack->challenge_left == 0) {
        us_count(stack, US_C_TCP_CHALLENGE_LIMITED);
        return 0;
    }
    stack->challenge_left--;
    us_count(stack, US_C_TCP_CHALLENGE_ACKS);
    return 1;
}

void us_tcp_challenge(struct us_stack *stack, struct us_conn *conn)
{
    if (!conn_allowed(stack, conn) || !us_tcp_challenge_allowed(stack))
        return;
    conn->out_flags |= US_OUT_ACK;
    us_tcp_output_schedule(stack, conn);
}

void us_tcp_ack_unacceptable(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    /*
     * A retransmission of data needs an ACK, as ours was lost; an empty segment may be a reply to
     * our own ACK and counts against the limit.
     */
    if (seg->len == 0 && !(seg->flags & US_TCP_FIN) && !conn_allowed(stack, conn))
        return;
    conn->out_flags |= US_OUT_ACK;
    us_tcp_output_schedule(stack, conn);
}
