/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scoreboard against a model with one byte of state for each byte in flight, and recoveries of
 * a stack whose peer is the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "raw.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_sack.h"

enum { FLIGHT = 3000, MSS = 1000, RTT_US = 10000 };

/* ---- the scoreboard and its model ---- */

struct model {
    u_u32 base; /* sequence number of state[0] */
    u_u32 una;  /* offsets */
    u_u32 max;
    u_u8 sacked[FLIGHT];
    u_u8 lost[FLIGHT];
};

static void model_compare(const struct us_sack *sack, const struct model *model, int exact)
{
    const char *broken = us_sack_check(sack, model->base + model->una, model->base + model->max);
    u_u32 sacked = 0;
    u_u32 i;
    u_u32 at;

    if (broken != NULL)
        fail_msg("%s", broken);
    for (i = 0; i < sack->n; i++) {
        u_u32 end = i + 1 < sack->n ? sack->ranges[i + 1].start : sack->end;
        for (at = sack->ranges[i].start - model->base; at != end - model->base; at++) {
            /* Only reported bytes are SACKED; forgotten ones cost retransmissions. */
            if (sack->ranges[i].state == US_SACK_SACKED)
                assert_true(model->sacked[at]);
            else if (exact)
                assert_false(model->sacked[at]);
        }
    }
    for (at = model->una; at < model->max; at++)
        sacked += model->sacked[at];
    if (exact)
        assert_int_equal(sack->sacked_bytes, sacked);
    else
        assert_true(sack->sacked_bytes <= sacked);
}

static void detect(struct us_sack *sack, u_u32 now_us)
{
    struct us_sack_rules rules;

    memset(&rules, 0, sizeof(rules));
    rules.now_us = now_us;
    rules.mss = 20;
    rules.reorder_us = 5;
    rules.rtt_us = 10;
    us_sack_detect(sack, &rules);
}

/* One random change; the model follows. Returns 0 once something was forgotten. */
static int model_step(struct us_sack *sack, struct model *model, struct u_prng *prng, u_u32 now_us,
                      u_u32 block_max)
{
    u_u32 una = model->base + model->una;
    u_u32 start = model->una + 1 + u_prng_below(prng, model->max - model->una - 1);
    u_u32 end = start + 1 + u_prng_below(prng, block_max);
    unsigned result = 0;
    u_u32 lost_start;
    u_u32 lost_end;

    if (end > model->max)
        end = model->max;
    switch (u_prng_below(prng, 16)) {
    case 0:
        model->una += u_prng_below(prng, 30);
        if (model->una > model->max - 2)
            model->una = model->max - 2;
        us_sack_advance(sack, model->base + model->una, now_us, 10);
        break;
    case 1:
    case 2:
    case 3:
        if (us_sack_first_lost(sack, &lost_start, &lost_end)) {
            if (lost_end - lost_start > 20)
                lost_end = lost_start + 20;
            result = us_sack_resent(sack, lost_start, lost_end, model->base + model->max, now_us);
        }
        break;
    case 4:
        if (u_prng_below(prng, 20) == 0)
            result = us_sack_lose_all(sack, una, model->base + model->max);
        break;
    case 5:
        if (u_prng_below(prng, 20) == 0)
            us_sack_restore(sack, now_us);
        break;
    default:
        result = us_sack_add(sack, una, model->base + start, model->base + end, now_us, 10);
        memset(model->sacked + start, 1, end - start);
        break;
    }
    detect(sack, now_us);
    return !(result & US_SACK_OVERFLOW);
}

/* Random changes with blocks of up to block_max bytes, across the wrap of the numbers. */
static void model_run(u_u64 seed, u_u32 block_max, int small)
{
    static struct us_sack sack;
    static struct model model;
    struct u_prng prng;
    int exact = 1;
    u_u32 step;

    u_prng_seed(&prng, seed);
    memset(&model, 0, sizeof(model));
    model.base = (u_u32)0 - 500;
    model.max = small ? 200 : FLIGHT;
    us_sack_init(&sack, model.base);
    for (step = 0; step < 400; step++) {
        if (!model_step(&sack, &model, &prng, 0xffffff00u + step * 3, block_max))
            exact = 0;
        model_compare(&sack, &model, exact);
    }
    if (small)
        assert_true(exact);
}

