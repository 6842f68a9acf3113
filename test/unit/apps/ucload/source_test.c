/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests are chosen: of a mix, of a trace, for the preload, for each of several servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "request_source.h"

#define KEYS 1000
#define DRAWS 20000
#define SERVERS 3

static struct mix mix;
static struct load_popularity popularity;
static struct source source;
static struct keyspace keys;
static struct routing routing;
static uint64_t ids[PIPELINE_MULTI_MAX];
static enum op op;

static void open_mix(const char *text, uint64_t count)
{
    char error[LOAD_ERROR_MAX];

    memset(&mix, 0, sizeof(mix));
    assert_int_equal(mix_parse(&mix, text, error), 0);
    mix.multi = 1;
    assert_true(load_popularity_parse(&popularity, "uniform", count, 1, error));
    source_init(&source, &mix, &popularity, count);
    source_mix(&source, 7);
}

/* Keys by ketama on SERVERS servers. */
static void open_servers(uint64_t count)
{
    static const struct load_ketama_server servers[SERVERS] = {
        {.host = "a", .port = 1}, {.host = "a", .port = 2}, {.host = "b", .port = 1}};
    char error[ROUTING_ERROR_MAX];

    assert_int_equal(keyspace_open(&keys, count, "8", "8", error), 0);
    assert_int_equal(routing_open(&routing, servers, SERVERS, &keys, 2 * count, error), 0);
    source_route(&source, &routing, SERVERS);
}

static void close_servers(void)
{
    routing_close(&routing);
    keyspace_close(&keys);
}

static void count_ops(unsigned counts[OP_COUNT])
{
    memset(counts, 0, OP_COUNT * sizeof(counts[0]));
    for (unsigned i = 0; i < DRAWS; i++) {
        assert_int_equal(source_next(&source, &op, ids), 1);
        counts[op]++;
        if (op == OP_INCR || op == OP_DECR)
            assert_in_range(ids[0], KEYS, 2 * KEYS - 1);
        else
            assert_in_range(ids[0], 0, KEYS - 1);
    }
}

/* Weights of the same operation add up; a cas is drawn as the gets before it. */
static void test_weights(void **state)
{
    unsigned counts[OP_COUNT];

    (void)state;
    open_mix("get:3,set=2,get:1,incr,decr,cas:2", KEYS);
    assert_true(mix.counts && mix.swaps && !mix.grows && !mix.single);
    count_ops(counts);
    assert_in_range(counts[OP_GET], 7600, 8400); /* 4 of 10; the seed is fixed */
    assert_in_range(counts[OP_SET], 3700, 4300);
    assert_in_range(counts[OP_INCR], 1800, 2200);
    assert_in_range(counts[OP_DECR], 1800, 2200);
    assert_in_range(counts[OP_GETS], 3700, 4300);
    assert_int_equal(counts[OP_CAS], 0);
}

/* One in MIX_RENEW of what makes values longer is a set. */
static void test_values_do_not_grow_for_ever(void **state)
{
    static const char *const texts[] = {"append", "prepend"};
    unsigned counts[OP_COUNT];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_mix(texts[i], KEYS);
        assert_true(mix.grows && !mix.single);
        count_ops(counts);
        assert_in_range(counts[OP_SET], 2300, 2700);
        assert_int_equal(counts[OP_SET] + counts[i == 0 ? OP_APPEND : OP_PREPEND], DRAWS);
    }
}

/* One operation alone, and a mix, drawn many at a time: counters have ids of their own. */
static void test_many(void **state)
{
    static const char *const texts[] = {"decr", "incr", "get,decr"};
    enum op ops[64];

    (void)state;
    for (unsigned t = 0; t < 3; t++) {
        open_mix(texts[t], KEYS);
        assert_true(mix.counts);
        source_next_many(&source, ops, ids, 64);
        for (unsigned i = 0; i < 64; i++) {
            assert_true(ops[i] == (t == 1 ? OP_INCR : OP_DECR) || (t == 2 && ops[i] == OP_GET));
            assert_int_equal(ids[i] >= KEYS, ops[i] != OP_GET);
        }
    }
}

/* Each id once; those of counters are created. */
static void test_preload(void **state)
{
    (void)state;
    open_mix("incr", KEYS);
    source_store(&source, KEYS - 2, KEYS + 2);
    for (uint64_t id = KEYS - 2; id < KEYS + 2; id++) {
        assert_int_equal(source_next(&source, &op, ids), 1);
        assert_int_equal(ids[0], id);
        assert_int_equal(op, id < KEYS ? OP_SET : OP_CREATE);
    }
    assert_int_equal(source_next(&source, &op, ids), 0);
    source_stats(&source, true);
    assert_int_equal(source_next(&source, &op, ids), 1);
    assert_int_equal(op, OP_STATS);
    assert_int_equal(source_next(&source, &op, ids), 0);
    source_stats(&source, false);
    assert_int_equal(source_next(&source, &op, ids), 0);
}

/* ---- traces ------------------------------------------------------------------------------ */

static struct loaded_request requests[] = {
    {0, OP_SET}, {1, OP_GET}, {2, OP_INCR}, {3, OP_TOUCH}, {4, OP_DELETE}};
#define REQUESTS 5
static struct loaded_trace trace = {.requests = requests, .count = REQUESTS, .keys = REQUESTS};

/* The request of the trace that has come. */
static unsigned replayed(void)
{
    unsigned number = (unsigned)(ids[0] % REQUESTS);

    assert_int_equal(op, requests[number].op);
    assert_int_equal(ids[0], number + (op == OP_INCR ? REQUESTS : 0));
    return number;
}

