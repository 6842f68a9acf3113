/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index alone: items that were made beforehand are inserted, exchanged and unlinked, nothing is
 * allocated or accounted for. Runs are short, so that they are explored deeper than whole requests.
 *
 * This file is compiled as the engine is, as looking up is inlined here.
 */
#include "index_ops.h"
#include "scenarios.h"

/* ---- how tables begin -------------------------------------------------------------------- */

static void empty(void)
{
    keys_open();
    index_items_make();
}

static void with_a(void)
{
    empty();
    index_insert(KEY_A, 9);
}

static void with_b(void)
{
    empty();
    index_insert(KEY_B, 9);
}

/* B is in the first slot, its slot is named by the control word no more; A comes after it. */
static void with_b_and_a(void)
{
    with_b();
    index_insert(KEY_A, 9);
}

/* No slot of the first bucket is empty. */
static void full(void)
{
    empty();
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        index_insert((enum key)(KEY_FILL + i), 1);
}

/* B is alone in the second bucket. */
static void full_and_b(void)
{
    full();
    index_insert(KEY_B, 9);
}

/* B is alone in the third bucket. */
static void full_twice_and_b(void)
{
    empty();
    for (unsigned i = 0; i < 2 * KV_BUCKET_SLOTS; i++)
        index_insert((enum key)(KEY_FILL + i), 1);
    index_insert(KEY_B, 9);
}

static struct kv_bucket *old_bucket;

/* An empty second bucket that is still there: who emptied it has cut off too many already. */
static void full_and_empty(void)
{
    full_and_b();
    struct kv_cut_buckets *cut = &table.workers[0]->cut;
    struct kv_bucket *head = kv_index_chain(&table.kv->index, table.keys[KEY_A].hash);
    old_bucket = kv_bucket_next(&table.kv->index, head, head);
    cut->power = kv_index_power(&table.kv->index);
    cut->count = KV_CUT_MAX;
    index_unlink(KEY_B);
    cut->count = 0;
    if (kv_bucket_next(&table.kv->index, head, head) != old_bucket)
        il_fail("the bucket has left its chain");
}

static uint32_t held[IL_THREADS_MAX][2]; /* overflow buckets of each thread */

static uint32_t bucket_take(void)
{
    return kv_overflow_take(keys_worker(), kv_index_power(&table.kv->index));
}

static void bucket_return(uint32_t link)
{
    kv_overflow_give(keys_worker(), kv_index_power(&table.kv->index), link);
    kv_overflow_return(keys_worker(), &table.kv->index);
}

/* Two overflow buckets were in use and have come back. */
static void empty_and_two_buckets(void)
{
    empty();
    uint32_t first = bucket_take();
    bucket_return(bucket_take());
    bucket_return(first);
    il_region(held, sizeof(held), "held");
}

static void buckets_check(void)
{
    const uint32_t *all = &held[0][0];
    for (unsigned i = 0; i < U_ARRAY_LEN(held) * 2; i++)
        for (unsigned j = 0; j < i; j++)
            if (all[i] != 0 && all[i] == all[j])
                il_fail("a bucket was taken twice");
}

/* ---- what threads do --------------------------------------------------------------------- */

static void insert_1(void)
{
    index_insert(KEY_A, 1);
}

static void insert_2(void)
{
    index_insert(KEY_A, 2);
}

static void insert_1_find(void)
{
    index_insert(KEY_A, 1);
    index_find(KEY_A);
}

static void insert_b_unlink_b(void)
{
    index_insert(KEY_B, 3);
    index_unlink(KEY_B);
}

static void unlink_b_insert_2(void)
{
    index_unlink(KEY_B);
    index_insert(KEY_A, 2);
}

static void unlink_b_insert_b(void)
{
    index_unlink(KEY_B);
    index_insert(KEY_B, 4);
}

static void unlink_a(void)
{
    index_unlink(KEY_A);
}

static void unlink_a_insert_2(void)
{
    index_unlink(KEY_A);
    index_insert(KEY_A, 2);
}

static void unlink_a_insert_b(void)
{
    index_unlink(KEY_A);
    index_insert(KEY_B, 5);
}

static void exchange_3(void)
{
    index_exchange(KEY_A, 3);
}

static void exchange_4_find(void)
{
    index_exchange(KEY_A, 4);
    index_find(KEY_A);
}

static void exchange_at_3_find(void)
{
    index_exchange_at(KEY_A, 3);
    index_find(KEY_A);
}

static void exchange_at_b_find(void)
{
    index_exchange_at(KEY_B, 3);
    index_find(KEY_B);
}

static void find_twice(void)
{
    index_find(KEY_A);
    index_find(KEY_A);
}

static void cut_insert_two(void)
{
    kv_overflow_cut(keys_worker(), kv_index_chain(&table.kv->index, table.keys[KEY_A].hash));
    index_insert(KEY_B, 4);
    index_insert((enum key)(KEY_FILL + KV_BUCKET_SLOTS), 1);
}

/* The slot that is claimed there: pend names the one before. */
static void find_in_old_bucket(void)
{
    index_find_late(KEY_A, &old_bucket->slot[1], KV_BUCKET_SLOTS + 1);
}

