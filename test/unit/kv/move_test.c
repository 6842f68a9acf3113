/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While eviction moves an item other workers change its key. evict.c is compiled here with
 * functions that act as another worker: after the room for the copy is reserved, and before the
 * copy is published.
 */
#include "kv_rig.h"

#include "kv/engine.h"

static uint32_t planted_reserve(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                                uint32_t bytes);
static bool planted_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                             const struct kv_item *item);

#define kv_log_reserve planted_reserve
#define kv_index_exchange planted_exchange
#include "../../../src/kv/evict.c"
#undef kv_log_reserve
#undef kv_index_exchange

#define SMALL_BYTES 100
#define LARGE_BYTES 20000 /* two extents, of which the second one is short */
#define OTHER_BYTES 50
#define OTHER_SEED 7

static struct {
    struct kv *kv;
    struct kv_worker *worker;
    struct kv_worker *other;
    struct kv_key key;
    void (*at_reserve)(void); /* what the other worker does then; once */
    void (*at_exchange)(void);
    uint32_t reused; /* segment of the old head */
} scene;

static void act(void (**what)(void))
{
    void (*now)(void) = *what;
    *what = NULL;
    if (now)
        now();
}

static uint32_t planted_reserve(struct kv_worker *worker, unsigned log, enum kv_log_purpose purpose,
                                uint32_t bytes)
{
    uint32_t room = kv_log_reserve(worker, log, purpose, bytes);
    act(&scene.at_reserve);
    return room;
}

static bool planted_exchange(struct kv_worker *worker, uint64_t hash, uint64_t word,
                             const struct kv_item *item)
{
    act(&scene.at_exchange);
    return kv_index_exchange(worker, hash, word, item);
}

static int set_up(void **unused)
{
    scene.kv = rig_create_policy(4 * MIB, 2, true, KV_POLICY_CLOCK);
    scene.worker = kv_join(scene.kv);
    scene.other = kv_join(scene.kv);
    scene.key = rig_key(scene.kv, "key");
    scene.at_reserve = NULL;
    scene.at_exchange = NULL;
    return 0;
}

static void close_logs(struct kv_worker *worker)
{
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(worker, log);
}

/* No segment is held: copies that were not published are freed. */
static int tear_down(void **unused)
{
    const struct kv_segments *segments = &scene.kv->segments;
    rig_check(scene.kv);
    close_logs(scene.worker);
    close_logs(scene.other);
    for (uint32_t i = 0; i < kv_segments_count(segments); i++)
        assert_false(kv_segment_is_held(&segments->array[i]));
    rig_check(scene.kv);
    kv_leave(scene.worker);
    kv_leave(scene.other);
    kv_destroy(scene.kv);
    return 0;
}

static struct kv_item *find(void)
{
    uint64_t word;
    struct kv_item *item = rig_find(&scene.kv->index, &scene.key, &word);
    assert_non_null(item);
    return item;
}

static uint32_t segment_of_record(const struct kv_item *record)
{
    return kv_segment_of(&scene.kv->segments, record);
}

static void compact(uint32_t segment)
{
    assert_true(kv_clean_begin(scene.worker, segment, KV_CLEAN_COMPACT));
    kv_clean_step(scene.worker, 100);
    assert_int_equal(scene.worker->cleaner.mode, KV_CLEAN_NONE);
}

/* ---- before the copy is published -------------------------------------------------------- */

static void other_sets(void)
{
    rig_set(scene.other, &scene.key, OTHER_BYTES, OTHER_SEED);
}

static void expect_other(void)
{
    struct kv_view view;
    assert_null(scene.at_exchange);
    assert_int_equal(kv_peek(scene.worker, &scene.key, &view), KV_HIT);
    assert_int_equal(view.value_len, OTHER_BYTES);
    assert_true(rig_is_filled(view.item, OTHER_BYTES, OTHER_SEED));
    assert_int_equal(rig_stats(scene.kv).items, 1);
}

