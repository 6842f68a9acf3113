/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine under several threads that conflict as often as possible. Each thread's operations are
 * seeded; their interleaving is not. Built with -fsanitize=thread it also shows that there is no
 * data race. A failure prints the seed; `kv_stress_test SEED` runs it again.
 */
#include <sched.h>
#include <stdlib.h>

#include "../history/history.h"
#include "team.h"

/* ---- counters: no increment is lost ------------------------------------------------------ */

#define COUNTER_KEYS 3
#define INCREMENTS 20000

struct increment {
    struct kv_worker *worker;
    const struct kv_key *key;
};

static uint64_t number_of(const struct kv_item *item)
{
    uint32_t len;
    uint64_t number;
    const uint8_t *bytes = kv_value(item, 0, &len);
    EXPECT(len == sizeof(number));
    memcpy(&number, bytes, sizeof(number));
    return number;
}

static enum kv_verdict decide_increment(void *ctx, const struct kv_view *old,
                                        struct kv_change *change)
{
    struct increment *increment = (struct increment *)ctx;
    uint64_t number = old ? number_of(old->item) + 1 : 1;
    if (!change->item) {
        enum kv_error error;
        change->item = kv_item_new(increment->worker, increment->key, sizeof(number), 0, 0, &error);
        EXPECT(change->item != NULL);
    }
    uint32_t len;
    uint8_t *room = kv_item_room(change->item, 0, &len);
    memcpy(room, &number, sizeof(number));
    change->state = 0;
    return KV_REPLACE;
}

static void run_counters(struct thread *thread)
{
    uint64_t cas_last[COUNTER_KEYS] = {0};
    meet(thread);
    for (unsigned i = 0; i < INCREMENTS; i++) {
        unsigned number = u_prng_below(&thread->prng, COUNTER_KEYS);
        char name[16];
        struct kv_key key = number_key(thread->team->kv, name, number);
        struct increment increment = {thread->worker, &key};
        struct kv_change change = {0};
        EXPECT(kv_update(thread->worker, &key, decide_increment, &increment, &change) ==
               KV_REPLACE);
        EXPECT(change.cas > cas_last[number]);
        cas_last[number] = change.cas;
        if (i % 8 == 0)
            kv_quiesce(thread->worker);
    }
}