static void unlink_b(void)
{
    index_unlink(KEY_B);
}

static void insert_b(void)
{
    index_insert(KEY_B, 6);
}

static void take_two_buckets(void)
{
    held[il_thread()][0] = bucket_take();
    held[il_thread()][1] = bucket_take();
}

static void take_two_buckets_return_one(void)
{
    uint32_t first = bucket_take();
    held[il_thread()][0] = bucket_take();
    bucket_return(first);
}

const struct il_scenario index_scenarios[] = {
    {"index-insert",
     "two insert one key",
     2,
     empty,
     keys_begin,
     {insert_1_find, insert_2},
     keys_check_histories,
     keys_close},
    {"index-insert-find",
     "and a third looks for it",
     3,
     empty,
     keys_begin,
     {insert_1, insert_2, find_twice},
     keys_check_histories,
     keys_close},
    {"index-insert-unlink",
     "two insert one key, a third deletes it",
     3,
     empty,
     keys_begin,
     {insert_1, insert_2, unlink_a},
     keys_check_histories,
     keys_close},
    {"index-insert-two",
     "new keys of one chain",
     3,
     empty,
     keys_begin,
     {insert_1, insert_b_unlink_b, insert_2},
     keys_check_histories,
     keys_close},
    {"index-insert-gone",
     "a slot is filled and emptied under a slow claim, a third looks",
     3,
     empty,
     keys_begin,
     {insert_1, insert_b_unlink_b, find_twice},
     keys_check_histories,
     keys_close},
    {"index-reuse",
     "a slot is emptied while others claim slots",
     3,
     with_b_and_a,
     keys_begin,
     {unlink_a_insert_2, unlink_b_insert_b, find_twice},
     keys_check_histories,
     keys_close},
    {"index-reuse-first",
     "an earlier slot gets empty between two inserts of one key",
     3,
     with_b,
     keys_begin,
     {insert_1, unlink_b_insert_2, find_twice},
     keys_check_histories,
     keys_close},
    {"index-reuse-claimed",
     "two keys in turn in the slot of a slow claim",
     3,
     with_a,
     keys_begin,
     {insert_b, unlink_a_insert_2, unlink_a_insert_b},
     keys_check_histories,
     keys_close},
    {"index-exchange",
     "exchanged by two, deleted and inserted",
     3,
     with_a,
     keys_begin,
     {exchange_3, unlink_a_insert_2, exchange_4_find},
     keys_check_histories,
     keys_close},
    {"index-exchange-find",
     "a key that is exchanged is never missed",
     3,
     with_a,
     keys_begin,
     {exchange_3, exchange_4_find, find_twice},
     keys_check_histories,
     keys_close},
    {"index-exchange-at",
     "exchanged in the slot where it was, and elsewhere, deleted and inserted",
     3,
     with_a,
     keys_begin,
     {exchange_at_3_find, unlink_a_insert_2, exchange_4_find},
     keys_check_histories,
     keys_close},
    {"index-exchange-at-cut",
     "exchanged in a slot of a bucket that gets empty and leaves, and comes back",
     3,
     full_and_b,
     keys_begin,
     {exchange_at_b_find, unlink_b_insert_b, insert_1},
     keys_check_histories,
     keys_close},
    {"index-append",
     "two inserts want another bucket",
     2,
     full,
     keys_begin,
     {insert_1_find, insert_2},
     keys_check_histories,
     keys_close},
    {"index-append-two",
     "two keys want another bucket, a third thread looks",
     3,
     full,
     keys_begin,
     {insert_1, insert_b, find_twice},
     keys_check_histories,
     keys_close},
    {"index-cut",
     "a bucket gets empty and leaves while a key is inserted",
     2,
     full_and_b,
     keys_begin,
     {unlink_b, insert_1_find},
     keys_check_histories,
     keys_close},
    {"index-cut-append",
     "and another one comes in its place, a third thread looks",
     3,
     full_and_b,
     keys_begin,
     {unlink_b_insert_b, insert_1, find_twice},
     keys_check_histories,
     keys_close},
    {"index-cut-late",
     "a claim in a bucket that has left, and a reader who still is in it",
     3,
     full_and_empty,
     keys_begin,
     {cut_insert_two, insert_1, find_in_old_bucket},
     keys_check_histories,
     keys_close},
    {"index-cut-third",
     "a third bucket leaves while a key is inserted",
     2,
     full_twice_and_b,
     keys_begin,
     {unlink_b, insert_1_find},
     keys_check_histories,
     keys_close},
    {"index-cut-third-append",
     "and comes back, others insert and look",
     3,
     full_twice_and_b,
     keys_begin,
     {unlink_b_insert_b, unlink_a_insert_2, insert_1_find},
     keys_check_histories,
     keys_close},
    {"index-buckets",
     "overflow buckets are taken while others are taken and come back",
     2,
     empty_and_two_buckets,
     keys_begin,
     {take_two_buckets, take_two_buckets_return_one},
     buckets_check,
     keys_close},
};

const unsigned index_scenario_count = sizeof(index_scenarios) / sizeof(index_scenarios[0]);
