/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large segments to the guest of a vhost device. The driver does not offer TSO, because the guest
 * decides about it after the device was configured. The vhost library passes a large segment on
 * unsegmented, with the virtio header for it, if the guest has negotiated the features below.
 */
#include <linux/virtio_net.h>
#include <rte_eth_vhost.h>

#include "nic/dpdk_port.h"

/*
 * Features that the guest must have negotiated: mergeable receive buffers, partial checksums, TSO
 * for IPv4 and IPv6.
 */
static const uint64_t large_features =
    1ull << VIRTIO_NET_F_MRG_RXBUF | 1ull << VIRTIO_NET_F_GUEST_CSUM |
    1ull << VIRTIO_NET_F_GUEST_TSO4 | 1ull << VIRTIO_NET_F_GUEST_TSO6;

/* A segment larger than the ring would block it: 64 KiB in buffers of 512 bytes. */
#define RING_MIN 128

/* The first virtqueue is the guest's receive queue. */
#define GUEST_RX 0

bool dpdk_vhost_takes_large(uint16_t port_id)
{
    int vid = rte_eth_vhost_get_vid_from_port_id(port_id);
    struct rte_vhost_vring ring;
    uint64_t features;

    return vid >= 0 && rte_vhost_get_negotiated_features(vid, &features) == 0 &&
           (features & large_features) == large_features &&
           rte_vhost_get_vhost_vring(vid, GUEST_RX, &ring) == 0 && ring.size > RING_MIN;
}
