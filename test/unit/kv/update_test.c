/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions: each verdict with and without an old item, races made by hand, cas numbers. */
#include "kv_rig.h"

#include "kv/engine.h"

struct rig {
    struct kv *kv;
    struct kv_worker *worker;
    struct kv_worker *other;
    struct kv_key key;
};

static struct rig rig;

static void join(void)
{
    rig.worker = kv_join(rig.kv);
    rig.other = kv_join(rig.kv);
    kv_tick(rig.worker, 10);
    kv_tick(rig.other, 10);
    rig.key = rig_key(rig.kv, "key");
}

static int setup(void **unused)
{
    rig.kv = rig_create(4 * MIB, 2, true);
    join();
    return 0;
}

static int teardown(void **unused)
{
    rig_check(rig.kv);
    kv_leave(rig.worker);
    kv_leave(rig.other);
    kv_destroy(rig.kv);
    return 0;
}

/* A decision function that records its view and returns a preset verdict. */
struct script {
    enum kv_verdict verdict;
    struct kv_change change; /* exptime and state to set */
    unsigned calls;
    bool had_old;
    struct kv_view old;
    struct kv_change initial;
    void (*meanwhile)(void); /* what another worker does before the first decision is carried out */
};

static enum kv_verdict decide_script(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    struct script *script = (struct script *)ctx;
    script->had_old = old != NULL;
    if (old)
        script->old = *old;
    script->initial = *change;
    change->exptime = script->change.exptime;
    change->state = script->change.state;
    if (script->calls++ == 0 && script->meanwhile)
        script->meanwhile();
    return script->verdict;
}

static struct kv_item *make(uint32_t seed)
{
    enum kv_error error;
    struct kv_item *item = kv_item_new(rig.worker, &rig.key, 30, 0, 0, &error);
    assert_non_null(item);
    rig_fill(item, 30, seed);
    return item;
}

static struct kv_view peek(void)
{
    struct kv_view view;
    assert_int_equal(kv_peek(rig.worker, &rig.key, &view), KV_HIT);
    return view;
}

static void test_verdicts_without_an_old_item(void **unused)
{
    const enum kv_verdict verdicts[] = {KV_KEEP, KV_DELETE, KV_TOUCH};
    for (unsigned i = 0; i < 3; i++) {
        struct script script = {.verdict = verdicts[i]};
        struct kv_change change = {0};
        assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_KEEP);
        assert_int_equal(script.calls, 1);
        assert_false(script.had_old);
        assert_int_equal(script.initial.exptime, 0);
        assert_int_equal(script.initial.state, 0);
    }
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

static void test_replace(void **unused)
{
    struct script script = {.verdict = KV_REPLACE, .change = {.state = KV_STALE | KV_KEY_BINARY}};
    struct kv_change change = {.item = make(1)};
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_REPLACE);
    struct kv_view view = peek();
    assert_int_equal(view.cas, change.cas);
    assert_int_equal(view.state, KV_STALE | KV_KEY_BINARY);
    assert_int_equal(view.last_access, 10);
    assert_true(rig_is_filled(view.item, 30, 1));

    script.change.state = KV_FETCHED;
    change = (struct kv_change){.item = make(2)};
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_true(script.had_old);
    assert_int_equal(script.initial.state, KV_STALE | KV_KEY_BINARY); /* starts as the old one's */
    assert_int_equal(peek().state, KV_FETCHED);
    assert_true(rig_is_filled(peek().item, 30, 2));
    assert_int_equal(rig_stats(rig.kv).items, 1);
    assert_int_equal(rig_stats(rig.kv).items_total, 2);
}

static void test_touch_changes_in_place(void **unused)
{
    uint64_t cas = rig_set(rig.worker, &rig.key, 30, 1);
    struct kv_view before = peek();
    struct script script = {.verdict = KV_TOUCH, .change = {.exptime = 15, .state = KV_WON}};
    struct kv_change change = {0};
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_TOUCH);
    struct kv_view view = peek();
    assert_ptr_equal(view.item, before.item);
    assert_int_equal(view.cas, cas);
    assert_int_equal(view.exptime, 15);
    assert_int_equal(view.state, KV_WON);
    assert_int_equal(view.last_access, 10);
    script.change.state = KV_WON | KV_FETCHED;
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_int_equal(script.initial.exptime, 15);
    assert_int_equal(script.initial.state, KV_WON);
    assert_int_equal(peek().state, KV_WON | KV_FETCHED);
    assert_int_equal(peek().last_access, 12);
    kv_tick(rig.worker, 15);
    assert_int_equal(kv_peek(rig.worker, &rig.key, &view), KV_MISS_EXPIRED);
}

