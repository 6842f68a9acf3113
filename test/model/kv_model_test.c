/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine against a naive map: random operations of one or two workers (in one thread, so that
 * their order is known) under a controlled clock. Without eviction every result must be the map's;
 * where memory is short a miss is allowed at any time, but never a wrong value. Some tables live in
 * a file and are now and then saved, closed and taken over from it.
 *
 * The message of a failure names the seed; run the test with it as the only argument.
 */
#include <stdlib.h>

#include "../unit/kv/kv_rig.h"
#include "base/prng.h"

#define KEYS 300
#define WORKERS 2
#define HELD_MAX 6
#define PINS_MAX 6

/* The map's entry of a key. */
struct entry {
    bool present;
    uint32_t value_len;
    uint32_t seed;
    uint32_t flags;
    uint32_t exptime;
    uint32_t last_access;
    uint32_t state;
    uint64_t cas;
};

struct held {
    struct kv_item *item;
    unsigned worker;
    unsigned key;
    uint32_t value_len;
    uint32_t seed;
    uint32_t flags;
    uint32_t exptime;
};

struct pin {
    const struct kv_item *item;
    uint32_t value_len;
    uint32_t seed;
};

struct mode {
    const char *name;
    uint64_t memory_bytes;
    uint32_t value_len_max;
    unsigned operations;
    bool evict;
    bool exact; /* nothing may be missing */
    bool in_file;
};

struct model {
    const struct mode *mode;
    struct u_prng prng;
    uint32_t seed;
    unsigned step;
    struct kv *kv;
    struct kv_file file;
    struct kv_worker *workers[WORKERS];
    uint32_t now_s;
    char names[KEYS][24];
    const void *places[KEYS]; /* hint of the last prefetch of each key */
    struct entry entries[KEYS];
    struct held held[HELD_MAX];
    struct pin pins[PINS_MAX];
    uint64_t cas_max;
};

#define EXPECT(model, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s, seed %u, step %u: %s", (model)->mode->name, (model)->seed,               \
                     (model)->step, #condition);                                                   \
    } while (0)

static uint32_t below(struct model *model, uint32_t bound)
{
    return u_prng_below(&model->prng, bound);
}

static struct kv_key key_of(struct model *model, unsigned key)
{
    struct kv_key kk = rig_key(model->kv, model->names[key]);
    kk.hint.at = model->places[key];
    return kk;
}

/* The entry as it counts now. */
static struct entry *entry_of(struct model *model, unsigned key)
{
    struct entry *entry = &model->entries[key];
    if (entry->exptime != 0 && entry->exptime <= model->now_s)
        entry->present = false;
    return entry;
}

static uint32_t random_len(struct model *model)
{
    switch (below(model, 8)) {
    case 0:
        return 0;
    case 1:
        return below(model, model->mode->value_len_max + 1);
    case 2:
        return below(model, model->mode->value_len_max / 16 + 1);
    default:
        return below(model, 200);
    }
}

static uint32_t random_exptime(struct model *model)
{
    return below(model, 3) ? 0 : model->now_s + below(model, 20);
}

/* Compares the engine with the map; a miss is allowed where memory is short. */
static void compare(struct model *model, unsigned key, const struct kv_view *view)
{
    struct entry *entry = entry_of(model, key);
    if (!view) {
        EXPECT(model, !entry->present || !model->mode->exact);
        entry->present = false;
        return;
    }
    EXPECT(model, entry->present);
    EXPECT(model, view->key_len == strlen(model->names[key]));
    EXPECT(model, memcmp(view->key, model->names[key], view->key_len) == 0);
    EXPECT(model, view->value_len == entry->value_len);
    EXPECT(model, view->flags == entry->flags);
    EXPECT(model, view->exptime == entry->exptime);
    EXPECT(model, view->state == entry->state);
    EXPECT(model, view->last_access == entry->last_access);
    EXPECT(model, view->cas == entry->cas);
    EXPECT(model, rig_is_filled(view->item, view->value_len, entry->seed));
}

