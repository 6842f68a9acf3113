/* SPDX-License-Identifier: BSD-3-Clause */
/* kv_check() finds each kind of damage, made by hand. */
#include "kv_rig.h"

#include "kv/engine.h"

struct rig {
    struct kv *kv;
    struct kv_worker *worker;
    struct kv_key key;
    kv_atomic_u64 *slot;
    uint64_t word;
    struct kv_item *item;
};

static struct rig rig;

/* The first slot of the key's chain with this word. */
static kv_atomic_u64 *slot_with(uint64_t word)
{
    struct kv_bucket *head = kv_index_chain(&rig.kv->index, rig.key.hash);
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        if (kv_u64_load_relaxed(&head->slot[i]) == word)
            return &head->slot[i];
    fail_msg("no slot of the chain has this word");
    return NULL;
}

static int setup(void **unused)
{
    rig.kv = rig_create(2 * MIB, 1, true);
    rig.worker = kv_join(rig.kv);
    rig.key = rig_key(rig.kv, "key");
    struct kv_key large = rig_key(rig.kv, "large");
    rig_set(rig.worker, &rig.key, 50, 1);
    rig_set(rig.worker, &large, 50000, 2);
    rig.item = rig_find(&rig.kv->index, &rig.key, &rig.word);
    rig.slot = slot_with(rig.word);
    rig_check(rig.kv);
    return 0;
}

static int teardown(void **unused)
{
    rig_check(rig.kv);
    kv_leave(rig.worker);
    kv_destroy(rig.kv);
    return 0;
}

static void expect_broken(const char *part)
{
    const char *broken = kv_check(rig.kv);
    assert_non_null(broken);
    if (!strstr(broken, part))
        fail_msg("found \"%s\" instead of \"%s\"", broken, part);
}

static void test_wrong_tag(void **unused)
{
    kv_u64_store_relaxed(rig.slot, rig.word ^ UINT64_C(1) << 60);
    expect_broken("tag");
    kv_u64_store_relaxed(rig.slot, rig.word);
}

static void test_unfinished_insert(void **unused)
{
    kv_u64_store_relaxed(rig.slot, rig.word | KV_WORD_PEND);
    expect_broken("not finished");
    kv_u64_store_relaxed(rig.slot, rig.word);
}

static void test_key_twice(void **unused)
{
    kv_atomic_u64 *second = slot_with(0);
    enum kv_error error;
    struct kv_item *copy = kv_item_new(rig.worker, &rig.key, 50, 0, 0, &error);
    kv_u64_store_relaxed(second, kv_word_of(&rig.kv->index, rig.key.hash, copy));
    expect_broken("twice");
    kv_u64_store_relaxed(second, 0);
    kv_item_drop(rig.worker, copy);
}

static void test_dead_item(void **unused)
{
    uint64_t status = kv_item_status(rig.item);
    kv_item_mark(rig.item, KV_MARK_DEAD);
    expect_broken("dead");
    kv_item_status_set(rig.item, status);
}

static void test_changed_key(void **unused)
{
    uint8_t *key = (uint8_t *)rig.item + kv_item_key_offset(rig.item, kv_item_status(rig.item));
    key[0] ^= 1;
    expect_broken("chain");
    key[0] ^= 1;
}

static void test_lost_item(void **unused)
{
    kv_u64_store_relaxed(rig.slot, 0);
    expect_broken("live bytes");
    kv_u64_store_relaxed(rig.slot, rig.word);
}

static void test_miscounted_items(void **unused)
{
    kv_class_count(rig.worker, 0, KV_CLASS_ITEMS, 1);
    expect_broken("counted items");
    kv_class_count(rig.worker, 0, KV_CLASS_ITEMS, UINT64_MAX);
    kv_count(rig.worker, KV_COUNT_BYTES, 1);
    expect_broken("counted bytes");
    kv_count(rig.worker, KV_COUNT_BYTES, UINT64_MAX);
}

static void test_broken_extent(void **unused)
{
    uint64_t word;
    struct kv_key large = rig_key(rig.kv, "large");
    struct kv_item *item = rig_find(&rig.kv->index, &large, &word);
    struct kv_item *extent = kv_item_extent(item, 0);
    *kv_item_cas_at(extent) ^= 1;
    expect_broken("extent");
    *kv_item_cas_at(extent) ^= 1;
}

static void test_wrong_list(void **unused)
{
    uint32_t open = rig.worker->log[kv_log_for(rig.worker, KV_POOL_SMALL, 0)];
    struct kv_segment *segment = &rig.kv->segments.array[open];
    kv_u8_store_seq_cst(&segment->state, KV_SEGMENT_RETIRED);
    expect_broken("neither open nor sealed");
    kv_u8_store_seq_cst(&segment->state, KV_SEGMENT_OPEN);
    struct kv_segment *first_free = &rig.kv->segments.array[rig.kv->segments.free.head];
    kv_u8_store_seq_cst(&first_free->state, KV_SEGMENT_RETIRED);
    expect_broken("wrong list");
    kv_u8_store_seq_cst(&first_free->state, KV_SEGMENT_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wrong_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unfinished_insert, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_miscounted_items, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_extent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_list, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