static void test_touch_unseen(void **unused)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    struct script script = {.verdict = KV_TOUCH, .change = {.exptime = 15, .state = KV_FETCHED}};
    struct kv_change change = {.unseen = true};
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_TOUCH);
    assert_int_equal(peek().exptime, 15);
    assert_int_equal(peek().state, 0);
    assert_int_equal(peek().last_access, 10);
}

static void test_renew(void **unused)
{
    uint64_t cas = rig_set(rig.worker, &rig.key, 30, 1);
    struct kv_view before = peek();
    struct script script = {.verdict = KV_RENEW, .change = {.exptime = 15, .state = KV_STALE}};
    struct kv_change change = {.unseen = true};
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_RENEW);
    assert_true(change.cas > cas);
    assert_ptr_not_equal(peek().item, before.item); /* a new cas needs a new item */
    assert_true(rig_is_filled(peek().item, 30, 1));
    assert_int_equal(peek().cas, change.cas);
    assert_int_equal(peek().exptime, 15);
    assert_int_equal(peek().state, KV_STALE);
    assert_int_equal(peek().last_access, before.last_access);
    assert_int_equal(rig_stats(rig.kv).items, 1);

    change = (struct kv_change){.cas = 3};
    script.change.cas = 3;
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_int_equal(peek().cas, 3);
}

static void test_renew_of_a_large_item_shares_its_extents(void **unused)
{
    rig_set(rig.worker, &rig.key, 300000, 4);
    struct kv_view before = peek();
    struct script script = {.verdict = KV_RENEW, .change = {.exptime = 15, .state = KV_STALE}};
    struct kv_change change = {0};
    uint64_t bytes = rig_stats(rig.kv).item_bytes;
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_RENEW);
    assert_int_equal(peek().cas, change.cas);
    assert_ptr_equal(kv_item_extent(peek().item, 0), kv_item_extent(before.item, 0));
    assert_true(rig_is_filled(peek().item, 300000, 4));
    assert_int_equal(rig_stats(rig.kv).item_bytes, bytes);
}

/* Sealed by a worker that has not come any further. */
static void seal(void)
{
    uint64_t word;
    struct kv_item *item = rig_find(&rig.kv->index, &rig.key, &word);
    kv_item_mark(item, KV_MARK_SEALED);
}

static void test_sealed_item_is_touched_by_a_copy(void **unused)
{
    uint64_t cas = rig_set(rig.worker, &rig.key, 30, 1);
    struct kv_view before = peek();
    seal();
    struct script script = {.verdict = KV_TOUCH,
                            .change = {.exptime = 15, .state = KV_WON | KV_FETCHED}};
    struct kv_change change = {0};
    kv_tick(rig.worker, 12);
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_TOUCH);
    assert_int_equal(script.calls, 1);
    struct kv_view view = peek();
    assert_ptr_not_equal(view.item, before.item);
    assert_int_equal(kv_item_marks(view.item) & KV_MARK_SEALED, 0);
    assert_true(kv_item_marks(before.item) & KV_MARK_DEAD);
    assert_true(rig_is_filled(view.item, 30, 1));
    assert_int_equal(view.cas, cas);
    assert_int_equal(view.exptime, 15);
    assert_int_equal(view.state, KV_WON | KV_FETCHED);
    assert_int_equal(view.last_access, 12);
    assert_int_equal(rig_stats(rig.kv).items_total, 1);
}

/* The sweep finds it in its new segment. */
static void test_copy_expires(void **unused)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    struct script script = {.verdict = KV_RENEW, .change = {.exptime = 15}};
    struct kv_change change = {0};
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_RENEW);
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(rig.worker, log);
    kv_tick(rig.worker, 15);
    for (unsigned i = 0; i < 300; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

static void test_sealed_item_is_replaced_and_deleted(void **unused)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    seal();
    rig_set(rig.worker, &rig.key, 30, 2);
    assert_true(rig_is_filled(peek().item, 30, 2));
    seal();
    assert_int_equal(rig_delete(rig.worker, &rig.key), KV_DELETE);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

/*
 * Stores the key in a segment that is no victim, pinned; then only so many segments are free. The
 * others are retired, but cannot be reclaimed yet.
 */
static struct kv_view use_up(uint32_t free)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    uint32_t taken;
    for (unsigned i = 0; i < KV_LOGS; i++)
        kv_log_close(rig.worker, i);
    do {
        taken = kv_segment_take(&rig.kv->segments, free);
        if (taken != KV_SEGMENT_NONE)
            kv_segment_seal(&rig.kv->segments, taken);
    } while (taken != KV_SEGMENT_NONE);
    struct kv_view view = peek();
    kv_pin(rig.other, view.item);
    return view;
}