static void scoreboard_follows_the_model(void **state)
{
    u_u64 seed;

    for (seed = 1; seed <= 300; seed++) {
        model_run(seed, 40, 1);
        model_run(seed, 1, 0);
        model_run(seed, 100, 0);
    }
}

/* What has neither arrived nor a range is missing, too; with nothing beyond, the last hole is. */
static void the_highest_missing_is_not_empty(void **state)
{
    struct us_sack sack;
    u_u32 start;
    u_u32 end;

    us_sack_init(&sack, 100);
    us_sack_add(&sack, 100, 200, 300, 0, 0);
    assert_true(us_sack_highest_missing(&sack, 400, &start, &end));
    assert_true(start == 300 && end == 400);
    assert_true(us_sack_highest_missing(&sack, 300, &start, &end));
    assert_true(start == 100 && end == 200);
    us_sack_add(&sack, 100, 100, 200, 0, 0);
    assert_false(us_sack_highest_missing(&sack, 300, &start, &end));
    us_sack_advance(&sack, 350, 0, 0); /* beyond all ranges */
    assert_true(us_sack_highest_missing(&sack, 400, &start, &end));
    assert_true(start == 350 && end == 400);
    (void)state;
}

/* RFC 6675: three ranges behind a hole, or three duplicate ACKs for the first one, are enough. */
static void three_of_a_kind_are_a_loss(void **state)
{
    struct us_sack_rules rules;
    struct us_sack sack;
    u_u32 i;

    memset(&rules, 0, sizeof(rules));
    rules.mss = MSS;
    rules.reorder_us = RTT_US;
    us_sack_init(&sack, 0);
    for (i = 1; i <= 3; i++) {
        us_sack_add(&sack, 0, 20 * i, 20 * i + 10, 0, RTT_US);
        assert_int_equal(us_sack_detect(&sack, &rules), i == 3 ? US_SACK_LOSS : 0);
    }
    assert_int_equal(sack.lost_bytes, 20); /* the holes behind it have fewer */
    us_sack_init(&sack, 0);
    us_sack_add(&sack, 0, 20, 30, 0, RTT_US);
    us_sack_add(&sack, 0, 40, 50, 0, RTT_US);
    for (rules.dup_acks = 1; rules.dup_acks <= 3; rules.dup_acks++)
        assert_int_equal(us_sack_detect(&sack, &rules), rules.dup_acks == 3 ? US_SACK_LOSS : 0);
    assert_int_equal(sack.lost_bytes, 20);
    (void)state;
}

/*
 * RFC 8985 6.2, step 5: a retransmission is lost a round trip and the reordering window after it
 * was sent, if what was sent later has arrived, whenever the clock of 32 bits wraps.
 */
static void a_retransmission_is_lost_by_time(void **state)
{
    static const u_u32 starts[] = {0, 0xffffffffu - RTT_US, 0xffffffffu - 60, 0xfffffff0u,
                                   0x7ffffff0u};
    struct us_sack_rules rules;
    struct us_sack sack;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(starts); i++) {
        u_u32 sent_us = starts[i];

        memset(&rules, 0, sizeof(rules));
        rules.mss = MSS;
        rules.reorder_us = 100;
        rules.rtt_us = RTT_US;
        rules.by_time_only = 1;
        us_sack_init(&sack, 0);
        us_sack_lose_all(&sack, 0, 400);
        us_sack_resent(&sack, 0, 100, 400, sent_us);
        us_sack_resent(&sack, 100, 200, 400, sent_us + 40);
        us_sack_resent(&sack, 200, 300, 400, sent_us + 80);
        us_sack_add(&sack, 0, 200, 300, sent_us + 80 + RTT_US, RTT_US);
        us_sack_add(&sack, 0, 100, 200, sent_us + 80 + RTT_US, RTT_US); /* an older one */
        assert_int_equal(sack.newest_us, sent_us + 80);
        rules.now_us = sent_us + RTT_US + 99;
        assert_int_equal(us_sack_detect(&sack, &rules), 0);
        assert_int_equal(sack.reorder_us, sent_us + RTT_US + 100);
        rules.now_us++;
        assert_int_equal(us_sack_detect(&sack, &rules), US_SACK_LOST_AGAIN);
    }
    (void)state;
}

