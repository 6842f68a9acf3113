/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Software flow steering: delivers the frames of a device to threads, so that all frames of a flow
 * reach the same thread, independent of the queue that the device receives them in and of the
 * number of queues.
 *
 * A lane is the struct nic of one thread. nic_rss_lane() assigns each flow to a lane. A lane
 * receives its frames from its own queue, and from other lanes that received them. ARP, neighbour
 * and router discovery are copied to every lane. A lane without a queue sends through the queue of
 * another lane, which supplies it with empty packets.
 *
 * Lanes share only rings of packets, two per pair. A packet returns to the lane whose queue it came
 * from before it is released. While the ring to a lane is full, frames for it are dropped and
 * counted.
 */
#ifndef NIC_STEER_H
#define NIC_STEER_H

#include "nic/nic.h"

/* Frames of one lane that may be in the ring to another lane. */
#define NIC_STEER_RING_FRAMES 256

/*
 * Makes `lanes` lanes of the queues of a device; queues <= lanes <= NIC_QUEUES_MAX. lane[] may be
 * the array queue[]. Owns the queues on success. Returns 0, or -1 with a message.
 */
int nic_steer_open(struct nic *const queue[], unsigned queues, unsigned lanes, struct nic *lane[],
                   char error[NIC_ERROR_MAX]);

#endif
