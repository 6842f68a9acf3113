/* SPDX-License-Identifier: BSD-3-Clause */
/* Hot keys: the guarantees of Space-Saving, what is sampled, the list. */
#include "cache/hot_keys.h"

#include <stdio.h>

#include "base/prng.h"
#include "cache/latency.h"
#include "rig.h"

#define KEYS 1000
#define ADDS 20000

/*
 * With few keys that are frequent among many: a count is at most its error too high and never too
 * low, and a key with more than 1 / CACHE_HOT_KEYS_MAX of all is in the table.
 */
static void test_space_saving(void **state)
{
    static uint64_t exact[KEYS];
    struct cache_hot_keys *hot = cache_hot_new();
    struct u_prng prng;
    char text[16];

    assert_non_null(hot);
    u_prng_seed(&prng, 1);
    for (unsigned i = 0; i < ADDS; i++) {
        unsigned key =
            u_prng_below(&prng, 2) == 0 ? u_prng_below(&prng, 10) : u_prng_below(&prng, KEYS);

        exact[key]++;
        cache_hot_add(hot, (uint8_t *)text, (uint32_t)snprintf(text, sizeof(text), "%u", key));
    }
    assert_int_equal(hot->count, CACHE_HOT_KEYS_MAX);
    for (unsigned i = 0; i < hot->count; i++) {
        const struct cache_hot_key *entry = &hot->keys[i];
        unsigned key;

        memcpy(text, entry->key, entry->len);
        text[entry->len] = '\0';
        assert_int_equal(sscanf(text, "%u", &key), 1);
        assert_true(entry->samples >= exact[key]);
        assert_true(entry->samples - entry->error <= exact[key]);
        exact[key] = 0;
    }
    for (unsigned key = 0; key < KEYS; key++)
        assert_true(exact[key] <= ADDS / CACHE_HOT_KEYS_MAX);
    cache_hot_free(hot);
}

static void sample(struct rig *rig, const char *request)
{
    rig->worker->hot_is_due = true;
    rig_feed(rig, request);
    cache_latency_record(rig->worker, 1000);
}

/* Complete requests with a key, their first one; also one that is kept over an interrupted line. */
static void test_what_is_sampled(void **state)
{
    struct rig *rig = *state;

    sample(rig, "set other 0 0 1\r\n1\r\n"); /* the protocol is not known yet */
    sample(rig, "set a 0 0 1\r\n1\r\n");
    sample(rig, "get b c\r\n");
    sample(rig, "mg b v\r\n");
    sample(rig, "version\r\n");
    rig->worker->hot_is_due = true;
    rig_feed(rig, "get incomplete");
    rig_feed(rig, "\r\n");
    cache_latency_record(rig->worker, 1000);
    rig_feed(rig, "get not_due\r\n");
    rig_expect(rig, "stats hotkeys\r\n",
               "STAT 1:key b\r\nSTAT 1:requests 2048\r\nSTAT 1:error 0\r\n"
               "STAT 2:key a\r\nSTAT 2:requests 1024\r\nSTAT 2:error 0\r\nEND\r\n");
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    rig_expect(rig, "stats hotkeys\r\n", "END\r\n");
}

/* One of 1024 requests on average. */
static void test_how_often(void **state)
{
    enum { REQUESTS = 200 * 1024 };
    struct rig *rig = *state;
    unsigned samples = 0;

    for (unsigned i = 0; i < REQUESTS; i++) {
        cache_latency_add(rig->worker, MC_CMD_GET);
        cache_latency_record(rig->worker, 1000);
        samples += rig->worker->hot_is_due;
        rig->worker->hot_is_due = false;
    }
    assert_in_range(samples, 160, 240);
}

/* All requests of a turn count, not the turn. */
static void test_a_turn_of_many_requests(void **state)
{
    struct rig *rig = *state;

    for (unsigned turn = 0; turn < 5; turn++) {
        for (unsigned i = 0; i < 2 * CACHE_HOT_SAMPLE + 1; i++)
            cache_latency_add(rig->worker, MC_CMD_GET);
        rig->worker->hot_is_due = false;
        cache_latency_record(rig->worker, 1000);
        assert_true(rig->worker->hot_is_due);
    }
}

/*
 * Tables of several workers are added up, counts and errors; keys of as many samples are in order,
 * and shown without what would break a line.
 */
static void test_list(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *other = cache_join(rig->cache);

    assert_non_null(other);
    for (unsigned i = 0; i < 3; i++) {
        cache_hot_add(rig->worker->hot, (const uint8_t *)"x:1", 3);
        cache_hot_add(other->hot, (const uint8_t *)"x:1", 3);
        cache_hot_add(other->hot, (const uint8_t *)"\r\n %\0", 5);
        cache_hot_add(rig->worker->hot, (const uint8_t *)"a", 1);
    }
    rig->worker->hot->keys[0].error = 1;
    other->hot->keys[0].error = 2;
    rig_expect(rig, "stats hotkeys\r\n",
               "STAT 1:key x:1\r\nSTAT 1:requests 6144\r\nSTAT 1:error 3072\r\n"
               "STAT 2:key %0D%0A%20%25%00\r\nSTAT 2:requests 3072\r\nSTAT 2:error 0\r\n"
               "STAT 3:key a\r\nSTAT 3:requests 3072\r\nSTAT 3:error 0\r\nEND\r\n");
    cache_leave(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space_saving),
        cmocka_unit_test_setup_teardown(test_what_is_sampled, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_how_often, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_turn_of_many_requests, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_list, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
