/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes: few and many, with and without a purge in between. More than 255 flushes without a
 * purge make the table wide (generation.h).
 */
#include "kv_rig.h"

#include "kv/engine.h"

#define MANY 1000 /* tags come round almost four times */
#define LARGE_LEN 100000

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 4 * MIB, 2, true, 1);
}

static int setup_without_eviction(void **unused)
{
    return rig_open(&rig, 4 * MIB, 2, false, 1);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static struct kv_key key_of(unsigned number)
{
    static char names[16][24]; /* of the last few keys */
    static unsigned next;
    char *name = names[next++ % U_ARRAY_LEN(names)];
    snprintf(name, sizeof(names[0]), "key%u", number);
    return rig_key(rig.kv, name);
}

static void store(unsigned from, unsigned to, uint32_t value_len)
{
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = key_of(i);
        kv_release_views(rig.worker);
        rig_set(rig.worker, &key, value_len, i);
    }
}

static bool has(unsigned number)
{
    struct kv_view view;
    struct kv_key key = key_of(number);
    return kv_peek(rig.worker, &key, &view) == KV_HIT &&
           rig_is_filled(view.item, view.value_len, number);
}

static void quiesce(unsigned times)
{
    while (times-- > 0)
        kv_quiesce(rig.worker);
}

static void flush(unsigned times)
{
    while (times-- > 0)
        kv_flush(rig.worker);
}

static bool is_wide(void)
{
    return kv_generation_is_wide(kv_u64_load_relaxed(&rig.kv->generation));
}

static void test_flushed_items_are_purged(void **unused)
{
    store(0, 3000, 300);
    flush(1);
    store(5000, 5100, 300);
    quiesce(300);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 100);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.expired_reclaimed, 0);
    assert_int_equal(kv_u64_load_relaxed(&rig.kv->purged), 1);
}

/* A flush after the end of a purge starts another purge. */
static void test_each_flush_is_purged(void **unused)
{
    for (uint64_t flushes = 1; flushes <= 3; flushes++) {
        store(0, 100, 10);
        flush(1);
        quiesce(300);
        assert_int_equal(rig_stats(rig.kv).items, 0);
        assert_int_equal(kv_u64_load_relaxed(&rig.kv->purged), flushes);
        assert_int_equal(rig_stats(rig.kv).flushes_behind, 0);
    }
}

/* A flush looks at no item, however many there are and however many flushes came before. */
static void test_flushes_leave_the_work_to_the_purge(void **unused)
{
    store(0, 3000, 300);
    flush(MANY);
    assert_int_equal(rig_stats(rig.kv).items, 3000);
    for (unsigned i = 0; i < 3000; i++)
        assert_false(has(i));
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(rig_stats(rig.kv).no_memory, 0);
}

/* Each flush sees a new item, and the tag of each generation is also that of older ones. */
static void test_sets_between_many_flushes(void **unused)
{
    for (unsigned i = 0; i < MANY; i++) {
        store(i, i + 1, i % 7 == 0 ? LARGE_LEN / 8 : 10);
        assert_true(has(i));
        flush(1);
        assert_false(has(i));
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_false(has(i));
    store(7, 8, 10);
    assert_true(has(7));
}

/* The generation of an item is right in whatever segment it lies, whether old or new. */
static void test_items_of_each_generation(void **unused)
{
    store(0, 20, 10);
    for (unsigned i = 0; i < 2 * 256; i++) {
        flush(1);
        for (unsigned k = 0; k < 20; k++)
            assert_false(has(k));
        if (i % 256 == 200)
            store(100, 120, LARGE_LEN / 10);
    }
    assert_true(is_wide());
    assert_false(has(100));
}

static void test_purge_makes_the_table_narrow_again(void **unused)
{
    store(0, 1, 10);
    flush(KV_GENERATIONS - 1);
    assert_false(is_wide());
    flush(1);
    assert_true(is_wide());
    store(1, 2, 10);
    struct kv_key key = key_of(1);
    struct kv_short found;
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    assert_false(kv_get_short(rig.worker, &key, &found));
    assert_true(has(1));
    quiesce(300);
    assert_false(is_wide());
    key = key_of(1);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    assert_true(kv_get_short(rig.worker, &key, &found));
}

/* An upload that begins before a flush and ends after it is not flushed by it. */
static void upload(uint32_t value_len, unsigned flushes)
{
    struct kv_key key = key_of(0);
    enum kv_error error;
    char name[] = "key0"; /* outlives the names of the stores */
    key.bytes = (const uint8_t *)name;
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, value_len, 7, 0, &error)};
    rig_fill(change.item, value_len, 0);
    for (unsigned i = 0; i < flushes; i++) {
        flush(1);
        store(1, 2, 10);
    }
    kv_update(rig.worker, &key, rig_decide_replace, NULL, &change);
    assert_true(has(0));
    assert_true(has(1));
    rig_check(rig.kv);
    struct kv_view view;
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.flags, 7);
    assert_int_equal(view.cas, change.cas);
    flush(1);
    assert_false(has(0));
}

