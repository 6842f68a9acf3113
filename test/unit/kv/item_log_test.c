/* SPDX-License-Identifier: BSD-3-Clause */
/* Appending records: rolling over, taking back, sealing. */
#include "kv_rig.h"

#include "kv/engine.h"

struct rig {
    struct kv *kv;
    struct kv_worker *worker;
    uint32_t segment_bytes;
};

static struct rig rig;

static int setup(void **unused)
{
    rig.kv = rig_create(1 * MIB, 1, true);
    rig.worker = kv_join(rig.kv);
    rig.segment_bytes = kv_segments_bytes(&rig.kv->segments);
    return 0;
}

static int teardown(void **unused)
{
    kv_leave(rig.worker);
    kv_destroy(rig.kv);
    return 0;
}

static unsigned main_log(void)
{
    return kv_log_for(rig.worker, KV_POOL_MAIN, 0);
}

static uint32_t open_segment(void)
{
    return rig.worker->log[main_log()];
}

static void test_records_follow_each_other(void **unused)
{
    uint8_t *first = (uint8_t *)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    uint8_t *second = (uint8_t *)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 40);
    assert_ptr_equal(first + 24, second);
    assert_int_equal(rig.kv->segments.array[open_segment()].used, 64);
    kv_log_drop(rig.worker, second, 40);
    kv_log_drop(rig.worker, first, 24);
}

static void test_last_record_is_taken_back(void **unused)
{
    void *first = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    void *second = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 40);
    kv_log_drop(rig.worker, second, 40);
    assert_int_equal(rig.kv->segments.array[open_segment()].used, 24);
    assert_ptr_equal(kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 16), second);
    kv_log_drop(rig.worker, first, 24); /* not the last: only its hold goes */
    assert_int_equal(rig.kv->segments.array[open_segment()].used, 40);
    kv_log_drop(rig.worker, second, 16);
}

/* Neither without an open segment nor at the end of one, behind which nothing may be mapped. */
static void test_hint_has_no_effect(void **unused)
{
    kv_prefetch_log(rig.worker);
    assert_int_equal(open_segment(), KV_SEGMENT_NONE);
    void *whole = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, rig.segment_bytes);
    kv_prefetch_log(rig.worker);
    assert_int_equal(rig.kv->segments.array[open_segment()].used, rig.segment_bytes);
    kv_log_drop(rig.worker, whole, rig.segment_bytes);
}

static void test_log_rolls_over(void **unused)
{
    void *whole = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, rig.segment_bytes);
    uint32_t before = open_segment();
    void *next = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 8);
    assert_int_not_equal(open_segment(), before);
    assert_int_equal(kv_u8_load_seq_cst(&rig.kv->segments.array[before].state), KV_SEGMENT_SEALED);
    kv_log_drop(rig.worker, whole, rig.segment_bytes);
    assert_int_equal(kv_u8_load_seq_cst(&rig.kv->segments.array[before].state), KV_SEGMENT_RETIRED);
    kv_log_drop(rig.worker, next, 8);
}

static void test_reserve_tells_the_room(void **unused)
{
    assert_int_equal(kv_log_reserve(rig.worker, main_log(), KV_LOG_NEW, 8), rig.segment_bytes);
    void *record = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 96);
    assert_int_equal(kv_log_reserve(rig.worker, main_log(), KV_LOG_NEW, 8), rig.segment_bytes - 96);
    assert_int_equal(kv_log_reserve(rig.worker, main_log(), KV_LOG_NEW, rig.segment_bytes),
                     rig.segment_bytes);
    kv_log_drop(rig.worker, record, 96);
}