/* What arrived up to where the flight ended when a range was sent again says nothing about it. */
static void only_later_data_shows_a_lost_retransmission(void **state)
{
    struct us_sack_rules rules;
    struct us_sack sack;

    memset(&rules, 0, sizeof(rules));
    rules.mss = MSS;
    rules.rtt_us = RTT_US;
    rules.now_us = 100 * RTT_US;
    us_sack_init(&sack, 0);
    us_sack_add(&sack, 0, 300, 400, 0, RTT_US);
    us_sack_lose_all(&sack, 0, 400);
    us_sack_resent(&sack, 0, 300, 400, 1);
    assert_int_equal(us_sack_detect(&sack, &rules), 0);
    us_sack_add(&sack, 0, 400, 410, 2, RTT_US);
    assert_int_equal(us_sack_detect(&sack, &rules), US_SACK_LOST_AGAIN);
    assert_int_equal(sack.lost_bytes, 300);
    /* Of two sent again at a time, only the one before these data is. */
    us_sack_init(&sack, 0);
    us_sack_lose_all(&sack, 0, 400);
    us_sack_resent(&sack, 0, 200, 400, 1);
    us_sack_resent(&sack, 200, 400, 410, 1);
    us_sack_add(&sack, 0, 400, 410, 2, RTT_US);
    assert_int_equal(us_sack_detect(&sack, &rules), US_SACK_LOST_AGAIN);
    assert_int_equal(sack.lost_bytes, 200);
    (void)state;
}

/* RFC 8985 6.2: reordering is data that arrives below what has arrived, and was sent once. */
static void reordering_is_below_what_has_arrived(void **state)
{
    struct us_sack_rules rules;
    struct us_sack sack;

    memset(&rules, 0, sizeof(rules));
    rules.mss = MSS;
    rules.reorder_us = RTT_US;
    us_sack_init(&sack, 0);
    us_sack_add(&sack, 0, 200, 300, 0, 0);
    assert_int_equal(us_sack_detect(&sack, &rules), 0);
    assert_true(sack.has_reorder);
    assert_int_equal(us_sack_add(&sack, 0, 150, 200, 0, 0), US_SACK_NEW_DATA | US_SACK_REORDERED);
    us_sack_add(&sack, 0, 300, 310, 0, 0);
    us_sack_add(&sack, 0, 350, 360, 0, 0);
    assert_int_equal(us_sack_add(&sack, 0, 330, 340, 0, 0), US_SACK_NEW_DATA | US_SACK_REORDERED);
    us_sack_add(&sack, 0, 310, 360, 0, 0);
    us_sack_lose_all(&sack, 0, 500);
    assert_false(sack.has_reorder);
    assert_int_equal(us_sack_add(&sack, 0, 400, 500, 0, 0), US_SACK_NEW_DATA);
    us_sack_resent(&sack, 0, 150, 500, 1);
    assert_int_equal(us_sack_advance(&sack, 100, 2, 0), 0); /* an ACK of a retransmission */
    us_sack_resent(&sack, 100, 500, 500, 3);                /* over what has arrived */
    assert_int_equal(sack.sacked_bytes, 210 + 100);
    (void)state;
}

/* After a needless timeout a hole waits for the reordering window anew. */
static void a_restored_hole_waits_anew(void **state)
{
    struct us_sack_rules rules;
    struct us_sack sack;

    memset(&rules, 0, sizeof(rules));
    rules.mss = MSS;
    rules.reorder_us = 100;
    us_sack_init(&sack, 0);
    us_sack_add(&sack, 0, 100, 200, 0, 0);
    us_sack_lose_all(&sack, 0, 400);
    us_sack_restore(&sack, 1000);
    assert_int_equal(sack.lost_bytes, 0);
    assert_int_equal(sack.end, 200); /* what is behind counts as sent once */
    rules.now_us = 1099;
    assert_int_equal(us_sack_detect(&sack, &rules), 0);
    rules.now_us = 1100;
    assert_int_equal(us_sack_detect(&sack, &rules), US_SACK_LOSS);
    (void)state;
}

/* What a timeout loses is one range, for segments of full size, whenever it was sent last. */
static void neighbours_that_are_lost_are_one(void **state)
{
    struct us_sack sack;
    u_u32 start;
    u_u32 end;

    us_sack_init(&sack, 0);
    us_sack_lose_all(&sack, 0, 400);
    us_sack_resent(&sack, 0, 100, 400, 1);
    us_sack_resent(&sack, 100, 200, 400, 2);
    us_sack_lose_all(&sack, 0, 400);
    assert_true(us_sack_first_lost(&sack, &start, &end));
    assert_true(start == 0 && end == 400);
    (void)state;
}