/* The last segments are for items on the move and for copies. */
static void test_copy_takes_one_of_the_last_segments(void **unused)
{
    struct kv_view view = use_up(kv_floor_segments(rig.kv));
    struct script script = {.verdict = KV_RENEW};
    struct kv_change change = {0};
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_RENEW);
    assert_ptr_not_equal(peek().item, view.item);
    assert_true(rig_is_filled(peek().item, 30, 1));
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    kv_unpin(rig.other, view.item);
}

static void test_item_goes_if_there_is_no_memory_for_its_copy(void **unused)
{
    struct kv_view view = use_up(0);
    struct script script = {.verdict = KV_RENEW};
    struct kv_change change = {0};
    assert_int_equal(kv_update(rig.worker, &rig.key, decide_script, &script, &change), KV_RENEW);
    struct kv_view gone;
    assert_int_equal(kv_peek(rig.worker, &rig.key, &gone), KV_MISS);
    assert_int_equal(rig_stats(rig.kv).evictions, 1);
    assert_true(rig_is_filled(view.item, 30, 1));
    kv_unpin(rig.other, view.item);
}

static void test_delete(void **unused)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    assert_int_equal(rig_delete(rig.worker, &rig.key), KV_DELETE);
    assert_int_equal(rig_delete(rig.worker, &rig.key), KV_KEEP);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_int_equal(stats.items, 0);
    assert_int_equal(stats.item_bytes, 0);
    assert_int_equal(stats.evictions, 0);
}

static void test_item_that_is_over_is_no_old_item(void **unused)
{
    enum kv_error error;
    rig_store(rig.worker, &rig.key, 30, 1, 0, 11, &error);
    kv_tick(rig.worker, 11);
    struct script script = {.verdict = KV_REPLACE};
    struct kv_change change = {.item = make(2)};
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_false(script.had_old);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
    assert_int_equal(rig_stats(rig.kv).items, 1);
    kv_flush(rig.worker);
    assert_int_equal(rig_delete(rig.worker, &rig.key), KV_KEEP);
    assert_int_equal(rig_stats(rig.kv).items, 0); /* taken away in passing */
}

/* ---- races ------------------------------------------------------------------------------- */

static void other_sets(void)
{
    rig_set(rig.other, &rig.key, 30, 77);
}

static void other_deletes(void)
{
    assert_int_equal(rig_delete(rig.other, &rig.key), KV_DELETE);
}

static void other_flushes(void)
{
    kv_flush(rig.other);
}

static enum kv_verdict decide_win(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    change->state |= KV_WON;
    return KV_TOUCH;
}

static void other_wins(void)
{
    struct kv_change change = {0};
    assert_int_equal(kv_update(rig.other, &rig.key, decide_win, NULL, &change), KV_TOUCH);
}

static void race(enum kv_verdict verdict, bool exists, void (*meanwhile)(void), bool old_after)
{
    rig_delete(rig.worker, &rig.key);
    if (exists)
        rig_set(rig.worker, &rig.key, 30, 1);
    kv_stats_reset(rig.kv);
    struct script script = {.verdict = verdict, .meanwhile = meanwhile};
    struct kv_change change = {0};
    if (verdict == KV_REPLACE)
        change.item = make(2);
    enum kv_verdict result = kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_int_equal(script.calls, 2);
    assert_int_equal(script.had_old, old_after);
    assert_int_equal(rig_stats(rig.kv).update_retries, 1);
    assert_int_equal(result, old_after || verdict == KV_REPLACE ? verdict : KV_KEEP);
    rig_check(rig.kv);
}

