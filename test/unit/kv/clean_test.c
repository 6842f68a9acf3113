/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans of single segments by evict.c: what goes, what moves, and where to. */
#include "kv_rig.h"

#include "kv/engine.h"

static struct kv_key numbered(const struct kv *kv, char name[24], const char *kind, unsigned n)
{
    snprintf(name, 24, "%s%u", kind, n);
    return rig_key(kv, name);
}

/* Scans the segment of a pool that the worker fills, as if it was the oldest. */
static void evict_latest(struct kv_worker *worker, enum kv_pool pool)
{
    unsigned log = kv_log_for(worker, pool, 0);
    uint32_t segment = worker->log[log];
    kv_log_close(worker, log);
    assert_true(kv_clean_begin(worker, segment, KV_CLEAN_EVICT));
    kv_clean_step(worker, 100);
}

/*
 * An item is active if it was fetched since eviction last examined it. Moving an item keeps its
 * access word.
 */
static void test_accesses_of_what_is_evicted(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key key = rig_key(kv, "fetched");
    struct kv_view view;
    kv_tick(worker, 5);
    rig_set(worker, &key, 100, 1);
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    kv_tick(worker, 50);
    evict_latest(worker, KV_POOL_MAIN);
    assert_int_equal(kv_peek(worker, &key, &view), KV_HIT);
    assert_int_equal(view.state & KV_FETCHED, KV_FETCHED);
    assert_int_equal(view.last_access, 5);
    evict_latest(worker, KV_POOL_MAIN);
    assert_int_equal(kv_peek(worker, &key, &view), KV_MISS);
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.evictions, 1);
    assert_int_equal(stats.evicted_unfetched, 0);
    assert_int_equal(stats.evicted_active, 0);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Stores and reads a key, so that the policy retains its item once. */
static struct kv_key fetched(struct kv_worker *worker, char name[24], unsigned n)
{
    struct kv_key key = numbered(worker->kv, name, "fetched", n);
    struct kv_view view;
    rig_set(worker, &key, 100, n);
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    kv_release_views(worker);
    return key;
}

/* Only evicted and dead bytes give credit for moving items. */
static void test_moving_is_paid_for(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    char names[3][24];
    uint64_t word;
    struct kv_key first = fetched(worker, names[0], 0);
    struct kv_key second = fetched(worker, names[1], 1);
    worker->move_credit_bytes = kv_record_bytes(rig_find(&kv->index, &first, &word));
    evict_latest(worker, KV_POOL_MAIN);
    assert_true(rig_is_present(worker, &first));
    assert_false(rig_is_present(worker, &second));

    kv_log_close(worker, kv_log_for(worker, KV_POOL_MAIN, 0));
    struct kv_key dead = fetched(worker, names[1], 1);
    assert_int_equal(rig_delete(worker, &dead), KV_DELETE);
    struct kv_key third = fetched(worker, names[2], 2);
    worker->move_credit_bytes = 0;
    evict_latest(worker, KV_POOL_MAIN);
    assert_true(rig_is_present(worker, &third));
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_nothing_stays_in_urgent_need(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    struct kv_key key = fetched(worker, name, 0);
    worker->urgent = true;
    evict_latest(worker, KV_POOL_MAIN);
    assert_false(rig_is_present(worker, &key));
    assert_int_equal(rig_stats(kv).evictions, 1);
    kv_leave(worker);
    kv_destroy(kv);
}

/* An item moves to a segment of items that live as long, not just to the one filled last. */
static void test_moved_items_keep_to_their_time(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    const struct kv_segments *segments = &kv->segments;
    struct kv_key keys[] = {rig_key(kv, "for ever"), rig_key(kv, "a while")};
    uint32_t at[2];
    enum kv_error error;
    uint64_t word;
    for (unsigned i = 0; i < 2; i++)
        rig_store(worker, &keys[i], 100, i, 0, i * 20, &error);
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(worker, log);
    for (unsigned i = 0; i < 2; i++) {
        at[i] = kv_segment_of(segments, rig_find(&kv->index, &keys[i], &word));
        assert_true(kv_clean_begin(worker, at[i], KV_CLEAN_COMPACT));
        kv_clean_step(worker, 100);
        uint32_t before = at[i];
        at[i] = kv_segment_of(segments, rig_find(&kv->index, &keys[i], &word));
        assert_int_not_equal(at[i], before);
    }
    assert_int_not_equal(at[0], at[1]);
    kv_leave(worker);
    kv_destroy(kv);
}

/* A segment that was opened so many flushes ago that tags come round takes no item any more. */
static void test_promoted_after_many_flushes(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_S3FIFO);
    struct kv_worker *worker = kv_join(kv);
    struct kv_view view;
    char name[24];
    uint64_t word;
    for (unsigned i = 0; i < 2; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_set(worker, &key, 100, i);
        for (unsigned fetches = 0; fetches < 2; fetches++)
            assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        evict_latest(worker, KV_POOL_SMALL);
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        assert_int_equal(kv_evict_pool(worker, rig_find(&kv->index, &key, &word)), KV_POOL_MAIN);
        for (unsigned flushes = 0; flushes < 300; flushes++)
            kv_flush(worker);
    }
    kv_leave(worker);
    kv_destroy(kv);
}

