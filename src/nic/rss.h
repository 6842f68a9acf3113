/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which worker a frame belongs to: a function of its addresses and ports, the one that NICs compute
 * to spread flows over their queues (receive side scaling).
 *
 * The hash is Toeplitz's with a key that repeats every 16 bits. So both directions of a flow have
 * the same hash, which lets an ICMP error find the connection that it is about, and the hash
 * depends on the sum (exclusive or) of all 16-bit words only, so in software it is one short table
 * look-up. Its last seven bits choose from a table of 128 entries, which numbers the lanes in turn.
 *
 * What is hashed: TCP and UDP by addresses and ports; ICMP errors by those of the packet that they
 * quote; all else by addresses only. NICs take fragments for such; nic/frag_lanes.h does better.
 */
#ifndef NIC_RSS_H
#define NIC_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ubase/pkt.h"

/* As many as any device takes; the first 40 are those that a flow of IPv6 needs. */
#define NIC_RSS_KEY_BYTES 52

#define NIC_RSS_TABLE_SIZE 128

extern const uint8_t nic_rss_key[NIC_RSS_KEY_BYTES];

/* One end of a flow; ports 0 for what has none. */
struct nic_rss_end {
    uint8_t addr[16]; /* network byte order; IPv4 uses the first four */
    uint16_t port;
};

struct nic_rss_flow {
    bool is_ip6;
    bool has_ports;
    struct nic_rss_end from;
    struct nic_rss_end to;
    uint32_t ident; /* of a fragment: which datagram it is a part of */
    bool is_first;  /* of a fragment: the datagram's beginning */
};

enum nic_rss_kind {
    NIC_RSS_FLOW = 0, /* one lane's: *flow is filled in */
    NIC_RSS_FRAGMENT, /* likewise, with ports in the first fragment only: nic/frag_lanes.h */
    NIC_RSS_ALL,      /* ARP, neighbour and router discovery: every lane has to hear it */
    NIC_RSS_OTHER     /* not IP, or malformed: any lane may drop and count it */
};

/* The hash for any key; it has at least input_bytes + 4 bytes. */
uint32_t nic_rss_toeplitz(const uint8_t *key, const uint8_t *input, size_t input_bytes);

/* The hash of a flow with nic_rss_key. */
uint32_t nic_rss_hash(const struct nic_rss_flow *flow);

/* Looks at the headers of a received frame, a VLAN tag and extension headers of IPv6 included. */
enum nic_rss_kind nic_rss_classify(const struct us_pkt *pkt, struct nic_rss_flow *flow);

/* The entry of the table at a place (0..NIC_RSS_TABLE_SIZE-1), for programming a device. */
static inline unsigned nic_rss_table(unsigned place, unsigned lanes)
{
    return place % lanes;
}

/* The lane of a hash among 1..NIC_RSS_TABLE_SIZE lanes. */
static inline unsigned nic_rss_lane(uint32_t hash, unsigned lanes)
{
    return nic_rss_table(hash % NIC_RSS_TABLE_SIZE, lanes);
}

#endif
