/* SPDX-License-Identifier: BSD-3-Clause */
/* The eviction policies that the engine has: so far it has one. */
#ifndef KVBENCH_POLICY_H
#define KVBENCH_POLICY_H

enum bench_policy_kind { BENCH_POLICY_CLOCK = 0, BENCH_POLICIES };

static inline const char *bench_policy_name(enum bench_policy_kind kind)
{
    return kind == BENCH_POLICY_CLOCK ? "clock" : "";
}

#endif
