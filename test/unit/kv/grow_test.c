/* SPDX-License-Identifier: BSD-3-Clause */
/* The index grows: step by step, with each operation in the middle of it, within the memory. */
#define _GNU_SOURCE /* mincore() */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kv_rig.h"

#include "kv/engine.h"

extern bool kv_memory_open_real(const struct kv_memory *memory, uint8_t *from,
                                uint64_t bytes) __asm__("__real_kv_memory_open");
extern bool kv_memory_open_watched(const struct kv_memory *memory, uint8_t *from,
                                   uint64_t bytes) __asm__("__wrap_kv_memory_open");

static bool memory_is_refused;
static unsigned memory_refusals;

bool kv_memory_open_watched(const struct kv_memory *memory, uint8_t *from, uint64_t bytes)
{
    if (!memory_is_refused)
        return kv_memory_open_real(memory, from, bytes);
    memory_refusals++;
    return false;
}

static struct kv_rig rig;

static int setup(void **unused)
{
    return rig_open(&rig, 8 * MIB, 3, true, 1);
}

static int teardown(void **unused)
{
    return rig_close(&rig);
}

static struct kv_key numbered(char name[24], unsigned number)
{
    snprintf(name, 24, "key%u", number);
    return rig_key(rig.kv, name);
}

static void store(unsigned from, unsigned to)
{
    char name[24];
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = numbered(name, i);
        rig_set(rig.worker, &key, 8, i);
    }
}

static void expect(unsigned from, unsigned to)
{
    char name[24];
    for (unsigned i = from; i < to; i++) {
        struct kv_key key = numbered(name, i);
        struct kv_view view;
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
        assert_true(rig_is_filled(view.item, 8, i));
    }
}

static enum kv_grow_phase phase(void)
{
    return (enum kv_grow_phase)kv_u32_load_relaxed(&rig.kv->index.phase);
}

/* More items than the first table is meant for; nothing has been done about it yet. */
static unsigned overload(void)
{
    unsigned count = 5u << kv_index_power(&rig.kv->index);
    store(0, count);
    return count;
}

/* Housekeeping until the phase is reached. */
static void come_to(enum kv_grow_phase wanted)
{
    for (unsigned i = 0; phase() != wanted; i++) {
        assert_true(i < 10000);
        kv_quiesce(rig.worker);
    }
}

static void finish(void)
{
    come_to(KV_GROW_NONE);
}

