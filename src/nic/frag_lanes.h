/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lane of a fragment. Only the first fragment of a datagram has ports, and with them the lane
 * of its flow, so that lane is remembered for the others, and those that come before it wait. What
 * is put together in the end is the business of the lane's stack.
 *
 * Bounded: the datagram that was begun longest ago makes room for a new one, and what waited for
 * its first fragment is given up.
 */
#ifndef NIC_FRAG_LANES_H
#define NIC_FRAG_LANES_H

#include "nic/rss.h"

#define NIC_FRAG_DATAGRAMS_MAX 16
#define NIC_FRAG_WAITING_MAX 48 /* of one datagram: 64 KiB in an Ethernet's packets */

struct nic_frag_datagram {
    bool used;
    bool lane_known;
    struct nic_rss_flow flow;
    unsigned lane;
    unsigned waiting_count;
    struct us_pkt *waiting[NIC_FRAG_WAITING_MAX];
};

/* All zero: empty. */
struct nic_frag_lanes {
    unsigned next; /* the oldest place */
    struct nic_frag_datagram datagrams[NIC_FRAG_DATAGRAMS_MAX];
};

/* What becomes of packets that were given to nic_frag_lanes_sort(), the newest one included. */
struct nic_frag_sorted {
    unsigned lane;
    unsigned ready_count; /* to go to that lane, in order of arrival */
    struct us_pkt *ready[NIC_FRAG_WAITING_MAX + 1];
    unsigned dropped_count; /* given up */
    struct us_pkt *dropped[NIC_FRAG_WAITING_MAX + 1];
};

/* Takes a fragment as nic_rss_classify() sees it. */
void nic_frag_lanes_sort(struct nic_frag_lanes *frags, const struct nic_rss_flow *flow,
                         struct us_pkt *pkt, unsigned lanes, struct nic_frag_sorted *sorted);

/* Takes out one that waits, or returns null. */
struct us_pkt *nic_frag_lanes_take(struct nic_frag_lanes *frags);

#endif
