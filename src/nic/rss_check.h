/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a device that promises to spread flows as nic/rss.h does keeps its word, found out by
 * what arrives. What a device was told and says when asked is not yet what it does: drivers swap
 * the bytes of keys, hash other fields, or answer with what they were told.
 *
 * A queue is trusted once flows of several places of the table have come to it and none that
 * belongs elsewhere, for IPv4 and IPv6 each by itself. One frame in the wrong queue ends the trust
 * in all queues for good, since nothing is known of the others any more.
 */
#ifndef NIC_RSS_CHECK_H
#define NIC_RSS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/rss.h"

/*
 * Places of the table that have to be seen, or all of a queue if it has fewer. A device that
 * spreads in another way over two queues gets through with a chance of 2^-8 per queue, and is
 * found out by the frames that are looked at later.
 */
#define NIC_RSS_CHECK_PLACES 8

/* A queue's. All zero at first; belongs to the queue's thread. */
struct nic_rss_check {
    struct {
        uint64_t places[NIC_RSS_TABLE_SIZE / 64]; /* seen */
        bool trusted;
    } family[2]; /* IPv4, IPv6 */
    uint64_t verified;
    uint64_t mismatches;
};

/* Whether frames of TCP in this family are known to be the queue's. */
static inline bool nic_rss_check_trusts(const struct nic_rss_check *check, bool is_ip6)
{
    return check->family[is_ip6].trusted;
}

/*
 * Takes note of a frame of TCP with this hash in the queue of this number, of 1..NIC_RSS_TABLE_SIZE
 * queues. Returns whether it belongs there.
 */
bool nic_rss_check_note(struct nic_rss_check *check, const struct nic_rss_flow *flow, uint32_t hash,
                        unsigned queue, unsigned queues);

#endif
