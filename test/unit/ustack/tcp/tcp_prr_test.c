/* SPDX-License-Identifier: BSD-3-Clause */
/* Proportional rate reduction, by the examples of RFC 9937 section 8 and by its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ustack/tcp/tcp_prr.h"

enum { MSS = 1000 };

/*
 * `flight` segments are in flight, the first `lost` of them are lost, the others are SACKed one by
 * one. Returns how many segments are sent within the round trip; *silence: the longest run of ACKs
 * that let nothing out.
 */
static unsigned recover(unsigned flight, unsigned lost, u_u32 ssthresh, unsigned *silence)
{
    struct us_prr prr;
    u_u32 pipe = (flight - lost) * MSS;
    u_u32 sacked = 0;
    unsigned sent = 0;
    unsigned run = 0;
    unsigned i;

    us_prr_reset(&prr, 5000);
    us_prr_start(&prr, 5000 + flight * MSS);
    *silence = 0;
    for (i = 0; i < flight - lost; i++) {
        u_u32 cwnd;
        sacked += MSS;
        pipe -= MSS;
        cwnd = us_prr_take(&prr, 5000, sacked, i == 0, pipe, ssthresh, MSS);
        run++;
        while (pipe + MSS <= cwnd) {
            pipe += MSS;
            prr.out += MSS;
            sent++;
            run = 0;
        }
        *silence = run > *silence ? run : *silence;
    }
    return sent;
}

static void sends_in_proportion(void **state)
{
    unsigned silence;

    /* One of 20 lost: 10 go out while 19 are acknowledged, one for two. */
    assert_in_range(recover(20, 1, 10 * MSS, &silence), 9, 11);
    assert_true(silence <= 2);
    /* CUBIC: seven of ten. */
    assert_in_range(recover(100, 1, 70 * MSS, &silence), 68, 71);
    assert_true(silence <= 2);
}

static void heavy_loss_conserves_packets(void **state)
{
    unsigned silence;

    /* 15 of 20 lost: pipe is below ssthresh, so each ACK permits one segment. */
    assert_in_range(recover(20, 15, 10 * MSS, &silence), 5, 6);
    assert_int_equal(silence, 0);
}

static void slow_start_while_all_goes_well(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    prr.out = 2 * MSS;
    prr.delivered = 2 * MSS;
    /* SND.UNA advances by one segment: that and one more, below ssthresh */
    assert_int_equal(us_prr_take(&prr, MSS, 0, 0, 4 * MSS, 10 * MSS, MSS), 6 * MSS);
    /* not if the same ACK shows another loss */
    assert_int_equal(us_prr_take(&prr, 2 * MSS, 0, 1, 4 * MSS, 10 * MSS, MSS), 6 * MSS);
    /* nor if it only reports a SACKed segment */
    assert_int_equal(us_prr_take(&prr, 2 * MSS, MSS, 0, 4 * MSS, 10 * MSS, MSS), 7 * MSS);
    /* and not beyond ssthresh */
    assert_int_equal(us_prr_take(&prr, 6 * MSS, 0, 0, 9 * MSS, 10 * MSS, MSS), 10 * MSS);
}

static void first_retransmission_is_immediate(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    assert_int_equal(us_prr_take(&prr, 0, 100, 1, 19 * MSS, 10 * MSS, MSS), 20 * MSS);
    prr.out = MSS;
    assert_in_range(us_prr_take(&prr, 0, 200, 0, 19 * MSS, 10 * MSS, MSS), 19 * MSS, 19 * MSS + 9);
}

/* What was sent before a loss was seen, or in an earlier recovery, does not count in this one. */
static void each_recovery_begins_anew(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    us_prr_take(&prr, 0, 5 * MSS, 0, 15 * MSS, 10 * MSS, MSS);
    prr.out = 3 * MSS;
    us_prr_start(&prr, 25 * MSS);
    assert_in_range(us_prr_take(&prr, 0, 5 * MSS + 100, 0, 19 * MSS, 10 * MSS, MSS), 20 * MSS,
                    20 * MSS + 9);
    prr.out += MSS;
    assert_in_range(us_prr_take(&prr, 0, 9 * MSS + 100, 0, 15 * MSS, 10 * MSS, MSS), 16 * MSS + 40,
                    16 * MSS + 60);
    (void)state;
}

/* A loss that the time has shown lets a segment out, but not beyond ssthresh. */
static void a_loss_by_time_is_within_ssthresh(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    prr.out = MSS;
    assert_int_equal(us_prr_take(&prr, 0, 0, 1, 9 * MSS, 10 * MSS, MSS), 10 * MSS);
    assert_int_equal(us_prr_take(&prr, 0, 0, 1, 10 * MSS, 10 * MSS, MSS), 10 * MSS);
    (void)state;
}

/* RFC 9937 6: what an ACK delivers may be sent, even if more was sent than delivered before. */
static void what_is_delivered_is_sent_below_ssthresh(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    prr.out = 5 * MSS;
    assert_int_equal(us_prr_take(&prr, 0, 2 * MSS, 0, 4 * MSS, 10 * MSS, MSS), 6 * MSS);
    prr.out = MSS; /* less than was delivered: the difference, too */
    assert_int_equal(us_prr_take(&prr, 0, 4 * MSS, 0, 4 * MSS, 10 * MSS, MSS), 7 * MSS);
    (void)state;
}

static void forgotten_ranges_count_as_nothing(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0);
    us_prr_start(&prr, 20 * MSS);
    us_prr_take(&prr, 0, 5 * MSS, 0, 15 * MSS, 10 * MSS, MSS);
    assert_int_equal(prr.delivered, 5 * MSS);
    us_prr_take(&prr, 0, 3 * MSS, 0, 15 * MSS, 10 * MSS, MSS);
    assert_int_equal(prr.delivered, 5 * MSS);
    us_prr_take(&prr, 0, 4 * MSS, 0, 15 * MSS, 10 * MSS, MSS);
    assert_int_equal(prr.delivered, 6 * MSS);
}

static void without_a_recovery_it_only_follows(void **state)
{
    struct us_prr prr;

    us_prr_reset(&prr, 0xfffffff0u);
    assert_int_equal(us_prr_take(&prr, 0xfffffff0u, MSS, 0, MSS, 7 * MSS, MSS), 7 * MSS);
    us_prr_start(&prr, 0xfffffff0u + 5 * MSS);
    assert_int_equal(prr.flight, 4 * MSS); /* one of the five had arrived */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_in_proportion),
        cmocka_unit_test(heavy_loss_conserves_packets),
        cmocka_unit_test(slow_start_while_all_goes_well),
        cmocka_unit_test(first_retransmission_is_immediate),
        cmocka_unit_test(each_recovery_begins_anew),
        cmocka_unit_test(a_loss_by_time_is_within_ssthresh),
        cmocka_unit_test(what_is_delivered_is_sent_below_ssthresh),
        cmocka_unit_test(forgotten_ranges_count_as_nothing),
        cmocka_unit_test(without_a_recovery_it_only_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
