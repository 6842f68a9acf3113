/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour discovery (RFC 4861) and local IPv6 addresses (RFC 4862): resolution, duplicate address
 * detection, router discovery and autoconfiguration. nd.c has the messages, nd_addr.c the
 * local addresses, nd_router.c routers and prefixes.
 */
#ifndef USTACK_IP_ND_H
#define USTACK_IP_ND_H

#include "ustack/core/timer_wheel.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/mld.h"

struct us_pkt;
struct us_reply;
struct us_rx;
struct us_stack;

enum {
    US_ROUTERS_MAX = 4,
    US_PREFIXES_MAX = 8,
    US_ND_HOP_LIMIT = 255,         /* RFC 4861 3.1: not forwarded by a router */
    US_ND_RETRANS_US = 1000 * 1000 /* RFC 4861 section 10: RETRANS_TIMER */
};

struct us_router {
    struct us_ip6 addr;
    u_u64 until_us; /* 0: unused; US_NEVER: set by us_gateway_set() */
};

/* An on-link prefix advertised by a router. */
struct us_prefix {
    struct us_ip6 addr;
    u_u64 until_us; /* 0: unused */
    u_u8 prefix_len;
};

struct us_nd {
    u_u8 enabled;   /* IPv6 is in use */
    u_u8 hop_limit; /* of packets sent */
    struct us_local6 locals[US_LOCAL6_MAX];
    struct us_router routers[US_ROUTERS_MAX];
    unsigned router_first; /* index of the preferred router */
    struct us_prefix prefixes[US_PREFIXES_MAX];
    u_u32 mtu;          /* of IPv6 on this link: config.mtu, or less if a router advertises it */
    u_u8 solicits_left; /* router solicitations still to be sent */
    u_u8 solicit_due;   /* 1: a router solicitation is pending */
    u_u64 solicit_us;   /* time of the next one */
    struct us_mld mld;
    u_u32 probes_due;      /* bit i: a duplicate detection probe for locals[i] is pending */
    u_u32 adverts_due;     /* bit i: an announcement of locals[i] is pending */
    struct us_timer timer; /* the earliest time above, and of mld */
};

void us_nd_init(struct us_stack *stack);

/* us_addr_add() for IPv6. The first one enables IPv6 and adds a link-local address. */
int us_nd_addr_add(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len);

/* us_gateway_set() for IPv6. */
void us_nd_gateway_set(struct us_stack *stack, const struct us_ip6 *addr);

/* The current default router, or null. */
const struct us_ip6 *us_nd_router(const struct us_stack *stack);

/* A neighbour does not answer: if it is a router, the next one becomes the default. */
void us_nd_router_failed(struct us_stack *stack, const struct us_ip6 *addr);

/* A neighbour advertises that it is no router: RFC 4861 7.2.5. */
void us_nd_router_gone(struct us_stack *stack, const struct us_ip6 *addr);

/* Another host has tentative address locals[index]: marks it as a duplicate. */
void us_nd_duplicate(struct us_stack *stack, u_u32 index);

/* Adds a local address and sets *index to its index. Returns 0 or US_ERR_NO_MEMORY. */
int us_nd_addr_make(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len,
                    u_u32 *index);

/* The link-local address made of config.mac. */
struct us_ip6 us_nd_link_local(const struct us_stack *stack);

/* The usable link-local address, otherwise ::; RFC 3590 requires it of MLD reports. */
const struct us_ip6 *us_nd_link_local_source(const struct us_stack *stack);

/* Whether an address is in an advertised on-link prefix. */
int us_nd_prefix_is_on_link(const struct us_stack *stack, const struct us_ip6 *addr);

/* Learns the MAC address of an unsolicited message (RFC 4861 7.2.3, 6.2.6). */
void us_nd_learn_mac(struct us_stack *stack, struct us_ip ip, const u_u8 *mac);

/* Processes a received router advertisement; rx->l4 is the ICMP header. */
void us_nd_router_input(struct us_stack *stack, const struct us_rx *rx);

/* Removes expired routers and prefixes; the time of the next expiry or solicitation. */
void us_nd_router_expire(struct us_stack *stack);
u_u64 us_nd_router_next_us(const struct us_stack *stack);

/* Sets us_nd.timer to the earliest pending time. */
void us_nd_reschedule(struct us_stack *stack);

/* Process received neighbour solicitations and advertisements; rx->l4 is the ICMP header. */
void us_nd_solicit_input(struct us_stack *stack, const struct us_rx *rx);
void us_nd_advert_input(struct us_stack *stack, const struct us_rx *rx);

/* Builds a solicitation; mac: its destination, null for the solicited-node group. */
void us_nd_build_solicit(struct us_stack *stack, struct us_pkt *pkt, const struct us_ip6 *target,
                         const u_u8 *mac);

/* Builds the advertisement that a US_REPLY_ADVERT describes. */
void us_nd_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply);

/* Options with a MAC address (RFC 4861 4.6.1). */
enum { US_ND_OPT_SOURCE_MAC = 1, US_ND_OPT_TARGET_MAC = 2 };

/*
 * Sets *mac to the MAC address of the first option of a type, or null. The options begin at offset
 * `at` of rx->l4. Returns 0 if they are malformed (RFC 4861 6.1, 7.1: length 0 or beyond the end).
 */
int us_nd_find_mac(const struct us_rx *rx, u_u32 at, unsigned type, const u_u8 **mac);

/*
 * Completes an ICMPv6 message of `bytes` bytes in pkt, behind the IPv6 header and ext_bytes of
 * extension headers: checksum, lengths, counter.
 */
void us_nd_finish(struct us_stack *stack, struct us_pkt *pkt, u_u32 ext_bytes, u_u32 bytes);

/* Builds one pending MLD report, router solicitation, probe or announcement. Returns 0 if none. */
int us_nd_output(struct us_stack *stack, struct us_pkt *pkt);

/* us_nd.timer has expired. */
void us_nd_timer(struct us_stack *stack);

U_INLINE int us_nd_has_output(const struct us_nd *nd)
{
    return (nd->probes_due | nd->adverts_due | nd->solicit_due | nd->mld.joins_due |
            nd->mld.answers_due) != 0;
}

#endif
