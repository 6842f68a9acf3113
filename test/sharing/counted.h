/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before each source that is counted: copies are calls, which the linker redirects.
 * Declares them without <string.h>, for what it declares depends on macros of the source.
 */
#ifndef COUNTED_H
#define COUNTED_H

void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes);
void *memset(void *at, int value, __SIZE_TYPE__ bytes);
int memcmp(const void *a, const void *b, __SIZE_TYPE__ bytes);

#define __builtin_memcpy memcpy
#define __builtin_memset memset
#define __builtin_memcmp memcmp

#endif
