/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive side scaling (RSS): the lane that a frame belongs to, computed from its addresses and
 * ports as NICs do to spread flows over queues. A lane is the nic of one worker thread
 * (nic/steer.h).
 *
 * The hash is Toeplitz's with a random key: a peer that knew the key could choose addresses and
 * ports so that all its connections load the same worker. The last seven bits of the hash index an
 * indirection table of 128 entries, which assigns lanes round-robin.
 *
 * Hash input: TCP and UDP by addresses and ports; ICMP errors by those of the quoted packet, with
 * its ends swapped; everything else by addresses only. NICs hash fragments by addresses only;
 * nic/frag_steer.h assigns them to the lane of their flow.
 */
#ifndef NIC_RSS_H
#define NIC_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ubase/pkt.h"

/* The largest key of any device; IPv6 flows need the first 40 bytes. */
#define NIC_RSS_KEY_BYTES 52

#define NIC_RSS_TABLE_SIZE 128

/* The key in use: a fixed default until nic_rss_key_choose(). */
extern uint8_t nic_rss_key[NIC_RSS_KEY_BYTES];

#define NIC_RSS_SECRET_BYTES 16

/*
 * Derives the key from random bytes, before any device is opened and any thread runs. Every key has
 * this property: 128 connections of one client from consecutive ports, the first one a multiple of
 * 128, map to 128 different entries of the table.
 */
void nic_rss_key_choose(const uint8_t secret[NIC_RSS_SECRET_BYTES]);

/* One end of a flow; the port is 0 for protocols without ports. */
struct nic_rss_end {
    uint8_t addr[16]; /* network byte order; IPv4: the first four, others not set */
    uint16_t port;
};

struct nic_rss_flow {
    bool is_ip6;
    bool has_ports;
    struct nic_rss_end from;
    struct nic_rss_end to;
    uint32_t ident; /* of a fragment: the datagram's identification */
    bool is_first;  /* of a fragment: it is the datagram's first */
};

enum nic_rss_kind {
    NIC_RSS_FLOW = 0,  /* belongs to the lane of *flow */
    NIC_RSS_FRAGMENT,  /* a fragment: *flow has ports in the first one only (nic/frag_steer.h) */
    NIC_RSS_BROADCAST, /* ARP, neighbour and router discovery: for every lane */
    NIC_RSS_OTHER      /* not IP, or malformed: any lane drops and counts it */
};

/* The Toeplitz hash with any key of at least input_bytes + 4 bytes. */
uint32_t nic_rss_toeplitz(const uint8_t *key, const uint8_t *input, size_t input_bytes);

/* The hash of a received packet's flow with nic_rss_key; `to` is the local end. */
uint32_t nic_rss_hash(const struct nic_rss_flow *flow);

/* Classifies a received frame by its headers; skips a VLAN tag and IPv6 extension headers. */
enum nic_rss_kind nic_rss_classify(const struct us_pkt *pkt, struct nic_rss_flow *flow);

/* The lane in entry 0..NIC_RSS_TABLE_SIZE-1 of the indirection table. */
static inline unsigned nic_rss_table(unsigned entry, unsigned lanes)
{
    return entry % lanes;
}

/* The lane of a hash among 1..NIC_RSS_TABLE_SIZE lanes. */
static inline unsigned nic_rss_lane(uint32_t hash, unsigned lanes)
{
    return nic_rss_table(hash % NIC_RSS_TABLE_SIZE, lanes);
}

#endif
