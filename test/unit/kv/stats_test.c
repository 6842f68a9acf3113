/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: sums over workers, gauges and counters, and which ones a reset keeps. */
#include "kv_rig.h"

#include "kv/engine.h"

static void test_sums_over_workers(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 3, true);
    struct kv_worker *a = kv_join(kv), *b = kv_join(kv);
    struct kv_key one = rig_key(kv, "one"), two = rig_key(kv, "two");
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.memory_limit_bytes, 2 * MIB);
    assert_true(stats.memory_used_bytes >= stats.index_bytes);
    rig_set(a, &one, 10, 1);
    rig_set(b, &two, 10, 1);
    rig_delete(b, &one); /* the worker that deletes is not the one that stored */
    stats = rig_stats(kv);
    assert_int_equal(stats.items, 1);
    assert_int_equal(stats.items_total, 2);
    rig_delete(a, &two);
    kv_leave(a);
    kv_leave(b);
    stats = rig_stats(kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.item_bytes, 0);
    assert_int_equal(stats.items_total, 2); /* those who left still count */
    kv_destroy(kv);
}

static void test_reset_zeroes_counters_and_not_gauges(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key one = rig_key(kv, "one");
    struct kv_view view;
    rig_set(worker, &one, 10, 1);
    kv_get(worker, &one, &view);
    kv_pin(worker, view.item);
    kv_stats_reset(kv);
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.items, 1);
    assert_int_equal(stats.pinned, 1);
    assert_int_equal(stats.items_total, 0);
    rig_set(worker, &one, 10, 2);
    assert_int_equal(rig_stats(kv).items_total, 1);
    kv_unpin(worker, view.item);
    assert_int_equal(rig_stats(kv).pinned, 0);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_reset_zeroes_what_memory_refused(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, false);
    struct kv_worker *worker = kv_join(kv);
    enum kv_error error = KV_OK;
    for (unsigned i = 0; error == KV_OK; i++) {
        char name[16];
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        rig_store(worker, &key, 1000, i, 0, 0, &error);
    }
    assert_int_equal(error, KV_NO_MEMORY);
    assert_int_equal(rig_stats(kv).no_memory, 1);
    kv_stats_reset(kv);
    assert_int_equal(rig_stats(kv).no_memory, 0);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_expired_fetched_or_not(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key one = rig_key(kv, "one"), two = rig_key(kv, "two");
    struct kv_view view;
    enum kv_error error;
    kv_tick(worker, 1);
    rig_store(worker, &one, 10, 1, 0, 5, &error);
    rig_store(worker, &two, 10, 1, 0, 5, &error);
    kv_get(worker, &one, &view);
    kv_tick(worker, 5);
    kv_get(worker, &one, &view);
    kv_get(worker, &two, &view);
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.expired_reclaimed, 2);
    assert_int_equal(stats.expired_unfetched, 1);
    kv_leave(worker);
    kv_destroy(kv);
}

/* The idle time is that of the latest eviction, by whichever worker. */
static void test_idle_time_of_the_last_eviction(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 2, true);
    struct kv_class_stats stats;
    for (unsigned i = 0; i < 2; i++) {
        kv_u64_store_relaxed(&kv->workers[i].classes[0].last_evicted, UINT64_C(9) << 32 | 5);
        kv_u64_store_relaxed(&kv->workers[1 - i].classes[0].last_evicted, UINT64_C(8) << 32 | 7);
        kv_class_stats(kv, 0, &stats);
        assert_int_equal(stats.evicted_idle_s, 5);
    }
    kv_destroy(kv);
}

/* While workers count, a sum may have seen a subtraction and not the addition before it. */
static void test_gauges_are_never_negative(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    kv_class_count(worker, 0, KV_CLASS_ITEMS, UINT64_MAX);
    struct kv_class_stats stats;
    kv_class_stats(kv, 0, &stats);
    assert_int_equal(stats.items, 0);
    kv_class_count(worker, 0, KV_CLASS_ITEMS, 1);
    kv_leave(worker);
    kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_over_workers),
        cmocka_unit_test(test_reset_zeroes_counters_and_not_gauges),
        cmocka_unit_test(test_reset_zeroes_what_memory_refused),
        cmocka_unit_test(test_expired_fetched_or_not),
        cmocka_unit_test(test_idle_time_of_the_last_eviction),
        cmocka_unit_test(test_gauges_are_never_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
