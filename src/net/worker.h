/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by both kinds of worker: the operations behind net_worker_*(), the clock, and counters
 * that one thread writes and any thread may read.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "base/base.h"
#include "net/net.h"

struct net_worker_ops {
    int (*run)(struct net_worker *worker);
    void (*stop)(struct net_worker *worker);
    void (*close)(struct net_worker *worker);
    void (*wake)(struct net_worker *worker); /* ends its wait; null: it cannot be paused */
    void (*hand_over)(struct net_worker *worker, bool first, struct net_handover *handover);
};

/* First member of each kind's own struct. */
struct net_worker {
    const struct net_worker_ops *ops;
    void (*ready)(void *ctx); /* or null; see net_worker_on_ready() */
    void *ready_ctx;
    atomic_uint pauses; /* begun and ended: odd while it has to be at rest */
    sem_t paused;       /* the worker's thread has come to rest */
    sem_t resumed;
};

/* Whether the loop has to come to rest. */
static inline bool net_worker_is_pausing(const struct net_worker *worker)
{
    return atomic_load_explicit(&worker->pauses, memory_order_relaxed) % 2 == 1;
}

void net_worker_init(struct net_worker *worker, const struct net_worker_ops *ops);
void net_worker_free(struct net_worker *worker);

/*
 * In the worker's thread, at rest: suspends the use of the cache and waits for net_worker_resume().
 * Does nothing if the pause was given up meanwhile. Returns 0 or -ENOMEM.
 */
int net_worker_park(struct net_worker *worker, struct cache_worker *cache_worker);

/* The monotonic clock in microseconds: the time of the stack and of the cache. */
static inline uint64_t net_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/*
 * A cheap clock for intervals: ticks of the time-stamp counter where there is one, which counts at
 * the same rate on all cores, else nanoseconds.
 */
static inline uint64_t net_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
#endif
}

/* Nanoseconds per tick, times 2^NET_TICKS_SHIFT; set by net_ticks_calibrate(). */
#define NET_TICKS_SHIFT 24
extern uint32_t net_ticks_ns_scale;

/*
 * Compares the ticks with the kernel's clock, which takes 2 ms; later calls do nothing. Before the
 * first worker runs.
 */
void net_ticks_calibrate(void);

/* Longer intervals count as this one: some 20 s. */
#define NET_TICKS_BITS_MAX 36

/* An interval in nanoseconds, below 2^NET_TICKS_BITS_MAX; likewise if it is negative. */
static inline uint64_t net_ticks_ns(uint64_t ticks)
{
    const uint64_t max = (UINT64_C(1) << NET_TICKS_BITS_MAX) - 1;

    return (U_UNLIKELY(ticks > max) ? max : ticks) * net_ticks_ns_scale >> NET_TICKS_SHIFT;
}

/*
 * A counter with one writer. Readers see a recent value, which orders no other access, so all
 * accesses are relaxed and the addition is a plain load and store.
 */
struct net_counter {
    _Atomic uint64_t value;
};

static inline uint64_t net_counter_read(const struct net_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

static inline void net_counter_set(struct net_counter *counter, uint64_t value)
{
    atomic_store_explicit(&counter->value, value, memory_order_relaxed);
}

static inline void net_counter_add(struct net_counter *counter, uint64_t n)
{
    net_counter_set(counter, net_counter_read(counter) + n);
}

#endif
