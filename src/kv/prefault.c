/* SPDX-License-Identifier: BSD-3-Clause */
/* The prefault thread; prefault.h has its purpose and protocol. */
#define _GNU_SOURCE /* MADV_POPULATE_WRITE, SCHED_BATCH, CPU_COUNT, pthread_setname_np() */
#include "kv/prefault.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "kv/memory.h"
#include "kv/segment.h"

#define AHEAD_BYTES_MIN (UINT64_C(4) << 20) /* prefaulted even if little is in use */
#define AHEAD_SHARE 8                       /* at most memory / AHEAD_SHARE */
#define PIECE_BYTES (UINT64_C(256) << 10)   /* per call; mprotect() may have to wait for one */

#define STEPS_PER_TURN 16 /* then sched_yield() */

enum job { JOB_NONE = 0, JOB_ASKED, JOB_TAKEN, JOB_DONE, JOB_REFUSED, JOB_CANCELLED };

/* The thread's progress in a job. */
struct work {
    struct kv_prefault_range parts[KV_PREFAULT_RANGES];
    unsigned part; /* current range */
    uint64_t at;   /* offset in it, bytes */
    bool is_open;
};

/* ---- the thread -------------------------------------------------------------------------- */

static void populate(uint8_t *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES)
        (void)kv_memory_populate(from + at, u_min64(PIECE_BYTES, bytes - at));
}

/* Prefaults the next free segment. False if enough are touched. */
static bool touch_segment(struct kv_prefault *prefault)
{
    struct kv_segments *segments = prefault->segments;
    uint32_t index = kv_segment_prefault_begin(segments);
    if (index == KV_SEGMENT_NONE)
        return false;
    populate(kv_segment_base(segments, index), kv_segments_bytes(segments));
    kv_segment_prefault_end(segments, index);
    return true;
}

static bool job_go(struct kv_prefault *prefault, enum job from, enum job to)
{
    uint32_t expected = from;
    return kv_u32_cas_acq_rel(&prefault->job, &expected, to);
}

static bool open_all(const struct kv_memory *memory, const struct work *work)
{
    for (unsigned i = 0; i < KV_PREFAULT_RANGES; i++)
        if (!kv_memory_open(memory, work->parts[i].from, work->parts[i].bytes))
            return false;
    return true;
}

static void job_end(struct kv_prefault *prefault, enum job how)
{
    if (!job_go(prefault, JOB_TAKEN, how))
        kv_u32_store_release(&prefault->job, JOB_NONE); /* it was cancelled */
}

/* One piece of the job. False if there is none. */
static bool job_step(struct kv_prefault *prefault, struct work *work)
{
    uint32_t job = kv_u32_load_relaxed(&prefault->job);
    if (job == JOB_ASKED && job_go(prefault, JOB_ASKED, JOB_TAKEN)) {
        *work = (struct work){.is_open = false};
        memcpy(work->parts, prefault->parts, sizeof(work->parts));
    } else if (job == JOB_CANCELLED) {
        kv_u32_store_release(&prefault->job, JOB_NONE);
        return false;
    } else if (job != JOB_TAKEN) {
        return false;
    }
    if (!work->is_open && !open_all(prefault->memory, work)) {
        job_end(prefault, JOB_REFUSED);
        return true;
    }
    work->is_open = true;
    const struct kv_prefault_range *part = &work->parts[work->part];
    uint64_t bytes = u_min64(PIECE_BYTES, part->bytes - work->at);
    populate(part->from + work->at, bytes);
    work->at += bytes;
    if (work->at == part->bytes) {
        work->at = 0;
        work->part++;
    }
    if (work->part == KV_PREFAULT_RANGES)
        job_end(prefault, JOB_DONE);
    return true;
}

/* SCHED_BATCH, so that workers on the same core come first; memory of the workers' node. */
static void thread_init(const struct kv_prefault *prefault)
{
    struct sched_param param = {0};
    uint64_t nodes = prefault->nodes;
    (void)pthread_setname_np(pthread_self(), "kv-touch");
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
    if (nodes != 0 && (nodes & (nodes - 1)) == 0)
        (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes, 64 + 1);
}

/* Sequential consistency: either the thread sees new work after setting `asleep`, or the worker
 * that brings the work sees `asleep` and posts. */
