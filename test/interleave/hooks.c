/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that the compiler calls in code built with -fsanitize=thread, and those of the C
 * library through which such code writes to memory. Their names are given by asm labels, as they
 * are the compiler's.
 */
#include <string.h>

#include "il.h"

#define SITE __builtin_return_address(0)

/* ---- nothing to do ----------------------------------------------------------------------- */

void il_hook_init(void) __asm__("__tsan_init");
void il_hook_init(void)
{
}

void il_hook_entry(void *caller) __asm__("__tsan_func_entry");
void il_hook_entry(void *caller)
{
    (void)caller;
}

void il_hook_exit(void) __asm__("__tsan_func_exit");
void il_hook_exit(void)
{
}

void il_hook_fence(int order) __asm__("__tsan_atomic_thread_fence");
void il_hook_fence(int order)
{
    il_fail("a fence (%d): the model knows none", order);
}

/* ---- plain accesses ---------------------------------------------------------------------- */

#define PLAIN(bytes)                                                                               \
    void il_hook_read##bytes(const void *at) __asm__("__tsan_read" #bytes);                        \
    void il_hook_read##bytes(const void *at)                                                       \
    {                                                                                              \
        il_read(at, bytes, SITE);                                                                  \
    }                                                                                              \
    void il_hook_write##bytes(const void *at) __asm__("__tsan_write" #bytes);                      \
    void il_hook_write##bytes(const void *at)                                                      \
    {                                                                                              \
        il_write(at, bytes, SITE);                                                                 \
    }

