/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spreads the frames of a device over threads, so that each flow always meets the same one,
 * whatever queue the device puts it into and however few queues there are.
 *
 * Makes `lanes` nics, one for each thread, out of the queues of a device. What nic_rss_lane() says
 * is a lane's is received there: from its own queue, or handed over by the lane that received it.
 * ARP, neighbour and router discovery come to every lane, as copies. A lane without a queue of its
 * own sends through that of another lane, which lends it the empty packets.
 *
 * Threads share nothing but rings of packets, one for each pair and direction. A packet goes back
 * to the lane whose queue it came from before it is released. When a lane is busy for so long that
 * the ring to it is full, frames for it are dropped and counted.
 */
#ifndef NIC_SPREAD_H
#define NIC_SPREAD_H

#include "nic/nic.h"

/*
 * Frames of one lane that may be with another one: those in the ring, and what that lane has in
 * hand.
 */
#define NIC_SPREAD_RING 256

/* lanes is queues..NIC_QUEUES_MAX. lane[] may be queue[]. Owns the queues from then on. */
int nic_spread_open(struct nic *const queue[], unsigned queues, unsigned lanes, struct nic *lane[],
                    char error[NIC_ERROR_MAX]);

#endif