/* ---- operations -------------------------------------------------------------------------- */

static void op_get(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    struct kv_view view;
    bool peek = below(model, 3) == 0;
    enum kv_found found = peek ? kv_peek(worker, &kk, &view) : kv_get(worker, &kk, &view);
    compare(model, key, found == KV_HIT ? &view : NULL);
    if (found == KV_HIT && !peek) {
        model->entries[key].state |= KV_FETCHED;
        model->entries[key].last_access = model->now_s;
    }
    if (found != KV_HIT || below(model, 8) != 0)
        return;
    struct pin *pin = &model->pins[below(model, PINS_MAX)];
    if (pin->item)
        return;
    kv_pin(worker, view.item);
    *pin = (struct pin){view.item, view.value_len, model->entries[key].seed};
}

static void op_unpin(struct model *model, struct kv_worker *worker)
{
    struct pin *pin = &model->pins[below(model, PINS_MAX)];
    if (!pin->item)
        return;
    EXPECT(model, rig_is_filled(pin->item, pin->value_len, pin->seed));
    kv_unpin(worker, pin->item);
    pin->item = NULL;
}

static void op_make(struct model *model)
{
    struct held *held = &model->held[below(model, HELD_MAX)];
    if (held->item)
        return;
    enum kv_error error;
    struct held made = {.worker = below(model, WORKERS),
                        .key = below(model, KEYS),
                        .value_len = random_len(model),
                        .seed = (uint32_t)u_prng_next(&model->prng),
                        .flags = below(model, 2) ? (uint32_t)u_prng_next(&model->prng) : 0,
                        .exptime = random_exptime(model)};
    struct kv_key kk = key_of(model, made.key);
    made.item = kv_item_new(model->workers[made.worker], &kk, made.value_len, made.flags,
                            made.exptime, &error);
    EXPECT(model, made.item || !model->mode->exact);
    if (!made.item)
        return;
    rig_fill(made.item, made.value_len, made.seed);
    *held = made;
}

/* The decision of op_publish(): a set, an add, a replace or a cas. */
struct publish {
    struct model *model;
    unsigned key;
    unsigned kind;
    uint64_t cas;
    uint32_t state;
    unsigned calls;
};

static enum kv_verdict decide_publish(void *ctx, const struct kv_view *old,
                                      struct kv_change *change)
{
    struct publish *publish = (struct publish *)ctx;
    publish->calls++;
    compare(publish->model, publish->key, old);
    change->state = publish->state;
    switch (publish->kind) {
    case 0:
        return old ? KV_KEEP : KV_REPLACE;
    case 1:
        return old ? KV_REPLACE : KV_KEEP;
    case 2:
        return old && old->cas == publish->cas ? KV_REPLACE : KV_KEEP;
    default:
        return KV_REPLACE;
    }
}

static void op_publish(struct model *model)
{
    struct held *held = &model->held[below(model, HELD_MAX)];
    if (!held->item)
        return;
    struct kv_worker *worker = model->workers[held->worker];
    struct kv_key kk = key_of(model, held->key);
    struct entry *entry = &model->entries[held->key];
    uint32_t state = below(model, 4) ? 0 : below(model, 8) << 1;
    struct publish publish = {model, held->key, below(model, 5), entry->cas, state, 0};
    struct kv_change change = {.item = held->item, .cas = 0};
    if (below(model, 16) == 0)
        change.cas = (UINT64_C(1) << 40) + (uint32_t)u_prng_next(&model->prng);
    uint64_t given = change.cas;
    enum kv_verdict verdict = kv_update(worker, &kk, decide_publish, &publish, &change);
    EXPECT(model, publish.calls == 1);
    if (verdict == KV_KEEP) {
        if (below(model, 2)) {
            kv_item_drop(worker, held->item);
            held->item = NULL;
        }
        return;
    }
    EXPECT(model, verdict == KV_REPLACE);
    EXPECT(model, given == 0 || change.cas == given);
    if (given == 0 && entry->present && entry->cas < UINT64_C(1) << 40)
        EXPECT(model, change.cas > entry->cas);
    *entry = (struct entry){true,          held->value_len, held->seed,    held->flags,
                            held->exptime, model->now_s,    publish.state, change.cas};
    held->item = NULL;
}

