/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prefaulting: which memory, how much, and operation without the thread. The tests wait for the
 * thread, which runs asynchronously.
 */
#define _GNU_SOURCE /* sched_setaffinity(), mincore() */
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kv/engine.h"
#include "kv_rig.h"

#define WAIT_MS 60000
#define VALUE_BYTES 1000

static struct kv_rig rig;
static const char *without; /* why there is no thread here; null: there is one */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        for (unsigned ms_ = 0; !(condition); ms_++) {                                              \
            assert_true(ms_ < WAIT_MS);                                                            \
            nap();                                                                                 \
        }                                                                                          \
    } while (0)

static void open_with(uint64_t memory_bytes, uint64_t memory_bytes_max, uint64_t ahead_bytes)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .memory_bytes_max = memory_bytes_max,
                               .value_bytes_max = 1 << 20,
                               .worker_max = 2,
                               .evict = true,
                               .policy = KV_POLICY_S3FIFO,
                               .touch_ahead_bytes = ahead_bytes};
    const char *error = "not set";
    rig.kv = kv_create(&config, &error);
    assert_non_null(rig.kv);
    rig.worker = kv_join(rig.kv);
}

/* With a thread, or the test is skipped. */
static void open_ahead(uint64_t memory_bytes, uint64_t ahead_bytes)
{
    if (without) {
        print_message("no thread here: %s\n", without);
        skip();
    }
    open_with(memory_bytes, 0, ahead_bytes);
    assert_true(rig_stats(rig.kv).touch_thread);
}

static void close_all(void)
{
    kv_prefault_stop(&rig.kv->prefault);
    rig_close(&rig);
}

static void store(unsigned from, unsigned to)
{
    char name[24];
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, VALUE_BYTES, i);
        kv_quiesce(rig.worker);
    }
}

static bool is_resident(const void *at)
{
    unsigned char there = 0;
    uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
    return mincore((void *)page, 1, &there) == 0 && (there & 1);
}

static bool is_quiet(void)
{
    return kv_u32_load_seq_cst(&rig.kv->prefault.asleep) == 1;
}

static uint64_t segments_bytes(uint32_t count)
{
    return (uint64_t)count << rig.kv->segments.shift;
}

/* ---- items ------------------------------------------------------------------------------- */

static void test_little_is_touched_of_an_empty_table(void **unused)
{
    open_ahead(256 * MIB, 16 * MIB);
    const struct kv_segments *segments = &rig.kv->segments;
    WAIT_UNTIL(is_quiet());
    assert_int_equal(rig_stats(rig.kv).touched_bytes, 4 * MIB);
    assert_true(is_resident(kv_segment_base(segments, 0)));
    assert_true(is_resident(segments->base + 4 * MIB - 1));
    assert_false(is_resident(segments->base + 8 * MIB));
    assert_int_equal(rig_stats(rig.kv).memory_used_bytes - rig_stats(rig.kv).index_bytes,
                     rig.kv->ghosts_bytes +
                         kv_segments_count(segments) * sizeof(struct kv_segment));
    close_all();
}

/* Never more than is in use, nor than was said. */
static void test_more_is_touched_as_memory_is_used(void **unused)
{
    open_ahead(128 * MIB, 8 * MIB);
    for (unsigned i = 0; i < 60; i++) {
        store(i * 1000, (i + 1) * 1000);
        WAIT_UNTIL(is_quiet());
        struct kv_stats stats = rig_stats(rig.kv);
        assert_in_range(stats.touched_bytes, 2 * MIB, 8 * MIB);
        uint64_t used = stats.memory_used_bytes;
        assert_true(stats.touched_bytes <= (used > 4 * MIB ? used : 4 * MIB));
    }
    struct kv_stats stats = rig_stats(rig.kv);
    assert_true(segments_bytes(stats.touched_ahead + stats.touched_late) >= 60 * MIB);
    assert_true(segments_bytes(stats.touched_late) < 30 * MIB); /* the thread was not idle */
    close_all();
}

