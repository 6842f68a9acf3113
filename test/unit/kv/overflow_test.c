/* SPDX-License-Identifier: BSD-3-Clause */
/* Overflow buckets: taken, given, cut off their chains when empty, and used again. */
#include "kv_rig.h"

#include "kv/engine.h"

#define KEYS 60

static struct kv_rig rig;
static char names[KEYS][24];
static struct kv_key keys[KEYS]; /* all of one chain */

static int setup(void **unused)
{
    if (rig_open(&rig, 4 * MIB, 2, true, 0) != 0)
        return -1;
    unsigned found = 0;
    for (unsigned number = 0; found < KEYS; number++) {
        snprintf(names[found], sizeof(names[found]), "crowd%u", number);
        keys[found] = rig_key(rig.kv, names[found]);
        if (kv_index_chain(&rig.kv->index, keys[found].hash) ==
            kv_position_chain(&rig.kv->index, 0))
            found++;
    }
    return 0;
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static unsigned chain_buckets(void)
{
    const struct kv_index *index = &rig.kv->index;
    struct kv_bucket *head = kv_position_chain(index, 0);
    unsigned buckets = 0;
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, head, bucket))
        buckets++;
    return buckets;
}

static uint32_t never_used(void)
{
    const struct kv_index *index = &rig.kv->index;
    return kv_u32_load_relaxed(&index->overflows[kv_index_power(index) & 1].next);
}

static void store(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        rig_set(rig.worker, &keys[i], 10, i);
}

static void delete (unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        assert_int_equal(rig_delete(rig.worker, &keys[i]), KV_DELETE);
}

static void expect_values(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct kv_view view;
        assert_int_equal(kv_get(rig.worker, &keys[i], &view), KV_HIT);
        assert_true(rig_is_filled(view.item, 10, i));
    }
}