struct touch {
    struct entry wanted;
    enum kv_verdict verdict; /* KV_TOUCH, KV_RENEW */
};

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    const struct touch *touch = (const struct touch *)ctx;
    if (!old)
        return touch->verdict; /* counts as keep */
    change->exptime = touch->wanted.exptime;
    change->state = touch->wanted.state;
    return touch->verdict;
}

static void op_touch(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    struct touch touch = {{.exptime = random_exptime(model), .state = below(model, 16)},
                          below(model, 4) ? KV_TOUCH : KV_RENEW};
    struct kv_change change = {.unseen = below(model, 4) == 0};
    struct entry *entry = entry_of(model, key);
    if (kv_update(worker, &kk, decide_touch, &touch, &change) == KV_KEEP) {
        EXPECT(model, !entry->present || !model->mode->exact);
        entry->present = false;
        return;
    }
    EXPECT(model, entry->present);
    entry->exptime = touch.wanted.exptime;
    if (change.unseen) {
        entry->state &= KV_FETCHED;
        entry->state |= touch.wanted.state & ~(uint32_t)KV_FETCHED;
    } else {
        entry->state = touch.wanted.state;
        if (entry->state & KV_FETCHED)
            entry->last_access = model->now_s;
    }
    if (touch.verdict == KV_RENEW) {
        EXPECT(model, change.cas > entry->cas || entry->cas >= UINT64_C(1) << 40);
        entry->cas = change.cas;
    }
}

/* Appends a copy of the value to itself, the new item being made within the decision. */
struct append {
    struct kv_worker *worker;
    const struct kv_key *key;
    uint32_t seed;
    uint32_t len_max;
};

static enum kv_verdict decide_append(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct append *append = (struct append *)ctx;
    if (change->item)
        kv_item_drop(append->worker, change->item);
    change->item = NULL;
    if (!old || old->value_len > append->len_max)
        return KV_KEEP;
    enum kv_error error;
    uint32_t before = old->value_len;
    change->item =
        kv_item_new(append->worker, append->key, before + 100, old->flags, old->exptime, &error);
    if (!change->item)
        return KV_KEEP;
    if (!rig_is_filled(old->item, before, append->seed))
        return KV_DELETE; /* noticed by the comparison that follows */
    rig_fill(change->item, before + 100, append->seed);
    change->state = 0;
    return KV_REPLACE;
}

static void op_append(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    struct entry *entry = entry_of(model, key);
    struct append append = {worker, &kk, entry->seed, model->mode->value_len_max};
    struct kv_change change = {0};
    enum kv_verdict verdict = kv_update(worker, &kk, decide_append, &append, &change);
    EXPECT(model, verdict != KV_DELETE);
    if (verdict == KV_KEEP) {
        EXPECT(model, !entry->present || !model->mode->exact ||
                          entry->value_len > model->mode->value_len_max);
        return;
    }
    EXPECT(model, entry->present);
    entry->value_len += 100;
    entry->cas = change.cas;
    entry->state = 0;
    entry->last_access = model->now_s;
}

static void op_delete(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    struct entry *entry = entry_of(model, key);
    bool deleted = rig_delete(worker, &kk) == KV_DELETE;
    EXPECT(model, !deleted || entry->present);
    EXPECT(model, deleted || !entry->present || !model->mode->exact);
    entry->present = false;
}

/* Now and then by so many flushes that the 8 bits of them in an item come round (generation.h). */
static void op_flush(struct model *model, struct kv_worker *worker)
{
    unsigned flushes = below(model, 4) == 0 ? 1 + below(model, 600) : 1;
    while (flushes-- > 0)
        kv_flush(worker);
    for (unsigned i = 0; i < KEYS; i++)
        model->entries[i].present = false;
}

