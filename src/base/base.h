/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every piece may use: inline, assertions, byte copies, small arithmetic.
 *
 * All macros of the code base are here, because C89 has no other way to say these things.
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

/* For what is only worth its while in line, with arguments that are constants there. */
#ifndef U_ALWAYS_INLINE
#if defined(__GNUC__)
#define U_ALWAYS_INLINE U_INLINE __attribute__((__always_inline__))
#else
#define U_ALWAYS_INLINE U_INLINE
#endif
#endif

/* For what is seldom called, so that its callers need not save registers for it. */
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

/* What cores hand to each other at once. Where it is another number all works, but slower. */
#define U_LINE_BYTES 64

/*
 * States what is proven to hold. Stays on in release builds. Never about bytes from the wire, and
 * never with a side effect. An embedder may define U_ASSERT_FAIL(text) to something else.
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
 * memcpy, memset and memcmp for code that may not call the C library. Where the compiler has
 * builtins it inlines them or calls the function that its own contract asks every environment,
 * freestanding ones too, to provide.
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
 * The same for lengths that are mostly short and not known beforehand, such as those of keys: the
 * call of a function that is good at any length costs more than these two words, which overlap.
 * Longer ones take that call, for which a caller has to save what it has in registers. One or two
 * words are the most usual length, and come first.
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

#endif
