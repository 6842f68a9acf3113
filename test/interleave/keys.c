/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on a small table, recorded; keys.h says what for. */
#include "keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "il.h"

#define OPS_MAX 16
#define NAME_BYTES 16
#define EXPTIME 500 /* of stored items: far in the future */

struct table table;

static char names[KEYS][NAME_BYTES];
/* Vector clocks at begin and end of an operation. */
struct span {
    unsigned thread;
    struct il_clock from;
    struct il_clock to;
};

static struct span spans[KEYS * OPS_MAX];
static struct history_op histories[KEYS][OPS_MAX];
static unsigned counts[KEYS];
static unsigned counts_before[KEYS]; /* of setting up */
static bool begun;

/* ---- the table --------------------------------------------------------------------------- */

static bool is_in_chain_of_a(enum key key)
{
    const struct kv_index *index = &table.kv->index;
    return kv_index_chain(index, table.keys[key].hash) ==
           kv_index_chain(index, table.keys[KEY_A].hash);
}

static bool is_chain_empty(enum key key)
{
    struct kv_words words;
    uint64_t position = table.keys[key].hash >> 1;
    kv_index_copy(&table.kv->index, &position, &words);
    return words.count == 0;
}

void keys_choose(void)
{
    for (unsigned key = 0; key < KEYS; key++) {
        bool fits = false;
        for (unsigned i = 0; !fits; i++) {
            snprintf(names[key], NAME_BYTES, "%c%u", 'a' + (int)key, i);
            table.keys[key] = kv_key(table.kv, names[key], (uint32_t)strlen(names[key]));
            fits = key == KEY_A ? is_chain_empty(KEY_A)
                                : is_in_chain_of_a((enum key)key) == (key != KEY_ELSEWHERE);
        }
    }
}

static void regions(void)
{
    struct kv *kv = table.kv;
    const unsigned workers = kv->config.worker_max;
    il_region(kv, sizeof(*kv), "kv");
    il_region(kv->workers, workers * sizeof(*kv->workers), "workers");
    il_region(kv->members, workers * sizeof(*kv->members), "members");
    il_region(kv_index_chain(&kv->index, table.keys[KEY_A].hash), sizeof(struct kv_bucket),
              "chain");
    il_region(kv->segments.array, kv_segments_count(&kv->segments) * sizeof(*kv->segments.array),
              "segments");
    il_region(kv->segments.base, (size_t)kv_segments_count(&kv->segments) << kv->segments.shift,
              "memory");
    il_region(kv->memory.mapping, kv->memory.mapping_bytes, "mapping");
    for (unsigned i = 0; i < workers; i++)
        il_region(kv->workers[i].seen, kv->segments_count_max * sizeof(*kv->workers[i].seen),
                  "seen");
}

/* With KV_TEST_MEMORY=file in the environment tables live in a file, as those of kv_rig.h. */
static const struct kv_file *keys_file(void)
{
    static struct kv_file file = {-1, 0};
    const char *memory = getenv("KV_TEST_MEMORY");
    if (!memory || strcmp(memory, "file") != 0)
        return NULL;
    if (file.fd < 0)
        file.fd = (int)syscall(SYS_memfd_create, "kv", 0);
    return &file;
}

void keys_open(void)
{
    struct kv_config config = {.memory_bytes = UINT64_C(1) << 20,
                               .value_bytes_max = 1000,
                               .worker_max = U_ARRAY_LEN(table.workers),
                               .evict = true,
                               .policy = KV_POLICY_CLOCK, /* has no memory beside the segments */
                               .file = keys_file()};
    const char *error;
    memcpy(config.secret, "0123456789abcdef", sizeof(config.secret));
    table.kv = kv_create(&config, &error);
    if (!table.kv)
        il_fail("kv_create: %s", error);
    for (unsigned i = 0; i < U_ARRAY_LEN(table.workers); i++) {
        table.workers[i] = kv_join(table.kv);
        kv_tick(table.workers[i], 1);
    }
    keys_choose();
    for (unsigned i = 0; i < U_ARRAY_LEN(table.workers); i++) {
        enum kv_error no;
        struct kv_item *item = kv_item_new(table.workers[i], &table.keys[KEY_A], 1, 0, 0, &no);
        kv_item_drop(table.workers[i], item);
    }
    memset(counts, 0, sizeof(counts));
    begun = false;
    regions();
}