static void test_uploads_across_flushes(void **unused)
{
    upload(10, 1);
    upload(LARGE_LEN, 3);
    upload(10, MANY);
    upload(1000, MANY);
    upload(LARGE_LEN, MANY);
    quiesce(300);
    upload(LARGE_LEN, 1);
}

static void test_upload_across_flushes_replaces(void **unused)
{
    store(0, 1, LARGE_LEN);
    upload(LARGE_LEN, MANY);
    store(0, 1, 10);
    struct kv_key key = key_of(0);
    enum kv_error error;
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, 20, 0, 0, &error)};
    rig_fill(change.item, 20, 0);
    flush(MANY);
    store(0, 1, 10);
    kv_update(rig.worker, &key, rig_decide_replace, NULL, &change);
    assert_true(has(0));
    assert_int_equal(rig_stats(rig.kv).items, 2); /* key1 of upload() is not purged yet */
}

/* A scan in a wide table keeps moved items valid, and flushed items flushed. */
static void walk_all(void)
{
    for (uint32_t i = 0; i < kv_segments_count(&rig.kv->segments); i++) {
        if (kv_clean_begin(rig.worker, i, KV_CLEAN_COMPACT))
            kv_clean_step(rig.worker, UINT32_MAX);
        kv_release_views(rig.worker);
    }
}

static void test_items_move_in_a_wide_table(void **unused)
{
    store(0, 100, 300);
    flush(300);
    store(100, 150, 300);
    for (unsigned round = 0; round < 3; round++) {
        walk_all();
        for (unsigned i = 100; i < 150; i++)
            assert_true(has(i));
        for (unsigned i = 0; i < 100; i++)
            assert_false(has(i));
    }
    flush(256);
    walk_all();
    for (unsigned i = 0; i < 150; i++)
        assert_false(has(i));
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

static enum kv_verdict decide_renew(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = 1000;
    return KV_RENEW;
}

static void test_renewed_in_a_wide_table(void **unused)
{
    store(0, 1, 10);
    for (unsigned i = 0; i < MANY; i++) {
        struct kv_key key = key_of(0);
        struct kv_change change = {0};
        store(0, 1, 10);
        kv_update(rig.worker, &key, decide_renew, NULL, &change);
        assert_true(has(0));
        flush(1);
        assert_false(has(0));
    }
}

/* Flushed items that the purge has not found yet leave when their memory is wanted. */
static void test_memory_comes_back_in_a_wide_table(void **unused)
{
    for (unsigned round = 0; round < 30; round++) {
        store(0, 2000, 1000);
        flush(100);
    }
    assert_true(is_wide());
    assert_int_equal(rig_stats(rig.kv).no_memory, 0);
}

/* The last worker that has not announced delays the purge, and nothing else. */
static void test_purge_waits_for_readers_after_its_last_chain(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    store(0, 10, 10);
    flush(1);
    quiesce(10);
    assert_int_equal(rig_stats(rig.kv).items, 10); /* `other` may publish an older item */
    kv_quiesce(other);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(kv_u64_load_relaxed(&rig.kv->purged), 0); /* `other` may look at one */
    kv_quiesce(other);
    quiesce(2);
    assert_int_equal(kv_u64_load_relaxed(&rig.kv->purged), 1);
    kv_leave(other);
}

static uint64_t purged(void)
{
    return kv_u64_load_relaxed(&rig.kv->purged);
}

/* Flushes during a purge keep the table wide after it: a generation has the tag of older items. */
static void test_table_stays_wide_after_flushes_in_a_purge(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    flush(KV_GENERATIONS);
    quiesce(1);
    kv_quiesce(other);
    quiesce(300); /* all chains; `other` may still look at an item */
    store(0, 1, 10);
    flush(256);
    assert_int_equal(purged(), 0);
    kv_quiesce(other);
    quiesce(1);
    assert_int_equal(purged(), KV_GENERATIONS);
    assert_true(is_wide());
    assert_false(has(0));
    kv_leave(other);
}

/* An item that is published so many flushes after its allocation is not copied. */
static void expect_published_in_place(uint32_t value_len, unsigned flushes)
{
    struct kv_key key = key_of(0);
    struct kv_view view;
    enum kv_error error;
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, value_len, 0, 0, &error)};
    rig_fill(change.item, value_len, 0);
    flush(flushes);
    assert_int_equal(kv_update(rig.worker, &key, rig_decide_replace, NULL, &change), KV_REPLACE);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_ptr_equal(view.item, change.item);
}