/* Stored faster than the table grows, and then nothing any more. */
static void test_grows_again_by_housekeeping_alone(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    store(0, 10u << power);
    for (unsigned i = 0; i < 5000; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(kv_index_power(&rig.kv->index), power + 2);
    assert_int_equal(rig_stats(rig.kv).growths, 2);
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    expect(0, 10u << power);
}

static void test_grows_by_housekeeping_alone(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = overload();
    assert_false(rig_stats(rig.kv).growing);
    kv_quiesce(rig.worker);
    come_to(KV_GROW_MOVE);
    assert_true(rig_stats(rig.kv).growing);
    assert_true(kv_is_resizing(rig.kv));
    assert_int_equal(rig_stats(rig.kv).index_bytes,
                     kv_table_bytes(power) + kv_table_bytes(power + 1));
    rig_check(rig.kv);
    finish();
    for (unsigned i = 0; i < 100; i++) /* the segments take the memory of the old table */
        kv_quiesce(rig.worker);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_false(stats.growing);
    assert_false(kv_is_resizing(rig.kv));
    assert_int_equal(stats.growths, 1);
    assert_int_equal(stats.hash_power, power + 1);
    assert_int_equal(stats.index_bytes, kv_table_bytes(power + 1));
    const struct kv_segments *segments = &rig.kv->segments;
    uint64_t in_service = kv_u32_load_relaxed(&segments->in_service);
    uint64_t used = kv_fixed_bytes(rig.kv) + (in_service << segments->shift);
    assert_in_range(stats.memory_limit_bytes - used, 0, 2 * kv_segments_bytes(segments));
    assert_int_equal(stats.items, count);
    expect(0, count);
}

/* Takes all overflow buckets of a table, each of which is there once, and gives them back. */
static void take_all(unsigned power)
{
    static uint32_t links[1 << 16];
    static bool taken[1 << 16];
    unsigned count = 0;
    memset(taken, 0, sizeof(taken));
    while ((links[count] = kv_overflow_take(rig.worker, power)) != 0) {
        assert_in_range(links[count], 1, U_ARRAY_LEN(taken) - 1);
        assert_false(taken[links[count]]);
        taken[links[count++]] = true;
    }
    assert_in_range(count, 1, kv_overflow_count(power));
    while (count-- > 0)
        kv_overflow_give(rig.worker, power, links[count]);
}

/* A table has its own free buckets, though the one before the last had some in the same list. */
static void test_free_buckets_of_the_next_but_one_table(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = overload();
    take_all(power);
    kv_quiesce(rig.worker);
    finish();
    assert_int_equal(kv_index_power(&rig.kv->index), power + 1);
    store(count, 2 * count);
    come_to(KV_GROW_MOVE);
    take_all(power + 2);
    finish();
    assert_int_equal(kv_index_power(&rig.kv->index), power + 2);
    expect(0, 2 * count);
}

/* What the system has refused once is not asked for again; the table works on as it is. */
static void test_refused_memory_ends_growth(void **unused)
{
    rig_close(&rig);
    rig_open(&rig, 64 * MIB, 1, true, 1); /* a small table grows into memory that is accessible */
    unsigned power = kv_index_power(&rig.kv->index);
    memory_is_refused = true;
    unsigned count = overload();
    for (unsigned i = 0; i < 1000; i++) {
        store(count, count + 10);
        count += 10;
        kv_quiesce(rig.worker);
    }
    memory_is_refused = false;
    assert_int_equal(memory_refusals, 1);
    assert_int_equal(kv_index_power(&rig.kv->index), power);
    assert_int_equal(rig_stats(rig.kv).index_bytes, kv_table_bytes(power));
    assert_false(kv_is_resizing(rig.kv));
}

static void test_empty_table_is_small(void **unused)
{
    struct kv_stats stats = rig_stats(rig.kv);
    assert_true(stats.index_bytes <= stats.memory_limit_bytes / 32);
}

/* At each step all is found, can be overwritten, deleted and added. */
static void test_every_operation_at_every_step(void **unused)
{
    unsigned count = overload();
    unsigned deleted = 0;
    char name[24];
    kv_quiesce(rig.worker);
    while (phase() != KV_GROW_NONE) {
        expect(deleted, count);
        struct kv_key key = numbered(name, deleted);
        assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
        struct kv_view view;
        assert_int_equal(kv_get(rig.worker, &key, &view), KV_MISS);
        deleted++;
        store(deleted, deleted + 3); /* overwrites */
        store(count, count + 3);
        count += 3;
        rig_check(rig.kv);
        kv_quiesce(rig.worker);
    }
    expect(deleted, count);
    assert_int_equal(rig_stats(rig.kv).items, count - deleted);
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
}

/* Hints that are older than the table that the keys are in now. */
static void test_hints_outlive_the_table(void **unused)
{
    enum { HINTS = 64 };
    static char names[HINTS][24];
    struct kv_key hinted[HINTS];
    struct kv_view view;
    unsigned count = overload();
    for (unsigned i = 0; i < HINTS; i++) {
        hinted[i] = numbered(names[i], i);
        kv_prefetch_bucket(rig.worker, &hinted[i]);
        kv_prefetch_item(rig.worker, &hinted[i]);
    }
    for (unsigned round = 0; round == 0 || phase() != KV_GROW_NONE; round++) {
        for (unsigned i = 0; i < HINTS; i++) {
            struct kv_key key = numbered(names[i], i);
            rig_set(rig.worker, &key, 8, count + round + i);
            assert_int_equal(kv_get(rig.worker, &hinted[i], &view), KV_HIT);
            assert_true(rig_is_filled(view.item, 8, count + round + i));
        }
        kv_quiesce(rig.worker);
    }
    for (unsigned i = 0; i < HINTS; i++) {
        struct kv_key key = numbered(names[i], i);
        rig_delete(rig.worker, &key);
        assert_int_equal(kv_get(rig.worker, &hinted[i], &view), KV_MISS);
    }
}

/* ---- one chain, stopped in the middle ---------------------------------------------------- */

static struct kv_bucket *head_of(const struct kv_key *key, unsigned power)
{
    return kv_table_chain(&rig.kv->index, power, key->hash >> 1);
}

/* A key whose chain is not moved yet though the movement has begun. */
static struct kv_key unmoved_key(char name[24])
{
    for (unsigned i = 0;; i++) {
        struct kv_key key = numbered(name, i);
        struct kv_bucket *head = head_of(&key, kv_index_power(&rig.kv->index));
        if ((kv_u64_load_relaxed(&head->control) & KV_CONTROL_FROZEN) == 0)
            return key;
    }
}

static void freeze_all(struct kv_bucket *head)
{
    kv_u64_fetch_or_acq_rel(&head->control, KV_CONTROL_FROZEN);
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        kv_u64_fetch_or_acq_rel(&head->slot[i], KV_WORD_FROZEN);
}

/* A worker has frozen a chain and stopped: readers read it, the next writer moves it. */
static void test_frozen_chain_is_read_and_moved_by_a_writer(void **unused)
{
    overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_MOVE);
    char name[24];
    struct kv_key key = unmoved_key(name);
    struct kv_bucket *head = head_of(&key, kv_index_power(&rig.kv->index));
    freeze_all(head);
    struct kv_view view;
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    kv_prefetch_bucket(rig.worker, &key);
    kv_prefetch_item(rig.worker, &key);
    assert_int_equal(kv_u64_load_relaxed(&head->control) & KV_CONTROL_MOVED, 0);
    rig_set(rig.worker, &key, 8, 12345);
    assert_int_not_equal(kv_u64_load_relaxed(&head->control) & KV_CONTROL_MOVED, 0);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 8, 12345));
    rig_check(rig.kv);
    /* To come late, with all that was seen before, changes nothing. */
    kv_u64_store_relaxed(&head->control, kv_u64_load_relaxed(&head->control) & ~KV_CONTROL_MOVED);
    kv_chain_move(rig.worker, head);
    assert_int_equal(kv_get(rig.worker, &key, &view), KV_HIT);
    assert_true(rig_is_filled(view.item, 8, 12345));
    finish();
}

