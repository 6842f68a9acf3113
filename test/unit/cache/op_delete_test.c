/* SPDX-License-Identifier: BSD-3-Clause */
/* Deletions during which another worker changes the key; the commands are in exec_meta_test.c. */
#include "rig.h"

#include "cache/cache_worker.h"

/* kv_update() of the function under test is update_interrupted(), by the linker (--wrap). */
enum kv_verdict update(struct kv_worker *worker, const struct kv_key *key, kv_decide *decide,
                       void *ctx, struct kv_change *change) __asm__("__real_kv_update");
enum kv_verdict update_interrupted(struct kv_worker *worker, const struct kv_key *key,
                                   kv_decide *decide, void *ctx,
                                   struct kv_change *change) __asm__("__wrap_kv_update");

/* Touches the key after the first decision, before that is carried out. */
static struct {
    struct kv_worker *worker; /* null: there is none, or it has done so */
    const struct kv_key *key;
    kv_decide *decide; /* of the function under test */
    void *ctx;
} other;

static enum kv_verdict decide_touch(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->exptime = old->exptime + 1000;
    return KV_TOUCH;
}

static enum kv_verdict decide_then_touch(void *ctx, const struct kv_view *old,
                                         struct kv_change *change)
{
    enum kv_verdict verdict = other.decide(other.ctx, old, change);
    struct kv_worker *worker = other.worker;
    struct kv_change touch = {0};

    other.worker = NULL;
    if (worker != NULL)
        assert_int_equal(update(worker, other.key, decide_touch, NULL, &touch), KV_TOUCH);
    return verdict;
}

enum kv_verdict update_interrupted(struct kv_worker *worker, const struct kv_key *key,
                                   kv_decide *decide, void *ctx, struct kv_change *change)
{
    if (other.worker == NULL)
        return update(worker, key, decide, ctx, change);
    other.key = key;
    other.decide = decide;
    other.ctx = ctx;
    return update(worker, key, decide_then_touch, NULL, change);
}

/* Of the two empty items that are made the first is dropped. */
static void test_emptied_at_the_second_try(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *worker = cache_join(rig->cache);

    assert_non_null(worker);
    rig_expect(rig, "ms a 1\r\nx\r\n", "HD\r\n");
    other.worker = worker->kv_worker;
    rig_expect(rig, "md a x\r\nmg a v\r\n", "HD\r\nVA 0\r\n\r\n");
    assert_null(other.worker);
    cache_leave(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_emptied_at_the_second_try, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
