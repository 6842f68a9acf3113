/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory limit goes up and down while the table is in use. */
#include "kv_rig.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kv/engine.h"

static struct kv *create(uint64_t memory_bytes, uint64_t memory_bytes_max, bool evict)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .memory_bytes_max = memory_bytes_max,
                               .value_bytes_max = UINT32_C(1) << 30,
                               .worker_max = 2,
                               .evict = evict};
    const char *error = NULL;
    struct kv *kv = kv_create(&config, &error);
    if (!kv)
        fail_msg("kv_create: %s", error);
    return kv;
}

/* Stores keys from..to - 1; returns how many could be stored. */
static unsigned store(struct kv_worker *worker, unsigned from, unsigned to, uint32_t value_len)
{
    char name[24];
    enum kv_error error;
    unsigned stored = 0;
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(worker->kv, name);
        stored += rig_store(worker, &key, value_len, i, 0, 0, &error) != 0;
        kv_quiesce(worker);
    }
    return stored;
}

static unsigned settle(struct kv_worker *worker)
{
    unsigned loops = 0;
    while (kv_is_resizing(worker->kv)) {
        kv_quiesce(worker);
        loops++;
        assert_in_range(loops, 0, 100000);
    }
    return loops;
}

static void finish(struct kv *kv, struct kv_worker *worker)
{
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_more_memory_holds_more_at_once(void **unused)
{
    struct kv *kv = create(4 * MIB, 64 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    store(worker, 0, 10000, 1000);
    struct kv_stats before = rig_stats(kv);
    assert_true(before.evictions > 0);
    assert_true(before.items < 4300);

    assert_true(kv_memory_limit_set(worker, 32 * MIB));
    store(worker, 10000, 20000, 1000);
    struct kv_stats after = rig_stats(kv);
    assert_int_equal(after.evictions, before.evictions);
    assert_int_equal(after.items, before.items + 10000);
    assert_int_equal(after.memory_limit_bytes, 32 * MIB);
    assert_true(after.memory_used_bytes > 10000 * 1000);

    store(worker, 20000, 60000, 1000);
    after = rig_stats(kv);
    assert_true(after.evictions > before.evictions);
    assert_true(after.items > 22000);
    assert_true(after.memory_used_bytes <= 32 * MIB);
    finish(kv, worker);
}

static void test_less_memory_in_bounded_steps(void **unused)
{
    struct kv *kv = create(32 * MIB, 0, true);
    struct kv_worker *worker = kv_join(kv);
    store(worker, 0, 30000, 1000);
    struct kv_stats before = rig_stats(kv);
    assert_true(before.memory_used_bytes > 25 * MIB);

    assert_true(kv_memory_limit_set(worker, 8 * MIB));
    assert_true(kv_is_resizing(kv));
    uint64_t items = rig_stats(kv).items;
    while (kv_is_resizing(kv)) {
        kv_quiesce(worker);
        assert_in_range(items - rig_stats(kv).items, 0, 1000); /* a step evicts no more */
        items = rig_stats(kv).items;
    }
    struct kv_stats after = rig_stats(kv);
    assert_true(after.memory_used_bytes <= 8 * MIB);
    assert_true(after.items > 3000 && after.items < 8000);
    rig_check(kv);

    store(worker, 30000, 50000, 1000);
    assert_true(rig_stats(kv).memory_used_bytes <= 8 * MIB);
    finish(kv, worker);
}

static bool is_resident(const void *at)
{
    unsigned char there = 0;
    return mincore((void *)(uintptr_t)at, 1, &there) == 0 && (there & 1);
}

/* All pages of withdrawn segments are returned to the system. */
static void test_pages_go_back(void **unused)
{
    struct kv *kv = create(16 * MIB, 0, true);
    struct kv_worker *worker = kv_join(kv);
    const struct kv_segments *segments = &kv->segments;
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* it would bring pages back */
    store(worker, 0, 14000, 1000);
    kv_memory_limit_set(worker, 4 * MIB);
    settle(worker);
    uint32_t index = segments->withdrawn.head;
    assert_int_not_equal(index, KV_SEGMENT_NONE);
    for (uint32_t i = index; i != KV_SEGMENT_NONE; i = segments->array[i].next) {
        assert_int_equal(kv_u8_load_seq_cst(&segments->array[i].state), KV_SEGMENT_WITHDRAWN);
        for (uint32_t at = 0; at < kv_segments_bytes(segments); at += 4096)
            assert_false(is_resident(kv_segment_base(segments, i) + at));
    }
    assert_int_equal(kv_segment_list_count(&segments->withdrawn) +
                         kv_u32_load_relaxed(&segments->in_service),
                     kv_segments_count(segments));
    finish(kv, worker);
}

static void test_down_and_up_again(void **unused)
{
    struct kv *kv = create(16 * MIB, 32 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    for (unsigned round = 0; round < 6; round++) {
        kv_memory_limit_set(worker, (round % 2 ? 30 : 5) * MIB);
        store(worker, round * 20000, round * 20000 + 20000, 700);
        settle(worker);
        assert_true(rig_stats(kv).memory_used_bytes <= (round % 2 ? 30 : 5) * MIB);
        rig_check(kv);
    }
    assert_true(rig_stats(kv).items > 15000);
    finish(kv, worker);
}

/* A second change before the first one is done. */
static void test_back_before_it_is_done(void **unused)
{
    struct kv *kv = create(16 * MIB, 32 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    store(worker, 0, 14000, 1000);
    uint64_t items = rig_stats(kv).items;
    kv_memory_limit_set(worker, 4 * MIB);
    kv_quiesce(worker);
    kv_memory_limit_set(worker, 16 * MIB);
    settle(worker);
    assert_true(rig_stats(kv).items + 1000 > items);
    kv_memory_limit_set(worker, 32 * MIB);
    kv_memory_limit_set(worker, 4 * MIB);
    settle(worker);
    assert_true(rig_stats(kv).memory_used_bytes <= 4 * MIB);
    finish(kv, worker);
}

static void test_beyond_what_is_possible(void **unused)
{
    struct kv *kv = create(4 * MIB, 8 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    assert_true(kv_memory_limit_set(worker, UINT64_C(1) << 60));
    assert_int_equal(rig_stats(kv).memory_limit_bytes, UINT64_C(1) << 60);
    store(worker, 0, 20000, 1000);
    assert_true(rig_stats(kv).memory_used_bytes <= 8 * MIB);
    assert_true(rig_stats(kv).memory_used_bytes > 6 * MIB);

    assert_true(kv_memory_limit_set(worker, 0));
    settle(worker);
    assert_true(store(worker, 0, 100, 1000) == 100); /* it still works */
    assert_true(rig_stats(kv).memory_used_bytes < MIB);
    finish(kv, worker);
}

/* Addresses that are gone stand for a system that refuses the memory. */
static void test_refused_memory_changes_nothing(void **unused)
{
    struct kv *kv = create(4 * MIB, 8 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    uint8_t *next = kv_segment_base(&kv->segments, kv->segments.accessible);
    assert_int_equal(munmap(next, kv_segments_bytes(&kv->segments)), 0);
    assert_false(kv_memory_limit_set(worker, 8 * MIB));
    assert_int_equal(kv_memory_limit(kv), 4 * MIB);
    assert_false(kv_is_resizing(kv));
    store(worker, 0, 10000, 1000);
    assert_true(rig_stats(kv).memory_used_bytes <= 4 * MIB);
    assert_true(kv_memory_limit_set(worker, 2 * MIB));
    settle(worker);
    assert_true(rig_stats(kv).memory_used_bytes <= 2 * MIB);
    finish(kv, worker);
}

static void test_without_eviction_nothing_is_lost(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, false);
    struct kv_worker *worker = kv_join(kv);
    unsigned stored = store(worker, 0, 5000, 1000);
    assert_int_equal(stored, 5000);
    kv_memory_limit_set(worker, 2 * MIB);
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(worker);
    assert_false(kv_is_resizing(kv)); /* nothing to do */
    assert_int_equal(rig_stats(kv).items, 5000);
    /* No more than the rest of a segment that was begun. */
    assert_true(store(worker, 5000, 5200, 1000) <= kv_segments_bytes(&kv->segments) / 1000);
    rig_check(kv);
    for (unsigned i = 0; i < 5200; i++) {
        char name[24];
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        rig_delete(worker, &key);
        kv_quiesce(worker);
    }
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(worker);
    assert_true(rig_stats(kv).memory_used_bytes <= 2 * MIB);
    assert_true(store(worker, 0, 500, 1000) == 500);
    finish(kv, worker);
}

static void test_longest_value_follows_the_limit(void **unused)
{
    struct kv *kv = create(4 * MIB, 64 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    struct kv_key key = rig_key(kv, "long");
    enum kv_error error;
    assert_int_equal(rig_store(worker, &key, 8 * MIB, 1, 0, 0, &error), 0);
    assert_int_equal(error, KV_TOO_LARGE);
    kv_memory_limit_set(worker, 64 * MIB);
    assert_int_not_equal(rig_store(worker, &key, 8 * MIB, 1, 0, 0, &error), 0);
    struct kv_view view;
    assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, view.value_len, 1));
    finish(kv, worker);
}

/* A value of the longest length fits, in empty memory and in full one. */
static void test_longest_value_fits(void **unused)
{
    static const uint64_t mib[] = {1, 2, 4};
    for (unsigned i = 0; i < 2 * sizeof(mib) / sizeof(mib[0]); i++) {
        struct kv *kv = create(mib[i / 2] * MIB, 0, true);
        struct kv_worker *worker = kv_join(kv);
        struct kv_key key = rig_key(kv, "long");
        uint32_t longest = (uint32_t)kv_u64_load_relaxed(&kv->value_bytes_max);
        enum kv_error error;
        assert_true(longest > mib[i / 2] * MIB / 2);
        if (i % 2)
            store(worker, 0, 5000, 1000);
        kv_quiesce(worker);
        assert_int_not_equal(rig_store(worker, &key, longest, 1, 0, 0, &error), 0);
        kv_quiesce(worker);
        assert_int_equal(rig_store(worker, &key, longest + 1, 1, 0, 0, &error), 0);
        assert_int_equal(error, KV_TOO_LARGE);
        finish(kv, worker);
    }
}

static void test_layout_of_a_reserved_table(void **unused)
{
    struct kv_config config = {.worker_max = 4};
    struct kv_layout layout;
    for (unsigned shift = 20; shift < 40; shift++) {
        config.memory_bytes = UINT64_C(1) << shift;
        config.memory_bytes_max = 0;
        assert_null(kv_layout_plan(&config, &layout));
        assert_int_equal(layout.count, layout.count_max);
        config.memory_bytes_max = UINT64_C(1) << 42;
        assert_null(kv_layout_plan(&config, &layout));
        assert_true(layout.count_max >= layout.count);
        assert_true(layout.bytes_max / KV_PLACE_UNIT <= KV_WORD_PLACE);
        assert_true(layout.segments_offset % 4096 == 0);
    }
}

/* Each worker needs the same number of segments, and no more. */
static void test_segments_of_a_worker(void **unused)
{
    struct kv_config config = {.worker_max = 1};
    uint32_t least = 0;
    while (!kv_layout_has_enough(&config, least))
        least++;
    config.worker_max = 5;
    assert_true(kv_layout_has_enough(&config, 5 * least));
    assert_false(kv_layout_has_enough(&config, 5 * least - 1));
}

/* More segments than are there need no free ones, also in full memory. */
static void test_budget_of_full_memory(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, false);
    struct kv_worker *worker = kv_join(kv);
    store(worker, 0, 10000, 1000);
    assert_true(rig_stats(kv).no_memory > 0);
    assert_true(kv_budget_allows(kv, 0, false));
    assert_false(kv_budget_allows(kv, MIB, false));
    assert_true(kv_budget_allows(kv, MIB, true));
    finish(kv, worker);
}

/* kv_memory_limit_set() makes the first step itself. */
static void test_limit_is_followed_at_once(void **unused)
{
    struct kv *kv = create(4 * MIB, 64 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    uint32_t before = kv_u32_load_relaxed(&kv->segments.in_service);
    assert_true(kv_memory_limit_set(worker, 8 * MIB));
    assert_true(kv_u32_load_relaxed(&kv->segments.in_service) > before);
    settle(worker);
    before = kv_u32_load_relaxed(&kv->segments.in_service);
    assert_true(kv_memory_limit_set(worker, 4 * MIB));
    assert_true(kv_u32_load_relaxed(&kv->segments.in_service) < before);
    finish(kv, worker);
}

/* After many stores a worker makes several steps in one kv_quiesce(). */
static void test_steps_follow_the_inserts(void **unused)
{
    struct kv *kv = create(4 * MIB, 64 * MIB, true);
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    assert_true(kv_memory_limit_set(worker, 64 * MIB));
    uint32_t before = kv_u32_load_relaxed(&kv->segments.in_service);
    kv_quiesce(worker);
    uint32_t after_none = kv_u32_load_relaxed(&kv->segments.in_service);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(kv, name);
        rig_set(worker, &key, 10, i);
    }
    assert_int_equal(kv_u32_load_relaxed(&kv->segments.in_service), after_none);
    kv_quiesce(worker);
    uint32_t after_many = kv_u32_load_relaxed(&kv->segments.in_service);
    assert_true(after_many - after_none >= 7 * (after_none - before));
    finish(kv, worker);
}

/* Withdrawal leaves the free segments that are reserved for stores. */
static void test_reserve_is_not_withdrawn(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, true);
    struct kv_worker *worker = kv_join(kv);
    uint32_t reserve = kv_u32_load_relaxed(&kv->reserve_segments);
    unsigned stored = 0;
    assert_true(reserve > kv_floor_segments(kv));
    while (kv_segment_list_count(&kv->segments.free) > reserve + 4) {
        store(worker, stored, stored + 1, 1000);
        stored++;
    }
    assert_true(kv_memory_limit_set(worker, 4 * MIB));
    assert_int_equal(kv_u32_load_relaxed(&kv->reserve_segments), reserve);
    assert_int_equal(kv_segment_list_count(&kv->segments.free), reserve);
    finish(kv, worker);
}

/* Segments for moved items, and for stores beside them: one of a worker, unless there are few. */
static void test_reserve_of_the_workers(void **unused)
{
    static const struct {
        unsigned workers;
        uint32_t segments, floor, reserve;
    } cases[] = {{1, 4096, 2, 4}, {8, 4096, 8, 16}, {64, 1024, 64, 80}, {64, 512, 32, 40}};
    for (unsigned i = 0; i < U_ARRAY_LEN(cases); i++) {
        struct kv *kv = rig_create(64 * MIB, cases[i].workers, true);
        kv_limit_derive(kv, cases[i].segments);
        assert_int_equal(kv_floor_segments(kv), cases[i].floor);
        assert_int_equal(kv_u32_load_relaxed(&kv->reserve_segments), cases[i].reserve);
        kv_destroy(kv);
    }
}

/* Bytes beside which that many segments are left under the limit. */
static uint64_t bytes_that_leave(const struct kv *kv, uint64_t segments)
{
    return kv_memory_bound(kv) - kv_fixed_bytes(kv) - (segments << kv->segments.shift);
}

/* The index leaves the minimum of segments that workers need, also with eviction. */
static void test_budget_leaves_the_least_segments(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, true);
    struct kv_worker *worker = kv_join(kv);
    uint32_t least = 0;
    while (!kv_layout_has_enough(&kv->config, least))
        least++;
    assert_true(kv_budget_allows(kv, bytes_that_leave(kv, 2 * least), true));
    assert_false(kv_budget_allows(kv, bytes_that_leave(kv, 2 * least) + 1, true));
    assert_false(kv_budget_allows(kv, 8 * MIB, true));
    assert_false(kv_budget_allows(kv, 9 * MIB, true));
    finish(kv, worker);
}

/* Without eviction the index takes free segments only, except the reserve for stores. */
static void test_budget_leaves_the_reserve(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, false);
    struct kv_worker *worker = kv_join(kv);
    store(worker, 0, 2000, 1000);
    uint32_t used =
        kv_u32_load_relaxed(&kv->segments.in_service) - kv_segment_list_count(&kv->segments.free);
    uint64_t left = used + kv_u32_load_relaxed(&kv->reserve_segments);
    assert_true(kv_budget_allows(kv, bytes_that_leave(kv, left), false));
    assert_false(kv_budget_allows(kv, bytes_that_leave(kv, left) + 1, false));
    finish(kv, worker);
}

