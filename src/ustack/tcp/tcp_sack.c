/* SPDX-License-Identifier: BSD-3-Clause */
/* The scoreboard; see tcp_sack.h. */
#include "ustack/tcp/tcp_sack.h"

enum {
    SACK_LOSS_RANGES = 3, /* RFC 6675 DupThresh */
    SACK_ADD_RANGES = 4   /* how many more ranges one change can make */
};

static u_u32 range_end(const struct us_sack *sack, u_u32 i)
{
    return i + 1 < sack->n ? sack->ranges[i + 1].start : sack->end;
}

/* The later of two times of which only the low bits are kept. */
static u_u32 time_max(u_u32 a, u_u32 b)
{
    return (u_s32)(a - b) > 0 ? a : b;
}

/* Appends a range up to `end` behind the last one; nothing if it would be empty. */
static void range_append(struct us_sack *sack, u_u32 end, enum us_sack_state state, u_u32 at_us)
{
    struct us_sack_range *range = &sack->ranges[sack->n];

    if (us_seq_leq(end, sack->end))
        return;
    U_ASSERT(sack->n < US_SACK_RANGES);
    range->start = sack->end;
    range->at_us = at_us;
    range->mark = 0;
    range->state = (u_u8)state;
    sack->n++;
    sack->end = end;
}

/* Makes seq the start of a range, if it lies within one. */
static void range_split(struct us_sack *sack, u_u32 seq)
{
    u_u32 at = 0;
    u_u32 i;

    while (at < sack->n && us_seq_lt(sack->ranges[at].start, seq))
        at++;
    if (at == 0 || us_seq_leq(range_end(sack, at - 1), seq))
        return;
    U_ASSERT(sack->n < US_SACK_RANGES);
    for (i = sack->n; i > at; i--)
        sack->ranges[i] = sack->ranges[i - 1];
    sack->ranges[at] = sack->ranges[at - 1];
    sack->ranges[at].start = seq;
    sack->n++;
}

/* Whether two adjacent ranges can be joined. roughly: even with different times. */
static int range_is_like(const struct us_sack_range *a, const struct us_sack_range *b, int roughly)
{
    if (a->state != b->state)
        return 0;
    if (roughly || a->state == US_SACK_SACKED || a->state == US_SACK_LOST)
        return 1;
    return a->at_us == b->at_us && (a->state == US_SACK_HOLE || a->mark == b->mark);
}

/*
 * Joins adjacent ranges where possible; RESENT ones keep the later time, so that none is lost too
 * early.
 */
static void sack_join(struct us_sack *sack, int roughly)
{
    u_u32 kept = 0;
    u_u32 i;

    for (i = 0; i < sack->n; i++) {
        struct us_sack_range *last = &sack->ranges[kept == 0 ? 0 : kept - 1];
        if (kept > 0 && range_is_like(last, &sack->ranges[i], roughly)) {
            last->at_us = time_max(last->at_us, sack->ranges[i].at_us);
            last->mark = us_seq_max(last->mark, sack->ranges[i].mark);
            continue;
        }
        sack->ranges[kept] = sack->ranges[i];
        kept++;
    }
    sack->n = kept;
}

/* Joins ranges and derives the sums anew, after each change. */
static void sack_tidy(struct us_sack *sack)
{
    u_u32 i;

    sack_join(sack, 0);
    sack->sacked_bytes = 0;
    sack->lost_bytes = 0;
    sack->lost_first = sack->n;
    for (i = sack->n; i-- > 0;) {
        u_u32 end = range_end(sack, i);
        u_u32 len = end - sack->ranges[i].start;
        if (sack->ranges[i].state == US_SACK_SACKED) {
            if (sack->sacked_bytes == 0)
                sack->high = end;
            sack->sacked_bytes += len;
        } else if (sack->ranges[i].state == US_SACK_LOST) {
            sack->lost_bytes += len;
            sack->lost_first = i;
        }
    }
}

/* Removes the last range: its bytes count as in flight for the first time again. */
static void range_pop(struct us_sack *sack)
{
    sack->n--;
    sack->end = sack->ranges[sack->n].start;
}

/* Forgets the highest SACKED range. Returns 0 if there is none. */
static int sack_forget(struct us_sack *sack)
{
    u_u32 i = sack->n;

    while (i > 0 && sack->ranges[i - 1].state != US_SACK_SACKED)
        i--;
    if (i == 0)
        return 0;
    if (i == sack->n) {
        range_pop(sack);
        /* Nothing behind these holes counts as arrived any more, so they are none. */
        while (sack->n > 0 && sack->ranges[sack->n - 1].state == US_SACK_HOLE)
            range_pop(sack);
    } else {
        u_u32 start = sack->ranges[i - 1].start;
        sack->ranges[i - 1] = sack->ranges[i];
        sack->ranges[i - 1].start = start;
    }
    return 1;
}

