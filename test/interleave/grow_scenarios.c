/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index while it grows: the chain of two keys is moved to the larger table by one thread or
 * two, while others insert, exchange, delete and look.
 *
 * This file is compiled as the engine is, as looking up is inlined here.
 */
#include <stdio.h>
#include <string.h>

#include "index_ops.h"
#include "scenarios.h"

#define FILL_MAX 100000

static struct kv_bucket *old_head; /* of the chain of A and B in the smaller table */

/* Fills the table with small items until a larger one stands ready to take its chains. */
static void fill_until_growing(void)
{
    struct kv_worker *worker = table.workers[0];
    const struct kv_index *index = &table.kv->index;
    for (unsigned i = 0; kv_u32_load_acquire(&index->moving) == 0; i++) {
        char name[16];
        struct kv_change change = {0};
        enum kv_error error;
        if (i == FILL_MAX)
            il_fail("the table does not grow");
        snprintf(name, sizeof(name), "fill%u", i);
        struct kv_key key = kv_key(table.kv, name, (uint32_t)strlen(name));
        change.item = kv_item_new(worker, &key, 0, 0, 0, &error);
        if (!change.item)
            il_fail("kv_item_new: %d", error);
        kv_update(worker, &key, keys_decide_replace, NULL, &change);
        kv_quiesce(worker);
    }
}

/* The keys are chosen anew: of a chain that nothing is in. */
static void growing(void)
{
    keys_open();
    fill_until_growing();
    keys_choose();
    index_items_make();
    old_head = kv_index_chain(&table.kv->index, table.keys[KEY_A].hash);
}

static void growing_with_a(void)
{
    growing();
    index_insert(KEY_A, 9);
}

static void growing_with_both(void)
{
    growing_with_a();
    index_insert(KEY_B, 9);
}

/* One of the two new chains needs an overflow bucket. */
static void growing_with_many(void)
{
    growing_with_both();
    for (unsigned key = KEY_FILL; key < KEY_ELSEWHERE; key++)
        index_insert((enum key)key, 1);
}

/* The same with counted items, and no overflow bucket is free. */
static void growing_without_buckets(void)
{
    growing();
    for (unsigned key = 0; key < KEY_ELSEWHERE; key++)
        key_set((enum key)key, "1");
    struct kv_index *index = &table.kv->index;
    kv_u32_store_relaxed(&index->overflows[~kv_index_power(index) & 1].end, 0);
}

static void move(void)
{
    kv_chain_move(keys_worker(), old_head);
}

static void move_find(void)
{
    move();
    index_find(KEY_A);
}

static void insert_1_find(void)
{
    index_insert(KEY_A, 1);
    index_find(KEY_A);
}

static void insert_2(void)
{
    index_insert(KEY_A, 2);
}

static void insert_b(void)
{
    index_insert(KEY_B, 6);
}

