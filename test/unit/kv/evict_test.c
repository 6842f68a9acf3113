/* SPDX-License-Identifier: BSD-3-Clause */
/* Making room: what stays, what goes, and that there is room for a worker that keeps storing. */
#include "kv_rig.h"

#include "kv/engine.h"

static struct kv_key numbered(const struct kv *kv, char name[24], const char *kind, unsigned n)
{
    snprintf(name, 24, "%s%u", kind, n);
    return rig_key(kv, name);
}

static void test_memory_stays_below_the_limit(void **unused)
{
    struct kv *kv = rig_create(4 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned i = 0; i < 50000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_set(worker, &key, i % 1000, i);
        kv_quiesce(worker);
        if (i % 500 == 0) {
            struct kv_stats stats = rig_stats(kv);
            assert_true(stats.memory_used_bytes <= stats.memory_limit_bytes);
        }
    }
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.no_memory, 0);
    assert_true(stats.evictions > 40000);
    assert_int_equal(stats.evicted_unfetched, stats.evictions);
    assert_int_equal(stats.items + stats.evictions, 50000);
    assert_true(stats.item_bytes > stats.memory_limit_bytes * 7 / 10); /* and it is well used */
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Items that are fetched now and then outlive many times the memory of items that aren't. */
static void test_fetched_items_get_a_second_chance(void **unused)
{
    struct kv *kv = rig_create(4 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    struct kv_view view;
    for (unsigned i = 0; i < 100; i++) {
        struct kv_key key = numbered(kv, name, "wanted", i);
        rig_set(worker, &key, i == 50 ? 40000 : 300, i);
    }
    for (unsigned i = 0; i < 60000; i++) {
        struct kv_key key = numbered(kv, name, "scan", i);
        rig_set(worker, &key, 300, i);
        if (i % 20 == 0) {
            key = numbered(kv, name, "wanted", i / 20 % 100);
            kv_get(worker, &key, &view);
        }
        kv_quiesce(worker);
    }
    unsigned left = 0;
    for (unsigned i = 0; i < 100; i++) {
        struct kv_key key = numbered(kv, name, "wanted", i);
        if (kv_get(worker, &key, &view) == KV_HIT) {
            assert_true(rig_is_filled(view.item, view.value_len, i));
            left++;
        }
    }
    assert_int_equal(left, 100);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static uint32_t access_of(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv_find find;
    return kv_index_find(&worker->kv->index, key, &find) ? kv_item_access(find.item) : 0;
}

/*
 * The mark by which the extents of a large item follow its head ends with its last extent. Most
 * items of less than half a segment are in one segment, so most scans see all of them.
 */
static void test_large_items_are_retained_once_per_verdict(void **unused)
{
    enum { WANTED = 40 };
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    uint32_t value_len = kv_segments_bytes(&kv->segments) * 3 / 8;
    unsigned left = 0, marked = 0;
    struct kv_view view;
    char name[24];
    for (unsigned i = 0; i < WANTED; i++) {
        struct kv_key key = numbered(kv, name, "wanted", i);
        rig_set(worker, &key, value_len, i);
    }
    for (unsigned i = 0; i < 60000; i++) {
        struct kv_key key = numbered(kv, name, "scan", i);
        rig_set(worker, &key, 300, i);
        key = numbered(kv, name, "wanted", i % WANTED);
        kv_get(worker, &key, &view);
        kv_quiesce(worker);
    }
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(worker);
    for (unsigned i = 0; i < WANTED; i++) {
        struct kv_key key = numbered(kv, name, "wanted", i);
        left += rig_is_present(worker, &key);
        marked += (access_of(worker, &key) & KV_ACCESS_RETAINED) != 0;
    }
    assert_true(left > WANTED / 2);
    assert_true(marked < left / 2);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_clock_lets_old_items_go_first(void **unused)
{
    struct kv *kv = rig_create_policy(2 * MIB, 1, true, KV_POLICY_CLOCK);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned i = 0; i < 10000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_set(worker, &key, 300, i);
        kv_quiesce(worker);
    }
    unsigned recent = 0, old = 0;
    for (unsigned i = 0; i < 10000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        if (i < 4000)
            old += rig_is_present(worker, &key);
        else if (i >= 7000)
            recent += rig_is_present(worker, &key);
    }
    assert_int_equal(old, 0);
    assert_int_equal(recent, 3000);
    kv_leave(worker);
    kv_destroy(kv);
}

/* What kv_item_new() promises: 64 packets' worth of 1 MiB values between two quiescent states. */
static void test_burst_of_large_values(void **unused)
{
    struct kv *kv = rig_create(64 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 200; i++) {
            struct kv_key key = numbered(kv, name, "key", round * 1000 + i);
            rig_set(worker, &key, 1 << 20, i);
        }
        kv_quiesce(worker);
    }
    assert_int_equal(rig_stats(kv).no_memory, 0);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* A worker that has viewed all of the memory can store after kv_release_views(). */
static void test_burst_after_looking_at_everything(void **unused)
{
    struct kv *kv = rig_create(64 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned i = 0; i < 100000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_set(worker, &key, 1000, i);
        kv_quiesce(worker);
    }
    for (unsigned i = 0; i < 100; i++)
        kv_quiesce(worker);
    struct kv_view view;
    for (unsigned i = 0; i < 100000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        kv_peek(worker, &key, &view);
    }
    kv_release_views(worker);
    for (unsigned i = 0; i < 100000; i++) {
        struct kv_key key = numbered(kv, name, "burst", i);
        rig_set(worker, &key, 1000, i);
    }
    assert_int_equal(rig_stats(kv).no_memory, 0);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Overwriting views all of the memory, too; kv_release_views() lets the worker continue. */
static void test_burst_of_overwrites(void **unused)
{
    struct kv *kv = rig_create(8 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned round = 0; round < 40; round++) {
        uint32_t value_len = round % 2 ? 1000 : 100000;
        for (unsigned i = 0; i < (round % 2 ? 6000 : 60); i++) {
            struct kv_key key = numbered(kv, name, "key", i);
            kv_release_views(worker);
            rig_set(worker, &key, value_len, i);
        }
        assert_int_equal(rig_stats(kv).no_memory, 0);
        kv_quiesce(worker);
    }
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_other_online_worker_delays_but_does_not_stop(void **unused)
{
    struct kv *kv = rig_create(4 * MIB, 2, true);
    struct kv_worker *worker = kv_join(kv), *other = kv_join(kv);
    char name[24];
    unsigned stored = 0;
    enum kv_error error = KV_OK;
    for (; stored < 100000 && error == KV_OK; stored++) {
        struct kv_key key = numbered(kv, name, "key", stored);
        rig_store(worker, &key, 1000, stored, 0, 0, &error);
        kv_quiesce(worker);
    }
    assert_int_equal(error, KV_NO_MEMORY); /* the other one sleeps on */
    assert_true(stored > 3000);
    assert_int_equal(rig_stats(kv).no_memory, 1);
    kv_quiesce(other);
    for (unsigned i = 0; i < 20000; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_set(worker, &key, 1000, i);
        kv_quiesce(worker);
        kv_quiesce(other);
    }
    assert_int_equal(rig_stats(kv).no_memory, 1);
    rig_check(kv);
    kv_leave(worker);
    kv_leave(other);
    kv_destroy(kv);
}

/* ---- without eviction -------------------------------------------------------------------- */

static unsigned fill_up(struct kv *kv, struct kv_worker *worker, uint32_t value_len)
{
    char name[24];
    enum kv_error error = KV_OK;
    unsigned count = 0;
    while (error == KV_OK) {
        struct kv_key key = numbered(kv, name, "fill", count);
        if (rig_store(worker, &key, value_len, count, 0, 0, &error) != 0)
            count++;
        kv_quiesce(worker);
    }
    assert_int_equal(error, KV_NO_MEMORY);
    return count;
}

/* Fills the memory, then repeatedly deletes and stores a random tenth of the items. */
static void endurance(uint64_t memory_bytes, uint32_t value_len)
{
    struct kv *kv = rig_create(memory_bytes, 1, false);
    struct kv_worker *worker = kv_join(kv);
    unsigned fill_count = fill_up(kv, worker, value_len);
    unsigned count = fill_count;
    assert_true((uint64_t)count * value_len > memory_bytes / 2);
    char name[24];
    while (count > fill_count * 8 / 10) {
        struct kv_key key = numbered(kv, name, "fill", --count);
        rig_delete(worker, &key);
    }
    for (unsigned round = 0; round < 20; round++) {
        unsigned first = round * 7919 % count;
        for (unsigned i = 0; i < count / 10; i++) {
            struct kv_key key = numbered(kv, name, "fill", (first + i * 13) % count);
            rig_delete(worker, &key);
            kv_quiesce(worker);
        }
        for (unsigned i = 0; i < count / 10; i++) {
            unsigned number = (first + i * 13) % count;
            struct kv_key key = numbered(kv, name, "fill", number);
            rig_set(worker, &key, value_len, number);
            kv_quiesce(worker);
        }
    }
    struct kv_view view;
    for (unsigned i = 0; i < count; i++) {
        struct kv_key key = numbered(kv, name, "fill", i);
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        assert_true(rig_is_filled(view.item, view.value_len, i));
    }
    assert_int_equal(rig_stats(kv).evictions, 0);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_without_eviction_dead_memory_is_used_again(void **unused)
{
    endurance(2 * MIB, 100);
    endurance(2 * MIB, 1500);
    endurance(4 * MIB, 9000);
    endurance(8 * MIB, 100000);
}

static void test_without_eviction_expired_memory_is_used_again(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, false);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    enum kv_error error;
    for (uint32_t now_s = 1; now_s < 200; now_s++) {
        kv_tick(worker, now_s);
        for (unsigned i = 0; i < 200; i++) {
            struct kv_key key = numbered(kv, name, "key", now_s * 1000 + i);
            assert_true(rig_store(worker, &key, 1000, i, 0, now_s + 2, &error) != 0);
            kv_quiesce(worker);
        }
    }
    assert_int_equal(rig_stats(kv).evictions, 0);
    assert_true(rig_stats(kv).expired_reclaimed > 35000);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Immediately, before the purge. */
static void test_without_eviction_flushed_memory_is_used_again(void **unused)
{
    struct kv *kv = rig_create(16 * MIB, 1, false);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    enum kv_error error = KV_OK;
    unsigned count = 0;
    while (error == KV_OK) {
        struct kv_key key = numbered(kv, name, "old", count++);
        rig_store(worker, &key, 1000, count, 0, 0, &error);
        kv_quiesce(worker);
    }
    assert_int_equal(error, KV_NO_MEMORY);
    kv_flush(worker);
    for (unsigned i = 0; i < count - 1; i++) {
        struct kv_key key = numbered(kv, name, "new", i);
        rig_set(worker, &key, 1000, i);
        if (i % 1000 == 0) /* too rarely for the purge to make room */
            kv_quiesce(worker);
    }
    assert_int_equal(rig_stats(kv).evictions, 0);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_expired_items_go_before_live_ones(void **unused)
{
    struct kv *kv = rig_create(4 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    enum kv_error error;
    kv_tick(worker, 1);
    for (unsigned i = 0; i < 1000; i++) { /* the oldest */
        struct kv_key key = numbered(kv, name, "live", i);
        rig_set(worker, &key, 1000, i);
    }
    for (unsigned i = 0; i < 1500; i++) {
        struct kv_key key = numbered(kv, name, "short", i);
        rig_store(worker, &key, 1000, i, 0, 5, &error);
    }
    kv_tick(worker, 5);
    for (unsigned i = 0; i < 1500; i++) {
        struct kv_key key = numbered(kv, name, "new", i);
        rig_set(worker, &key, 1000, i);
        kv_quiesce(worker);
    }
    assert_int_equal(rig_stats(kv).evictions, 0);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* ---- policies ---------------------------------------------------------------------------- */

/* Stores numbered items of 300 bytes, with a quiescent state after each. */
static void store_range(struct kv_worker *worker, const char *kind, unsigned from, unsigned to)
{
    char name[24];
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = numbered(worker->kv, name, kind, i);
        rig_set(worker, &key, 300, i);
        kv_quiesce(worker);
    }
}

static unsigned count_present(struct kv_worker *worker, const char *kind, unsigned from,
                              unsigned to)
{
    char name[24];
    unsigned count = 0;
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = numbered(worker->kv, name, kind, i);
        count += rig_is_present(worker, &key);
    }
    kv_release_views(worker);
    return count;
}

static void fetch_range(struct kv_worker *worker, const char *kind, unsigned from, unsigned to)
{
    char name[24];
    struct kv_view view;
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = numbered(worker->kv, name, kind, i);
        kv_get(worker, &key, &view);
    }
    kv_release_views(worker);
}

/* S3-FIFO keeps items fetched twice during a scan of ten times the memory; CLOCK loses them. */
static void test_s3fifo_stands_a_scan(void **unused)
{
    static const enum kv_policy_kind policies[] = {KV_POLICY_S3FIFO, KV_POLICY_CLOCK};
    for (unsigned p = 0; p < 2; p++) {
        struct kv *kv = rig_create_policy(2 * MIB, 1, true, policies[p]);
        struct kv_worker *worker = kv_join(kv);
        store_range(worker, "wanted", 0, 1000);
        fetch_range(worker, "wanted", 0, 1000);
        fetch_range(worker, "wanted", 0, 1000);
        store_range(worker, "scan", 0, 60000);
        unsigned left = count_present(worker, "wanted", 0, 1000);
        if (policies[p] == KV_POLICY_S3FIFO)
            assert_int_equal(left, 1000);
        else
            assert_int_equal(left, 0);
        rig_check(kv);
        kv_leave(worker);
        kv_destroy(kv);
    }
}

/* What comes back soon after it was evicted, or is stored again in the main pool, goes there. */
static void test_s3fifo_remembers_what_it_evicted(void **unused)
{
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    store_range(worker, "key", 0, 10000);
    unsigned gone = 10000;
    while (count_present(worker, "key", gone - 1, gone))
        gone--;
    struct kv_key key = numbered(kv, name, "key", gone - 1); /* the youngest of those that went */
    assert_int_equal(kv_evict_place(worker, &key).pool, KV_POOL_MAIN);
    assert_int_equal(kv_evict_place(worker, &key).pool, KV_POOL_SMALL); /* asked and forgotten */

    key = numbered(kv, name, "key", 9999);
    assert_int_equal(kv_evict_place(worker, &key).pool, KV_POOL_SMALL);
    assert_int_equal(kv_evict_place(worker, &key).freq, 1);
    key = numbered(kv, name, "key", 3000); /* stored as long as there was room for all */
    assert_int_equal(kv_evict_place(worker, &key).pool, KV_POOL_MAIN);
    kv_leave(worker);
    kv_destroy(kv);
}

/* An item of the main pool is forgotten with its eviction; what came back takes its place. */
static void test_s3fifo_forgets_what_left_the_main_pool(void **unused)
{
    enum { FIRST = 3000, ALL = 10000 };
    static bool was_main[FIRST];
    struct kv *kv = rig_create(2 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_find find;
    char name[24];
    unsigned left = 0, remembered = 0;
    store_range(worker, "key", 0, FIRST);
    for (unsigned i = 0; i < FIRST; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        assert_true(kv_index_find(&kv->index, &key, &find));
        was_main[i] = kv_evict_pool(worker, find.item) == KV_POOL_MAIN;
    }
    store_range(worker, "key", FIRST, ALL);
    for (unsigned i = FIRST; i < ALL; i++)
        if (count_present(worker, "key", i, i + 1) == 0)
            store_range(worker, "key", i, i + 1);
    for (unsigned i = 0; i < FIRST; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        if (!was_main[i] || rig_is_present(worker, &key))
            continue;
        left++;
        remembered += kv_evict_place(worker, &key).pool == KV_POOL_MAIN;
    }
    assert_true(left > FIRST / 2);
    assert_in_range(remembered, 0, left / 20); /* fingerprints may be equal */
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Of four times what fits, some of the oldest are still there and some of the youngest are not. */
static void test_random_knows_no_age(void **unused)
{
    struct kv *kv = rig_create_policy(4 * MIB, 1, true, KV_POLICY_RANDOM);
    struct kv_worker *worker = kv_join(kv);
    store_range(worker, "key", 0, 40000);
    unsigned items = (unsigned)rig_stats(kv).items;
    assert_in_range(items, 9000, 12000);
    unsigned oldest = count_present(worker, "key", 0, 10000);
    unsigned youngest = count_present(worker, "key", 30000, 40000);
    assert_in_range(oldest, 50, 1500);     /* exp(-3) of the places would be some 500 */
    assert_in_range(youngest, 5000, 8500); /* 1 - exp(-1) of them some 6500 */
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static uint64_t gone(const struct kv *kv)
{
    return rig_stats(kv).evictions;
}

/* Neither a SET nor a quiescent state evicts more than some dozens of items. */
static void test_work_is_bounded(void **unused)
{
    for (int policy = 0; policy < KV_POLICIES; policy++) {
        struct kv *kv = rig_create_policy(8 * MIB, 1, true, (enum kv_policy_kind)policy);
        struct kv_worker *worker = kv_join(kv);
        char name[24];
        store_range(worker, "first", 0, 30000);
        for (unsigned i = 0; i < 30000; i++) {
            struct kv_key key = numbered(kv, name, "key", i);
            uint64_t before = gone(kv);
            rig_set(worker, &key, 20 + i % 300, i);
            assert_in_range(gone(kv) - before, 0, 64);
            if (i % 1000 >= 500) /* a long loop, then many short ones */
                continue;
            before = gone(kv);
            kv_quiesce(worker);
            assert_in_range(gone(kv) - before, 0, 128);
        }
        assert_int_equal(rig_stats(kv).no_memory, 0);
        kv_leave(worker);
        kv_destroy(kv);
    }
}

/* Values of all lengths, a limit that goes down and up: each policy keeps the books. */
static void test_policies_with_values_of_all_lengths(void **unused)
{
    for (int policy = 0; policy < KV_POLICIES; policy++) {
        struct kv *kv = rig_create_policy(16 * MIB, 1, true, (enum kv_policy_kind)policy);
        struct kv_worker *worker = kv_join(kv);
        struct kv_view view;
        char name[24];
        unsigned stored = 0;
        for (unsigned round = 0; round < 4; round++) {
            assert_true(kv_memory_limit_set(worker, (round % 2 ? 6 : 16) * MIB));
            for (unsigned i = 0; i < 3000; i++, stored++) {
                struct kv_key key = numbered(kv, name, "key", stored);
                rig_set(worker, &key, i % 40 == 0 ? 100000 + i * 7 : i % 7 * 500, stored);
                key = numbered(kv, name, "key", stored - i % 50);
                if (kv_get(worker, &key, &view) == KV_HIT)
                    assert_true(rig_is_filled(view.item, view.value_len, stored - i % 50));
                kv_quiesce(worker);
            }
            while (kv_is_resizing(kv))
                kv_quiesce(worker);
            struct kv_stats stats = rig_stats(kv);
            assert_true(stats.memory_used_bytes <= (round % 2 ? 6 : 16) * MIB);
            assert_int_equal(stats.items + stats.evictions, stored);
            assert_true(stats.evicted_active <= stats.evictions - stats.evicted_unfetched);
            rig_check(kv);
        }
        struct kv_stats all = rig_stats(kv);
        assert_in_range(all.evicted_unfetched, 1, all.evictions - 1);
        if (policy == KV_POLICY_RANDOM) /* counts no accesses */
            assert_int_equal(all.evicted_active, 0);
        kv_flush(worker);
        for (unsigned i = 0; i < 3000; i++)
            kv_quiesce(worker);
        assert_int_equal(rig_stats(kv).items, 0);
        rig_check(kv);
        kv_leave(worker);
        kv_destroy(kv);
    }
}

/* ---- times of expiry --------------------------------------------------------------------- */

/*
 * Items that live 20 seconds, five minutes, an hour and for ever are stored in turn, many times the
 * memory in total, but never more valid ones than fit: nothing is evicted.
 */
static void test_what_expires_makes_room_for_all(void **unused)
{
    static const uint32_t lives_s[] = {20, 300, 3600, 0};
    static const unsigned per_second[] = {400, 12, 1, 4};
    struct kv *kv = rig_create(8 * MIB, 1, true);
    struct kv_worker *worker = kv_join(kv);
    enum kv_error error;
    char name[24];
    unsigned stored = 0;
    for (uint32_t now_s = 1; now_s <= 900; now_s++) {
        kv_tick(worker, now_s);
        for (unsigned i = 0; i < 400; i++) {
            for (unsigned kind = 0; kind < 4; kind++) {
                if (i >= per_second[kind])
                    continue;
                struct kv_key key = numbered(kv, name, "key", stored++);
                uint32_t exptime = lives_s[kind] ? now_s + lives_s[kind] : 0;
                assert_true(rig_store(worker, &key, 200, i, 0, exptime, &error) != 0);
            }
            kv_quiesce(worker);
        }
    }
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.evictions, 0);
    assert_true(stats.expired_reclaimed > 350000);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* Full memory of which half expires in one second: at most 1 % of the evicted items were valid. */
static void test_expired_items_go_first_in_full_memory(void **unused)
{
    for (int policy = 0; policy < KV_POLICIES; policy++) {
        struct kv *kv = rig_create_policy(8 * MIB, 1, true, (enum kv_policy_kind)policy);
        struct kv_worker *worker = kv_join(kv);
        enum kv_error error;
        char name[24];
        kv_tick(worker, 1);
        unsigned stored = 0;
        while (gone(kv) == 0) {
            struct kv_key key = numbered(kv, name, "key", stored++);
            rig_store(worker, &key, 200, 1, 0, stored % 2 ? 30 : 0, &error);
            kv_quiesce(worker);
        }
        uint64_t before = gone(kv);
        kv_tick(worker, 30);
        for (unsigned i = 0; i < stored * 45 / 100; i++) {
            struct kv_key key = numbered(kv, name, "more", i);
            rig_set(worker, &key, 200, i);
            if (i % 100 == 0)
                kv_quiesce(worker);
        }
        assert_in_range(gone(kv) - before, 0, stored * 45 / 100 / 100);
        rig_check(kv);
        kv_leave(worker);
        kv_destroy(kv);
    }
}

/*
 * Full memory in which half of each segment expires in one second: a long value fits although walks
 * for expired items empty none of hundreds of segments.
 */
static void room_where_half_expires(bool evict, enum kv_policy_kind policy)
{
    /* So many workers that logs are not separated by time to live. */
    struct kv *kv = rig_create_policy(8 * MIB, 8, evict, policy);
    struct kv_worker *worker = kv_join(kv);
    enum kv_error error = KV_OK;
    char name[24];
    assert_int_equal(kv_u32_load_relaxed(&kv->ttl_classes), 0);
    kv_tick(worker, 1);
    for (unsigned i = 0; error == KV_OK && gone(kv) == 0; i++) {
        struct kv_key key = numbered(kv, name, "key", i);
        rig_store(worker, &key, 200, 1, 0, i % 2 ? 30 : 0, &error);
        kv_quiesce(worker);
    }
    uint64_t refused = rig_stats(kv).no_memory;
    kv_tick(worker, 1000);
    struct kv_key key = rig_key(kv, "long");
    rig_set(worker, &key, 200000, 1);
    assert_int_equal(rig_stats(kv).no_memory, refused);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_room_where_a_part_of_each_segment_expires(void **unused)
{
    for (int policy = 0; policy < KV_POLICIES; policy++)
        room_where_half_expires(true, (enum kv_policy_kind)policy);
    room_where_half_expires(false, KV_POLICY_CLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_stays_below_the_limit),
        cmocka_unit_test(test_fetched_items_get_a_second_chance),
        cmocka_unit_test(test_large_items_are_retained_once_per_verdict),
        cmocka_unit_test(test_clock_lets_old_items_go_first),
        cmocka_unit_test(test_burst_of_large_values),
        cmocka_unit_test(test_burst_after_looking_at_everything),
        cmocka_unit_test(test_burst_of_overwrites),
        cmocka_unit_test(test_other_online_worker_delays_but_does_not_stop),
        cmocka_unit_test(test_without_eviction_dead_memory_is_used_again),
        cmocka_unit_test(test_without_eviction_expired_memory_is_used_again),
        cmocka_unit_test(test_without_eviction_flushed_memory_is_used_again),
        cmocka_unit_test(test_expired_items_go_before_live_ones),
        cmocka_unit_test(test_s3fifo_stands_a_scan),
        cmocka_unit_test(test_s3fifo_remembers_what_it_evicted),
        cmocka_unit_test(test_s3fifo_forgets_what_left_the_main_pool),
        cmocka_unit_test(test_random_knows_no_age),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_policies_with_values_of_all_lengths),
        cmocka_unit_test(test_what_expires_makes_room_for_all),
        cmocka_unit_test(test_expired_items_go_first_in_full_memory),
        cmocka_unit_test(test_room_where_a_part_of_each_segment_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