/* Of two unfinished inserts the committed one moves, the other does not. */
static void test_unfinished_inserts_move_if_committed(void **unused)
{
    overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_MOVE);
    for (unsigned committed = 0; committed < 2; committed++) {
        char name[24];
        struct kv_key key = unmoved_key(name);
        struct kv_bucket *head = head_of(&key, kv_index_power(&rig.kv->index));
        uint64_t word;
        assert_non_null(rig_find(&rig.kv->index, &key, &word));
        unsigned number = 0;
        struct kv_bucket *bucket = head;
        while (kv_u64_load_relaxed(&bucket->slot[number % KV_BUCKET_SLOTS]) != word)
            if (++number % KV_BUCKET_SLOTS == 0)
                bucket = kv_bucket_next(&rig.kv->index, head, bucket);
        kv_u64_store_relaxed(&bucket->slot[number % KV_BUCKET_SLOTS], word | KV_WORD_PEND);
        uint64_t control = kv_u64_load_relaxed(&head->control);
        control &= ~(KV_CONTROL_PEND_MASK << KV_CONTROL_PEND_SHIFT);
        uint64_t pend = committed ? number + 1 : (number + 1) % KV_BUCKET_SLOTS + 1;
        kv_u64_store_relaxed(&head->control, control | pend << KV_CONTROL_PEND_SHIFT);
        kv_chain_move(rig.worker, head);
        struct kv_view view;
        assert_int_equal(kv_get(rig.worker, &key, &view), committed ? KV_HIT : KV_MISS);
        if (!committed) { /* was not there, as far as the index knows: put it back */
            kv_account_unlinked(rig.worker, kv_word_item(&rig.kv->index, word), KV_REMOVAL_DELETED);
            rig_set(rig.worker, &key, 8, 0);
        }
    }
    finish();
}

/* ---- long chains ------------------------------------------------------------------------- */

/* Keys that an attacker with the secret would send: all in one chain, even of larger tables. */
static void test_chain_at_its_bound_moves_whole(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    char names[KV_CHAIN_SLOTS_MAX][24];
    struct kv_key keys[KV_CHAIN_SLOTS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; count < KV_CHAIN_SLOTS_MAX; i++) {
        snprintf(names[count], 24, "collide%u", i);
        keys[count] = rig_key(rig.kv, names[count]);
        if (keys[count].hash >> (62 - power) == 0)
            count++;
    }
    for (unsigned i = 0; i < count; i++)
        rig_set(rig.worker, &keys[i], 8, i);
    overload();
    kv_quiesce(rig.worker);
    finish();
    uint64_t hits = 0;
    for (unsigned i = 0; i < count; i++) {
        struct kv_view view;
        hits += kv_get(rig.worker, &keys[i], &view) == KV_HIT;
    }
    /* What overload() has put into the chain, others of it had to go for. Nothing else is lost. */
    assert_in_range(rig_stats(rig.kv).evictions, 0, 15);
    assert_true(hits + rig_stats(rig.kv).evictions >= count);
}