static void op_tick(struct model *model)
{
    model->now_s += below(model, 3);
    for (unsigned i = 0; i < WORKERS; i++)
        kv_tick(model->workers[i], model->now_s);
}

static void op_quiesce(struct model *model)
{
    for (unsigned i = 0; i < WORKERS; i++)
        kv_quiesce(model->workers[i]);
}

/* ---- scans, the limit, and what must not show -------------------------------------------- */

struct model_scan {
    struct model *model;
    bool visited[KEYS];
};

static void visit(void *ctx, const struct kv_view *view)
{
    struct model_scan *scan = (struct model_scan *)ctx;
    char name[24];
    snprintf(name, sizeof(name), "%.*s", (int)view->key_len, (const char *)view->key);
    unsigned key = (unsigned)strtoul(name + strlen("key-"), NULL, 10);
    EXPECT(scan->model, key < KEYS && !scan->visited[key]);
    scan->visited[key] = true;
    compare(scan->model, key, view);
}

static struct kv_quantum random_part(struct model *model)
{
    return (struct kv_quantum){.chains = 1 + below(model, 5000), .items = 1 + below(model, 200)};
}

/* Whatever is there is shown once; where nothing may be missing that is all the map has. */
static void op_scan(struct model *model, struct kv_worker *worker)
{
    static struct model_scan scan;
    memset(&scan, 0, sizeof(scan));
    scan.model = model;
    struct kv_quantum part = random_part(model);
    struct kv_cursor cursor = {0};
    while (kv_scan(worker, &cursor, &part, visit, &scan))
        continue;
    for (unsigned i = 0; i < KEYS; i++)
        EXPECT(model, scan.visited[i] || !entry_of(model, i)->present || !model->mode->exact);
}

/* Crawls: only the number of items changes. */
static void op_crawl(struct model *model, struct kv_worker *worker)
{
    struct kv_quantum part = random_part(model);
    struct kv_cursor cursor = {0};
    unsigned present = 0;
    while (kv_crawl(worker, &cursor, &part, UINT64_MAX))
        continue;
    for (unsigned i = 0; i < KEYS; i++)
        present += entry_of(model, i)->present;
    uint64_t items = rig_stats(model->kv).items;
    EXPECT(model, items <= present && (items == present || !model->mode->exact));
}

/* Changes the limit between half and all; misses are allowed for evicted items. */
static void op_limit(struct model *model, struct kv_worker *worker)
{
    uint64_t half = model->mode->memory_bytes / 2;
    if (!model->mode->exact)
        EXPECT(model, kv_memory_limit_set(worker, half + below(model, 5) * (half / 4)));
}

static void prefetch(struct kv_worker *worker, struct kv_key *key)
{
    const struct kv_item *item = kv_prefetch_item(worker, key);
    if (item)
        kv_prefetch_value(item);
}

/* Hints and announcements, which do not change any result. */
static void op_silent(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    switch (below(model, 4)) {
    case 0:
        kv_bump(worker, &kk);
        break;
    case 1:
        kv_prefetch_bucket(worker, &kk);
        prefetch(worker, &kk);
        model->places[key] = kk.hint.at;
        break;
    case 2:
        kv_release_views(worker);
        break;
    default:
        kv_offline(worker);
        kv_online(worker);
        break;
    }
}

