/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index under several threads while it grows: no key is missed or found twice and no change is
 * lost, whatever other threads do to the same chains.
 */
#include <sched.h>
#include <time.h>

#include "team.h"

#define FRESH 40000 /* enough new keys for three doublings of the table for 8 MiB */

/* Every other one has a thread that touches memory ahead, and opens the larger tables. */
static struct kv *create(void)
{
    static unsigned count;
    uint64_t ahead_bytes = count++ % 2 == 0 ? 1 * MIB : 0;
    return rig_create_ahead(8 * MIB, THREADS + 1, true, KV_POLICY_S3FIFO, ahead_bytes);
}

static void finish(struct kv *kv, uint64_t items)
{
    struct kv_worker *worker = kv_join(kv);
    for (unsigned i = 0; i < 3000; i++)
        kv_quiesce(worker);
    for (unsigned ms = 0; rig_stats(kv).touch_thread && rig_stats(kv).growing && ms < 60000; ms++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* it needs a core now and then */
        for (unsigned i = 0; i < 1000; i++)
            kv_quiesce(worker);
    }
    struct kv_stats stats = rig_stats(kv);
    assert_true(stats.growths >= 2);
    assert_false(stats.growing);
    assert_int_equal(stats.items, items);
    assert_int_equal(stats.evictions, 0);
    assert_true(stats.memory_used_bytes <= 8 * MIB);
    rig_check(kv);
    kv_leave(worker);
    kv_destroy(kv);
}

static struct kv_key named(const struct kv *kv, char name[24], const char *kind, unsigned number)
{
    snprintf(name, 24, "%s%u", kind, number);
    return kv_key(kv, name, (uint32_t)strlen(name));
}

static struct kv_item *make(struct kv_worker *worker, const struct kv_key *key, uint32_t filling)
{
    enum kv_error error;
    struct kv_item *item = kv_item_new(worker, key, 8, 0, 0, &error);
    EXPECT(item != NULL);
    rig_fill(item, 8, filling);
    return item;
}

static enum kv_verdict decide_add(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    (void)ctx;
    change->state = 0;
    return old ? KV_KEEP : KV_REPLACE;
}

static bool add(struct kv_worker *worker, const struct kv_key *key, uint32_t filling)
{
    struct kv_change change = {0};
    change.item = make(worker, key, filling);
    if (kv_update(worker, key, decide_add, NULL, &change) == KV_REPLACE)
        return true;
    kv_item_drop(worker, change.item);
    return false;
}

/* ---- all insert the same new keys -------------------------------------------------------- */

static void run_fresh(struct thread *thread)
{
    kv_atomic_u32 *inserted = (kv_atomic_u32 *)thread->team->shared;
    char name[24];
    for (unsigned i = 0; i < FRESH; i++) {
        /* Not quite in the same order, so that now one and now another is ahead. */
        unsigned number = i ^ u_prng_below(&thread->prng, 4);
        struct kv_key key = named(thread->team->kv, name, "fresh", number);
        if (add(thread->worker, &key, number))
            kv_u32_fetch_add_relaxed(inserted, 1);
        struct kv_view view;
        EXPECT(kv_get(thread->worker, &key, &view) == KV_HIT);
        EXPECT(rig_is_filled(view.item, 8, number));
        if (i % 8 == 0)
            kv_quiesce(thread->worker);
    }
}

static void test_same_new_keys_during_growth(void **unused)
{
    static struct team team;
    kv_atomic_u32 inserted = 0;
    struct kv *kv = create();
    team_run(&team, kv, THREADS, &inserted, run_fresh);
    finish(kv, kv_u32_load_relaxed(&inserted));
    assert_in_range(kv_u32_load_relaxed(&inserted), FRESH - FRESH / 10, FRESH);
}

/* ---- readers and others beside one that makes the table grow ----------------------------- */

#define STANDING 3000 /* keys that are there all the while */
#define STORM 12      /* keys that are set and deleted */
#define STORM_SEED 7

struct crowd {
    kv_atomic_u32 added_fresh;
    kv_atomic_u32 done;
    kv_atomic_u64 added;
    kv_atomic_u64 deleted;
    kv_atomic_u64 touches;
};