/* Two threads share a trace: once, or again and again, each request of it in each round. */
static void test_replay(void **state)
{
    static const unsigned once[2][3] = {{0, 2, 4}, {1, 3, REQUESTS}};
    unsigned seen;

    (void)state;
    for (unsigned thread = 0; thread < 2; thread++) {
        open_mix("get", REQUESTS);
        source_replay(&source, &trace, thread, 2, false);
        for (unsigned i = 0; i < 3 && once[thread][i] < REQUESTS; i++) {
            assert_int_equal(source_next(&source, &op, ids), 1);
            assert_int_equal(replayed(), once[thread][i]);
        }
        assert_int_equal(source_next(&source, &op, ids), 0);
        source_replay(&source, &trace, thread, 2, true);
        seen = thread;
        for (unsigned i = 0; i < 4 * REQUESTS; i++, seen += 2) {
            assert_int_equal(source_next(&source, &op, ids), 1);
            assert_int_equal(replayed(), seen % REQUESTS);
        }
    }
}

/* ---- several servers --------------------------------------------------------------------- */

static void test_preload_of_servers(void **state)
{
    static uint8_t stored[2 * KEYS];
    unsigned total = 0;

    (void)state;
    open_mix("incr", KEYS);
    open_servers(KEYS);
    for (unsigned round = 0; round < 2; round++) { /* another one begins anew */
        memset(stored, 0, sizeof(stored));
        source_store(&source, 10, 2 * KEYS);
        for (unsigned server = 0; server < SERVERS; server++) {
            assert_false(source_is_done(&source));
            while (source_next_for(&source, server, &op, ids) > 0) {
                assert_int_equal(routing_server(&routing, ids[0]), server);
                assert_int_equal(op, ids[0] < KEYS ? OP_SET : OP_CREATE);
                assert_int_equal(stored[ids[0]]++, 0);
                total++;
            }
        }
        assert_true(source_is_done(&source));
    }
    assert_int_equal(total, 2 * (2 * KEYS - 10));
    close_servers();
}

/* Keys and counters are those of the server, also of one that has few. */
static void test_draws_of_servers(void **state)
{
    (void)state;
    open_mix("get,incr", KEYS);
    mix.multi = 4;
    open_servers(KEYS);
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t n = source_next_for(&source, i % SERVERS, &op, ids);

        assert_int_equal(n, op == OP_GET ? 4 : 1);
        for (unsigned k = 0; k < n; k++) {
            assert_int_equal(routing_server(&routing, ids[k]), i % SERVERS);
            assert_int_equal(ids[k] / KEYS, op == OP_INCR);
        }
    }
    assert_false(source_is_done(&source));
    close_servers();
}

/* A key that is never drawn is found for a server that has no other one. */
static void test_servers_of_unpopular_keys(void **state)
{
    char error[LOAD_ERROR_MAX];
    unsigned owner;

    (void)state;
    open_mix("incr", KEYS);
    open_servers(KEYS);
    assert_true(load_popularity_parse(&popularity, "hot:0.0001:0.9999999", KEYS, 1, error));
    owner = routing_server(&routing, KEYS + load_popularity_draw(&popularity, &source.prng));
    for (unsigned server = 0; server < SERVERS; server++) {
        if (server == owner)
            continue;
        assert_int_equal(source_next_for(&source, server, &op, ids), 1);
        assert_int_equal(routing_server(&routing, ids[0]), server);
        assert_in_range(ids[0], KEYS, 2 * KEYS - 1);
    }
    close_servers();
}

static void test_replay_of_servers(void **state)
{
    unsigned seen = 0;

    (void)state;
    for (unsigned thread = 0; thread < 2; thread++) {
        open_mix("get", REQUESTS);
        source_replay(&source, &trace, thread, 2, false);
        open_servers(KEYS);
        for (unsigned server = 0; server < SERVERS; server++) {
            assert_false(source_is_done(&source));
            while (source_next_for(&source, server, &op, ids) > 0) {
                assert_int_equal(routing_server(&routing, ids[0]), server);
                assert_int_equal(replayed() % 2, thread);
                seen++;
            }
        }
        assert_true(source_is_done(&source));
        close_servers();
    }
    assert_int_equal(seen, REQUESTS);
}

/* Servers of more ids than are known, and servers without a key. */
static void test_routing(void **state)
{
    static const struct load_ketama_server two[2] = {{.host = "a", .port = 1},
                                                     {.host = "b", .port = 1}};
    char error[ROUTING_ERROR_MAX];

    (void)state;
    assert_int_equal(keyspace_open(&keys, 1, "8", "8", error), 0);
    assert_int_equal(routing_open(&routing, two, 2, &keys, 1000, error), -1);
    assert_non_null(strstr(error, "has none of the keys"));
    close_servers();
    assert_int_equal(keyspace_open(&keys, KEYS, "8", "8", error), 0);
    assert_int_equal(routing_open(&routing, two, 2, &keys, KEYS, error), 0);
    for (uint64_t id = 0; id < 2 * KEYS; id++)
        assert_int_equal(routing_server(&routing, id), routing_compute(&routing, id));
    close_servers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_values_do_not_grow_for_ever),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_preload),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_preload_of_servers),
        cmocka_unit_test(test_draws_of_servers),
        cmocka_unit_test(test_servers_of_unpopular_keys),
        cmocka_unit_test(test_replay_of_servers),
        cmocka_unit_test(test_routing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
