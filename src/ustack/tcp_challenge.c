/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the ACKs that answer segments which should not have come (RFC 5961 section 7), so that
 * nobody makes the stack send more than he sends, and two confused ends do not talk for ever.
 *
 * A connection may answer ten at once and then two per second, so the keepalives of a peer and one
 * that opens its end anew are answered however much came before. What the whole instance may send
 * to challenge is bounded too, by a number that changes each second: a fixed one would let an
 * outsider find out, by counting what is left over for his own connection, whether he has guessed
 * another's numbers.
 */
#include "ustack/tcp.h"

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
    us_tcp_out_want(stack, conn);
}

void us_tcp_answer_outside(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    /* Data is sent again by who has lost our ACK, and he needs one; an empty segment may be the
     * answer to an answer. */
    if (seg->len == 0 && !(seg->flags & US_TCP_FIN) && !conn_allowed(stack, conn))
        return;
    conn->out_flags |= US_OUT_ACK;
    us_tcp_out_want(stack, conn);
}
