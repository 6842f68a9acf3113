/* SPDX-License-Identifier: BSD-3-Clause */
/* States of segments: each transition of segment.h, and the transitions that must not happen. */
#include "kv_rig.h"

#include "kv/prefault.h"
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

/* A sealed segment with so many live bytes, whose items expire at 7. */
static uint32_t sealed_expired(uint32_t bytes)
{
    uint32_t segment = open_one();
    kv_segment_add(&rig.segments, segment, bytes);
    kv_segment_note_exptime(&rig.segments, segment, 7);
    kv_segment_seal(&rig.segments, segment);
    return segment;
}

static void test_victim_that_has_expired_comes_first(void **unused)
{
    sealed_one(1);
    uint32_t expired = sealed_expired(5000);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, COUNT, 0, 0, 7};
    assert_int_equal(kv_segment_claim_victim(&rig.segments, &wish), expired);
}

/* It is claimed although another segment has fewer live bytes, which would have to move. */
static void test_victim_that_has_expired_needs_no_slack(void **unused)
{
    sealed_one(50);
    uint32_t expired = sealed_expired(500);
    struct kv_victim_search wish = {KV_POOL_MAIN, COUNT, COUNT, 0, 100, 7};
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

/* ---- prefaulting ------------------------------------------------------------------------- */

/* Sets up the list for a thread that prefaults so many free segments. */
static void prefault_ahead(uint32_t count)
{
    static struct kv_prefault thread; /* not asleep: it needs no waking */
    rig.segments.prefault = &thread;
    rig.segments.ahead_min = count;
    rig.segments.ahead_max = count;
    rig.segments.ahead_slack = 1;
}

/* Touches the next one. KV_SEGMENT_NONE if enough are touched. */
static uint32_t touch_one(void)
{
    uint32_t index = kv_segment_prefault_begin(&rig.segments);
    if (index != KV_SEGMENT_NONE)
        kv_segment_prefault_end(&rig.segments, index);
    return index;
}

static uint32_t touched_free(void)
{
    return kv_u32_load_relaxed(&rig.segments.touched_free);
}

static void test_next_ones_to_be_taken_are_touched(void **unused)
{
    prefault_ahead(2);
    assert_true(kv_segments_prefault_lags(&rig.segments));
    uint32_t first = rig.segments.free.tail;
    uint32_t second = rig.headers[first].prev;
    uint32_t third = rig.headers[second].prev;
    assert_int_equal(touch_one(), first);
    assert_int_equal(touch_one(), second);
    assert_int_equal(touch_one(), KV_SEGMENT_NONE);
    assert_false(kv_segments_prefault_lags(&rig.segments));
    assert_int_equal(open_one(), first);
    assert_true(kv_segments_prefault_lags(&rig.segments));
    assert_int_equal(touch_one(), third);
    assert_false(kv_segments_prefault_lags(&rig.segments));
    assert_int_equal(kv_u32_load_relaxed(&rig.segments.touched_ahead), 3);
    assert_int_equal(kv_u32_load_relaxed(&rig.segments.touched_late), 0);
}

static void test_segment_is_taken_while_it_is_touched(void **unused)
{
    prefault_ahead(2);
    uint32_t index = kv_segment_prefault_begin(&rig.segments);
    assert_int_equal(open_one(), index);
    kv_segment_prefault_end(&rig.segments, index);
    assert_int_equal(touched_free(), 0);
    assert_int_equal(kv_u32_load_relaxed(&rig.segments.touched_ahead), 0);
    assert_int_equal(kv_u32_load_relaxed(&rig.segments.touched_late), 1);
    assert_int_equal(touch_one(), rig.segments.free.tail);
}

static void test_segment_stays_in_service_while_it_is_touched(void **unused)
{
    prefault_ahead(COUNT);
    for (unsigned i = 0; i < COUNT - 1; i++)
        touch_one();
    uint32_t last = kv_segment_prefault_begin(&rig.segments);
    assert_int_equal(last, rig.segments.free.head);
    kv_segments_want(&rig.segments, 0, COUNT);
    for (unsigned i = 0; i < COUNT - 1; i++) {
        uint32_t index = kv_segment_withdraw(&rig.segments, 0);
        assert_int_not_equal(index, KV_SEGMENT_NONE);
        assert_int_not_equal(index, last);
        kv_segment_withdrawn(&rig.segments, index, false);
    }
    assert_int_equal(kv_segment_withdraw(&rig.segments, 0), KV_SEGMENT_NONE);
    kv_segment_prefault_end(&rig.segments, last);
    assert_int_equal(kv_segment_withdraw(&rig.segments, 0), last);
}

/* A segment is touched again only if its pages were returned to the kernel. */
static void test_withdrawn_segment_is_touched_again(void **unused)
{
    prefault_ahead(COUNT);
    while (touch_one() != KV_SEGMENT_NONE)
        continue;
    for (int keeps = 0; keeps < 2; keeps++) {
        kv_segments_want(&rig.segments, COUNT - 1, COUNT);
        uint32_t index = kv_segment_withdraw(&rig.segments, 0);
        kv_segment_withdrawn(&rig.segments, index, keeps == 1);
        assert_int_equal(touched_free(), COUNT - 1);
        kv_segments_want(&rig.segments, COUNT, COUNT);
        assert_int_equal(kv_segment_admit_begin(&rig.segments), index);
        kv_segment_admit_end(&rig.segments, index, true);
        assert_int_equal(touched_free(), keeps == 1 ? COUNT : COUNT - 1);
        assert_int_equal(touch_one(), keeps == 1 ? KV_SEGMENT_NONE : index);
    }
}

static void test_faulted_segments_are_touched(void **unused)
{
    prefault_ahead(COUNT);
    kv_segments_set_faulted(&rig.segments, 2);
    assert_int_equal(touched_free(), 2);
    assert_int_equal(touch_one(), 2);
    assert_int_equal(open_one(), 0);
    assert_int_equal(kv_u32_load_relaxed(&rig.segments.touched_late), 0);
    setup(NULL);
    prefault_ahead(COUNT);
    kv_segments_set_faulted(&rig.segments, COUNT);
    assert_int_equal(touch_one(), KV_SEGMENT_NONE);
    assert_false(kv_segments_prefault_lags(&rig.segments));
}

/* ---- service ----------------------------------------------------------------------------- */

static void test_withdrawal_leaves_the_floor(void **unused)
{
    kv_segments_want(&rig.segments, COUNT - 1, COUNT);
    assert_int_equal(kv_segment_withdraw(&rig.segments, COUNT), KV_SEGMENT_NONE);
    assert_int_not_equal(kv_segment_withdraw(&rig.segments, COUNT - 1), KV_SEGMENT_NONE);
    assert_int_equal(kv_segment_withdraw(&rig.segments, 0), KV_SEGMENT_NONE);
}

/* ---- saving ------------------------------------------------------------------------------ */

static bool restore(const struct kv_saved_segments *saved)
{
    return kv_segments_restore(&rig.segments, saved, memory, rig.headers, SHIFT, &rig.epoch);
}

/* In the process that restores the segments no page is mapped. */
static void test_restored_segments_are_not_touched(void **unused)
{
    struct kv_saved_segments saved;
    prefault_ahead(2);
    touch_one();
    sealed_one(100);
    touch_one();
    assert_true(kv_segments_save(&rig.segments, &saved));
    assert_true(restore(&saved));
    prefault_ahead(2);
    assert_int_equal(touched_free(), 0);
    assert_int_equal(touch_one(), rig.segments.free.tail);
    assert_int_equal(touched_free(), 1);
}

static void test_segments_in_use_are_not_saved(void **unused)
{
    struct kv_saved_segments saved;
    uint32_t index = sealed_one(100);
    assert_true(kv_segment_claim(&rig.segments, index));
    assert_false(kv_segments_save(&rig.segments, &saved));
    kv_segment_unclaim(&rig.segments, index);
    kv_segment_add(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_false(kv_segments_save(&rig.segments, &saved));
    kv_segment_subtract(&rig.segments, index, KV_SEGMENT_HOLD);
    assert_true(kv_segments_save(&rig.segments, &saved));
    open_one();
    assert_false(kv_segments_save(&rig.segments, &saved));
}

static void test_contradictions_are_not_restored(void **unused)
{
    struct kv_saved_segments saved, wrong;
    uint32_t first = sealed_one(100);
    uint32_t second = sealed_one(100);
    assert_true(kv_segments_save(&rig.segments, &saved));
    wrong = saved;
    wrong.in_service--;
    assert_false(restore(&wrong));
    wrong = saved;
    wrong.accessible = COUNT - 1;
    assert_false(restore(&wrong));
    wrong = saved;
    wrong.sealed[KV_POOL_MAIN].tail = first;
    assert_false(restore(&wrong));
    rig.headers[second].prev = KV_SEGMENT_NONE;
    assert_false(restore(&saved));
    rig.headers[second].prev = first;
    rig.headers[second].next = first; /* a circle */
    assert_false(restore(&saved));
    rig.headers[second].next = KV_SEGMENT_NONE;
    assert_true(restore(&saved));
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
        cmocka_unit_test_setup(test_victim_that_has_expired_needs_no_slack, setup),
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
        cmocka_unit_test_setup(test_next_ones_to_be_taken_are_touched, setup),
        cmocka_unit_test_setup(test_segment_is_taken_while_it_is_touched, setup),
        cmocka_unit_test_setup(test_segment_stays_in_service_while_it_is_touched, setup),
        cmocka_unit_test_setup(test_withdrawn_segment_is_touched_again, setup),
        cmocka_unit_test_setup(test_faulted_segments_are_touched, setup),
        cmocka_unit_test_setup(test_withdrawal_leaves_the_floor, setup),
        cmocka_unit_test_setup(test_restored_segments_are_not_touched, setup),
        cmocka_unit_test_setup(test_segments_in_use_are_not_saved, setup),
        cmocka_unit_test_setup(test_contradictions_are_not_restored, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
