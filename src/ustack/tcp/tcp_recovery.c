/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss recovery with SACK; see tcp_recovery.h. */
#include "ustack/tcp/tcp_recovery.h"

#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_local_queue.h"
#include "ustack/tcp/tcp_sack.h"
#include "ustack/tcp/tcp_timer.h"

enum {
    TAIL_PROBES_MAX = 3,    /* in a row, at doubled intervals */
    REORDER_STEPS_MAX = 64, /* quarters of a round trip; bounded by the round trip, too */
    REORDER_KEEP = 16       /* recoveries; RFC 8985 6.2, step 4 */
};

U_STATIC_ASSERT(sizeof(struct us_sack) <= US_BLOCK_BYTES, sack_fits_into_a_block);

static u_u32 now_low(const struct us_stack *stack)
{
    return (u_u32)(stack->now_us & 0xffffffffu);
}

/* ---- the scoreboard's memory ---- */

/* Allocates a scoreboard if there is none. Returns 0 if the pool is empty. */
static int sack_open(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->sack != U_NULL)
        return 1;
    conn->sack = (struct us_sack *)(void *)us_block_get(stack, 0, US_BLOCK_MINIMUM);
    if (conn->sack == U_NULL) {
        us_count(stack, US_C_TCP_SACK_NO_MEMORY);
        return 0;
    }
    us_sack_init(conn->sack, conn->snd_una);
    us_prr_reset(&conn->sack->prr, conn->snd_una);
    return 1;
}

void us_recovery_free_scoreboard(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->sack == U_NULL)
        return;
    us_pool_put(&stack->block_pool, conn->sack);
    conn->sack = (struct us_sack *)U_NULL;
    us_memory_freed(stack);
}

u_u32 us_recovery_pipe(const struct us_conn *conn)
{
    u_u32 flight = conn->snd_nxt - conn->snd_una;

    if (U_LIKELY(conn->sack == U_NULL))
        return flight;
    return flight - conn->sack->sacked_bytes - conn->sack->lost_bytes;
}

static void sack_count(struct us_stack *stack, unsigned result)
{
    if (result & US_SACK_OVERFLOW)
        us_count(stack, US_C_TCP_SACK_OVERFLOW);
}

/* ---- reductions of cwnd and their undo ---- */

/*
 * Further reductions in one recovery keep the values of the first. It ends when all is acknowledged
 * that was in flight at the last of them.
 */
void us_recovery_save_for_undo(struct us_conn *conn)
{
    struct us_tcp_recovery *rec = &conn->rec;
    int again = (rec->flags & US_RF_UNDO) && us_seq_lt(conn->snd_una, rec->undo_to) &&
                us_seq_geq(conn->snd_una, rec->undo_from);

    rec->undo_to = conn->snd_max;
    if (again)
        return;
    rec->undo_cwnd = conn->cc.cwnd;
    rec->undo_ssthresh = conn->cc.ssthresh;
    rec->undo_from = conn->snd_una;
    rec->undo_retransmits = 0;
    rec->flags &= (u_u8) ~(US_RF_TS | US_RF_REO_WND_RAISED);
    rec->flags |= US_RF_UNDO | US_RF_EIFEL;
}

/* The last reduction was needless: RFC 4015 section 3.2, without slowing the growth. */
static void undo_reduction(struct us_stack *stack, struct us_conn *conn)
{
    struct us_tcp_recovery *rec = &conn->rec;

    us_count(stack, US_C_TCP_UNDOS);
    us_cc_undo(&conn->cc, rec->undo_cwnd, rec->undo_ssthresh);
    rec->flags &= (u_u8) ~(US_RF_UNDO | US_RF_EIFEL);
    conn->flags &= (u_u8)~US_CF_RECOVERY;
    conn->out_flags &= (u_u8)~US_OUT_RETRANSMIT;
    us_conn_lazy(conn)->recover = conn->snd_una - 1;
    if (conn->sack != U_NULL)
        us_sack_restore(conn->sack, now_low(stack));
    else
        conn->snd_nxt = conn->snd_max; /* its value before the timeout */
    us_tcp_output_schedule(stack, conn);
}

