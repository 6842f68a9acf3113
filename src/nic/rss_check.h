/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verifies the RSS of a device: whether received TCP frames arrive in the queue that nic/rss.h
 * computes. Drivers may swap the bytes of the key, hash other fields, or return the configured
 * values without using them.
 *
 * A queue is trusted once flows of several table entries arrived in it and no frame that belongs to
 * another queue, for IPv4 and IPv6 separately. One frame in the wrong queue permanently ends the
 * trust in all queues, since the device's mapping is then unknown.
 */
#ifndef NIC_RSS_CHECK_H
#define NIC_RSS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/rss.h"

/*
 * Table entries that must be seen, or all entries of a queue if it has fewer. A device that spreads
 * differently over two queues passes with a probability of 2^-8 per queue; later checks detect it.
 */
#define NIC_RSS_CHECK_ENTRIES 8

/* State of one queue; starts as all zero; used by the queue's thread. */
struct nic_rss_check {
    struct {
        uint64_t entries[NIC_RSS_TABLE_SIZE / 64]; /* seen */
        bool trusted;
    } family[2]; /* IPv4, IPv6 */
    uint64_t verified;
    uint64_t mismatches;
};

/* Whether TCP frames of this family are trusted to be in the right queue. */
static inline bool nic_rss_check_is_trusted(const struct nic_rss_check *check, bool is_ip6)
{
    return check->family[is_ip6].trusted;
}

/*
 * Records a TCP frame with this hash, received in a queue with this index of 1..NIC_RSS_TABLE_SIZE
 * queues. Returns whether it belongs there.
 */
bool nic_rss_check_record(struct nic_rss_check *check, const struct nic_rss_flow *flow,
                          uint32_t hash, unsigned queue, unsigned queues);

#endif
