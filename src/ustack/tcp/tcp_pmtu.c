/* SPDX-License-Identifier: BSD-3-Clause */
/* Path MTU discovery; see tcp_pmtu.h. */
#include "ustack/tcp/tcp_pmtu.h"

#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_timer.h"

enum {
    /* Smaller reports are ignored: 512 bytes of data and 40 of headers (RFC 791). */
    PMTU_MIN_IP4 = 552,
    /* Nearly every path carries this, tunnels included: the first size to fall back to. */
    PMTU_BASE = 1280,
    /* Timeouts of the same data before the path MTU is lowered. */
    PMTU_TIMEOUTS = 3,
    /* A gain of less than this is not worth a lost segment. */
    PMTU_STEP_MIN = 32
};

/* Of us_ts_clock(): ten minutes (RFC 8201 section 4), and one minute between failed attempts. */
static const u_u32 pmtu_raise_ticks = 10u * 60 * 1000 * 1000 >> 10;
static const u_u32 pmtu_again_ticks = 1u * 60 * 1000 * 1000 >> 10;

/* The RTO, backoff included, that must have been reached: about a second without an ACK. */
static const u_u32 pmtu_timeout_us = 500u * 1000;

static u_u32 pmtu_min(const struct us_conn *conn)
{
    return us_conn_remote6(conn) != U_NULL ? (u_u32)US_IP6_MTU_MIN : (u_u32)PMTU_MIN_IP4;
}

void us_pmtu_init(const struct us_stack *stack, struct us_conn *conn, u_u32 peer_mss)
{
    u_u32 mtu = u_min32(us_ip_mtu(stack, us_conn_remote6(conn) != U_NULL),
                        peer_mss + us_conn_hdr_bytes(conn));

    u_zero(&conn->pmtu, sizeof(conn->pmtu));
    conn->pmtu.mtu = (u_u16)mtu;
    conn->pmtu.mtu_max = (u_u16)mtu;
    conn->pmtu.high = (u_u16)mtu;
}

/* Payload bytes of a packet of this size. */
static u_u32 pmtu_payload(const struct us_conn *conn, u_u32 mtu)
{
    u_u32 bytes = mtu - us_conn_hdr_bytes(conn);

    return conn->opts & US_OPT_TS ? bytes - US_TCP_OPT_TS_BYTES : bytes;
}

u_u32 us_pmtu_mss(const struct us_conn *conn)
{
    return pmtu_payload(conn, conn->pmtu.mtu);
}

static void pmtu_set(const struct us_stack *stack, struct us_conn *conn, u_u32 mtu, u_u32 ticks)
{
    conn->pmtu.mtu = (u_u16)mtu;
    conn->pmtu.probe_bytes = 0;
    conn->pmtu.probing = 0;
    conn->pmtu.raise_at = us_ts_clock(stack->now_us) + ticks;
    conn->cc.mss = us_pmtu_mss(conn);
    conn->cc.cwnd = u_max32(conn->cc.cwnd, conn->cc.mss);
}

/* ---- lower ---- */

/* The size to try next if this one is too large. */
static u_u32 pmtu_next(const struct us_conn *conn, u_u32 mtu)
{
    return u_max32(mtu >> 1, mtu > PMTU_BASE ? (u_u32)PMTU_BASE : pmtu_min(conn));
}

/*
 * RFC 1191 6.4: segments that were too large are lost and retransmitted in smaller pieces. That is
 * no sign of congestion, so cwnd stays.
 */
static void pmtu_lower(struct us_stack *stack, struct us_conn *conn, u_u32 mtu)
{
    pmtu_set(stack, conn, mtu, pmtu_raise_ticks);
    conn->pmtu.high = conn->pmtu.mtu_max;
    us_count(stack, US_C_TCP_PMTU_LOWERED);
}

void us_tcp_path_mtu(struct us_stack *stack, struct us_conn *conn, u_u32 mtu)
{
    u_u32 lowest = u_min32(pmtu_min(conn), conn->pmtu.mtu_max);

    us_conn_leave_fast_path(conn);
    if (conn->state <= US_TCP_SYN_RECEIVED)
        return;   /* a SYN fits everywhere */
    if (mtu == 0) /* RFC 1191 section 5: a router of old does not say */
        mtu = pmtu_next(conn, conn->pmtu.mtu);
    mtu = u_max32(mtu, lowest);
    if (mtu >= conn->pmtu.mtu)
        return;
    pmtu_lower(stack, conn, mtu);
    if (conn->snd_una == conn->snd_max)
        return;
    us_tcp_retransmit_all(stack, conn);
    us_recovery_arm_timer(stack, conn);
    us_tcp_output_schedule(stack, conn);
}

static void pmtu_limit(struct us_stack *stack, struct us_conn *conn, u_u32 mtu)
{
    struct us_tcp_pmtu *pmtu = &conn->pmtu;

    if (mtu >= pmtu->mtu_max)
        return;
    us_tcp_path_mtu(stack, conn, mtu);
    if (mtu < pmtu->mtu) /* not established: nothing larger than a SYN was sent */
        pmtu_set(stack, conn, mtu, 0);
    if (pmtu->probing && pmtu->tried > mtu)
        pmtu->probing = 0;
    pmtu->mtu_max = (u_u16)mtu;
    pmtu->high = (u_u16)u_min32(pmtu->high, mtu);
    pmtu->probe_bytes = 0;
}

