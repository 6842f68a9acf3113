/* SPDX-License-Identifier: BSD-3-Clause */
/* Which segment eviction empties next, how it does that, and how much of it a store has to do. */
#include "kv_rig.h"

#include "kv/engine.h"

#define VALUE_BYTES 900
#define SEGMENTS_MAX 1024

static struct kv_rig rig;
static uint32_t aside[SEGMENTS_MAX];
static unsigned aside_count;

static void set_up(uint64_t memory_bytes, bool evict, enum kv_policy_kind policy)
{
    rig.kv = rig_create_policy(memory_bytes, 1, evict, policy);
    rig.worker = kv_join(rig.kv);
    kv_tick(rig.worker, 1);
    aside_count = 0;
}

/* Takes free segments, as other workers do to fill them, until so many are left. */
static void take_aside(uint32_t left)
{
    uint32_t segment;
    assert_true(rig.kv->segments.accessible <= SEGMENTS_MAX);
    while ((segment = kv_segment_take(&rig.kv->segments, left)) != KV_SEGMENT_NONE)
        aside[aside_count++] = segment;
}

static void tear_down(void)
{
    kv_clean_end(rig.worker);
    while (aside_count > 0)
        kv_segment_seal(&rig.kv->segments, aside[--aside_count]);
    rig_close(&rig);
}

static struct kv_key numbered(char name[24], unsigned n)
{
    snprintf(name, 24, "key%05u", n);
    return rig_key(rig.kv, name);
}

static void close_logs(void)
{
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(rig.worker, log);
}

/* Stores keys from `first` on that fill a segment; returns how many. */
static unsigned fill_segment(unsigned first)
{
    unsigned log = kv_log_for(rig.worker, KV_POOL_MAIN, 0);
    unsigned n = first;
    char name[24];
    do {
        struct kv_key key = numbered(name, n);
        rig_set(rig.worker, &key, VALUE_BYTES, n);
        n++;
    } while (kv_log_free_bytes(rig.worker, log) > VALUE_BYTES + 100);
    close_logs();
    return n - first;
}

static void delete_keys(unsigned first, unsigned count)
{
    char name[24];
    for (unsigned i = 0; i < count; i++) {
        struct kv_key key = numbered(name, first + i);
        assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
    }
}

static uint32_t segment_of(unsigned n)
{
    char name[24];
    uint64_t word;
    struct kv_key key = numbered(name, n);
    struct kv_item *item = rig_find(&rig.kv->index, &key, &word);
    assert_non_null(item);
    return kv_segment_of(&rig.kv->segments, item);
}

static const struct kv_cleaner *begin(void)
{
    kv_evict_step(rig.worker, 1);
    assert_int_not_equal(rig.worker->cleaner.mode, KV_CLEAN_NONE);
    return &rig.worker->cleaner;
}

/* Three segments, of which two are dead by half and the one between them by more. */
static unsigned fill_part_dead(void)
{
    unsigned each = fill_segment(0);
    assert_int_equal(fill_segment(each), each);
    assert_int_equal(fill_segment(2 * each), each);
    delete_keys(0, each / 2);
    delete_keys(each, each * 3 / 4);
    delete_keys(2 * each, each / 2);
    return each;
}

static void test_deadest_segment_is_compacted(void **unused)
{
    set_up(4 * MIB, true, KV_POLICY_CLOCK);
    unsigned each = fill_part_dead();
    take_aside(1);
    const struct kv_cleaner *cleaner = begin();
    assert_int_equal(cleaner->mode, KV_CLEAN_COMPACT);
    assert_int_equal(cleaner->segment, segment_of(2 * each - 1));
    tear_down();
}

/* Live items cannot move without a free segment: then some have to go. */
static void test_nothing_is_compacted_without_a_free_segment(void **unused)
{
    set_up(4 * MIB, true, KV_POLICY_CLOCK);
    fill_part_dead();
    take_aside(0);
    assert_int_equal(begin()->mode, KV_CLEAN_EVICT);
    tear_down();
}

