/* SPDX-License-Identifier: BSD-3-Clause */
/* States of segments: each transition of segment.h, and the transitions that must not happen. */
#include "kv_rig.h"

#include "kv/segment.h"

#define COUNT 6
#define SHIFT 13

struct rig {
    struct kv_epoch epoch;
    struct kv_epoch_member members[2];
    struct kv_segment headers[COUNT];
    struct kv_segments segments;
    uint32_t seen[COUNT];
    struct kv_segment_reader reader;
};

static struct rig rig;
static _Alignas(U_CACHE_LINE_BYTES) uint8_t memory[COUNT << SHIFT];

static const struct kv_victim_search any = {KV_POOL_MAIN, COUNT, COUNT, 0, 0, 0};

static int setup(void **unused)
{
    memset(&rig, 0, sizeof(rig));
    kv_epoch_init(&rig.epoch, rig.members, 2);
    kv_epoch_online(&rig.epoch, &rig.members[0]);
    kv_segments_init(&rig.segments, memory, rig.headers, COUNT, SHIFT, &rig.epoch);
    rig.reader = (struct kv_segment_reader){&rig.members[0], rig.seen, 1};
    return 0;
}

static uint32_t open_one(void)
{
    uint32_t index = kv_segment_take(&rig.segments, 0);
    assert_int_not_equal(index, KV_SEGMENT_NONE);
    return index;
}

/* A sealed segment with so many live bytes. */
static uint32_t sealed_one(uint32_t live_bytes)
{
    uint32_t index = open_one();
    kv_segment_add(&rig.segments, index, live_bytes);
    rig.headers[index].used = 1 << SHIFT;
    kv_segment_note_exptime(&rig.segments, index, 0);
    kv_segment_seal(&rig.segments, index);
    return index;
}

static enum kv_segment_state state(uint32_t index)
{
    return (enum kv_segment_state)kv_u8_load_seq_cst(&rig.headers[index].state);
}

static void test_take_leaves_the_floor(void **unused)
{
    for (unsigned i = 0; i < COUNT - 2; i++)
        assert_int_not_equal(kv_segment_take(&rig.segments, 2), KV_SEGMENT_NONE);
    assert_int_equal(kv_segment_take(&rig.segments, 2), KV_SEGMENT_NONE);
    open_one();
    open_one();
    assert_int_equal(kv_segment_take(&rig.segments, 0), KV_SEGMENT_NONE);
}

static void test_empty_segment_is_retired_when_sealed(void **unused)
{
    uint32_t index = open_one();
    kv_segment_seal(&rig.segments, index);
    assert_int_equal(state(index), KV_SEGMENT_RETIRED);
}

static void test_open_segment_is_not_retired(void **unused)
{
    uint32_t index = open_one();
    kv_segment_add(&rig.segments, index, 100);
    kv_segment_subtract(&rig.segments, index, 100);
    assert_int_equal(state(index), KV_SEGMENT_OPEN);
}

static void test_last_live_byte_retires(void **unused)
{
    uint32_t index = sealed_one(100);
    kv_segment_subtract(&rig.segments, index, 60);
    assert_int_equal(state(index), KV_SEGMENT_SEALED);
    kv_segment_subtract(&rig.segments, index, 40);
    assert_int_equal(state(index), KV_SEGMENT_RETIRED);
}

static void test_hold_keeps_from_retiring(void **unused)
{
    uint32_t index = sealed_one(100);
    kv_segment_add(&rig.segments, index, KV_SEGMENT_HOLD);
    kv_segment_subtract(&rig.segments, index, 100);
    assert_int_equal(state(index), KV_SEGMENT_SEALED);
    kv_segment_subtract(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_int_equal(state(index), KV_SEGMENT_RETIRED);
}

static void test_own_views_delay_the_reuse(void **unused)
{
    uint32_t index = sealed_one(8);
    rig.seen[index] = 1;
    kv_segment_subtract(&rig.segments, index, 8);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 0);
    rig.reader.view_version++;
    kv_epoch_announce(&rig.epoch, &rig.members[0]);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 1);
    assert_int_equal(state(index), KV_SEGMENT_FREE);
}

static void test_what_was_not_looked_at_is_reused_at_once(void **unused)
{
    uint32_t index = sealed_one(8);
    kv_segment_subtract(&rig.segments, index, 8);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 1);
    assert_int_equal(state(index), KV_SEGMENT_FREE);
}

static void test_others_delay_the_reuse(void **unused)
{
    kv_epoch_online(&rig.epoch, &rig.members[1]);
    uint32_t index = sealed_one(8);
    kv_segment_subtract(&rig.segments, index, 8);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 0);
    kv_epoch_announce(&rig.epoch, &rig.members[1]);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 1);
}

