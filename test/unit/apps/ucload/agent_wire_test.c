/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of agents: what is sent arrives, and no other bytes are taken for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent_wire.h"
#include "base/prng.h"

static struct result sent, got, both;
static uint8_t *payload;

static int setup(void **state)
{
    (void)state;
    payload = malloc(WIRE_ANSWER_MAX);
    return payload ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(payload);
    return 0;
}

static void fill(struct result *result)
{
    result_clear(result);
    result->tally.requests = 3;
    result->tally.ops[OP_CAS] = 2;
    result->tally.exists = 1;
    result->tally.unanswered = UINT64_MAX;
    result->seconds = 1.5;
    result->offered = 100;
    result->cpu_s = 0.25;
    result->hiccups.worst_ns = 7;
    snprintf(result->example, sizeof(result->example), "refused: get");
    load_histogram_count(&result->by_op[OP_GET], 1000);
    load_histogram_count(&result->by_op[OP_CAS], 5);
    load_histogram_count(&result->by_op[OP_CAS], LOAD_HISTOGRAM_VALUE_MAX);
}

static void test_a_result(void **state)
{
    uint32_t len;

    (void)state;
    fill(&sent);
    len = wire_put_result(payload, &sent);
    assert_int_equal(wire_get_result(payload, len, &got), 0);
    assert_memory_equal(&got, &sent, sizeof(got));
    result_clear(&both);
    result_add(&both, &got);
    result_add(&both, &got);
    result_complete(&both);
    assert_int_equal(both.tally.requests, 6);
    assert_int_equal(both.latency.total, 6);
    assert_int_equal(both.by_op[OP_CAS].total, 4);
    assert_int_equal(load_histogram_percentile(&both.latency, 30), 5);
    assert_int_equal(both.latency.max, LOAD_HISTOGRAM_VALUE_MAX);
    assert_true(both.seconds > 1.4 && both.seconds < 1.6);
    assert_true(both.offered > 199 && both.offered < 201);
    assert_int_equal(both.hiccups.count, 2 * sent.hiccups.count);
    assert_int_equal(both.hiccups.longest_ns, sent.hiccups.longest_ns);
    assert_int_equal(both.hiccups.worst_ns, sent.hiccups.worst_ns);
    assert_string_equal(both.example, "refused: get");
}

/* Cut at every length, and with bytes changed at random: refused or read, within bounds. */
static void test_results_of_strangers(void **state)
{
    struct u_prng prng;
    uint32_t len, i;

    (void)state;
    fill(&sent);
    len = wire_put_result(payload, &sent);
    for (i = 0; i < len; i++) {
        uint8_t *part = malloc(i + 1);

        memcpy(part, payload, i);
        assert_int_equal(wire_get_result(part, i, &got), -1);
        free(part);
    }
    assert_int_equal(wire_get_result(payload, len + 1, &got), -1);
    u_prng_seed(&prng, 1);
    for (i = 0; i < 2000; i++) {
        uint32_t at = (uint32_t)(u_prng_next(&prng) % len);
        uint8_t before = payload[at];

        payload[at] = (uint8_t)u_prng_next(&prng);
        if (wire_get_result(payload, len, &got) == 0) {
            for (unsigned op = 0; op < OP_COUNT; op++)
                (void)load_histogram_percentile(&got.by_op[op], 99);
        }
        payload[at] = before;
    }
}

static void test_open(void **state)
{
    struct wire_open open = {.index = 1, .agents = 2, .connections = 3, .idle = 4, .argc = 2};
    char ucload[] = "ucload", depth[] = "-d16";
    static char word[WIRE_REQUEST_MAX];
    static struct wire_open read;
    uint32_t len, i;

    (void)state;
    open.argv[0] = ucload;
    open.argv[1] = depth;
    len = wire_put_open(payload, &open);
    assert_int_equal(len, 16 + 7 + 5);
    assert_int_equal(wire_get_open(payload, len, &read), 0);
    assert_int_equal(read.connections, 3);
    assert_int_equal(read.argc, 2);
    assert_string_equal(read.argv[1], "-d16");
    assert_null(read.argv[2]);
    for (i = 0; i < len; i++) {
        if (i != 16 + 7)
            assert_int_equal(wire_get_open(payload, i, &read), -1);
    }
    memset(payload + 16, 0, WIRE_WORDS_MAX + 1);
    assert_int_equal(wire_get_open(payload, 16 + WIRE_WORDS_MAX, &read), 0);
    assert_int_equal(wire_get_open(payload, 16 + WIRE_WORDS_MAX + 1, &read), -1);
    memset(word, 'x', sizeof(word) - 1);
    open.argv[1] = word;
    assert_int_equal(wire_put_open(payload, &open), 0);
}

static void test_small_frames(void **state)
{
    const struct wire_measure measure = {
        .rate = 5, .seconds = 2, .warmup_s = 1, .requests = 9, .salt = 8};
    struct wire_measure read;
    enum wire_kind kind;
    char text[WIRE_TEXT_MAX];
    uint32_t version, len;
    uint64_t answered;
    bool misused;

    (void)state;
    assert_int_equal(wire_get_hello(payload, wire_put_hello(payload), &version), 0);
    assert_int_equal(version, WIRE_VERSION);
    payload[0] ^= 1;
    assert_int_equal(wire_get_hello(payload, WIRE_HELLO_BYTES, &version), -1);
    assert_int_equal(wire_get_measure(payload, wire_put_measure(payload, &measure), &read), 0);
    assert_memory_equal(&read, &measure, sizeof(read));
    memset(payload, 0xff, 8); /* not a number */
    assert_int_equal(wire_get_measure(payload, WIRE_MEASURE_BYTES, &read), -1);
    assert_int_equal(wire_get_tick(payload, wire_put_tick(payload, 77), &answered), 0);
    assert_int_equal(answered, 77);
    len = wire_put_failed(payload, true, "no \x1b[1m");
    assert_int_equal(wire_get_failed(payload, len, &misused, text), 0);
    assert_true(misused);
    assert_string_equal(text, "no .[1m");
    assert_int_equal(wire_get_failed(payload, 0, &misused, text), -1);
    wire_put_head(payload, WIRE_TICK, 100);
    assert_int_equal(wire_get_head(payload, 100, &kind, &len), 0);
    assert_int_equal(kind, WIRE_TICK);
    assert_int_equal(len, 100);
    assert_int_equal(wire_get_head(payload, 99, &kind, &len), -1);
    payload[4] = 0;
    assert_int_equal(wire_get_head(payload, 100, &kind, &len), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_result),
        cmocka_unit_test(test_results_of_strangers),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_small_frames),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
