/* SPDX-License-Identifier: BSD-3-Clause */
/* Grace periods by quiescent states; epoch.h says how and why. */
#include "kv/epoch.h"

#include "base/base.h"

void kv_epoch_init(struct kv_epoch *epoch, struct kv_epoch_member *members, unsigned count)
{
    epoch->members = members;
    epoch->member_count = count;
    kv_u64_store_relaxed(&epoch->clock, 1);
    for (unsigned i = 0; i < count; i++)
        kv_u64_store_relaxed(&members[i].announced, KV_EPOCH_OFFLINE);
}

void kv_epoch_online(struct kv_epoch *epoch, struct kv_epoch_member *member)
{
    U_ASSERT(kv_u64_load_relaxed(&member->announced) == KV_EPOCH_OFFLINE);
    /* Release: orders the reads before going offline for a thread that loads only this store. */
    kv_u64_store_release(&member->announced, kv_u64_load_relaxed(&epoch->clock));
    kv_u64_fetch_add_acq_rel(&epoch->clock, 1);
}

void kv_epoch_offline(struct kv_epoch_member *member)
{
    kv_u64_store_release(&member->announced, KV_EPOCH_OFFLINE);
}

void kv_epoch_announce(const struct kv_epoch *epoch, struct kv_epoch_member *member)
{
    U_ASSERT(kv_u64_load_relaxed(&member->announced) != KV_EPOCH_OFFLINE);
    kv_u64_store_release(&member->announced, kv_u64_load_acquire(&epoch->clock));
}

uint64_t kv_epoch_retire(struct kv_epoch *epoch)
{
    return kv_u64_fetch_add_acq_rel(&epoch->clock, 1) + 1;
}

uint64_t kv_epoch_oldest(const struct kv_epoch *epoch, const struct kv_epoch_member *except)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < epoch->member_count; i++) {
        const struct kv_epoch_member *member = &epoch->members[i];
        uint64_t announced = kv_u64_load_acquire(&member->announced);
        if (member != except && announced != KV_EPOCH_OFFLINE && announced < oldest)
            oldest = announced;
    }
    return oldest;
}

uint64_t kv_epoch_lag(const struct kv_epoch *epoch)
{
    uint64_t clock = kv_u64_load_relaxed(&epoch->clock);
    uint64_t oldest = kv_epoch_oldest(epoch, U_NULL);
    return oldest < clock ? clock - oldest : 0;
}
