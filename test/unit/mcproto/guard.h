/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input between two pages that may not be touched: reading one byte before or behind it crashes,
 * also without a sanitizer.
 */
#ifndef TEST_MCPROTO_GUARD_H
#define TEST_MCPROTO_GUARD_H

#include <stddef.h>

#include "ubase/types.h"

#define GUARD_BYTES_MAX 8192

/* A copy of the data that ends where the forbidden page begins; valid until the next call. */
u_u8 *guard_behind(const void *data, size_t bytes);

/* A copy of the data that begins where the forbidden page ends; valid until the next call. */
u_u8 *guard_before(const void *data, size_t bytes);

#endif