static void test_decision_is_repeated_when_the_key_changed(void **unused)
{
    const enum kv_verdict verdicts[] = {KV_REPLACE, KV_DELETE, KV_TOUCH, KV_RENEW};
    for (unsigned i = 0; i < 4; i++) {
        race(verdicts[i], true, other_sets, true);
        race(verdicts[i], true, other_deletes, false);
        race(verdicts[i], true, other_wins, true);
    }
    race(KV_REPLACE, false, other_sets, true);
    race(KV_REPLACE, true, other_flushes, false);
}

/* So many flushes that unpublished items are in segments that are too old: they are copied. */
static void flush_often(void)
{
    for (unsigned i = 0; i < 300; i++)
        kv_flush(rig.worker);
}

static void test_copy_is_made_again_when_the_key_changed(void **unused)
{
    struct script script = {.verdict = KV_REPLACE, .meanwhile = other_sets};
    struct kv_change change = {.item = make(2)};
    uint32_t segment = kv_segment_of(&rig.kv->segments, change.item);
    flush_often();
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_int_equal(script.calls, 2);
    assert_true(rig_is_filled(peek().item, 30, 2));
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(rig.worker, log);
    assert_false(kv_segment_is_held(&rig.kv->segments.array[segment]));
}

/* The store succeeds, as if its item had been evicted right after it. */
static void test_item_is_lost_if_there_is_no_memory_for_its_copy(void **unused)
{
    struct kv_change change = {.item = make(2)};
    const struct kv_segments *segments = &rig.kv->segments;
    const struct kv_segment *segment = &segments->array[kv_segment_of(segments, change.item)];
    kv_log_close(rig.worker, rig.worker->log_last);
    struct kv_view view = use_up(0);
    assert_true(kv_segment_is_held(segment));
    flush_often();
    assert_int_equal(kv_update(rig.worker, &rig.key, rig_decide_replace, NULL, &change),
                     KV_REPLACE);
    assert_true(change.cas > view.cas);
    assert_int_equal(rig_stats(rig.kv).items, 0);
    assert_false(kv_segment_is_held(segment));
    kv_unpin(rig.other, view.item);
}

static void test_only_one_wins(void **unused)
{
    rig_set(rig.worker, &rig.key, 30, 1);
    struct script script = {
        .verdict = KV_TOUCH, .change = {.state = KV_WON}, .meanwhile = other_wins};
    struct kv_change change = {0};
    kv_update(rig.worker, &rig.key, decide_script, &script, &change);
    assert_int_equal(script.calls, 2);
    assert_int_equal(script.old.state, KV_WON); /* so it could see that it came too late */
}

/* ---- cas --------------------------------------------------------------------------------- */

static void test_cas_is_unique_and_rises(void **unused)
{
    static bool given[8192];
    memset(given, 0, sizeof(given));
    uint64_t last = 0;
    for (unsigned i = 0; i < 3000; i++) {
        struct kv_worker *worker = i % 3 ? rig.worker : rig.other;
        uint64_t cas = rig_set(worker, &rig.key, 5, i);
        assert_true(cas > last);
        last = cas;
        struct kv_key other = rig_key(rig.kv, i % 2 ? "other" : "another");
        uint64_t other_cas = rig_set(worker, &other, 5, i);
        const uint64_t both[] = {cas, other_cas};
        for (unsigned j = 0; j < 2; j++) {
            if (both[j] >= sizeof(given))
                continue;
            assert_false(given[both[j]]);
            given[both[j]] = true;
        }
        kv_quiesce(rig.worker);
        kv_quiesce(rig.other);
    }
}

static void test_cas_is_not_repeated_after_a_delete(void **unused)
{
    uint64_t first = rig_set(rig.worker, &rig.key, 5, 1);
    rig_delete(rig.worker, &rig.key);
    assert_true(rig_set(rig.worker, &rig.key, 5, 1) != first);
    rig_delete(rig.worker, &rig.key);
    assert_true(rig_set(rig.other, &rig.key, 5, 1) != first);
}

static void test_cas_that_the_caller_gives(void **unused)
{
    struct kv_change change = {.item = make(1), .cas = UINT64_MAX};
    kv_update(rig.worker, &rig.key, rig_decide_replace, NULL, &change);
    assert_true(change.cas == UINT64_MAX);
    assert_true(peek().cas == UINT64_MAX);
    assert_true(rig_set(rig.worker, &rig.key, 5, 1) != 0);
    change = (struct kv_change){.item = make(1), .cas_given = true};
    kv_update(rig.worker, &rig.key, rig_decide_replace, NULL, &change);
    assert_true(peek().cas == 0);
}

