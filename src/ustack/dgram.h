/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams on their way out: what IP is to carry without a connection. A datagram is copied into
 * blocks of the buffer pool when it is made, waits for its next hop if need be, and is gone when
 * its frame is built, or the last of them: what is larger than the MTU goes out in fragments. Their
 * number is bounded by the configuration.
 */
#ifndef USTACK_DGRAM_H
#define USTACK_DGRAM_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/addr.h"
#include "ustack/eth.h"
#include "ustack/pool.h"

struct us_chunk;
struct us_pkt;
struct us_rx;
struct us_stack;

struct us_dgram {
    struct u_list link;    /* in us_dgram_queue.ready, or in us_neighbour.dgrams */
    struct us_chunk *body; /* what stands behind the IP header: a list of blocks */
    struct us_chunk *last;
    u_u32 bytes;        /* of the datagram */
    u_u32 sent;         /* of these, in fragments; they are gone from the body */
    u_u32 ident;        /* of the fragments */
    u_u32 src_ip;       /* an address of ours */
    u_u32 dst_ip;       /* us_ip.id */
    struct us_ip6 dst6; /* with is_ip6 */
    u_u8 is_ip6;
    u_u8 protocol;
    u_u8 has_l2;            /* goes to where the question came from; otherwise by the route */
    u_u8 l2[US_L2_HDR_MAX]; /* with has_l2: the Ethernet header */
};

struct us_dgram_queue {
    struct us_pool pool;
    struct u_list ready; /* to be sent, or to be asked the next hop for */
    u_u32 cut;           /* datagrams that were sent in fragments */
};

/* An empty datagram. Null, and counted, if config.datagram_max are in use. */
struct us_dgram *us_dgram_new(struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                              unsigned protocol);

/* The same for the answer to a packet, to the MAC address that it came from. */
struct us_dgram *us_dgram_answer(struct us_stack *stack, const struct us_rx *rx, unsigned protocol);

/*
 * Appends bytes. Returns 1; or 0 if the buffer pool is empty: then the datagram has been given
 * back and counted as dropped.
 */
int us_dgram_append(struct us_stack *stack, struct us_dgram *dgram, const void *data, u_u32 len);

/*
 * Writes the checksum of all bytes, and of the pseudo-header where the protocol has one, into the
 * 16-bit field at this offset, which is 0 so far. A checksum of 0 is written as 0xffff for UDP.
 */
void us_dgram_checksum(struct us_stack *stack, struct us_dgram *dgram, unsigned offset);

/* Hands a complete datagram to us_output(). */
void us_dgram_queue(struct us_stack *stack, struct us_dgram *dgram);

/* Builds the next frame of the next datagram that can be sent. Returns 0 if there is none. */
int us_dgram_output(struct us_stack *stack, struct us_pkt *pkt);

/* The next hop of the datagrams on this list has an address now. */
void us_dgram_reachable(struct us_stack *stack, struct u_list *waiting);

/* The next hop of the datagrams on this list does not answer: they are dropped. */
void us_dgram_unreachable(struct us_stack *stack, struct u_list *waiting);

#endif