/* There is no overflow bucket in the new table: what doesn't fit is evicted, and counted once. */
static void test_chain_without_room_is_cut(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    char names[20][24];
    unsigned count = 0;
    for (unsigned i = 0; count < 20; i++) {
        snprintf(names[count], 24, "collide%u", i);
        struct kv_key key = rig_key(rig.kv, names[count]);
        if (key.hash >> (62 - power) != 0)
            continue;
        rig_set(rig.worker, &key, 8, i);
        count++;
    }
    overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_FAULT_PAGES);
    uint64_t items = rig_stats(rig.kv).items;
    kv_u32_store_relaxed(&rig.kv->index.overflows[~power & 1].end, 0);
    while (phase() == KV_GROW_FAULT_PAGES) {
        kv_quiesce(rig.worker);
    }
    kv_u32_store_relaxed(&rig.kv->index.overflows[~power & 1].end, 0);
    kv_chain_move(rig.worker, kv_table_chain(&rig.kv->index, power, 0));
    struct kv_stats stats = rig_stats(rig.kv);
    assert_in_range(stats.evictions, 13, 30);
    assert_int_equal(stats.items, items - stats.evictions);
    kv_u32_store_relaxed(&rig.kv->index.overflows[~power & 1].end, kv_overflow_count(power + 1));
    finish();
}

/* ---- walks ------------------------------------------------------------------------------- */

static void note(void *ctx, const struct kv_view *view)
{
    unsigned number = 0;
    for (uint32_t i = 3; i < view->key_len; i++)
        number = number * 10 + (unsigned)(view->key[i] - '0');
    ((uint8_t *)ctx)[number]++;
}

/* Each item is visited exactly once, whatever the table does between two parts of the scan. */
static void test_scan_during_growth(void **unused)
{
    static uint8_t seen[100000];
    memset(seen, 0, sizeof(seen));
    unsigned count = overload();
    const struct kv_quantum part = {.chains = 3, .items = 1000};
    struct kv_cursor cursor = {0};
    while (kv_scan(rig.worker, &cursor, &part, note, seen))
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).growths, 1);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
}

static void test_flush_during_growth(void **unused)
{
    unsigned count = overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_MOVE);
    kv_flush(rig.worker);
    char name[24];
    for (unsigned i = 0; i < count; i++) {
        struct kv_key key = numbered(name, i);
        struct kv_view view;
        assert_int_not_equal(kv_peek(rig.worker, &key, &view), KV_HIT);
    }
    finish();
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).items, 0);
}

/* ---- memory ------------------------------------------------------------------------------ */

static void test_grows_again_and_again_within_the_limit(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    for (unsigned i = 0; i < 60000; i++) {
        store(i, i + 1);
        if (i % 16 == 0) {
            kv_quiesce(rig.worker);
            struct kv_stats stats = rig_stats(rig.kv);
            assert_true(stats.memory_used_bytes <= stats.memory_limit_bytes);
        }
    }
    struct kv_stats stats = rig_stats(rig.kv);
    assert_true(stats.hash_power >= power + 3);
    assert_int_equal(stats.growths, stats.hash_power - power);
    assert_int_equal(stats.evictions, 0);
    expect(0, 60000);
}

/* A full cache of larger items keeps them rather than a shorter chain. */
static void test_full_memory_does_not_make_room_for_the_index(void **unused)
{
    char name[24];
    for (unsigned i = 0; i < 60000; i++) {
        struct kv_key key = numbered(name, i);
        rig_set(rig.worker, &key, 400, i);
        kv_quiesce(rig.worker);
    }
    struct kv_stats stats = rig_stats(rig.kv);
    assert_true(stats.evictions > 0);
    assert_true(stats.items < 10 * (UINT64_C(1) << stats.hash_power));
    assert_true(stats.index_bytes < stats.memory_limit_bytes / 8);
    assert_true(stats.memory_used_bytes <= stats.memory_limit_bytes);
}

/* Stores new keys, as often as eviction needs to have no item of another length. */
static struct kv_stats fill_with(const char *kind, uint32_t value_len)
{
    char name[24];
    for (unsigned i = 0; i < 60000; i++) {
        snprintf(name, sizeof(name), "%s%u", kind, i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, value_len, i);
        kv_quiesce(rig.worker);
    }
    return rig_stats(rig.kv);
}