/* The worker's next number may be one that an item has been given. */
static void test_cas_after_one_that_would_be_next(void **unused)
{
    uint64_t first = rig_set(rig.worker, &rig.key, 5, 1);
    struct kv_change change = {.item = make(1), .cas = first + 1};
    kv_update(rig.worker, &rig.key, rig_decide_replace, NULL, &change);
    assert_true(peek().cas == first + 1);
    assert_true(rig_set(rig.worker, &rig.key, 5, 1) > first + 1);
}

/* Sets a CAS value when it replaces an item, and none when it inserts one. */
static enum kv_verdict decide_cas(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    bool *has_raced = (bool *)ctx;
    if (old)
        change->cas = 1000000;
    if (!*has_raced)
        other_deletes();
    *has_raced = true;
    return KV_REPLACE;
}

static void test_cas_of_a_decision_that_is_repeated(void **unused)
{
    bool has_raced = false;
    rig_set(rig.worker, &rig.key, 30, 1);
    struct kv_change change = {.item = make(2)};
    kv_update(rig.worker, &rig.key, decide_cas, &has_raced, &change);
    assert_true(peek().cas == change.cas);
    assert_true(change.cas != 1000000);
}

/* An unpublished item may still be given another time. */
static void test_exptime_before_publication(void **unused)
{
    struct kv_change change = {.item = make(1)};
    kv_item_set_exptime(rig.worker, change.item, 11);
    kv_update(rig.worker, &rig.key, rig_decide_replace, NULL, &change);
    assert_int_equal(peek().exptime, 11);
    kv_tick(rig.worker, 11);
    struct kv_view view;
    assert_int_equal(kv_get(rig.worker, &rig.key, &view), KV_MISS_EXPIRED);
}

/* ---- the short way ----------------------------------------------------------------------- */

/* kv_replace_short() with a fresh hint. Returns the cas, or 0. */
static uint64_t replace_short(uint32_t value_len, uint32_t seed, uint32_t exptime)
{
    uint8_t bytes[KV_SHORT_MAX];
    struct kv_short value = {bytes, value_len};
    struct kv_key key = rig_key(rig.kv, "key");
    for (uint32_t i = 0; i < value_len; i++)
        bytes[i] = rig_byte(i, seed);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    return kv_replace_short(rig.worker, &key, &value, exptime);
}

static void test_short_replaces(void **unused)
{
    static const uint32_t lens[] = {0, 1, 30, 254, 7, 254, 0};
    struct kv_key other = rig_key(rig.kv, "other");
    enum kv_error error;
    rig_store(rig.worker, &other, 8, 1, 0, 100, &error); /* opens the segment for such times */
    uint64_t bytes = rig_stats(rig.kv).item_bytes;
    uint64_t cas = rig_set(rig.worker, &rig.key, 30, 1);
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        uint64_t next = replace_short(lens[i], i, i % 2 * 100);
        assert_true(next > cas);
        cas = next;
        struct kv_view view = peek();
        assert_int_equal(view.cas, cas);
        assert_int_equal(view.exptime, i % 2 * 100);
        assert_int_equal(view.state, 0);
        assert_int_equal(view.flags, 0);
        assert_int_equal(view.last_access, 10);
        assert_int_equal(view.value_len, lens[i]);
        assert_true(rig_is_filled(view.item, lens[i], i));
        struct kv_stats stats = rig_stats(rig.kv);
        assert_int_equal(stats.items, 2);
        assert_int_equal(stats.items_total, i + 3);
        assert_int_equal(stats.item_bytes, bytes + kv_record_round(KV_HEADER_BYTES + 3 + lens[i]));
        rig_check(rig.kv);
    }
}

