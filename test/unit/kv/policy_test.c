/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions of the policies. */
#include "kv_rig.h"

#include "kv/policy.h"

static struct kv_occupancy of(uint32_t small, uint32_t main_, bool roomy)
{
    return (struct kv_occupancy){{[KV_POOL_SMALL] = small, [KV_POOL_MAIN] = main_}, roomy};
}

static void test_names(void **unused)
{
    assert_string_equal(kv_policy_name(KV_POLICY_RANDOM), "random");
    assert_string_equal(kv_policy_name(KV_POLICY_CLOCK), "clock");
    assert_string_equal(kv_policy_name(KV_POLICY_S3FIFO), "s3fifo");
}

static void test_random_lets_nothing_stay(void **unused)
{
    for (unsigned freq = 0; freq <= KV_FREQ_MAX; freq++)
        assert_false(kv_policy_random.decide(KV_POOL_MAIN, freq).stays);
    assert_true(kv_policy_random.random_victim);
    assert_int_equal(kv_policy_random.freq_max, 0); /* so that a GET writes nothing for it */
}

static void test_clock_gives_one_more_turn(void **unused)
{
    struct kv_policy_verdict verdict = kv_policy_clock.decide(KV_POOL_MAIN, 1);
    assert_true(verdict.stays);
    assert_int_equal(verdict.freq, 0);
    assert_int_equal(verdict.pool, KV_POOL_MAIN);
    assert_false(kv_policy_clock.decide(KV_POOL_MAIN, 0).stays);
    assert_int_equal(kv_policy_clock.freq_max, 1);
}

static void test_one_pool_is_main(void **unused)
{
    static const struct kv_policy *const single[] = {&kv_policy_random, &kv_policy_clock};
    for (unsigned i = 0; i < 2; i++) {
        struct kv_occupancy now = of(0, 100, i == 0);
        assert_int_equal(single[i]->place(&now, false), KV_POOL_MAIN);
        assert_int_equal(single[i]->victim_pool(&now), KV_POOL_MAIN);
    }
}

static void test_s3fifo_small_pool(void **unused)
{
    assert_false(kv_policy_s3fifo.decide(KV_POOL_SMALL, 0).stays);
    assert_false(kv_policy_s3fifo.decide(KV_POOL_SMALL, 1).stays);
    assert_true(kv_policy_s3fifo.decide(KV_POOL_SMALL, 2).stays);
    struct kv_policy_verdict verdict = kv_policy_s3fifo.decide(KV_POOL_SMALL, KV_FREQ_MAX);
    assert_true(verdict.stays);
    assert_int_equal(verdict.pool, KV_POOL_MAIN);
}

/* As many turns in the main pool as it was fetched. */
static void test_s3fifo_main_pool(void **unused)
{
    struct kv_policy_verdict verdict = {true, KV_POOL_MAIN, KV_FREQ_MAX};
    for (unsigned turn = 0; turn < KV_FREQ_MAX; turn++) {
        verdict = kv_policy_s3fifo.decide(verdict.pool, verdict.freq);
        assert_true(verdict.stays);
        assert_int_equal(verdict.pool, KV_POOL_MAIN);
    }
    assert_false(kv_policy_s3fifo.decide(verdict.pool, verdict.freq).stays);
}

static void test_s3fifo_keeps_the_small_pool_at_a_tenth(void **unused)
{
    struct kv_occupancy now = of(11, 90, false);
    assert_int_equal(kv_policy_s3fifo.victim_pool(&now), KV_POOL_SMALL);
    now = of(10, 90, false);
    assert_int_equal(kv_policy_s3fifo.victim_pool(&now), KV_POOL_MAIN);
    now = of(0, 0, false);
    assert_int_equal(kv_policy_s3fifo.victim_pool(&now), KV_POOL_MAIN);
}

static void test_s3fifo_places_new_items(void **unused)
{
    struct kv_occupancy full = of(50, 50, false);
    assert_int_equal(kv_policy_s3fifo.place(&full, false), KV_POOL_SMALL);
    assert_int_equal(kv_policy_s3fifo.place(&full, true), KV_POOL_MAIN);
    struct kv_occupancy roomy = of(11, 90, true);
    assert_int_equal(kv_policy_s3fifo.place(&roomy, false), KV_POOL_MAIN);
    roomy = of(10, 90, true);
    assert_int_equal(kv_policy_s3fifo.place(&roomy, false), KV_POOL_SMALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_random_lets_nothing_stay),
        cmocka_unit_test(test_clock_gives_one_more_turn),
        cmocka_unit_test(test_one_pool_is_main),
        cmocka_unit_test(test_s3fifo_small_pool),
        cmocka_unit_test(test_s3fifo_main_pool),
        cmocka_unit_test(test_s3fifo_keeps_the_small_pool_at_a_tenth),
        cmocka_unit_test(test_s3fifo_places_new_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
