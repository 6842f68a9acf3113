/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of all sizes, and workers that join and leave. */
#include "kv_rig.h"

#include "kv/engine.h"

extern void *calloc_real(size_t count, size_t bytes) __asm__("__real_calloc");
extern void *calloc_watched(size_t count, size_t bytes) __asm__("__wrap_calloc");

static bool memory_is_refused;

void *calloc_watched(size_t count, size_t bytes)
{
    return memory_is_refused ? NULL : calloc_real(count, bytes);
}

static struct kv_config config_of(uint64_t memory_bytes, unsigned workers)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .value_bytes_max = 1 << 20,
                               .worker_max = workers,
                               .evict = true};
    return config;
}

static void expect_refused(uint64_t memory_bytes, unsigned workers)
{
    struct kv_config config = config_of(memory_bytes, workers);
    const char *error = NULL;
    assert_null(kv_create(&config, &error));
    assert_non_null(error);
}

static void test_bad_configurations(void **unused)
{
    expect_refused(0, 1);
    expect_refused(MIB - 1, 1);
    expect_refused(64 * MIB, 0);
    expect_refused(MIB, 1000);
    expect_refused(UINT64_C(1) << 62, 1);
}

static void test_all_sizes(void **unused)
{
    const uint64_t step = getenv("UCACHED_VALGRIND") ? 8 : 2;
    for (uint64_t memory_bytes = MIB; memory_bytes <= 2048 * MIB; memory_bytes *= step) {
        for (unsigned workers = 1; workers <= 16; workers *= 4) {
            struct kv *kv = rig_create(memory_bytes + workers * 12345, workers, true);
            assert_true(kv->segments.count >= 16);
            struct kv_stats stats = rig_stats(kv);
            assert_true(stats.memory_used_bytes < stats.memory_limit_bytes / 8);
            assert_true(kv_fixed_bytes(kv) + ((uint64_t)kv->segments.count << kv->segments.shift) <=
                        kv->config.memory_bytes);
            kv_destroy(kv);
        }
    }
}

/* Where huge pages would cost a small table more memory than it may have. */
static void test_small_tables_have_ordinary_pages(void **unused)
{
    struct kv_placement placement;
    struct kv *kv = rig_create(16 * MIB, 1, true);
    kv_placement(kv, &placement);
    assert_int_equal(placement.pages, KV_PAGES_SMALL);
    kv_destroy(kv);
}

static void test_workers_come_and_go(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 2, true);
    struct kv_worker *first = kv_join(kv);
    struct kv_worker *second = kv_join(kv);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(kv_join(kv));
    struct kv_key key = rig_key(kv, "key");
    for (unsigned i = 0; i < 2000; i++) {
        rig_set(second, &key, 100, i);
        kv_leave(second);
        second = kv_join(kv);
        assert_non_null(second);
        kv_quiesce(first);
    }
    struct kv_view view;
    assert_int_equal(kv_get(first, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 100, 1999));
    kv_leave(second);
    kv_leave(first);
    rig_check(kv);
    kv_destroy(kv);
}

/* A worker that found no memory can join later. */
static void test_join_without_memory(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    memory_is_refused = true;
    assert_null(kv_join(kv));
    memory_is_refused = false;
    struct kv_worker *worker = kv_join(kv);
    assert_non_null(worker);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_offline_worker_may_leave(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 2, true);
    struct kv_worker *worker = kv_join(kv);
    kv_offline(worker);
    kv_online(worker);
    kv_quiesce(worker);
    kv_offline(worker);
    kv_leave(worker);
    worker = kv_join(kv);
    assert_non_null(worker);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_time_is_the_workers(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 2, true);
    struct kv_worker *worker = kv_join(kv);
    kv_tick(worker, 7);
    kv_tick(worker, 7);
    struct kv_key key = rig_key(kv, "key");
    rig_set(worker, &key, 1, 1);
    struct kv_view view;
    kv_peek(worker, &key, &view);
    assert_int_equal(view.last_access, 7);
    kv_leave(worker);
    kv_destroy(kv);
}

static void count_call(void *ctx, const struct kv_view *view)
{
    ++*(unsigned *)ctx;
}

static void store_some(struct kv_worker *worker, unsigned count)
{
    char name[16];
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(worker->kv, name);
        rig_set(worker, &key, 1000, i);
        kv_quiesce(worker);
    }
}

/* A worker that joins has no callback for evictions. */
static void test_evictions_are_not_reported_after_a_join(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    unsigned calls = 0;
    kv_on_evicted(worker, count_call, &calls);
    store_some(worker, 3000);
    assert_int_equal(calls, rig_stats(kv).evictions);
    assert_true(calls > 0);
    kv_leave(worker);
    worker = kv_join(kv);
    unsigned before = calls;
    store_some(worker, 3000);
    assert_true(rig_stats(kv).evictions > before);
    assert_int_equal(calls, before);
    kv_leave(worker);
    kv_destroy(kv);
}

/* kv_offline() ends all views of the worker: their memory can be reclaimed. */
static void test_views_end_offline(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 2, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_worker *other = kv_join(kv);
    struct kv_key key = rig_key(kv, "key");
    struct kv_view view;
    rig_set(other, &key, 100, 1);
    kv_log_close(other, other->log_last);
    kv_quiesce(worker);
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    kv_offline(worker);
    kv_online(worker);
    assert_int_equal(rig_delete(other, &key), KV_DELETE);
    kv_offline(other);
    assert_int_equal(kv_log_reclaim(worker, UINT32_MAX), 1);
    kv_leave(other);
    kv_leave(worker);
    kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_configurations),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_workers_come_and_go),
        cmocka_unit_test(test_offline_worker_may_leave),
        cmocka_unit_test(test_join_without_memory),
        cmocka_unit_test(test_time_is_the_workers),
        cmocka_unit_test(test_small_tables_have_ordinary_pages),
        cmocka_unit_test(test_evictions_are_not_reported_after_a_join),
        cmocka_unit_test(test_views_end_offline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