static void test_empty_bucket_leaves_its_chain(void **unused)
{
    store(0, KV_BUCKET_SLOTS + 2);
    assert_int_equal(chain_buckets(), 2);
    delete (KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    assert_int_equal(chain_buckets(), 2);
    delete (KV_BUCKET_SLOTS + 1, KV_BUCKET_SLOTS + 2);
    assert_int_equal(chain_buckets(), 1);
    expect_values(0, KV_BUCKET_SLOTS);
    delete (0, KV_BUCKET_SLOTS);
    assert_int_equal(chain_buckets(), 1);
}

static void test_buckets_leave_from_the_end(void **unused)
{
    store(0, KEYS);
    assert_int_equal(chain_buckets(), KV_CHAIN_BUCKETS_MAX);
    delete (KV_BUCKET_SLOTS, 2 * KV_BUCKET_SLOTS); /* the second one: it is not the last */
    assert_int_equal(chain_buckets(), KV_CHAIN_BUCKETS_MAX);
    delete (3 * KV_BUCKET_SLOTS, KEYS);
    assert_int_equal(chain_buckets(), 3);
    expect_values(0, KV_BUCKET_SLOTS);
    expect_values(2 * KV_BUCKET_SLOTS, 3 * KV_BUCKET_SLOTS);
}

static void test_they_are_used_again(void **unused)
{
    store(0, KEYS);
    uint32_t used = never_used();
    for (unsigned round = 0; round < 1000; round++) {
        for (unsigned i = KEYS; i-- > 0;)
            delete (i, i + 1);
        assert_int_equal(chain_buckets(), 1);
        kv_quiesce(rig.worker);
        kv_quiesce(rig.worker);
        store(0, KEYS);
        expect_values(0, KEYS);
    }
    assert_int_equal(never_used(), used);
}

static void test_not_before_all_are_quiescent(void **unused)
{
    struct kv_worker *other = kv_join(rig.kv);
    store(0, KV_BUCKET_SLOTS + 1);
    uint32_t used = never_used();
    delete (KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    for (unsigned i = 0; i < 10; i++)
        kv_quiesce(rig.worker);
    store(KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    assert_int_equal(never_used(), used + 1);
    delete (KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    kv_quiesce(other);
    kv_quiesce(rig.worker);
    store(KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    assert_int_equal(never_used(), used + 1);
    kv_leave(other);
}

/* A late worker has appended a bucket to one that has left: both come back. */
static void test_what_was_appended_comes_back_too(void **unused)
{
    const struct kv_index *index = &rig.kv->index;
    unsigned power = kv_index_power(index);
    store(0, KV_BUCKET_SLOTS + 1);
    delete (KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    assert_int_equal(rig.worker->cut.count, 1);
    uint32_t left = rig.worker->cut.link[0];
    uint32_t appended = kv_overflow_take(rig.worker, power);
    uint32_t used = never_used();
    kv_u64_store_relaxed(&kv_overflow_at(index, power, left)->control,
                         (uint64_t)appended << KV_CONTROL_LINK_SHIFT);
    kv_quiesce(rig.worker);
    kv_quiesce(rig.worker);
    assert_int_not_equal(kv_overflow_take(rig.worker, power), kv_overflow_take(rig.worker, power));
    assert_int_equal(never_used(), used);
}

/* A worker cuts off at most KV_CUT_MAX buckets before it is quiescent; others stay in chains. */
static void test_what_is_cut_off_is_bounded(void **unused)
{
    for (unsigned i = 0; i < KV_CUT_MAX + 10; i++) {
        store(0, KV_BUCKET_SLOTS + 1);
        delete (KV_BUCKET_SLOTS, KV_BUCKET_SLOTS + 1);
    }
    assert_int_equal(rig.worker->cut.count, KV_CUT_MAX);
    assert_int_equal(chain_buckets(), 2);
    kv_quiesce(rig.worker);
    kv_quiesce(rig.worker);
    assert_int_equal(rig.worker->cut.count, 0);
}

/* Full memory, replaced many times: chains release the overflow buckets of their maximum. */
static void test_crowded_chains_come_and_go(void **unused)
{
    const struct kv_index *index = &rig.kv->index;
    uint32_t used = 0;
    for (unsigned i = 0; i < 600000; i++) {
        char name[24];
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, 10, i);
        kv_quiesce(rig.worker);
        if (i == 200000)
            used = never_used();
    }
    uint32_t heads = UINT32_C(1) << kv_index_power(index);
    assert_true(used > heads / 100);
    assert_true(never_used() <= used + heads / 8);
}

static void prefetch(struct kv_key *key)
{
    kv_prefetch_bucket(rig.worker, key);
    kv_prefetch_item(rig.worker, key);
}

/* Wherever in its chain a key is, a prefetch finds it, and the short ways need no other. */
static void test_prefetch_looks_through_the_chain(void **unused)
{
    struct kv_short value = {(const uint8_t *)"short", 5}, found;
    store(0, KEYS);
    for (unsigned i = 0; i < KEYS; i++) {
        struct kv_key key = keys[i];
        struct kv_view view;
        prefetch(&key);
        kv_prefetch_item(rig.worker, &key); /* from where it has found it */
        assert_true(kv_get_short(rig.worker, &key, &found));
        assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
        assert_ptr_equal(found.value, view.value);
        assert_true(kv_replace_short(rig.worker, &key, &value, 0) != 0);
        assert_false(kv_get_short(rig.worker, &key, &found)); /* there is another one now */
        assert_int_equal(kv_get(rig.worker, &keys[i], &view), KV_HIT);
        assert_memory_equal(view.value, "short", 5);
    }
}

/* A hint outlives the bucket's time in the chain, and its next one. */
static void test_hint_of_a_bucket_that_has_left(void **unused)
{
    struct kv_key last = keys[KEYS - 1];
    struct kv_short found;
    struct kv_view view;
    store(0, KEYS);
    prefetch(&last);
    assert_true(kv_get_short(rig.worker, &last, &found));
    delete (KV_BUCKET_SLOTS, KEYS);
    for (unsigned i = 0; i < 4; i++)
        kv_quiesce(rig.worker);
    assert_false(kv_get_short(rig.worker, &last, &found));
    assert_int_equal(kv_get(rig.worker, &last, &view), KV_MISS);
    assert_null(kv_prefetch_item(rig.worker, &last));
    prefetch(&last);
    store(0, KEYS);
    assert_int_equal(kv_get(rig.worker, &last, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 10, KEYS - 1));
}

/* Buckets that a worker returns, of both tables during a growth, are free for other workers. */
static void test_reserve_returns_during_a_growth(void **unused)
{
    struct kv_index *index = &rig.kv->index;
    unsigned power = kv_index_power(index);
    struct kv_worker *other = kv_join(rig.kv);
    uint32_t here = kv_overflow_take(rig.worker, power);
    kv_overflow_give(rig.worker, power, here);
    kv_overflow_give(rig.worker, power + 1, 1);
    kv_u32_store_relaxed(&index->moving, power + 1);
    kv_overflow_return(rig.worker, index);
    assert_int_equal(kv_overflow_take(other, power), here);
    assert_int_equal(kv_overflow_take(other, power + 1), 1);
    kv_u32_store_relaxed(&index->moving, 0);
    kv_leave(other);
}

/* kv_overflow_return() returns buckets that were cut off without waiting for an epoch. */
static void test_cut_buckets_are_returned_at_once(void **unused)
{
    struct kv_index *index = &rig.kv->index;
    const struct kv_overflow *overflow = &index->overflows[kv_index_power(index) & 1];
    store(0, KEYS);
    delete (KV_BUCKET_SLOTS, KEYS);
    assert_int_equal(chain_buckets(), 1);
    assert_true(rig.worker->cut.count > 0);
    assert_int_equal(rig.worker->cut.waiting, 0);
    kv_overflow_return(rig.worker, index);
    assert_int_not_equal((uint32_t)kv_u64_load_relaxed(&overflow->stack), 0);
    assert_int_equal(rig.worker->cut.count, 0);
}

/* A worker that has long taken none still has buckets of a table that is not there any more. */
static void test_reserve_of_an_old_table_is_discarded(void **unused)
{
    struct kv_index *index = &rig.kv->index;
    unsigned power = kv_index_power(index);
    struct kv_bucket_reserve *spares = &rig.worker->spares[power & 1];
    uint64_t stack = kv_u64_load_relaxed(&index->overflows[power & 1].stack);
    *spares = (struct kv_bucket_reserve){.power = power - 2, .count = 1, .link = {5}};
    kv_overflow_return(rig.worker, index);
    assert_int_equal(spares->count, 0);
    assert_int_equal(kv_u64_load_relaxed(&index->overflows[power & 1].stack), stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty_bucket_leaves_its_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_buckets_leave_from_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_they_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_before_all_are_quiescent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_appended_comes_back_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_cut_off_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crowded_chains_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prefetch_looks_through_the_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hint_of_a_bucket_that_has_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve_returns_during_a_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_buckets_are_returned_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve_of_an_old_table_is_discarded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
