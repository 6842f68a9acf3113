/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of eviction policies. */
#include "kv/policy.h"

#include "base/base.h"

#define POLICY_ROW(kind, name) &kv_policy_##name,

const struct kv_policy *kv_policy_at(enum kv_policy_kind kind)
{
    static const struct kv_policy *const policies[KV_POLICIES] = {KV_POLICY_TABLE(POLICY_ROW)};
    U_ASSERT((unsigned)kind < KV_POLICIES);
    return policies[kind];
}

const char *kv_policy_name(enum kv_policy_kind kind)
{
    return kv_policy_at(kind)->name;
}

const char *kv_policy_summary(enum kv_policy_kind kind)
{
    return kv_policy_at(kind)->summary;
}
