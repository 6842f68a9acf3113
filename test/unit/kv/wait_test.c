/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store without a free segment reads several list counts and the other workers' announcements one
 * after the other, and other workers run in between. evict.c is compiled here with functions that
 * act as those workers at the worst moment: before one of the counts, or after one of the reads of
 * the announcements.
 */
#include "kv_rig.h"

#include "kv/engine.h"

static uint32_t planted_count(const struct kv_segment_list *list);
static uint64_t planted_oldest(const struct kv_epoch *epoch, const struct kv_epoch_member *except);

#define kv_segment_list_count planted_count
#define kv_epoch_oldest planted_oldest
#include "../../../src/kv/evict.c"
#undef kv_segment_list_count
#undef kv_epoch_oldest

#define MOMENTS 120  /* those after are like them: the store waits */
#define LOOKS_AWAY 5 /* at the others, in which the other one does not move on */
#define VALUE_BYTES 1000

static struct {
    struct kv *kv;
    struct kv_worker *worker;
    struct kv_worker *other; /* might still look at all that is retired */
    struct kv_worker *third; /* offline, but at the moment */
    uint32_t large_bytes;    /* of a value stored before the keys; 0: none */
    unsigned keys;           /* half of them are still there */
    unsigned counts;         /* list counts read before the event; UINT32_MAX: it has happened */
    unsigned looks;          /* at the others, likewise */
    unsigned taken;          /* how often other workers still take the free segment first */
    bool was_urgent;         /* of the worker, at some list count */
} scene;

/* Other workers take the free segments; the worker under test cannot see them. */
static void take_all(void)
{
    while (kv_segment_take(&scene.kv->segments, kv_floor_segments(scene.kv)) != KV_SEGMENT_NONE)
        continue;
}

/* Free segments are taken, used, and retired again. */
static void use_all(void)
{
    struct kv_segments *segments = &scene.kv->segments;
    uint32_t floor = kv_floor_segments(scene.kv);
    uint32_t index;
    while ((index = kv_segment_take(segments, floor)) != KV_SEGMENT_NONE)
        kv_segment_seal(segments, index);
}

static uint32_t planted_count(const struct kv_segment_list *list)
{
    scene.was_urgent |= scene.worker->urgent;
    if (scene.taken > 0 && list == &scene.kv->segments.free) {
        scene.taken--;
        use_all();
    }
    uint32_t count = kv_u32_load_relaxed(&list->count);
    if (scene.counts == UINT32_MAX || scene.counts-- > 0)
        return count;
    scene.counts = UINT32_MAX;
    kv_epoch_announce(&scene.other->kv->epoch, scene.other->member);
    kv_log_reclaim(scene.other, UINT32_MAX);
    take_all();
    kv_offline(scene.other);
    return count; /* as it was before */
}

static void delete_keys(struct kv_worker *worker, unsigned from, unsigned upto)
{
    char name[24];
    for (unsigned i = from; i < upto; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(scene.kv, name);
        assert_int_equal(rig_delete(worker, &key), KV_DELETE);
        kv_release_views(worker);
    }
}

/* What was retired is in others' hands, and as much that the other one might look at is retired. */
static void exchange_retired(void)
{
    kv_online(scene.other);
    kv_online(scene.third);
    assert_true(kv_log_reclaim(scene.third, UINT32_MAX) > 0);
    take_all();
    delete_keys(scene.third, scene.keys / 2, scene.keys);
    assert_true(is_much_retired(scene.kv));
    kv_offline(scene.third);
}

/* No worker is online when it is checked, but one is when the result is used. */
static uint64_t planted_oldest(const struct kv_epoch *epoch, const struct kv_epoch_member *except)
{
    unsigned look = scene.looks;
    if (look != UINT32_MAX)
        scene.looks--;
    if (look == 0)
        kv_epoch_announce(&scene.other->kv->epoch, scene.other->member);
    if (look != LOOKS_AWAY)
        return kv_epoch_oldest(epoch, except);
    kv_offline(scene.other);
    uint64_t oldest = kv_epoch_oldest(epoch, except);
    assert_true(oldest == UINT64_MAX);
    exchange_retired();
    return oldest;
}

static void fill(void)
{
    char name[24];
    for (scene.keys = 0; kv_u32_load_relaxed(&scene.kv->segments.free.count) >
                         2 * kv_u32_load_relaxed(&scene.kv->reserve_segments);
         ++scene.keys) {
        snprintf(name, sizeof(name), "key%u", scene.keys);
        struct kv_key key = rig_key(scene.kv, name);
        rig_set(scene.worker, &key, VALUE_BYTES, scene.keys);
    }
}

static void store_large(void)
{
    struct kv_key key = rig_key(scene.kv, "large");
    rig_set(scene.worker, &key, scene.large_bytes, 1);
}