/* RFC 8985 6.2, step 2: an ACK earlier than a round trip is of the first transmission. */
static void an_early_ack_is_no_evidence_of_a_retransmission(void **state)
{
    struct us_sack sack;

    us_sack_init(&sack, 100);
    us_sack_add(&sack, 100, 300, 400, 0, RTT_US);
    us_sack_resent(&sack, 100, 200, 400, 5000);
    us_sack_resent(&sack, 200, 300, 400, 5000);
    us_sack_add(&sack, 100, 200, 250, 5000 + RTT_US - 1, RTT_US);
    assert_false(sack.has_newest);
    us_sack_add(&sack, 100, 250, 300, 5000 + RTT_US, RTT_US);
    assert_true(sack.has_newest);
    assert_int_equal(sack.newest_us, 5000);
    (void)state;
}

/*
 * Retransmissions that are joined for want of ranges are as late as the last of them, so that none
 * counts as lost before an ACK of it can have come.
 */
static void joined_retransmissions_are_as_late_as_the_last(void **state)
{
    enum { BYTES = 20, MAX = (US_SACK_RANGES + 2) * BYTES };
    struct us_sack sack;
    u_u32 n = 0;
    u_u32 i;

    us_sack_init(&sack, 0);
    us_sack_lose_all(&sack, 0, MAX);
    for (i = 0; sack.n >= n; i++) {
        n = sack.n;
        assert_true(i < US_SACK_RANGES);
        us_sack_resent(&sack, i * BYTES, (i + 1) * BYTES, MAX + i, 1000 + i);
    }
    assert_null(us_sack_check(&sack, 0, MAX));
    assert_int_equal(sack.ranges[0].state, US_SACK_RESENT);
    assert_int_equal(sack.ranges[1].start, (i - 1) * BYTES); /* the last call made room first */
    assert_int_equal(sack.ranges[0].at_us, 1000 + i - 2);
    assert_int_equal(sack.ranges[0].mark, MAX + i - 2);
    (void)state;
}

/* When it is full of retransmissions it forgets that the first bytes were SACKed, not the bytes. */
static void forgotten_bytes_stay_in_a_range(void **state)
{
    struct us_sack sack;
    unsigned result = 0;
    u_u32 at;

    us_sack_init(&sack, 0);
    us_sack_add(&sack, 0, 10, 20, 0, 0);
    us_sack_advance(&sack, 15, 0, 0); /* the peer acknowledges less than it has SACKed */
    us_sack_lose_all(&sack, 15, 4000);
    for (at = 30; !(result & US_SACK_OVERFLOW); at += 20) {
        assert_true(at < 4000);
        result = us_sack_resent(&sack, at, at + 10, 4000, at);
        assert_null(us_sack_check(&sack, 15, 4000));
    }
    assert_int_equal(sack.sacked_bytes, 0);
    (void)state;
}

/* Every second byte SACKed: more ranges than there is room for. */
static void scoreboard_overflow_is_safe(void **state)
{
    static struct us_sack sack;
    unsigned result = 0;
    u_u32 at;
    u_u32 start;
    u_u32 end;

    us_sack_init(&sack, 0);
    for (at = 1; at < 1000; at += 2) {
        result |= us_sack_add(&sack, 0, at, at + 1, at, 10);
        assert_null(us_sack_check(&sack, 0, 1000));
    }
    assert_true(result & US_SACK_OVERFLOW);
    result = us_sack_lose_all(&sack, 0, 1000);
    for (at = 0; us_sack_first_lost(&sack, &start, &end) && at < 5000; at++) {
        us_sack_resent(&sack, start, start + 1, 1000, at);
        assert_null(us_sack_check(&sack, 0, 1000));
    }
    assert_false(us_sack_first_lost(&sack, &start, &end));
}

/* ---- recoveries ---- */

static const u_u8 bulk[64 * 1000];

static struct us_conn *recovery_open(struct raw *raw, u_u32 *snd, u_u32 segments)
{
    struct us_conn *conn;
    u_u32 i;