void keys_close(void)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(table.workers); i++)
        kv_leave(table.workers[i]);
    kv_destroy(table.kv);
}

void keys_begin(void)
{
    if (!begun)
        memcpy(counts_before, counts, sizeof(counts));
    begun = true;
    memcpy(counts, counts_before, sizeof(counts));
}

struct kv_worker *keys_worker(void)
{
    return table.workers[il_thread()];
}

/* ---- operations -------------------------------------------------------------------------- */

struct history_op *keys_op_begin(enum key key, enum history_action action)
{
    if (counts[key] == OPS_MAX)
        il_fail("too many operations on a key");
    struct history_op *op = &histories[key][counts[key]++];
    *op = (struct history_op){.action = action, .from = il_time(), .to = UINT64_MAX};
    op->id = (unsigned)key * OPS_MAX + counts[key] - 1;
    spans[op->id] = (struct span){.thread = il_thread(), .from = il_clock()};
    return op;
}

void keys_op_end(struct history_op *op)
{
    op->to = il_time();
    spans[op->id].to = il_clock();
}

static bool is_before(const struct history_op *a, const struct history_op *b)
{
    const struct span *x = &spans[a->id];
    const struct span *y = &spans[b->id];
    return y->from.of[x->thread] >= x->to.of[x->thread];
}

static struct history_value value_of(const struct kv_view *view)
{
    struct history_value value = {0};
    uint32_t len = 0;
    if (view->value_len > HISTORY_VALUE_MAX)
        il_fail("a value is %u bytes long", view->value_len);
    if (view->value_len > 0)
        memcpy(value.bytes, kv_value(view->item, 0, &len), view->value_len);
    value.len = (uint8_t)view->value_len;
    return value;
}

/* The main thread looks without leaving a trace. */
static void look(enum key key, bool counts_as_access)
{
    struct history_op *op = keys_op_begin(key, HISTORY_GET);
    struct kv_worker *worker = keys_worker();
    struct kv_view view;
    enum kv_found found = counts_as_access ? kv_get(worker, &table.keys[key], &view)
                                           : kv_peek(worker, &table.keys[key], &view);
    op->result = found == KV_HIT ? HISTORY_DONE : HISTORY_ABSENT;
    if (found == KV_HIT) {
        op->seen = value_of(&view);
        op->cas = view.cas;
        op->seen_exptime = view.exptime;
    }
    keys_op_end(op);
}

void key_get(enum key key)
{
    look(key, true);
}

uint64_t key_cas_now(enum key key)
{
    struct kv_view view;
    return kv_peek(keys_worker(), &table.keys[key], &view) == KV_HIT ? view.cas : 0;
}

static void item_fill(struct kv_item *item, const struct history_value *value)
{
    uint32_t len;
    uint8_t *room = kv_item_room(item, 0, &len);
    for (unsigned i = 0; i < value->len; i++) {
        il_plain_write(&room[i], 1);
        room[i] = (uint8_t)value->bytes[i];
    }
}

enum kv_verdict keys_decide_replace(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    (void)ctx;
    (void)old;
    (void)change;
    return KV_REPLACE;
}

static enum kv_verdict decide_incr(struct history_op *op, const struct kv_view *old,
                                   struct kv_change *change)
{
    if (!old) {
        op->result = HISTORY_ABSENT;
        return KV_KEEP;
    }
    op->seen = value_of(old);
    op->seen.bytes[0]++;
    kv_item_set_exptime(keys_worker(), change->item, old->exptime);
    item_fill(change->item, &op->seen);
    return KV_REPLACE;
}

static enum kv_verdict decide(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct history_op *op = (struct history_op *)ctx;
    op->result = HISTORY_DONE;
    change->state = 0;
    switch (op->action) {
    case HISTORY_ADD:
        op->result = old ? HISTORY_REFUSED : HISTORY_DONE;
        break;
    case HISTORY_CAS:
        op->result = !old                       ? HISTORY_ABSENT
                     : old->cas != op->expected ? HISTORY_REFUSED
                                                : HISTORY_DONE;
        break;
    case HISTORY_INCR:
        return decide_incr(op, old, change);
    case HISTORY_TOUCH:
        op->result = old ? HISTORY_DONE : HISTORY_ABSENT;
        change->exptime = op->exptime;
        return KV_TOUCH;
    case HISTORY_DELETE:
        op->result = old ? HISTORY_DONE : HISTORY_ABSENT;
        return KV_DELETE;
    default:
        break;
    }
    return op->result == HISTORY_DONE ? KV_REPLACE : KV_KEEP;
}