/* Nothing is free, much is retired, and all of that waits for the other worker. */
static void set_up(void)
{
    scene.counts = UINT32_MAX;
    scene.looks = UINT32_MAX;
    scene.taken = 0;
    scene.was_urgent = false;
    scene.kv = rig_create_policy(2 * MIB, 3, true, KV_POLICY_CLOCK);
    scene.worker = kv_join(scene.kv);
    scene.other = kv_join(scene.kv);
    scene.third = kv_join(scene.kv);
    kv_offline(scene.third);
    if (scene.large_bytes > 0)
        store_large();
    fill();
    kv_release_views(scene.worker);
    delete_keys(scene.worker, 0, scene.keys / 2);
    take_all();
    kv_epoch_announce(&scene.worker->kv->epoch, scene.worker->member);
    assert_true(is_much_retired(scene.kv));
}

static void tear_down(void)
{
    rig_check(scene.kv);
    kv_leave(scene.worker);
    kv_leave(scene.other);
    kv_leave(scene.third);
    kv_destroy(scene.kv);
}

static void test_others_take_what_was_retired(void **unused)
{
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        set_up();
        scene.counts = moment;
        if (!kv_evict_make_free(scene.worker))
            fail_msg("refused: the retired segments were taken at list count %u", moment);
        tear_down();
    }
}

static void test_others_come_and_stay(void **unused)
{
    for (unsigned look = 0; look < MOMENTS; look++) {
        set_up();
        scene.looks = look + LOOKS_AWAY;
        if (!kv_evict_make_free(scene.worker))
            fail_msg("refused: no worker was online at check %u, then one came online", look);
        tear_down();
    }
}

/* For longer than it takes to empty as much as a store empties at most. */
static void test_others_are_faster(void **unused)
{
    set_up();
    kv_offline(scene.other);
    scene.taken = 2 * TRIES_MAX;
    assert_true(kv_evict_make_free(scene.worker));
    assert_int_equal(scene.taken, 0);
    assert_true(scene.was_urgent);
    assert_false(scene.worker->urgent); /* the next store begins as this one did */
    kv_online(scene.other);
    tear_down();
}

/* Eviction becomes urgent only after many tries. */
static void test_others_are_faster_a_few_times(void **unused)
{
    set_up();
    kv_offline(scene.other);
    scene.taken = TRIES_PATIENT / 4;
    assert_true(kv_evict_make_free(scene.worker));
    assert_int_equal(scene.taken, 0);
    assert_false(scene.was_urgent);
    kv_online(scene.other);
    tear_down();
}

/* And not for ever. */
static void test_others_are_always_faster(void **unused)
{
    set_up();
    kv_offline(scene.other);
    scene.taken = UINT32_MAX;
    assert_false(kv_evict_make_free(scene.worker));
    assert_in_range(UINT32_MAX - scene.taken, WAITS_MAX, 2 * (TRIES_MAX + WAITS_MAX));
    scene.taken = 0;
    kv_online(scene.other);
    tear_down();
}

/* But where the others don't come there is an end to it. */
static void test_nobody_comes(void **unused)
{
    set_up();
    assert_false(kv_evict_make_free(scene.worker));
    tear_down();
}

static uint64_t announced(void)
{
    return kv_u64_load_relaxed(&scene.worker->member->announced);
}

/* Otherwise two workers that wait for each other would wait until the timeout. */
static void test_waiting_worker_lets_others_go_on(void **unused)
{
    set_up();
    kv_release_views(scene.worker);
    uint64_t retired = kv_epoch_retire(&scene.kv->epoch);
    assert_true(announced() < retired);
    assert_false(kv_evict_make_free(scene.worker));
    assert_true(announced() >= retired);
    tear_down();
}

/* A worker with a view of an item does not announce while it waits. */
static void expect_no_announcement_while_viewed(const char *name)
{
    struct kv_view view;
    struct kv_key key = rig_key(scene.kv, name);
    assert_int_equal(kv_peek(scene.worker, &key, &view), KV_HIT);
    uint64_t before = announced();
    kv_epoch_retire(&scene.kv->epoch);
    assert_false(kv_evict_make_free(scene.worker));
    assert_int_equal(announced(), before);
}

static void test_waiting_worker_keeps_what_it_looks_at(void **unused)
{
    char name[24];
    set_up();
    snprintf(name, sizeof(name), "key%u", scene.keys - 1);
    expect_no_announcement_while_viewed(name);
    tear_down();
}

static void test_waiting_worker_keeps_a_large_item(void **unused)
{
    scene.large_bytes = 100000;
    set_up();
    scene.large_bytes = 0;
    expect_no_announcement_while_viewed("large");
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_take_what_was_retired),
        cmocka_unit_test(test_others_come_and_stay),
        cmocka_unit_test(test_others_are_faster),
        cmocka_unit_test(test_others_are_faster_a_few_times),
        cmocka_unit_test(test_others_are_always_faster),
        cmocka_unit_test(test_nobody_comes),
        cmocka_unit_test(test_waiting_worker_lets_others_go_on),
        cmocka_unit_test(test_waiting_worker_keeps_what_it_looks_at),
        cmocka_unit_test(test_waiting_worker_keeps_a_large_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