static void recovery_enter(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_FAST_RETRANSMITS);
    us_count(stack, US_C_TCP_RECOVERIES);
    us_count(stack, US_C_TCP_CC_REDUCTIONS);
    us_ecn_reduced(conn);
    conn->rec.flags &= (u_u8)~US_RF_UNDO;
    us_recovery_save_for_undo(conn);
    us_cc_reduce(&conn->cc, conn->snd_max - conn->snd_una, 0);
    us_prr_start(&conn->sack->prr, conn->snd_max);
    us_conn_lazy(conn)->recover = conn->snd_max;
    conn->flags |= US_CF_RECOVERY;
    conn->out_flags |= US_OUT_RETRANSMIT;
    if (conn->rec.reo_wnd_persist > 0 && --conn->rec.reo_wnd_persist == 0)
        conn->rec.reo_wnd_mult = 0;
}

/* ---- loss detection ---- */

/* RACK.reo_wnd (RFC 8985 6.2, step 4): how much later than its successors a segment may arrive. */
static u_u32 reorder_window_us(const struct us_conn *conn)
{
    u_u32 quarter_us = u_max32(conn->rtt.min_rtt_us >> 2, 1);
    u_u32 steps = 1 + (u_u32)conn->rec.reo_wnd_mult;

    return u_min32(quarter_us * steps, u_max32(conn->rtt.srtt8_us >> 3, quarter_us));
}

/*
 * Computes cwnd after an ACK in recovery, or after a loss that the time has shown. Bytes count as
 * delivered when they are acknowledged or SACKed for the first time (RFC 9937 section 5).
 */
static void recovery_moderate(struct us_conn *conn, int more_lost)
{
    struct us_sack *sack = conn->sack;
    int in_recovery = (conn->flags & US_CF_RECOVERY) != 0;
    u_u32 cwnd = us_prr_take(&sack->prr, conn->snd_una, sack->sacked_bytes, more_lost,
                             us_recovery_pipe(conn), conn->cc.ssthresh, conn->cc.mss);

    if (in_recovery)
        conn->cc.cwnd = cwnd;
}

/* Finds lost segments and starts a recovery if there are any. */
static void recovery_detect(struct us_stack *stack, struct us_conn *conn)
{
    struct us_sack_rules rules;
    unsigned result;

    rules.now_us = now_low(stack);
    rules.mss = conn->cc.mss;
    rules.reorder_us = reorder_window_us(conn);
    rules.rtt_us = conn->rtt.min_rtt_us;
    rules.dup_acks = conn->dup_acks;
    rules.by_time_only = (conn->rec.flags & US_RF_REORDERED) != 0;
    result = us_sack_detect(conn->sack, &rules);
    if (result & US_SACK_LOST_AGAIN)
        us_count(stack, US_C_TCP_LOST_RETRANSMITS);
    if ((result & US_SACK_LOSS) && !(conn->flags & US_CF_RECOVERY) &&
        us_seq_gt(conn->snd_una, us_conn_lazy(conn)->recover))
        recovery_enter(stack, conn);
    recovery_moderate(conn, (result & (US_SACK_LOSS | US_SACK_LOST_AGAIN)) != 0);
    us_tcp_output_schedule(stack, conn);
}

/* ---- incoming SACK blocks ---- */