void us_tcp_link_mtu(struct us_stack *stack)
{
    u_u32 i;

    for (i = 0; i < stack->conn_pool.touched; i++) {
        struct us_conn *conn = us_conn_at(stack, i);

        if (conn->state >= US_TCP_SYN_RECEIVED)
            pmtu_limit(stack, conn, us_ip_mtu(stack, us_conn_remote6(conn) != U_NULL));
    }
}

void us_pmtu_timeout(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 sent = u_min32(conn->snd_max - conn->snd_una, conn->cc.mss);
    u_u32 mtu = conn->pmtu.mtu;
    u_u32 next = pmtu_next(conn, mtu);

    /* Timeouts of milliseconds are no evidence: a peer that pauses has the same effect. */
    if (conn->retries < PMTU_TIMEOUTS ||
        us_rtt_rto_us(&conn->rtt, 0, conn->rtt.max_us) < u_min32(pmtu_timeout_us, conn->rtt.max_us))
        return;
    while (next < mtu && pmtu_payload(conn, next) >= sent) { /* no smaller than the lost segment */
        mtu = next;
        next = pmtu_next(conn, mtu);
    }
    if (next >= mtu)
        return;
    us_count(stack, US_C_TCP_PMTU_BLACK_HOLES);
    pmtu_lower(stack, conn, next);
}

/* ---- raise ---- */

/* RFC 4821 7.6: enough data is queued, and no loss recovery would hide the outcome of a probe. */
void us_pmtu_plan(const struct us_stack *stack, struct us_conn *conn)
{
    struct us_tcp_pmtu *pmtu = &conn->pmtu;
    u_u32 flight = conn->snd_nxt - conn->snd_una;
    u_u32 bytes;

    pmtu->probe_bytes = 0;
    if (pmtu->probing || (u_s32)(us_ts_clock(stack->now_us) - pmtu->raise_at) < 0 ||
        conn->sack != U_NULL || (conn->flags & US_CF_RECOVERY) || conn->dup_acks != 0 ||
        conn->retries != 0 || conn->snd_nxt != conn->snd_max)
        return;
    /* The largest size first, then half-way between the current and the smallest failed one. */
    bytes =
        pmtu_payload(conn, pmtu->high == pmtu->mtu_max ? (u_u32)pmtu->mtu_max
                                                       : ((u_u32)pmtu->mtu + pmtu->high + 1) >> 1);
    if (conn->snd_end - conn->snd_nxt >= bytes && conn->cc.cwnd >= flight + bytes &&
        conn->snd_wnd >= flight + bytes)
        pmtu->probe_bytes = (u_u16)bytes;
}

/* The probe was lost. */
static void pmtu_failed(struct us_stack *stack, struct us_conn *conn)
{
    struct us_tcp_pmtu *pmtu = &conn->pmtu;

    us_count(stack, US_C_TCP_PMTU_PROBES_FAILED);
    pmtu->probing = 0;
    pmtu->high = (u_u16)(pmtu->tried - 1);
    pmtu->raise_at = us_ts_clock(stack->now_us) + pmtu_again_ticks;
    if (pmtu->high <
        pmtu->mtu + PMTU_STEP_MIN) { /* the search is complete; the path may change later */
        pmtu->high = pmtu->mtu_max;
        pmtu->raise_at = us_ts_clock(stack->now_us) + pmtu_raise_ticks;
    }
}

void us_pmtu_sent(struct us_stack *stack, struct us_conn *conn, u_u32 seq, u_u32 end)
{
    struct us_tcp_pmtu *pmtu = &conn->pmtu;

    if (us_seq_lt(seq, conn->snd_max)) {
        if (pmtu->probing && us_seq_lt(seq, pmtu->probe_end) &&
            us_seq_geq(seq, pmtu->probe_end - pmtu_payload(conn, pmtu->tried)))
            pmtu_failed(stack, conn);
        return;
    }
    if (pmtu->probe_bytes == 0 || end - seq < pmtu->probe_bytes)
        return;
    us_count(stack, US_C_TCP_PMTU_PROBES);
    pmtu->probing = 1;
    pmtu->probe_end = end;
    pmtu->tried = (u_u16)(pmtu->probe_bytes + (conn->pmtu.mtu - us_pmtu_mss(conn)));
    pmtu->probe_bytes = 0;
}

void us_pmtu_acked(struct us_stack *stack, struct us_conn *conn)
{
    struct us_tcp_pmtu *pmtu = &conn->pmtu;

    if (us_seq_lt(conn->snd_una, pmtu->probe_end))
        return;
    us_count(stack, US_C_TCP_PMTU_RAISED);
    pmtu_set(stack, conn, pmtu->tried, 0); /* the next probe may follow immediately */
    if (pmtu->high < pmtu->mtu + PMTU_STEP_MIN) {
        pmtu->high = pmtu->mtu_max;
        pmtu->raise_at = us_ts_clock(stack->now_us) + pmtu_raise_ticks;
    }
}