    memset(&raw->opts, 0, sizeof(raw->opts));
    raw->opts.mss = MSS;
    raw->opts.sack_permitted = 1;
    conn = raw_accept(raw, snd);
    raw->opts.mss = 0;
    raw->opts.sack_permitted = 0;
    /* Exchanges that measure a round trip; the handshake took no time. */
    for (i = 0; i < 12; i++) {
        us_send(raw->stack, conn, bulk, MSS);
        raw_pump(raw, 0);
        raw_expect(raw, US_TCP_ACK, *snd, 1001, MSS);
        raw_pump(raw, RTT_US);
        raw_segment(raw, US_TCP_ACK, 1001, *snd + MSS, 65535, NULL, 0);
        *snd += MSS;
    }
    us_send(raw->stack, conn, bulk, segments * MSS);
    raw_pump(raw, 0);
    for (i = 0; i < segments; i++)
        raw_expect(raw, US_TCP_ACK, *snd + i * MSS, 1001, MSS);
    raw_expect_nothing(raw);
    raw_pump(raw, RTT_US);
    return conn;
}

/* A pure ACK of segment `ack` with one block of segments first..last - 1 (none if they are equal).
 */
static void recovery_ack(struct raw *raw, u_u32 snd, u_u32 ack, u_u32 first, u_u32 last)
{
    raw->opts.sack_blocks = first != last;
    raw->opts.sack[0].start = snd + first * MSS;
    raw->opts.sack[0].end = snd + last * MSS;
    raw_segment(raw, US_TCP_ACK, 1001, snd + ack * MSS, 65535, NULL, 0);
    raw->opts.sack_blocks = 0;
}

static void one_hole_is_filled_at_once(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    recovery_open(raw, &snd, 8);
    recovery_ack(raw, snd, 0, 1, 2);
    recovery_ack(raw, snd, 0, 1, 3);
    raw_expect_nothing(raw);
    recovery_ack(raw, snd, 0, 1, 4);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    recovery_ack(raw, snd, 0, 1, 8);
    raw_expect_nothing(raw);
    recovery_ack(raw, snd, 8, 0, 0);
    assert_int_equal(raw_counter(raw, "tcp_recoveries"), 1);
    assert_int_equal(raw_counter(raw, "tcp_retransmits"), 1);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void many_holes_are_filled_without_a_timeout(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;
    u_u32 i;

    recovery_open(raw, &snd, 10);
    for (i = 1; i < 10; i += 2)
        recovery_ack(raw, snd, 0, i, i + 1);
    raw_pump(raw, RTT_US / 2);
    /* RFC 9937: three ACKs since the loss was seen, so three segments, and one that time shows */
    for (i = 0; i < 8; i += 2)
        raw_expect(raw, US_TCP_ACK, snd + i * MSS, 1001, MSS);
    raw_expect_nothing(raw);
    recovery_ack(raw, snd, 2, 9, 10);
    raw_expect(raw, US_TCP_ACK, snd + 8 * MSS, 1001, MSS);
    recovery_ack(raw, snd, 10, 0, 0);
    assert_int_equal(raw_counter(raw, "tcp_recoveries"), 1);
    assert_int_equal(raw_counter(raw, "tcp_timeouts"), 0);
}

static void a_lost_retransmission_needs_no_timeout(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = recovery_open(raw, &snd, 8);
    recovery_ack(raw, snd, 0, 1, 8);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    us_send(raw->stack, conn, bulk, MSS);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd + 8 * MSS, 1001, MSS);
    raw_pump(raw, RTT_US);
    recovery_ack(raw, snd, 0, 1, 9); /* sent after the retransmission, but here */
    raw_pump(raw, RTT_US / 2);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    recovery_ack(raw, snd, 9, 0, 0);
    assert_int_equal(raw_counter(raw, "tcp_lost_retransmits"), 1);
    assert_int_equal(raw_counter(raw, "tcp_timeouts"), 0);
}

static void the_tail_is_probed(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    recovery_open(raw, &snd, 4);
    recovery_ack(raw, snd, 2, 0, 0);
    raw_pump(raw, 3 * RTT_US);
    raw_expect(raw, US_TCP_ACK, snd + 3 * MSS, 1001, MSS);
    recovery_ack(raw, snd, 2, 3, 4);
    raw_pump(raw, RTT_US / 2);
    raw_expect(raw, US_TCP_ACK, snd + 2 * MSS, 1001, MSS);
    recovery_ack(raw, snd, 4, 0, 0);
    assert_int_equal(raw_counter(raw, "tcp_tail_probes"), 1);
    assert_int_equal(raw_counter(raw, "tcp_timeouts"), 0);
}