static void grow(struct thread *thread)
{
    struct crowd *crowd = (struct crowd *)thread->team->shared;
    char name[24];
    for (unsigned i = 0; i < FRESH; i++) {
        struct kv_key key = named(thread->team->kv, name, "fresh", i);
        EXPECT(add(thread->worker, &key, i));
        kv_u32_store_relaxed(&crowd->added_fresh, i + 1);
        if (i % 4 == 0)
            kv_quiesce(thread->worker);
    }
    kv_u32_store_release(&crowd->done, 1);
}

static bool goes_on(struct thread *thread)
{
    struct crowd *crowd = (struct crowd *)thread->team->shared;
    kv_quiesce(thread->worker);
    return kv_u32_load_acquire(&crowd->done) == 0;
}

/*
 * As goes_on(), for a thread that replaces items. It replaces at most one for each new key: while
 * the scheduler stops another thread no memory is reclaimed, and more copies would cause evictions.
 */
static bool may_change(struct thread *thread)
{
    struct crowd *crowd = (struct crowd *)thread->team->shared;
    bool more = goes_on(thread);
    thread->changes++;
    while (more && thread->changes > kv_u32_load_relaxed(&crowd->added_fresh)) {
        sched_yield();
        more = goes_on(thread);
    }
    return more;
}

static void read_standing(struct thread *thread)
{
    char name[24];
    do {
        unsigned number = u_prng_below(&thread->prng, STANDING);
        struct kv_key key = named(thread->team->kv, name, "standing", number);
        struct kv_view view;
        kv_prefetch_bucket(thread->worker, &key);
        const struct kv_item *item = kv_prefetch_item(thread->worker, &key);
        if (item)
            kv_prefetch_value(item);
        EXPECT(kv_get(thread->worker, &key, &view) == KV_HIT);
        EXPECT(rig_is_filled(view.item, 8, number));
    } while (goes_on(thread));
}

static void overwrite_standing(struct thread *thread)
{
    char name[24];
    do {
        unsigned number = u_prng_below(&thread->prng, STANDING);
        struct kv_key key = named(thread->team->kv, name, "standing", number);
        struct kv_change change = {0};
        change.item = make(thread->worker, &key, number);
        EXPECT(kv_update(thread->worker, &key, rig_decide_replace, NULL, &change) == KV_REPLACE);
    } while (may_change(thread));
}

static void note_standing(void *ctx, const struct kv_view *view)
{
    uint8_t *seen = (uint8_t *)ctx;
    if (view->key_len < 9 || memcmp(view->key, "standing", 8) != 0)
        return;
    unsigned number = 0;
    for (uint32_t i = 8; i < view->key_len; i++)
        number = number * 10 + (unsigned)(view->key[i] - '0');
    seen[number]++;
}

/* Each scan meets each of them exactly once. */
static void walk_standing(struct thread *thread)
{
    static uint8_t seen[STANDING];
    const struct kv_quantum part = {.chains = 50, .items = 200};
    bool more = true;
    do {
        struct kv_cursor cursor = {0};
        memset(seen, 0, sizeof(seen));
        do
            more = goes_on(thread);
        while (kv_scan(thread->worker, &cursor, &part, note_standing, seen));
        for (unsigned i = 0; i < STANDING; i++)
            EXPECT(seen[i] == 1);
    } while (more);
}

static void run_standing(struct thread *thread)
{
    static void (*const roles[THREADS])(struct thread *) = {grow, read_standing, overwrite_standing,
                                                            walk_standing};
    roles[thread->number](thread);
}

static void fill_standing(struct kv *kv)
{
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    for (unsigned i = 0; i < STANDING; i++) {
        struct kv_key key = named(kv, name, "standing", i);
        rig_set(worker, &key, 8, i);
        kv_quiesce(worker);
    }
    kv_leave(worker);
}

static void test_nothing_is_missed_during_growth(void **unused)
{
    static struct team team;
    struct crowd crowd = {0};
    struct kv *kv = create();
    fill_standing(kv);
    team_run(&team, kv, THREADS, &crowd, run_standing);
    finish(kv, STANDING + FRESH);
}

/* ---- delete and add again ---------------------------------------------------------------- */

static void storm(struct thread *thread)
{
    struct crowd *crowd = (struct crowd *)thread->team->shared;
    char name[24];
    do {
        unsigned number = u_prng_below(&thread->prng, STORM);
        struct kv_key key = named(thread->team->kv, name, "storm", number);
        if (add(thread->worker, &key, STORM_SEED))
            kv_u64_fetch_add_relaxed(&crowd->added, 1);
        struct kv_view view;
        if (kv_get(thread->worker, &key, &view) == KV_HIT)
            EXPECT(rig_is_filled(view.item, 8, STORM_SEED));
        if (rig_delete(thread->worker, &key) == KV_DELETE)
            kv_u64_fetch_add_relaxed(&crowd->deleted, 1);
    } while (may_change(thread));
}