/* A D-SACK reports a needless retransmission: widens reo_wnd, once per recovery. */
static void dsack_take(struct us_stack *stack, struct us_conn *conn,
                       const struct us_tcp_sack *block)
{
    struct us_tcp_recovery *rec = &conn->rec;

    us_count(stack, US_C_TCP_RX_DSACKS);
    rec->consecutive_single_acks = 0; /* the peer may have delayed its ACK */
    if ((rec->flags & US_RF_TLP_RETRANSMITTED) && block->end == rec->tlp_end_seq) {
        if (rec->flags & US_RF_TLP_SINGLE_SEGMENT)
            us_recovery_raise_ack_delay(conn);
        rec->flags &= (u_u8)~US_RF_TLP_RETRANSMITTED; /* the probe was needless, nothing was lost */
        return;
    }
    if (rec->undo_retransmits == 0 || us_seq_lt(block->start, rec->undo_from) ||
        us_seq_gt(block->end, rec->undo_to))
        return; /* a copy made by the network */
    if (!(rec->flags & US_RF_REO_WND_RAISED)) {
        rec->flags |= US_RF_REO_WND_RAISED;
        rec->reo_wnd_persist = REORDER_KEEP;
        if (rec->reo_wnd_mult < REORDER_STEPS_MAX)
            rec->reo_wnd_mult++;
    }
    rec->flags |= US_RF_REORDERED;
    rec->undo_retransmits--;
    if (rec->undo_retransmits == 0 && (rec->flags & US_RF_UNDO))
        undo_reduction(stack, conn);
}

/* RFC 2883 section 4: the first block lies below the acknowledgment, or within the second. */
static int block_is_dsack(const struct us_seg *seg)
{
    const struct us_tcp_sack *first = &seg->opts.sack[0];
    const struct us_tcp_sack *second = &seg->opts.sack[1];

    if (us_seq_leq(first->end, seg->ack))
        return 1;
    return seg->opts.sack_blocks > 1 && us_seq_geq(first->start, second->start) &&
           us_seq_leq(first->end, second->end);
}

/* Enters one SACK block into the scoreboard. Returns US_SACK_* bits. */
static unsigned block_take(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg,
                           unsigned i)
{
    const struct us_tcp_sack *block = &seg->opts.sack[i];
    unsigned result;

    us_count(stack, US_C_TCP_RX_SACK_BLOCKS);
    if (us_seq_geq(block->start, block->end) || us_seq_gt(block->end, conn->snd_max) ||
        us_seq_lt(block->start, conn->snd_una - conn->snd_wnd_max)) {
        us_count(stack, US_C_TCP_RX_SACK_INVALID);
        return 0;
    }
    if (i == 0 && block_is_dsack(seg)) {
        dsack_take(stack, conn, block);
        return 0;
    }
    if (us_seq_leq(block->start, conn->snd_una)) {
        if (seg->ack == conn->snd_una)
            us_count(stack, US_C_TCP_RX_SACK_INVALID); /* otherwise an ACK that was overtaken */
        return 0;
    }
    if (!sack_open(stack, conn))
        return US_SACK_NEW_DATA;
    result = us_sack_add(conn->sack, conn->snd_una, block->start, block->end, now_low(stack),
                         conn->rtt.min_rtt_us);
    sack_count(stack, result);
    /* The timed segment was not retransmitted: a sample although it arrived out of order. */
    if (us_conn_lazy(conn)->rtt_timed && us_seq_lt(block->start, us_conn_lazy(conn)->rtt_seq) &&
        us_seq_geq(block->end, us_conn_lazy(conn)->rtt_seq)) {
        us_rtt_sample(&conn->rtt, stack->now_us - us_conn_lazy(conn)->rtt_from_us);
        us_queueing_sample(stack, conn, us_conn_lazy(conn)->rtt_from_us);
        us_conn_lazy(conn)->rtt_timed = 0;
    }
    return result;
}

