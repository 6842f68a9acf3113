/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 6298 by its numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ustack/tcp/tcp_rtt.h"

static void first_sample_sets_everything(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 1000000);
    us_rtt_sample(&rtt, 10000);
    assert_int_equal(rtt.srtt8_us >> 3, 10000);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 10000 + 4 * 5000);
}

static void smooths_by_the_rfc(void **state)
{
    struct us_tcp_rtt rtt;
    int i;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    us_rtt_sample(&rtt, 8000);
    us_rtt_sample(&rtt, 16000); /* SRTT 9000; RTTVAR 3/4 * 4000 + 1/4 * 8000 = 5000 */
    assert_int_equal(rtt.srtt8_us >> 3, 9000);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 9000 + 4 * 5000);
    for (i = 0; i < 200; i++)
        us_rtt_sample(&rtt, 5000);
    assert_in_range(rtt.srtt8_us >> 3, 4990, 5010);
    assert_in_range(us_rtt_rto_us(&rtt, 0, 60000000), 5000, 5100);
}

static void bounds_hold(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 200000, 60000000);
    us_rtt_sample(&rtt, 50);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 200000);
    us_rtt_sample(&rtt, 0);
    us_rtt_sample(&rtt, 0xffffffffu);
    us_rtt_sample(&rtt, 0xffffffffu);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 60000000);
}

static void backs_off_until_the_next_sample(void **state)
{
    struct us_tcp_rtt rtt;
    int i;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    for (i = 0; i < 5; i++)
        us_rtt_backoff(&rtt);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 32000000);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 4000000), 4000000);
    assert_int_equal(us_rtt_backoff_us(5000000, 5, 4000000), 5000000); /* already above the limit */
    for (i = 0; i < 300; i++) {
        us_rtt_backoff(&rtt);
        assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 60000000);
    }
    us_rtt_sample(&rtt, 100);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 1000);
}

static void rto_allows_for_a_round_trip_and_the_ack_delay(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 5000, 60000000);
    us_rtt_sample(&rtt, 100);
    assert_int_equal(us_rtt_rto_us(&rtt, 0, 60000000), 5000);
    assert_int_equal(us_rtt_rto_us(&rtt, 50000, 60000000), 50100);
    us_rtt_backoff(&rtt);
    assert_int_equal(us_rtt_rto_us(&rtt, 50000, 60000000), 100200);
    assert_int_equal(us_rtt_rto_us(&rtt, 0xf0000000u, 60000000), 60000000);
}

/* Round trips that no timer can tell apart: once they are settled a sample changes nothing. */
static void short_samples_settle(void **state)
{
    struct us_tcp_rtt rtt;
    struct us_tcp_rtt before;
    u_u32 sample_us;
    int i;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    us_rtt_sample(&rtt, 3000);
    for (i = 0; i < 1000 && !rtt.settled; i++)
        us_rtt_sample(&rtt, (u_u64)i % 60);
    assert_true(rtt.settled);
    assert_int_equal(rtt.srtt8_us >> 3, US_RTT_MIN_US);
    before = rtt;
    for (sample_us = 0; sample_us <= US_RTT_MIN_US; sample_us++) {
        assert_true(us_rtt_is_converged(&rtt, sample_us));
        us_rtt_sample(&rtt, sample_us);
        assert_memory_equal(&rtt, &before, U_OFFSET_OF(struct us_tcp_rtt, settled) + 1);
    }
    assert_false(us_rtt_is_converged(&rtt, US_RTT_MIN_US + 1));
    us_rtt_sample(&rtt, 1000);
    assert_false(us_rtt_is_converged(&rtt, 1));
    us_rtt_init(&before, 1000000, 1000, 60000000); /* nothing of what was there before */
    assert_false(us_rtt_is_converged(&before, 1));
}

/* The RTO is within its bounds before the first sample, after it, and when it is continued. */
static void the_rto_is_bounded(void **state)
{
    struct us_tcp_rtt rtt;
    int i;

    us_rtt_init(&rtt, 1000000, 1, 400000);
    assert_int_equal(rtt.rto_us, 400000);
    us_rtt_init(&rtt, 10000, 1, 400000);
    assert_int_equal(us_rtt_rto_us(&rtt, 50000, 400000),
                     10000); /* without a round trip to add to */
    us_rtt_sample(&rtt, 300000);
    assert_int_equal(rtt.rto_us, 400000);
    us_rtt_init(&rtt, 1000000, 1, 400000);
    us_rtt_restore(&rtt, 8 * 20000, 4 * 3000, 20000);
    assert_int_equal(rtt.rto_us, 20000 + 4 * 3000);
    for (i = 0; i < 200; i++)
        us_rtt_sample(&rtt, 20000);
    assert_in_range(rtt.rto_us, 20001, 20010); /* (2.3): at least a tick of the clock more */
    us_rtt_restore(&rtt, 8 * 20000, 0, 20000);
    assert_int_equal(rtt.rto_us, 20001);
    (void)state;
}

/* RFC 8985 7.2, and twice the variation where that is more; never after the RTO. */
static void probes_allow_for_variation(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    us_rtt_sample(&rtt, 8000);
    assert_int_equal(us_rtt_pto_us(&rtt, 0, 60000000), 16000);
    us_rtt_sample(&rtt, 24000); /* SRTT 10000, RTTVAR 7000 */
    assert_int_equal(us_rtt_pto_us(&rtt, 0, 60000000), 10000 + 2 * 7000);
    assert_int_equal(us_rtt_pto_us(&rtt, 500, 60000000), 10000 + 2 * 7000 + 500);
    assert_int_equal(us_rtt_pto_us(&rtt, 500, 20000), 20000);
    (void)state;
}

/* A sample of more than 32 bits is a long one. */
static void long_samples_are_cut(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    us_rtt_sample(&rtt, (u_u64)1 << 32 | 5);
    assert_int_equal(rtt.srtt8_us >> 3, US_RTT_SAMPLE_MAX_US);
    (void)state;
}

/* A longer path is followed by a 64th of the difference with each sample. */
static void the_shortest_round_trip_ages(void **state)
{
    struct us_tcp_rtt rtt;

    us_rtt_init(&rtt, 1000000, 1000, 60000000);
    us_rtt_sample(&rtt, 6400);
    us_rtt_sample(&rtt, 12800);
    assert_int_equal(rtt.min_rtt_us, 6500);
    us_rtt_sample(&rtt, 6499);
    assert_int_equal(rtt.min_rtt_us, 6499);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_sample_sets_everything),
        cmocka_unit_test(smooths_by_the_rfc),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(backs_off_until_the_next_sample),
        cmocka_unit_test(rto_allows_for_a_round_trip_and_the_ack_delay),
        cmocka_unit_test(short_samples_settle),
        cmocka_unit_test(the_rto_is_bounded),
        cmocka_unit_test(probes_allow_for_variation),
        cmocka_unit_test(long_samples_are_cut),
        cmocka_unit_test(the_shortest_round_trip_ages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
