/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpredictable numbers, and the distribution of 4-tuples over the connection table. */
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 16384, BUCKETS = 16384, CHAIN_MAX = 10 };

/* Two instances at most, in the same memory. */
static struct us_stack *make(unsigned char secret)
{
    static void *memory[3];
    struct us_config config;
    unsigned long bytes;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    config.mac[0] = 2;
    config.secret[3] = secret;
    config.conn_max = 16;
    config.half_open_max = 16;
    config.time_wait_max = 16;
    config.buffer_bytes = 65536;
    bytes = us_memory_bytes(&config);
    free(memory[secret]);
    memory[secret] = calloc(1, bytes);
    return us_create(&config, memory[secret], bytes, 1000000);
}

static struct us_tcp_key name(u_u32 number)
{
    struct us_tcp_key key;

    memset(&key, 0, sizeof(key));
    key.local_ip = 0x0a000001;
    key.remote_ip = 0x0a000002 + (number >> 12);
    key.local_port = 11211;
    key.remote_port = (u_u16)(1024 + (number & 4095));
    return key;
}

/* 4-tuples of one attacker or one busy proxy: chains stay short. */
static void tuples_are_spread(void **state)
{
    static unsigned char chains[BUCKETS];
    struct us_stack *stack = make(1);
    u_u32 i;

    memset(chains, 0, sizeof(chains));
    for (i = 0; i < NAMES; i++) {
        struct us_tcp_key key = name(i);
        u_u32 bucket = us_tcp_hash(stack, &key) & (BUCKETS - 1);
        assert_true(++chains[bucket] <= CHAIN_MAX);
    }
}

/* 4-tuples that share a bucket under one secret do not under another. */
static void the_hash_is_keyed(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    unsigned together = 0;
    unsigned still = 0;
    u_u32 first = 0;
    u_u32 i;

    for (i = 0; i < NAMES; i++) {
        struct us_tcp_key key = name(i);
        struct us_tcp_key key0 = name(0);
        first = us_tcp_hash(one, &key0) & 63;
        if ((us_tcp_hash(one, &key) & 63) != first)
            continue;
        together++;
        still += (us_tcp_hash(other, &key) & 63) == (us_tcp_hash(other, &key0) & 63);
    }
    assert_true(together > NAMES / 64 / 2);
    assert_true(still < together / 8);
}

/* RFC 6528: F(4-tuple, secret) + M, where M counts 4 us. */
static void initial_numbers_are_a_hash_and_a_clock(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(2);
    u_u32 at_first = us_tcp_isn(one, &a);

    assert_int_not_equal(at_first, us_tcp_isn(one, &b));
    assert_int_not_equal(at_first, us_tcp_isn(other, &a));
    assert_int_equal(at_first, us_tcp_isn(one, &a));
    one->now_us += 4000;
    assert_int_equal((u_u32)(us_tcp_isn(one, &a) - at_first), 1000);
}

static void timestamp_offsets_differ(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(2);

    assert_int_not_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(one, &b));
    assert_int_not_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(other, &a));
    assert_int_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(one, &a));
}

/* RFC 6056: ephemeral, different for each destination, and not one after the other. */
static void ports_are_chosen_apart(void **state)
{
    struct us_stack *stack = make(1);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(5000);
    u_u16 first;

    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_true(us_tcp_port_choose(stack, &b, NULL));
    assert_true(a.local_port >= 0x8000 && b.local_port >= 0x8000);
    assert_int_not_equal(a.local_port, b.local_port);
    first = a.local_port;
    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_int_not_equal(a.local_port, first);
    /* A port with a listener is passed over. */
    first = (u_u16)(a.local_port == 0xffff ? 0x8000 : a.local_port + 1);
    assert_int_equal(us_listen(stack, first, NULL), US_OK);
    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_int_equal(a.local_port, first == 0xffff ? 0x8000 : first + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuples_are_spread),
        cmocka_unit_test(the_hash_is_keyed),
        cmocka_unit_test(initial_numbers_are_a_hash_and_a_clock),
        cmocka_unit_test(timestamp_offsets_differ),
        cmocka_unit_test(ports_are_chosen_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