static void sleep_until_due(struct kv_prefault *prefault)
{
    (void)kv_u32_exchange_seq_cst(&prefault->asleep, 1);
    bool due = kv_u32_load_seq_cst(&prefault->stop) != 0 ||
               kv_u32_load_seq_cst(&prefault->job) == JOB_ASKED ||
               kv_segments_prefault_lags(prefault->segments);
    if (due && kv_u32_exchange_seq_cst(&prefault->asleep, 0) == 1)
        return;
    while (sem_wait(&prefault->due) != 0)
        continue; /* a signal */
}

static void *run(void *ctx)
{
    struct kv_prefault *prefault = (struct kv_prefault *)ctx;
    struct work work = {.is_open = false};
    unsigned steps = 0;
    thread_init(prefault);
    while (kv_u32_load_seq_cst(&prefault->stop) == 0) {
        bool busy = touch_segment(prefault);
        busy |= job_step(prefault, &work);
        if (!busy)
            sleep_until_due(prefault);
        else if (++steps % STEPS_PER_TURN == 0)
            (void)sched_yield();
    }
    return U_NULL;
}

/* ---- start and end ----------------------------------------------------------------------- */

static bool has_second_core(void)
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

/* Blocks all signals in the thread except SIGSYS, which the thread itself causes. */
static bool create(struct kv_prefault *prefault)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    int error = pthread_create(&prefault->thread, U_NULL, run, prefault);
    (void)pthread_sigmask(SIG_SETMASK, &before, U_NULL);
    return error == 0;
}

void kv_prefault_start(struct kv_prefault *prefault, struct kv_segments *segments,
                       const struct kv_memory *memory, uint64_t ahead_bytes, uint64_t nodes)
{
    prefault->segments = segments;
    prefault->memory = memory;
    prefault->nodes = nodes;
    if (ahead_bytes == 0 || !has_second_core() || !kv_memory_populate(segments->base, 1) ||
        sem_init(&prefault->due, 0, 0) != 0)
        return;
    set_bounds(segments, ahead_bytes);
    while (touch_segment(prefault))
        continue;
    segments->prefault = prefault;
    prefault->runs = create(prefault);
    if (prefault->runs)
        return;
    segments->prefault = U_NULL;
    segments->ahead_max = 0;
    sem_destroy(&prefault->due);
}

void kv_prefault_stop(struct kv_prefault *prefault)
{
    if (!prefault->runs)
        return;
    (void)kv_u32_exchange_seq_cst(&prefault->stop, 1);
    kv_prefault_wake(prefault);
    pthread_join(prefault->thread, U_NULL);
    prefault->segments->prefault = U_NULL;
    sem_destroy(&prefault->due);
    prefault->runs = false;
}

void kv_prefault_wake(struct kv_prefault *prefault)
{
    if (kv_u32_load_seq_cst(&prefault->asleep) != 0 &&
        kv_u32_exchange_seq_cst(&prefault->asleep, 0) == 1)
        (void)sem_post(&prefault->due);
}

/* ---- jobs -------------------------------------------------------------------------------- */

bool kv_prefault_request(struct kv_prefault *prefault, const struct kv_prefault_range *parts,
                         unsigned count)
{
    if (!prefault->runs || kv_u32_load_acquire(&prefault->job) != JOB_NONE)
        return false;
    U_ASSERT(count > 0 && count <= KV_PREFAULT_RANGES);
    for (unsigned i = 0; i < KV_PREFAULT_RANGES; i++)
        prefault->parts[i] =
            i < count ? parts[i] : (struct kv_prefault_range){.from = parts[0].from, .bytes = 0};
    kv_u32_store_seq_cst(&prefault->job, JOB_ASKED);
    kv_prefault_wake(prefault);
    return true;
}

enum kv_prefault_result kv_prefault_poll(struct kv_prefault *prefault)
{
    uint32_t job = kv_u32_load_acquire(&prefault->job);
    if (job != JOB_DONE && job != JOB_REFUSED)
        return KV_PREFAULT_PENDING;
    kv_u32_store_relaxed(&prefault->job, JOB_NONE);
    return job == JOB_DONE ? KV_PREFAULT_DONE : KV_PREFAULT_REFUSED;
}

bool kv_prefault_cancel(struct kv_prefault *prefault)
{
    return job_go(prefault, JOB_ASKED, JOB_NONE) || job_go(prefault, JOB_TAKEN, JOB_CANCELLED);
}