/* Once all memory was used there is nothing left to do. */
static void test_sleeps_when_all_is_touched(void **unused)
{
    open_ahead(16 * MIB, 16 * MIB);
    store(0, 40000);
    struct kv_stats stats = rig_stats(rig.kv);
    assert_true(stats.evictions > 0);
    WAIT_UNTIL(is_quiet());
    assert_false(kv_segments_prefault_lags(&rig.kv->segments));
    uint32_t ahead = rig_stats(rig.kv).touched_ahead;
    store(40000, 60000);
    assert_true(is_quiet());
    assert_int_equal(rig_stats(rig.kv).touched_ahead, ahead);
    close_all();
}

/* Segments withdrawn by a lower limit are not touched when they are admitted again. */
static void test_limit_falls_and_rises(void **unused)
{
    open_ahead(64 * MIB, 16 * MIB);
    store(0, 55000);
    assert_true(kv_memory_limit_set(rig.worker, 16 * MIB));
    for (unsigned i = 0; i < 5000 && kv_is_resizing(rig.kv); i++)
        kv_quiesce(rig.worker);
    assert_false(kv_is_resizing(rig.kv));
    WAIT_UNTIL(is_quiet());
    uint32_t before = rig_stats(rig.kv).touched_ahead + rig_stats(rig.kv).touched_late;
    assert_true(kv_memory_limit_set(rig.worker, 64 * MIB));
    for (unsigned i = 0; i < 5000 && kv_is_resizing(rig.kv); i++)
        kv_quiesce(rig.worker);
    store(60000, 100000);
    WAIT_UNTIL(is_quiet());
    uint32_t after = rig_stats(rig.kv).touched_ahead + rig_stats(rig.kv).touched_late;
    assert_true(segments_bytes(after - before) >= 30 * MIB);
    assert_true(rig_stats(rig.kv).memory_used_bytes <= 64 * MIB);
    close_all();
}

/* After the end of the thread workers neither wake it nor count segments as touched late. */
static void test_works_on_when_the_thread_has_ended(void **unused)
{
    open_ahead(64 * MIB, 16 * MIB);
    store(0, 1000);
    kv_prefault_stop(&rig.kv->prefault);
    assert_false(rig_stats(rig.kv).touch_thread);
    uint32_t late = rig_stats(rig.kv).touched_late;
    store(1000, 40000);
    assert_int_equal(rig_stats(rig.kv).touched_late, late);
    close_all();
}

/* ---- the index --------------------------------------------------------------------------- */

static void test_larger_tables(void **unused)
{
    open_ahead(64 * MIB, 8 * MIB);
    const struct kv_index *index = &rig.kv->index;
    unsigned power = kv_index_power(index);
    char name[24];
    bool has_opened = false;
    for (unsigned i = 0; i < 300000; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, 8, i);
        kv_quiesce(rig.worker);
        if (kv_u32_load_relaxed(&index->phase) != KV_GROW_PREFAULT)
            continue;
        has_opened = true;
        for (unsigned ms = 0; kv_u32_load_relaxed(&index->phase) == KV_GROW_PREFAULT; ms++) {
            assert_true(ms < WAIT_MS);
            nap();
            kv_quiesce(rig.worker);
        }
        assert_int_not_equal(kv_u32_load_relaxed(&index->phase), KV_GROW_FAULT_PAGES);
    }
    assert_true(has_opened);
    assert_true(kv_index_power(index) > power);
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    close_all();
}

/* If the thread has no time the worker opens the table itself. */
static void test_larger_tables_without_the_thread(void **unused)
{
    open_ahead(64 * MIB, 8 * MIB);
    unsigned power = kv_index_power(&rig.kv->index);
    WAIT_UNTIL(is_quiet());
    kv_u32_store_relaxed(&rig.kv->prefault.asleep, 0); /* so it keeps sleeping: no worker posts */
    char name[24];
    for (unsigned i = 0; i < 300000; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, 8, i);
        kv_quiesce(rig.worker);
    }
    assert_true(kv_index_power(&rig.kv->index) > power);
    assert_int_equal(rig_stats(rig.kv).evictions, 0);
    kv_u32_store_relaxed(&rig.kv->prefault.asleep, 1);
    close_all();
}

/* ---- jobs -------------------------------------------------------------------------------- */