/* An operation that may store `len` bytes. */
static void op_store(struct history_op *op, enum key key, uint32_t len)
{
    struct kv_worker *worker = keys_worker();
    struct kv_change change = {0};
    enum kv_error error;
    change.item = kv_item_new(worker, &table.keys[key], len, 0, EXPTIME, &error);
    if (!change.item)
        il_fail("kv_item_new: %d", error);
    if (op->action != HISTORY_INCR)
        item_fill(change.item, &op->value);
    if (kv_update(worker, &table.keys[key], decide, op, &change) == KV_REPLACE)
        op->cas = change.cas;
    else
        kv_item_drop(worker, change.item);
    keys_op_end(op);
}

static void op_store_text(enum key key, enum history_action action, uint64_t expected,
                          const char *text)
{
    struct history_op *op = keys_op_begin(key, action);
    op->value = history_text(text);
    op->exptime = EXPTIME;
    op->expected = expected;
    op_store(op, key, op->value.len);
}

void key_set(enum key key, const char *text)
{
    op_store_text(key, HISTORY_SET, 0, text);
}

void key_set_short(enum key key, const char *text)
{
    struct kv_worker *worker = keys_worker();
    struct kv_key hinted = table.keys[key];
    kv_prefetch_bucket(worker, &hinted);
    kv_prefetch_item(worker, &hinted);
    struct history_op *op = keys_op_begin(key, HISTORY_SET);
    op->value = history_text(text);
    op->exptime = EXPTIME;
    struct kv_short value = {(const uint8_t *)op->value.bytes, op->value.len};
    op->cas = kv_replace_short(worker, &hinted, &value, EXPTIME);
    op->result = HISTORY_DONE;
    if (op->cas != 0)
        keys_op_end(op);
    else
        op_store(op, key, op->value.len);
}

void key_add(enum key key, const char *text)
{
    op_store_text(key, HISTORY_ADD, 0, text);
}

void key_cas(enum key key, uint64_t expected, const char *text)
{
    op_store_text(key, HISTORY_CAS, expected, text);
}

void key_incr(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_INCR);
    op->delta = 1;
    op_store(op, key, 1);
}

void key_touch(enum key key, uint32_t exptime)
{
    struct history_op *op = keys_op_begin(key, HISTORY_TOUCH);
    struct kv_change change = {0};
    op->exptime = exptime;
    kv_update(keys_worker(), &table.keys[key], decide, op, &change);
    keys_op_end(op);
}

void key_delete(enum key key)
{
    struct history_op *op = keys_op_begin(key, HISTORY_DELETE);
    struct kv_change change = {0};
    kv_update(keys_worker(), &table.keys[key], decide, op, &change);
    keys_op_end(op);
}

/* ---- afterwards -------------------------------------------------------------------------- */

static void history_fail(enum key key, enum history_verdict verdict)
{
    static const char *const actions[] = {"get", "set",  "add",  "replace", "append", "prepend",
                                          "cas", "incr", "decr", "touch",   "delete", "flush"};
    static const char *const results[] = {"done", "absent", "refused"};
    for (unsigned i = 0; i < counts[key]; i++) {
        const struct history_op *op = &histories[key][i];
        printf("  %lu-%lu %s %.*s: %s %.*s cas %lu exptime %u/%u\n", (unsigned long)op->from,
               (unsigned long)op->to, actions[op->action], op->value.len, op->value.bytes,
               results[op->result], op->seen.len, op->seen.bytes, (unsigned long)op->cas,
               op->exptime, op->seen_exptime);
    }
    il_fail("the history of key %s is not linearizable (%d)", names[key], verdict);
}

/*
 * Where loads return old values, times prove nothing: a thread need not see what another one has
 * done unless it synchronised with it. Then the order to respect is happens-before.
 */
void keys_check_histories(void)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (counts[key] == 0)
            continue;
        look((enum key)key, false);
        enum history_verdict verdict =
            history_check_partial(histories[key], counts[key], il_was_stale() ? is_before : NULL);
        if (verdict != HISTORY_LINEARIZABLE)
            history_fail((enum key)key, verdict);
    }
}

void keys_check(void)
{
    const char *broken = kv_check(table.kv);
    if (broken)
        il_fail("kv_check: %s", broken);
    keys_check_histories();
}
