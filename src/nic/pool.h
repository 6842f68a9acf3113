/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fixed number of packets, each a struct us_pkt with one buffer behind it, for the back ends
 * that have no packet memory of their own.
 *
 * All memory is allocated once. A pool belongs to one thread at a time. Giving back a packet twice,
 * or to another pool than its own, is a bug of the caller and stops the process. In builds with
 * AddressSanitizer, so does touching the bytes of a packet that has been given back.
 */
#ifndef NIC_POOL_H
#define NIC_POOL_H

#include <stdint.h>

#include "ubase/pkt.h"

/* What every back end of this folder accepts as MTU: the range that ustack.h allows. */
#define NIC_MTU_MIN 576
#define NIC_MTU_MAX 9216
#define NIC_MTU_DEFAULT 1500

#define NIC_ETH_HEADER_BYTES 14

/* Free bytes in front of the data of a fresh packet: room for one more header. */
#define NIC_POOL_HEADROOM_BYTES 64

struct nic_pool;

/*
 * Makes `count` packets (1 or more) with room for an IP packet of `mtu` bytes, its Ethernet
 * header, a VLAN tag, and at least one byte more: a received frame that fills all the room has
 * been cut. Returns null when there is no memory.
 */
struct nic_pool *nic_pool_create(unsigned count, uint32_t mtu);

/*
 * The same on memory of the caller, which outlives the pool: `count` buffers of `buffer_bytes`, one
 * behind the other. Returns null when there is no memory.
 */
struct nic_pool *nic_pool_create_on(void *buffers, unsigned count, uint32_t buffer_bytes);

/* The number of a packet, which is that of its buffer, 0..count-1, and the packet of a number. */
unsigned nic_pool_number(const struct nic_pool *pool, const struct us_pkt *pkt);
struct us_pkt *nic_pool_at(const struct nic_pool *pool, unsigned number);

/* Frees all packets, those still lent too. Null is allowed. */
void nic_pool_destroy(struct nic_pool *pool);

/* Lends up to n empty packets. Returns how many; fewer than n is counted as an exhaustion. */
unsigned nic_pool_take(struct nic_pool *pool, struct us_pkt **pkts, unsigned n);

/* Takes back packets that nic_pool_take() lent. */
void nic_pool_give(struct nic_pool *pool, struct us_pkt *const *pkts, unsigned n);

/* How often nic_pool_take() could not give all that was asked for. */
uint64_t nic_pool_exhausted(const struct nic_pool *pool);

/* Packets that are lent at the moment. */
unsigned nic_pool_lent(const struct nic_pool *pool);

#endif
