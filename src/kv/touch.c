/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that touches memory ahead of the workers; touch.h says what for and how. */
#define _GNU_SOURCE /* MADV_POPULATE_WRITE, SCHED_BATCH, CPU_COUNT, pthread_setname_np() */
#include "kv/touch.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "kv/memory.h"
#include "kv/segment.h"

#define AHEAD_BYTES_MIN (UINT64_C(4) << 20) /* that are touched however little is in use */
#define AHEAD_SHARE 8                       /* but of the memory at most that part */
#define PIECE_BYTES (UINT64_C(256) << 10)   /* in one call, for which mprotect() may have to wait */

#define STEPS_PER_TURN 16 /* then others have theirs on this core, if they want it */

enum job { JOB_NONE = 0, JOB_ASKED, JOB_TAKEN, JOB_DONE, JOB_REFUSED, JOB_CANCELLED };

/* What the thread has of a job. */
struct work {
    struct kv_touch_part parts[KV_TOUCH_PARTS];
    unsigned part; /* the one that it is at */
    uint64_t at;   /* in bytes */
    bool is_open;
};

/* ---- the thread -------------------------------------------------------------------------- */

static void populate(uint8_t *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES)
        (void)kv_memory_populate(from + at, u_min64(PIECE_BYTES, bytes - at));
}

/* Touches the next free segment. False if enough are touched. */
static bool touch_segment(struct kv_touch *touch)
{
    struct kv_segments *segments = touch->segments;
    uint32_t index = kv_segment_touch_begin(segments);
    if (index == KV_SEGMENT_NONE)
        return false;
    populate(kv_segment_base(segments, index), kv_segments_bytes(segments));
    kv_segment_touch_end(segments, index);
    return true;
}

static bool job_go(struct kv_touch *touch, enum job from, enum job to)
{
    uint32_t expected = from;
    return kv_u32_cas_acq_rel(&touch->job, &expected, to);
}

static bool open_all(const struct work *work)
{
    for (unsigned i = 0; i < KV_TOUCH_PARTS; i++)
        if (!kv_memory_open(work->parts[i].from, work->parts[i].bytes))
            return false;
    return true;
}

static void job_end(struct kv_touch *touch, enum job how)
{
    if (!job_go(touch, JOB_TAKEN, how))
        kv_u32_store_release(&touch->job, JOB_NONE); /* was cancelled */
}

/* Does a piece of the job. False if there is none. */
static bool job_step(struct kv_touch *touch, struct work *work)
{
    uint32_t job = kv_u32_load_relaxed(&touch->job);
    if (job == JOB_ASKED && job_go(touch, JOB_ASKED, JOB_TAKEN)) {
        *work = (struct work){.is_open = false};
        memcpy(work->parts, touch->parts, sizeof(work->parts));
    } else if (job == JOB_CANCELLED) {
        kv_u32_store_release(&touch->job, JOB_NONE);
        return false;
    } else if (job != JOB_TAKEN) {
        return false;
    }
    if (!work->is_open && !open_all(work)) {
        job_end(touch, JOB_REFUSED);
        return true;
    }
    work->is_open = true;
    const struct kv_touch_part *part = &work->parts[work->part];
    uint64_t bytes = u_min64(PIECE_BYTES, part->bytes - work->at);
    populate(part->from + work->at, bytes);
    work->at += bytes;
    if (work->at == part->bytes) {
        work->at = 0;
        work->part++;
    }
    if (work->part == KV_TOUCH_PARTS)
        job_end(touch, JOB_DONE);
    return true;
}

/* Not in the way of a worker that has the same core; pages from the workers' node, if it is one. */
static void settle(const struct kv_touch *touch)
{
    struct sched_param param = {0};
    uint64_t nodes = touch->nodes;
    (void)pthread_setname_np(pthread_self(), "kv-touch");
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
    if (nodes != 0 && (nodes & (nodes - 1)) == 0)
        (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes, 64 + 1);
}

/* Either the thread sees what there is to do after it has said so, or who brings it sees that. */
static void doze(struct kv_touch *touch)
{
    (void)kv_u32_exchange_seq_cst(&touch->asleep, 1);
    bool due = kv_u32_load_seq_cst(&touch->over) != 0 ||
               kv_u32_load_seq_cst(&touch->job) == JOB_ASKED ||
               kv_segments_touch_lags(touch->segments);
    if (due && kv_u32_exchange_seq_cst(&touch->asleep, 0) == 1)
        return;
    while (sem_wait(&touch->due) != 0)
        continue; /* a signal */
}

