/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that the test has to find; compiled as the product is. */
#include "planted.h"

#include <stdatomic.h>

/* Of all workers. */
static atomic_uint requests;

/* One for each worker, sixteen in a cache line. */
static unsigned requests_of[16];

void planted_shared_counter(void *ctx, unsigned worker)
{
    atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
}

void planted_shared_line(void *ctx, unsigned worker)
{
    requests_of[worker]++;
}

void planted_shared_copy(void *ctx, unsigned worker)
{
    __builtin_memcpy(requests_of, ctx, sizeof(requests_of));
}
