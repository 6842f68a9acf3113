/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The prefault thread, step by step. prefault.c is compiled here with a system that starts no
 * thread: the test calls what the thread would, and acts as a worker at the moment that it chooses.
 */
#define _GNU_SOURCE /* as prefault.c */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

#include "kv/engine.h"
#include "kv_rig.h"

static int planted_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *ctx);
static int planted_join(pthread_t thread, void **result);
static int planted_schedule(pthread_t thread, int policy, const struct sched_param *param);
static int planted_affinity(pid_t pid, size_t bytes, cpu_set_t *cores);
static int planted_wait(sem_t *due);
static int planted_post(sem_t *due);
static long planted_syscall(long number, int mode, const uint64_t *nodes, unsigned long bits);
static bool planted_open(const struct kv_memory *memory, uint8_t *from, uint64_t bytes);
static bool planted_populate(uint8_t *from, uint64_t bytes);
bool kv_prefault_cancel_now(struct kv_prefault *prefault);

#define pthread_create planted_create
#define pthread_join planted_join
#define pthread_setschedparam planted_schedule
#define sched_getaffinity planted_affinity
#define sem_wait planted_wait
#define sem_post planted_post
#define syscall planted_syscall
#define kv_prefault_cancel kv_prefault_cancel_now
#define kv_memory_open planted_open
#define kv_memory_populate planted_populate
#include "../../../src/kv/prefault.c"
#undef kv_prefault_cancel
#undef syscall

#define NOTES_MAX 16
#define MEMORY_BYTES (64 * MIB)

static struct {
    int create_errno;
    bool open_fails;
    void (*meanwhile)(void);     /* called once in the next populate */
    void (*before_cancel)(void); /* called in each */
    sigset_t mask;               /* of the new thread */
    unsigned waits;
    unsigned posts;
    int policy;
    unsigned mempolicies;
    uint64_t nodes;
    unsigned opens;
    unsigned populates;
    struct kv_prefault_range at[NOTES_MAX]; /* of the populates */
} scene;

static int planted_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *ctx)
{
    (void)attr;
    (void)start;
    (void)ctx;
    *thread = pthread_self();
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &scene.mask), 0);
    return scene.create_errno;
}

static int planted_join(pthread_t thread, void **result)
{
    (void)thread;
    (void)result;
    return 0;
}

static int planted_schedule(pthread_t thread, int policy, const struct sched_param *param)
{
    (void)thread;
    (void)param;
    scene.policy = policy;
    return 0;
}

static int planted_affinity(pid_t pid, size_t bytes, cpu_set_t *cores)
{
    (void)pid;
    (void)bytes;
    CPU_ZERO(cores);
    CPU_SET(0, cores);
    CPU_SET(1, cores);
    return 0;
}

static int planted_wait(sem_t *due)
{
    (void)due;
    scene.waits++;
    return 0;
}

static int planted_post(sem_t *due)
{
    (void)due;
    scene.posts++;
    return 0;
}

static long planted_syscall(long number, int mode, const uint64_t *nodes, unsigned long bits)
{
    assert_int_equal(number, SYS_set_mempolicy);
    assert_int_equal(mode, MPOL_PREFERRED);
    assert_int_equal(bits, 65);
    scene.mempolicies++;
    scene.nodes = *nodes;
    return 0;
}

static bool planted_open(const struct kv_memory *memory, uint8_t *from, uint64_t bytes)
{
    (void)memory;
    (void)from;
    scene.opens += bytes > 0;
    return !scene.open_fails;
}

static bool planted_populate(uint8_t *from, uint64_t bytes)
{
    void (*meanwhile)(void) = scene.meanwhile;
    if (scene.populates < NOTES_MAX)
        scene.at[scene.populates++] = (struct kv_prefault_range){from, bytes};
    scene.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    return true;
}

bool kv_prefault_cancel(struct kv_prefault *prefault)
{
    if (scene.before_cancel)
        scene.before_cancel();
    return kv_prefault_cancel_now(prefault);
}

/* ---- the table ------------------------------------------------------------------------------ */

static struct kv_rig rig;
static struct kv_prefault *prefault;
static struct work work;
static uint8_t range[3 * PIECE_BYTES]; /* addresses that are not used */

static void open_table(void)
{
    rig.kv = rig_create_in(NULL, MEMORY_BYTES, 1, true, KV_POLICY_S3FIFO, 16 * MIB);
    rig.worker = kv_join(rig.kv);
    prefault = &rig.kv->prefault;
    work = (struct work){.is_open = false};
    scene.populates = 0;
}

static int set_up(void **unused)
{
    memset(&scene, 0, sizeof(scene));
    open_table();
    assert_true(prefault->runs);
    return 0;
}

static int tear_down(void **unused)
{
    return rig_close(&rig);
}