/* In a wide table items are allocated in segments that are young enough. */
static void test_new_items_are_not_copied(void **unused)
{
    store(1, 2, 10);
    flush(300);
    expect_published_in_place(10, 0);
    flush(300);
    expect_published_in_place(LARGE_LEN, 0);
    flush(130);
    expect_published_in_place(10, 120);
}

/* The item that an upload after so many flushes makes visible. */
static struct kv_item *published(unsigned flushes, uint32_t exptime, unsigned freq)
{
    struct kv_key key = key_of(0);
    struct kv_view view;
    enum kv_error error;
    kv_log_close(rig.worker, rig.worker->log_last);
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, 10, 0, exptime, &error)};
    rig_fill(change.item, 10, 0);
    kv_item_access_store(change.item, kv_access_make(1, freq << KV_ACCESS_FREQ_SHIFT));
    flush(flushes);
    assert_int_equal(kv_update(rig.worker, &key, rig_decide_replace, NULL, &change), KV_REPLACE);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    return view.item == change.item ? NULL : (struct kv_item *)(uintptr_t)view.item;
}

/* After so many flushes that its tag comes round, an upload is copied; the copy is as good. */
static void test_upload_across_as_many_flushes_as_tags(void **unused)
{
    store(1, 2, 10);
    flush(300);
    assert_null(published(255, 0, 0));
    assert_non_null(published(256, 0, 0));
    struct kv_item *copy = published(256, 5, 2);
    assert_non_null(copy);
    assert_int_equal(kv_access_freq(kv_item_access(copy)), 2);
    assert_int_equal(kv_item_exptime(copy), 5);
    kv_log_close(rig.worker, rig.worker->log_last);
    kv_tick(rig.worker, 6);
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1); /* by the sweep */
}

/* A flushed item that a lookup finds has not expired. */
static void test_flushed_items_count_as_flushed(void **unused)
{
    struct kv_key key = key_of(0);
    struct kv_view view;
    store(0, 1, 10);
    flush(1);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS_FLUSHED);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 0);
}

/* The purge leaves expired items to the sweep, which counts them as expired. */
static void test_expired_items_are_not_purged(void **unused)
{
    struct kv_key key = key_of(0);
    enum kv_error error;
    flush(1);
    rig_store(rig.worker, &key, 10, 0, 0, 5, &error);
    kv_tick(rig.worker, 6);
    while (purged() == 0) {
        kv_epoch_announce(&rig.kv->epoch, rig.worker->member);
        kv_purge_step(rig.worker);
    }
    quiesce(300);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
}

/* Purged generations do not count for the age of an item's segment. */
static void test_uploads_are_not_copied_after_a_purge(void **unused)
{
    struct kv_key key = key_of(0);
    struct kv_view view;
    enum kv_error error;
    struct kv_change change = {.item = kv_item_new(rig.worker, &key, 10, 0, 0, &error)};
    rig_fill(change.item, 10, 0);
    flush(200);
    quiesce(300);
    assert_int_equal(purged(), 200);
    flush(KV_GENERATIONS);
    assert_true(is_wide());
    assert_int_equal(kv_update(rig.worker, &key, rig_decide_replace, NULL, &change), KV_REPLACE);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_ptr_equal(view.item, change.item);
    flush(1);
    assert_false(has(0));
}

/* An item moves neither to a segment too old for its generation, nor after a flush. */
static void test_item_moves_where_its_generation_is_known(void **unused)
{
    struct kv_key key = key_of(0);
    struct kv_view view;
    enum kv_error error;
    struct kv_item *old = kv_item_new(rig.worker, &key, 10, 0, 0, &error);
    flush(256);
    store(0, 1, 10);
    struct kv_item *young = kv_item_new(rig.worker, &key, 10, 0, 0, &error);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    assert_false(kv_generation_may_move(rig.kv, view.item, old));
    assert_true(kv_generation_may_move(rig.kv, view.item, young));
    flush(300);
    struct kv_item *younger = kv_item_new(rig.worker, &key, 10, 0, 0, &error);
    assert_false(kv_generation_may_move(rig.kv, view.item, younger));
    kv_item_drop(rig.worker, younger);
    kv_item_drop(rig.worker, young);
    kv_item_drop(rig.worker, old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flushed_items_are_purged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_flush_is_purged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flushes_leave_the_work_to_the_purge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sets_between_many_flushes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_items_of_each_generation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_purge_makes_the_table_narrow_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uploads_across_flushes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upload_across_flushes_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_items_move_in_a_wide_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_items_move_in_a_wide_table, setup_without_eviction,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_renewed_in_a_wide_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_comes_back_in_a_wide_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_purge_waits_for_readers_after_its_last_chain, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_table_stays_wide_after_flushes_in_a_purge, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_new_items_are_not_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upload_across_as_many_flushes_as_tags, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_flushed_items_count_as_flushed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expired_items_are_not_purged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uploads_are_not_copied_after_a_purge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_item_moves_where_its_generation_is_known, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
