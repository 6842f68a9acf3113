/* SPDX-License-Identifier: BSD-3-Clause */
/* Partial checksums; see partial_csum.h. */
#include "nic/partial_csum.h"

#include "base/cksum.h"
#include "nic/l4.h"

/* Offset of the checksum in the TCP and the UDP header. */
enum { TCP_CSUM_AT = 16, UDP_CSUM_AT = 6 };

void nic_partial_csum_mark(struct us_pkt *pkt)
{
    struct nic_l4 l4;
    unsigned at;

    if (!nic_l4_find(pkt->data, pkt->len, &l4) || l4.bytes > pkt->len - l4.l4_at ||
        (l4.protocol != NIC_PROTOCOL_TCP && l4.protocol != NIC_PROTOCOL_UDP))
        return;
    at = l4.protocol == NIC_PROTOCOL_TCP ? TCP_CSUM_AT : UDP_CSUM_AT;
    if (l4.bytes >= at + 2 &&
        nic_get16(pkt->data + l4.l4_at + at) == u_cksum_partial(nic_l4_pseudo_sum(pkt->data, &l4)))
        pkt->flags |= US_PKT_L4_CSUM_GOOD;
}
