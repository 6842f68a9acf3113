/* SPDX-License-Identifier: BSD-3-Clause */
/* Making items: lengths around every boundary, too large ones, freed ones. */
#include "kv_rig.h"

#include "kv/engine.h"

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 8 * MIB, 1, true, 5);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static void roundtrip(uint32_t value_len, uint32_t flags, uint32_t key_len)
{
    char name[KV_KEY_MAX];
    memset(name, 'k', sizeof(name));
    struct kv_key key = kv_key(rig.kv, name, key_len);
    enum kv_error error;
    assert_true(rig_store(rig.worker, &key, value_len, value_len, flags, 99, &error) != 0);
    struct kv_view view;
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.key_len, key_len);
    assert_memory_equal(view.key, name, key_len);
    assert_int_equal(view.value_len, value_len);
    assert_int_equal(view.flags, flags);
    assert_int_equal(view.exptime, 99);
    assert_int_equal(view.last_access, 5);
    assert_int_equal(view.state, 0);
    assert_true(rig_is_filled(view.item, value_len, value_len));
    kv_quiesce(rig.worker);
}

static void test_small_values(void **unused)
{
    for (uint32_t len = 0; len < 300; len++) {
        roundtrip(len, 0, 1);
        roundtrip(len, 0xffffffff, KV_KEY_MAX);
    }
}

static void test_values_around_the_boundaries(void **unused)
{
    uint32_t segment = kv_segments_bytes(&rig.kv->segments);
    const uint32_t around[] = {rig.kv->small_bytes_max, segment / 2, segment, 2 * segment,
                               5 * segment};
    for (unsigned i = 0; i < sizeof(around) / sizeof(around[0]); i++)
        for (uint32_t len = around[i] - 100; len < around[i] + 40; len++)
            roundtrip(len, len & 1, 1 + len % KV_KEY_MAX);
}

static void test_large_value_has_several_extents(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "large");
    rig_set(rig.worker, &key, 1 << 20, 1);
    struct kv_view view;
    kv_get(rig.worker, &key, &view);
    uint32_t extents = 0, offset = 0, len;
    while (offset < view.value_len) {
        assert_non_null(kv_value(view.item, offset, &len));
        assert_true(len > 0);
        offset += len;
        extents++;
    }
    assert_int_equal(offset, 1 << 20);
    assert_true(extents > 1);
    assert_ptr_equal(kv_value(view.item, 0, &len) + 7, kv_value(view.item, 7, &len));
}

static void test_half_the_memory_in_one_value(void **unused)
{
    roundtrip(4 << 20, 0, 3);
    roundtrip(5 << 20, 0, 3);
    roundtrip(5 << 20, 0, 4);
}

static void test_too_large(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "huge");
    enum kv_error error = KV_OK;
    assert_null(kv_item_new(rig.worker, &key, 8 << 20, 0, 0, &error));
    assert_int_equal(error, KV_TOO_LARGE);
    assert_null(kv_item_new(rig.worker, &key, UINT32_MAX, 0, 0, &error));
    assert_int_equal(error, KV_TOO_LARGE);
    kv_u64_store_relaxed(&rig.kv->value_bytes_max, 1000);
    assert_null(kv_item_new(rig.worker, &key, 1001, 0, 0, &error));
    assert_int_equal(error, KV_TOO_LARGE);
    struct kv_item *item = kv_item_new(rig.worker, &key, 1000, 0, 0, &error);
    assert_non_null(item);
    assert_int_equal(error, KV_OK);
    kv_item_drop(rig.worker, item);
    assert_int_equal(rig_stats(rig.kv).no_memory, 0);
}

static void test_dropped_item_gives_its_bytes_back(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "dropped");
    enum kv_error error;
    struct kv_item *first = kv_item_new(rig.worker, &key, 100, 0, 0, &error);
    kv_item_drop(rig.worker, first);
    struct kv_item *second = kv_item_new(rig.worker, &key, 100, 0, 0, &error);
    assert_ptr_equal(first, second);
    kv_item_drop(rig.worker, second);
    uint64_t used = rig_stats(rig.kv).memory_used_bytes;
    for (unsigned i = 0; i < 10000; i++) {
        struct kv_item *item = kv_item_new(rig.worker, &key, i % 2 ? 1000 : 100000, 0, 0, &error);
        assert_non_null(item);
        kv_item_drop(rig.worker, item);
        kv_quiesce(rig.worker);
    }
    assert_true(rig_stats(rig.kv).memory_used_bytes <= used + (1 << 20));
}

static void test_drop_in_any_order(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "order");
    enum kv_error error;
    struct kv_item *items[8];
    for (unsigned round = 0; round < 300; round++) {
        for (unsigned i = 0; i < 8; i++) {
            items[i] = kv_item_new(rig.worker, &key, 20000 + 100 * i, 0, 0, &error);
            assert_non_null(items[i]);
        }
        for (unsigned i = 0; i < 8; i++)
            kv_item_drop(rig.worker, items[(i * 3 + round) % 8]);
        kv_quiesce(rig.worker);
    }
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