static void test_pin_after_retirement_parks(void **unused)
{
    uint32_t index = sealed_one(8);
    kv_segment_subtract(&rig.segments, index, 8);
    kv_segment_add(&rig.segments, index, 2 * KV_SEGMENT_HOLD);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 1);
    assert_int_equal(state(index), KV_SEGMENT_PARKED);
    kv_segment_subtract(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_int_equal(state(index), KV_SEGMENT_PARKED);
    kv_segment_subtract(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_int_equal(state(index), KV_SEGMENT_FREE);
}

static void test_victim_has_fewest_live_bytes(void **unused)
{
    sealed_one(6000);
    uint32_t best = sealed_one(2000);
    sealed_one(4000);
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &any), best);
}

static void test_small_differences_do_not_count(void **unused)
{
    uint32_t oldest = sealed_one(2100);
    uint32_t younger = sealed_one(2000);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, COUNT, 0, 100, 0};
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), oldest);
    kv_segment_unclaim(&rig.segments, oldest);
    wish.slack_bytes = 99;
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), younger);
}

static void test_victim_is_among_the_oldest(void **unused)
{
    sealed_one(5000);
    uint32_t second = sealed_one(3000);
    sealed_one(1);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, 2, 0, 0, 0};
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), second);
}

static void test_victim_that_has_expired_comes_first(void **unused)
{
    sealed_one(1);
    uint32_t expired = open_one();
    kv_segment_add(&rig.segments, expired, 5000);
    kv_segment_note_exptime(&rig.segments, expired, 7);
    kv_segment_seal(&rig.segments, expired);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, COUNT, 0, 0, 7};
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), expired);
}

static void test_victim_is_not_held_and_not_claimed(void **unused)
{
    uint32_t held = sealed_one(1);
    uint32_t claimed = sealed_one(2);
    kv_segment_add(&rig.segments, held, KV_SEGMENT_HOLD);
    assert_true(kv_segment_claim(&rig.segments, claimed));
    assert_false(kv_segment_claim(&rig.segments, claimed));
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &any), KV_SEGMENT_NONE);
    kv_segment_unclaim(&rig.segments, claimed);
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &any), claimed);
    assert_int_equal(rig.segments.sealed[KV_POOL_MAIN].head,
                     claimed); /* the held one went to the young end */
}

static void test_victim_with_enough_dead_bytes(void **unused)
{
    sealed_one((1 << SHIFT) - 10);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, COUNT, 11, 0, 0};
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), KV_SEGMENT_NONE);
    wish.dead_bytes_min = 10;
    assert_int_not_equal(kv_segment_claim_victim(&rig.segments, &wish), KV_SEGMENT_NONE);
}

static void test_claimed_segment_is_retired_at_the_end_of_the_claim(void **unused)
{
    uint32_t index = sealed_one(8);
    assert_true(kv_segment_claim(&rig.segments, index));
    kv_segment_subtract(&rig.segments, index, 8);
    assert_int_equal(state(index), KV_SEGMENT_SEALED);
    kv_segment_unclaim(&rig.segments, index);
    assert_int_equal(state(index), KV_SEGMENT_RETIRED);
}

static void test_spared_segment_becomes_the_youngest_of_a_pool(void **unused)
{
    uint32_t first = sealed_one(8);
    uint32_t second = sealed_one(8);
    assert_true(kv_segment_claim(&rig.segments, first));
    kv_segment_unclaim_to(&rig.segments, first, KV_POOL_MAIN);
    assert_int_equal(rig.segments.sealed[KV_POOL_MAIN].tail, first);
    assert_true(kv_segment_claim(&rig.segments, second));
    kv_segment_unclaim_to(&rig.segments, second, KV_POOL_SMALL);
    assert_int_equal(rig.segments.sealed[KV_POOL_MAIN].head, first);
    assert_int_equal(rig.segments.sealed[KV_POOL_SMALL].head, second);
}

static void test_spared_segment_that_is_empty_is_retired(void **unused)
{
    uint32_t index = sealed_one(8);
    assert_true(kv_segment_claim(&rig.segments, index));
    kv_segment_subtract(&rig.segments, index, 8);
    kv_segment_unclaim_to(&rig.segments, index, KV_POOL_MAIN);
    assert_int_equal(state(index), KV_SEGMENT_RETIRED);
}

