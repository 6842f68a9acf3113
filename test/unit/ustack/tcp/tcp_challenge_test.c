/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of challenge ACKs: a token bucket per connection, a varying number per instance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp.h"

/* How many of n challenge ACKs are permitted now. */
static unsigned answered(struct raw *raw, unsigned n)
{
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        raw_segment(raw, US_TCP_RST, 1101, 0, 0, NULL, 0);
        while (raw_frame(raw) != NULL)
            count++;
    }
    return count;
}

static void bucket_of_a_connection_refills(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    assert_int_equal(answered(raw, 30), 10);
    raw_pump(raw, 500000);
    assert_int_equal(answered(raw, 3), 0);
    raw_pump(raw, 30000);
    assert_int_equal(answered(raw, 3), 1);
    raw_pump(raw, 1600000);
    assert_int_equal(answered(raw, 6), 3);
    raw_pump(raw, 3600u * 1000 * 1000);
    assert_int_equal(answered(raw, 30), 10);
}

static void limit_of_the_instance_varies(void **state)
{
    struct raw *raw = *state;
    unsigned seen[1001];
    unsigned second;
    unsigned different = 0;

    memset(seen, 0, sizeof(seen));
    for (second = 0; second < 100; second++) {
        unsigned n = 0;
        raw->stack->now_us += 1000000;
        while (us_tcp_challenge_allowed(raw->stack))
            n++;
        assert_in_range(n, 500, 1000);
        different += seen[n]++ == 0;
    }
    assert_true(different > 50);
}

/* At time 0 the full number of challenge ACKs is available. */
static void the_first_second_has_a_limit_too(void **state)
{
    struct us_config config;
    struct us_stack *stack;
    unsigned long bytes;
    void *memory;
    unsigned i;

    pair_config(&config, 0);
    config.challenge_acks_max = 7;
    bytes = us_memory_bytes(&config);
    memory = calloc(1, bytes);
    stack = us_create(&config, memory, bytes, 0);
    assert_non_null(stack);
    for (i = 0; i < 7; i++)
        assert_true(us_tcp_challenge_allowed(stack));
    us_now(stack, 999999);
    assert_false(us_tcp_challenge_allowed(stack));
    us_now(stack, 1000000);
    assert_true(us_tcp_challenge_allowed(stack));
    free(memory);
    (void)state;
}

static void no_challenge_acks_at_all(void **state)
{
    struct raw *raw = *state;
    u_u32 snd;

    raw_accept(raw, &snd);
    raw->stack->config.challenge_acks_max = 0;
    raw_pump(raw, 1000000);
    assert_int_equal(answered(raw, 5), 0);
    assert_int_equal(raw_counter(raw, "tcp_challenge_limited"), 5);
    assert_int_equal(raw_counter(raw, "conns_open"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bucket_of_a_connection_refills, raw_setup, raw_teardown),
        cmocka_unit_test_setup_teardown(limit_of_the_instance_varies, raw_setup, raw_teardown),
        cmocka_unit_test(the_first_second_has_a_limit_too),
        cmocka_unit_test_setup_teardown(no_challenge_acks_at_all, raw_setup, raw_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
