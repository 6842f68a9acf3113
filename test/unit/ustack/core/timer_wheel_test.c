/* SPDX-License-Identifier: BSD-3-Clause */
/* The timing wheel against a list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "ustack/core/timer_wheel.h"

enum { TIMERS = 200 };

static void never_early_never_late(void **state)
{
    static struct us_wheel wheel;
    static struct us_timer timers[TIMERS];
    u_u64 due[TIMERS];
    struct u_prng prng;
    u_u64 now = (u_u64)0xfffffff0u; /* ticks cross many boundaries */
    int round;
    int i;

    u_prng_seed(&prng, 7);
    us_wheel_init(&wheel, now);
    for (i = 0; i < TIMERS; i++) {
        us_timer_init(&timers[i], 0);
        due[i] = ~(u_u64)0;
    }
    for (round = 0; round < 20000; round++) {
        unsigned budget = 10000;
        u_u64 earliest = ~(u_u64)0;
        struct us_timer *timer;

        for (i = 0; i < 3; i++) {
            unsigned n = u_prng_below(&prng, TIMERS);
            if (u_prng_below(&prng, 4) == 0) {
                us_timer_stop(&wheel, &timers[n]);
                due[n] = ~(u_u64)0;
            } else {
                due[n] = now + (u_prng_next(&prng) >> (30 + u_prng_below(&prng, 34)));
                us_timer_set(&wheel, &timers[n], due[n]);
            }
        }
        for (i = 0; i < TIMERS; i++)
            if (due[i] < earliest)
                earliest = due[i];
        assert_true(wheel.next_us <= earliest);
        if (u_prng_below(&prng, 2) == 0)
            now += u_prng_below(&prng, 5000);
        else if (wheel.next_us != ~(u_u64)0 && wheel.next_us > now)
            now = wheel.next_us;
        /* A loop asks first whether to look at all. */
        if (u_prng_below(&prng, 2) == 0 && !us_wheel_is_due(&wheel, now))
            budget = 0;
        while (budget > 0 && (timer = us_wheel_take(&wheel, now, &budget)) != NULL) {
            i = (int)(timer - timers);
            assert_true(due[i] <= now);
            assert_false(us_timer_is_set(timer));
            due[i] = ~(u_u64)0;
        }
        for (i = 0; i < TIMERS; i++)
            assert_true(due[i] > now);
        assert_true(wheel.next_us > now);
    }
}

/* Sleeping until next_us again and again comes to the timer in few steps. */
static void does_not_spin(void **state)
{
    static const u_u64 after[] = {1, 63, 64, 100, 5000, 200000, 1000000, 60000000, 4000000000u};
    static struct us_wheel wheel;
    struct us_timer timer;
    unsigned i;

    for (i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        u_u64 now = 123456789;
        unsigned budget = 1000;
        int steps = 0;

        us_wheel_init(&wheel, now);
        us_timer_init(&timer, 3);
        us_timer_set(&wheel, &timer, now + after[i]);
        while (us_wheel_take(&wheel, now, &budget) == NULL) {
            assert_true(wheel.next_us > now);
            now = wheel.next_us;
            assert_true(++steps <= US_WHEEL_LEVELS + 1);
        }
        assert_true(now == 123456789 + after[i]);
        assert_int_equal(timer.kind, 3);
    }
}

/* A timer that is set for a time in the past expires at once. */
static void the_past_is_now(void **state)
{
    static const u_u64 before[] = {0, 1, 100, 5000, 200000, 60000000};
    static struct us_wheel wheel;
    struct us_timer timer;
    unsigned i;

    for (i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        u_u64 now = 123456789;
        unsigned budget = 1000;

        us_wheel_init(&wheel, now);
        us_timer_init(&timer, 0);
        us_timer_set(&wheel, &timer, now - before[i]);
        assert_true(us_wheel_is_due(&wheel, now));
        assert_ptr_equal(us_wheel_take(&wheel, now, &budget), &timer);
        assert_null(us_wheel_take(&wheel, now, &budget));
    }
    (void)state;
}

static void work_is_bounded(void **state)
{
    static struct us_wheel wheel;
    static struct us_timer timers[TIMERS];
    unsigned budget;
    int taken = 0;
    int calls = 0;
    int i;

    us_wheel_init(&wheel, 0);
    for (i = 0; i < TIMERS; i++) {
        us_timer_init(&timers[i], 0);
        us_timer_set(&wheel, &timers[i], 1000000 + (u_u64)i);
    }
    while (taken < TIMERS) {
        budget = 10;
        while (us_wheel_take(&wheel, 2000000, &budget) != NULL)
            taken++;
        assert_true(taken == TIMERS || wheel.next_us <= 2000000);
        assert_true(++calls < 1000);
    }
    assert_true(calls >= TIMERS / 10);
}

/* So is the work of moving timers to a lower level: each one counts. */
static void cascades_are_bounded(void **state)
{
    static struct us_wheel wheel;
    static struct us_timer timers[TIMERS];
    unsigned budget;
    u_u64 now;
    int calls = 0;
    int i;

    us_wheel_init(&wheel, 0);
    for (i = 0; i < TIMERS; i++) {
        us_timer_init(&timers[i], 0);
        us_timer_set(&wheel, &timers[i], 1000000 + (u_u64)i);
    }
    now = wheel.next_us;
    assert_true(now < 1000000);
    do {
        budget = 10;
        assert_null(us_wheel_take(&wheel, now, &budget));
        assert_true(++calls <= TIMERS / 10 + 1);
    } while (wheel.next_us <= now);
    assert_true(calls >= TIMERS / 10);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_early_never_late), cmocka_unit_test(does_not_spin),
        cmocka_unit_test(the_past_is_now),        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(cascades_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