/* Sets a short value by a new or an old hint. */
static void op_replace_short(struct model *model, struct kv_worker *worker, unsigned key)
{
    struct kv_key kk = key_of(model, key);
    struct entry *entry = entry_of(model, key);
    uint32_t len = below(model, KV_SHORT_MAX + 1);
    uint32_t seed = (uint32_t)u_prng_next(&model->prng);
    uint32_t exptime = random_exptime(model);
    uint8_t bytes[KV_SHORT_MAX];
    struct kv_short value = {bytes, len};
    for (uint32_t i = 0; i < len; i++)
        bytes[i] = rig_byte(i, seed);
    if (below(model, 8) > 0)
        kv_prefetch_bucket(worker, &kk);
    kv_prefetch_item(worker, &kk);
    if (below(model, 8) == 0)
        op_quiesce(model);
    uint64_t cas = kv_replace_short(worker, &kk, &value, exptime);
    if (cas == 0)
        return;
    EXPECT(model, entry->present && entry->flags == 0 && model->mode->evict);
    EXPECT(model, cas > entry->cas || entry->cas >= UINT64_C(1) << 40);
    *entry = (struct entry){true, len, seed, 0, exptime, model->now_s, 0, cas};
}

static void leave_nothing_behind(struct model *model)
{
    for (unsigned i = 0; i < HELD_MAX; i++) {
        if (model->held[i].item)
            kv_item_drop(model->workers[model->held[i].worker], model->held[i].item);
        model->held[i].item = NULL;
    }
    for (unsigned i = 0; i < PINS_MAX; i++) {
        if (model->pins[i].item)
            kv_unpin(model->workers[0], model->pins[i].item);
        model->pins[i].item = NULL;
    }
}

static void open_table(struct model *model)
{
    const struct mode *mode = model->mode;
    enum kv_policy_kind policy = (enum kv_policy_kind)(model->seed % KV_POLICIES);
    uint64_t memory_bytes = mode->memory_bytes;
    if (mode->in_file && !mode->exact && model->step > 0) /* the first limit is the highest */
        memory_bytes -= memory_bytes / 8 * below(model, 4);
    model->kv = rig_create_in(mode->in_file ? &model->file : rig_file(), memory_bytes, WORKERS,
                              mode->evict, policy, 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        model->workers[i] = kv_join(model->kv);
        kv_tick(model->workers[i], model->now_s);
    }
}

/* Ends the table and takes it over from its file, possibly with another limit. */
static void op_restart(struct model *model)
{
    if (!model->mode->in_file)
        return;
    leave_nothing_behind(model);
    for (unsigned i = 0; i < WORKERS; i++)
        kv_leave(model->workers[i]);
    struct kv_stats before = rig_stats(model->kv);
    struct kv_moment moment = {1000 + model->now_s, model->now_s, model->step};
    EXPECT(model, kv_save(model->kv, &moment) == NULL);
    kv_destroy(model->kv);
    open_table(model);
    const struct kv_restored *restored = kv_restored(model->kv);
    EXPECT(model, restored->restored && restored->saved.note == model->step);
    struct kv_stats stats = rig_stats(model->kv);
    EXPECT(model, stats.items == before.items && stats.item_bytes == before.item_bytes);
    EXPECT(model, stats.hash_power == before.hash_power);
    for (unsigned i = 0; i < KEYS; i++)
        model->places[i] = NULL;
    rig_check(model->kv);
}

/* ---- the run ----------------------------------------------------------------------------- */

static void step(struct model *model)
{
    struct kv_worker *worker = model->workers[below(model, WORKERS)];
    unsigned key = below(model, KEYS);
    if (below(model, 4) == 0)
        op_quiesce(model);
    uint32_t what = below(model, 1000);
    if (what < 300)
        op_get(model, worker, key);
    else if (what < 350)
        op_replace_short(model, worker, key);
    else if (what < 550)
        op_make(model);
    else if (what < 780)
        op_publish(model);
    else if (what < 830)
        op_touch(model, worker, key);
    else if (what < 880)
        op_append(model, worker, key);
    else if (what < 930)
        op_delete(model, worker, key);
    else if (what < 950)
        op_unpin(model, worker);
    else if (what < 965)
        op_silent(model, worker, key);
    else if (what < 968)
        op_scan(model, worker);
    else if (what < 970)
        op_crawl(model, worker);
    else if (what < 972)
        op_limit(model, worker);
    else if (what < 995)
        op_tick(model);
    else if (what < 998)
        op_restart(model);
    else
        op_flush(model, worker);
}

