/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The integer types of the portable libraries.
 *
 * C89 and C++98 have no <stdint.h>, and a freestanding compiler may have no header at all, so the
 * widths are derived from predefined macros. The public headers (ustack.h, mcproto.h) include this
 * file and no system header.
 *
 * u_u64 avoids `long long`, which C89 and C++98 reject under -pedantic.
 */
#ifndef UBASE_TYPES_H
#define UBASE_TYPES_H

typedef unsigned char u_u8;
typedef unsigned short u_u16;
typedef unsigned int u_u32;
typedef signed int u_s32;

#if defined(__LP64__) || defined(_LP64)
typedef unsigned long u_u64;
typedef signed long u_s64;
#elif defined(__GNUC__)
typedef unsigned int u_u64 __attribute__((__mode__(__DI__)));
typedef signed int u_s64 __attribute__((__mode__(__DI__)));
#elif defined(_MSC_VER)
typedef unsigned __int64 u_u64;
typedef signed __int64 u_s64;
#else
typedef unsigned long long u_u64;
typedef signed long long u_s64;
#endif

/* Fails to compile where a width differs from its name. */
typedef char u_types_check_8[(sizeof(u_u8) == 1) ? 1 : -1];
typedef char u_types_check_16[(sizeof(u_u16) == 2) ? 1 : -1];
typedef char u_types_check_32[(sizeof(u_u32) == 4) ? 1 : -1];
typedef char u_types_check_64[(sizeof(u_u64) == 8) ? 1 : -1];

#endif
