/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatches net_worker_*() to the kind of worker. */
#include "net/worker.h"

#include <errno.h>
#include <stdlib.h>

/* How long ticks are compared with the clock, and how exactly both are read at the same time. */
#define CALIBRATION_NS 2000000
#define READING_TICKS_MAX 2000
#define READINGS_MAX 100

uint32_t net_ticks_ns_scale;

/* Reads ticks and clock together; repeated if the thread was interrupted in between. */
static uint64_t read_both(uint64_t *ns)
{
    struct timespec now;
    uint64_t before, after;
    unsigned i = 0;

    do {
        before = net_ticks();
        clock_gettime(CLOCK_MONOTONIC, &now);
        after = net_ticks();
    } while (after - before > READING_TICKS_MAX && i++ < READINGS_MAX);
    *ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return before + (after - before) / 2;
}

void net_ticks_calibrate(void)
{
    uint64_t start_ns, now_ns, ticks;
    uint64_t start = 0;

    if (net_ticks_ns_scale != 0)
        return;
    start = read_both(&start_ns);
    do {
        ticks = read_both(&now_ns) - start;
    } while (now_ns - start_ns < CALIBRATION_NS);
    /* At most one nanosecond, which keeps intervals below their maximum; at least 1. */
    net_ticks_ns_scale = u_max32((uint32_t)u_min64(((now_ns - start_ns) << NET_TICKS_SHIFT) / ticks,
                                                   UINT64_C(1) << NET_TICKS_SHIFT),
                                 1);
}

void net_worker_init(struct net_worker *worker, const struct net_worker_ops *ops)
{
    worker->ops = ops;
    sem_init(&worker->paused, 0, 0);
    sem_init(&worker->resumed, 0, 0);
}

void net_worker_free(struct net_worker *worker)
{
    sem_destroy(&worker->paused);
    sem_destroy(&worker->resumed);
    free(worker);
}

int net_worker_pause(struct net_worker *worker)
{
    if (!worker->ops->wake)
        return -1;
    while (sem_trywait(&worker->paused) == 0)
        continue; /* of a pause that was given up */
    atomic_fetch_add_explicit(&worker->pauses, 1, memory_order_relaxed);
    worker->ops->wake(worker);
    return 0;
}

bool net_worker_wait_paused(struct net_worker *worker, unsigned timeout_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (sem_timedwait(&worker->paused, &until) < 0) {
        if (errno != EINTR)
            return false;
    }
    return true;
}

void net_worker_resume(struct net_worker *worker)
{
    atomic_fetch_add_explicit(&worker->pauses, 1, memory_order_relaxed);
    (void)sem_post(&worker->resumed);
}

int net_worker_park(struct net_worker *worker, struct cache_worker *cache_worker)
{
    unsigned pause = atomic_load_explicit(&worker->pauses, memory_order_relaxed);

    if (pause % 2 == 0)
        return 0;
    cache_suspend(cache_worker);
    (void)sem_post(&worker->paused);
    /* The next pause may have begun already when the thread runs again. */
    while (atomic_load_explicit(&worker->pauses, memory_order_relaxed) == pause)
        (void)sem_wait(&worker->resumed); /* a signal ends it, too */
    return cache_continue(cache_worker) ? 0 : -ENOMEM;
}

void net_worker_hand_over(struct net_worker *worker, bool first, struct net_handover *handover)
{
    worker->ops->hand_over(worker, first, handover);
}

int net_worker_run(struct net_worker *worker)
{
    return worker->ops->run(worker);
}

void net_worker_on_ready(struct net_worker *worker, void (*ready)(void *ctx), void *ctx)
{
    worker->ready = ready;
    worker->ready_ctx = ctx;
}

void net_worker_stop(struct net_worker *worker)
{
    worker->ops->stop(worker);
}

void net_worker_close(struct net_worker *worker)
{
    worker->ops->close(worker);
}

const char *net_threading_name(enum net_threading threading)
{
    static const char *const names[NET_THREADINGS] = {
        [NET_THREADING_UNIFIED] = "unified",
        [NET_THREADING_SPLIT] = "split",
        [NET_THREADING_MERGE] = "merge",
    };

    return names[threading];
}
