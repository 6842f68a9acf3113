/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that finds no free segment looks at several counts, one after the other, and others go on
 * between any two of them. evict.c is compiled here with a function of ours that tells the counts:
 * before one of them, the others do what they can do at the worst moment.
 */
#include "kv_rig.h"

#include "kv/engine.h"

static uint32_t planted_count(const struct kv_segment_list *list);

#define kv_segment_list_count planted_count
#include "../../../src/kv/evict.c"
#undef kv_segment_list_count

#define MOMENTS 120 /* those after are like them: the store waits */
#define VALUE_BYTES 1000

static struct {
    struct kv *kv;
    struct kv_worker *worker;
    struct kv_worker *other; /* might still look at all that is retired */
    unsigned counts;         /* that will be told before the moment; UINT_MAX: it has come */
} scene;

/* What others have free they take; nobody else sees what is in their hands. */
static void take_all(void)
{
    while (kv_segment_take(&scene.kv->segments, kv_floor_segments(scene.kv), KV_SEGMENT_OPEN) !=
           KV_SEGMENT_NONE)
        continue;
}

static uint32_t planted_count(const struct kv_segment_list *list)
{
    uint32_t count = kv_u32_load_relaxed(&list->count);
    if (scene.counts == UINT32_MAX || scene.counts-- > 0)
        return count;
    scene.counts = UINT32_MAX;
    kv_announce(scene.other);
    kv_log_reclaim(scene.other, UINT32_MAX);
    take_all();
    kv_offline(scene.other);
    return count; /* as it was before */
}

static void fill(unsigned *count)
{
    char name[24];
    for (*count = 0; kv_u32_load_relaxed(&scene.kv->segments.free.count) >
                     2 * kv_u32_load_relaxed(&scene.kv->reserve_segments);
         ++*count) {
        snprintf(name, sizeof(name), "key%u", *count);
        struct kv_key key = rig_key(scene.kv, name);
        rig_set(scene.worker, &key, VALUE_BYTES, *count);
    }
}

/* Nothing is free, much is retired, and all of that waits for the other worker. */
static void set_up(unsigned moment)
{
    char name[24];
    unsigned count;
    scene.counts = UINT32_MAX;
    scene.kv = rig_create_policy(2 * MIB, 2, true, KV_POLICY_CLOCK);
    scene.worker = kv_join(scene.kv);
    scene.other = kv_join(scene.kv);
    fill(&count);
    kv_views_done(scene.worker);
    for (unsigned i = 0; i < count / 2; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(scene.kv, name);
        assert_int_equal(rig_delete(scene.worker, &key), KV_DELETE);
    }
    take_all();
    kv_announce(scene.worker);
    assert_true(is_much_retired(scene.kv));
    scene.counts = moment;
}

static void tear_down(void)
{
    rig_check(scene.kv);
    kv_leave(scene.worker);
    kv_leave(scene.other);
    kv_destroy(scene.kv);
}

static void test_others_take_what_was_retired(void **unused)
{
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        set_up(moment);
        if (!kv_evict_make_free(scene.worker))
            fail_msg("refused: what was retired was gone when count %u had been told", moment);
        tear_down();
    }
}

/* But where the others don't come there is an end to it. */
static void test_nobody_comes(void **unused)
{
    set_up(UINT32_MAX);
    assert_false(kv_evict_make_free(scene.worker));
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_take_what_was_retired),
        cmocka_unit_test(test_nobody_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
