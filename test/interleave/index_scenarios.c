/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index alone: items that were made beforehand are inserted, exchanged and unlinked, nothing is
 * allocated or accounted for. Runs are short, so that they are explored deeper than whole requests.
 *
 * This file is compiled as the engine is, as looking up is inlined here.
 */
#include "scenarios.h"

#include "il.h"
#include "keys.h"

#define ITEMS 10

static struct kv_item *items[KEYS][ITEMS]; /* made when first asked for, by setting up */

/* The item of the key whose value is this digit. */
static struct kv_item *item_of(enum key key, unsigned digit)
{
    if (!items[key][digit])
        il_fail("the item has to be made when setting up");
    return items[key][digit];
}

static void item_make(enum key key, unsigned digit)
{
    enum kv_error error;
    uint32_t len;
    struct kv_item *item = kv_item_new(table.workers[0], &table.keys[key], 1, 0, 0, &error);
    if (!item)
        il_fail("kv_item_new: %d", error);
    *kv_item_room(item, 0, &len) = (uint8_t)('0' + digit);
    items[key][digit] = item;
}

static struct history_value digit_text(unsigned digit)
{
    return history_number(digit);
}

/* ---- operations -------------------------------------------------------------------------- */

/* Writes the value once more: whoever finds the item has to see this. */
static struct kv_item *item_filled(enum key key, unsigned digit)
{
    struct kv_item *item = item_of(key, digit);
    uint32_t len;
    *kv_item_room(item, 0, &len) = (uint8_t)('0' + digit);
    return item;
}

static void insert(enum key key, unsigned digit)
{
    struct history_op *op = keys_op_begin(key, HISTORY_ADD);
    struct kv_item *item = item_filled(key, digit);
    op->value = digit_text(digit);
    bool done = kv_index_insert(keys_worker(), &table.keys[key], item);
    op->result = done ? HISTORY_DONE : HISTORY_REFUSED;
    keys_op_end(op);
}

static void find(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_GET);
    uint64_t word;
    const struct kv_item *item = kv_index_find(&table.kv->index, &table.keys[key], &word);
    op->result = item ? HISTORY_DONE : HISTORY_ABSENT;
    if (item) {
        uint32_t len;
        const uint8_t *value = kv_value(item, 0, &len);
        op->seen = digit_text(*value - '0');
    }
    keys_op_end(op);
}

static void unlink_key(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_DELETE);
    uint64_t word;
    op->result = HISTORY_ABSENT;
    while (op->result == HISTORY_ABSENT &&
           kv_index_find(&table.kv->index, &table.keys[key], &word) != NULL)
        if (kv_index_unlink(keys_worker(), table.keys[key].hash, word))
            op->result = HISTORY_DONE;
    keys_op_end(op);
}

static void exchange(enum key key, unsigned digit)
{
    struct history_op *op = keys_op_begin(key, HISTORY_REPLACE);
    struct kv_item *item = item_filled(key, digit);
    uint64_t word;
    op->value = digit_text(digit);
    op->result = HISTORY_ABSENT;
    while (op->result == HISTORY_ABSENT &&
           kv_index_find(&table.kv->index, &table.keys[key], &word) != NULL)
        if (kv_index_exchange(keys_worker(), table.keys[key].hash, word, item))
            op->result = HISTORY_DONE;
    keys_op_end(op);
}

/* ---- how tables begin -------------------------------------------------------------------- */

static void empty(void)
{
    keys_open();
    for (unsigned digit = 1; digit < ITEMS; digit++) {
        item_make(KEY_A, digit);
        item_make(KEY_B, digit);
    }
}

static void with_a(void)
{
    empty();
    insert(KEY_A, 9);
}

static void with_b(void)
{
    empty();
    insert(KEY_B, 9);
}

/* B is in the first slot, its slot is named by the control word no more; A comes after it. */
static void with_b_and_a(void)
{
    with_b();
    insert(KEY_A, 9);
}

/* No slot of the first bucket is empty. */
static void full(void)
{
    empty();
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        item_make((enum key)(KEY_FILL + i), 1);
        insert((enum key)(KEY_FILL + i), 1);
    }
}

/* ---- what threads do --------------------------------------------------------------------- */

static void insert_1(void)
{
    insert(KEY_A, 1);
}

static void insert_2(void)
{
    insert(KEY_A, 2);
}

static void insert_1_find(void)
{
    insert(KEY_A, 1);
    find(KEY_A);
}

static void insert_b_unlink_b(void)
{
    insert(KEY_B, 3);
    unlink_key(KEY_B);
}

static void unlink_b_insert_2(void)
{
    unlink_key(KEY_B);
    insert(KEY_A, 2);
}

static void unlink_b_insert_b(void)
{
    unlink_key(KEY_B);
    insert(KEY_B, 4);
}

static void unlink_a(void)
{
    unlink_key(KEY_A);
}

static void unlink_a_insert_2(void)
{
    unlink_key(KEY_A);
    insert(KEY_A, 2);
}

static void unlink_a_insert_b(void)
{
    unlink_key(KEY_A);
    insert(KEY_B, 5);
}

static void exchange_3(void)
{
    exchange(KEY_A, 3);
}

static void exchange_4_find(void)
{
    exchange(KEY_A, 4);
    find(KEY_A);
}

static void find_twice(void)
{
    find(KEY_A);
    find(KEY_A);
}

static void insert_b(void)
{
    insert(KEY_B, 6);
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
};

const unsigned index_scenario_count = sizeof(index_scenarios) / sizeof(index_scenarios[0]);