static void test_short_leaves_the_rest(void **unused)
{
    enum kv_error error;
    assert_int_equal(replace_short(8, 1, 0), 0); /* nothing is there */
    rig_store(rig.worker, &rig.key, 8, 1, 7, 0, &error);
    assert_int_equal(replace_short(8, 2, 0), 0); /* it has flags */
    rig_store(rig.worker, &rig.key, 255, 1, 0, 0, &error);
    assert_int_equal(replace_short(8, 2, 0), 0); /* it is not short */
    rig_store(rig.worker, &rig.key, 200000, 1, 0, 0, &error);
    assert_int_equal(replace_short(8, 2, 0), 0); /* it is large */
    rig_store(rig.worker, &rig.key, 8, 1, 0, 12, &error);
    kv_tick(rig.worker, 12);
    assert_int_equal(replace_short(8, 2, 0), 0); /* expired */
    rig_set(rig.worker, &rig.key, 8, 1);
    kv_flush(rig.worker);
    assert_int_equal(replace_short(8, 2, 0), 0); /* it was flushed */
    rig_set(rig.worker, &rig.key, 8, 1);
    kv_item_mark((struct kv_item *)(uintptr_t)peek().item, KV_MARK_SEALED);
    assert_int_equal(replace_short(8, 2, 0), 0); /* sealed by another worker */
    rig_set(rig.worker, &rig.key, 8, 3);
    assert_true(rig_is_filled(peek().item, 8, 3));
    uint8_t bytes[8] = {0};
    struct kv_short value = {bytes, sizeof(bytes)};
    assert_int_equal(kv_replace_short(rig.worker, &rig.key, &value, 0), 0); /* no place is known */
    struct kv_key key = rig_key(rig.kv, "key");
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    rig_set(rig.other, &rig.key, 8, 4);
    assert_int_equal(kv_replace_short(rig.worker, &key, &value, 0), 0); /* it is another one's */
    assert_true(rig_is_filled(peek().item, 8, 4));
}

/* Nor is a value above the limit stored, nor one without eviction, nor one that has to evict. */
static void test_short_leaves_what_needs_more(void **unused)
{
    rig_set(rig.worker, &rig.key, 8, 1);
    uint64_t longest = kv_u64_load_relaxed(&rig.kv->value_bytes_max);
    kv_u64_store_relaxed(&rig.kv->value_bytes_max, 7);
    assert_int_equal(replace_short(8, 2, 0), 0);
    assert_true(replace_short(7, 2, 0) != 0);
    kv_u64_store_relaxed(&rig.kv->value_bytes_max, longest);
    while (kv_evict_is_ahead(rig.kv))
        assert_int_not_equal(kv_segment_take(&rig.kv->segments, 0), KV_SEGMENT_NONE);
    assert_int_equal(replace_short(8, 3, 0), 0);
    assert_true(rig_is_filled(peek().item, 7, 2));
    teardown(NULL);

    rig.kv = rig_create(4 * MIB, 2, false);
    join();
    rig_set(rig.worker, &rig.key, 8, 1);
    assert_int_equal(replace_short(8, 2, 0), 0);
}

/* The sweep finds the item, although all others in its segment expire later. */
static void test_short_expires(void **unused)
{
    struct kv_key other = rig_key(rig.kv, "other");
    enum kv_error error;
    rig_store(rig.worker, &other, 8, 1, 0, 100, &error);
    rig_set(rig.worker, &rig.key, 8, 1);
    assert_true(replace_short(8, 2, 80) != 0);
    kv_tick(rig.worker, 90);
    for (unsigned i = 0; i < 100; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).expired_reclaimed, 1);
    assert_int_equal(rig_stats(rig.kv).items, 1);
}

/* It never opens a segment: that may evict, and has to be paid for. */
static void test_short_ends_with_its_segment(void **unused)
{
    unsigned refused = 0;
    uint32_t segment = 0;
    rig_set(rig.worker, &rig.key, 8, 1);
    unsigned log = kv_log_for(rig.worker, kv_evict_pool(rig.worker, peek().item), 0);
    for (unsigned i = 0; refused < 3; i++) {
        segment = rig.worker->log[log];
        if (replace_short(254, i, 0) != 0) {
            assert_int_equal(rig.worker->log[log], segment);
            continue;
        }
        assert_true(kv_log_free_bytes(rig.worker, log) < 280);
        rig_set(rig.worker, &rig.key, 254, i);
        assert_true(rig.worker->log[log] != segment);
        refused++;
    }
}

/* The same accesses are counted and kept as by the general way. */
static void test_short_keeps_what_was_counted(void **unused)
{
    struct kv_key other = rig_key(rig.kv, "other");
    struct kv_view view;
    rig_set(rig.worker, &rig.key, 8, 1);
    rig_set(rig.worker, &other, 8, 1);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(replace_short(8, i, 0) != 0);
        rig_set(rig.worker, &other, 8, i);
        assert_int_equal(kv_peek(rig.worker, &other, &view), KV_HIT);
        assert_int_equal(kv_item_access(peek().item), kv_item_access(view.item));
        assert_int_equal(kv_evict_pool(rig.worker, peek().item),
                         kv_evict_pool(rig.worker, view.item));
        if (i % 2 == 0) {
            assert_int_equal(kv_get(rig.worker, &rig.key, &view), KV_HIT);
            assert_int_equal(kv_get(rig.worker, &other, &view), KV_HIT);
        }
    }
}