static void store_values(unsigned first, unsigned count, uint32_t value_len)
{
    char name[24];
    for (unsigned i = first; i < first + count; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        struct kv_key key = rig_key(rig.kv, name);
        rig_set(rig.worker, &key, value_len, i);
    }
}

static void store(unsigned first, unsigned count)
{
    store_values(first, count, 1000);
}

static bool request(unsigned count)
{
    struct kv_prefault_range parts[] = {{range, 2 * PIECE_BYTES + 100}, {range + 7, PIECE_BYTES}};
    return kv_prefault_request(prefault, parts, count);
}

static void expect_populated(unsigned number, const uint8_t *from, uint64_t bytes)
{
    assert_true(number < scene.populates);
    assert_ptr_equal(scene.at[number].from, from);
    assert_int_equal(scene.at[number].bytes, bytes);
}

static void cancel(void)
{
    assert_true(kv_prefault_cancel(prefault));
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* No signal of the process is for it, but for one that only it can cause. */
static void test_signals(void **unused)
{
    sigset_t now;
    assert_int_equal(sigismember(&scene.mask, SIGTERM), 1);
    assert_int_equal(sigismember(&scene.mask, SIGHUP), 1);
    assert_int_equal(sigismember(&scene.mask, SIGSYS), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    assert_int_equal(sigismember(&now, SIGTERM), 0);
}

/* Without it nothing is touched ahead, and nothing late. */
static void test_thread_that_is_refused(void **unused)
{
    tear_down(NULL);
    scene.create_errno = EAGAIN;
    open_table();
    assert_false(rig_stats(rig.kv).touch_thread);
    store(0, 20000);
    assert_int_equal(rig_stats(rig.kv).touched_late, 0);
    assert_int_equal(scene.posts, 0);
    assert_false(request(1));
}

/* Workers on its core come first, and memory of their only node. */
static void test_place(void **unused)
{
    kv_u32_store_relaxed(&prefault->stop, 1);
    for (uint64_t nodes = 0; nodes <= 8; nodes++) {
        bool is_one = nodes != 0 && (nodes & (nodes - 1)) == 0;
        scene.mempolicies = 0;
        scene.policy = -1;
        prefault->nodes = nodes;
        assert_null(run(prefault));
        assert_int_equal(scene.policy, SCHED_BATCH);
        assert_int_equal(scene.mempolicies, is_one);
        if (is_one)
            assert_int_equal(scene.nodes, nodes);
    }
}

/* ---- sleep and wake-ups ---------------------------------------------------------------------- */

static void expect_awake(void)
{
    unsigned waits = scene.waits;
    sleep_until_due(prefault);
    assert_int_equal(scene.waits, waits);
    assert_int_equal(kv_u32_load_relaxed(&prefault->asleep), 0);
}

/* The thread does not wait if work arrives between its last check and the wait. */
static void test_work_before_it_sleeps(void **unused)
{
    sleep_until_due(prefault);
    assert_int_equal(scene.waits, 1);
    assert_int_equal(kv_u32_load_relaxed(&prefault->asleep), 1);
    kv_u32_store_relaxed(&prefault->asleep, 0);

    assert_true(request(2));
    expect_awake();
    cancel();
    kv_u32_store_relaxed(&prefault->stop, 1);
    expect_awake();
    kv_u32_store_relaxed(&prefault->stop, 0);
    for (unsigned i = 0; !kv_segments_prefault_lags(&rig.kv->segments); i++)
        store(i, 1);
    expect_awake();
    assert_int_equal(scene.posts, 0);
}

static void fall_asleep(void)
{
    scene.posts = 0;
    kv_u32_store_relaxed(&prefault->asleep, 1);
}

/* Each bringer of work wakes it, once. */
static void test_wake_ups(void **unused)
{
    fall_asleep();
    assert_true(request(2));
    assert_int_equal(scene.posts, 1);
    kv_prefault_wake(prefault);
    assert_int_equal(scene.posts, 1);
    cancel();

    fall_asleep();
    for (unsigned i = 0; !kv_segments_prefault_lags(&rig.kv->segments); i++)
        store(i, 1);
    assert_int_equal(scene.posts, 1);

    fall_asleep();
    kv_prefault_stop(prefault);
    assert_int_equal(scene.posts, 1);
    assert_null(rig.kv->segments.prefault);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Ranges are opened first, all of them, and then populated in pieces. */
static void test_job_in_pieces(void **unused)
{
    assert_true(request(2));
    for (unsigned piece = 0; piece < 4; piece++) {
        assert_int_equal(kv_prefault_poll(prefault), KV_PREFAULT_PENDING);
        assert_true(job_step(prefault, &work));
        assert_int_equal(scene.opens, 2);
    }
    assert_false(job_step(prefault, &work));
    assert_int_equal(scene.populates, 4);
    expect_populated(0, range, PIECE_BYTES);
    expect_populated(1, range + PIECE_BYTES, PIECE_BYTES);
    expect_populated(2, range + 2 * PIECE_BYTES, 100);
    expect_populated(3, range + 7, PIECE_BYTES);
    assert_false(request(1));
    assert_false(kv_prefault_cancel(prefault));
    assert_int_equal(kv_prefault_poll(prefault), KV_PREFAULT_DONE);

    assert_true(request(1));
    for (unsigned step = 0; kv_prefault_poll(prefault) == KV_PREFAULT_PENDING; step++) {
        assert_true(step < 4);
        assert_true(job_step(prefault, &work));
    }
    assert_int_equal(scene.populates, 4 + 3);
    expect_populated(4, range, PIECE_BYTES);
}

/* The next job is possible as soon as the thread knows. */
static void test_job_cancelled_at_each_step(void **unused)
{
    for (unsigned steps = 0; steps < 4; steps++) {
        assert_true(request(2));
        for (unsigned i = 0; i < steps; i++)
            assert_true(job_step(prefault, &work));
        cancel();
        assert_int_equal(request(2), steps == 0); /* it has not begun */
        if (steps == 0)
            cancel();
        assert_false(job_step(prefault, &work));
    }
    assert_true(request(2));
    for (unsigned i = 0; i < 3; i++)
        assert_true(job_step(prefault, &work));
    scene.meanwhile = cancel; /* during the last piece */
    assert_true(job_step(prefault, &work));
    assert_int_equal(kv_prefault_poll(prefault), KV_PREFAULT_PENDING);
    assert_true(request(2));
    cancel();
}

static void test_job_refused(void **unused)
{
    scene.open_fails = true;
    assert_true(request(2));
    assert_true(job_step(prefault, &work));
    assert_int_equal(scene.populates, 0);
    assert_int_equal(kv_prefault_poll(prefault), KV_PREFAULT_REFUSED);
    assert_int_equal(kv_prefault_poll(prefault), KV_PREFAULT_PENDING);
    scene.open_fails = false;
    assert_true(request(2));
    assert_true(job_step(prefault, &work));
    assert_int_equal(scene.populates, 1);
    cancel();
    assert_false(job_step(prefault, &work));
}

/* ---- the index ------------------------------------------------------------------------------- */

static enum kv_grow_phase phase(void)
{
    return (enum kv_grow_phase)kv_u32_load_relaxed(&rig.kv->index.phase);
}

/* Stores until a larger table is requested; returns how many keys. */
static unsigned request_table(void)
{
    unsigned count = 0;
    while (phase() != KV_GROW_PREFAULT) {
        assert_true(count < 200000);
        store_values(count++, 1, 8);
        kv_quiesce(rig.worker);
    }
    return count;
}

static void finish_job(void)
{
    while (job_step(prefault, &work))
        continue;
}

static void test_larger_table_is_refused(void **unused)
{
    unsigned power = kv_index_power(&rig.kv->index);
    unsigned count = request_table();
    scene.open_fails = true;
    finish_job();
    store_values(count, 1, 8);
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_NONE);
    assert_int_equal(rig_stats(rig.kv).index_bytes, kv_table_bytes(power));
    store_values(count, 5000, 8);
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_NONE);
}

/* It gets the table just before a worker, at its limit of inserts, cancels the job. */
static void test_larger_table_at_the_last_moment(void **unused)
{
    unsigned count = request_table();
    scene.before_cancel = finish_job;
    assert_true(job_step(prefault, &work));
    store_values(count, 1u << kv_index_power(&rig.kv->index), 8);
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_PREFAULT);
    assert_false(job_step(prefault, &work));
    kv_quiesce(rig.worker);
    assert_int_equal(phase(), KV_GROW_MOVE);
}

/* ---- segments -------------------------------------------------------------------------------- */

static uint32_t taken;

static void take_touched(void)
{
    do
        taken = kv_segment_take(&rig.kv->segments, 0);
    while (kv_segment_base(&rig.kv->segments, taken) != scene.at[0].from);
}

/* A worker may take the segment that is being populated: it is not free any more. */
static void test_segment_taken_meanwhile(void **unused)
{
    struct kv_segments *segments = &rig.kv->segments;
    uint32_t late = rig_stats(rig.kv).touched_late;
    store(0, 5000);
    assert_true(kv_segments_prefault_lags(segments));
    uint32_t before = rig_stats(rig.kv).touched_ahead;
    scene.populates = 0;
    scene.meanwhile = take_touched;
    assert_true(touch_segment(prefault));
    assert_int_equal(rig_stats(rig.kv).touched_ahead, before);
    assert_true(rig_stats(rig.kv).touched_late > late);
    assert_int_equal(segments->touching, KV_SEGMENT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_signals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_thread_that_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_work_before_it_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wake_ups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_job_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_job_cancelled_at_each_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_job_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_larger_table_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_larger_table_at_the_last_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_segment_taken_meanwhile, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