static void *run(void *ctx)
{
    struct kv_touch *touch = (struct kv_touch *)ctx;
    struct work work = {.is_open = false};
    unsigned steps = 0;
    settle(touch);
    while (kv_u32_load_seq_cst(&touch->over) == 0) {
        bool busy = touch_segment(touch);
        busy |= job_step(touch, &work);
        if (!busy)
            doze(touch);
        else if (++steps % STEPS_PER_TURN == 0)
            (void)sched_yield();
    }
    return U_NULL;
}

/* ---- start and end ----------------------------------------------------------------------- */

static bool has_a_core_to_spare(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) > 1;
}

static void set_bounds(struct kv_segments *segments, uint64_t ahead_bytes)
{
    uint64_t memory_bytes = (uint64_t)kv_segments_count(segments) << segments->shift;
    uint64_t most = u_min64(ahead_bytes, memory_bytes / AHEAD_SHARE);
    segments->ahead_max = u_max32(1, (uint32_t)(most >> segments->shift));
    segments->ahead_min =
        u_min32(segments->ahead_max, (uint32_t)(AHEAD_BYTES_MIN >> segments->shift));
    segments->ahead_slack = u_max32(1, segments->ahead_min / 2);
}

/* Signals are for the threads that expect them. */
static bool create(struct kv_touch *touch)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    int error = pthread_create(&touch->thread, U_NULL, run, touch);
    (void)pthread_sigmask(SIG_SETMASK, &before, U_NULL);
    return error == 0;
}

void kv_touch_start(struct kv_touch *touch, struct kv_segments *segments, uint64_t ahead_bytes,
                    uint64_t nodes)
{
    touch->segments = segments;
    touch->nodes = nodes;
    if (ahead_bytes == 0 || !has_a_core_to_spare() || !kv_memory_populate(segments->base, 1) ||
        sem_init(&touch->due, 0, 0) != 0)
        return;
    set_bounds(segments, ahead_bytes);
    while (touch_segment(touch))
        continue;
    segments->touch = touch;
    touch->runs = create(touch);
    if (touch->runs)
        return;
    segments->touch = U_NULL;
    segments->ahead_max = 0;
    sem_destroy(&touch->due);
}

void kv_touch_stop(struct kv_touch *touch)
{
    if (!touch->runs)
        return;
    (void)kv_u32_exchange_seq_cst(&touch->over, 1);
    kv_touch_wake(touch);
    pthread_join(touch->thread, U_NULL);
    touch->segments->touch = U_NULL;
    sem_destroy(&touch->due);
    touch->runs = false;
}

void kv_touch_wake(struct kv_touch *touch)
{
    if (kv_u32_load_seq_cst(&touch->asleep) != 0 && kv_u32_exchange_seq_cst(&touch->asleep, 0) == 1)
        (void)sem_post(&touch->due);
}

/* ---- jobs -------------------------------------------------------------------------------- */

bool kv_touch_ask(struct kv_touch *touch, const struct kv_touch_part *parts, unsigned count)
{
    if (!touch->runs || kv_u32_load_acquire(&touch->job) != JOB_NONE)
        return false;
    U_ASSERT(count > 0 && count <= KV_TOUCH_PARTS);
    for (unsigned i = 0; i < KV_TOUCH_PARTS; i++)
        touch->parts[i] =
            i < count ? parts[i] : (struct kv_touch_part){.from = parts[0].from, .bytes = 0};
    kv_u32_store_seq_cst(&touch->job, JOB_ASKED);
    kv_touch_wake(touch);
    return true;
}

enum kv_touched kv_touch_poll(struct kv_touch *touch)
{
    uint32_t job = kv_u32_load_acquire(&touch->job);
    if (job != JOB_DONE && job != JOB_REFUSED)
        return KV_TOUCH_PENDING;
    kv_u32_store_relaxed(&touch->job, JOB_NONE);
    return job == JOB_DONE ? KV_TOUCH_DONE : KV_TOUCH_REFUSED;
}

bool kv_touch_cancel(struct kv_touch *touch)
{
    return job_go(touch, JOB_ASKED, JOB_NONE) || job_go(touch, JOB_TAKEN, JOB_CANCELLED);
}
