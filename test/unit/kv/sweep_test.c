/* SPDX-License-Identifier: BSD-3-Clause */
/* Expired items whose memory comes back without a request for them. */
#include "kv_rig.h"

#include "kv/engine.h"

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 4 * MIB, 2, true, 1);
}

/* So many workers that items of different times share segments. */
static int setup_mixed(void **unused)
{
    return rig_open(&rig, 4 * MIB, 8, true, 1);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static void store(unsigned from, unsigned to, uint32_t value_len, uint32_t exptime)
{
    char name[24];
    enum kv_error error;
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        assert_true(rig_store(rig.worker, &key, value_len, i, 0, exptime, &error) != 0);
    }
}

static void quiesce(unsigned times)
{
    while (times-- > 0)
        kv_quiesce(rig.worker);
}

static void test_all_expired(void **unused)
{
    store(0, 2000, 500, 10);
    kv_tick(rig.worker, 9);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 2000);
    uint64_t used = rig_stats(rig.kv).memory_used_bytes;
    kv_tick(rig.worker, 10);
    quiesce(300);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.expired_reclaimed, 2000);
    assert_int_equal(stats.expired_unfetched, 2000);
    assert_int_equal(stats.evictions, 0);
    assert_true(stats.memory_used_bytes + 900000 < used);
}

static void test_only_what_is_over(void **unused)
{
    for (unsigned i = 0; i < 2000; i++)
        store(i, i + 1, 100, i % 2 ? 10 : 0);
    kv_tick(rig.worker, 10 + 60);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 1000);
    struct kv_view view;
    struct kv_key key = rig_key(rig.kv, "key1998");
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
}

static void test_large_items_expire(void **unused)
{
    store(0, 10, 100000, 10);
    store(10, 20, 100000, 0);
    kv_tick(rig.worker, 100);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 10);
}

/*
 * Only the first and the last segment of a large item have others that live on, and are not worth a
 * scan yet: those between them are, and the item goes as a whole.
 */
static void test_large_item_expires_among_others(void **unused)
{
    assert_int_equal(kv_u32_load_relaxed(&rig.kv->ttl_classes), 0);
    store(0, 10, 100, 0);
    store(10, 11, 200000, 10);
    store(11, 21, 100, 0);
    kv_tick(rig.worker, 10);
    quiesce(100);
    assert_int_equal(rig_stats(rig.kv).items, 20);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
}

/* A scan that ends with its worker leaves its segment to the next sweep. */
static void test_worker_leaves_in_the_middle_of_a_scan(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    unsigned loops = 0;
    store(0, 2000, 20, 10);
    kv_tick(other, 10);
    while (other->cleaner.mode != KV_CLEAN_EXPIRE && loops++ < 100)
        kv_quiesce(other);
    assert_int_equal(other->cleaner.mode, KV_CLEAN_EXPIRE);
    kv_leave(other);
    assert_true(rig_stats(rig.kv).items > 1000);
    kv_tick(rig.worker, 11);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

/* An open segment with live items stays open: a few items each second share it. */
static void test_open_segment_is_kept_for_the_next_items(void **unused)
{
    uint64_t used = rig_stats(rig.kv).memory_used_bytes;
    for (uint32_t now_s = 2; now_s < 100; now_s++) {
        kv_tick(rig.worker, now_s);
        store(now_s, now_s + 1, 100, 0);
        quiesce(30);
        assert_int_equal(rig.worker->sweep_s, now_s);
    }
    assert_int_equal(rig_stats(rig.kv).items, 98);
    used += 2 * kv_segments_bytes(&rig.kv->segments);
    assert_true(rig_stats(rig.kv).memory_used_bytes <= used);
}

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = *(const uint32_t *)ctx;
    return KV_TOUCH;
}

static void touch(unsigned number, uint32_t exptime)
{
    char name[24];
    snprintf(name, sizeof(name), "key%u", number);
    struct kv_key key = rig_key(rig.kv, name);
    struct kv_change change = {0};
    assert_int_equal(kv_update(rig.worker, &key, decide_touch, &exptime, &change), KV_TOUCH);
}

static void test_touch_moves_the_time(void **unused)
{
    store(0, 400, 100, 10);
    store(400, 800, 100, 0);
    for (unsigned i = 0; i < 400; i++)
        touch(i, 100);
    for (unsigned i = 400; i < 800; i++)
        touch(i, 20);
    kv_tick(rig.worker, 19);
    quiesce(200);
    assert_int_equal(rig_stats(rig.kv).items, 800);
    kv_tick(rig.worker, 90);
    quiesce(200);
    assert_int_equal(rig_stats(rig.kv).items, 400);
    kv_tick(rig.worker, 100 + 60); /* segments that had immortals are looked at a little later */
    quiesce(200);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

static enum kv_verdict decide_renew(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = *(const uint32_t *)ctx;
    return KV_RENEW;
}

/* The segment that a worker fills comes back once nothing in it lives, before it is full. */
static void test_segment_of_few_items_comes_back(void **unused)
{
    uint64_t before = rig_stats(rig.kv).memory_used_bytes;
    store(0, 3, 100, 10);
    assert_true(rig_stats(rig.kv).memory_used_bytes > before);
    kv_tick(rig.worker, 10);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(rig_stats(rig.kv).memory_used_bytes, before);
}

/* A worker appends to its open segment without a lock: no other worker scans it. */
static void test_open_segment_of_another_worker_is_left_to_it(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    kv_tick(other, 1);
    store(0, 3, 100, 10);
    kv_tick(other, 10);
    for (unsigned i = 0; i < 300; i++)
        kv_quiesce(other);
    assert_int_equal(rig_stats(rig.kv).items, 3);
    kv_tick(rig.worker, 10);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    kv_leave(other);
}

/* Copies are alone in their segment, whose bounds of expiry have to include them. */
static void test_renewed_items_expire(void **unused)
{
    uint32_t exptime = 20;
    store(0, 400, 100, 100);
    for (unsigned i = 0; i < 400; i++) {
        char name[24];
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        struct kv_change change = {0};
        assert_int_equal(kv_update(rig.worker, &key, decide_renew, &exptime, &change), KV_RENEW);
    }
    kv_tick(rig.worker, 20);
    quiesce(200);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

/* The log may take back the record that a scan of the open segment would read next. */
static void test_walk_through_an_open_segment_survives_a_drop(void **unused)
{
    struct kv_key key = rig_key(rig.kv, "dropped");
    enum kv_error error;
    store(0, 100, 10, 5);
    kv_tick(rig.worker, 5);
    for (unsigned i = 0; i < 500; i++) {
        struct kv_item *item = kv_item_new(rig.worker, &key, 10 + i % 90, 0, 5, &error);
        kv_quiesce(rig.worker);
        kv_item_drop(rig.worker, item);
        store(200 + i, 201 + i, i % 50, 5);
    }
    kv_tick(rig.worker, 6);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_expired, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_items_expire, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_item_expires_among_others, setup_mixed,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_worker_leaves_in_the_middle_of_a_scan, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_open_segment_is_kept_for_the_next_items, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_segment_of_few_items_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_segment_of_another_worker_is_left_to_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_touch_moves_the_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renewed_items_expire, setup, teardown),
        cmocka_unit_test_setup_teardown(test_walk_through_an_open_segment_survives_a_drop, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