static void test_counters(void **unused)
{
    static struct team team;
    struct kv *kv = rig_create(8 * MIB, THREADS + 1, true);
    team_run(&team, kv, THREADS, NULL, run_counters);
    struct kv_worker *worker = kv_join(kv);
    uint64_t sum = 0;
    for (unsigned i = 0; i < COUNTER_KEYS; i++) {
        char name[16];
        struct kv_key key = number_key(kv, name, i);
        struct kv_view view;
        assert_int_equal(kv_get(worker, &key, &view), KV_HIT);
        sum += number_of(view.item);
    }
    assert_int_equal(sum, THREADS * INCREMENTS);
    assert_int_equal(rig_stats(kv).items, COUNTER_KEYS);
    assert_int_equal(rig_stats(kv).items_total, THREADS * INCREMENTS);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

/* ---- fresh keys: of several inserts one wins --------------------------------------------- */

#define FRESH_ROUNDS 1000
#define FRESH_KEYS 8

struct fresh {
    kv_atomic_u32 inserted;
    kv_atomic_u32 deleted;
};

static enum kv_verdict decide_add(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    (void)ctx;
    change->state = 0;
    return old ? KV_KEEP : KV_REPLACE;
}

static void fresh_insert(struct thread *thread, unsigned number)
{
    struct fresh *fresh = (struct fresh *)thread->team->shared;
    char name[16];
    struct kv_key key = number_key(thread->team->kv, name, number);
    enum kv_error error;
    struct kv_change change = {0};
    change.item = kv_item_new(thread->worker, &key, 20, 0, 0, &error);
    EXPECT(change.item != NULL);
    rig_fill(change.item, 20, thread->number);
    if (kv_update(thread->worker, &key, decide_add, NULL, &change) == KV_REPLACE)
        kv_u32_fetch_add_relaxed(&fresh->inserted, 1);
    else
        kv_item_drop(thread->worker, change.item);
}

static void run_fresh(struct thread *thread)
{
    struct fresh *fresh = (struct fresh *)thread->team->shared;
    for (unsigned round = 0; round < FRESH_ROUNDS; round++) {
        meet(thread);
        for (unsigned i = 0; i < FRESH_KEYS; i++)
            fresh_insert(thread, i);
        meet(thread);
        for (unsigned i = 0; i < FRESH_KEYS; i++) {
            char name[16];
            struct kv_key key = number_key(thread->team->kv, name, i);
            if (rig_delete(thread->worker, &key) == KV_DELETE)
                kv_u32_fetch_add_relaxed(&fresh->deleted, 1);
        }
        kv_quiesce(thread->worker);
    }
}

static void test_fresh_keys(void **unused)
{
    static struct team team;
    struct fresh fresh = {0};
    struct kv *kv = rig_create(1 * MIB, THREADS, true);
    team_run(&team, kv, THREADS, &fresh, run_fresh);
    assert_int_equal(kv_u32_load_relaxed(&fresh.inserted), FRESH_ROUNDS * FRESH_KEYS);
    assert_int_equal(kv_u32_load_relaxed(&fresh.deleted), FRESH_ROUNDS * FRESH_KEYS);
    assert_int_equal(rig_stats(kv).items, 0);
    rig_check(kv);
    kv_destroy(kv);
}

/* ---- churn: overwrite, evict, move, expire, flush, pin, concurrently ---------------------- */

#define CHURN_KEYS 9000
#define CHURN_STEPS 30000
#define MAILBOXES 16

/* A pinned item on its way from the thread that pinned it to the one that unpins it. */
struct mailbox {
    struct kv_lock lock;
    const struct kv_item *item;
    unsigned key;
    uint32_t value_len;
    uint32_t seed;
};

struct churn {
    struct mailbox mailboxes[MAILBOXES];
    uint32_t value_len_max;
    bool evict;
    bool administered;  /* one thread walks through the table and changes the memory limit */
    kv_atomic_u32 done; /* threads that have made all their steps */
};

/* The value says which key it belongs to: the client flags do, and seed its bytes. */
static void churn_value_check(const struct kv_view *view, unsigned key)
{
    EXPECT(view->flags % CHURN_KEYS == key);
    EXPECT(rig_is_filled(view->item, view->value_len, view->flags));
}

static void churn_pin(struct thread *thread, const struct kv_view *view, unsigned key)
{
    struct churn *churn = (struct churn *)thread->team->shared;
    struct mailbox *mailbox = &churn->mailboxes[u_prng_below(&thread->prng, MAILBOXES)];
    kv_lock_take(&mailbox->lock);
    if (mailbox->item) {
        EXPECT(rig_is_filled(mailbox->item, mailbox->value_len, mailbox->seed));
        kv_unpin(thread->worker, mailbox->item);
        mailbox->item = NULL;
    } else {
        kv_pin(thread->worker, view->item);
        mailbox->item = view->item;
        mailbox->key = key;
        mailbox->value_len = view->value_len;
        mailbox->seed = view->flags;
    }
    kv_lock_drop(&mailbox->lock);
}

static void churn_get(struct thread *thread, const struct kv_key *key, unsigned number)
{
    struct kv_view view;
    if (kv_get(thread->worker, key, &view) != KV_HIT)
        return;
    churn_value_check(&view, number);
    if (u_prng_below(&thread->prng, 16) == 0)
        churn_pin(thread, &view, number);
}

/*
 * Evicted memory is reusable once the other workers have been quiescent: yields, so that a
 * preempted worker can run and later stores are not refused.
 */
static void make_way(struct thread *thread)
{
    kv_quiesce(thread->worker);
    sched_yield();
}

static void churn_set(struct thread *thread, const struct kv_key *key, unsigned number)
{
    const struct churn *churn = (const struct churn *)thread->team->shared;
    uint32_t flags = u_prng_below(&thread->prng, UINT32_MAX / CHURN_KEYS) * CHURN_KEYS + number;
    uint32_t len_max = u_prng_below(&thread->prng, 64) ? 1000 : churn->value_len_max;
    uint32_t len = u_prng_below(&thread->prng, len_max);
    uint32_t exptime = u_prng_below(&thread->prng, 8) ? 0 : 1 + u_prng_below(&thread->prng, 50);
    enum kv_error error;
    uint64_t cas = rig_store(thread->worker, key, len, flags, flags, exptime, &error);
    EXPECT(cas != 0 || error == KV_NO_MEMORY);
    if (cas == 0)
        make_way(thread);
}

static void churn_step(struct thread *thread)
{
    unsigned number = u_prng_below(&thread->prng, CHURN_KEYS);
    if (u_prng_below(&thread->prng, 2))
        number %= 50; /* some keys are much in demand */
    char name[16];
    struct kv_key key = number_key(thread->team->kv, name, number);
    uint32_t what = u_prng_below(&thread->prng, 100);
    if (what < 50)
        churn_get(thread, &key, number);
    else if (what < 90)
        churn_set(thread, &key, number);
    else
        rig_delete(thread->worker, &key);
}

/* A scan visits whole items with the right key. */
static void churn_visit(void *ctx, const struct kv_view *view)
{
    unsigned *shown = (unsigned *)ctx;
    char name[16];
    snprintf(name, sizeof(name), "key%u", view->flags % CHURN_KEYS);
    EXPECT(view->key_len == strlen(name) && memcmp(view->key, name, view->key_len) == 0);
    churn_value_check(view, view->flags % CHURN_KEYS);
    ++*shown;
}

/* All but the one that asks have made their steps. */
static bool churn_is_over(const struct team *team)
{
    const struct churn *churn = (const struct churn *)team->shared;
    return kv_u32_load_relaxed(&churn->done) == team->count - 1;
}

/* Runs as long as the other threads: with few cores they may start late. */
static void run_administration(struct thread *thread)
{
    static const struct kv_quantum part = {.chains = 200, .items = 100};
    const uint64_t memory = thread->team->kv->config.memory_bytes;
    unsigned shown = 0;
    meet(thread);
    for (unsigned round = 0; round < 40 || !churn_is_over(thread->team); round++) {
        struct kv_cursor cursor = {0};
        bool more = true;
        kv_tick(thread->worker, 1 + round % 60);
        while (more) {
            more = round % 4 == 3 ? kv_crawl(thread->worker, &cursor, &part, UINT64_MAX)
                                  : kv_scan(thread->worker, &cursor, &part, churn_visit, &shown);
            kv_quiesce(thread->worker);
        }
        EXPECT(kv_memory_limit_set(thread->worker, round % 2 ? memory : memory / 2));
    }
    EXPECT(shown > 0);
    EXPECT(kv_memory_limit_set(thread->worker, memory));
}

static void run_churn(struct thread *thread)
{
    struct churn *churn = (struct churn *)thread->team->shared;
    if (thread->number == 0 && churn->administered) {
        run_administration(thread);
        return;
    }
    meet(thread);
    for (unsigned i = 0; i < CHURN_STEPS; i++) {
        churn_step(thread);
        if (i % 16 == 0)
            kv_quiesce(thread->worker);
        if (i % 512 == 0)
            kv_tick(thread->worker, 1 + i / 512);
        if (thread->number == 0 && i % 9000 == 8999)
            kv_flush(thread->worker);
        if (thread->number == 1 && i % 1000 == 999) {
            kv_offline(thread->worker);
            kv_online(thread->worker);
        }
    }
    kv_u32_fetch_add_relaxed(&churn->done, 1);
}

static void churn(uint64_t memory_bytes, uint32_t value_len_max, bool evict, bool administered)
{
    static struct team team;
    static struct churn shared;
    memset(&shared, 0, sizeof(shared));
    shared.value_len_max = value_len_max;
    shared.evict = evict;
    shared.administered = administered;
    struct kv *kv = rig_create(memory_bytes, THREADS + 1, evict);
    team_run(&team, kv, THREADS, &shared, run_churn);
    rig_check(kv);

    struct kv_worker *worker = kv_join(kv);
    kv_tick(worker, 1000);
    for (unsigned i = 0; i < MAILBOXES; i++)
        if (shared.mailboxes[i].item)
            kv_unpin(worker, shared.mailboxes[i].item);
    for (unsigned i = 0; i < CHURN_KEYS; i++) {
        char name[16];
        struct kv_key key = number_key(kv, name, i);
        struct kv_view view;
        if (kv_peek(worker, &key, &view) == KV_HIT)
            churn_value_check(&view, i);
        rig_delete(worker, &key);
    }
    struct kv_stats stats = rig_stats(kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.item_bytes, 0);
    assert_int_equal(stats.pinned, 0);
    assert_true(evict || stats.evictions == 0);
    assert_true(!evict || stats.evictions > 0);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static void test_churn_small_values(void **unused)
{
    churn(1 * MIB, 1000, true, false);
}

static void test_churn_large_values(void **unused)
{
    churn(2 * MIB, 60000, true, false);
}

static void test_churn_without_eviction(void **unused)
{
    churn(2 * MIB, 20000, false, false);
}

static void test_churn_under_administration(void **unused)
{
    churn(2 * MIB, 20000, true, true);
}

/* ---- linearizability --------------------------------------------------------------------- */

#define HISTORY_THREADS 3
#define HISTORY_OPS 5
#define HISTORY_ROUNDS 4000
#define HISTORY_LEN (HISTORY_THREADS * HISTORY_OPS)
#define HISTORY_EXPTIME 1000
#define HISTORY_TABLES 20     /* that grow from their beginning */
#define STORE_TRIES_MAX 50000 /* 5 s and more */
#define HISTORY_FILL 100      /* other keys between two operations, at most */

struct history {
    kv_atomic_u64 clock;
    unsigned rounds;
    bool grows;
    struct history_op ops[HISTORY_LEN];
};

static struct history_value value_of(const struct kv_view *view)
{
    struct history_value value = {0};
    uint32_t len;
    EXPECT(view->value_len <= HISTORY_VALUE_MAX);
    if (view->value_len > 0)
        memcpy(value.bytes, kv_value(view->item, 0, &len), view->value_len);
    value.len = (uint8_t)view->value_len;
    return value;
}

/* One operation of a thread, and what its decision needs. */
struct operation {
    struct thread *thread;
    const struct kv_key *key;
    struct history_op *op;
    bool expires; /* items to delete get an expiry time in the past */
};

/* An item with the old value and the operation's, joined as asked for, or with the number. */
static struct kv_item *item_of(const struct operation *operation, const struct kv_view *old)
{
    const struct history_op *op = operation->op;
    struct history_value value = op->value;
    uint32_t exptime = op->exptime;
    if (op->action == HISTORY_APPEND || op->action == HISTORY_PREPEND) {
        struct history_value front = value_of(old);
        struct history_value back = op->value;
        if (op->action == HISTORY_PREPEND) {
            back = front;
            front = op->value;
        }
        memcpy(front.bytes + front.len, back.bytes, back.len);
        front.len = (uint8_t)(front.len + back.len);
        value = front;
        exptime = old->exptime;
    } else if (op->action == HISTORY_INCR || op->action == HISTORY_DECR) {
        value = op->seen;
        exptime = old->exptime;
    }
    enum kv_error error;
    uint32_t len;
    struct kv_item *item =
        kv_item_new(operation->thread->worker, operation->key, value.len, 0, exptime, &error);
    EXPECT(item != NULL);
    if (value.len > 0)
        memcpy(kv_item_room(item, 0, &len), value.bytes, value.len);
    return item;
}

/* The result of the operation on the present item. */
static enum history_result result_of(const struct history_op *op, const struct kv_view *old)
{
    switch (op->action) {
    case HISTORY_SET:
        return HISTORY_DONE;
    case HISTORY_ADD:
        return old ? HISTORY_REFUSED : HISTORY_DONE;
    case HISTORY_CAS:
        if (old && old->cas != op->expected)
            return HISTORY_REFUSED;
        break;
    default:
        break;
    }
    return old ? HISTORY_DONE : HISTORY_ABSENT;
}

static void count(struct history_op *op, const struct kv_view *old)
{
    char text[HISTORY_VALUE_MAX + 1] = {0};
    struct history_value value = value_of(old);
    memcpy(text, value.bytes, value.len);
    uint64_t number = strtoull(text, NULL, 10);
    if (op->action == HISTORY_INCR)
        number += op->delta;
    else
        number = number > op->delta ? number - op->delta : 0;
    op->seen = history_number(number);
}

static enum kv_verdict decide_operation(void *ctx, const struct kv_view *old,
                                        struct kv_change *change)
{
    const struct operation *operation = (const struct operation *)ctx;
    struct history_op *op = operation->op;
    op->result = result_of(op, old);
    change->state = 0;
    if (change->item)
        kv_item_drop(operation->thread->worker, change->item); /* for another old one */
    change->item = NULL;
    if (op->result != HISTORY_DONE)
        return KV_KEEP;
    if (op->action == HISTORY_DELETE && !operation->expires)
        return KV_DELETE;
    if (op->action == HISTORY_TOUCH || op->action == HISTORY_DELETE) {
        change->exptime = operation->expires ? 1 : op->exptime;
        return KV_TOUCH;
    }
    if (op->action == HISTORY_INCR || op->action == HISTORY_DECR)
        count(op, old);
    change->item = item_of(operation, old);
    return KV_REPLACE;
}

static void operation_run(struct thread *thread, const struct kv_key *key, struct history_op *op)
{
    struct operation operation = {thread, key, op, false};
    struct kv_change change = {0};
    struct kv_view view;
    operation.expires = op->action == HISTORY_DELETE && u_prng_below(&thread->prng, 2);
    if (op->action != HISTORY_GET) {
        if (kv_update(thread->worker, key, decide_operation, &operation, &change) == KV_REPLACE)
            op->cas = change.cas;
        return;
    }
    op->result = kv_get(thread->worker, key, &view) == KV_HIT ? HISTORY_DONE : HISTORY_ABSENT;
    if (op->result == HISTORY_DONE) {
        op->seen = value_of(&view);
        op->cas = view.cas;
        op->seen_exptime = view.exptime;
    }
}

/* Values are short numbers, so that whatever is appended remains one. */
static struct history_op operation_random(struct thread *thread, uint64_t cas_seen)
{
    struct u_prng *prng = &thread->prng;
    struct history_op op = {.action = (enum history_action)u_prng_below(prng, HISTORY_ACTIONS)};
    op.value = history_number(1 + u_prng_below(prng, 9));
    op.delta = 1 + u_prng_below(prng, 5);
    op.exptime = HISTORY_EXPTIME + u_prng_below(prng, 1000);
    op.expected = cas_seen;
    return op;
}

/*
 * Without eviction a store is refused while its chain is full and the larger table waits for a
 * preempted worker: yields and tries again.
 */
static void store_in_time(struct thread *thread, const struct kv_key *key)
{
    for (unsigned tries = 0; tries < STORE_TRIES_MAX; tries++) {
        enum kv_error error;
        if (rig_store(thread->worker, key, 8, 1, 0, 0, &error) != 0)
            return;
        EXPECT(error == KV_NO_MEMORY);
        kv_offline(thread->worker);
        nanosleep(&(struct timespec){0, 100000}, NULL);
        kv_online(thread->worker);
        kv_quiesce(thread->worker);
    }
    loud_fail("a store finds its place", __FILE__, __LINE__);
}

/* Some keys of this thread's own, so that the table grows while histories are made. */
static void fill(struct thread *thread, unsigned *filled)
{
    if (u_prng_below(&thread->prng, 2))
        return; /* others' operations shall meet this thread's next one */
    for (unsigned left = u_prng_below(&thread->prng, HISTORY_FILL); left > 0; left--) {
        char name[24];
        snprintf(name, sizeof(name), "fill%u:%u", thread->number, (*filled)++);
        struct kv_key key = kv_key(thread->team->kv, name, (uint32_t)strlen(name));
        store_in_time(thread, &key);
    }
    kv_quiesce(thread->worker);
}

static void run_history(struct thread *thread)
{
    struct history *history = (struct history *)thread->team->shared;
    unsigned filled = 0;
    for (unsigned round = 0; round < history->rounds; round++) {
        char name[16];
        struct kv_key key = number_key(thread->team->kv, name, round);
        uint64_t cas_seen = 0;
        meet(thread);
        for (unsigned i = 0; i < HISTORY_OPS; i++) {
            struct history_op *op = &history->ops[thread->number * HISTORY_OPS + i];
            if (history->grows)
                fill(thread, &filled);
            *op = operation_random(thread, cas_seen);
            op->from = kv_u64_fetch_add_relaxed(&history->clock, 1);
            operation_run(thread, &key, op);
            op->to = kv_u64_fetch_add_relaxed(&history->clock, 1);
            if (op->cas != 0)
                cas_seen = op->cas;
            if (i == HISTORY_OPS / 2)
                kv_quiesce(thread->worker);
        }
        kv_quiesce(thread->worker);
        meet(thread);
        if (thread->number == 0)
            EXPECT(history_check(history->ops, HISTORY_LEN) == HISTORY_LINEARIZABLE);
    }
}

/* test/history has the checker's own tests. */
static void test_linearizable(void **unused)
{
    static struct team team;
    static struct history history;
    history.rounds = HISTORY_ROUNDS;
    struct kv *kv = rig_create(4 * MIB, HISTORY_THREADS, true);
    team_run(&team, kv, HISTORY_THREADS, &history, run_history);
    rig_check(kv);
    kv_destroy(kv);
}

/* The same where the chain of the key is often frozen, moved, or just there. */
static void test_linearizable_while_growing(void **unused)
{
    static struct team team;
    static struct history history;
    history.rounds = HISTORY_ROUNDS / HISTORY_TABLES;
    history.grows = true;
    for (unsigned i = 0; i < HISTORY_TABLES; i++) {
        struct kv *kv = rig_create(16 * MIB, HISTORY_THREADS, false);
        team_run(&team, kv, HISTORY_THREADS, &history, run_history);
        struct kv_stats stats = rig_stats(kv);
        assert_true(stats.growths + stats.growing >= 2);
        assert_int_equal(stats.evictions, 0);
        rig_check(kv);
        kv_destroy(kv);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_fresh_keys),
        cmocka_unit_test(test_churn_small_values),
        cmocka_unit_test(test_churn_large_values),
        cmocka_unit_test(test_churn_without_eviction),
        cmocka_unit_test(test_churn_under_administration),
        cmocka_unit_test(test_linearizable),
        cmocka_unit_test(test_linearizable_while_growing),
    };
    if (argc > 1)
        seed = (unsigned)strtoul(argv[1], NULL, 10);
    loud_note("seed %u, which can be given as an argument", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