static void a_needless_recovery_is_undone(void **state)
{
    struct raw *raw = *state;
    struct us_conn_info before;
    struct us_conn_info after;
    struct us_conn *conn;
    u_u32 snd;

    conn = recovery_open(raw, &snd, 8);
    us_conn_get_info(raw->stack, conn, &before);
    recovery_ack(raw, snd, 0, 1, 4);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    us_conn_get_info(raw->stack, conn, &after);
    assert_true(after.cwnd_bytes < before.cwnd_bytes);
    recovery_ack(raw, snd, 8, 0, 0); /* the original was only late */
    recovery_ack(raw, snd, 8, 0, 1); /* D-SACK: the retransmission came, too */
    us_conn_get_info(raw->stack, conn, &after);
    assert_true(after.cwnd_bytes >= before.cwnd_bytes);
    assert_int_equal(raw_counter(raw, "tcp_undos"), 1);
    assert_int_equal(raw_counter(raw, "tcp_rx_dsacks"), 1);

    /* From now on only time tells: three segments behind a hole are no loss by themselves. */
    snd += 8 * MSS;
    us_send(raw->stack, conn, bulk, 8 * MSS);
    raw_pump(raw, 0);
    while (raw_frame(raw) != NULL)
        ;
    raw_pump(raw, RTT_US);
    recovery_ack(raw, snd, 0, 1, 5);
    raw_expect_nothing(raw);
    recovery_ack(raw, snd, 8, 0, 0);
    assert_int_equal(raw_counter(raw, "tcp_recoveries"), 1);
}

/* Sends so many segments, of which the stack has nothing in flight. */
static void recovery_send(struct raw *raw, struct us_conn *conn, u_u32 snd, u_u32 segments)
{
    u_u32 i;

    us_send(raw->stack, conn, bulk, segments * MSS);
    raw_pump(raw, 0);
    for (i = 0; i < segments; i++)
        raw_expect(raw, US_TCP_ACK, snd + i * MSS, 1001, MSS);
}

/* RFC 8985 6.2, step 4: D-SACKs widen the window once per recovery, and it stays so for 16. */
static void the_reordering_window_is_widened_for_a_while(void **state)
{
    enum { RECOVERIES = 16 };
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;
    u_u32 i;

    conn = recovery_open(raw, &snd, 8);
    recovery_ack(raw, snd, 0, 2, 8);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    raw_expect(raw, US_TCP_ACK, snd + MSS, 1001, MSS);
    recovery_ack(raw, snd, 8, 0, 0);
    recovery_ack(raw, snd, 8, 0, 1);
    recovery_ack(raw, snd, 8, 1, 2);
    assert_int_equal(raw_counter(raw, "tcp_undos"), 1);
    assert_int_equal(conn->rec.reo_wnd_mult, 1);
    for (i = 0; i < RECOVERIES; i++) {
        assert_int_equal(conn->rec.reo_wnd_mult, 1);
        snd += (i == 0 ? 8 : 2) * MSS;
        recovery_send(raw, conn, snd, 2);
        raw_pump(raw, RTT_US);
        recovery_ack(raw, snd, 0, 1, 2);
        raw_pump(raw, 2 * (conn->rtt.min_rtt_us / 4) - 1); /* two quarters of a round trip */
        raw_expect_nothing(raw);
        raw_pump(raw, 1);
        raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
        raw_pump(raw, RTT_US);
        recovery_ack(raw, snd, 2, 0, 0);
    }
    assert_int_equal(raw_counter(raw, "tcp_recoveries"), 1 + RECOVERIES);
    assert_int_equal(conn->rec.reo_wnd_mult, 0);
}

/* RFC 8985 6.2, step 4: the window is no longer than a round trip, however often it was widened. */
static void the_reordering_window_is_bounded(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = recovery_open(raw, &snd, 2);
    conn->rec.reo_wnd_mult = 64;
    recovery_ack(raw, snd, 0, 1, 2);
    assert_true(conn->rtt.srtt8_us / 8 < 65 * (conn->rtt.min_rtt_us / 4));
    raw_pump(raw, conn->rtt.srtt8_us / 8 - 1);
    raw_expect_nothing(raw);
    raw_pump(raw, 1);
    raw_expect(raw, US_TCP_ACK, snd, 1001, MSS);
    assert_int_equal(raw_counter(raw, "tcp_rack_timeouts"), 1);
}