/* Idle workers are needed for a growth of the index too, when the segments are all there. */
static void test_growth_is_resizing(void **unused)
{
    struct kv *kv = create(8 * MIB, 0, false);
    struct kv_worker *worker = kv_join(kv);
    unsigned stored = 0, moves = 0;
    while (!kv_grow_is_active(&kv->index)) {
        stored += store(worker, stored, stored + 1, 10);
        assert_in_range(stored, 0, 100000);
    }
    for (; kv_grow_is_active(&kv->index); moves++) {
        assert_true(kv_is_resizing(kv));
        kv_quiesce(worker);
        assert_in_range(moves, 0, 100000);
    }
    assert_true(moves > 0);
    settle(worker);
    finish(kv, worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_memory_holds_more_at_once),
        cmocka_unit_test(test_less_memory_in_bounded_steps),
        cmocka_unit_test(test_pages_go_back),
        cmocka_unit_test(test_down_and_up_again),
        cmocka_unit_test(test_back_before_it_is_done),
        cmocka_unit_test(test_beyond_what_is_possible),
        cmocka_unit_test(test_refused_memory_changes_nothing),
        cmocka_unit_test(test_without_eviction_nothing_is_lost),
        cmocka_unit_test(test_longest_value_follows_the_limit),
        cmocka_unit_test(test_longest_value_fits),
        cmocka_unit_test(test_layout_of_a_reserved_table),
        cmocka_unit_test(test_segments_of_a_worker),
        cmocka_unit_test(test_budget_of_full_memory),
        cmocka_unit_test(test_limit_is_followed_at_once),
        cmocka_unit_test(test_steps_follow_the_inserts),
        cmocka_unit_test(test_reserve_is_not_withdrawn),
        cmocka_unit_test(test_reserve_of_the_workers),
        cmocka_unit_test(test_budget_leaves_the_least_segments),
        cmocka_unit_test(test_budget_leaves_the_reserve),
        cmocka_unit_test(test_growth_is_resizing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