static void test_small_item_is_overwritten(void **unused)
{
    rig_set(scene.worker, &scene.key, SMALL_BYTES, 1);
    close_logs(scene.worker);
    scene.at_exchange = other_sets;
    compact(segment_of_record(find()));
    expect_other();
}

static void test_large_item_is_overwritten_while_its_head_moves(void **unused)
{
    rig_set(scene.worker, &scene.key, LARGE_BYTES, 1);
    close_logs(scene.worker);
    scene.at_exchange = other_sets;
    compact(segment_of_record(find()));
    expect_other();
}

static void test_large_item_is_overwritten_while_an_extent_moves(void **unused)
{
    rig_set(scene.worker, &scene.key, LARGE_BYTES, 1);
    close_logs(scene.worker);
    scene.at_exchange = other_sets;
    compact(segment_of_record(kv_item_extent(find(), 1)));
    expect_other();
}

/* No other worker interferes. */
static void test_extent_moves(void **unused)
{
    struct kv_view view;
    rig_set(scene.worker, &scene.key, LARGE_BYTES, 1);
    close_logs(scene.worker);
    const struct kv_item *before = kv_item_extent(find(), 1);
    compact(segment_of_record(before));
    assert_ptr_not_equal(kv_item_extent(find(), 1), before);
    assert_int_equal(kv_peek(scene.worker, &scene.key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, LARGE_BYTES, 1));
}

/* ---- after the room for the copy is reserved --------------------------------------------- */

static enum kv_verdict decide_renew(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    return KV_RENEW;
}

static void other_renews(void)
{
    struct kv_change change = {0};
    assert_int_equal(kv_update(scene.other, &scene.key, decide_renew, NULL, &change), KV_RENEW);
}

/* Reclaims the segment of the old head, which is empty, and allocates it for another use. */
static void reuse(void)
{
    struct kv_segments *segments = &scene.kv->segments;
    kv_epoch_announce(&scene.kv->epoch, scene.other->member);
    assert_true(kv_log_reclaim(scene.worker, UINT32_MAX) > 0);
    assert_int_equal(kv_segment_take(segments, 0), scene.reused);
    kv_unpoison(kv_segment_base(segments, scene.reused), kv_segments_bytes(segments));
    memset(kv_segment_base(segments, scene.reused), 0, kv_segments_bytes(segments));
}

static void other_deletes_and_reuses(void)
{
    assert_int_equal(rig_delete(scene.other, &scene.key), KV_DELETE);
    reuse();
}

static void other_renews_and_reuses(void)
{
    other_renews();
    reuse();
}

/* Moves the second extent of a large item whose head is alone in its segment. */
static void move_extent_while(void (*meanwhile)(void))
{
    const struct kv_segments *segments = &scene.kv->segments;
    rig_set(scene.worker, &scene.key, LARGE_BYTES, 1);
    close_logs(scene.worker);
    other_renews();
    close_logs(scene.other);
    scene.reused = segment_of_record(find());
    scene.at_reserve = meanwhile;
    compact(segment_of_record(kv_item_extent(find(), 1)));
    assert_null(scene.at_reserve);
    for (uint32_t i = 0; i < kv_segments_bytes(segments); i++)
        assert_int_equal(kv_segment_base(segments, scene.reused)[i], 0);
    kv_segment_seal(&scene.kv->segments, scene.reused);
}

static void test_head_goes_and_is_not_touched_any_more(void **unused)
{
    struct kv_view view;
    move_extent_while(other_deletes_and_reuses);
    assert_int_equal(kv_peek(scene.worker, &scene.key, &view), KV_MISS);
}

static void test_another_head_comes_and_the_old_one_is_not_touched(void **unused)
{
    struct kv_view view;
    move_extent_while(other_renews_and_reuses);
    assert_int_equal(kv_peek(scene.worker, &scene.key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, LARGE_BYTES, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_small_item_is_overwritten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_item_is_overwritten_while_its_head_moves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_large_item_is_overwritten_while_an_extent_moves,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extent_moves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_head_goes_and_is_not_touched_any_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_another_head_comes_and_the_old_one_is_not_touched,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