/* Longer chains cost a full cache less than the items that a larger table would take the place of,
 * until they are much too long. */
static void test_full_memory_makes_room_for_crowded_chains(void **unused)
{
    rig_close(&rig);
    rig.kv = rig_create_policy(8 * MIB, 1, true, KV_POLICY_CLOCK); /* the oldest items go first */
    rig.worker = kv_join(rig.kv);
    unsigned power = kv_index_power(&rig.kv->index);
    struct kv_stats stats = fill_with("large", 800);
    assert_int_equal(stats.hash_power, power);
    stats = fill_with("small", 424);
    assert_int_equal(stats.hash_power, power);
    assert_in_range(stats.items, UINT64_C(8) << power, UINT64_C(10) << power);
    stats = fill_with("tiny", 200);
    assert_int_equal(stats.hash_power, power + 1);
}

/* Of the present limit, however short items are, though the limit may rise. */
static void test_heads_take_at_most_a_quarter(void **unused)
{
    struct kv_config config = {.memory_bytes = 8 * MIB - 100000,
                               .memory_bytes_max = 64 * MIB,
                               .value_bytes_max = 1000,
                               .worker_max = 1,
                               .evict = true};
    const char *error;
    rig_close(&rig);
    rig.kv = kv_create(&config, &error);
    assert_non_null(rig.kv);
    rig.worker = kv_join(rig.kv);
    struct kv_stats stats = {0};
    for (unsigned count = 0; stats.evictions == 0; count += 100) {
        store(count, count + 100);
        kv_quiesce(rig.worker);
        stats = rig_stats(rig.kv);
        assert_true(sizeof(struct kv_bucket) << stats.hash_power <= config.memory_bytes / 4);
    }
    assert_true(stats.items > UINT64_C(5) << stats.hash_power);
}

/* Items take the memory that the larger table would have had: it comes when some of it is free. */
static void test_growth_gives_up_the_memory_that_items_take(void **unused)
{
    rig_close(&rig);
    rig_open(&rig, 8 * MIB, 1, false, 1);
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = overload();
    unsigned large = 0;
    enum kv_error error = KV_OK;
    char name[24];
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_WAIT_MEMORY);
    while (error == KV_OK) {
        struct kv_key key = numbered(name, count + large++);
        rig_store(rig.worker, &key, 10000, 0, 0, 0, &error);
    }
    assert_int_equal(error, KV_NO_MEMORY);
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_NONE);
    assert_false(kv_segments_differ(&rig.kv->segments));
    assert_int_equal(rig_stats(rig.kv).hash_power, power);
    for (unsigned i = 0; i < large - 1; i++) {
        struct kv_key key = numbered(name, count + i);
        assert_int_equal(rig_delete(rig.worker, &key), KV_DELETE);
    }
    for (unsigned i = 0; i < 1000; i++)
        kv_quiesce(rig.worker);
    store(count, count + 1000);
    for (unsigned i = 0; i < 5000; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(rig_stats(rig.kv).hash_power, power + 1);
    expect(0, count + 1000);
}

/* Another worker is not quiescent: the old table stays, everything else continues. */
static void test_old_table_waits_for_its_readers(void **unused)
{
    struct kv_worker *reader = kv_join(rig.kv);
    unsigned power = kv_index_power(&rig.kv->index);
    overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_WAIT_READERS);
    for (unsigned i = 0; i < 100; i++)
        kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_WAIT_READERS);
    assert_true(rig_stats(rig.kv).index_bytes > kv_table_bytes(power + 1));
    kv_quiesce(reader);
    finish();
    assert_int_equal(rig_stats(rig.kv).index_bytes, kv_table_bytes(power + 1));
    kv_leave(reader);
}

/* Without eviction a store needs a bucket in each table that its key may get into. */
static void test_bucket_is_reserved_in_both_tables(void **unused)
{
    static uint32_t links[1 << 14];
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = 0;
    overload();
    kv_quiesce(rig.worker);
    come_to(KV_GROW_MOVE);
    assert_true(kv_index_reserve_bucket(rig.worker));
    while ((links[count] = kv_overflow_take(rig.worker, power + 1)) != 0)
        assert_true(++count < U_ARRAY_LEN(links));
    assert_false(kv_index_reserve_bucket(rig.worker));
    while (count > 0)
        kv_overflow_give(rig.worker, power + 1, links[--count]);
    assert_true(kv_index_reserve_bucket(rig.worker));
    finish();
}

