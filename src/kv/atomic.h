/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's atomics, named by the ordering they use, so that a reader sees at each
 * call which ordering an algorithm relies on. Nothing else in src/kv includes <stdatomic.h>.
 *
 * No standalone fences: ThreadSanitizer does not understand them.
 */
#ifndef KV_ATOMIC_H
#define KV_ATOMIC_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint8_t kv_atomic_u8;
typedef _Atomic uint32_t kv_atomic_u32;
typedef _Atomic uint64_t kv_atomic_u64;

static inline uint8_t kv_u8_load_relaxed(const kv_atomic_u8 *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline void kv_u8_store_relaxed(kv_atomic_u8 *at, uint8_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static inline uint8_t kv_u8_load_seq_cst(const kv_atomic_u8 *at)
{
    return atomic_load_explicit(at, memory_order_seq_cst);
}

static inline void kv_u8_store_seq_cst(kv_atomic_u8 *at, uint8_t value)
{
    atomic_store_explicit(at, value, memory_order_seq_cst);
}

static inline uint32_t kv_u32_load_relaxed(const kv_atomic_u32 *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline uint32_t kv_u32_load_acquire(const kv_atomic_u32 *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static inline void kv_u32_store_relaxed(kv_atomic_u32 *at, uint32_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static inline void kv_u32_store_release(kv_atomic_u32 *at, uint32_t value)
{
    atomic_store_explicit(at, value, memory_order_release);
}

static inline uint32_t kv_u32_load_seq_cst(const kv_atomic_u32 *at)
{
    return atomic_load_explicit(at, memory_order_seq_cst);
}

static inline void kv_u32_store_seq_cst(kv_atomic_u32 *at, uint32_t value)
{
    atomic_store_explicit(at, value, memory_order_seq_cst);
}

static inline uint32_t kv_u32_exchange_seq_cst(kv_atomic_u32 *at, uint32_t value)
{
    return atomic_exchange_explicit(at, value, memory_order_seq_cst);
}

static inline uint32_t kv_u32_exchange_acquire(kv_atomic_u32 *at, uint32_t value)
{
    return atomic_exchange_explicit(at, value, memory_order_acquire);
}

static inline uint32_t kv_u32_fetch_add_relaxed(kv_atomic_u32 *at, uint32_t value)
{
    return atomic_fetch_add_explicit(at, value, memory_order_relaxed);
}

static inline bool kv_u32_cas_relaxed(kv_atomic_u32 *at, uint32_t *expected, uint32_t value)
{
    return atomic_compare_exchange_weak_explicit(at, expected, value, memory_order_relaxed,
                                                 memory_order_relaxed);
}

static inline bool kv_u32_cas_acq_rel(kv_atomic_u32 *at, uint32_t *expected, uint32_t value)
{
    return atomic_compare_exchange_strong_explicit(at, expected, value, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static inline uint64_t kv_u64_load_relaxed(const kv_atomic_u64 *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline uint64_t kv_u64_load_acquire(const kv_atomic_u64 *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static inline uint64_t kv_u64_load_seq_cst(const kv_atomic_u64 *at)
{
    return atomic_load_explicit(at, memory_order_seq_cst);
}

static inline void kv_u64_store_relaxed(kv_atomic_u64 *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static inline void kv_u64_store_release(kv_atomic_u64 *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_release);
}

static inline uint64_t kv_u64_fetch_add_relaxed(kv_atomic_u64 *at, uint64_t value)
{
    return atomic_fetch_add_explicit(at, value, memory_order_relaxed);
}

static inline uint64_t kv_u64_fetch_add_acq_rel(kv_atomic_u64 *at, uint64_t value)
{
    return atomic_fetch_add_explicit(at, value, memory_order_acq_rel);
}

static inline uint64_t kv_u64_fetch_add_seq_cst(kv_atomic_u64 *at, uint64_t value)
{
    return atomic_fetch_add_explicit(at, value, memory_order_seq_cst);
}

static inline uint64_t kv_u64_fetch_sub_seq_cst(kv_atomic_u64 *at, uint64_t value)
{
    return atomic_fetch_sub_explicit(at, value, memory_order_seq_cst);
}

static inline uint64_t kv_u64_fetch_or_acq_rel(kv_atomic_u64 *at, uint64_t value)
{
    return atomic_fetch_or_explicit(at, value, memory_order_acq_rel);
}

static inline bool kv_u64_cas_acq_rel(kv_atomic_u64 *at, uint64_t *expected, uint64_t value)
{
    return atomic_compare_exchange_strong_explicit(at, expected, value, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Adds to a counter that only the calling thread writes; other threads may read it. */
static inline void kv_u64_count(kv_atomic_u64 *at, uint64_t value)
{
    kv_u64_store_relaxed(at, kv_u64_load_relaxed(at) + value);
}

/* One iteration of a short wait: pauses 64 times, then yields the core. */
static inline void kv_spin(unsigned *polls)
{
    if (++*polls < 64) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
        return;
    }
    sched_yield();
}

/* A spin lock for sections of a few dozen instructions. Zero is unlocked. */
struct kv_lock {
    kv_atomic_u32 held;
};

static inline bool kv_lock_try(struct kv_lock *lock)
{
    return kv_u32_load_relaxed(&lock->held) == 0 && kv_u32_exchange_acquire(&lock->held, 1) == 0;
}

static inline void kv_lock_take(struct kv_lock *lock)
{
    unsigned polls = 0;
    while (!kv_lock_try(lock))
        kv_spin(&polls);
}

static inline void kv_lock_drop(struct kv_lock *lock)
{
    kv_u32_store_release(&lock->held, 0);
}

#endif
