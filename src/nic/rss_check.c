/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives in a queue, compared with what belongs there; see rss_check.h. */
#include "nic/rss_check.h"

#include "base/base.h"

static unsigned places_seen(const uint64_t places[NIC_RSS_TABLE_SIZE / 64])
{
    unsigned seen = 0;
    unsigned i;

    for (i = 0; i < NIC_RSS_TABLE_SIZE / 64; i++)
        seen += (unsigned)__builtin_popcountll(places[i]);
    return seen;
}

bool nic_rss_check_note(struct nic_rss_check *check, const struct nic_rss_flow *flow, uint32_t hash,
                        unsigned queue, unsigned queues)
{
    unsigned place = hash % NIC_RSS_TABLE_SIZE;
    uint64_t *places = check->family[flow->is_ip6].places;
    bool *trusted = &check->family[flow->is_ip6].trusted;

    U_ASSERT(queue < queues && queues <= NIC_RSS_TABLE_SIZE);
    if (nic_rss_lane(hash, queues) != queue) {
        check->mismatches++;
        return false;
    }
    check->verified++;
    places[place / 64] |= (uint64_t)1 << place % 64;
    if (!*trusted)
        *trusted =
            places_seen(places) >= u_min32(NIC_RSS_CHECK_PLACES, NIC_RSS_TABLE_SIZE / queues);
    return true;
}
