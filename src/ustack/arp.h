/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ARP (RFC 826, RFC 5227) and the table of neighbours.
 *
 * An entry is asked for when somebody wants to send to it. What waits for the answer are
 * connections, on the entry's own list: they have no frame that would need storing. The list is
 * bounded by the number of connections, the table by the configuration; of the entries that nobody
 * waits for the one that was confirmed longest ago makes room. An entry that has reached its
 * lifetime stays in use while it is asked for again, and disappears only if nobody answers (RFC
 * 1122 2.3.2.1).
 */
#ifndef USTACK_ARP_H
#define USTACK_ARP_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/pool.h"
#include "ustack/timer.h"

struct us_conn;
struct us_pkt;
struct us_stack;

enum { US_ARP_TRIES_MAX = 3, US_ARP_FIRST_RETRY_US = 1000 * 1000 };

enum us_neighbour_state {
    US_NEIGHBOUR_ASKING, /* no address yet */
    US_NEIGHBOUR_VALID,
    US_NEIGHBOUR_REFRESH /* has an address that is in use and is being asked for again */
};

struct us_neighbour {
    struct us_neighbour *hash_next;
    u_u32 ip;
    u_u8 mac[6];
    u_u8 state; /* enum us_neighbour_state */
    u_u8 tries; /* requests sent since the question came up */
    u_u64 confirmed_us;
    struct us_timer timer;  /* the next request, or the end of hope */
    struct u_list age_link; /* in us_arp.by_age */
    struct u_list ask_link; /* in us_arp.asks while a request is to be sent */
    struct u_list waiting;  /* connections, through their out_link */
    struct u_list dgrams;   /* the same of datagrams */
};

struct us_arp {
    struct us_pool pool;
    struct us_neighbour **table;
    u_u32 mask;
    struct u_list by_age; /* those with an address, the one confirmed longest ago first */
    struct u_list asks;   /* entries with a request to send */
};

/* Handles a received ARP packet of `bytes` bytes behind the Ethernet header. */
void us_arp_input(struct us_stack *stack, const u_u8 *data, u_u32 bytes);

/*
 * The entry for an address on the link, made and asked for if there is none. Null if the table is
 * full of entries that are being asked for.
 */
struct us_neighbour *us_arp_want(struct us_stack *stack, u_u32 ip);

/* The entry for an address, or null. */
struct us_neighbour *us_arp_find(const struct us_stack *stack, u_u32 ip);

/*
 * A frame from a neighbour carried this pair of addresses. `trusted`: it was a valid segment of a
 * connection, so it may change what is known (RFC 1122 2.3.2.1: the address of a next hop can
 * change); otherwise it only adds what was unknown.
 */
void us_arp_learn(struct us_stack *stack, u_u32 ip, const u_u8 *mac, int trusted);

/*
 * Nothing that is sent there seems to arrive: asks whether the address is still right, once until
 * the answer comes. Frames are sent to the old address meanwhile.
 */
void us_arp_doubt(struct us_stack *stack, u_u32 ip);

/* Whether frames can be sent to it now. Starts to ask again if its lifetime is over. */
int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour);

/* Its timer has expired. */
void us_arp_timer(struct us_stack *stack, struct us_neighbour *neighbour);

/* Builds one ARP request that is due into an empty packet. Returns 0 if there is none. */
int us_arp_output(struct us_stack *stack, struct us_pkt *pkt);

/* Builds an ARP reply from src_ip to the host with this pair of addresses. */
void us_arp_build_reply(struct us_stack *stack, struct us_pkt *pkt, u_u32 src_ip, u_u32 dst_ip,
                        const u_u8 *dst_mac);

/* Whether a request is to be sent. */
int us_arp_has_output(const struct us_stack *stack);

#endif