/* Logs are separate by pool and by time to live. */
static void test_logs_are_apart(void **unused)
{
    const uint32_t now_s = 1000;
    kv_tick(rig.worker, now_s);
    static const uint32_t lives_s[] = {0,       1 << 4,  1 << 6,  1 << 8,
                                       1 << 10, 1 << 12, 1 << 14, 1 << 18};
    for (unsigned i = 0; i < U_ARRAY_LEN(lives_s); i++) {
        uint32_t exptime = lives_s[i] == 0 ? 0 : now_s + lives_s[i];
        unsigned log = kv_log_for(rig.worker, KV_POOL_SMALL, exptime);
        assert_int_not_equal(log, kv_log_for(rig.worker, KV_POOL_MAIN, exptime));
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(log, kv_log_for(rig.worker, KV_POOL_SMALL,
                                                 lives_s[k] == 0 ? 0 : now_s + lives_s[k]));
        if (exptime != 0)
            assert_int_equal(log, kv_log_for(rig.worker, KV_POOL_SMALL, exptime - 1));
    }
    unsigned forever = kv_log_for(rig.worker, KV_POOL_MAIN, 0);
    assert_int_equal(kv_log_for(rig.worker, KV_POOL_MAIN, now_s + (1 << 18) + 1), forever);
    assert_int_equal(kv_log_for(rig.worker, KV_POOL_MAIN, now_s - 1), /* over already */
                     kv_log_for(rig.worker, KV_POOL_MAIN, now_s + 1));

    unsigned small = kv_log_for(rig.worker, KV_POOL_SMALL, 0);
    void *record = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 8);
    void *other = kv_log_append(rig.worker, small, KV_LOG_NEW, 8);
    const struct kv_segment *array = rig.kv->segments.array;
    assert_int_equal(kv_u8_load_relaxed(&array[rig.worker->log[main_log()]].pool), KV_POOL_MAIN);
    assert_int_equal(kv_u8_load_relaxed(&array[rig.worker->log[small]].pool), KV_POOL_SMALL);
    kv_log_drop(rig.worker, record, 8);
    kv_log_drop(rig.worker, other, 8);
    assert_int_equal(array[rig.worker->log[small]].used, 0);
}

static uint64_t usage_of(uint32_t segment)
{
    return kv_u64_load_relaxed(&rig.kv->segments.array[segment].usage);
}

static enum kv_segment_state state_of(uint32_t segment)
{
    return (enum kv_segment_state)kv_u8_load_seq_cst(&rig.kv->segments.array[segment].state);
}

/* Additions to an open segment become visible when it is sealed, not before. */
static void test_usage_is_told_when_sealed(void **unused)
{
    void *record = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    uint32_t segment = open_segment();
    assert_int_equal(usage_of(segment), 0);
    assert_int_equal(rig.worker->pending_usage[main_log()], KV_SEGMENT_HOLD);
    kv_log_close(rig.worker, main_log());
    assert_int_equal(usage_of(segment), KV_SEGMENT_HOLD);
    assert_int_equal(rig.worker->pending_usage[main_log()], 0);
    kv_log_drop(rig.worker, record, 24);
    assert_int_equal(state_of(segment), KV_SEGMENT_RETIRED);
}

/* Other workers subtract before the owner adds: the usage is negative until sealing. */
static void test_usage_is_taken_off_before_it_is_told(void **unused)
{
    (void)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    uint32_t segment = open_segment();
    kv_log_change(rig.worker, segment, 24 - KV_SEGMENT_HOLD);
    (void)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 40);
    kv_log_change(rig.worker, segment, 40 - KV_SEGMENT_HOLD);
    kv_segment_subtract(&rig.kv->segments, segment, 24);
    assert_int_equal(usage_of(segment), (uint64_t)0 - 24);
    assert_int_equal(state_of(segment), KV_SEGMENT_OPEN);
    kv_log_close(rig.worker, main_log());
    assert_int_equal(usage_of(segment), 40);
    assert_int_equal(state_of(segment), KV_SEGMENT_SEALED);
    kv_segment_subtract(&rig.kv->segments, segment, 40);
    assert_int_equal(state_of(segment), KV_SEGMENT_RETIRED);
}

/* The worker's own subtractions are pending too; those of other segments are not. */
static void test_usage_taken_off_by_its_owner(void **unused)
{
    (void)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    uint32_t sealed = open_segment();
    kv_log_change(rig.worker, sealed, 24 - KV_SEGMENT_HOLD);
    kv_log_close(rig.worker, main_log());
    (void)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 40);
    uint32_t segment = open_segment();
    kv_log_change(rig.worker, segment, 40 - KV_SEGMENT_HOLD);
    kv_log_subtract(rig.worker, segment, 40);
    assert_int_equal(usage_of(segment), 0);
    assert_int_equal(rig.worker->pending_usage[main_log()], 0);
    kv_log_subtract(rig.worker, sealed, 24);
    assert_int_equal(state_of(sealed), KV_SEGMENT_RETIRED);
    kv_log_close(rig.worker, main_log());
    assert_int_equal(state_of(segment), KV_SEGMENT_RETIRED);
}