#define PLAIN_UNALIGNED(bytes)                                                                     \
    void il_hook_unaligned_read##bytes(const void *at) __asm__("__tsan_unaligned_read" #bytes);    \
    void il_hook_unaligned_read##bytes(const void *at)                                             \
    {                                                                                              \
        il_read(at, bytes, SITE);                                                                  \
    }                                                                                              \
    void il_hook_unaligned_write##bytes(const void *at) __asm__("__tsan_unaligned_write" #bytes);  \
    void il_hook_unaligned_write##bytes(const void *at)                                            \
    {                                                                                              \
        il_write(at, bytes, SITE);                                                                 \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
PLAIN_UNALIGNED(2)
PLAIN_UNALIGNED(4)
PLAIN_UNALIGNED(8)
PLAIN_UNALIGNED(16)

void il_hook_read_range(const void *at, size_t bytes) __asm__("__tsan_read_range");
void il_hook_read_range(const void *at, size_t bytes)
{
    il_read(at, bytes, SITE);
}

void il_hook_write_range(const void *at, size_t bytes) __asm__("__tsan_write_range");
void il_hook_write_range(const void *at, size_t bytes)
{
    il_write(at, bytes, SITE);
}

/* ---- atomic operations ------------------------------------------------------------------- */

static uint64_t modify_exchange(uint64_t old, uint64_t operand)
{
    (void)old;
    return operand;
}

static uint64_t modify_add(uint64_t old, uint64_t operand)
{
    return old + operand;
}

static uint64_t modify_sub(uint64_t old, uint64_t operand)
{
    return old - operand;
}

static uint64_t modify_and(uint64_t old, uint64_t operand)
{
    return old & operand;
}

static uint64_t modify_or(uint64_t old, uint64_t operand)
{
    return old | operand;
}

static uint64_t modify_xor(uint64_t old, uint64_t operand)
{
    return old ^ operand;
}

#define MODIFY(bits, verb, modify)                                                                 \
    uint##bits##_t il_hook_##modify##bits(void *at, uint##bits##_t value,                          \
                                          int order) __asm__("__tsan_atomic" #bits "_" verb);      \
    uint##bits##_t il_hook_##modify##bits(void *at, uint##bits##_t value, int order)               \
    {                                                                                              \
        return (uint##bits##_t)il_exchange(at, bits / 8, modify, value, order, SITE);              \
    }

#define COMPARE(bits, verb)                                                                        \
    int il_hook_##verb##bits(void *at, uint##bits##_t *expected, uint##bits##_t value, int order,  \
                             int failure_order) __asm__("__tsan_atomic" #bits                      \
                                                        "_compare_exchange_" #verb);               \
    int il_hook_##verb##bits(void *at, uint##bits##_t *expected, uint##bits##_t value, int order,  \
                             int failure_order)                                                    \
    {                                                                                              \
        uint64_t wide = *expected;                                                                 \
        bool same = il_compare_exchange(at, bits / 8, &wide, value, order, failure_order, SITE);   \
        *expected = (uint##bits##_t)wide;                                                          \
        return same;                                                                               \
    }

/* What clang calls: it returns the old value. */
#define COMPARE_VALUE(bits)                                                                        \
    uint##bits##_t il_hook_value##bits(                                                            \
        void *at, uint##bits##_t expected, uint##bits##_t value, int order,                        \
        int failure_order) __asm__("__tsan_atomic" #bits "_compare_exchange_val");                 \
    uint##bits##_t il_hook_value##bits(void *at, uint##bits##_t expected, uint##bits##_t value,    \
                                       int order, int failure_order)                               \
    {                                                                                              \
        uint64_t wide = expected;                                                                  \
        il_compare_exchange(at, bits / 8, &wide, value, order, failure_order, SITE);               \
        return (uint##bits##_t)wide;                                                               \
    }

#define ATOMIC(bits)                                                                               \
    uint##bits##_t il_hook_load##bits(const void *at,                                              \
                                      int order) __asm__("__tsan_atomic" #bits "_load");           \
    uint##bits##_t il_hook_load##bits(const void *at, int order)                                   \
    {                                                                                              \
        return (uint##bits##_t)il_load(at, bits / 8, order, SITE);                                 \
    }                                                                                              \
    void il_hook_store##bits(void *at, uint##bits##_t value,                                       \
                             int order) __asm__("__tsan_atomic" #bits "_store");                   \
    void il_hook_store##bits(void *at, uint##bits##_t value, int order)                            \
    {                                                                                              \
        il_store(at, bits / 8, value, order, SITE);                                                \
    }                                                                                              \
    MODIFY(bits, "exchange", modify_exchange)                                                      \
    MODIFY(bits, "fetch_add", modify_add)                                                          \
    MODIFY(bits, "fetch_sub", modify_sub)                                                          \
    MODIFY(bits, "fetch_and", modify_and)                                                          \
    MODIFY(bits, "fetch_or", modify_or)                                                            \
    MODIFY(bits, "fetch_xor", modify_xor)                                                          \
    COMPARE(bits, strong)                                                                          \
    COMPARE(bits, weak)                                                                            \
    COMPARE_VALUE(bits)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* ---- the C library (linked with --wrap) -------------------------------------------------- */

void *il_hook_memcpy(void *to, const void *from, size_t bytes) __asm__("__wrap_memcpy");
void *il_hook_memcpy(void *to, const void *from, size_t bytes)
{
    il_read(from, bytes, SITE);
    il_write(to, bytes, SITE);
    return il_copy(to, from, bytes);
}

void *il_real_memset(void *at, int value, size_t bytes) __asm__("__real_memset");
void *il_hook_memset(void *at, int value, size_t bytes) __asm__("__wrap_memset");
void *il_hook_memset(void *at, int value, size_t bytes)
{
    il_write(at, bytes, SITE);
    return il_real_memset(at, value, bytes);
}

int il_real_memcmp(const void *a, const void *b, size_t bytes) __asm__("__real_memcmp");
int il_hook_memcmp(const void *a, const void *b, size_t bytes) __asm__("__wrap_memcmp");
int il_hook_memcmp(const void *a, const void *b, size_t bytes)
{
    il_read(a, bytes, SITE);
    il_read(b, bytes, SITE);
    return il_real_memcmp(a, b, bytes);
}