/* Makes room for one change. */
static unsigned sack_make_room(struct us_sack *sack)
{
    unsigned result = 0;

    if (U_LIKELY(sack->n + SACK_ADD_RANGES <= US_SACK_RANGES))
        return 0;
    sack_join(sack, 1);
    while (sack->n + SACK_ADD_RANGES > US_SACK_RANGES) {
        result = US_SACK_OVERFLOW;
        if (!sack_forget(sack)) {
            sack->n = 1; /* many separate retransmissions: all are retransmitted once more */
            sack->ranges[0].state = US_SACK_LOST;
        }
        sack_join(sack, 1);
    }
    sack_tidy(sack);
    return result;
}

/* A retransmission has arrived; an ACK that may be for the first transmission is no evidence. */
static void note_arrival(struct us_sack *sack, const struct us_sack_range *range, u_u32 now_us,
                         u_u32 rtt_us)
{
    if (now_us - range->at_us < rtt_us)
        return;
    sack->newest_us = sack->has_newest ? time_max(sack->newest_us, range->at_us) : range->at_us;
    sack->has_newest = 1;
}

/* Range i has arrived. Returns US_SACK_* bits. */
static unsigned range_arrived(struct us_sack *sack, u_u32 i, u_u32 now_us, u_u32 rtt_us)
{
    const struct us_sack_range *range = &sack->ranges[i];

    if (range->state == US_SACK_SACKED)
        return 0;
    if (range->state == US_SACK_RESENT)
        note_arrival(sack, range, now_us, rtt_us);
    else if (sack->sacked_bytes > 0 && us_seq_lt(range->start, sack->high))
        return US_SACK_NEW_DATA | US_SACK_REORDERED;
    return US_SACK_NEW_DATA;
}

void us_sack_init(struct us_sack *sack, u_u32 una)
{
    u_zero(sack, sizeof(*sack));
    sack->end = una;
}

unsigned us_sack_add(struct us_sack *sack, u_u32 una, u_u32 start, u_u32 end, u_u32 now_us,
                     u_u32 rtt_us)
{
    unsigned result = sack_make_room(sack);
    u_u32 i;

    if (sack->n == 0)
        sack->end = una;
    range_split(sack, start);
    range_split(sack, end);
    for (i = 0; i < sack->n; i++) {
        struct us_sack_range *range = &sack->ranges[i];
        if (us_seq_lt(range->start, start) || us_seq_geq(range->start, end))
            continue;
        result |= range_arrived(sack, i, now_us, rtt_us);
        range->state = US_SACK_SACKED;
    }
    if (us_seq_gt(end, sack->end)) {
        range_append(sack, start, US_SACK_HOLE, now_us);
        range_append(sack, end, US_SACK_SACKED, now_us);
        result |= US_SACK_NEW_DATA;
    }
    sack_tidy(sack);
    return result;
}

unsigned us_sack_advance(struct us_sack *sack, u_u32 ack, u_u32 now_us, u_u32 rtt_us)
{
    unsigned result = 0;
    u_u32 gone = 0;
    u_u32 i;

    while (gone < sack->n && us_seq_lt(sack->ranges[gone].start, ack)) {
        result |= range_arrived(sack, gone, now_us, rtt_us);
        if (us_seq_gt(range_end(sack, gone), ack)) {
            sack->ranges[gone].start = ack;
            break;
        }
        gone++;
    }
    for (i = gone; i < sack->n; i++)
        sack->ranges[i - gone] = sack->ranges[i];
    sack->n -= gone;
    if (sack->n == 0)
        sack->end = us_seq_max(sack->end, ack);
    sack_tidy(sack);
    return result & US_SACK_REORDERED;
}

/* How long until a range counts as lost; 0: now, ~0: no limit. */
static u_u32 range_wait_us(const struct us_sack *sack, u_u32 i, const struct us_sack_rules *rules,
                           u_u32 above_bytes, u_u32 above_ranges)
{
    const struct us_sack_range *range = &sack->ranges[i];
    u_u32 age_us = rules->now_us - range->at_us;
    u_u32 limit_us = rules->reorder_us;

    if (range->state == US_SACK_HOLE) {
        if (!rules->by_time_only &&
            (above_bytes > (SACK_LOSS_RANGES - 1) * rules->mss ||
             above_ranges >= SACK_LOSS_RANGES || (i == 0 && rules->dup_acks >= SACK_LOSS_RANGES)))
            return 0;
    } else if ((sack->sacked_bytes > 0 && us_seq_gt(sack->high, range->mark)) ||
               (sack->has_newest && (u_s32)(sack->newest_us - range->at_us) > 0)) {
        limit_us += rules->rtt_us;
    } else {
        return ~(u_u32)0;
    }
    return age_us >= limit_us ? 0 : limit_us - age_us;
}