/* RFC 8985 7.4: an acknowledgment while a tail loss probe is outstanding. */
static void tail_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    struct us_tcp_recovery *rec = &conn->rec;

    if (us_seq_lt(seg->ack, rec->tlp_end_seq))
        return;
    if (us_seq_gt(seg->ack, rec->tlp_end_seq) || !(rec->flags & US_RF_TLP_RETRANSMITTED)) {
        /*
         * The ACK covers more than the probe and no D-SACK reports it: the probe has repaired a
         * loss.
         */
        if ((rec->flags & US_RF_TLP_RETRANSMITTED) && !(conn->flags & US_CF_RECOVERY)) {
            us_count(stack, US_C_TCP_CC_REDUCTIONS);
            us_cc_reduce(&conn->cc, conn->cc.cwnd, 0);
            us_ecn_reduced(conn);
        }
        conn->flags &= (u_u8)~US_CF_TLP_OUTSTANDING;
        rec->flags &= (u_u8)~US_RF_TLP_RETRANSMITTED;
    }
}

/*
 * Eifel (RFC 3522): the first ACK of new data after a reduction echoes which transmission it is
 * for.
 */
static void eifel_check(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    struct us_tcp_recovery *rec = &conn->rec;

    if (!(rec->flags & US_RF_EIFEL) || us_seq_leq(seg->ack, rec->undo_from))
        return;
    rec->flags &= (u_u8)~US_RF_EIFEL;
    if ((rec->flags & US_RF_TS) && (conn->opts & US_OPT_TS) && seg->opts.ts_ecr != 0 &&
        us_seq_lt(seg->opts.ts_ecr, rec->undo_ts)) {
        if (rec->undo_to - rec->undo_from <= conn->cc.mss)
            us_recovery_raise_ack_delay(conn);
        rec->consecutive_single_acks = 0;
        undo_reduction(stack, conn);
    }
}

int us_recovery_ack(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    unsigned result = 0;
    unsigned i;

    if (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_PERSIST)
        return 0;
    if (!(conn->opts & US_OPT_SACK) || conn->snd_nxt != conn->snd_max) {
        eifel_check(stack, conn, seg);
        return 0;
    }
    if (conn->sack != U_NULL)
        result = us_sack_advance(conn->sack, conn->snd_una, now_low(stack), conn->rtt.min_rtt_us);
    eifel_check(stack, conn, seg);
    for (i = 0; i < seg->opts.sack_blocks; i++)
        result |= block_take(stack, conn, seg, i);
    if (conn->flags & US_CF_TLP_OUTSTANDING)
        tail_ack(stack, conn, seg);
    if (result & US_SACK_REORDERED)
        conn->rec.flags |= US_RF_REORDERED;
    if (conn->sack == U_NULL)
        return (result & US_SACK_NEW_DATA) != 0;
    if (result & US_SACK_NEW_DATA)
        conn->rec.tlp_count = 0;
    if ((result & US_SACK_NEW_DATA) && seg->ack == conn->snd_una)
        conn->dup_acks = (u_u8)u_min32((u_u32)conn->dup_acks + 1, 0xff);
    recovery_detect(stack, conn);
    if (conn->sack->n == 0 && !(conn->flags & US_CF_RECOVERY))
        us_recovery_free_scoreboard(stack, conn);
    else if (conn->sack->has_reorder || (result & US_SACK_NEW_DATA))
        us_recovery_arm_timer(stack, conn);
    return (result & US_SACK_NEW_DATA) != 0;
}

/* ---- timers ---- */

int us_recovery_timeout(struct us_stack *stack, struct us_conn *conn)
{
    conn->rec.tlp_count = 0;
    conn->rec.flags &= (u_u8)~US_RF_TLP_RETRANSMITTED;
    if (!(conn->opts & US_OPT_SACK) || conn->snd_nxt != conn->snd_max || conn->snd_wnd == 0)
        return 0;
    if (conn->sack != U_NULL && (conn->retries > 1 || us_sack_reneged(conn->sack)))
        us_sack_init(conn->sack, conn->snd_una);
    if (!sack_open(stack, conn))
        return 0;
    sack_count(stack, us_sack_lose_all(conn->sack, conn->snd_una, conn->snd_max));
    return 1;
}

