/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the TCP or UDP header of a frame, for back ends that process checksums or segments. */
#ifndef NIC_L4_H
#define NIC_L4_H

#include "nic/nic.h"

enum { NIC_PROTOCOL_TCP = 6, NIC_PROTOCOL_UDP = 17 };

struct nic_l4 {
    bool is_ip6;
    uint8_t protocol;
    uint16_t l3_at; /* offset of the IP header in the frame */
    uint16_t l4_at; /* offset of the TCP or UDP header */
    uint32_t bytes; /* of TCP or UDP header and payload, by the length in the IP header */
};

/*
 * Looks at the first `len` bytes of a frame, with at most one VLAN tag. Returns false unless it is
 * an IPv4 or IPv6 packet without extension headers that is no fragment and whose IP header lies in
 * these bytes.
 */
bool nic_l4_find(const uint8_t *data, uint32_t len, struct nic_l4 *l4);

/* The sum over the pseudo-header, as u_cksum_pseudo4() and u_cksum_pseudo6() return it. */
uint32_t nic_l4_pseudo_sum(const uint8_t *data, const struct nic_l4 *l4);

static inline unsigned nic_get16(const uint8_t *from)
{
    return (unsigned)from[0] << 8 | from[1];
}

static inline void nic_put16(uint8_t *to, unsigned value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

#endif
