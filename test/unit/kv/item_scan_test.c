/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over all items: each once, whatever happens meanwhile, in parts of a bounded size. */
#include "kv_rig.h"

#include <stdlib.h>

#include "kv/engine.h"

#define KEYS 3000

static struct kv_rig rig;
static uint8_t seen[KEYS];

static int setup(void **unused)
{
    memset(seen, 0, sizeof(seen));
    return rig_open(&rig, 4 * MIB, 2, true, 1);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static struct kv_key key_of(unsigned number, char name[24])
{
    snprintf(name, 24, "key%u", number);
    return rig_key(rig.kv, name);
}

static void store(unsigned from, unsigned to, uint32_t value_len, uint32_t exptime)
{
    char name[24];
    enum kv_error error;
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = key_of(i, name);
        kv_release_views(rig.worker);
        assert_true(rig_store(rig.worker, &key, value_len, i, i % 3, exptime, &error) != 0);
    }
}

static unsigned number_of(const struct kv_view *view)
{
    char name[24] = "";
    unsigned number;
    assert_in_range(view->key_len, 4, 20);
    memcpy(name, view->key, view->key_len);
    number = (unsigned)strtoul(name + 3, NULL, 10);
    assert_in_range(number, 0, KEYS - 1);
    return number;
}

static void note(void *ctx, const struct kv_view *view)
{
    unsigned *count = ctx;
    unsigned number = number_of(view);
    assert_int_equal(view->flags, number % 3);
    assert_true(rig_is_filled(view->item, view->value_len, number));
    seen[number]++;
    ++*count;
}

static const struct kv_quantum whole = {UINT32_MAX, UINT32_MAX};

static void test_empty(void **unused)
{
    struct kv_cursor cursor = {0};
    unsigned count = 0;
    assert_false(kv_scan(rig.worker, &cursor, &whole, note, &count));
    assert_false(kv_scan(rig.worker, &cursor, &whole, note, &count));
    assert_int_equal(count, 0);
}

static void test_each_once(void **unused)
{
    struct kv_cursor cursor = {0};
    unsigned count = 0;
    store(0, KEYS, 100, 0);
    assert_false(kv_scan(rig.worker, &cursor, &whole, note, &count));
    assert_int_equal(count, KEYS);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(seen[i], 1);
}

static void test_quanta_are_bounded(void **unused)
{
    const struct kv_quantum few_items = {UINT32_MAX, 10}, few_chains = {5, UINT32_MAX};
    struct kv_cursor cursor = {0};
    unsigned count = 0, calls = 0;
    bool more = true;
    store(0, KEYS, 100, 0);
    for (; more; calls++) {
        unsigned before = count;
        more = kv_scan(rig.worker, &cursor, &few_items, note, &count);
        assert_in_range(count - before, more ? 10 : 0, 9 + KV_BUCKET_SLOTS * KV_CHAIN_BUCKETS_MAX);
    }
    assert_int_equal(count, KEYS);
    assert_true(calls > 30);
    cursor.position = 0;
    calls = 0;
    while (kv_scan(rig.worker, &cursor, &few_chains, note, &count))
        calls++;
    assert_int_equal(count, 2 * KEYS);
    uint64_t chains = UINT64_C(1) << kv_index_power(&rig.kv->index);
    assert_in_range(calls, chains / 5 - 1, chains / 5 + 1);
}

/* Between the parts of a scan every key is replaced and eviction moves items. */
static void test_changes_meanwhile(void **unused)
{
    const struct kv_quantum part = {64, UINT32_MAX};
    struct kv_cursor cursor = {0};
    unsigned count = 0, round = 0;
    store(0, KEYS / 2, 100, 0);
    while (kv_scan(rig.worker, &cursor, &part, note, &count)) {
        store(0, KEYS / 2, 60 + round % 50, 0);
        kv_quiesce(rig.worker);
        round++;
    }
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    for (unsigned i = 0; i < KEYS / 2; i++)
        assert_int_equal(seen[i], 1);
    assert_true(round > 10);
}

