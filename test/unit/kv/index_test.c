/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash table: chains that grow, their bound, keys that an attacker would choose. */
#include "kv_rig.h"

#include "kv/engine.h"

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 4 * MIB, 2, true, 0);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static struct kv_bucket *chain_0(void)
{
    return kv_position_chain(&rig.kv->index, 0);
}

/* The n-th key whose hash leads to chain 0, as with knowledge of the secret. */
static struct kv_key colliding_key(char name[24], unsigned n)
{
    static unsigned found_number[128];
    static unsigned found;
    unsigned number = found ? found_number[found - 1] + 1 : 0;
    for (; found <= n; number++) {
        snprintf(name, 24, "collide%u", number);
        if (kv_index_chain(&rig.kv->index, rig_key(rig.kv, name).hash) == chain_0())
            found_number[found++] = number;
    }
    snprintf(name, 24, "collide%u", found_number[n]);
    return rig_key(rig.kv, name);
}

static void test_word_keeps_tag_and_place(void **unused)
{
    char name[24];
    struct kv_key key = colliding_key(name, 0);
    rig_set(rig.worker, &key, 3, 1);
    uint64_t word;
    struct kv_item *item = rig_find(&rig.kv->index, &key, &word);
    assert_non_null(item);
    assert_ptr_equal(kv_word_item(&rig.kv->index, word), item);
    assert_true(kv_word_is_committed(word));
    assert_true(kv_word_has_tag(word, key.hash));
    assert_false(kv_word_has_tag(word, key.hash ^ UINT64_C(1) << 15));
    assert_true(kv_index_has(&rig.kv->index, key.hash, word));
    assert_false(kv_word_is_committed(0));
}

static void test_chain_grows_by_overflow_buckets(void **unused)
{
    char name[24];
    for (unsigned i = 0; i < 40; i++) {
        struct kv_key key = colliding_key(name, i);
        rig_set(rig.worker, &key, 10, i);
        kv_quiesce(rig.worker);
    }
    for (unsigned i = 0; i < 40; i++) {
        struct kv_key key = colliding_key(name, i);
        struct kv_view view;
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
        assert_true(rig_is_filled(view.item, 10, i));
    }
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 40);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.index_bytes, kv_table_bytes(stats.hash_power));
}

static void test_full_chain_evicts_its_worst_entry(void **unused)
{
    enum { FULL = KV_CHAIN_BUCKETS_MAX * KV_BUCKET_SLOTS };
    char name[24];
    struct kv_view view;
    for (unsigned i = 0; i < FULL; i++) {
        struct kv_key key = colliding_key(name, i);
        rig_set(rig.worker, &key, 10, i);
        if (i != 5)
            assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
        kv_quiesce(rig.worker);
    }
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    struct kv_key key = colliding_key(name, FULL);
    rig_set(rig.worker, &key, 10, FULL);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.evictions, 1);
    assert_int_equal(stats.evicted_unfetched, 1);
    assert_int_equal(stats.items, FULL);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    key = colliding_key(name, 5); /* the only one that was not fetched */
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
}

/* An item that is over goes before one without a fetch. The worker's clock may be behind. */
static void test_full_chain_evicts_what_is_over(void **unused)
{
    enum { FULL = KV_CHAIN_BUCKETS_MAX * KV_BUCKET_SLOTS };
    char name[24];
    struct kv_view view;
    struct kv_class_stats stats;
    enum kv_error error;
    struct kv_worker *ahead = kv_join(rig.kv);
    kv_tick(ahead, 20);
    for (unsigned i = 0; i < FULL; i++) {
        struct kv_key key = colliding_key(name, i);
        rig_store(ahead, &key, 10, i, 0, i == 9 ? 10 : 0, &error);
        if (i != 5)
            kv_bump(ahead, &key);
    }
    kv_tick(rig.worker, 15);
    struct kv_key key = colliding_key(name, FULL);
    rig_set(rig.worker, &key, 10, FULL);
    key = colliding_key(name, 5);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    key = colliding_key(name, 9);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
    kv_class_stats(rig.kv, 0, &stats);
    assert_int_equal(stats.evicted, 1);
    assert_int_equal(stats.evicted_idle_s, 0);
    kv_leave(ahead);
}

