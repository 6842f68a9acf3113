/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steers IP fragments to lanes. Only the first fragment of a datagram contains the ports, so the
 * lane of its flow is stored for the other fragments, and fragments that arrive before it wait.
 * Reassembly is done by the lane's stack.
 *
 * The table is bounded: a new datagram replaces the oldest one, whose waiting fragments are
 * dropped.
 */
#ifndef NIC_FRAG_STEER_H
#define NIC_FRAG_STEER_H

#include "nic/rss.h"

#define NIC_FRAG_DATAGRAMS_MAX 16
#define NIC_FRAG_WAITING_MAX 48 /* per datagram: 64 KiB in Ethernet packets */

struct nic_frag_datagram {
    bool used;
    bool lane_known;
    struct nic_rss_flow flow;
    unsigned lane;
    unsigned waiting_count;
    struct us_pkt *waiting[NIC_FRAG_WAITING_MAX];
};

/* All zero: empty. */
struct nic_frag_steer {
    unsigned next; /* index of the oldest entry */
    struct nic_frag_datagram datagrams[NIC_FRAG_DATAGRAMS_MAX];
};

/* The packets to forward and to drop after a fragment was added. */
struct nic_frag_result {
    unsigned lane;
    unsigned ready_count; /* for that lane, in order of arrival */
    struct us_pkt *ready[NIC_FRAG_WAITING_MAX + 1];
    unsigned dropped_count; /* to be released */
    struct us_pkt *dropped[NIC_FRAG_WAITING_MAX + 1];
};

/* Adds a fragment that nic_rss_classify() classified as NIC_RSS_FRAGMENT. */
void nic_frag_steer_add(struct nic_frag_steer *frags, const struct nic_rss_flow *flow,
                        struct us_pkt *pkt, unsigned lanes, struct nic_frag_result *sorted);

/* Removes one waiting fragment; null if there is none. */
struct us_pkt *nic_frag_steer_pop(struct nic_frag_steer *frags);

#endif