static void open_with_sizes(const struct kv_sizes *sizes)
{
    struct kv_config config = {.memory_bytes = 4 * MIB,
                               .value_bytes_max = 1 << 20,
                               .worker_max = 2,
                               .evict = true,
                               .file = rig_file(),
                               .sizes = *sizes};
    const char *error = "not set";
    rig.kv = kv_create(&config, &error);
    if (!rig.kv)
        fail_msg("kv_create: %s", error);
    join();
}

static uint64_t in_class(unsigned class)
{
    struct kv_class_stats stats;
    kv_class_stats(rig.kv, class, &stats);
    return stats.items;
}

static void test_short_counts_by_class(void **unused)
{
    open_with_sizes(&(struct kv_sizes){.class_count = 2, .class_bytes_max = {64, 1024}});
    rig_set(rig.worker, &rig.key, 30, 1);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(replace_short(i % 2 ? 30 : 200 + i, i, 0) != 0);
        assert_int_equal(in_class(0), i % 2);
        assert_int_equal(in_class(1), (i + 1) % 2);
        assert_int_equal(rig_stats(rig.kv).item_sizes, 3 + (i % 2 ? 30 : 200 + i));
    }
    teardown(NULL);
}

/* It does not count by size, so it leaves that to the general way. */
static void test_short_leaves_what_is_counted_by_size(void **unused)
{
    open_with_sizes(&(struct kv_sizes){.bucket_bytes = 32, .bucket_count = 10});
    rig_set(rig.worker, &rig.key, 30, 1);
    assert_int_equal(replace_short(100, 1, 0), 0);
    rig_set(rig.worker, &rig.key, 100, 1);
    for (uint32_t bucket = 0; bucket < 10; bucket++)
        assert_int_equal(kv_bucket_items(rig.kv, bucket), bucket == 4); /* 103 bytes */
    teardown(NULL);
}

/* A bucket ends with a multiple of its bytes; the last one has all that are larger. */
static void test_edges_of_size_buckets(void **unused)
{
    static const struct {
        uint32_t value_len;
        uint32_t bucket;
    } edges[] = {{93, 3}, {94, 4}, {285, 9}, {286, 9}, {10000, 9}}; /* the key has 3 bytes */
    open_with_sizes(&(struct kv_sizes){.bucket_bytes = 32, .bucket_count = 10});
    for (unsigned i = 0; i < U_ARRAY_LEN(edges); i++) {
        rig_set(rig.worker, &rig.key, edges[i].value_len, 1);
        for (uint32_t bucket = 0; bucket < 10; bucket++)
            assert_int_equal(kv_bucket_items(rig.kv, bucket), bucket == edges[i].bucket);
    }
    struct kv_key key = rig_key(rig.kv, "two");
    rig_set(rig.other, &key, 10000, 1);
    assert_int_equal(kv_bucket_items(rig.kv, 9), 2);
    rig_delete(rig.other, &rig.key);
    assert_int_equal(kv_bucket_items(rig.kv, 9), 1);
    teardown(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_verdicts_without_an_old_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_touch_changes_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_touch_unseen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renew_of_a_large_item_shares_its_extents, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_sealed_item_is_touched_by_a_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy_expires, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sealed_item_is_replaced_and_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy_takes_one_of_the_last_segments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_item_goes_if_there_is_no_memory_for_its_copy, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_item_that_is_over_is_no_old_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decision_is_repeated_when_the_key_changed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_copy_is_made_again_when_the_key_changed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_item_is_lost_if_there_is_no_memory_for_its_copy, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_only_one_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cas_is_unique_and_rises, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cas_is_not_repeated_after_a_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cas_that_the_caller_gives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cas_after_one_that_would_be_next, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cas_of_a_decision_that_is_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exptime_before_publication, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_leaves_the_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_leaves_what_needs_more, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_expires, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_ends_with_its_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_keeps_what_was_counted, setup, teardown),
        cmocka_unit_test(test_short_counts_by_class),
        cmocka_unit_test(test_short_leaves_what_is_counted_by_size),
        cmocka_unit_test(test_edges_of_size_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