void us_recovery_reorder_timeout(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_RACK_TIMEOUTS);
    if (conn->sack != U_NULL)
        recovery_detect(stack, conn);
    us_recovery_arm_timer(stack, conn);
}

void us_recovery_tlp_timeout(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_TAIL_PROBES);
    stack->queueing.probed_us = stack->now_us;
    conn->flags |= US_CF_TLP_OUTSTANDING;
    conn->rec.flags &= (u_u8)~US_RF_TLP_SINGLE_SEGMENT;
    if (conn->snd_max - conn->snd_una <= conn->cc.mss)
        conn->rec.flags |= US_RF_TLP_SINGLE_SEGMENT;
    conn->rec.tlp_end_seq = conn->snd_max;
    conn->rec.tlp_count++;
    conn->out_flags |= US_OUT_TLP;
    us_recovery_arm_timer(stack, conn);
    us_tcp_output_schedule(stack, conn);
}

/* How long the peer may delay the ACK of the data in flight. */
U_INLINE u_u32 ack_delay_us(const struct us_stack *stack, const struct us_conn *conn)
{
    if (conn->snd_max - conn->snd_una > conn->cc.mss)
        return 0;
    /* A peer with out-of-order data does not delay its ACKs (RFC 5681 4.2). */
    if (conn->sack != U_NULL && conn->sack->sacked_bytes != 0)
        return 0;
    return us_recovery_peer_ack_delay_us(stack, conn);
}

/* The RTO; its backoff has a bound of its own once the connection is established. */
static u_u32 rto_us(const struct us_stack *stack, const struct us_conn *conn, u_u32 delay_us)
{
    u_u32 limit_us = conn->rtt.max_us;

    if (conn->state >= US_TCP_ESTABLISHED)
        limit_us = u_min32(limit_us, stack->config.backoff_max_us);
    return us_rtt_rto_us(&conn->rtt, delay_us, limit_us);
}

u_u32 us_recovery_rto_us(const struct us_stack *stack, const struct us_conn *conn)
{
    return rto_us(stack, conn, ack_delay_us(stack, conn));
}

/* The PTO (RFC 8985 7.2): doubled with each probe. */
U_INLINE u_u32 pto_us(const struct us_conn *conn, u_u32 delay_us, u_u32 timeout_us)
{
    return us_rtt_pto_us(&conn->rtt, delay_us, timeout_us) << conn->rec.tlp_count;
}

u_u32 us_recovery_pto_us(const struct us_stack *stack, const struct us_conn *conn)
{
    u_u32 delay_us = ack_delay_us(stack, conn);

    return pto_us(conn, delay_us, rto_us(stack, conn, delay_us));
}

/* Whether a tail loss probe comes before the timeout (RFC 8985 7.2). */
static int has_pto(const struct us_conn *conn)
{
    if (!(conn->opts & US_OPT_SACK) || conn->rec.tlp_count >= TAIL_PROBES_MAX ||
        conn->rtt.srtt8_us == 0 || conn->rtt.backoff != 0 || conn->state < US_TCP_ESTABLISHED ||
        conn->snd_nxt != conn->snd_max)
        return 0;
    /* A single segment is probed once: after that a timeout costs its window nothing. */
    return conn->rec.tlp_count == 0 || conn->snd_max - conn->snd_una > conn->cc.mss;
}

void us_recovery_arm_timer(struct us_stack *stack, struct us_conn *conn)
{
    u_u32 delay_us = ack_delay_us(stack, conn);
    u_u32 after_us = rto_us(stack, conn, delay_us);
    enum us_tcp_timer timer = US_TCP_TIMER_RTO;

    if (has_pto(conn)) {
        after_us = pto_us(conn, delay_us, after_us);
        timer = US_TCP_TIMER_TLP;
    }
    if (conn->sack != U_NULL && conn->sack->has_reorder) {
        u_s32 left_us = (u_s32)(conn->sack->reorder_us - now_low(stack));
        u_u32 wait_us = left_us > 0 ? (u_u32)left_us : 0;
        if (wait_us < after_us) {
            after_us = wait_us;
            timer = US_TCP_TIMER_REORDER;
        }
    }
    us_tcp_timer_start(stack, conn, timer, after_us);
}

