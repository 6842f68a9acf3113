/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial checksums. A sender on the same machine leaves the TCP or UDP checksum to hardware that a
 * virtual link does not have: the field holds only the sum over the pseudo-header. The kernel marks
 * such packets (CHECKSUM_PARTIAL), but XDP and packet sockets do not pass the mark on.
 */
#ifndef NIC_PARTIAL_CSUM_H
#define NIC_PARTIAL_CSUM_H

#include "ubase/pkt.h"

/*
 * Sets US_PKT_L4_CSUM_GOOD on a received frame whose checksum is partial: it came from memory, not
 * over a wire. Other frames stay as they are, for the stack to check.
 */
void nic_partial_csum_mark(struct us_pkt *pkt);

#endif