static void test_unpublished_items_outlive_eviction(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "held");
    enum kv_error error;
    struct kv_item *small = kv_item_new(rig.worker, &key, 100, 0, 0, &error);
    struct kv_item *large = kv_item_new(rig.worker, &key, 100000, 0, 0, &error);
    rig_fill(small, 100, 1);
    rig_fill(large, 100000, 2);
    char name[16];
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        struct kv_key other = rig_key(rig.kv, name);
        rig_set(rig.worker, &other, 1000, i);
        kv_quiesce(rig.worker);
    }
    assert_true(rig_stats(rig.kv).evictions > 0);
    struct kv_change change = {.item = small};
    kv_update(rig.worker, &key, rig_decide_replace, NULL, &change);
    struct kv_view view;
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 100, 1));
    change = (struct kv_change){.item = large};
    kv_update(rig.worker, &key, rig_decide_replace, NULL, &change);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 100000, 2));
}

/* A large item that does not fit into memory frees the parts that were allocated. */
static void test_large_item_without_memory(void **unused)
{
    struct kv *kv = rig_create(4 * MIB, 1, false);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key key = rig_key(kv, "first");
    enum kv_error error;
    uint64_t before = rig_stats(kv).memory_used_bytes;
    rig_set(worker, &key, 2000000, 1);
    struct kv_key second = rig_key(kv, "second");
    assert_null(kv_item_new(worker, &second, 2500000, 0, 0, &error));
    assert_int_equal(error, KV_NO_MEMORY);
    assert_int_equal(rig_delete(worker, &key), KV_DELETE);
    kv_log_close(worker, kv_log_for(worker, KV_POOL_MAIN, 0));
    for (unsigned i = 0; i < 50; i++)
        kv_quiesce(worker);
    assert_int_equal(rig_stats(kv).memory_used_bytes, before);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void expect_record_bytes(uint32_t value_len, uint32_t flags, uint32_t bytes)
{
    struct kv_key key = rig_key(rig.kv, "20 bytes of a key...");
    enum kv_error error;
    uint64_t before = rig_stats(rig.kv).item_bytes;
    assert_true(rig_store(rig.worker, &key, value_len, 1, flags, 0, &error) != 0);
    assert_int_equal(rig_stats(rig.kv).item_bytes - before, bytes);
    assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
}

/* 20 bytes beyond key and value, 4 more for flags, and 4 more from 255 bytes of value on. */
static void test_overhead(void **unused)
{
    expect_record_bytes(0, 0, 40);
    expect_record_bytes(200, 0, 240);
    expect_record_bytes(200, 1, 244);
    expect_record_bytes(202, 0, 244);
    expect_record_bytes(254, 0, 296);
    expect_record_bytes(255, 0, 300);
    expect_record_bytes(260, 0, 304);
    expect_record_bytes(260, 1, 308);
}

/* A store that fails for lack of an overflow bucket is counted in no_memory. */
static void test_refused_without_a_bucket(void **unused)
{
    struct kv *kv = rig_create(1 * MIB, 1, false);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key key = rig_key(kv, "key");
    enum kv_error error;
    while (kv_overflow_take(worker, kv_index_power(&kv->index)) != 0)
        continue;
    assert_null(kv_item_new(worker, &key, 10, 0, 0, &error));
    assert_int_equal(error, KV_NO_MEMORY);
    assert_int_equal(rig_stats(kv).no_memory, 1);
    kv_leave(worker);
    kv_destroy(kv);
}

/* The clock of the worker that evicts may be behind that of the one that stored. */
static void test_evicted_before_its_last_access(void **unused)
{
    struct kv_class_stats stats;
    unsigned i = 0;
    char name[16];
    do {
        kv_tick(rig.worker, 5);
        snprintf(name, sizeof(name), "key%u", i++);
        struct kv_key key = rig_key(rig.kv, name);
        enum kv_error error;
        struct kv_item *item = kv_item_new(rig.worker, &key, 1000, 0, 0, &error);
        struct kv_change change = {.item = item};
        kv_update(rig.worker, &key, rig_decide_replace, NULL, &change);
        kv_tick(rig.worker, 4);
        kv_quiesce(rig.worker);
    } while (rig_stats(rig.kv).evictions == 0);
    kv_class_stats(rig.kv, 0, &stats);
    assert_int_equal(stats.evicted_idle_s, 0);
}

/* The sweep finds an item whose expiry time was set after its allocation. */
static void test_exptime_set_later_is_swept(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "key");
    enum kv_error error;
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, 100000, 0, 0, &error)};
    kv_item_set_exptime(rig.worker, change.item, 10);
    assert_int_equal(kv_update(rig.worker, &key, rig_decide_replace, NULL, &change), KV_REPLACE);
    kv_tick(rig.worker, 100);
    for (unsigned i = 0; i < 300; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_small_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_around_the_boundaries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_value_has_several_extents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_the_memory_in_one_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dropped_item_gives_its_bytes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drop_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unpublished_items_outlive_eviction, setup, teardown),
        cmocka_unit_test(test_large_item_without_memory),
        cmocka_unit_test_setup_teardown(test_overhead, setup, teardown),
        cmocka_unit_test(test_refused_without_a_bucket),
        cmocka_unit_test_setup_teardown(test_evicted_before_its_last_access, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exptime_set_later_is_swept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