/* A worker that leaves in the middle of a scan leaves the segment to others. */
static void test_scan_ends_with_its_worker(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    char names[2][24];
    for (unsigned i = 0; i < 2; i++)
        (void)fetched(worker, names[i], i);
    unsigned log = kv_log_for(worker, KV_POOL_MAIN, 0);
    uint32_t segment = worker->log[log];
    kv_log_close(worker, log);
    assert_true(kv_clean_begin(worker, segment, KV_CLEAN_EVICT));
    kv_clean_step(worker, 1);
    kv_leave(worker);
    worker = kv_join(kv);
    assert_true(kv_clean_begin(worker, segment, KV_CLEAN_EVICT));
    kv_clean_step(worker, 100);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* A scan of the worker's own open segment goes back with its end: new records follow there. */
static void test_scan_of_an_open_segment_that_shrinks(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key key = rig_key(kv, "never stored");
    char name[24];
    enum kv_error error;
    kv_tick(worker, 1);
    (void)fetched(worker, name, 0);
    struct kv_item *dropped = kv_item_new(worker, &key, 500, 0, 0, &error);
    uint32_t segment = kv_segment_of(&kv->segments, dropped);
    const struct kv_segment *header = &kv->segments.array[segment];
    assert_true(kv_clean_begin(worker, segment, KV_CLEAN_EXPIRE));
    kv_clean_step(worker, 2);
    assert_int_equal(worker->cleaner.at, header->used);
    kv_item_drop(worker, dropped);
    assert_int_equal(worker->cleaner.at, header->used);
    for (unsigned i = 1; i < 10; i++)
        (void)fetched(worker, name, i);
    kv_clean_step(worker, 100);
    assert_int_equal(worker->cleaner.mode, KV_CLEAN_NONE);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Scans a segment, if it is sealed. */
static void evict_segment(struct kv_worker *worker, uint32_t segment)
{
    if (kv_clean_begin(worker, segment, KV_CLEAN_EVICT))
        kv_clean_step(worker, 100);
}

/* A part of a large item that fills its segment stays there; the segment changes its pool. */
static void test_promoted_large_item_takes_its_segments_along(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_S3FIFO);
    struct kv_worker *worker = kv_join(kv);
    const uint32_t value_len = 10 * kv_segments_bytes(&kv->segments);
    struct kv_key key = rig_key(kv, "large");
    struct kv_view view;
    uint64_t word;
    rig_set(worker, &key, value_len, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    struct kv_item *item = rig_find(&kv->index, &key, &word);
    assert_int_equal(kv_evict_pool(worker, item), KV_POOL_SMALL);
    kv_release_views(worker);
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(worker, log);
    evict_segment(worker, kv_segment_of(&kv->segments, item));
    for (uint32_t i = 1; i < kv_item_extents(item)->count; i++) {
        item = rig_find(&kv->index, &key, &word);
        evict_segment(worker, kv_segment_of(&kv->segments, kv_item_extent(item, i)));
    }
    item = rig_find(&kv->index, &key, &word);
    assert_non_null(item);
    assert_true(rig_is_filled(item, value_len, 1));
    for (uint32_t i = 0; i < kv_item_extents(item)->count; i++)
        assert_int_equal(kv_evict_pool(worker, kv_item_extent(item, i)), KV_POOL_MAIN);
    kv_leave(worker);
    kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accesses_of_what_is_evicted),
        cmocka_unit_test(test_moving_is_paid_for),
        cmocka_unit_test(test_nothing_stays_in_urgent_need),
        cmocka_unit_test(test_moved_items_keep_to_their_time),
        cmocka_unit_test(test_promoted_after_many_flushes),
        cmocka_unit_test(test_scan_ends_with_its_worker),
        cmocka_unit_test(test_scan_of_an_open_segment_that_shrinks),
        cmocka_unit_test(test_promoted_large_item_takes_its_segments_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
