/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of outgoing UDP datagrams and ICMP messages. A datagram is copied into blocks of the
 * buffer pool, waits for the resolution of its next hop, and is freed when its last frame is built:
 * one larger than the MTU is sent in fragments. config.datagram_max bounds their number.
 */
#ifndef USTACK_IP_DATAGRAM_QUEUE_H
#define USTACK_IP_DATAGRAM_QUEUE_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/core/object_pool.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/eth.h"

struct us_chunk;
struct us_pkt;
struct us_rx;
struct us_stack;

struct us_dgram {
    struct u_list link;    /* in us_dgram_queue.ready, or in us_neighbour.dgrams */
    struct us_chunk *body; /* the payload of IP: a list of blocks */
    struct us_chunk *last;
    u_u32 bytes;        /* of the whole body */
    u_u32 sent;         /* of these, sent in fragments and freed */
    u_u32 ident;        /* of the fragments */
    u_u32 src_ip;       /* id of the local address */
    u_u32 dst_ip;       /* us_ip.id */
    struct us_ip6 dst6; /* with is_ip6 */
    u_u8 is_ip6;
    u_u8 protocol;
    u_u8 has_l2;            /* sent with header l2; otherwise by the route */
    u_u8 l2[US_L2_HDR_MAX]; /* with has_l2: the Ethernet header */
};

struct us_dgram_queue {
    struct us_pool pool;
    struct u_list ready; /* to be sent, or next hop not looked up yet */
    u_u32 cut;           /* datagrams sent in fragments, in total */
};

/* Takes an empty datagram. Returns null, and counts it, if config.datagram_max are in use. */
struct us_dgram *us_dgram_new(struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                              unsigned protocol);

/* The same for a reply to a packet, sent to its source MAC address. */
struct us_dgram *us_dgram_new_reply(struct us_stack *stack, const struct us_rx *rx,
                                    unsigned protocol);

/* Makes the destination a MAC address instead of the next hop of the route. */
void us_dgram_set_l2(const struct us_stack *stack, struct us_dgram *dgram, const u_u8 *mac);

/*
 * Appends bytes and returns 1. If the buffers are exhausted it frees the datagram, counts it as
 * dropped and returns 0.
 */
int us_dgram_append(struct us_stack *stack, struct us_dgram *dgram, const void *data, u_u32 len);

/*
 * Writes the checksum of all bytes, and of the pseudo-header unless the protocol is ICMP for IPv4,
 * into the 16-bit field at `offset`, which holds 0. UDP: 0xffff for 0.
 */
void us_dgram_checksum(struct us_stack *stack, struct us_dgram *dgram, unsigned offset);

/* Queues a complete datagram for us_output(). */
void us_dgram_queue(struct us_stack *stack, struct us_dgram *dgram);

/* Builds the next frame of the next datagram with a resolved next hop. Returns 0 if none. */
int us_dgram_output(struct us_stack *stack, struct us_pkt *pkt);

/* Queues the datagrams of a list, whose next hop is resolved now. */
void us_dgram_reachable(struct us_stack *stack, struct u_list *waiting);

/* Drops the datagrams of a list, whose next hop does not answer. */
void us_dgram_unreachable(struct us_stack *stack, struct u_list *waiting);

#endif