#define JOB_BYTES (2 * MIB)

static uint8_t *addresses(void)
{
    void *at = mmap(NULL, JOB_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static enum kv_prefault_result answer(void)
{
    enum kv_prefault_result touched;
    WAIT_UNTIL((touched = kv_prefault_poll(&rig.kv->prefault)) != KV_PREFAULT_PENDING);
    return touched;
}

static void test_job(void **unused)
{
    open_ahead(16 * MIB, 16 * MIB);
    struct kv_prefault *touch = &rig.kv->prefault;
    uint8_t *at = addresses();
    struct kv_prefault_range parts[] = {{at, JOB_BYTES / 2}, {at + JOB_BYTES / 2, 5000}};
    assert_true(kv_prefault_request(touch, parts, 2));
    assert_false(kv_prefault_request(touch, parts, 2));
    assert_int_equal(answer(), KV_PREFAULT_DONE);
    assert_true(is_resident(at) && is_resident(at + JOB_BYTES / 2 - 1));
    assert_true(is_resident(at + JOB_BYTES / 2 + 4999));
    assert_false(is_resident(at + JOB_BYTES - 1));
    at[0] = 1;
    at[JOB_BYTES / 2 + 4999] = 1;
    assert_true(kv_prefault_request(touch, parts, 1));
    assert_int_equal(answer(), KV_PREFAULT_DONE);
    assert_int_equal(at[0], 1);
    munmap(at, JOB_BYTES);
    assert_true(kv_prefault_request(touch, parts, 2));
    assert_int_equal(answer(), KV_PREFAULT_REFUSED);
    close_all();
}

/* At any moment: before the thread has come to it, while it is at it, when it is done. */
static void test_job_cancelled(void **unused)
{
    open_ahead(16 * MIB, 16 * MIB);
    struct kv_prefault *touch = &rig.kv->prefault;
    for (unsigned i = 0; i < 300; i++) {
        uint8_t *at = addresses();
        struct kv_prefault_range part = {at, JOB_BYTES};
        WAIT_UNTIL(kv_prefault_request(touch, &part, 1)); /* the last one has been left */
        for (volatile unsigned spin = 0; spin < i * 100; spin++)
            continue;
        if (!kv_prefault_cancel(touch))
            assert_int_equal(answer(), KV_PREFAULT_DONE);
        WAIT_UNTIL(is_quiet());
        munmap(at, JOB_BYTES);
    }
    close_all();
}

/* ---- no thread --------------------------------------------------------------------------- */

static void test_not_asked_for(void **unused)
{
    open_with(64 * MIB, 0, 0);
    assert_false(rig_stats(rig.kv).touch_thread);
    assert_false(kv_prefault_request(&rig.kv->prefault, &(struct kv_prefault_range){NULL, 0}, 1));
    store(0, 20000);
    assert_int_equal(rig_stats(rig.kv).touched_ahead, 0);
    assert_int_equal(rig_stats(rig.kv).touched_late, 0);
    close_all();
}

static void test_one_core(void **unused)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    open_with(64 * MIB, 0, 16 * MIB);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_false(rig_stats(rig.kv).touch_thread);
    store(0, 20000);
    close_all();
}

/* ------------------------------------------------------------------------------------------ */

static void look_at_the_system(void)
{
    cpu_set_t cores;
    uint8_t *at = addresses();
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) == 1)
        without = "one core";
    assert_true(kv_memory_open(&(struct kv_memory){0}, at, JOB_BYTES));
    if (!kv_memory_populate(at, 1))
        without = "this kernel has no MADV_POPULATE_WRITE";
    munmap(at, JOB_BYTES);
}

int main(void)
{
    look_at_the_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_is_touched_of_an_empty_table),
        cmocka_unit_test(test_more_is_touched_as_memory_is_used),
        cmocka_unit_test(test_sleeps_when_all_is_touched),
        cmocka_unit_test(test_limit_falls_and_rises),
        cmocka_unit_test(test_works_on_when_the_thread_has_ended),
        cmocka_unit_test(test_larger_tables),
        cmocka_unit_test(test_larger_tables_without_the_thread),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_job_cancelled),
        cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_one_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
