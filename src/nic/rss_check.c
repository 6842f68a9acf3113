/* SPDX-License-Identifier: BSD-3-Clause */
/* Verifies the RSS of a device; see rss_check.h. */
#include "nic/rss_check.h"

#include "base/base.h"

static unsigned entries_seen(const uint64_t entries[NIC_RSS_TABLE_SIZE / 64])
{
    unsigned seen = 0;
    unsigned i;

    for (i = 0; i < NIC_RSS_TABLE_SIZE / 64; i++)
        seen += (unsigned)__builtin_popcountll(entries[i]);
    return seen;
}

bool nic_rss_check_record(struct nic_rss_check *check, const struct nic_rss_flow *flow,
                          uint32_t hash, unsigned queue, unsigned queues)
{
    unsigned entry = hash % NIC_RSS_TABLE_SIZE;
    uint64_t *entries = check->family[flow->is_ip6].entries;
    bool *trusted = &check->family[flow->is_ip6].trusted;

    U_ASSERT(queue < queues && queues <= NIC_RSS_TABLE_SIZE);
    if (nic_rss_lane(hash, queues) != queue) {
        check->mismatches++;
        return false;
    }
    check->verified++;
    entries[entry / 64] |= (uint64_t)1 << entry % 64;
    if (!*trusted)
        *trusted =
            entries_seen(entries) >= u_min32(NIC_RSS_CHECK_ENTRIES, NIC_RSS_TABLE_SIZE / queues);
    return true;
}
