/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour discovery (RFC 4861) and our own IPv6 addresses (RFC 4862): who has which address on
 * the link, whether somebody else has one of ours, and which routers there are.
 */
#ifndef USTACK_ND_H
#define USTACK_ND_H

#include "ustack/addr.h"
#include "ustack/mld.h"
#include "ustack/timer.h"

struct us_pkt;
struct us_reply;
struct us_rx;
struct us_stack;

enum {
    US_ROUTERS_MAX = 4,
    US_PREFIXES_MAX = 8,
    US_ND_HOP_LIMIT = 255,         /* RFC 4861 3.1: so no router has passed it on */
    US_ND_RETRANS_US = 1000 * 1000 /* RFC 4861 section 10: RETRANS_TIMER */
};

struct us_router {
    struct us_ip6 addr;
    u_u64 until_us; /* 0: nothing is here; US_NEVER: set by us_gateway_set() */
};

/* A network that is on the link because a router says so. */
struct us_prefix {
    struct us_ip6 addr;
    u_u64 until_us; /* 0: nothing is here */
    u_u8 prefix_len;
};

struct us_nd {
    u_u8 enabled;   /* there is an IPv6 address */
    u_u8 hop_limit; /* of what we send */
    struct us_local6 locals[US_LOCAL6_MAX];
    struct us_router routers[US_ROUTERS_MAX];
    unsigned router_first; /* where the choice of a router begins */
    struct us_prefix prefixes[US_PREFIXES_MAX];
    u_u32 mtu;          /* of IPv6 on this link: config.mtu, or what a router says */
    u_u8 solicits_left; /* of routers, still to be sent */
    u_u8 solicit_due;   /* one is to be sent now */
    u_u64 solicit_us;   /* when the next one is */
    struct us_mld mld;
    u_u32 probes_due;      /* bit i: a probe for a duplicate of locals[i] is to be sent */
    u_u32 adverts_due;     /* bit i: locals[i] is to be announced */
    struct us_timer timer; /* the next thing that any of the above has to do */
};

void us_nd_init(struct us_stack *stack);

/* us_addr_add() for IPv6. Turns IPv6 on, with a link-local address, if it is the first. */
int us_nd_addr_add(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len);

/* us_gateway_set() for IPv6. */
void us_nd_gateway_set(struct us_stack *stack, const struct us_ip6 *addr);

/* The router to use now, or null. */
const struct us_ip6 *us_nd_router(const struct us_stack *stack);

/* This neighbour does not answer: if it is a router another one has its turn. */
void us_nd_router_failed(struct us_stack *stack, const struct us_ip6 *addr);

/* This neighbour says that it is no router: RFC 4861 7.2.5. */
void us_nd_router_gone(struct us_stack *stack, const struct us_ip6 *addr);

/* Somebody else has the tentative address at this place: it is not used. */
void us_nd_duplicate(struct us_stack *stack, u_u32 index);

/* Makes an address of ours; *index: its place. Returns 0 or US_ERR_NO_MEMORY. */
int us_nd_addr_make(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len,
                    u_u32 *index);

/* The link-local address that is made of our MAC address. */
struct us_ip6 us_nd_link_local(const struct us_stack *stack);

/* Our link-local address if it can be used, otherwise ::. What RFC 3590 wants for reports. */
const struct us_ip6 *us_nd_link_local_source(const struct us_stack *stack);

/* Whether a router says that an address is on the link. */
int us_nd_prefix_is_on_link(const struct us_stack *stack, const struct us_ip6 *addr);

/* A neighbour has told its MAC address without being asked (RFC 4861 7.2.3, 6.2.6). */
void us_nd_heard(struct us_stack *stack, struct us_ip ip, const u_u8 *mac);

/* A received router advertisement. */
void us_nd_router_input(struct us_stack *stack, const struct us_rx *rx);

/* Forgets routers and prefixes whose time is over; when the next one's is. */
void us_nd_router_expire(struct us_stack *stack);
u_u64 us_nd_router_next_us(const struct us_stack *stack);

/* Sets the timer for whatever comes next. */
void us_nd_reschedule(struct us_stack *stack);

/* Received neighbour solicitations and advertisements; rx->l4 is the ICMP header. */
void us_nd_solicit_input(struct us_stack *stack, const struct us_rx *rx);
void us_nd_advert_input(struct us_stack *stack, const struct us_rx *rx);

/* Builds a solicitation of a neighbour, to its MAC address or, if null, to its group. */
void us_nd_build_solicit(struct us_stack *stack, struct us_pkt *pkt, const struct us_ip6 *target,
                         const u_u8 *mac);

/* Builds the advertisement that a US_REPLY_ADVERT describes. */
void us_nd_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply);

/* Builds a report, a probe, a solicitation of routers or an announcement that is due. Returns 0 if
 * there is none. */
int us_nd_output(struct us_stack *stack, struct us_pkt *pkt);

/* Its timer has expired. */
void us_nd_timer(struct us_stack *stack);

U_INLINE int us_nd_has_output(const struct us_nd *nd)
{
    return (nd->probes_due | nd->adverts_due | nd->solicit_due | nd->mld.joins_due |
            nd->mld.answers_due) != 0;
}

#endif