/* A needless probe of a single segment has come before a delayed ACK; one of more has not. */
static void a_needless_probe_allows_a_longer_delay(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 delay_us;
    u_u32 snd;
    u_u32 n;

    conn = recovery_open(raw, &snd, 0);
    delay_us = us_recovery_peer_ack_delay_us(raw->stack, conn);
    assert_true(delay_us > 0); /* ACKs of single segments do not show that it delays none */
    for (n = 1; n <= 2; n++) {
        recovery_send(raw, conn, snd, n);
        raw_pump(raw, us_recovery_pto_us(raw->stack, conn));
        raw_expect(raw, US_TCP_ACK, snd + (n - 1) * MSS, 1001, MSS);
        recovery_ack(raw, snd, n, n - 1, n);
        assert_int_equal(raw_counter(raw, "tcp_tail_probes"), n);
        assert_int_equal(us_recovery_peer_ack_delay_us(raw->stack, conn), 2 * delay_us);
        snd += n * MSS;
    }
}

/* Whatever blocks say: nothing asserts, us_check() holds after each, the data gets through. */
static void hostile_blocks_do_no_harm(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    struct u_prng prng;
    u_u32 snd;
    u_u32 i;
    u_u32 j;

    u_prng_seed(&prng, 7);
    conn = recovery_open(raw, &snd, 10);
    us_send(raw->stack, conn, bulk, 50 * MSS);
    for (i = 0; i < 3000; i++) {
        raw->opts.sack_blocks = (u_u8)u_prng_below(&prng, 5);
        for (j = 0; j < raw->opts.sack_blocks; j++) {
            u_u32 span = u_prng_below(&prng, 4) == 0 ? 0xffffffffu : 14000;
            raw->opts.sack[j].start = snd - 2000 + u_prng_below(&prng, span);
            raw->opts.sack[j].end = snd - 2000 + u_prng_below(&prng, span);
        }
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        raw_pump(raw, u_prng_below(&prng, 1000));
        while (raw_frame(raw) != NULL)
            ;
    }
    raw->opts.sack_blocks = 0;
    assert_true(raw_counter(raw, "tcp_rx_sack_invalid") > 0);
    for (i = 0; i < 60; i++) {
        raw_segment(raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
        raw_pump(raw, 300000);
        while (raw_frame(raw) != NULL)
            ;
    }
    assert_int_equal(raw_counter(raw, "conns_open"), 1);
}

#define SACK_RAW_TEST(f) cmocka_unit_test_setup_teardown(f, raw_setup, raw_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scoreboard_follows_the_model),
        cmocka_unit_test(joined_retransmissions_are_as_late_as_the_last),
        cmocka_unit_test(forgotten_bytes_stay_in_a_range),
        cmocka_unit_test(scoreboard_overflow_is_safe),
        cmocka_unit_test(the_highest_missing_is_not_empty),
        cmocka_unit_test(three_of_a_kind_are_a_loss),
        cmocka_unit_test(a_retransmission_is_lost_by_time),
        cmocka_unit_test(only_later_data_shows_a_lost_retransmission),
        cmocka_unit_test(reordering_is_below_what_has_arrived),
        cmocka_unit_test(a_restored_hole_waits_anew),
        cmocka_unit_test(neighbours_that_are_lost_are_one),
        cmocka_unit_test(an_early_ack_is_no_evidence_of_a_retransmission),
        SACK_RAW_TEST(one_hole_is_filled_at_once),
        SACK_RAW_TEST(many_holes_are_filled_without_a_timeout),
        SACK_RAW_TEST(a_lost_retransmission_needs_no_timeout),
        SACK_RAW_TEST(the_tail_is_probed),
        SACK_RAW_TEST(a_needless_recovery_is_undone),
        SACK_RAW_TEST(the_reordering_window_is_widened_for_a_while),
        SACK_RAW_TEST(the_reordering_window_is_bounded),
        SACK_RAW_TEST(a_needless_probe_allows_a_longer_delay),
        SACK_RAW_TEST(hostile_blocks_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
