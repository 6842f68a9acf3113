/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums that nobody has finished. A sender in this machine leaves the checksum of TCP and UDP
 * to the hardware, which on a virtual link does not come: the field holds no more than the sum over
 * the pseudo-header. The kernel knows such a packet by a mark that XDP does not show.
 */
#ifndef NIC_XDP_CSUM_H
#define NIC_XDP_CSUM_H

#include "ubase/pkt.h"

/*
 * Marks a received frame US_PKT_L4_CSUM_GOOD if its checksum is such a one: it came from memory,
 * not over a wire. Any other frame is left for the stack to check.
 */
void nic_xdp_csum_partial(struct us_pkt *pkt);

#endif