static void begin(struct model *model, const struct mode *mode, uint32_t seed)
{
    memset(model, 0, sizeof(*model));
    model->mode = mode;
    model->seed = seed;
    u_prng_seed(&model->prng, seed);
    for (unsigned i = 0; i < KEYS; i++)
        snprintf(model->names[i], sizeof(model->names[i]), "key-%u%s", i, i % 3 ? "" : "-longer");
    model->now_s = 1;
    if (mode->in_file)
        model->file.fd = rig_memfd();
    open_table(model);
}

static void end(struct model *model)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct kv_key kk = key_of(model, i);
        struct kv_view view;
        compare(model, i, kv_peek(model->workers[0], &kk, &view) == KV_HIT ? &view : NULL);
        rig_delete(model->workers[0], &kk); /* takes away an expired one too */
    }
    leave_nothing_behind(model);
    struct kv_stats stats = rig_stats(model->kv);
    EXPECT(model, stats.items == 0 && stats.item_bytes == 0 && stats.pinned == 0);
    rig_check(model->kv);
    for (unsigned i = 0; i < WORKERS; i++)
        kv_leave(model->workers[i]);
    rig_check(model->kv);
    kv_destroy(model->kv);
    if (model->mode->in_file)
        close(model->file.fd);
}

static void run(const struct mode *mode, uint32_t seed)
{
    static struct model model;
    begin(&model, mode, seed);
    for (model.step = 0; model.step < mode->operations; model.step++) {
        step(&model);
        if (model.step % 512 == 0)
            rig_check(model.kv);
    }
    struct kv_stats stats = rig_stats(model.kv);
    EXPECT(&model, !mode->exact || (stats.evictions == 0 && stats.no_memory == 0));
    end(&model);
}

static uint32_t seeds_from = 1;
static uint32_t seeds_to = 4;

static void run_seeds(const struct mode *mode)
{
    for (uint32_t seed = seeds_from; seed <= seeds_to; seed++)
        run(mode, seed);
}

static void test_large_memory(void **unused)
{
    static const struct mode mode = {"large memory", 512 * MIB, 20000, 15000, true, true, false};
    run_seeds(&mode);
}

static void test_large_values(void **unused)
{
    static const struct mode mode = {"large values", 2048 * MIB, 2 << 20, 600, true, true, false};
    run_seeds(&mode);
}

static void test_short_memory(void **unused)
{
    static const struct mode mode = {"short memory", 2 * MIB, 60000, 20000, true, false, false};
    run_seeds(&mode);
}

static void test_tiny_memory(void **unused)
{
    static const struct mode mode = {"tiny memory", 1 * MIB, 300000, 6000, true, false, false};
    run_seeds(&mode);
}

static void test_no_eviction(void **unused)
{
    static const struct mode mode = {"no eviction", 2 * MIB, 60000, 20000, false, false, false};
    run_seeds(&mode);
}

static void test_restarts(void **unused)
{
    static const struct mode mode = {"restarts", 64 * MIB, 100000, 10000, true, true, true};
    run_seeds(&mode);
}

static void test_restarts_with_short_memory(void **unused)
{
    static const struct mode mode = {
        "restarts, short memory", 2 * MIB, 60000, 20000, true, false, true};
    run_seeds(&mode);
}

static void test_restarts_without_eviction(void **unused)
{
    static const struct mode mode = {
        "restarts, no eviction", 2 * MIB, 60000, 10000, false, false, true};
    run_seeds(&mode);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_memory),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_short_memory),
        cmocka_unit_test(test_tiny_memory),
        cmocka_unit_test(test_no_eviction),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_restarts_with_short_memory),
        cmocka_unit_test(test_restarts_without_eviction),
    };
    if (argc > 1)
        seeds_from = seeds_to = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        seeds_to = (uint32_t)strtoul(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