static bool is_resident(const void *at)
{
    unsigned char there = 0;
    uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
    return mincore((void *)page, 1, &there) == 0 && (there & 1);
}

/* Its pages go back to the system. */
static void test_old_table_leaves_no_pages(void **unused)
{
    rig_close(&rig);
    rig_open(&rig, 64 * MIB, 1, true, 1);
    const struct kv_index *index = &rig.kv->index;
    unsigned power = kv_index_power(index);
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* it would bring pages back */
    const uint8_t *heads = (const uint8_t *)kv_table_chain(index, power, 0);
    const uint8_t *overflow = (const uint8_t *)kv_overflow_at(index, power, 1);
    uint64_t bytes = sizeof(struct kv_bucket) << power;
    overload();
    kv_quiesce(rig.worker);
    finish();
    assert_int_equal(kv_index_power(index), power + 1);
    for (uint64_t at = 0; at < bytes; at += 4096)
        assert_false(is_resident(heads + at));
    assert_false(is_resident(overflow));
}

/* Another worker is at a step: what this one has inserted is not forgotten. */
static void test_step_is_made_up_for(void **unused)
{
    overload();
    assert_true(kv_lock_try(&rig.kv->index.grow_lock));
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_NONE);
    kv_lock_drop(&rig.kv->index.grow_lock);
    kv_quiesce(rig.worker);
    assert_int_not_equal(phase(), KV_GROW_NONE);
    finish();
}

/* Buckets that chains have given back come first. */
static void test_free_buckets_need_no_extension(void **unused)
{
    static uint32_t links[1 << 14];
    rig_close(&rig);
    rig_open(&rig, 64 * MIB, 1, true, 1);
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = 0;
    while ((links[count] = kv_overflow_take(rig.worker, power)) != 0)
        assert_true(++count < U_ARRAY_LEN(links));
    while (count > 0)
        kv_overflow_give(rig.worker, power, links[--count]);
    store(0, 1000);
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_NONE);
}

/* Overflow buckets run out before the table is full: keys that collide more than they should. */
static void test_overflow_is_extended(void **unused)
{
    rig_close(&rig);
    rig_open(&rig, 64 * MIB, 1, true, 1); /* a small table has as many as it can have */
    unsigned power = kv_index_power(&rig.kv->index);
    uint32_t before = kv_overflow_count(power);
    for (uint32_t i = 1; i < before; i++)
        assert_int_not_equal(kv_overflow_take(rig.worker, power), 0);
    assert_false(kv_index_reserve_bucket(rig.worker));
    store(0, 1000);
    kv_quiesce(rig.worker);
    finish();
    assert_true(kv_index_reserve_bucket(rig.worker));
    assert_int_equal(kv_index_power(&rig.kv->index), power);
    assert_true(rig_stats(rig.kv).index_bytes > kv_table_bytes(power));
    assert_true(rig_stats(rig.kv).memory_used_bytes <= 64 * MIB);
}

/* A loop of a worker may store thousands of items; growth is not left behind by that. */
static void test_nothing_is_lost_however_many_a_loop_stores(void **unused)
{
    static const unsigned loops[] = {500, 4000};
    const unsigned count = 200000;
    for (unsigned i = 0; i < U_ARRAY_LEN(loops); i++) {
        rig_close(&rig);
        rig_open(&rig, 64 * MIB, 1, true, 1);
        for (unsigned stored = 0; stored < count; stored += loops[i]) {
            store(stored, stored + loops[i]);
            kv_quiesce(rig.worker);
        }
        struct kv_stats stats = rig_stats(rig.kv);
        assert_int_equal(stats.evictions, 0);
        assert_int_equal(stats.items, count);
        assert_true(stats.growths + stats.growing >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grows_by_housekeeping_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_grows_again_by_housekeeping_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_free_buckets_of_the_next_but_one_table, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_refused_memory_ends_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_table_is_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_operation_at_every_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hints_outlive_the_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frozen_chain_is_read_and_moved_by_a_writer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_unfinished_inserts_move_if_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chain_at_its_bound_moves_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chain_without_room_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scan_during_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flush_during_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_grows_again_and_again_within_the_limit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_full_memory_does_not_make_room_for_the_index, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_full_memory_makes_room_for_crowded_chains, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_heads_take_at_most_a_quarter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growth_gives_up_the_memory_that_items_take, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_old_table_waits_for_its_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bucket_is_reserved_in_both_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_table_leaves_no_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_step_is_made_up_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_free_buckets_need_no_extension, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overflow_is_extended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_lost_however_many_a_loop_stores, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