unsigned us_sack_detect(struct us_sack *sack, const struct us_sack_rules *rules)
{
    u_u32 above_bytes = 0;
    u_u32 above_ranges = 0;
    u_u32 wait_us = ~(u_u32)0;
    unsigned result = 0;
    u_u32 i;

    for (i = sack->n; i-- > 0;) {
        struct us_sack_range *range = &sack->ranges[i];
        u_u32 left_us;

        if (range->state == US_SACK_SACKED) {
            above_bytes += range_end(sack, i) - range->start;
            above_ranges++;
            continue;
        }
        if (range->state == US_SACK_LOST)
            continue;
        left_us = range_wait_us(sack, i, rules, above_bytes, above_ranges);
        if (left_us == 0) {
            result |= range->state == US_SACK_HOLE ? US_SACK_LOSS : US_SACK_LOST_AGAIN;
            range->state = US_SACK_LOST;
        }
        if (left_us != 0)
            wait_us = u_min32(wait_us, left_us);
    }
    sack->has_reorder = wait_us != ~(u_u32)0;
    sack->reorder_us = rules->now_us + wait_us;
    sack_tidy(sack);
    return result;
}

unsigned us_sack_lose_all(struct us_sack *sack, u_u32 una, u_u32 max)
{
    unsigned result = sack_make_room(sack);
    u_u32 i;

    if (sack->n == 0)
        sack->end = una;
    for (i = 0; i < sack->n; i++)
        if (sack->ranges[i].state != US_SACK_SACKED)
            sack->ranges[i].state = US_SACK_LOST;
    range_append(sack, max, US_SACK_LOST, 0);
    sack->has_newest = 0;
    sack->has_reorder = 0;
    sack_tidy(sack);
    return result;
}

void us_sack_restore(struct us_sack *sack, u_u32 now_us)
{
    u_u32 i;

    while (sack->n > 0 && sack->ranges[sack->n - 1].state == US_SACK_LOST)
        range_pop(sack);
    for (i = 0; i < sack->n; i++) {
        struct us_sack_range *range = &sack->ranges[i];
        if (range->state == US_SACK_LOST && sack->sacked_bytes > 0 &&
            us_seq_lt(range->start, sack->high)) {
            range->state = US_SACK_HOLE;
            range->at_us = now_us;
        }
    }
    sack_tidy(sack);
}

int us_sack_first_lost(const struct us_sack *sack, u_u32 *start, u_u32 *end)
{
    if (sack->lost_first >= sack->n)
        return 0;
    *start = sack->ranges[sack->lost_first].start;
    *end = range_end(sack, sack->lost_first);
    return 1;
}

unsigned us_sack_resent(struct us_sack *sack, u_u32 start, u_u32 end, u_u32 max, u_u32 now_us)
{
    unsigned result = sack_make_room(sack);
    u_u32 i;

    range_split(sack, start);
    range_split(sack, end);
    for (i = 0; i < sack->n; i++) {
        struct us_sack_range *range = &sack->ranges[i];
        if (us_seq_lt(range->start, start) || us_seq_geq(range->start, end) ||
            range->state == US_SACK_SACKED)
            continue;
        range->state = US_SACK_RESENT;
        range->at_us = now_us;
        range->mark = max;
    }
    sack_tidy(sack);
    return result;
}

int us_sack_highest_missing(const struct us_sack *sack, u_u32 max, u_u32 *start, u_u32 *end)
{
    u_u32 i;

    *start = sack->end;
    *end = max;
    if (us_seq_lt(sack->end, max))
        return 1;
    for (i = sack->n; i-- > 0;) {
        if (sack->ranges[i].state == US_SACK_SACKED)
            continue;
        *start = sack->ranges[i].start;
        *end = range_end(sack, i);
        return 1;
    }
    return 0;
}

const char *us_sack_check(const struct us_sack *sack, u_u32 una, u_u32 max)
{
    u_u32 sacked = 0;
    u_u32 lost = 0;
    u_u32 i;

    if (!(sack->n <= US_SACK_RANGES))
        return "scoreboard: more ranges than there is room for";
    if (!(sack->n == 0 || (sack->ranges[0].start == una && us_seq_leq(sack->end, max))))
        return "scoreboard: not within what is in flight";
    for (i = 0; i < sack->n; i++) {
        u_u32 len = range_end(sack, i) - sack->ranges[i].start;
        if (!(us_seq_gt(range_end(sack, i), sack->ranges[i].start)))
            return "scoreboard: not sorted, or an empty range";
        if (sack->ranges[i].state == US_SACK_SACKED)
            sacked += len;
        if (sack->ranges[i].state == US_SACK_LOST)
            lost += len;
        if (i > 0 && range_is_like(&sack->ranges[i - 1], &sack->ranges[i], 0))
            return "scoreboard: neighbours that should be one";
    }
    if (!(sack->n == 0 || sack->ranges[sack->n - 1].state != US_SACK_HOLE))
        return "scoreboard: a hole behind which nothing has arrived";
    if (!(sacked == sack->sacked_bytes && lost == sack->lost_bytes))
        return "scoreboard: bytes miscounted";
    return (const char *)U_NULL;
}