/* A segment whose records have all gone before it is sealed is retired by sealing it. */
static void test_nothing_is_left_when_sealed(void **unused)
{
    (void)kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    uint32_t segment = open_segment();
    kv_log_change(rig.worker, segment, 24 - KV_SEGMENT_HOLD);
    kv_segment_subtract(&rig.kv->segments, segment, 24);
    assert_int_equal(state_of(segment), KV_SEGMENT_OPEN);
    kv_log_close(rig.worker, main_log());
    assert_int_equal(state_of(segment), KV_SEGMENT_RETIRED);
}

/* Only for the log appended to last: changes of other logs' segments are immediate. */
static void test_records_of_two_logs_in_turn(void **unused)
{
    unsigned small = kv_log_for(rig.worker, KV_POOL_SMALL, 0);
    void *first = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    void *second = kv_log_append(rig.worker, small, KV_LOG_NEW, 40);
    uint32_t main_segment = open_segment();
    uint32_t small_segment = rig.worker->log[small];
    kv_log_change(rig.worker, main_segment, 24 - KV_SEGMENT_HOLD);
    kv_log_drop(rig.worker, second, 40);
    assert_int_equal(usage_of(main_segment) + rig.worker->pending_usage[main_log()], 24);
    assert_int_equal(usage_of(small_segment) + rig.worker->pending_usage[small], 0);
    kv_log_close(rig.worker, small);
    kv_log_close(rig.worker, main_log());
    assert_int_equal(usage_of(main_segment), 24);
    assert_int_equal(state_of(small_segment), KV_SEGMENT_RETIRED);
    kv_log_change(rig.worker, main_segment, KV_SEGMENT_HOLD - 24);
    kv_log_drop(rig.worker, first, 24);
    assert_int_equal(state_of(main_segment), KV_SEGMENT_RETIRED);
}

/* The segments that new items must leave alone are there for items on the move. */
static void test_rescue_may_take_the_last(void **unused)
{
    struct kv_segments *segments = &rig.kv->segments;
    void *records[1024];
    unsigned count = 0;
    for (void *at;
         (at = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, rig.segment_bytes)) != NULL;)
        records[count++] = at;
    assert_int_equal(count, segments->count - rig.kv->floor_segments);
    for (void *at;
         (at = kv_log_append(rig.worker, main_log(), KV_LOG_MOVED, rig.segment_bytes)) != NULL;)
        records[count++] = at;
    assert_int_equal(count, segments->count);
    kv_log_drop(rig.worker, records[0], rig.segment_bytes); /* retired and not viewed */
    records[0] = kv_log_append(rig.worker, main_log(), KV_LOG_MOVED, rig.segment_bytes);
    assert_non_null(records[0]);
    while (count-- > 0)
        kv_log_drop(rig.worker, records[count], rig.segment_bytes);
}

/* Another worker may scan a sealed segment: its end does not change. */
static void test_last_record_of_a_sealed_segment(void **unused)
{
    void *first = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 24);
    void *second = kv_log_append(rig.worker, main_log(), KV_LOG_NEW, 40);
    uint32_t segment = open_segment();
    kv_log_close(rig.worker, main_log());
    kv_log_drop(rig.worker, second, 40);
    assert_int_equal(rig.kv->segments.array[segment].used, 64);
    assert_int_equal(state_of(segment), KV_SEGMENT_SEALED);
    kv_log_drop(rig.worker, first, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records_follow_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_record_is_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hint_has_no_effect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rolls_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve_tells_the_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logs_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_usage_is_told_when_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_usage_is_taken_off_before_it_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_usage_taken_off_by_its_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_left_when_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_of_two_logs_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rescue_may_take_the_last, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_record_of_a_sealed_segment, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