static void test_slot_is_reused_after_a_delete(void **unused)
{
    char name[24];
    for (unsigned round = 0; round < 200; round++) {
        struct kv_key key = colliding_key(name, round % 20);
        rig_set(rig.worker, &key, 10, round);
        assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
        assert_int_equal(rig_delete(rig.worker, &key), KV_KEEP);
        kv_quiesce(rig.worker);
    }
    assert_int_equal(rig_stats(rig.kv).items, 0);
    uint64_t control = kv_u64_load_relaxed(&chain_0()->control);
    assert_int_equal(control >> KV_CONTROL_LINK_SHIFT, 0);
}

/* The state of a chain in the middle of an insert: each step as if the worker had stopped there. */

struct insert {
    struct kv_key key;
    char name[24];
    struct kv_item *item;
    uint64_t word;
    struct kv_bucket *head;
};

static void insert_claim(struct insert *insert, unsigned slot)
{
    enum kv_error error;
    insert->key = colliding_key(insert->name, 7);
    insert->item = kv_item_new(rig.worker, &insert->key, 3, 0, 0, &error);
    assert_non_null(insert->item);
    rig_fill(insert->item, 3, 9);
    insert->head = kv_index_chain(&rig.kv->index, insert->key.hash);
    insert->word = kv_word_of(&rig.kv->index, insert->key.hash, insert->item);
    kv_u64_store_release(&insert->head->slot[slot], insert->word | KV_WORD_PEND);
}

static uint64_t control_committed(uint64_t version, unsigned slot)
{
    return version << KV_CONTROL_VERSION_SHIFT | (uint64_t)(slot + 1) << KV_CONTROL_PEND_SHIFT;
}

static void test_claim_without_commit_is_not_there(void **unused)
{
    struct insert insert;
    insert_claim(&insert, 2);
    uint64_t control = control_committed(5, 3);
    kv_u64_store_release(&insert.head->control, control);
    uint64_t word;
    assert_null(rig_find(&rig.kv->index, &insert.key, &word));
    assert_false(kv_index_has(&rig.kv->index, insert.key.hash, insert.word));
    assert_false(kv_index_unlink(rig.worker, insert.key.hash, insert.word));
    /* Another worker inserts the same key, past the claim and the slot that pend names. */
    rig_set(rig.worker, &insert.key, 3, 1);
    assert_int_equal(kv_u64_load_relaxed(&insert.head->slot[2]), insert.word | KV_WORD_PEND);
    assert_true(kv_word_is_committed(kv_u64_load_relaxed(&insert.head->slot[0])));
    assert_int_equal(kv_u64_load_relaxed(&insert.head->control), control_committed(6, 0));
    kv_u64_store_release(&insert.head->slot[2], 0);
    kv_item_drop(rig.worker, insert.item);
}

static void test_commit_is_finished_by_a_reader(void **unused)
{
    struct insert insert;
    insert_claim(&insert, 2);
    kv_u64_store_release(&insert.head->control, control_committed(5, 2));
    uint64_t word;
    assert_ptr_equal(rig_find(&rig.kv->index, &insert.key, &word), insert.item);
    assert_int_equal(word, insert.word);
    assert_int_equal(kv_u64_load_relaxed(&insert.head->slot[2]), insert.word);
    kv_u64_store_release(&insert.head->slot[2], 0);
    kv_item_drop(rig.worker, insert.item);
}

static void test_commit_is_finished_by_the_next_insert(void **unused)
{
    struct insert insert;
    insert_claim(&insert, 2);
    kv_u64_store_release(&insert.head->control, control_committed(5, 2));
    char name[24];
    struct kv_key other = colliding_key(name, 8);
    rig_set(rig.worker, &other, 3, 1);
    assert_int_equal(kv_u64_load_relaxed(&insert.head->slot[2]), insert.word);
    assert_int_equal(kv_u64_load_relaxed(&insert.head->control), control_committed(6, 0));
    assert_true(kv_index_has(&rig.kv->index, insert.key.hash, insert.word));
    kv_u64_store_release(&insert.head->slot[2], 0);
    kv_item_drop(rig.worker, insert.item);
}

/* The slot named by pend can't be claimed: a claim there would look like a commit. */
static void test_slot_of_the_last_commit_is_not_claimed(void **unused)
{
    char name[24];
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        struct kv_key key = colliding_key(name, i);
        rig_set(rig.worker, &key, 3, i);
    }
    struct kv_bucket *head = chain_0();
    assert_int_equal(kv_u64_load_relaxed(&head->control), control_committed(7, 6));
    struct kv_key key = colliding_key(name, 6);
    assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
    /* The version is the empty word. */
    assert_int_equal(kv_u64_load_relaxed(&head->slot[6]), KV_WORD_VACANT | 7);
    rig_set(rig.worker, &key, 3, 1);
    /* pend taken back to none, then committed. */
    assert_int_equal(kv_u64_load_relaxed(&head->control), control_committed(9, 6));
}