static void run_storm(struct thread *thread)
{
    if (thread->number == 0)
        grow(thread);
    else
        storm(thread);
}

static void test_delete_and_add_storm_during_growth(void **unused)
{
    static struct team team;
    struct crowd crowd = {0};
    struct kv *kv = create();
    team_run(&team, kv, THREADS, &crowd, run_storm);
    finish(kv, FRESH + kv_u64_load_relaxed(&crowd.added) - kv_u64_load_relaxed(&crowd.deleted));
}

/* ---- touches among copies ---------------------------------------------------------------- */

#define TOUCHED 4
#define EXPTIME_START 1000000

static enum kv_verdict decide_later(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    (void)ctx;
    EXPECT(old != NULL);
    change->exptime = old->exptime + 1;
    return KV_TOUCH;
}

static enum kv_verdict decide_renew(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    (void)ctx;
    (void)change;
    EXPECT(old != NULL);
    return KV_RENEW;
}

/* Like an append: the new item depends on the old one. */
static enum kv_verdict decide_rewrite(void *ctx, const struct kv_view *old,
                                      struct kv_change *change)
{
    EXPECT(old != NULL);
    kv_item_set_exptime((struct kv_worker *)ctx, change->item, old->exptime);
    return KV_REPLACE;
}

static void touch(struct thread *thread)
{
    struct crowd *crowd = (struct crowd *)thread->team->shared;
    char name[24];
    do {
        unsigned number = u_prng_below(&thread->prng, TOUCHED);
        struct kv_key key = named(thread->team->kv, name, "touched", number);
        struct kv_change change = {0};
        EXPECT(kv_update(thread->worker, &key, decide_later, NULL, &change) == KV_TOUCH);
        kv_u64_fetch_add_relaxed(&crowd->touches, 1);
    } while (goes_on(thread));
}

/* Moves them about: by renewing, and by storing them anew. */
static void move_about(struct thread *thread)
{
    char name[24];
    do {
        unsigned number = u_prng_below(&thread->prng, TOUCHED);
        struct kv_key key = named(thread->team->kv, name, "touched", number);
        struct kv_change change = {0};
        if (u_prng_below(&thread->prng, 2) == 0) {
            EXPECT(kv_update(thread->worker, &key, decide_renew, NULL, &change) == KV_RENEW);
            continue;
        }
        change.item = make(thread->worker, &key, number);
        EXPECT(kv_update(thread->worker, &key, decide_rewrite, thread->worker, &change) ==
               KV_REPLACE);
    } while (may_change(thread));
}

static void run_touch(struct thread *thread)
{
    if (thread->number == 0)
        grow(thread);
    else if (thread->number == 1)
        move_about(thread);
    else
        touch(thread);
}

static void test_no_touch_is_lost(void **unused)
{
    static struct team team;
    struct crowd crowd = {0};
    struct kv *kv = create();
    struct kv_worker *worker = kv_join(kv);
    char name[24];
    enum kv_error error;
    for (unsigned i = 0; i < TOUCHED; i++) {
        struct kv_key key = named(kv, name, "touched", i);
        rig_store(worker, &key, 8, i, 0, EXPTIME_START, &error);
    }
    kv_leave(worker);
    team_run(&team, kv, THREADS, &crowd, run_touch);
    worker = kv_join(kv);
    uint64_t later = 0;
    for (unsigned i = 0; i < TOUCHED; i++) {
        struct kv_key key = named(kv, name, "touched", i);
        struct kv_view view;
        assert_int_equal(kv_peek(worker, &key, &view), KV_HIT);
        later += view.exptime - EXPTIME_START;
        assert_true(rig_is_filled(view.item, 8, i));
    }
    kv_leave(worker);
    assert_int_equal(later, kv_u64_load_relaxed(&crowd.touches));
    finish(kv, FRESH + TOUCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_new_keys_during_growth),
        cmocka_unit_test(test_nothing_is_missed_during_growth),
        cmocka_unit_test(test_delete_and_add_storm_during_growth),
        cmocka_unit_test(test_no_touch_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
