/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbour cache of both families: MAC addresses of hosts on the link. arp.c and nd.c send and
 * receive its messages.
 *
 * An entry is resolved when a packet is to be sent to it. Connections (which store no frame) and
 * datagrams (a bounded number) wait on lists of the entry. An entry beyond its lifetime stays in
 * use while it is verified, by unicast first, and is removed if no answer comes (RFC 1122 2.3.2.1,
 * RFC 4861 7.3).
 *
 * The table has config.neighbour_max entries. Which entry another one may evict depends on its
 * class (enum us_neighbour_class): packets from forged addresses can neither evict the next hop of
 * a connection nor fill more than a part of the table with unresolved entries.
 */
#ifndef USTACK_IP_NEIGHBOUR_H
#define USTACK_IP_NEIGHBOUR_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/core/object_pool.h"
#include "ustack/core/timer_wheel.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/eth.h"

struct us_pkt;
struct us_stack;

enum {
    US_NEIGHBOUR_TRIES_MAX = 3,
    US_NEIGHBOUR_FIRST_RETRY_US = 1000 * 1000,
    US_NEIGHBOUR_DELAY_US = 5 * 1000 * 1000 /* RFC 4861 section 10: DELAY_FIRST_PROBE_TIME */
};

enum us_neighbour_state {
    US_NEIGHBOUR_INCOMPLETE, /* being resolved */
    US_NEIGHBOUR_STALE,      /* learned from a received packet, not used yet */
    US_NEIGHBOUR_REACHABLE,
    US_NEIGHBOUR_PROBE /* in use, being verified */
};

/* Classes of entries in the order of their eviction. */
enum us_neighbour_class {
    US_NC_STALE,           /* STALE: at most three quarters of the table; evicts only its class */
    US_NC_UNUSED,          /* resolved, no connection */
    US_NC_INCOMPLETE,      /* INCOMPLETE, datagrams only: at most a quarter of the table */
    US_NC_USED,            /* resolved, with connections; evicted only for a connection */
    US_NC_INCOMPLETE_USED, /* INCOMPLETE, with connections; never evicted, ends by its timer */
    US_NC_STATIC,          /* us_neighbour_add(): never evicted */
    US_NEIGHBOUR_CLASSES
};

struct us_neighbour {
    struct us_neighbour *hash_next;
    u_u32 id;     /* us_ip.id */
    u_u32 serial; /* unique; changes when routes change */
    struct us_ip6 six;
    u_u8 is_ip6;
    u_u8 state;             /* enum us_neighbour_state */
    u_u8 list;              /* enum us_neighbour_class: the list of age_link */
    u_u8 tries;             /* requests sent in this state */
    u_u8 l2[US_L2_HDR_MAX]; /* Ethernet header of frames to it; the first 6 bytes are its MAC */
    u_u8 l2_in[US_ETH_HDR_BYTES]; /* the untagged Ethernet header of frames from it */
    u_u8 is_static;               /* its MAC address stays */
    u_u8 has_l2_in;               /* 0: no MAC address yet, or not that of a host */
    u_u64 confirmed_us;
    u_u32 conns;                /* connections whose next hop it is */
    struct us_timer timer;      /* the next request, or the failure */
    struct u_list age_link;     /* in us_neighbours.lists */
    struct u_list request_link; /* in us_neighbours.requests while a request is pending */
    struct u_list waiting;      /* connections, through their out_link */
    struct u_list dgrams;       /* datagrams, through their link */
};

struct us_neighbours {
    struct us_pool pool;
    struct us_neighbour **table;
    u_u32 mask;
    u_u32 serial; /* the last one assigned */
    u_u32 counts[US_NEIGHBOUR_CLASSES];
    struct u_list lists[US_NEIGHBOUR_CLASSES]; /* oldest first */
    struct u_list requests;                    /* entries with a pending request */
};

/* For us_create(). */
void us_neighbours_init(struct us_neighbours *all);

/*
 * The entry of an address on the link, for a datagram; makes one and starts resolution if there is
 * none. Returns null, and counts it, if the table is full.
 */
struct us_neighbour *us_neighbour_resolve(struct us_stack *stack, struct us_ip ip);

/*
 * The same for a connection, which the entry counts until us_neighbour_release(). With
 * neighbour_max >= conn_max it always succeeds.
 */
struct us_neighbour *us_neighbour_acquire(struct us_stack *stack, struct us_ip ip);

/* Undoes us_neighbour_acquire(), if the entry still has the serial that it had then. */
void us_neighbour_release(struct us_stack *stack, struct us_neighbour *neighbour);

/* The entry of an address, or null. */
struct us_neighbour *us_neighbour_find(const struct us_stack *stack, struct us_ip ip);

/* The address of an entry. */
struct us_ip us_neighbour_ip(const struct us_neighbour *neighbour);

/*
 * Learns an address pair from a received frame; ignores addresses that are not on the link.
 * trusted: the frame was a valid segment of a connection, so it may change an entry (RFC 1122
 * 2.3.2.1); otherwise it only adds one.
 */
void us_neighbour_learn(struct us_stack *stack, struct us_ip ip, const u_u8 *mac, int trusted);

/* Confirms or changes an entry by a message of the neighbour itself. */
void us_neighbour_confirm(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac);

/*
 * The same for a message that was not asked for, which any host can send: over IPv6 a changed entry
 * is verified after US_NEIGHBOUR_DELAY_US if it is still in use (RFC 4861 7.2.3, 7.2.5).
 */
void us_neighbour_change(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac);

/* Verifies a reachable entry, because segments seem to be lost. It stays in use meanwhile. */
void us_neighbour_suspect(struct us_stack *stack, struct us_neighbour *neighbour);

/* Whether frames can be sent to it now. Starts verification if its lifetime has passed. */
int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour);

/* After a change of routes: connections and datagrams find their next hop again. */
void us_neighbour_reroute(struct us_stack *stack);

/* us_neighbour.timer has expired. */
void us_neighbour_timer(struct us_stack *stack, struct us_neighbour *neighbour);

/* For us_check(): whether it is on the list of its class. */
int us_neighbour_is_listed(const struct us_neighbour *neighbour);

/* Builds one pending request into an empty packet. Returns 0 if there is none. */
int us_neighbour_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
