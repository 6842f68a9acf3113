/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes that a line of a golden file stands for. Needs nothing but the C library. */
#ifndef GOLDEN_ITEMS_H
#define GOLDEN_ITEMS_H

#include "ubase/types.h"

#define GOLDEN_BYTES_MAX 65536

struct golden_bytes {
    u_u8 bytes[GOLDEN_BYTES_MAX];
    u_u32 len;
};

/*
 * Appends what stands behind the `>` or `<` of a line: quoted text and pairs of hexadecimal digits,
 * in any order. Returns 0 if it is something else.
 */
int golden_items_read(const char *items, struct golden_bytes *out);

#endif
