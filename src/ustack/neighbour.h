/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbour cache, one for both families: which MAC address belongs to an address on the link.
 * arp.c and nd.c ask and answer on the wire.
 *
 * An entry is asked for when somebody wants to send to it. What waits for the answer are
 * connections, on the entry's own list (they have no frame that would need storing), and datagrams,
 * whose number is bounded. The table is bounded by the configuration; of the entries that nobody
 * waits for the one that was confirmed longest ago makes room. An entry that has reached its
 * lifetime stays in use while it is asked for again, by unicast first, and disappears only if
 * nobody answers (RFC 1122 2.3.2.1, RFC 4861 7.3).
 *
 * What was only heard and never used by us (US_NEIGHBOUR_LEARNED) may fill a part of the table and
 * replaces nothing but its like: a flood of invented hosts can't drive out those that we talk to.
 */
#ifndef USTACK_NEIGHBOUR_H
#define USTACK_NEIGHBOUR_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/addr.h"
#include "ustack/eth.h"
#include "ustack/pool.h"
#include "ustack/timer.h"

struct us_pkt;
struct us_stack;

enum {
    US_NEIGHBOUR_TRIES_MAX = 3,
    US_NEIGHBOUR_FIRST_RETRY_US = 1000 * 1000,
    US_NEIGHBOUR_DELAY_US = 5 * 1000 * 1000 /* RFC 4861 section 10: DELAY_FIRST_PROBE_TIME */
};

/*
 * What the fast path compares of the type of service: the lower bit of ECN, which is that of CE,
 * and of ECT(1), for which there is no use here.
 */
enum { US_TOS_COMPARED = 0x01, US_TOS_NEVER = 0xff };

enum us_neighbour_state {
    US_NEIGHBOUR_ASKING,  /* no address yet */
    US_NEIGHBOUR_LEARNED, /* heard of, not used yet */
    US_NEIGHBOUR_VALID,
    US_NEIGHBOUR_REFRESH /* has an address that is in use and is being asked for again */
};

struct us_neighbour {
    struct us_neighbour *hash_next;
    u_u32 id;     /* us_ip.id */
    u_u32 serial; /* no other entry ever has this number */
    struct us_ip6 six;
    u_u8 is_ip6;
    u_u8 state;             /* enum us_neighbour_state */
    u_u8 tries;             /* requests sent since the question came up */
    u_u8 l2[US_L2_HDR_MAX]; /* the Ethernet header to it; its MAC address comes first */
    /*
     * How frames from it begin, up to the version and the type of service of IPv4; zeros if its
     * address is no host's. Where frames do not begin so the last byte is one that
     * US_TOS_COMPARED never leaves.
     */
    u_u8 l2_in[US_ETH_HDR_BYTES + 2];
    u_u64 confirmed_us;
    struct us_timer timer;  /* the next request, or the end of hope */
    struct u_list age_link; /* in us_neighbours.by_age or .learned */
    struct u_list ask_link; /* in us_neighbours.asks while a request is to be sent */
    struct u_list waiting;  /* connections, through their out_link */
    struct u_list dgrams;   /* datagrams, likewise */
};

struct us_neighbours {
    struct us_pool pool;
    struct us_neighbour **table;
    u_u32 mask;
    u_u32 serial;          /* of the last entry made */
    u_u32 learned_count;   /* on `learned` */
    struct u_list by_age;  /* those with an address in use, the one confirmed longest ago first */
    struct u_list learned; /* those only heard of, oldest first */
    struct u_list asks;    /* entries with a request to send */
};

/*
 * The entry for an address on the link, made and asked for if there is none. Null if the table is
 * full of entries that are being asked for.
 */
struct us_neighbour *us_neighbour_want(struct us_stack *stack, struct us_ip ip);

/* The entry for an address, or null. */
struct us_neighbour *us_neighbour_find(const struct us_stack *stack, struct us_ip ip);

/* Its address. */
struct us_ip us_neighbour_ip(const struct us_neighbour *neighbour);

/*
 * A frame from a neighbour carried this pair of addresses. `trusted`: it was a valid segment of a
 * connection, so it may change what is known (RFC 1122 2.3.2.1: the address of a next hop can
 * change); otherwise it only adds what was unknown. What is no neighbour's address is ignored.
 */
void us_neighbour_learn(struct us_stack *stack, struct us_ip ip, const u_u8 *mac, int trusted);

/* A neighbour itself has told its address, newly or again. */
void us_neighbour_confirm(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac);

/*
 * Nothing that is sent there seems to arrive: asks whether the address is still right, once until
 * the answer comes. Frames are sent to the old address meanwhile.
 */
void us_neighbour_doubt(struct us_stack *stack, struct us_neighbour *neighbour);

/* Whether frames can be sent to it now. Starts to ask again if its lifetime is over. */
int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour);

/* Routes have changed: connections and datagrams look for their next hop anew. */
void us_neighbour_reroute(struct us_stack *stack);

/* Its timer has expired. */
void us_neighbour_timer(struct us_stack *stack, struct us_neighbour *neighbour);

/* Builds one request that is due into an empty packet. Returns 0 if there is none. */
int us_neighbour_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
