/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks free memory for AddressSanitizer, in builds with it, so that a pointer that outlives its
 * grace period is reported at the first read.
 */
#ifndef KV_POISON_H
#define KV_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define KV_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KV_POISON 1
#endif
#endif

#ifdef KV_POISON
#include <sanitizer/asan_interface.h>

static inline void kv_poison(const void *at, size_t bytes)
{
    __asan_poison_memory_region(at, bytes);
}

static inline void kv_unpoison(const void *at, size_t bytes)
{
    __asan_unpoison_memory_region(at, bytes);
}
#else
static inline void kv_poison(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

static inline void kv_unpoison(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}
#endif

#endif