static void exchange_3_find(void)
{
    index_exchange(KEY_A, 3);
    index_find(KEY_A);
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

static void unlink_a_find(void)
{
    index_unlink(KEY_A);
    index_find(KEY_A);
}

static void unlink_a_insert_2(void)
{
    index_unlink(KEY_A);
    index_insert(KEY_A, 2);
}

static void find_twice(void)
{
    index_find(KEY_A);
    index_find(KEY_A);
}

/* Walks over the chain of A: its item is there exactly once, in whichever table. */
static void scan(void)
{
    struct kv_words words;
    unsigned found = 0;
    uint64_t position = table.keys[KEY_A].hash >> 1;
    kv_index_copy(&table.kv->index, &position, &words);
    for (unsigned i = 0; i < words.count; i++)
        found += kv_item_has_key(kv_word_item(&table.kv->index, words.at[i]), &table.keys[KEY_A]);
    if (found != 1)
        il_fail("a scan has met a key %u times that was there all the while", found);
}

/* ---- afterwards -------------------------------------------------------------------------- */

static unsigned buckets_linked(struct kv_bucket *head)
{
    const struct kv_index *index = &table.kv->index;
    unsigned count = 0;
    for (struct kv_bucket *bucket = head; (bucket = kv_bucket_next(index, head, bucket)) != NULL;)
        count++;
    return count;
}

/* The number of buckets that the worker has in reserve. All of them are empty. */
static unsigned buckets_kept(const struct kv_worker *worker, unsigned power)
{
    const struct kv_bucket_reserve *spares = &worker->spares[power & 1];
    if (spares->power != power)
        return 0;
    for (unsigned i = 0; i < spares->count; i++) {
        const struct kv_bucket *bucket = kv_overflow_at(&table.kv->index, power, spares->link[i]);
        uint64_t words = kv_u64_load_relaxed(&bucket->control);
        for (unsigned slot = 0; slot < KV_BUCKET_SLOTS; slot++)
            words |= kv_u64_load_relaxed(&bucket->slot[slot]);
        if (words != 0)
            il_fail("a bucket that has come back is not empty");
    }
    return spares->count;
}

/* Each bucket that was allocated is in a chain or in a worker's reserve. */
static void check_buckets(void)
{
    const struct kv_index *index = &table.kv->index;
    unsigned power = kv_index_power(index) + 1;
    struct kv_bucket *child = &index->buckets[2 * (old_head - index->buckets)];
    unsigned count = buckets_linked(&child[0]) + buckets_linked(&child[1]);
    for (unsigned i = 0; i < U_ARRAY_LEN(table.workers); i++)
        count += buckets_kept(table.workers[i], power);
    if (count != kv_u32_load_relaxed(&index->overflows[power & 1].next) - 1)
        il_fail("a bucket is lost");
    keys_check_histories();
}

/* Items were evicted, so their histories are not checked. */
static void check_counts(void)
{
    const char *broken = kv_check(table.kv);
    if (broken)
        il_fail("kv_check: %s", broken);
}

const struct il_scenario grow_scenarios[] = {
    {"grow-find",
     "a key of a chain that moves is never missed",
     2,
     growing_with_a,
     keys_begin,
     {move_find, find_twice},
     keys_check_histories,
     keys_close},
    {"grow-scan",
     "nor by a scan, nor met twice",
     2,
     growing_with_both,
     keys_begin,
     {move, scan},
     keys_check_histories,
     keys_close},
    {"grow-insert",
     "inserted while the chain moves",
     2,
     growing_with_both,
     keys_begin,
     {move_find, insert_b},
     keys_check_histories,
     keys_close},
    {"grow-insert-insert",
     "by two",
     3,
     growing,
     keys_begin,
     {move, insert_1_find, insert_2},
     keys_check_histories,
     keys_close},
    {"grow-exchange",
     "exchanged while the chain moves",
     2,
     growing_with_a,
     keys_begin,
     {move_find, exchange_3_find},
     keys_check_histories,
     keys_close},
    {"grow-exchange-at",
     "exchanged in the slot where it was while the chain moves",
     2,
     growing_with_a,
     keys_begin,
     {move_find, exchange_at_3_find},
     keys_check_histories,
     keys_close},
    {"grow-exchange-at-both",
     "and by another one where it is",
     3,
     growing_with_both,
     keys_begin,
     {move, exchange_at_3_find, exchange_4_find},
     keys_check_histories,
     keys_close},
    {"grow-unlink",
     "deleted while the chain moves",
     2,
     growing_with_a,
     keys_begin,
     {move_find, unlink_a_find},
     keys_check_histories,
     keys_close},
    {"grow-helpers",
     "moved by two, and a third changes what moves",
     3,
     growing_with_both,
     keys_begin,
     {move, move_find, exchange_3_find},
     keys_check_histories,
     keys_close},
    {"grow-helpers-buckets",
     "moved by two who both fill overflow buckets",
     2,
     growing_with_many,
     keys_begin,
     {move, move},
     check_buckets,
     keys_close},
    {"grow-helpers-evict",
     "moved by two where there are none: what does not fit is evicted once",
     2,
     growing_without_buckets,
     keys_begin,
     {move, move},
     check_counts,
     keys_close},
    {"grow-late-helper",
     "a late helper does not restore a deleted item",
     3,
     growing_with_a,
     keys_begin,
     {move, move, unlink_a_insert_2},
     keys_check_histories,
     keys_close},
    {"grow-all",
     "moved, deleted and inserted, and looked for",
     3,
     growing_with_a,
     keys_begin,
     {move, unlink_a_insert_2, find_twice},
     keys_check_histories,
     keys_close},
};

const unsigned grow_scenario_count = sizeof(grow_scenarios) / sizeof(grow_scenarios[0]);