static void test_unlink_is_for_the_word_only(void **unused)
{
    char name[24];
    struct kv_key key = colliding_key(name, 1);
    rig_set(rig.worker, &key, 3, 1);
    uint64_t word;
    rig_find(&rig.kv->index, &key, &word);
    rig_set(rig.worker, &key, 3, 2);
    assert_false(kv_index_unlink(rig.worker, key.hash, word));
    struct kv_view view;
    assert_int_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
}

static void test_spare_bucket_is_kept(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    const struct kv_overflow *overflow = &rig.kv->index.overflows[power & 1];
    uint32_t first = kv_overflow_take(rig.worker, power);
    uint32_t second = kv_overflow_take(rig.worker, power);
    assert_int_not_equal(first, 0);
    assert_int_not_equal(first, second);
    kv_overflow_give(rig.worker, power, first);
    kv_overflow_give(rig.worker, power, second);
    uint32_t next = kv_u32_load_relaxed(&overflow->next);
    assert_true(kv_index_reserve_bucket(rig.worker));
    assert_int_equal(kv_overflow_take(rig.worker, power), second);
    assert_int_equal(kv_overflow_take(rig.worker, power), first);
    assert_int_equal(kv_u32_load_relaxed(&overflow->next), next);
    /* Overflow buckets reserved for the old table are not used for the next one. */
    kv_overflow_give(rig.worker, power, first);
    assert_int_equal(kv_overflow_take(rig.worker, power + 2), next);
}

static void test_overflow_is_bounded(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    uint32_t taken = 0;
    while (kv_overflow_take(rig.worker, power) != 0)
        taken++;
    assert_int_equal(taken, kv_overflow_count(power) - 1); /* link 0 is none */
    assert_false(kv_index_reserve_bucket(rig.worker));
}

/* No overflow bucket is to be had: the worst of the seven has to go. */
static void test_chain_that_cannot_be_extended_evicts(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    while (kv_overflow_take(rig.worker, power) != 0)
        continue;
    char name[24];
    for (unsigned i = 0; i <= KV_BUCKET_SLOTS; i++) {
        struct kv_key key = colliding_key(name, i);
        rig_set(rig.worker, &key, 10, i);
    }
    assert_int_equal(rig_stats(rig.kv).items, KV_BUCKET_SLOTS);
    assert_int_equal(rig_stats(rig.kv).evictions, 1);
}

/* A job of the prefault thread, which does not outlive the process, begins again. */
static void test_saved_during_a_growth(void **unused)
{
    static struct kv_index before, after;
    struct kv_saved_index saved;
    before.extends = true;
    before.bytes_wanted = 12345;
    before.grow_at = 6789;
    kv_u32_store_relaxed(&before.phase, KV_GROW_PREFAULT);
    kv_index_save(&before, &saved);
    kv_index_restore(&after, &saved);
    assert_int_equal(kv_u32_load_relaxed(&after.phase), KV_GROW_WAIT_MEMORY);
    assert_int_equal(after.grow_at, 0);
    assert_true(after.extends);
    assert_int_equal(after.bytes_wanted, 12345);
    kv_u32_store_relaxed(&before.phase, KV_GROW_MOVE);
    before.extends = false;
    kv_index_save(&before, &saved);
    kv_index_restore(&after, &saved);
    assert_int_equal(kv_u32_load_relaxed(&after.phase), KV_GROW_MOVE);
    assert_int_equal(after.grow_at, 6789);
    assert_false(after.extends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_word_keeps_tag_and_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chain_grows_by_overflow_buckets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_chain_evicts_its_worst_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_chain_evicts_what_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slot_is_reused_after_a_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claim_without_commit_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commit_is_finished_by_a_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commit_is_finished_by_the_next_insert, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_slot_of_the_last_commit_is_not_claimed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_unlink_is_for_the_word_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spare_bucket_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overflow_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chain_that_cannot_be_extended_evicts, setup, teardown),
        cmocka_unit_test(test_saved_during_a_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
