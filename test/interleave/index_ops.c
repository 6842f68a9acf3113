/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the index alone; compiled as the engine is, as looking up is inlined here. */
#include "index_ops.h"

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

void index_items_make(void)
{
    for (unsigned digit = 1; digit < ITEMS; digit++) {
        item_make(KEY_A, digit);
        item_make(KEY_B, digit);
    }
    for (unsigned key = KEY_FILL; key < KEY_ELSEWHERE; key++)
        item_make((enum key)key, 1);
}

static struct history_value digit_text(unsigned digit)
{
    return history_number(digit);
}

/* ---- operations -------------------------------------------------------------------------- */

/* Writes the value again: a thread that finds the item has to see it. */
static struct kv_item *item_filled(enum key key, unsigned digit)
{
    struct kv_item *item = item_of(key, digit);
    uint32_t len;
    *kv_item_room(item, 0, &len) = (uint8_t)('0' + digit);
    return item;
}

void index_insert(enum key key, unsigned digit)
{
    struct history_op *op = keys_op_begin(key, HISTORY_ADD);
    struct kv_item *item = item_filled(key, digit);
    op->value = digit_text(digit);
    bool done = kv_index_insert(keys_worker(), &table.keys[key], item);
    op->result = done ? HISTORY_DONE : HISTORY_REFUSED;
    keys_op_end(op);
}

static void found(struct history_op *op, const struct kv_item *item)
{
    op->result = item ? HISTORY_DONE : HISTORY_ABSENT;
    if (item) {
        uint32_t len;
        const uint8_t *value = kv_value(item, 0, &len);
        op->seen = digit_text(*value - '0');
    }
    keys_op_end(op);
}

/* The item that a search finds, or null; its word, or 0. */
static struct kv_item *item_find(const struct kv_index *index, const struct kv_key *key,
                                 uint64_t *word)
{
    struct kv_find find;
    bool found = kv_index_find(index, key, &find);
    *word = found ? find.word : 0;
    return found ? find.item : NULL;
}

void index_find(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_GET);
    uint64_t word;
    found(op, item_find(&table.kv->index, &table.keys[key], &word));
}

void index_find_late(enum key key, kv_atomic_u64 *slot, unsigned number)
{
    const struct kv_index *index = &table.kv->index;
    uint64_t hash = table.keys[key].hash;
    struct history_op *op = keys_op_begin(key, HISTORY_GET);
    op->from = 0;
    uint64_t word = kv_u64_load_acquire(slot);
    if (!kv_word_is_committed(word))
        word = kv_slot_resolve(index, kv_index_chain(index, hash), slot, number, word);
    bool is_there = word != 0 && kv_word_has_tag(word, hash);
    found(op, is_there ? kv_word_item(index, word) : NULL);
}

void index_unlink(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_DELETE);
    uint64_t word;
    op->result = HISTORY_ABSENT;
    while (op->result == HISTORY_ABSENT &&
           item_find(&table.kv->index, &table.keys[key], &word) != NULL)
        if (kv_index_unlink(keys_worker(), table.keys[key].hash, word))
            op->result = HISTORY_DONE;
    keys_op_end(op);
}

void index_exchange(enum key key, unsigned digit)
{
    struct history_op *op = keys_op_begin(key, HISTORY_REPLACE);
    struct kv_item *item = item_filled(key, digit);
    uint64_t word;
    op->value = digit_text(digit);
    op->result = HISTORY_ABSENT;
    while (op->result == HISTORY_ABSENT &&
           item_find(&table.kv->index, &table.keys[key], &word) != NULL)
        if (kv_index_exchange(keys_worker(), table.keys[key].hash, word, item))
            op->result = HISTORY_DONE;
    keys_op_end(op);
}

void index_exchange_at(enum key key, unsigned digit)
{
    struct history_op *op = keys_op_begin(key, HISTORY_REPLACE);
    struct kv_item *item = item_filled(key, digit);
    struct kv_find find;
    op->value = digit_text(digit);
    op->result = HISTORY_ABSENT;
    while (op->result == HISTORY_ABSENT &&
           kv_index_search(&table.kv->index, &table.keys[key], &find))
        if (kv_index_exchange_at(keys_worker(), &find, table.keys[key].hash, item))
            op->result = HISTORY_DONE;
    keys_op_end(op);
}