/* ---- output ---- */

/* Plans a retransmission from `start` to at most `end`. */
static int plan_again(const struct us_conn *conn, struct us_tcp_desc *desc, enum us_send_kind kind,
                      u_u32 start, u_u32 end)
{
    u_u32 edge = us_seq_min(end, conn->snd_end); /* a FIN is behind */
    u_u32 usable = conn->snd_una + conn->snd_wnd - start;

    if (us_seq_leq(conn->snd_una + conn->snd_wnd, start))
        return 0;
    desc->kind = (u_u8)kind;
    desc->seq = start;
    desc->len = us_seq_gt(edge, start) ? u_min32(edge - start, conn->cc.mss) : 0;
    desc->len = u_min32(desc->len, usable);
    desc->flags = US_TCP_ACK;
    if (desc->len > 0 && desc->seq + desc->len == conn->snd_end)
        desc->flags |= US_TCP_PSH;
    if (us_seq_gt(end, conn->snd_end) && desc->seq + desc->len == conn->snd_end &&
        desc->len < usable)
        desc->flags |= US_TCP_FIN;
    return desc->len > 0 || (desc->flags & US_TCP_FIN);
}

int us_recovery_plan(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    u_u32 start;
    u_u32 end;

    if (!us_sack_first_lost(conn->sack, &start, &end))
        return 0;
    if (!(conn->out_flags & US_OUT_RETRANSMIT) &&
        us_recovery_pipe(conn) + conn->cc.mss > conn->cc.cwnd)
        return 0;
    return plan_again(conn, desc, US_SEND_RETRANSMIT, start, end);
}

int us_recovery_plan_tlp(const struct us_conn *conn, struct us_tcp_desc *desc)
{
    u_u32 flight = conn->snd_nxt - conn->snd_una;
    u_u32 avail = u_min32(conn->snd_end - conn->snd_nxt, conn->cc.mss);
    u_u32 start = conn->snd_una;
    u_u32 end = conn->snd_max;

    if (conn->snd_una == conn->snd_max)
        return 0;
    if (us_conn_has_unsent(conn) && avail > 0 && conn->snd_wnd >= flight &&
        conn->snd_wnd - flight >= avail) {
        desc->kind = US_SEND_TLP;
        desc->seq = conn->snd_nxt;
        desc->len = avail;
        desc->flags = US_TCP_ACK;
        if (desc->seq + desc->len == conn->snd_end)
            desc->flags |= US_TCP_PSH;
        return 1;
    }
    if (conn->sack != U_NULL && !us_sack_highest_missing(conn->sack, conn->snd_max, &start, &end))
        return 0;
    if (end - start > conn->cc.mss)
        start = end - conn->cc.mss;
    return plan_again(conn, desc, US_SEND_TLP, start, end);
}

void us_recovery_sent(struct us_stack *stack, struct us_conn *conn, const struct us_tcp_desc *desc,
                      u_u32 end)
{
    struct us_tcp_recovery *rec = &conn->rec;

    if (desc->kind == US_SEND_TLP)
        rec->flags |= US_RF_TLP_RETRANSMITTED;
    if ((rec->flags & US_RF_EIFEL) && !(rec->flags & US_RF_TS)) {
        rec->flags |= US_RF_TS;
        rec->undo_ts = desc->opts.ts_val;
    }
    if (conn->sack == U_NULL)
        return;
    sack_count(stack, us_sack_resent(conn->sack, desc->seq, end, conn->snd_max, now_low(stack)));
    if (rec->undo_retransmits < 0xffff)
        rec->undo_retransmits++;
}