/* Where items of all segments but one are being sent, that one is emptied. */
static void test_random_victim_is_not_held(void **unused)
{
    enum { SPARE = 20 };
    set_up(MIB, true, KV_POLICY_RANDOM);
    const struct kv_item *items[SEGMENTS_MAX];
    unsigned count = 0, next = 0;
    char name[24];
    uint64_t word;
    while (kv_segment_list_count(&rig.kv->segments.free) > 10) {
        struct kv_key key = numbered(name, next);
        next += fill_segment(next);
        items[count++] = rig_find(&rig.kv->index, &key, &word);
    }
    assert_true(count > SPARE);
    for (unsigned i = 0; i < count; i++)
        if (i != SPARE)
            kv_pin(rig.worker, items[i]);
    take_aside(0);
    assert_int_equal(begin()->segment, kv_segment_of(&rig.kv->segments, items[SPARE]));
    for (unsigned i = 0; i < count; i++)
        if (i != SPARE)
            kv_unpin(rig.worker, items[i]);
    tear_down();
}

/* How many records a store of no bytes examines with so much free. */
static uint32_t records_paid(uint32_t left)
{
    set_up(4 * MIB, true, KV_POLICY_CLOCK);
    fill_segment(0);
    take_aside(left);
    kv_evict_advance(rig.worker, 0);
    uint32_t records = rig.worker->cleaner.records;
    tear_down();
    return records;
}

/* The less of the reserve is free, the more a store does for it. */
static void test_stores_pay_by_need(void **unused)
{
    assert_int_equal(records_paid(4), 0);
    assert_int_equal(records_paid(2), 4);
    assert_int_equal(records_paid(1), 4 * 4);
}

/* Without eviction, memory is compacted when it is needed, not by housekeeping. */
static void test_housekeeping_does_not_compact(void **unused)
{
    set_up(4 * MIB, false, KV_POLICY_CLOCK);
    unsigned each = fill_part_dead();
    uint32_t before = segment_of(2 * each - 1);
    take_aside(1);
    for (unsigned i = 0; i < 100; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(segment_of(2 * each - 1), before);
    tear_down();
}

/* The number of items is estimated from scans that saw a whole segment. */
static void test_part_of_a_scan_is_no_estimate(void **unused)
{
    set_up(4 * MIB, true, KV_POLICY_S3FIFO);
    char name[24];
    struct kv_view view;
    kv_ghost_fit(&rig.kv->ghost, UINT64_C(1) << 20);
    uint32_t mask = kv_u32_load_relaxed(&rig.kv->ghost.set_mask);
    assert_true(mask >= 3);
    for (unsigned n = 0; n < 5; n++) {
        struct kv_key key = numbered(name, n);
        rig_set(rig.worker, &key, 10, n);
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    }
    uint32_t segment = segment_of(0);
    close_logs();
    assert_true(kv_clean_begin(rig.worker, segment, KV_CLEAN_EVICT));
    kv_clean_step(rig.worker, 1);
    kv_clean_end(rig.worker);
    assert_int_equal(kv_u32_load_relaxed(&rig.kv->ghost.set_mask), mask);
    assert_true(kv_clean_begin(rig.worker, segment, KV_CLEAN_EVICT));
    kv_clean_step(rig.worker, 100);
    assert_true(kv_u32_load_relaxed(&rig.kv->ghost.set_mask) < mask);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadest_segment_is_compacted),
        cmocka_unit_test(test_nothing_is_compacted_without_a_free_segment),
        cmocka_unit_test(test_random_victim_is_not_held),
        cmocka_unit_test(test_stores_pay_by_need),
        cmocka_unit_test(test_housekeeping_does_not_compact),
        cmocka_unit_test(test_part_of_a_scan_is_no_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
