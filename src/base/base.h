/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiler abstractions (inlining, branch hints, assertions), byte copies and minimum/maximum, for
 * all modules. Macros are used only where C89 has no other means.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "ubase/types.h"

#ifndef U_INLINE
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define U_INLINE static inline
#elif defined(__GNUC__)
#define U_INLINE static __inline__
#elif defined(_MSC_VER)
#define U_INLINE static __inline
#else
#define U_INLINE static
#endif
#endif

/* For functions whose gain is that constant arguments are known after inlining. */
#ifndef U_ALWAYS_INLINE
#if defined(__GNUC__)
#define U_ALWAYS_INLINE U_INLINE __attribute__((__always_inline__))
#else
#define U_ALWAYS_INLINE U_INLINE
#endif
#endif

/* For rarely called functions, so that callers save no registers for them. */
#ifndef U_NOINLINE
#if defined(__GNUC__)
#define U_NOINLINE __attribute__((__noinline__))
#else
#define U_NOINLINE
#endif
#endif

#ifndef U_NULL
#ifdef __cplusplus
#define U_NULL 0
#else
#define U_NULL ((void *)0)
#endif
#endif

#if defined(__GNUC__)
#define U_LIKELY(x) __builtin_expect(!!(x), 1)
#define U_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define U_PREFETCH(p) __builtin_prefetch(p)
#else
#define U_LIKELY(x) (x)
#define U_UNLIKELY(x) (x)
#define U_PREFETCH(p) ((void)0)
#endif

/* Defined on little-endian machines with byte-swap builtins. */
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) &&            \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define U_LITTLE_ENDIAN
#endif

/* Size of a cache line. A wrong value costs speed (false sharing), not correctness. */
#define U_CACHE_LINE_BYTES 64

/*
 * An invariant or a precondition that holds unless the program has a defect; never about bytes from
 * the wire, a file or a command line, and never with a side effect. Assertions are enabled in every
 * build type, NDEBUG has no effect. A failure ends the program with a trap; an embedder may define
 * U_ASSERT_FAIL(text) as another action that does not return.
 */
#ifndef U_ASSERT_FAIL
#if defined(__GNUC__)
#define U_ASSERT_FAIL(text) __builtin_trap()
#else
#define U_ASSERT_FAIL(text) (*(volatile int *)0 = 0)
#endif
#endif
#define U_ASSERT(condition) ((condition) ? (void)0 : (void)(U_ASSERT_FAIL(#condition)))

/* At file scope: fails to compile where the condition is false. The name must be unique. */
#define U_STATIC_ASSERT(condition, name) typedef char u_static_assert_##name[(condition) ? 1 : -1]

#define U_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Where `member` begins in `type`, bytes. */
#if defined(__GNUC__)
#define U_OFFSET_OF(type, member) __builtin_offsetof(type, member)
#else
#define U_OFFSET_OF(type, member) ((unsigned long)&((type *)0)->member)
#endif

/* The struct that contains `member` at address `ptr`. */
#define U_CONTAINER_OF(ptr, type, member)                                                          \
    ((type *)(void *)((char *)(ptr)-U_OFFSET_OF(type, member)))

/*
 * memcpy, memset and memcmp for code without a C library. Compiler builtins are inlined or become
 * calls of memcpy(), memset() and memcmp(), which gcc and clang require of every environment,
 * freestanding ones too.
 */
U_INLINE void u_copy(void *to, const void *from, unsigned long bytes)
{
#if defined(__GNUC__)
    __builtin_memcpy(to, from, bytes);
#else
    unsigned char *t = (unsigned char *)to;
    const unsigned char *f = (const unsigned char *)from;
    while (bytes-- > 0)
        *t++ = *f++;
#endif
}

U_INLINE void u_zero(void *to, unsigned long bytes)
{
#if defined(__GNUC__)
    __builtin_memset(to, 0, bytes);
#else
    unsigned char *t = (unsigned char *)to;
    while (bytes-- > 0)
        *t++ = 0;
#endif
}

U_INLINE int u_equal(const void *a, const void *b, unsigned long bytes)
{
#if defined(__GNUC__)
    return __builtin_memcmp(a, b, bytes) == 0;
#else
    const unsigned char *x = (const unsigned char *)a;
    const unsigned char *y = (const unsigned char *)b;
    while (bytes-- > 0)
        if (*x++ != *y++)
            return 0;
    return 1;
#endif
}

/*
 * u_copy() and u_equal() for lengths that are mostly short and unknown at compile time, such as
 * those of keys: up to U_SHORT_BYTES they use two overlapping words instead of a call. 8 to 16
 * bytes, the most frequent lengths, are tested first.
 */
#define U_SHORT_BYTES 32

U_INLINE void u_copy_short(void *to, const void *from, unsigned long bytes)
{
    unsigned char *t = (unsigned char *)to;
    const unsigned char *f = (const unsigned char *)from;

    if (U_LIKELY(bytes - 8 <= 8)) {
        u_copy(t, f, 8);
        u_copy(t + bytes - 8, f + bytes - 8, 8);
    } else if (bytes > U_SHORT_BYTES) {
        u_copy(t, f, bytes);
    } else if (bytes > 16) {
        u_copy(t, f, 16);
        u_copy(t + bytes - 16, f + bytes - 16, 16);
    } else if (bytes >= 4) {
        u_copy(t, f, 4);
        u_copy(t + bytes - 4, f + bytes - 4, 4);
    } else if (bytes > 0) {
        t[0] = f[0];
        t[bytes / 2] = f[bytes / 2];
        t[bytes - 1] = f[bytes - 1];
    }
}

U_INLINE int u_equal_short(const void *a, const void *b, unsigned long bytes)
{
    const unsigned char *x = (const unsigned char *)a;
    const unsigned char *y = (const unsigned char *)b;

    if (U_LIKELY(bytes - 8 <= 8))
        return u_equal(x, y, 8) && u_equal(x + bytes - 8, y + bytes - 8, 8);
    if (bytes > U_SHORT_BYTES)
        return u_equal(x, y, bytes);
    if (bytes > 16)
        return u_equal(x, y, 16) && u_equal(x + bytes - 16, y + bytes - 16, 16);
    if (bytes >= 4)
        return u_equal(x, y, 4) && u_equal(x + bytes - 4, y + bytes - 4, 4);
    return bytes == 0 ||
           (x[0] == y[0] && x[bytes / 2] == y[bytes / 2] && x[bytes - 1] == y[bytes - 1]);
}

/* Index of the lowest bit set of a value that is not 0. */
U_INLINE unsigned u_lowest_bit(u_u32 v)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_ctz(v);
#else
    unsigned n = 0;
    while ((v & 1) == 0) {
        v >>= 1;
        n++;
    }
    return n;
#endif
}

U_INLINE u_u32 u_min32(u_u32 a, u_u32 b)
{
    return a < b ? a : b;
}

U_INLINE u_u32 u_max32(u_u32 a, u_u32 b)
{
    return a > b ? a : b;
}

U_INLINE u_u64 u_min64(u_u64 a, u_u64 b)
{
    return a < b ? a : b;
}

U_INLINE u_u64 u_max64(u_u64 a, u_u64 b)
{
    return a > b ? a : b;
}

#endif