static void test_what_is_over_is_not_shown(void **unused)
{
    struct kv_cursor cursor = {0};
    unsigned count = 0;
    store(0, 100, 100, 0);
    kv_flush(rig.worker);
    store(100, 200, 100, 5);
    store(200, 300, 100, 6);
    kv_tick(rig.worker, 5);
    kv_scan(rig.worker, &cursor, &whole, note, &count);
    assert_int_equal(count, 100);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(seen[i], i >= 200);
    assert_int_equal(rig_stats(rig.kv).items, 300); /* nothing is removed either */
}

static void test_a_walk_is_no_access(void **unused)
{
    char name[24];
    struct kv_key key = key_of(1, name);
    struct kv_cursor cursor = {0};
    struct kv_view view;
    unsigned count = 0;
    store(1, 2, 100, 0);
    kv_tick(rig.worker, 9);
    kv_scan(rig.worker, &cursor, &whole, note, &count);
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    assert_int_equal(view.state & KV_FETCHED, 0);
    assert_int_equal(view.last_access, 1);
}

static void test_crawl_takes_back_what_is_over(void **unused)
{
    struct kv_cursor cursor = {0};
    char name[24];
    struct kv_key key = key_of(150, name);
    struct kv_view view;
    store(0, 100, 100, 0);
    store(100, 200, 100, 5);
    kv_get(rig.worker, &key, &view);
    kv_tick(rig.worker, 5);
    assert_false(kv_crawl(rig.worker, &cursor, &whole, 2)); /* none is of class 1 */
    assert_int_equal(rig_stats(rig.kv).crawl_checked, 0);
    cursor.position = 0;
    assert_false(kv_crawl(rig.worker, &cursor, &whole, 1));
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 100);
    assert_int_equal(stats.crawl_checked, 200);
    assert_int_equal(stats.crawl_reclaimed, 100);
    assert_int_equal(stats.expired_unfetched, 99);
    assert_int_equal(stats.expired_reclaimed, 0);
}

static void test_crawl_goes_on_where_it_stopped(void **unused)
{
    const struct kv_quantum part = {UINT32_MAX, 50};
    struct kv_cursor cursor = {0};
    unsigned calls = 1;
    store(0, KEYS, 60, 5);
    kv_tick(rig.worker, 5);
    while (kv_crawl(rig.worker, &cursor, &part, UINT64_MAX))
        calls++;
    assert_in_range(calls, KEYS / (50 + KV_BUCKET_SLOTS * KV_CHAIN_BUCKETS_MAX), KEYS / 50 + 1);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_int_equal(rig_stats(rig.kv).crawl_reclaimed, KEYS);
}

static void count_evicted(void *ctx, const struct kv_view *view)
{
    unsigned *count = ctx;
    assert_true(rig_is_filled(view->item, view->value_len, number_of(view)));
    ++*count;
}

static void test_evictions_are_told(void **unused)
{
    unsigned evicted = 0;
    kv_on_evicted(rig.worker, count_evicted, &evicted);
    for (unsigned i = 0; i < 100; i++) {
        store(i * 30, i * 30 + 30, 1900, 0);
        kv_quiesce(rig.worker);
    }
    assert_true(evicted > 100);
    assert_int_equal(evicted, rig_stats(rig.kv).evictions);
    kv_on_evicted(rig.worker, NULL, NULL);
    store(0, KEYS, 1900, 0);
    assert_true(rig_stats(rig.kv).evictions > evicted);
}

/* Who joins later inherits nothing from who has left. */
static void test_evictions_are_told_until_a_worker_leaves(void **unused)
{
    unsigned evicted = 0;
    kv_on_evicted(rig.worker, count_evicted, &evicted);
    kv_leave(rig.worker);
    rig.worker = kv_join(rig.kv);
    for (unsigned i = 0; i < 100; i++) {
        store(i * 30, i * 30 + 30, 1900, 0);
        kv_quiesce(rig.worker);
    }
    assert_true(rig_stats(rig.kv).evictions > 100);
    assert_int_equal(evicted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_each_once),
        TEST(test_quanta_are_bounded),
        TEST(test_changes_meanwhile),
        TEST(test_what_is_over_is_not_shown),
        TEST(test_a_walk_is_no_access),
        TEST(test_crawl_takes_back_what_is_over),
        TEST(test_crawl_goes_on_where_it_stopped),
        TEST(test_evictions_are_told),
        TEST(test_evictions_are_told_until_a_worker_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
