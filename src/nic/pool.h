/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of packets, each a struct us_pkt with one buffer, for back ends without packet memory of
 * their own.
 *
 * All memory is allocated once. A pool is used by one thread at a time. Releasing a packet twice,
 * or to another pool, fails an assertion. With AddressSanitizer, access to a released packet is an
 * error.
 */
#ifndef NIC_POOL_H
#define NIC_POOL_H

#include <stdint.h>

#include "ubase/pkt.h"

/* The range of MTUs that all back ends accept; as in ustack.h. */
#define NIC_MTU_MIN 576
#define NIC_MTU_MAX 9216
#define NIC_MTU_DEFAULT 1500

#define NIC_ETH_HEADER_BYTES 14

/* Free bytes before the data of an empty packet, for one more header. */
#define NIC_POOL_HEADROOM_BYTES 64

struct nic_pool;

/*
 * Allocates `count` packets (1 or more) with room for an IP packet of `mtu` bytes, its Ethernet
 * header, a VLAN tag, and at least one more byte: a received frame that fills all the room was
 * truncated. Returns null if there is no memory.
 */
struct nic_pool *nic_pool_create(unsigned count, uint32_t mtu);

/*
 * The same in memory of the caller, which outlives the pool: `count` buffers of `buffer_bytes`,
 * contiguous. Returns null if there is no memory.
 */
struct nic_pool *nic_pool_create_on(void *buffers, unsigned count, uint32_t buffer_bytes);

/* The index of a packet and of its buffer, 0..count-1, and the packet with an index. */
unsigned nic_pool_number(const struct nic_pool *pool, const struct us_pkt *pkt);
struct us_pkt *nic_pool_at(const struct nic_pool *pool, unsigned number);

/* Frees all packets, those in use included. Null is allowed. */
void nic_pool_destroy(struct nic_pool *pool);

/* Takes up to n empty packets. Returns how many; fewer than n counts as an exhaustion. */
unsigned nic_pool_alloc(struct nic_pool *pool, struct us_pkt **pkts, unsigned n);

/* Returns packets to the pool they were taken from. */
void nic_pool_release(struct nic_pool *pool, struct us_pkt *const *pkts, unsigned n);

/* How often the pool had fewer packets than requested. */
uint64_t nic_pool_exhausted(const struct nic_pool *pool);

/* Packets in use. */
unsigned nic_pool_in_use(const struct nic_pool *pool);

#endif
