/* SPDX-License-Identifier: BSD-3-Clause */
/* Ghosts: capacity, order of replacement, and false positives. */
#include "kv_rig.h"

#include "base/prng.h"
#include "kv/ghost.h"

#define SETS 64

static _Alignas(U_CACHE_LINE_BYTES) kv_atomic_u64 words[SETS * KV_GHOST_SET_BYTES / 8];
static struct kv_ghost ghost;

static int setup(void **unused)
{
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        kv_u64_store_relaxed(&words[i], 0);
    kv_ghost_init(&ghost, words, SETS);
    return 0;
}

static uint64_t hash_of(uint64_t number)
{
    struct u_prng prng;
    u_prng_seed(&prng, number);
    return u_prng_next(&prng);
}

static void remember(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        kv_ghost_remember(&ghost, hash_of(i));
}

static unsigned recalled(unsigned from, unsigned to)
{
    unsigned count = 0;
    for (unsigned i = from; i < to; i++)
        count += kv_ghost_recall(&ghost, hash_of(i));
    return count;
}

static void test_empty_table_knows_nothing(void **unused)
{
    assert_int_equal(recalled(0, 1000), 0);
    assert_false(kv_ghost_recall(&ghost, 0)); /* also not what looks like an empty lane */
}

static void test_recall_is_once(void **unused)
{
    kv_ghost_remember(&ghost, hash_of(1));
    kv_ghost_remember(&ghost, hash_of(2));
    assert_true(kv_ghost_recall(&ghost, hash_of(1)));
    assert_false(kv_ghost_recall(&ghost, hash_of(1)));
    assert_true(kv_ghost_recall(&ghost, hash_of(2)));
}

static void test_zero_hash_is_remembered(void **unused)
{
    kv_ghost_remember(&ghost, 0);
    assert_true(kv_ghost_recall(&ghost, 0));
}

/* The number of the lane to replace next, beside the lanes, is no key's fingerprint. */
static void test_number_of_a_lane_is_no_key(void **unused)
{
    for (uint64_t lane = 1; lane <= KV_GHOST_SET_KEYS; lane++) {
        kv_ghost_remember(&ghost, UINT64_C(0xffff) << 48);
        assert_false(kv_ghost_recall(&ghost, lane << 48));
    }
}

/* One set: exactly the last 31, whatever lane they are in. */
static void test_set_forgets_first_in_first_out(void **unused)
{
    for (unsigned count = 1; count < 200; count++) {
        setup(NULL);
        remember(0, count);
        unsigned from = count > KV_GHOST_SET_KEYS ? count - KV_GHOST_SET_KEYS : 0;
        assert_int_equal(recalled(0, from), 0);
        assert_int_equal(recalled(from, count), count - from);
    }
}

static void test_fit_follows_the_number_of_keys(void **unused)
{
    static const struct {
        unsigned keys, mask;
    } steps[] = {{0, 0},       {31, 0},       {61, 0},
                 {62, 1},      {31 * 16, 15}, {31 * 17, 15},
                 {31 * 8, 15}, {31 * 4, 3},   {1000000, SETS - 1},
                 {0, 0}};
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        kv_ghost_fit(&ghost, steps[i].keys);
        assert_int_equal(kv_u32_load_relaxed(&ghost.set_mask), steps[i].mask);
    }
}

static void test_full_table_keeps_most_of_as_many_keys_as_it_has_lanes(void **unused)
{
    const unsigned lanes = SETS * KV_GHOST_SET_KEYS;
    kv_ghost_fit(&ghost, lanes);
    remember(0, 100000);
    unsigned kept = recalled(100000 - lanes, 100000);
    assert_true(kept > lanes * 80 / 100);
    assert_true(recalled(0, 100000 - 4 * lanes) < 100000 / 1000); /* all of them wrong */
}

static void test_wrong_yes_is_rare(void **unused)
{
    kv_ghost_fit(&ghost, SETS * KV_GHOST_SET_KEYS);
    remember(0, 100000);
    unsigned wrong = recalled(200000, 300000);
    assert_true(wrong < 100000 / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_empty_table_knows_nothing, setup),
        cmocka_unit_test_setup(test_recall_is_once, setup),
        cmocka_unit_test_setup(test_zero_hash_is_remembered, setup),
        cmocka_unit_test_setup(test_number_of_a_lane_is_no_key, setup),
        cmocka_unit_test_setup(test_set_forgets_first_in_first_out, setup),
        cmocka_unit_test_setup(test_fit_follows_the_number_of_keys, setup),
        cmocka_unit_test_setup(test_full_table_keeps_most_of_as_many_keys_as_it_has_lanes, setup),
        cmocka_unit_test_setup(test_wrong_yes_is_rare, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