static void test_claim_if_it_is_empty_enough(void **unused)
{
    uint32_t index = sealed_one(100);
    assert_false(kv_segment_claim_if(&rig.segments, index, 99));
    kv_segment_add(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_false(kv_segment_claim_if(&rig.segments, index, 100));
    kv_segment_subtract(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_true(kv_segment_claim_if(&rig.segments, index, 100));
    assert_false(kv_segment_claim_if(&rig.segments, index, 100));
    assert_false(kv_segment_claim_if(&rig.segments, open_one(), 100));
}

static void test_exptime_bounds(void **unused)
{
    uint32_t index = open_one();
    kv_segment_note_exptime(&rig.segments, index, 50);
    kv_segment_note_exptime(&rig.segments, index, 20);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_min), 20);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_max), 50);
    kv_segment_note_exptime(&rig.segments, index, 0);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_min), 20);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_max), KV_EXPTIME_NEVER);
}

/* The bounds are those of the items that a segment has now. */
static void test_exptime_bounds_of_a_reused_segment(void **unused)
{
    uint32_t index = open_one();
    kv_segment_note_exptime(&rig.segments, index, 50);
    kv_segment_seal(&rig.segments, index);
    assert_int_equal(kv_segment_reclaim(&rig.segments, &rig.reader, COUNT), 1);
    assert_int_equal(open_one(), index);
    kv_segment_note_exptime(&rig.segments, index, 30);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_min), 30);
    assert_int_equal(kv_u32_load_relaxed(&rig.headers[index].exptime_max), 30);
}

/* A segment that the system refuses the memory of is not in service, and is tried again later. */
static void test_refused_segment_is_not_in_service(void **unused)
{
    uint32_t index = open_one();
    kv_segment_seal(&rig.segments, index);
    kv_segment_reclaim(&rig.segments, &rig.reader, COUNT);
    kv_segments_want(&rig.segments, COUNT - 1, COUNT);
    index = kv_segment_withdraw(&rig.segments, 0);
    assert_int_not_equal(index, KV_SEGMENT_NONE);
    kv_segment_withdrawn(&rig.segments, index, false);
    kv_segments_want(&rig.segments, COUNT, COUNT);
    for (int tries = 0; tries < 2; tries++) {
        assert_int_equal(kv_segment_admit_begin(&rig.segments), index);
        kv_segment_admit_end(&rig.segments, index, tries == 1);
        assert_int_equal(kv_u32_load_relaxed(&rig.segments.in_service), COUNT - 1 + tries);
    }
    assert_int_equal(state(index), KV_SEGMENT_FREE);
}

static void test_segment_of_address(void **unused)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *base = kv_segment_base(&rig.segments, i);
        assert_int_equal(kv_segment_of(&rig.segments, base), i);
        assert_int_equal(kv_segment_of(&rig.segments, base + (1 << SHIFT) - 1), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_take_leaves_the_floor, setup),
        cmocka_unit_test_setup(test_empty_segment_is_retired_when_sealed, setup),
        cmocka_unit_test_setup(test_open_segment_is_not_retired, setup),
        cmocka_unit_test_setup(test_last_live_byte_retires, setup),
        cmocka_unit_test_setup(test_hold_keeps_from_retiring, setup),
        cmocka_unit_test_setup(test_own_views_delay_the_reuse, setup),
        cmocka_unit_test_setup(test_what_was_not_looked_at_is_reused_at_once, setup),
        cmocka_unit_test_setup(test_others_delay_the_reuse, setup),
        cmocka_unit_test_setup(test_pin_after_retirement_parks, setup),
        cmocka_unit_test_setup(test_victim_has_fewest_live_bytes, setup),
        cmocka_unit_test_setup(test_small_differences_do_not_count, setup),
        cmocka_unit_test_setup(test_victim_is_among_the_oldest, setup),
        cmocka_unit_test_setup(test_victim_that_has_expired_comes_first, setup),
        cmocka_unit_test_setup(test_victim_is_not_held_and_not_claimed, setup),
        cmocka_unit_test_setup(test_victim_with_enough_dead_bytes, setup),
        cmocka_unit_test_setup(test_claimed_segment_is_retired_at_the_end_of_the_claim, setup),
        cmocka_unit_test_setup(test_spared_segment_becomes_the_youngest_of_a_pool, setup),
        cmocka_unit_test_setup(test_spared_segment_that_is_empty_is_retired, setup),
        cmocka_unit_test_setup(test_claim_if_it_is_empty_enough, setup),
        cmocka_unit_test_setup(test_exptime_bounds, setup),
        cmocka_unit_test_setup(test_exptime_bounds_of_a_reused_segment, setup),
        cmocka_unit_test_setup(test_refused_segment_is_not_in_service, setup),
        cmocka_unit_test_setup(test_segment_of_address, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
